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

from graphveil.core import Curve, Floats, InvalidInput, Mechanism, Query, require_cost

if TYPE_CHECKING:
    from torch import Tensor

    from graphveil.graph import Sealed
    from graphveil.noise import Source


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
class Sml(Mechanism):
    """Query: `query(sealed) -> Contributions`. Noise `std` and sensitivity are in units of `clip`."""

    std: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        require_cost(self.std, "std")
        if not 0 < self.clip < math.inf:
            raise InvalidInput(f"clip must be a finite number above 0, got {self.clip}")

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        total = query(sealed).clipped_sum(self.clip)
        spread = math.sqrt(-math.log(float(source.uniform(1)[0])))
        return source.add_gaussian(total, spread * self.std * self.clip, unit=self.clip)

    def curve(self, sensitivity: float) -> SmlCurve:
        """`sensitivity`: L2 distance of neighbouring sums, in clips."""
        if not sensitivity >= 1:
            raise InvalidInput(f"sensitivity is in units of clip and at least 1, got {sensitivity}")
        return SmlCurve(math.inf if self.std == 0 else sensitivity / self.std)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(3.0),)
