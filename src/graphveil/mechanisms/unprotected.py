"""No protection at all: the private part is handed over as it is, and epsilon is infinite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch

from graphveil.mechanisms.additive import certain
from graphveil.vocabulary import Adjacency, Curve, Mechanism, Plan, Query, Reading, SealedGraph, Source, Step

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ExposedCurve(Curve):
    """Infinite epsilon for every delta below 1."""

    @property
    def infinite(self) -> bool:
        return True

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(),)


@dataclass(frozen=True)
class Exposed(Mechanism):
    """Query: `query(sealed) -> Tensor`, released unchanged. For non-private baselines only."""

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:  # noqa: ARG002
        exposed: Tensor = query(sealed)
        return exposed

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        first, second = (torch.equal(answer, query(sealed)) for sealed in (here, there))
        return certain(float(first) - float(second))

    def curve(self, sensitivity: float) -> ExposedCurve:  # noqa: ARG002
        return ExposedCurve()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(),)


def exposing_plan(adjacency: Adjacency, reading: Reading, reads: frozenset[str]) -> Plan:
    """A plan that hands over every private part among `reads` ("x", "y", "edges"); empty if none is private."""
    exposed = len(reads & adjacency.private)
    act = Exposed()
    step = Step("expose", act, act.curve(1), exposed, why="docs/methods/exposed.md") if exposed else None
    return Plan(adjacency, reading, () if step is None else (step,))
