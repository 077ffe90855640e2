"""A curve of which only the Renyi divergences are used, as older accountants did. Sound, and looser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from graphveil.core import Curve, Floats
from graphveil.mechanisms.fixed_size import FixedSizeCurve
from graphveil.mechanisms.gaussian import GaussianCurve


@dataclass(frozen=True)
class RenyiCurve(Curve):
    """`base` charged by its Renyi divergences alone: reproduces a published moments accountant."""

    base: Curve

    @property
    def infinite(self) -> bool:
        return self.base.infinite

    def rdp(self, orders: Floats) -> Floats | None:
        return self.base.rdp(orders)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(GaussianCurve(0.5)), cls(FixedSizeCurve(GaussianCurve(0.5), 0.2))
