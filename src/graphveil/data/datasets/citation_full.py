"""Full citation networks, symmetrised by PyG (Bojchevski and Günnemann 2018)."""

from __future__ import annotations

from graphveil.data.datasets.stored import Stored, pyg_reader


def _source(name: str, nodes: int, edges: int) -> Stored:
    return Stored(
        origin="CitationFull citations",
        nodes=nodes,
        edges=edges,
        splits=("random", "per_class"),
        folder=f"CitationFull/{name}/raw",
        files=(f"{name}.npz",),
        reader=pyg_reader("CitationFull", "CitationFull", name),
    )


SOURCES = {
    "cora_ml": _source("cora_ml", 2_995, 8_158),
    "dblp": _source("dblp", 17_716, 52_867),
}
