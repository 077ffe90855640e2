"""Fixed-size sampling without replacement in front of any mechanism, replace-one neighbours.

With q = size/population and (Q, P) the inner pair under replacement, the sampled mechanism has
    delta(e) = H_{e^e}((1-q)P + qQ || P)  for e >= 0,   H_{e^e}(P || (1-q)P + qQ)  for e < 0
(Balle et al. 2018; Zhu, Dong & Wang 2022, Proposition 30). Replacement is symmetric, so both directions
share the curve, the worse direction of the inner pair is taken, and the half e < 0 is the mirror image
H_{e^e}(P || R) = 1 - e^e + e^e H_{e^-e}(R || P) of the half e > 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from scipy.special import gammaln

from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.poisson import inner_epsilon, sampled_evidence
from graphveil.mechanisms.shared_curves import SampledCurve
from graphveil.vocabulary import Floats, Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FixedSizeCurve(SampledCurve):
    """The `base` curve (replace-one) behind sampling a fixed share `rate` without replacement."""

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        inner = self.base.deltas(inner_epsilon(np.abs(epsilons), self.rate)[1])
        if inner is None:
            raise InvalidInput(f"{type(self.base).__name__} has no hockey-stick curve to amplify")
        above = self.rate * np.maximum(*inner)
        below = np.minimum(epsilons, 0.0)
        both = np.exp(below) * above - np.expm1(below)
        return both, both

    def rdp(self, orders: Floats) -> Floats | None:
        """Wang, Balle & Kasiviswanathan 2019, Theorem 9, with an unbounded inner mechanism."""
        return np.array([self._rdp_at(int(order)) for order in orders])

    def _rdp_at(self, order: int) -> float:
        terms = np.arange(2, order + 1, dtype=np.float64)
        inner = self.base.rdp(terms)
        if inner is None:
            raise InvalidInput(f"{type(self.base).__name__} has no Renyi curve to amplify")
        log_choose = gammaln(order + 1) - gammaln(terms + 1) - gammaln(order - terms + 1)
        rest = log_choose + terms * np.log(self.rate) + np.log(2) + (terms - 1) * inner
        square = np.minimum(np.log(4) + inner[0] + np.log(-np.expm1(-inner[0])), np.log(2) + inner[0])
        rest[0] = log_choose[0] + 2 * np.log(self.rate) + square
        # Sampling never costs: the bound is loose where the unsampled mechanism is cheaper.
        return min(float(np.logaddexp.reduce(np.append(rest, 0.0)) / (order - 1)), float(inner[-1]))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(GaussianCurve(0.5), 0.2), cls(GaussianCurve(1.0), 0.05)


@dataclass(frozen=True)
class FixedSize(Mechanism):
    """Query: `query(sealed, batch) -> what inner expects`, batch int64 [size] from range(population)."""

    inner: Mechanism
    size: int
    population: int

    def __post_init__(self) -> None:
        if not 0 < self.size <= self.population:
            raise InvalidInput(f"sample size must lie in 1..{self.population}, got {self.size}")

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        batch = source.choose(self.population, self.size)
        return self.inner.apply(sealed, partial(query, batch=batch), source)

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        rate, whole = self.size / self.population, torch.arange(self.population)
        return sampled_evidence(self.inner, rate, here, there, partial(query, batch=whole), answer)

    def curve(self, sensitivity: float) -> FixedSizeCurve:
        """`sensitivity` of the inner sum under REPLACEMENT: twice the clip for plain sums."""
        return FixedSizeCurve(self.inner.curve(sensitivity), self.size / self.population)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(Gaussian(4.0), 10, 50),)
