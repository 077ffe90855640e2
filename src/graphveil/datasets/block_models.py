"""Graphs of the kinds that users have and no paper uses, made on the spot: docs/leaderboard.md says why these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from graphveil.core import Floats
from graphveil.datasets.source import Generated
from graphveil.datasets.synthetic import TAIL, both_ways, pick
from graphveil.graph.arcs import Csr, Ids
from graphveil.graph.graph import Graph


@dataclass(frozen=True)
class Recipe:
    """A stochastic block model with Gaussian features.

    assortative: share of the edges that stay in their class on purpose, or that leave it on purpose if negative; the
    others end anywhere. telling: length of the centres of features beside noise of length 1 in a random direction.
    kinds: centres of a class, so that two make its border no plane. tail: exponent of the Pareto law by which nodes are
    drawn as ends; None draws all alike. answered: share of the arcs with an arc back; None is an undirected graph.
    """

    shares: tuple[float, ...]
    nodes: int = 3000
    features: int = 50
    degree: float = 10.0
    assortative: float = 0.75
    telling: float = 0.25
    kinds: int = 1
    tail: float | None = None
    answered: float | None = None

    def graph(self, name: str, seed: int = 0) -> Graph:
        """The graph that follows from the seed, without a split."""
        rng = np.random.Generator(np.random.PCG64(seed))
        shares = np.array(self.shares) / sum(self.shares)
        y = rng.permutation(np.searchsorted(shares.cumsum(), (np.arange(self.nodes) + 0.5) / self.nodes))
        x = torch.from_numpy(self._features(y, rng))
        none, known = torch.zeros(self.nodes, dtype=torch.bool), self.answered is None
        parts = (x, self._arcs(y, rng), torch.from_numpy(y), len(shares), known, none, none, none)
        return Graph(*parts, name, "none", every_id_present=True)

    def _features(self, y: Ids, rng: np.random.Generator) -> NDArray[np.float32]:
        """float32 [n, d]: the centre of a node's class and kind, and noise."""
        centres = rng.standard_normal((len(self.shares), self.kinds, self.features))
        centres *= self.telling / np.linalg.norm(centres, axis=2, keepdims=True)
        noise = rng.standard_normal((self.nodes, self.features)) / np.sqrt(self.features)
        kind = rng.integers(self.kinds, size=self.nodes) if self.kinds > 1 else 0
        return np.asarray(centres[y, kind] + noise, dtype=np.float32)

    def _arcs(self, y: Ids, rng: np.random.Generator) -> Csr:
        """Both ends are drawn by sociability; in a directed graph, who points and who is pointed to apart."""
        active = self._reach(rng)
        if self.answered is None:
            sources, targets = self._ends(y, active, active, round(self.nodes * self.degree / 2), rng)
            return both_ways(sources, targets, self.nodes)
        count = round(self.nodes * self.degree / (1 + self.answered))
        sources, targets = self._ends(y, active, self._reach(rng), count, rng)
        back = rng.random(count) < self.answered
        pairs = np.stack([np.r_[sources, targets[back]], np.r_[targets, sources[back]]])
        pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
        return Csr.from_edge_index(pairs[0], pairs[1], self.nodes)

    def _ends(self, y: Ids, active: Floats, popular: Floats, count: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Where `count` edges begin and end, int64 [count] each."""
        order, classes = np.argsort(y, kind="stable"), len(self.shares)
        sources = order[pick(active, rng.random(count) * active[-1])]
        borders = popular[np.concatenate([[0], np.cumsum(np.bincount(y, minlength=classes))])]
        meant = rng.random(count) < abs(self.assortative)
        shift = 0 if self.assortative >= 0 else rng.integers(1, classes, count)
        goal = (y[sources] + shift) % classes
        low, high = np.where(meant, borders[goal], 0.0), np.where(meant, borders[goal + 1], popular[-1])
        return sources, order[pick(popular, low + rng.random(count) * (high - low))]

    def _reach(self, rng: np.random.Generator) -> Floats:
        """Where the interval of each node begins and the last one ends, by class, [n + 1]."""
        drawn = np.ones(self.nodes) if self.tail is None else rng.pareto(self.tail, self.nodes) + 1
        return np.concatenate([[0.0], np.cumsum(drawn)])


UNEVEN = (30, 20, 15, 12, 10, 8, 5)
"""Shares of classes where none is rare and none is most of the graph."""
RECIPES = {
    "unequal": Recipe((90, 10), nodes=4000, assortative=0.4, telling=0.3, kinds=2, tail=TAIL),
    "ten-features": Recipe(UNEVEN[:5], nodes=4000, features=10, assortative=0.5, telling=0.6, kinds=2, tail=TAIL),
    "sixty-classes": Recipe(
        tuple(rank**-0.5 for rank in range(1, 61)), nodes=6000, assortative=0.4, telling=0.45, kinds=2, tail=TAIL
    ),
    "reciprocal": Recipe(UNEVEN[:5], nodes=4000, assortative=0.4, kinds=2, tail=TAIL, answered=0.3),
    "thirty-thousand": Recipe(UNEVEN, nodes=30_000, assortative=0.5, kinds=2, tail=TAIL),
}

_EDGES = {
    "unequal": 19_932,
    "ten-features": 19_840,
    "sixty-classes": 29_259,
    "reciprocal": 39_768,
    "thirty-thousand": 149_809,
}

SOURCES = {
    name: Generated(
        origin="made up, of a kind that users have",
        nodes=recipe.nodes,
        edges=_EDGES[name],
        splits=("random", "per_class"),
        make=partial(recipe.graph, name),
    )
    for name, recipe in RECIPES.items()
}
