"""Gaussian mechanism: a clipped sum plus N(0, std^2) on every entry (Balle & Wang 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import log_ndtr

from graphveil.core import Curve, Floats, InvalidInput, Query, require_cost
from graphveil.mechanisms.additive import Additive, certain

if TYPE_CHECKING:
    from torch import Tensor

    from graphveil.graph import Sealed
    from graphveil.noise import Source


def gaussian_delta(epsilons: Floats, mu: float) -> Floats:
    """H_{e^epsilon}(N(mu,1) || N(0,1)) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), stable in both tails."""
    if mu == 0:
        return np.asarray(-np.expm1(np.minimum(epsilons, 0.0)))
    first = log_ndtr(mu / 2 - epsilons / mu)
    second = epsilons + log_ndtr(-mu / 2 - epsilons / mu)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))


@dataclass(frozen=True)
class GaussianCurve(Curve):
    """Exactly mu-GDP: N(mu, 1) against N(0, 1)."""

    mu: float

    def __post_init__(self) -> None:
        require_cost(self.mu, "mu")

    @property
    def infinite(self) -> bool:
        return self.mu == math.inf

    def gdp(self) -> float:
        return self.mu

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        both = gaussian_delta(epsilons, self.mu)
        return both, both

    def rdp(self, orders: Floats) -> Floats:
        return orders * self.mu**2 / 2

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.1), cls(1.0), cls(3.0)


@dataclass(frozen=True)
class Gaussian(Additive):
    """Query: `query(sealed) -> Contributions`. Noise `std` and sensitivity are in units of `clip`."""

    std: float
    clip: float = 1.0

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        return source.add_gaussian(self.bounded(sealed, query), self.std * self.clip, unit=self.clip)

    def bounded(self, sealed: Sealed, query: Query) -> Tensor:
        total: Tensor = query(sealed).clipped_sum(self.clip)
        return total

    def log_ratio(self, rest: Tensor, shift: Tensor) -> float:
        told = float((shift * (rest - shift / 2)).sum())
        return told / (self.std * self.clip) ** 2 if self.std else certain(told)

    def curve(self, sensitivity: float) -> GaussianCurve:
        """`sensitivity`: L2 distance of neighbouring sums, in clips; at least one contribution moves."""
        if not sensitivity >= 1:
            raise InvalidInput(f"sensitivity is in units of clip and at least 1, got {sensitivity}")
        return GaussianCurve(math.inf if self.std == 0 else sensitivity / self.std)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(4.0, clip=0.5)
