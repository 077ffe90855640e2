"""What the authors of HeterPoisson charge for SML noise (Theorem 2). It is false: see `sml` and the method's page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from graphveil.checks import require_cost
from graphveil.errors import InvalidInput
from graphveil.mechanisms.shared_curves import require_rate
from graphveil.vocabulary import Curve, Floats


@dataclass(frozen=True)
class TheoremTwo(Curve):
    """E_k [a e^{sqrt2 (a-1) k/noise} / (2a-1) + 1/2], k = 1/2 with probability q, else Bin(n - 1, qM/(n-1)).

    `exact` puts the Laplace term (a-1) e^{-sqrt2 a k/noise} / (2a-1) in the place of 1/2, as the authors' code does.
    `overlap`: central nodes stay in other subgraphs, so that a central node moves k + 1/2.
    """

    noise: float
    rate: float
    multiplier: float
    population: int
    exact: bool = False
    overlap: bool = False

    def __post_init__(self) -> None:
        require_rate(self.rate)
        require_cost(self.noise, "noise")
        if not (self.multiplier > 0 and self.population >= 1):
            raise InvalidInput("Theorem 2 needs a multiplier above 0 and a population of at least 1")

    @property
    def infinite(self) -> bool:
        return self.noise == 0

    def orders(self) -> Floats:
        """The orders that the authors optimise over."""
        return np.linspace(1.0001, 10, 100)

    def rdp(self, orders: Floats) -> Floats:
        step = math.sqrt(2) / self.noise
        first = np.log(orders / (2 * orders - 1)) + self._log_mean((orders - 1) * step)
        second = np.full_like(orders, math.log(0.5))
        if self.exact:
            second = np.log((orders - 1) / (2 * orders - 1)) + self._log_mean(-orders * step)
        return np.asarray(np.logaddexp(first, second) / (orders - 1))

    def _log_mean(self, slope: Floats) -> Floats:
        """log E e^{slope k}, the binomial part in closed form; worst at the largest out-degree."""
        degree = max(self.population - 1, 1)
        chance = min(1.0, self.rate * self.multiplier / degree)
        with np.errstate(over="ignore"):
            others = degree * np.log1p(chance * np.expm1(slope))
        if self.rate == 1:
            return np.asarray(slope / 2 + (others if self.overlap else 0.0))
        central = math.log(self.rate) + slope / 2 + (others if self.overlap else 0.0)
        return np.asarray(np.logaddexp(central, math.log1p(-self.rate) + others))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(10.0, 0.2, 1.0, 1000), cls(10.0, 0.2, 1.0, 1000, exact=True, overlap=True)
