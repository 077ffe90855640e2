"""Laplace noise on every pair of nodes, of which the largest are named (LapGraph of LinkTeller), without n^2 draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from graphveil.arcs import Csr, Ids
from graphveil.core import Floats, InvalidInput, Mechanism, Query, require_cost
from graphveil.mechanisms.flipped_edges import codes, ends, row_starts
from graphveil.mechanisms.laplace import LaplaceCurve

if TYPE_CHECKING:
    from torch import Tensor

    from graphveil.graph import Sealed
    from graphveil.noise import Source

_LEAST = 1 / 64
"""Beyond epsilon 64 the noise that is needed lies further out than a double can draw it: nothing finite is claimed."""

_STRIDE = 1024
"""Sums run in strides of this many, so that rounding grows with their number and not with that of the terms."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """What is asked: the `count` pairs that rank highest when arcs of `adj` score 1 and other pairs 0.

    `count` is public or was released before; it is cut to 0..all pairs.
    """

    adj: Csr
    count: int


@dataclass(frozen=True)
class TopPairs(Mechanism):
    """Query: `query(sealed) -> Ranked`. Releases the pairs of largest noisy score: sources, targets, int64 [2, k].

    Every pair's score gets Laplace noise of its own, of scale `scale`. Only which pairs come first is told, so that is
    post-processing of a Laplace mechanism on all scores, one of which a neighbour moves by 1. Pairs are {i, j} if
    `undirected`, else i -> j, in ascending order of target and source; sources are lower if `undirected`.
    """

    scale: float
    undirected: bool = True

    def __post_init__(self) -> None:
        require_cost(self.scale, "scale")

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        starts = row_starts(asked.adj.num_nodes, self.undirected)
        edges = codes(asked.adj, starts, self.undirected)
        others = int(starts[-1]) - len(edges)
        count = min(max(asked.count, 0), int(starts[-1]))
        scores = 1 + self.scale * source.laplace(len(edges))
        rivals = self.scale * top_laplace(source, others, min(count, others))
        best = np.argsort(np.concatenate([scores, rivals]))[::-1][:count]
        kept = best[best < len(edges)]
        # Pairs without an edge are alike, so the best of them are any of them.
        strangers = absent(source.subset(others, count - len(kept)), edges)
        # Sorted: the order must not tell edges from strangers.
        said = np.sort(np.concatenate([edges[kept], strangers]))
        return torch.from_numpy(ends(said, starts, self.undirected))

    def curve(self, sensitivity: float) -> LaplaceCurve:
        """`sensitivity`: how many pairs a neighbour changes."""
        if sensitivity != 1:
            raise InvalidInput(f"a neighbour changes one pair, got {sensitivity}")
        return LaplaceCurve(math.inf if self.scale < _LEAST else 1 / self.scale)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(2.0, undirected=False)


def top_laplace(source: Source, count: int, top: int) -> Floats:
    """The `top` largest of `count` independent standard Laplace draws, falling, [top], in O(top).

    The least of `count` exponentials are sums g of independent e_i / (count - i + 1) (Renyi 1953): 1 - e^-g is the
    chance to be exceeded, exact however small, and the value that is exceeded with that chance follows.
    """
    spacings = -np.log(source.uniform(top)) / (count - np.arange(top))
    padded = np.pad(spacings, (0, -top % _STRIDE)).reshape(-1, _STRIDE).cumsum(axis=1)
    sums = (padded + np.concatenate([[0.0], padded[:, -1].cumsum()])[:-1, None]).ravel()[:top]
    # 1 - e^-g <= 1/2 is the upper half. log(2 (1 - s)) = log 2 - g is the lower one.
    upper = -np.log(2 * np.maximum(-np.expm1(-sums), 1e-300))
    return np.asarray(np.where(sums <= math.log(2), upper, math.log(2) - sums))


def absent(ranks: Ids, edges: Ids) -> Ids:
    """The numbers of pairs without an edge, given their ranks among those; `edges` ascend."""
    return ranks + np.searchsorted(edges - np.arange(len(edges)), ranks, side="right")
