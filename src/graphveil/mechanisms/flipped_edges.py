"""Asymmetric randomised response on every pair of nodes (Imola et al. 2022), in the time of its output."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from graphveil.checks import require_cost
from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import DominatingPair, PureCurve
from graphveil.vocabulary import Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 1 << 20
"""Skips drawn at a time."""

_SMALLEST_CHANCE = 2.0**-25
"""No pair says yes without an edge more rarely than this: double precision would distort rarer lies."""

_ROUNDING = 2.0**-18
"""What double precision adds to a pair's epsilon at most: 2^-43 / `_SMALLEST_CHANCE`, charged."""

_LARGEST = 17.0
"""Beyond this epsilon even the share 1 lies more rarely than `_SMALLEST_CHANCE`, so that nothing finite is claimed."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked: whether each pair of nodes is among the arcs `adj`, and a public `share` of the yeses to keep."""

    adj: Csr
    share: float = 1.0


def asked(sealed: SealedGraph, share: float) -> Asked:
    """Query: which pairs are edges, and the `share` of yeses to keep, which is public or was released before."""
    return Asked(sealed.adj, share)


def counted(sealed: SealedGraph, undirected: bool) -> Tensor:
    """Query: a one for every pair that is an edge, [m, 1]."""
    found = codes(sealed.adj, row_starts(sealed.adj.num_nodes, undirected), undirected)
    return torch.ones(len(found), 1, device="cpu")


@dataclass(frozen=True)
class FlippedEdges(Mechanism):
    """Query: `query(sealed) -> Asked`. Releases the pairs that answer yes, once each: sources, targets, int64 [2, k].

    Every pair answers by itself: an edge says yes with probability `keep`, a pair without an edge with probability
    `add`; keep = share e^epsilon / (1 + e^epsilon), add = share / (1 + e^epsilon). So keep / add = e^epsilon for every
    share, and `share` may be anything that is public or was released before. Pairs are {i, j} if `undirected`, else
    i -> j, and none is a loop. They come in ascending order of target and source; sources are lower if `undirected`.
    """

    epsilon: float
    undirected: bool = True

    def __post_init__(self) -> None:
        require_cost(self.epsilon, "epsilon")

    def chances(self, share: float) -> tuple[float, float]:
        """(keep, add) for a share, which is first brought into the range that doubles can sample; 0 keeps nothing."""
        if not share > 0:
            return 0.0, 0.0
        lies = math.exp(-self.epsilon)
        truth, lie = 1 / (1 + lies), lies / (1 + lies)
        kept = min(share if self.epsilon > _LARGEST else max(share, _SMALLEST_CHANCE / lie), 1.0)
        return kept * truth, kept * lie

    def share(self, pairs: int, edges: float, wanted: float) -> float:
        """The share that makes `wanted` yeses expected among `pairs` pairs of which `edges` are edges."""
        keep, add = self.chances(1.0)
        known = min(max(edges, 0.0), float(pairs))
        most = keep * known + add * (pairs - known)
        return min(max(wanted, 0.0) / most, 1.0) if most > 0 else 1.0

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        keep, add = self.chances(asked.share)
        starts = row_starts(asked.adj.num_nodes, self.undirected)
        edges = codes(asked.adj, starts, self.undirected)
        # The yeses of pairs without an edge are drawn for all pairs alike, so these draws know nothing of the graph;
        # what they say of a pair that has an edge is not used.
        yes = without(lit(source, int(starts[-1]), add), edges)
        said = np.concatenate([edges[source.coins(len(edges), keep).numpy()], yes])
        # Sorted: the order must not tell edges from lies. Two ascending runs, which a stable sort merges.
        return torch.from_numpy(ends(np.sort(said, kind="stable"), starts, self.undirected))

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        first, second = query(here), query(there)
        said, more, fewer = told_pairs(answer, first.adj, second.adj, self.undirected)
        keep, add = self.chances(first.share)
        yes, no = (_log(keep) - _log(add), math.log1p(-keep) - math.log1p(-add)) if keep < 1 else (math.inf, -math.inf)
        return sum(
            sign * (yes * int(found.sum()) + no * int((~found).sum()) if len(found) else 0.0)
            for sign, found in ((1, np.isin(more, said)), (-1, np.isin(fewer, said)))
        )

    def curve(self, sensitivity: float) -> PureCurve | DominatingPair:
        """`sensitivity`: how many pairs a neighbour changes; 2 where both arcs of an edge answer for themselves."""
        if sensitivity not in (1, 2):
            raise InvalidInput(f"a neighbour changes one pair, or both arcs of an edge; got {sensitivity}")
        if self.epsilon > _LARGEST:
            return PureCurve(math.inf)
        charged = self.epsilon + _ROUNDING
        if sensitivity == 1:
            return PureCurve(charged)
        lies = math.exp(-charged)
        truth, lie = 1 / (1 + lies), lies / (1 + lies)
        return DominatingPair((truth**2, 2 * truth * lie, lie**2), (lie**2, 2 * truth * lie, truth**2))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(0.5, undirected=False)


