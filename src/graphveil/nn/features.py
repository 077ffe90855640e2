"""Ways to scale a feature matrix, and what each may read."""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor

from graphveil.core import InvalidInput, parse


class Scale(StrEnum):
    """ROWS and CENTRED use one record at a time, so they are free under every unit; COLUMNS needs public data."""

    ROWS = "rows"
    CENTRED = "centred"
    COLUMNS = "columns"
    NONE = "none"


def unit_rows(x: Tensor) -> Tensor:
    """Each non-zero row divided by its length, [n, d]."""
    return torch.nn.functional.normalize(x, dim=1)


def centred_rows(x: Tensor) -> Tensor:
    """Unit rows with their own mean taken off, scaled to unit length again, [n, d].

    Bag-of-words rows share a large common component; centring a row by its own entries removes it
    without reading any other record.
    """
    units = unit_rows(x)
    return unit_rows(units - units.mean(dim=1, keepdim=True))


def scaled(x: Tensor, scale: Scale | str, *, public: bool) -> Tensor:
    """`x` [n, d] scaled as asked; refuses column statistics of private features."""
    how = parse(Scale, scale, "scale")
    if how is Scale.ROWS:
        return unit_rows(x)
    if how is Scale.CENTRED:
        return centred_rows(x)
    if how is Scale.NONE:
        return x
    if not public:
        raise InvalidInput('scale="columns" reads statistics of private features; use "rows" or "none"')
    return (x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-6)
