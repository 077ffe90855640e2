"""Wikipedia pages and their links, directed, with the ten splits of Geom-GCN (Pei et al. 2020).

The 50 self-loops in the raw files are dropped; the public split is column `seed % 10`. Links are directed; in
`chameleon-undirected` a link in either direction is an edge, for methods that know undirected graphs only.
"""

from __future__ import annotations

from graphveil.data.datasets.stored import Stored, pyg_reader


def _chameleon(edges: int, undirected: bool) -> Stored:
    return Stored(
        origin="Wikipedia links (Geom-GCN)",
        nodes=2_277,
        edges=edges,
        splits=("random", "public", "per_class"),
        folder="WikipediaNetwork/chameleon/geom_gcn/raw",
        files=(
            "out1_node_feature_label.txt",
            "out1_graph_edges.txt",
            *(f"chameleon_split_0.6_0.2_{column}.npz" for column in range(10)),
        ),
        reader=pyg_reader("WikipediaNetwork", "WikipediaNetwork", "chameleon"),
        undirected=undirected,
    )


SOURCES = {
    "chameleon": _chameleon(36_051, undirected=False),
    "chameleon-undirected": _chameleon(31_371, undirected=True),
}
