"""A curve of which only the Renyi divergences are used, as older accountants did. Sound, and looser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from graphveil.errors import InvalidInput
from graphveil.mechanisms.fixed_size import FixedSizeCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.vocabulary import Curve, Floats

_MAX_ORDERS = 10_000
"""Each takes as many terms behind sampling. Papers try a few dozen."""


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


@dataclass(frozen=True)
class MomentsCurve(RenyiCurve):
    """`base` by its Renyi divergences of the orders 2 to `most`, converted as Mironov 2017 does: a published figure."""

    most: int

    def __post_init__(self) -> None:
        if not 2 <= self.most <= _MAX_ORDERS:
            raise InvalidInput(f"Renyi orders go from 2 to at most {_MAX_ORDERS:,}, got most={self.most}")

    def orders(self) -> Floats:
        """The orders that the authors try."""
        return np.arange(2, self.most + 1, dtype=np.float64)

    def mironov_conversion(self) -> bool:
        return True

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(GaussianCurve(0.5), 32), cls(FixedSizeCurve(GaussianCurve(0.5), 0.2), 9)
