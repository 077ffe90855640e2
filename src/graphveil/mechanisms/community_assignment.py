"""Nodes in turn choose a community by the exponential mechanism (PrivGraph, community adjustment; Gumbel noise)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numba
import numpy as np
import torch

from graphveil.checks import require_cost
from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.vocabulary import Floats, Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor

_DEPTH = 32.0
"""No community is less likely than the likeliest by more than e^-32: rarer ones could not be drawn faithfully."""

_LEAN = 64.0
"""No lean is further than this below the largest of its node, so that doubles keep the digits of what is heard."""

_ROUNDING = 2.0**-24
"""What double precision adds to epsilon at most, charged (docs/methods/privgraph.md)."""

_BLOCK = 1 << 20
"""Gumbel draws at a time."""


@dataclass(frozen=True, eq=False)
class Unsettled:
    """What is asked: where every node wants to live, given the communities of those that it hears.

    adj: row i lists the nodes that i hears, private. Public or released before: home: int64 [n], all in 0..k-1;
    lean: float64 [n, k], log weights of the communities before anybody is heard; order: int64 [n], all nodes in turn.
    Leans are cut at 64 below the largest of their row.
    """

    adj: Csr
    home: Ids
    lean: Floats
    order: Ids


@dataclass(frozen=True)
class Settling(Mechanism):
    """Query: `query(sealed) -> Unsettled`. Releases the communities in which all nodes have settled, int64 [n].

    Each node once, in `order`, moves to community j with a chance proportional to e^{lean_j + c_j / scale}, c_j the
    number of nodes that it hears and that live in j at that time. Exponents are cut at 32 below the largest.
    """

    scale: float

    def __post_init__(self) -> None:
        require_cost(self.scale, "scale")

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        home, (nodes, width) = asked.home.copy(), asked.lean.shape
        # Less noise than this is not claimed to protect, so nothing is cut: without noise the most frequent wins.
        depth = _DEPTH if self.scale >= 1 / _DEPTH else math.inf
        rate = 1 / max(self.scale, 1e-300)
        block = max(1, _BLOCK // width)
        for first in range(0, nodes, block):
            turn = asked.order[first : first + block]
            lean = asked.lean[turn]
            lean = np.maximum(lean - lean.max(axis=1, keepdims=True), -_LEAN)
            noise = source.gumbel(lean.size).reshape(lean.shape)
            _settle(asked.adj.indptr, asked.adj.indices, turn, lean, noise, rate, depth, home)
        return torch.from_numpy(home)

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        return sum(
            sign * float(_log_chances(self, query(sealed), answer.numpy()).sum())
            for sign, sealed in ((1, here), (-1, there))
        )

    def curve(self, sensitivity: float) -> PureCurve:
        """`sensitivity`: how many nodes hear somebody more or less; each such move costs 1 / scale."""
        if sensitivity not in (1, 2):
            raise InvalidInput(f"an arc is heard by one node and an edge by two; got {sensitivity}")
        return PureCurve(math.inf if self.scale < 1 / _DEPTH else sensitivity / self.scale + _ROUNDING)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(2.0)


@numba.njit(cache=True, nogil=True)
def _settle(indptr: Any, indices: Any, turn: Any, lean: Any, noise: Any, rate: float, depth: float, home: Any) -> None:
    """Moves the nodes of `turn` in place; lean, and Gumbel noise: [len(turn), k]; depth: exponents below are cut."""
    width = lean.shape[1]
    counts, scores = np.zeros(width, np.int64), np.zeros(width)
    for place in range(len(turn)):
        node = turn[place]
        counts[:] = 0
        for arc in range(indptr[node], indptr[node + 1]):
            counts[home[indices[arc]]] += 1
        # Whole numbers are compared before they are scaled, so that many neighbours cost no digits.
        scores[:] = (counts - counts.max()) * rate + lean[place]
        floor = scores.max() - depth
        best = -np.inf
        for community in range(width):
            score = max(scores[community], floor) + noise[place, community]
            if score > best:
                best = score
                home[node] = community


def _log_chances(act: Settling, asked: Unsettled, settled: Ids) -> Floats:
    """For audits: log chance of every node's move, in turn, when all before it have moved as `settled` says, [n]."""
    home, chances = asked.home.copy(), np.zeros(len(asked.order))
    rate = 1 / max(act.scale, 1e-300)
    for place, node in enumerate(asked.order):
        counts = asked.adj.indices[asked.adj.indptr[node] : asked.adj.indptr[node + 1]]
        lean = asked.lean[node]
        exponents = np.bincount(home[counts], minlength=len(lean)) * rate + np.maximum(lean, lean.max() - _LEAN)
        exponents = np.maximum(exponents, exponents.max() - _DEPTH)
        chances[place] = exponents[settled[node]] - np.logaddexp.reduce(exponents)
        home[node] = settled[node]
    return chances