def told_pairs(answer: Tensor, here: Csr, there: Csr, undirected: bool) -> tuple[Ids, Ids, Ids]:
    """For audits: numbers of the pairs that an answer [2, k] names, and of those that only one of two graphs has."""
    starts = row_starts(here.num_nodes, undirected)
    first, second = codes(here, starts, undirected), codes(there, starts, undirected)
    sources, targets = answer.numpy()
    said = starts[targets] + sources - (0 if undirected else sources > targets)
    return said, np.setdiff1d(first, second), np.setdiff1d(second, first)


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else -math.inf


def row_starts(num_nodes: int, undirected: bool) -> Ids:
    """Pairs are numbered by target, then source: the number of the first pair of every target, int64 [n + 1]."""
    nodes = np.arange(num_nodes + 1)
    return nodes * (nodes - 1) // 2 if undirected else nodes * max(num_nodes - 1, 0)


def codes(adj: Csr, starts: Ids, undirected: bool) -> Ids:
    """The numbers of the pairs that are arcs, ascending, int64 [k]; of an undirected edge one arc counts. No loops."""
    sources, targets = adj.indices, adj.targets()
    lower = sources < targets
    if undirected:
        return starts[targets[lower]] + sources[lower]
    proper = np.flatnonzero(sources != targets)
    return starts[targets[proper]] + sources[proper] - ~lower[proper]


def ends(numbers: Ids, starts: Ids, undirected: bool) -> Ids:
    """Inverse of `codes`: sources and targets of ascending pair numbers, int64 [2, k]."""
    targets = np.repeat(np.arange(len(starts) - 1), np.diff(np.searchsorted(numbers, starts)))
    sources = numbers - starts[targets]
    return np.stack([sources if undirected else sources + (sources >= targets), targets])


def lit(source: Source, count: int, rate: float) -> Ids:
    """Which of `count` independent coins of probability `rate` come up, ascending, int64 [k], in O(k) draws."""
    if rate == 0:
        return np.empty(0, np.int64)
    found, last = [], -1
    while last < count:
        expected = (count - last) * rate
        size = int(min(expected + 4 * math.sqrt(expected) + 16, _BLOCK, 2.0**62 / (count + 1)))
        # A skip beyond the end is cut there: sums of a block stay below 2^63.
        places = last + np.cumsum(np.minimum(source.skips(size, rate), count) + 1)
        found.append(places[places < count])
        last = int(places[-1])
    return np.concatenate(found)


def without(numbers: Ids, others: Ids) -> Ids:
    """The `numbers` that are not among `others`; both ascend without repeats."""
    at = np.searchsorted(numbers, others)
    inside = at < len(numbers)
    at, wanted = at[inside], others[inside]
    return np.delete(numbers, at[numbers[at] == wanted])
