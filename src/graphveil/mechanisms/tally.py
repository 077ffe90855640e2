"""Laplace noise on counts: every contribution leaves a few marks, and the cells they fall into are counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from graphveil.arcs import Ids
from graphveil.core import InvalidInput, Mechanism, Query, require_cost, require_whole
from graphveil.mechanisms.laplace import LaplaceCurve

if TYPE_CHECKING:
    from torch import Tensor

    from graphveil.graph import Sealed
    from graphveil.noise import Source


@dataclass(frozen=True, eq=False)
class Marks:
    """What is counted: the cells that each contribution marks, int64 [m, k], of 0..size-1; `size` is public.

    A contribution may mark one cell several times, which counts as often; a mark outside the range counts nowhere.
    """

    cells: Ids
    size: int


@dataclass(frozen=True)
class Tally(Mechanism):
    """Query: `query(sealed) -> Marks`. Releases the marks in every cell plus Laplace(scale), float32 [size].

    Of each contribution the first `marks` marks count, so one more contribution moves the counts by `marks` in L1.
    """

    scale: float
    marks: int = 1

    def __post_init__(self) -> None:
        require_cost(self.scale, "scale")
        require_whole(self, "marks")
        if self.marks < 1:
            raise InvalidInput(f"a contribution leaves at least one mark, got marks={self.marks}")

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        cells = asked.cells[:, : self.marks].ravel()
        inside = cells[(cells >= 0) & (cells < asked.size)]
        counts = torch.from_numpy(np.bincount(inside, minlength=asked.size).astype(np.float64))
        return source.add_laplace(counts, self.scale, unit=1.0)

    def curve(self, sensitivity: float) -> LaplaceCurve:
        """`sensitivity`: how many contributions a neighbour changes; each moves `marks` marks."""
        if not sensitivity >= 1:
            raise InvalidInput(f"a neighbour changes at least one contribution, got {sensitivity}")
        return LaplaceCurve(math.inf if self.scale == 0 else sensitivity * self.marks / self.scale)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(2.0, marks=2)
