"""Contractive message passing: many noisy hops of which only the last state leaves (CARIBOU, Algorithm 1, Theorem 3).

The states in between stay hidden and every hop is a contraction, so the cost converges in the number of hops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from graphveil.core import InvalidInput, Mechanism, Query, require_cost, require_positive, require_whole
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.nn.aggregate import NeighbourSums, clip_rows, neighbour_sum

if TYPE_CHECKING:
    from torch import Tensor

    from graphveil.arcs import Csr, Ids
    from graphveil.graph import Sealed
    from graphveil.noise import Source


@dataclass(frozen=True)
class Contractive(Mechanism):
    """Query: `query(sealed) -> NeighbourSums`, whose rows [n, d] are public and whose arcs are private.

    X <- lipschitz (alpha A_hat X + (1 - alpha) mean(X)) + beta X_0 + N(0, std^2), `hops` times (equation 4), from X_0 =
    the rows clipped to the unit ball; every hop first clips the rows of X to the unit ball. Clipping is the projection
    onto a convex set and moves no two states apart; dividing by the length would. What leaves is the last X, unclipped:
    the last projection would be post-processing.

    A_hat = (D_in + tau I)^-1/2 (A + loops I) (D_out + tau I)^-1/2 with 0 <= loops <= tau has operator norm at most 1.
    """

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

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        asked: NeighbourSums = query(sealed)
        start = clip_rows(asked.rows.double(), 1.0)
        heard, said = _scales(asked.adj.in_degrees(), self.tau), _scales(_out_degrees(asked.adj), self.tau)
        rows = start
        for _ in range(self.hops):
            sent = clip_rows(rows.double(), 1.0)
            mean = sent.mean(dim=0)
            sent.mul_(said)
            rows = neighbour_sum(asked.adj, sent).add_(sent, alpha=self.loops).mul_(heard)
            rows.mul_(self.lipschitz * self.alpha).add_(mean, alpha=self.lipschitz * (1 - self.alpha))
            rows = self._perturbed(rows.add_(start, alpha=self.beta), source)
        return rows.float()

    def _perturbed(self, rows: Tensor, source: Source) -> Tensor:
        """With noise. Rounding a hidden state adds to what the next hop moves, so the unit is smaller than the move."""
        if self.std == 0:
            return rows
        # A secure source pays 2 g sqrt(size) / unit for its grid g. Due are g sqrt(size) each for the sum, its float64
        # error and the noisy state, and 2^-22 sqrt(n) <= 32 g sqrt(size) / std for the state's float32.
        return source.add_gaussian(rows, self.std, unit=self.move(undirected=False) / (1.5 + 16 / self.std))

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


def _out_degrees(adj: Csr) -> Ids:
    return np.bincount(adj.indices, minlength=adj.num_nodes)


def _scales(degrees: Ids, tau: float) -> Tensor:
    """(degree + tau)^-1/2, float64 [n, 1]."""
    return torch.from_numpy((degrees + tau) ** -0.5)[:, None]
