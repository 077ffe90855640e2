"""Ways to scale a feature matrix, and what each may read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from graphveil.core import InvalidInput, State, parse


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
    # A single entry has no deviation but 0.
    return rows / rows.std(correction=min(1, rows.numel() - 1)).clamp(min=1e-6)


def standard(scores: Tensor) -> Tensor:
    """Rows less their mean, on one common scale, [n, c]."""
    return one_scale(scores - scores.mean(dim=1, keepdim=True))


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
    def fit(cls, x: Tensor, scale: Scale | str) -> Scaling:
        """Column means [d] and factors [d] of `x` [n, d]; neutral for the record-wise ways."""
        how = parse(Scale, scale, "scale")
        shift, factor = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
        if how is Scale.SHIFTED:
            units = unit_rows(x)
            shift = units.mean(dim=0)
            factor = (1 / units.sub_(shift).std().clamp(min=1e-6)).expand(x.shape[1]).clone()
        elif how is Scale.COLUMNS:
            # A single row has no deviation but 0.
            shift, factor = x.mean(dim=0), 1 / x.std(dim=0, correction=min(1, len(x) - 1)).clamp(min=1e-6)
        return cls(how, shift, factor)

    def __call__(self, x: Tensor) -> Tensor:
        """Scaled features [n, d]."""
        if self.how is Scale.SHIFTED:
            # In place, because features are the largest thing in memory.
            return unit_rows(x).sub_(self.shift).mul_(self.factor)
        if self.how is Scale.COLUMNS:
            return (x - self.shift) * self.factor
        return by_record(x, self.how)

    def state(self) -> State:
        """The statistics, to be released with the model."""
        return {"scaling.shift": self.shift, "scaling.factor": self.factor}

    @classmethod
    def restore(cls, state: State, scale: Scale | str) -> Scaling:
        """Inverse of `state`."""
        return cls(parse(Scale, scale, "scale"), state["scaling.shift"], state["scaling.factor"])
