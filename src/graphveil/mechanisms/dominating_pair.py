"""Any finite pair of distributions that dominates a mechanism (Zhu, Dong & Wang 2022, Definition 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from graphveil.errors import InvalidInput
from graphveil.mechanisms.shared_curves import EpsilonCurve
from graphveil.vocabulary import Curve, Floats


@dataclass(frozen=True)
class DominatingPair(Curve):
    """`present` (world with the unit) against `absent` (without it): probabilities of the same outcomes."""

    present: tuple[float, ...]
    absent: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, masses in (("present", self.present), ("absent", self.absent)):
            if min(masses, default=-1.0) < 0 or not abs(math.fsum(masses) - 1) <= 1e-12:
                raise InvalidInput(f"{name} must hold non-negative masses that sum to 1, got {masses}")
        if len(self.present) != len(self.absent):
            raise InvalidInput("present and absent must list the same outcomes")

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        scale = np.exp(np.minimum(epsilons, 700.0))
        remove, add = np.zeros_like(scale), np.zeros_like(scale)
        # Outcome by outcome: a table of all of them at all epsilons could fill the memory.
        for present, absent in zip(self.present, self.absent, strict=True):
            remove += np.maximum(present - scale * absent, 0.0)
            add += np.maximum(absent - scale * present, 0.0)
        return remove, add

    def atom(self) -> float | None:
        pairs = zip(self.present, self.absent, strict=True)
        losses = [abs(math.log(up / down)) for up, down in pairs if up > 0 and down > 0]
        return max(losses, default=0.0) or None

    def rdp(self, orders: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            up, down = np.log(np.array(self.present)), np.log(np.array(self.absent))
        return np.maximum(_renyi(up, down, orders), _renyi(down, up, orders))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls((0.6, 0.3, 0.1), (0.5, 0.3, 0.2)), cls((0.75, 0.25), (0.25, 0.75))


def _renyi(first: Floats, second: Floats, orders: Floats) -> Floats:
    live = np.isfinite(first)
    first, second = first[live], second[live]
    exponents = orders[:, None] * first + (1 - orders[:, None]) * second
    return np.asarray(np.logaddexp.reduce(exponents, axis=1) / (orders - 1))


def response(epsilon: float, categories: int = 2) -> DominatingPair:
    """Randomised response: the truth is e^epsilon times as likely as any single lie, of which there are k - 1."""
    # 1 - truth would lose the digits of a rare lie, and with them epsilon.
    odds = math.exp(-epsilon)
    truth = 1 / (1 + (categories - 1) * odds)
    rest = () if categories == 2 else ((categories - 2) * odds * truth,)
    return DominatingPair((truth, odds * truth, *rest), (odds * truth, truth, *rest))


@dataclass(frozen=True)
class PureCurve(EpsilonCurve):
    """Randomised response, the pair that dominates EVERY epsilon-DP mechanism (Kairouz et al. 2015)."""

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return response(self.epsilon).deltas(epsilons)

    def atom(self) -> float | None:
        return self.epsilon or None

    def rdp(self, orders: Floats) -> Floats:
        return response(self.epsilon).rdp(orders)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.10986), cls(1.0)
