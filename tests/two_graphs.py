"""A small private graph with a public one beside it, for tests of teachers and students."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphveil.core import Adjacency
from graphveil.graph import Graph, Public

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
