"""Laplace noise on every pair of nodes, of which the largest are named (LapGraph of LinkTeller), without n^2 draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from scipy.optimize import brentq

from graphveil.checks import require_cost
from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.flipped_edges import codes, ends, row_starts, told_pairs
from graphveil.vocabulary import Floats, Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor

_SMALLEST_SCALE = 1 / 32
"""Beyond epsilon 32 doubles draw the noise that is needed too coarsely: nothing finite is claimed."""

_MAX_PAIRS = 1 << 22
"""Pairs that are named at most, so that rounding stays below `_ROUNDING`."""

_ROUNDING = 2.0**-14
"""What rounding adds to epsilon at most, charged (docs/methods/lapgraph.md)."""

_CERTAIN = 300.0
"""As a logarithm, odds that nobody doubts, and that doubles hold."""

_STRIDE = 1024
"""Sums run in strides of this many, so that rounding grows with their number and not with that of the terms."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """What is asked: the `count` pairs that rank highest when arcs of `adj` score 1 and other pairs 0.

    `count` is public or was released before; it is cut to 0..all pairs, and to 4,194,304.
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

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        starts = row_starts(asked.adj.num_nodes, self.undirected)
        edges = codes(asked.adj, starts, self.undirected)
        others = int(starts[-1]) - len(edges)
        count = min(max(asked.count, 0), int(starts[-1]), _MAX_PAIRS)
        # In scales, so that nothing overflows however large the scale is.
        scores = (1 / self.scale if self.scale > 0 else math.inf) + source.laplace(len(edges))
        rivals = top_laplace(source, others, min(count, others))
        best = np.argsort(np.concatenate([scores, rivals]))[::-1][:count]
        kept = best[best < len(edges)]
        # Pairs without an edge are alike, so the best of them are any of them.
        strangers = absent(source.subset(others, count - len(kept)), edges)
        # Sorted: the order must not tell edges from strangers.
        said = np.sort(np.concatenate([edges[kept], strangers]))
        return torch.from_numpy(ends(said, starts, self.undirected))

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        first = query(here).adj
        said, more, fewer = told_pairs(answer, first, query(there).adj, self.undirected)
        named, left = self._tell(first, answer.shape[1])
        return sum(
            sign * (named * float(found.sum()) + left * float((~found).sum()))
            for sign, found in ((1, np.isin(more, said)), (-1, np.isin(fewer, said)))
        )

    def _tell(self, adj: Csr, count: int) -> tuple[float, float]:
        """ln of how much likelier an edge is named than another pair, and left out, where `count` of all are named.

        Of a pair whose rivals are many: they leave it a score t to exceed, which `count` of all exceed on average.
        """
        pairs = int(row_starts(adj.num_nodes, self.undirected)[-1])
        edges = len(codes(adj, row_starts(adj.num_nodes, self.undirected), self.undirected))
        if not 0 < count < pairs:
            return 0.0, 0.0
        ahead = min(1 / self.scale, _CERTAIN) if self.scale > 0 else _CERTAIN

        def surplus(t: float) -> float:
            return edges * _exceeds(t - ahead) + (pairs - edges) * _exceeds(t) - count

        t = float(brentq(surplus, -2 * _CERTAIN, 2 * _CERTAIN))
        return math.log(_exceeds(t - ahead) / _exceeds(t)), math.log(_exceeds(ahead - t) / _exceeds(-t))

    def curve(self, sensitivity: float) -> PureCurve:
        """`sensitivity`: how many pairs a neighbour changes."""
        if sensitivity != 1:
            raise InvalidInput(f"a neighbour changes one pair, got {sensitivity}")
        return PureCurve(math.inf if self.scale < _SMALLEST_SCALE else 1 / self.scale + _ROUNDING)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(2.0, undirected=False)


def _exceeds(t: float) -> float:
    """P(L > t) of a standard Laplace variable."""
    return math.exp(-t) / 2 if t > 0 else 1 - math.exp(t) / 2


def top_laplace(source: Source, count: int, top: int) -> Floats:
    """The `top` largest of `count` independent standard Laplace draws, falling, [top], in O(top).

    The least of `count` exponentials are sums g of independent e_i / (count - i + 1) (Renyi 1953): 1 - e^-g is the
    chance to be exceeded, exact however small, and the value that is exceeded with that chance follows.
    """
    # Small uniforms carry the most digits, and both ends of an exponential need them: one half of it comes from each.
    half = source.uniform(top) / 2
    drawn = np.where(source.uniform(top) < 0.5, -np.log(half), -np.log1p(-half))
    spacings = drawn / (count - np.arange(top))
    padded = np.pad(spacings, (0, -top % _STRIDE)).reshape(-1, _STRIDE).cumsum(axis=1)
    sums = (padded + np.concatenate([[0.0], padded[:, -1].cumsum()])[:-1, None]).ravel()[:top]
    # 1 - e^-g <= 1/2 is the upper half. log(2 (1 - s)) = log 2 - g is the lower one.
    upper = -np.log(2 * np.maximum(-np.expm1(-sums), 1e-300))
    return np.asarray(np.where(sums <= math.log(2), upper, math.log(2) - sums))


def absent(ranks: Ids, edges: Ids) -> Ids:
    """The numbers of pairs without an edge, given their ranks among those; `edges` ascend."""
    return ranks + np.searchsorted(edges - np.arange(len(edges)), ranks, side="right")
