"""Contractive message passing: many noisy hops of which only the last state leaves (CARIBOU, Algorithm 1, Theorem 3).

The states in between stay hidden and every hop is a contraction, so the cost converges in the number of hops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from graphveil.checks import require_cost, require_positive, require_whole
from graphveil.errors import InvalidInput
from graphveil.mechanisms.additive import certain
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.nn.aggregate import NeighbourSums, clip_rows, neighbour_sum
from graphveil.vocabulary import Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from graphveil.data.arcs import Csr, Ids


@dataclass(frozen=True)
class Contractive(Mechanism):
    """Query: `query(sealed) -> NeighbourSums`, whose rows [n, d] are public and whose arcs are private.

    (`move` speaks of arcs alone: where the rows are private too, as at node level, it bounds nothing.)

    X <- lipschitz (alpha A_hat X + (1 - alpha) mean(X)) + beta X_0 + N(0, std^2), `hops` times (equation 4), from X_0 =
    the rows clipped to the unit ball; every hop first clips the rows of X to the unit ball. Clipping is the projection
    onto a convex set and moves no two states apart; dividing by the length would. What leaves is the last X, unclipped:
    the last projection would be post-processing.

    A_hat = (D_in + tau I)^-1/2 (A + loops I) (D_out + tau I)^-1/2 with 0 <= loops <= tau has operator norm at most 1.
    """

    least_moved = None

    std: float
    hops: int
    lipschitz: float = 0.5
    alpha: float = 1.0
    beta: float = 1.0
    tau: float = 1.0
    loops: float = 1.0

    def __post_init__(self) -> None:
        require_cost(self.std, "std")
        require_whole(self, "hops")
        if self.hops < 1:
            raise InvalidInput(f"hops must be at least 1, got {self.hops}")
        if not require_positive(self.lipschitz, "lipschitz") < 1:
            raise InvalidInput(f"lipschitz (C_L) must lie strictly between 0 and 1, got {self.lipschitz!r}")
        if not require_positive(self.alpha, "alpha") <= 1:
            raise InvalidInput(f"alpha (the weight of the graph) must lie in (0, 1], got {self.alpha!r}")
        if not math.isfinite(require_cost(self.beta, "beta")):
            raise InvalidInput(f"beta must be finite, got {self.beta!r}")
        require_positive(self.tau, "tau")
        if not require_cost(self.loops, "loops") <= self.tau:
            raise InvalidInput(f"loops must lie in 0..tau = {self.tau}, got {self.loops!r}")

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        return self._last_state(query(sealed), partial(self._perturbed, source=source)).float()

    def silent(self, asked: NeighbourSums) -> Tensor:
        """What would leave without noise, float64 [n, d]. For audits of known graphs: nothing in it is protected."""
        return self._last_state(asked, lambda rows: rows)

    def _last_state(self, asked: NeighbourSums, perturb: Callable[[Tensor], Tensor]) -> Tensor:
        start = clip_rows(asked.rows.double(), 1.0)
        layer, rows = _Layer.of(self, asked.adj), start
        for _ in range(self.hops):
            rows = perturb(layer(clip_rows(rows.double(), 1.0)).add_(start, alpha=self.beta))
        return rows

    def _perturbed(self, rows: Tensor, source: Source) -> Tensor:
        """With noise. Rounding a hidden state adds to what the next hop moves, so the unit is smaller than the move."""
        if self.std == 0:
            return rows
        # A secure source pays 2 g sqrt(size) / unit for its grid g. Due are g sqrt(size) each for the sum, its float64
        # error and the noisy state, and 2^-22 sqrt(n) <= 32 g sqrt(size) / std for the state's float32.
        return source.add_gaussian(rows, self.std, unit=self.move(undirected=False) / (1.5 + 16 / self.std))

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        # Along the line that joins the noiseless releases both laws are Gaussian, but for clipping.
        first, second = query(here), query(there)
        direction = telling_direction(self, second, first)
        score = float((answer.double() * direction).sum())
        (mean, spread), (other, width) = (score_law(self, asked, direction) for asked in (first, second))
        if not spread or not width:
            return certain(mean - other)
        return math.log(width / spread) - ((score - mean) / spread) ** 2 / 2 + ((score - other) / width) ** 2 / 2

    def move(self, undirected: bool) -> float:
        """How far one edge (or arc) moves one hop at most, in Frobenius norm; attained by joining two isolated nodes.

        Undirected: lipschitz alpha sqrt(2) (1 + loops/tau) / (tau + 1). Arc: lipschitz alpha |(1/(tau + 1) + z, z)|,
        z = (loops/tau) (1 - sqrt(tau/(tau + 1))). Proofs: docs/methods/caribou.md.
        """
        share = self.loops / self.tau
        edge = 1 / (self.tau + 1)
        if undirected:
            return self.lipschitz * self.alpha * math.sqrt(2) * (1 + share) * edge
        loop = share * (1 - math.sqrt(self.tau * edge))
        return self.lipschitz * self.alpha * math.hypot(edge + loop, loop)

    def curve(self, sensitivity: float) -> GaussianCurve:
        """Exactly Gaussian, mu = (sensitivity / std) sqrt(f(lipschitz, hops)); `sensitivity`: the move of one hop."""
        require_positive(sensitivity, "sensitivity")
        if self.std == 0:
            return GaussianCurve(math.inf)
        return GaussianCurve(sensitivity / self.std * math.sqrt(convergence(self.lipschitz, self.hops)))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0, 1), cls(1.0, 4, lipschitz=0.8, beta=0.5, tau=2.0), cls(0.5, 3, alpha=0.7, tau=4.0, loops=0.0)


def convergence(contraction: float, hops: int) -> float:
    """f(c, K) = (1 - c^K)(1 + c) / ((1 + c^K)(1 - c)) <= K: what K hops cost in mu^2, one hop being 1 (Theorem 3)."""
    faded = contraction**hops
    return (1 - faded) * (1 + contraction) / ((1 + faded) * (1 - contraction))


def telling_direction(act: Contractive, here: NeighbourSums, there: NeighbourSums) -> Tensor:
    """Auditing hook (section 4.4): how far the noiseless releases of two graphs lie apart, float64 [n, d].

    The score of a release X is (X * direction).sum(). For one hop the releases are Gaussians that differ in their means
    alone, so this is the most powerful test (Neyman & Pearson); for more hops any threshold on it is still a valid
    test. A public function of two known graphs: it reads no sealed data, and nothing of it enters a release.
    """
    return act.silent(there) - act.silent(here)


def score_law(act: Contractive, asked: NeighbourSums, direction: Tensor) -> tuple[float, float]:
    """Auditing hook: mean and standard deviation of the score of a release on `asked`, which is then Gaussian.

    Exact as long as no row is clipped: var = std^2 sum_{j < hops} |(B^T)^j direction|^2, B being the linear part.
    """
    mean = float((act.silent(asked) * direction).sum())
    back = _Layer.of(act, asked.adj).transposed()
    variance, moved = 0.0, direction.double().clone()
    for _ in range(act.hops):
        variance += float((moved**2).sum())
        moved = back(moved)
    return mean, act.std * math.sqrt(variance)


@dataclass(frozen=True, eq=False)
class _Layer:
    """B X = weight A_hat X + share mean(X), A_hat = diag(in_scale) (A + loops I) diag(out_scale); scales are [n, 1]."""

    adj: Csr
    in_scale: Tensor
    out_scale: Tensor
    loops: float
    weight: float
    share: float

    @classmethod
    def of(cls, act: Contractive, adj: Csr) -> _Layer:
        in_scale, out_scale = _scales(adj.in_degrees(), act.tau), _scales(_out_degrees(adj), act.tau)
        return cls(adj, in_scale, out_scale, act.loops, act.lipschitz * act.alpha, act.lipschitz * (1 - act.alpha))

    def __call__(self, rows: Tensor) -> Tensor:
        """A new [n, d]; `rows` float64 [n, d] is overwritten."""
        mean = rows.mean(dim=0)
        sent = rows.mul_(self.out_scale)
        out = neighbour_sum(self.adj, sent).add_(sent, alpha=self.loops).mul_(self.in_scale)
        return out.mul_(self.weight).add_(mean, alpha=self.share)

    def transposed(self) -> _Layer:
        return replace(self, adj=self.adj.transpose(), in_scale=self.out_scale, out_scale=self.in_scale)


def _out_degrees(adj: Csr) -> Ids:
    return np.bincount(adj.indices, minlength=adj.num_nodes)


def _scales(degrees: Ids, tau: float) -> Tensor:
    """(degree + tau)^-1/2, float64 [n, 1]."""
    return torch.from_numpy((degrees + tau) ** -0.5)[:, None]
