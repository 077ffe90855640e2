"""The made-up graph of Flickr's size has Flickr's sizes."""

from __future__ import annotations

from graphveil.data import datasets


def test_sizes_and_split() -> None:
    graph = datasets.load("flickr-size", split="public", seed=1)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (89_250, 500, 7)
    row = next(row for row in datasets.describe() if row["name"] == "flickr-size")
    assert graph.num_edges == row["edges"]
    # Zeng et al. count 899,756 arcs and 44,625 training nodes.
    assert abs(graph.adj.num_arcs - 899_756) < 0.01 * 899_756
    assert int(graph.train.sum()) == 44_625
