"""Citation networks with bag-of-words features (Yang et al. 2016), with their public split.

Its training nodes are 20 of every class, so it was drawn by looking at labels.
"""

from __future__ import annotations

from graphveil.data.datasets.stored import Stored, pyg_reader


def _source(name: str, nodes: int, edges: int) -> Stored:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return Stored(
        origin="Planetoid citations",
        nodes=nodes,
        edges=edges,
        splits=("random", "public", "per_class"),
        folder=f"Planetoid/{name}/raw",
        files=tuple(f"ind.{name.lower()}.{part}" for part in parts),
        reader=pyg_reader("Planetoid", "Planetoid", name),
        public_reads_labels=True,
    )


SOURCES = {
    "cora": _source("Cora", 2_708, 5_278),
    "citeseer": _source("CiteSeer", 3_327, 4_552),
    "pubmed": _source("PubMed", 19_717, 44_324),
}
