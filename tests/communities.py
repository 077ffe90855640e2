"""A small graph with three communities, for tests that need edges to tell more than features do."""

from __future__ import annotations

import numpy as np
import torch
from neighbours import Sketch

from graphveil.data.graph import Graph


def communities(nodes: int, seed: int, width: int = 5, lift: float = 0.5) -> Graph:
    """Three classes; nodes of one class are joined ten times as often. Column y of the noise x [n, width] is lifted."""
    rng = np.random.default_rng(seed)
    y = np.arange(nodes) % 3
    links = np.triu(rng.random((nodes, nodes)) < np.where(y[:, None] == y, 0.10, 0.01), 1)
    x = rng.standard_normal((nodes, width)) + lift * np.eye(width)[y]
    return Sketch(links | links.T, torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y), True).graph()
