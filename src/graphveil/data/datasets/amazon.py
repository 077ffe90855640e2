"""Amazon co-purchases with bag-of-words features (Shchur et al. 2018)."""

from __future__ import annotations

from graphveil.data.datasets.stored import Stored, pyg_reader


def _source(name: str, nodes: int, edges: int) -> Stored:
    return Stored(
        origin="Amazon co-purchases",
        nodes=nodes,
        edges=edges,
        splits=("random", "per_class"),
        folder=f"Amazon/{name}/raw",
        files=(f"amazon_electronics_{name.lower()}.npz",),
        reader=pyg_reader("Amazon", "Amazon", name),
    )


SOURCES = {
    "computers": _source("Computers", 13_752, 245_861),
    "photo": _source("Photo", 7_650, 119_081),
}
