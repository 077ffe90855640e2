"""What curves share that have one epsilon, or that stand behind a sample of a known rate."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass

from graphveil.checks import require_cost
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Curve


@dataclass(frozen=True)
class EpsilonCurve(Curve, ABC):
    """A curve of one number: epsilon, in the units that the curve states."""

    epsilon: float

    def __post_init__(self) -> None:
        require_cost(self.epsilon, "epsilon")

    @property
    def infinite(self) -> bool:
        return self.epsilon == math.inf


@dataclass(frozen=True)
class SampledCurve(Curve, ABC):
    """The `base` curve behind a sample that holds each record with probability `rate`; the whole of it at 1."""

    base: Curve
    rate: float

    def __post_init__(self) -> None:
        require_rate(self.rate)

    @property
    def infinite(self) -> bool:
        return self.base.infinite

    def gdp(self) -> float | None:
        return self.base.gdp() if self.rate == 1 else None


def require_rate(rate: float) -> None:
    """A sampling rate lies in (0, 1]."""
    if not 0 < rate <= 1:
        raise InvalidInput(f"a sampling rate must lie in (0, 1], got {rate}")
