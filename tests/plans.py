"""Plans made of bare claims, for tests of what plans cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from graphveil.mechanisms.gaussian import Gaussian, gaussian_delta
from graphveil.vocabulary import Adjacency, Curve, Floats, Plan, Reading, Step, Unit


def plan_of(*claims: tuple[Curve, int], unit: Unit | str = Unit.NODE, reading: Reading = Reading.SOUND) -> Plan:
    """One step per (claim, times); the acts do not matter to the accountant."""
    steps = tuple(
        Step(f"step {number}", Gaussian(1.0), claim, times, why="test") for number, (claim, times) in enumerate(claims)
    )
    return Plan(Adjacency.of(unit), reading, steps)


@dataclass(frozen=True)
class Opaque(Curve):
    """N(mu, 1) against N(0, 1) that does not say so: the accountant must discretise it."""

    mu: float

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        both = gaussian_delta(epsilons, self.mu)
        return both, both

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(1.0),)
