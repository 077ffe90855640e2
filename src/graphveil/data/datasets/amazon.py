"""Amazon co-purchases with bag-of-words features (Shchur et al. 2018)."""

from __future__ import annotations

from typing import Any

from graphveil.data.datasets.stored import Stored


def _source(name: str, nodes: int, edges: int) -> Stored:
    def read(root: str) -> Any:
        from torch_geometric.datasets import Amazon

        return Amazon(f"{root}/Amazon", name)

    return Stored(
        origin="Amazon co-purchases",
        nodes=nodes,
        edges=edges,
        splits=("random", "per_class"),
        folder=f"Amazon/{name}/raw",
        files=(f"amazon_electronics_{name.lower()}.npz",),
        reader=read,
    )


SOURCES = {
    "computers": _source("Computers", 13_752, 245_861),
    "photo": _source("Photo", 7_650, 119_081),
}
