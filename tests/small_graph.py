"""A small random graph, and what tests of graphs share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, settings

from graphveil.auditing.game import Pair
from graphveil.data.graph import Graph

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def same(a: Graph, b: Graph) -> bool:
    return a.fingerprint() == b.fingerprint() and a.split_hash() == b.split_hash()


def small(n: int = 40, classes: int = 3, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((n, n)) < 0.2, 1))
    y = torch.from_numpy(rng.permutation(np.arange(n) % classes))
    return Graph.from_scipy(
        sp.coo_array((np.ones(2 * len(edges)), np.concatenate([edges, edges[:, ::-1]]).T), shape=(n, n)),
        rng.standard_normal((n, 4)).astype(np.float32),
        y.numpy(),
    )


def blanked(graph: Graph, node: int) -> Graph:
    """The neighbour in which there is no record behind an id: no features, no label, no edges."""
    pair = Pair.without_node(graph, node)
    return replace(graph, x=pair.x, y=pair.y, adj=pair.adj)
