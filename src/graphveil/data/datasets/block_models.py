"""Generated graphs of the kinds that users have and no paper uses; docs/leaderboard.md gives the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from graphveil.data.arcs import Csr, Ids
from graphveil.data.datasets.source import Generated
from graphveil.data.datasets.synthetic import TAIL, both_ways, pick
from graphveil.data.graph import Graph
from graphveil.vocabulary import Floats


@dataclass(frozen=True)
class BlockModel:
    """A stochastic block model with Gaussian features.

    assortative: share of the edges that stay in their class on purpose, or that leave it on purpose if negative; the
    others end anywhere. signal: length of the centres of features beside noise of length 1 in a random direction.
    kinds: centres of a class; edges that stay in the class stay in the kind. tail: exponent of the Pareto law by which
    nodes are drawn as ends; None draws all alike. reciprocated: share of the drawn arcs that get an opposite one; None:
    undirected.
    """

    shares: tuple[float, ...]
    nodes: int = 3000
    features: int = 50
    degree: float = 10.0
    assortative: float = 0.75
    signal: float = 0.25
    kinds: int = 1
    tail: float | None = None
    reciprocated: float | None = None

    def graph(self, name: str, seed: int = 0) -> Graph:
        """The graph that follows from the seed, without a split."""
        rng = np.random.Generator(np.random.PCG64(seed))
        shares = np.array(self.shares) / sum(self.shares)
        y = rng.permutation(np.searchsorted(shares.cumsum(), (np.arange(self.nodes) + 0.5) / self.nodes))
        group = y * self.kinds + rng.integers(self.kinds, size=self.nodes)
        x = torch.from_numpy(self._features(group, rng))
        none, known = torch.zeros(self.nodes, dtype=torch.bool), self.reciprocated is None
        parts = (x, self._arcs(group, rng), torch.from_numpy(y), len(shares), known, none, none, none)
        return Graph(*parts, name, "none", every_id_present=True)

    @property
    def _groups(self) -> int:
        """Kinds of all classes; those of a class follow one another."""
        return len(self.shares) * self.kinds

    def _features(self, group: Ids, rng: np.random.Generator) -> NDArray[np.float32]:
        """float32 [n, d]: the centre of a node's group, and noise."""
        centres = rng.standard_normal((self._groups, self.features))
        centres *= self.signal / np.linalg.norm(centres, axis=1, keepdims=True)
        noise = rng.standard_normal((self.nodes, self.features)) / np.sqrt(self.features)
        return np.asarray(centres[group] + noise, dtype=np.float32)

    def _arcs(self, group: Ids, rng: np.random.Generator) -> Csr:
        """Both ends are drawn by sociability; in a directed graph, who points and who is pointed to apart."""
        active = self._intervals(rng)
        if self.reciprocated is None:
            sources, targets = self._ends(group, active, active, round(self.nodes * self.degree / 2), rng)
            return both_ways(sources, targets, self.nodes)
        count = round(self.nodes * self.degree / (1 + self.reciprocated))
        sources, targets = self._ends(group, active, self._intervals(rng), count, rng)
        back = rng.random(count) < self.reciprocated
        pairs = np.stack([np.r_[sources, targets[back]], np.r_[targets, sources[back]]])
        pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
        return Csr.from_edge_index(pairs[0], pairs[1], self.nodes)

    def _ends(
        self, group: Ids, active: Floats, popular: Floats, count: int, rng: np.random.Generator
    ) -> tuple[Ids, Ids]:
        """Where `count` edges begin and end, int64 [count] each."""
        order = np.argsort(group, kind="stable")
        sources = order[pick(active, rng.random(count) * active[-1])]
        borders = popular[np.concatenate([[0], np.cumsum(np.bincount(group, minlength=self._groups))])]
        meant = rng.random(count) < abs(self.assortative)
        shift = 0 if self.assortative >= 0 else self.kinds * rng.integers(1, len(self.shares), count)
        goal = (group[sources] + shift) % self._groups
        low, high = np.where(meant, borders[goal], 0.0), np.where(meant, borders[goal + 1], popular[-1])
        return sources, order[pick(popular, low + rng.random(count) * (high - low))]

    def _intervals(self, rng: np.random.Generator) -> Floats:
        """Where the interval of each node begins and the last one ends, by class, [n + 1]."""
        drawn = np.ones(self.nodes) if self.tail is None else rng.pareto(self.tail, self.nodes) + 1
        return np.concatenate([[0.0], np.cumsum(drawn)])


UNEVEN = (30, 20, 15, 12, 10, 8, 5)
"""Shares of classes where none is rare and none is most of the graph."""
MODELS = {
    "unequal": BlockModel((90, 10), nodes=4000, assortative=0.4, signal=0.3, kinds=2, tail=TAIL),
    "ten-features": BlockModel(UNEVEN[:5], nodes=4000, features=10, assortative=0.5, signal=0.6, kinds=2, tail=TAIL),
    "sixty-classes": BlockModel(
        tuple(rank**-0.5 for rank in range(1, 61)), nodes=6000, assortative=0.4, signal=0.45, kinds=2, tail=TAIL
    ),
    "reciprocal": BlockModel(UNEVEN[:5], nodes=4000, assortative=0.4, kinds=2, tail=TAIL, reciprocated=0.3),
    "thirty-thousand": BlockModel(UNEVEN, nodes=30_000, assortative=0.5, kinds=2, tail=TAIL),
}

_EDGES = {
    "unequal": 19_905,
    "ten-features": 19_731,
    "sixty-classes": 28_781,
    "reciprocal": 39_648,
    "thirty-thousand": 149_676,
}

SOURCES = {
    name: Generated(
        origin="made up, of a kind that users have",
        nodes=model.nodes,
        edges=_EDGES[name],
        splits=("random", "per_class"),
        make=partial(model.graph, name),
    )
    for name, model in MODELS.items()
}
