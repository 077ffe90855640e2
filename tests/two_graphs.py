"""A small private graph with a public one beside it, for tests of teachers and students."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.nn.teachers import Known
from graphveil.vocabulary import Adjacency

NODE = Adjacency.of("node")
SIZES = Public.blank(2500, 767, 10, num_train=2500)
"""Of the paper's Amazon graph."""


def pair(seed: int = 0) -> Graph:
    """Three communities with features of their own: 120 private nodes, 80 public ones to ask about and 60 to test."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 260)
    links = np.triu(rng.random((260, 260)) < np.where(y[:, None] == y[None], 0.08, 0.01), 1)
    x = np.eye(3)[y] @ rng.standard_normal((3, 20)) + rng.standard_normal((260, 20))
    return Graph.from_scipy(sp.csr_array((links | links.T).astype(float)), x, y).split_public(120, 80, 60, seed=seed)


def known_and_public(words: bool) -> tuple[Known, Tensor, Csr]:
    """The pair as teachers read it: the private graph, public features and public arcs; binary features if `words`."""
    graph = pair()
    assert graph.public_graph is not None
    private, public = ((x > 0).float() if words else x for x in (graph.x, graph.public_graph.x))
    return Known(private, graph.y.clone(), graph.adj, graph.num_classes), public, graph.public_graph.adj


def questions(count: int = 6) -> tuple[list[Ids], Ids]:
    """For every query some of the private nodes, and the public node that it is about."""
    rng = np.random.default_rng(0)
    return [np.flatnonzero(rng.random(120) < 0.4) for _ in range(count)], rng.permutation(140)[:count]
