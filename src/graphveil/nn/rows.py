"""Matrices whose rows are made when they are read: a graph's largest tables are never held twice.

A `Rows` is whatever has a shape and gives rows by position, `rows[ids]` or `rows[first:last]`: a tensor is one. What is
read of all rows is read block by block. A small matrix is treated as a whole, so that its bits are those of the same
formula on a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphveil.runtime.compute import Run
from graphveil.runtime.memory import BLOCK_SIZE, MemoryEstimate

WHOLE = 1 << 17
"""Rows up to which a matrix is read as a whole."""

BLOCK = 1 << 14
"""Rows that are read at a time beyond: what is made of them stays in a processor's cache."""

_HELD = 1 << 25
"""Entries up to which a matrix that is read often is made once, 128 MB."""


_HELD_ON_GPU = 1 << 29
"""The same on a GPU, 2 GB: there a step takes as long as it has kernels."""


class Rows(Protocol):
    """A matrix [n, k], read by rows."""

    @property
    def shape(self) -> torch.Size | tuple[int, ...]:
        """(n, k)."""
        ...

    def __getitem__(self, which: Tensor | slice, /) -> Tensor:
        """The rows `which`: ids int64 [*] give [*, k], a slice [m, k]."""
        ...


@dataclass(frozen=True, eq=False)
class RowMap:
    """`how` of rows, each made from its own row [d] alone: [n, width]."""

    rows: Rows
    how: Callable[[Tensor], Tensor]
    width: int

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, width)."""
        return self.rows.shape[0], self.width

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        found = self.rows[which]
        # Not by -1 alone: rows may have no columns.
        flat = found.reshape(math.prod(found.shape[:-1]), found.shape[-1])
        return self.how(flat).view(*found.shape[:-1], self.width)


@dataclass(frozen=True, eq=False)
class HStack:
    """Matrices side by side, [n, sum of their widths]."""

    parts: tuple[Rows, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, sum of the widths)."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        return torch.cat([part[which] for part in self.parts], dim=-1)


@dataclass(frozen=True, eq=False)
class Selected:
    """Some rows of a matrix, by their ids int64 [m]: [m, k]."""

    rows: Rows
    ids: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """(m, k)."""
        return len(self.ids), self.rows.shape[1]

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        return self.rows[self.ids[which]]


def blocks(count: int, block: int | None = None) -> Iterator[slice]:
    """Consecutive slices of range(count), each of at most `block`, or of what suits a processor."""
    size = block or BLOCK
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def held(rows: Rows, run: Run) -> Rows:
    """The same rows, made once if they are few: what many passes read."""
    size = math.prod(rows.shape)
    if run.device.type != "cpu" and size <= _HELD_ON_GPU:
        return in_blocks(rows.shape[0], lambda part: rows[part], run.block)
    return rows[:] if rows.shape[0] <= WHOLE and size <= _HELD else rows


def many(count: int) -> bool:
    """Whether so many rows are read block by block."""
    return count > WHOLE


def at_a_time(count: int, a_row: int, held: int, block: int | None = None) -> MemoryEstimate:
    """The memory of a run that holds so many bytes, and so many for a row of the `count` that are read in blocks."""
    size = block or BLOCK
    if many(count) and size < count:
        return MemoryEstimate(held, size, a_row, BLOCK_SIZE)
    return MemoryEstimate(held, count, a_row)


def whole(rows: Rows) -> Rows:
    """The same rows, made at once where a matrix is treated as a whole."""
    return rows if many(rows.shape[0]) else rows[:]


def in_blocks(count: int, how: Callable[[slice], Tensor], block: int | None = None) -> Tensor:
    """`how` of consecutive slices of range(count), [n, *]: nothing but the result is ever held whole."""
    if count <= WHOLE:
        return how(slice(0, count))
    out = how(slice(0, 1))
    out = out.new_empty(count, *out.shape[1:])
    for part in blocks(count, block):
        out[part] = how(part)
    return out


def summed(count: int, how: Callable[[slice], Tensor], block: int | None = None) -> Tensor:
    """The sum of `how` over consecutive slices of range(count)."""
    if count <= WHOLE:
        return how(slice(0, count))
    parts = blocks(count, block)
    total = how(next(parts))
    for part in parts:
        total += how(part)
    return total


def gram(rows: Rows, block: int | None = None) -> Tensor:
    """R^T R, [k, k]."""

    def of(part: slice) -> Tensor:
        some = rows[part]
        return some.T @ some

    return summed(rows.shape[0], of, block)


def deviation(rows: Rows, block: int | None = None) -> Tensor:
    """The standard deviation of all entries, a float32 number, at least 1e-6."""
    count = math.prod(rows.shape)
    # A single entry has no deviation but 0.
    correction = min(1, count - 1)
    if rows.shape[0] <= WHOLE:
        return rows[:].std(correction=correction).clamp(min=1e-6)
    mean = sum(float(rows[part].double().sum()) for part in blocks(rows.shape[0], block)) / count
    square = sum(float((rows[part].double() - mean).square().sum()) for part in blocks(rows.shape[0], block))
    root = math.sqrt(square / (count - correction))
    return torch.tensor(root, device=rows[:0].device).clamp(min=1e-6)


def column_means(rows: Rows, block: int | None = None) -> Tensor:
    """The mean of every column, float32 [k]."""
    return rows[:].mean(dim=0) if rows.shape[0] <= WHOLE else _column_means(rows, block).float()


def column_deviations(rows: Rows, block: int | None = None) -> Tensor:
    """The standard deviation of every column, float32 [k], at least 1e-6."""
    correction = min(1, rows.shape[0] - 1)
    if rows.shape[0] <= WHOLE:
        return rows[:].std(dim=0, correction=correction).clamp(min=1e-6)
    mean = _column_means(rows, block)
    square = torch.zeros_like(mean)
    for part in blocks(rows.shape[0], block):
        square += (rows[part] - mean).square().sum(dim=0)
    return (square / (rows.shape[0] - correction)).sqrt().float().clamp(min=1e-6)


def _column_means(rows: Rows, block: int | None) -> Tensor:
    """In float64, block by block."""
    total = rows[:0].new_zeros(rows.shape[1], dtype=torch.float64)
    for part in blocks(rows.shape[0], block):
        total += rows[part].sum(dim=0, dtype=torch.float64)
    return total / rows.shape[0]


def alike(rows: Rows, block: int | None = None) -> Rows:
    """All entries divided by their common standard deviation, [n, k]: long rows stay longer than short ones."""
    divisor = deviation(rows, block)
    return RowMap(rows, lambda some: some / divisor, rows.shape[1])
