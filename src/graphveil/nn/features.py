"""Ways to scale a feature matrix, and what each may read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from graphveil.checks import parse
from graphveil.errors import InvalidInput
from graphveil.nn.rows import RowMap, Rows, column_deviations, column_means, deviation
from graphveil.vocabulary import State


class Scale(StrEnum):
    """How to scale features. The first three use one record at a time, so they are free under every unit.

    ROWS unit rows; CENTRED unit rows less their own mean; NONE as they are; SHIFTED unit rows less the
    column means, times one common factor; COLUMNS each column to mean 0 and variance 1.
    """

    ROWS = "rows"
    CENTRED = "centred"
    NONE = "none"
    SHIFTED = "shifted"
    COLUMNS = "columns"


RECORD_WISE = (Scale.ROWS, Scale.CENTRED, Scale.NONE)
"""The ways that read one record at a time: see `by_record`."""


def unit_rows(x: Tensor) -> Tensor:
    """Each non-zero row divided by its length, [n, d]."""
    return torch.nn.functional.normalize(x, dim=1)


def one_scale(rows: Tensor) -> Tensor:
    """All entries divided by their common standard deviation, [n, k]: long rows stay longer than short ones."""
    return rows / deviation(rows)


def centred(scores: Tensor) -> Tensor:
    """Rows less their own mean, [n, c]."""
    return scores - scores.mean(dim=1, keepdim=True)


def standard(scores: Tensor) -> Tensor:
    """Rows less their mean, on one common scale, [n, c]."""
    return one_scale(centred(scores))


def by_record(x: Tensor, scale: Scale | str) -> Tensor:
    """`x` [n, d] scaled one record at a time; refuses the ways that read other records."""
    how = parse(Scale, scale, "scale")
    if how is Scale.NONE:
        return x
    units = unit_rows(x)
    if how is Scale.ROWS:
        return units
    if how is Scale.CENTRED:
        # Bag-of-words rows share a large common part; a row's own mean removes it without a second record.
        return unit_rows(units - units.mean(dim=1, keepdim=True))
    raise InvalidInput(f'scale="{how.value}" reads statistics of private features; use "rows", "centred" or "none"')


@dataclass(frozen=True, eq=False)
class Scaling:
    """A scaling fitted to public (or exposed) features, kept with the weights that were trained on it."""

    how: Scale
    shift: Tensor
    factor: Tensor

    @classmethod
    def fit(cls, x: Rows, scale: Scale | str, block: int | None = None) -> Scaling:
        """Column means [d] and factors [d] of `x` [n, d]; neutral for the record-wise ways."""
        how = parse(Scale, scale, "scale")
        shift = x[:0].new_zeros(x.shape[1], dtype=torch.float32)
        factor = torch.ones_like(shift)
        if how is Scale.SHIFTED:
            units = RowMap(x, unit_rows, x.shape[1])
            shift = column_means(units, block)
            spread = deviation(RowMap(units, lambda rows: rows - shift, x.shape[1]), block)
            factor = (1 / spread).expand(x.shape[1]).clone()
        elif how is Scale.COLUMNS:
            shift, factor = column_means(x, block), 1 / column_deviations(x, block)
        return cls(how, shift, factor)

    def __call__(self, x: Tensor) -> Tensor:
        """Scaled features [n, d]."""
        if self.how is Scale.SHIFTED:
            # In place, because features are the largest thing in memory.
            return unit_rows(x).sub_(self.shift).mul_(self.factor)
        if self.how is Scale.COLUMNS:
            return (x - self.shift) * self.factor
        return by_record(x, self.how)

    def rows(self, x: Rows) -> Rows:
        """Scaled features [n, d], made as they are read."""
        return RowMap(x, self, x.shape[1])

    def state(self) -> State:
        """The statistics, to be released with the model."""
        return {"scaling.shift": self.shift, "scaling.factor": self.factor}

    @classmethod
    def restore(cls, state: State, scale: Scale | str) -> Scaling:
        """Inverse of `state`."""
        return cls(parse(Scale, scale, "scale"), state["scaling.shift"], state["scaling.factor"])
