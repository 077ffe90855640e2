"""A random graph with given communities, degrees inside them and edges between them, in the time of its edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.data.arcs import Ids
from graphveil.vocabulary import Floats


@dataclass(frozen=True, eq=False)
class CommunityGraph:
    """home: int64 [n], in 0..k-1, all of which occur. The pair of communities a > b has the number a (a - 1) / 2 + b.

    degrees: expected neighbours inside the own community [n]; between: expected edges of each pair of communities.
    """

    home: Ids
    degrees: Floats
    between: Floats

    @classmethod
    def fitted(cls, home: Ids, degrees: Floats, between: Floats, most: int) -> CommunityGraph:
        """From noisy numbers: those below 0 go and the others are lowered, so that sums stay (`norm_sub`).

        A node has fewer neighbours than its community members, a pair of communities at most all its edges, and the
        graph `most` expected edges: all of them are thinned alike where there would be more.
        """
        sizes = np.bincount(home)
        inside = np.zeros(len(home))
        for members in np.split(np.argsort(home, kind="stable"), np.cumsum(sizes)[:-1]):
            inside[members] = np.minimum(norm_sub(degrees[members]), max(len(members) - 1, 0))
        upper, lower = np.tril_indices(len(sizes), -1)
        across = np.minimum(norm_sub(between), sizes[upper].astype(np.float64) * sizes[lower])
        thin = min(1.0, most / max(inside.sum() / 2 + across.sum(), 1.0))
        return cls(home, inside * thin, across * thin)

    def draw(self, rng: np.random.Generator) -> Ids:
        """Pairs lower < higher, each once, int64 [2, m].

        Inside a community with the sum of degrees W the pair {i, j} appears with chance 1 - e^{-d_i d_j / W}, which is
        Chung & Lu's d_i d_j / W where that is small (Norros & Reittu 2006). Between communities as many pairs are drawn
        uniformly as edges are expected. Of pairs that are drawn twice one is kept.
        """
        pairs = np.concatenate([self._inside(rng), self._across(rng)], axis=1)
        lower, higher = pairs.min(axis=0), pairs.max(axis=0)
        codes = np.unique((higher * len(self.home) + lower)[lower != higher])
        return np.stack([codes % len(self.home), codes // len(self.home)])

    def _inside(self, rng: np.random.Generator) -> Ids:
        """Poisson(sum of degrees / 2) pairs, both ends drawn by degree, the second from the community of the first."""
        order = np.argsort(self.home, kind="stable")
        ends = np.cumsum(np.bincount(self.home))
        sums = np.concatenate([[0.0], np.cumsum(self.degrees[order])])
        total = rng.poisson(sums[-1] / 2)
        first = np.searchsorted(sums, rng.random(total) * sums[-1], side="right") - 1
        first = np.minimum(first, len(order) - 1)
        community = self.home[order[first]]
        low, high = sums[np.concatenate([[0], ends[:-1]])[community]], sums[ends[community]]
        second = np.searchsorted(sums, low + rng.random(total) * (high - low), side="right") - 1
        return np.stack([order[first], order[np.minimum(second, ends[community] - 1)]])

    def _across(self, rng: np.random.Generator) -> Ids:
        """As many pairs as are expected, rounded up or down at random, with uniform ends in either community."""
        sizes = np.bincount(self.home)
        order, starts = np.argsort(self.home, kind="stable"), np.cumsum(sizes) - sizes
        wanted = np.floor(self.between + rng.random(len(self.between))).astype(np.int64)
        sides = np.repeat(np.stack(np.tril_indices(len(sizes), -1)), wanted, axis=1)
        places = (rng.random(sides.shape) * sizes[sides]).astype(np.int64)
        return np.asarray(order[starts[sides] + places])


def norm_sub(noisy: Floats) -> Floats:
    """max(noisy - shift, 0) with the shift that keeps their sum, all 0 if that is below 0, [k] (Wang et al. 2020)."""
    total = noisy.sum()
    if not total > 0:
        return np.zeros(len(noisy))
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    return np.asarray(np.maximum(noisy - over[np.flatnonzero(falling > over)[-1]], 0.0))
