"""Symmetric multivariate Laplace noise, sqrt(W) Z with W ~ Exp(1) and Z normal (HeterPoisson, Algorithm 4).

Its authors charge the one-dimensional marginal (Lemma 1), which is false in more dimensions: the length of the noise
orthogonal to the move reveals W, so the mechanism is a Gaussian whose scale is known and sometimes tiny. What we charge
reveals W. For a move of m standard deviations the mean over W of the Gaussian's curve has a closed form,
    delta(e) = E_W delta_G(e; m / sqrt W) = 1 - exp(-(sqrt(e^2 + 2 m^2) - e) / 2),   about m^2 / (2 e),
because E Phi(-a sqrt W +- b / sqrt W) are inverse-Gaussian integrals (docs/methods/heterpoisson.md). It is enormous,
and in high dimension it is attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from graphveil.checks import require_cost
from graphveil.errors import InvalidInput
from graphveil.mechanisms.additive import Additive, certain
from graphveil.vocabulary import Curve, Floats, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SmlCurve(Curve):
    """A move of `ratio` standard deviations under SML noise in any dimension: W revealed."""

    ratio: float

    def __post_init__(self) -> None:
        require_cost(self.ratio, "ratio")

    @property
    def infinite(self) -> bool:
        return self.ratio == math.inf

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        root = np.hypot(epsilons, math.sqrt(2) * self.ratio)
        # For positive epsilons the difference of the roots cancels; its conjugate does not.
        above = np.maximum(epsilons, 0.0)
        gap = np.where(epsilons > 0, 2 * self.ratio**2 / np.maximum(root + above, 1e-300), root - epsilons)
        both = -np.expm1(-gap / 2)
        return both, both

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(0.5),)


@dataclass(frozen=True)
class Sml(Additive):
    """Query: `query(sealed) -> Contributions`. Noise `std` and sensitivity are in units of `clip`."""

    std: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        require_cost(self.std, "std")
        if not 0 < self.clip < math.inf:
            raise InvalidInput(f"clip must be a finite number above 0, got {self.clip}")

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        total = self.bounded(sealed, query)
        spread = math.sqrt(-math.log(float(source.uniform(1)[0])))
        return source.add_gaussian(total, spread * self.std * self.clip, unit=self.clip)

    def bounded(self, sealed: SealedGraph, query: Query) -> Tensor:
        total: Tensor = query(sealed).clipped_sum(self.clip)
        return total

    def log_ratio(self, rest: Tensor, shift: Tensor) -> float:
        near, far = float(((rest - shift) ** 2).sum()), float((rest**2).sum())
        if not self.std:
            return certain(far - near)
        unit, size = 2 * (self.std * self.clip) ** 2, rest.numel()
        return _log_mixture(near / unit, size) - _log_mixture(far / unit, size)

    def curve(self, sensitivity: float) -> SmlCurve:
        """`sensitivity`: L2 distance of neighbouring sums, in clips."""
        if not sensitivity >= 1:
            raise InvalidInput(f"sensitivity is in units of clip and at least 1, got {sensitivity}")
        return SmlCurve(math.inf if self.std == 0 else sensitivity / self.std)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(3.0),)


def _log_mixture(squared: float, size: int) -> float:
    """ln int_0^inf w^(-size/2) e^(-squared/w - w) dw: the density of SML noise, |noise|^2 = 2 std^2 squared, but for a
    constant. In u = ln w the integrand is log-concave; the trapezoid rule is fine near its mode and reaches far.
    """
    # At its centre the density is infinite in more than one dimension; doubles end before.
    least = max(squared, 1e-280)
    half = size / 2 - 1
    root = math.hypot(half, 2 * math.sqrt(least))
    mode = math.log(2 * least / (half + root)) if half + root > 0 else math.log((root - half) / 2)
    width = (least * math.exp(-mode) + math.exp(mode)) ** -0.5
    steps = np.linspace(-8.0, 8.0, 2049)
    u = mode + width * np.sinh(steps)
    with np.errstate(over="ignore"):
        exponents = -half * u - least * np.exp(-u) - np.exp(u) + np.log(width * np.cosh(steps))
    return float(np.logaddexp.reduce(exponents)) + math.log(steps[1] - steps[0])
