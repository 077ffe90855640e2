"""Small graphs and the sum that a step would release, asked of two neighbours with the same coins and no noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from neighbours import Silent, Sketch, roles
from torch import Tensor

from blocks_of import random_links
from graphveil.data.graph import Graph
from graphveil.data.sealing import Sealed
from graphveil.vocabulary import Mechanism, Query

thirds = pytest.mark.parametrize(
    "third", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
"""Of what variants of a method share out among them with `every_small_sketch`."""


def every_small_sketch(share: int, shares: int) -> Iterator[Sketch]:
    """Every undirected graph of 2 to 4 nodes, and one share of those with 5: the variants of a method take turns."""
    for nodes in range(2, 6):
        above = np.flatnonzero(np.triu(np.ones((nodes, nodes), dtype=bool), 1).ravel())
        for code in range(2 ** len(above)):
            if nodes == 5 and code % shares != share:
                continue
            links = np.zeros((nodes, nodes), dtype=bool)
            links.flat[above] = (code >> np.arange(len(above))) & 1
            yield dressed(links | links.T, undirected=True, seed=code)


def random_sketches(count: int, largest: int = 12) -> Iterator[Sketch]:
    """Directed and undirected graphs of 6 .. `largest` nodes in turn."""
    rng = np.random.default_rng(5)
    for turn in range(count):
        links = random_links(rng, int(rng.integers(6, largest + 1)), undirected=turn % 2 == 0)
        yield dressed(links, undirected=turn % 2 == 0, seed=turn)


def dressed(links: np.ndarray, undirected: bool, seed: int) -> Sketch:
    """The graph with features of all sizes and labels of two classes, both of which occur."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((len(links), 3)) * 10 ** rng.uniform(-2, 2, (len(links), 1))
    y = torch.from_numpy(rng.permutation(np.arange(len(links)) % 2))
    return Sketch(links, torch.from_numpy(x.astype(np.float32)), y, undirected)


def graph_of(sketch: Sketch) -> Graph:
    """As a library graph of two classes, of which every id is said to be present."""
    made = Graph(sketch.x, sketch.adj(), sketch.y, 2, sketch.undirected, *roles(len(sketch.y)), "small", "thirds")
    return made.with_every_id_present()


def nodes_to_change(sketch: Sketch, coins: int) -> list[int]:
    """Every node; but one of five, because all relabelled copies of a graph with five nodes come up as well."""
    count = len(sketch.y)
    return [coins % 5] if count == 5 else list(range(count))


def summed(act: Mechanism, sealed: Sealed, query: Query, coins: int) -> Tensor:
    """What the act would perturb, float64."""
    with sealed.opened():
        return act.apply(sealed, query, Silent(coins)).double()
