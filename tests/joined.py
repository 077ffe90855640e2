"""A graph whose edges its features do not give away: noise for features, random edges, labels that edges made."""

from __future__ import annotations

import numpy as np
import torch
from neighbours import Sketch

from graphveil.auditing.game import Target
from graphveil.data.graph import Graph
from graphveil.methods.method import Method
from graphveil.vocabulary import Unit


def unrelated(nodes: int = 300, seed: int = 0, degree: float = 2.0, width: int = 16) -> Graph:
    """Features are independent; a node's class is where the sum over itself and its neighbours is largest."""
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((nodes, nodes)) < degree / nodes, 1)
    links = links | links.T
    x = rng.standard_normal((nodes, width))
    y = (x + links @ x)[:, :3].argmax(axis=1)
    sketch = Sketch(links, torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y), True)
    return sketch.graph().random_split(seed=seed)


def attacked(method: Method, epsilon: float = float("inf"), seed: int = 0) -> Target:
    """A model trained on such a graph."""
    return Target(unrelated(seed=seed), method, Unit.EDGE, epsilon=epsilon, seed=seed)
