"""No protection at all: the private part is handed over as it is, and epsilon is infinite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from graphveil.core import Curve, Mechanism, Query

if TYPE_CHECKING:
    from torch import Tensor

    from graphveil.graph import Sealed
    from graphveil.noise import Source


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

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:  # noqa: ARG002
        exposed: Tensor = query(sealed)
        return exposed

    def curve(self, sensitivity: float) -> ExposedCurve:  # noqa: ARG002
        return ExposedCurve()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(),)
