"""A mixture whose component is revealed: delta(e) = sum_i w_i delta_i(e) (joint convexity, then equality).

Charges a mechanism whose sensitivity is itself random, as if the adversary saw which case occurred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.vocabulary import Curve, Floats


@dataclass(frozen=True)
class RevealedMixture(Curve):
    """Component `curves[i]` occurs with probability `weights[i]`, independently of the private unit."""

    weights: tuple[float, ...]
    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.curves) or not self.curves:
            raise InvalidInput("a mixture needs one weight for each of its curves")
        if min(self.weights) < 0 or not abs(math.fsum(self.weights) - 1) <= 1e-12:
            raise InvalidInput("the weights of a mixture must be non-negative and sum to 1")

    @property
    def infinite(self) -> bool:
        return all(curve.infinite for curve in self.curves)

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        remove, add = np.zeros_like(epsilons), np.zeros_like(epsilons)
        for weight, curve in zip(self.weights, self.curves, strict=True):
            one = (np.ones_like(epsilons),) * 2 if curve.infinite else curve.deltas(epsilons)
            if one is None:
                raise InvalidInput(f"{type(curve).__name__} has no hockey-stick curve to mix")
            remove += weight * one[0]
            add += weight * one[1]
        return remove, add

    def rdp(self, orders: Floats) -> Floats | None:
        """exp((a-1) D_a) averages over components because the component is public."""
        parts = []
        for weight, curve in zip(self.weights, self.curves, strict=True):
            one = curve.rdp(orders)
            if one is None:
                return None
            if weight > 0:
                parts.append(np.log(weight) + (orders - 1) * one)
        return np.asarray(np.logaddexp.reduce(np.stack(parts), axis=0) / (orders - 1))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls((0.7, 0.2, 0.1), (GaussianCurve(0.0), GaussianCurve(0.5), GaussianCurve(1.0))),)
