"""Full citation networks, symmetrised by PyG (Bojchevski and Günnemann 2018)."""

from __future__ import annotations

from typing import Any

from graphveil.data.datasets.stored import Stored


def _source(name: str, nodes: int, edges: int) -> Stored:
    def read(root: str) -> Any:
        from torch_geometric.datasets import CitationFull

        return CitationFull(f"{root}/CitationFull", name)

    return Stored(
        origin="CitationFull citations",
        nodes=nodes,
        edges=edges,
        splits=("random", "per_class"),
        folder=f"CitationFull/{name}/raw",
        files=(f"{name}.npz",),
        reader=read,
    )


SOURCES = {
    "cora_ml": _source("cora_ml", 2_995, 8_158),
    "dblp": _source("dblp", 17_716, 52_867),
}
