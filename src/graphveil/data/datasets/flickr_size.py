"""A made-up social network with as many nodes, edges, features and classes as Flickr (Zeng et al. 2020)."""

from __future__ import annotations

from dataclasses import replace

from graphveil.data.datasets.source import Generated
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph


def flickr_size() -> Graph:
    """`social` at Flickr's size, without a split; the degree makes up for edges that are drawn twice."""
    graph = social(num_nodes=89_250, num_classes=7, num_features=500, average_degree=10.1, homophily=0.5)
    return replace(graph, name="flickr-size")


def _public(graph: Graph, seed: int) -> Graph:
    """Flickr's shares: half of the nodes train, a quarter each validates and tests."""
    return graph.random_split(train=0.5, val=0.25, test=0.25, seed=seed)


SOURCES = {
    "flickr-size": Generated(
        origin="synthetic, of Flickr's size",
        nodes=89_250,
        edges=450_536,
        splits=("random", "public"),
        make=flickr_size,
        public=_public,
    )
}
