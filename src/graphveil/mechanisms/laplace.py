"""Laplace mechanism: an L1-clipped sum plus Laplace noise on every entry (Dwork et al. 2006)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from graphveil.errors import InvalidInput
from graphveil.mechanisms.additive import Additive, certain
from graphveil.mechanisms.shared_curves import EpsilonCurve
from graphveil.vocabulary import Floats, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LaplaceCurve(EpsilonCurve):
    """Lap(0, 1) against Lap(epsilon, 1): pure epsilon-DP, and less than randomised response."""

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        inside = -np.expm1(np.minimum((epsilons - self.epsilon) / 2, 0.0))
        both = np.where(epsilons < -self.epsilon, -np.expm1(np.minimum(epsilons, 0.0)), inside)
        return both, both

    def atom(self) -> float | None:
        return self.epsilon or None

    def rdp(self, orders: Floats) -> Floats:
        """Mironov 2017, Table II."""
        up = np.log(orders / (2 * orders - 1)) + (orders - 1) * self.epsilon
        down = np.log((orders - 1) / (2 * orders - 1)) - orders * self.epsilon
        return np.asarray(np.logaddexp(up, down) / (orders - 1))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.1), cls(1.0)


@dataclass(frozen=True)
class Laplace(Additive):
    """Query: `query(sealed) -> Tensor [m, d]`, one row per contribution. `scale` is in units of `clip`."""

    scale: float
    clip: float = 1.0

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        return source.add_laplace(self.bounded(sealed, query), self.scale * self.clip, unit=self.clip)

    def bounded(self, sealed: SealedGraph, query: Query) -> Tensor:
        rows: Tensor = query(sealed).double()
        norms = rows.abs().sum(dim=1, keepdim=True)
        return (rows * (self.clip / norms.clamp(min=self.clip))).nan_to_num(0.0, 0.0, 0.0).sum(dim=0)

    def log_ratio(self, rest: Tensor, shift: Tensor) -> float:
        log_ratio = float((rest.abs() - (rest - shift).abs()).sum())
        return log_ratio / (self.scale * self.clip) if self.scale else certain(log_ratio)

    def curve(self, sensitivity: float) -> LaplaceCurve:
        """`sensitivity`: L1 distance of neighbouring sums, in clips; at least one contribution moves."""
        if not sensitivity >= 1:
            raise InvalidInput(f"sensitivity is in units of clip and at least 1, got {sensitivity}")
        return LaplaceCurve(math.inf if self.scale == 0 else sensitivity / self.scale)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(10.0, clip=2.0)
