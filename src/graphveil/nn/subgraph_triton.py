"""Squared lengths of the gradients of many subgraphs on a GPU, in one pass. Loaded where Triton is installed alone."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS, _COLUMNS = 8, 64
"""Of one tile."""


def gram(inputs: Tensor, signals: Tensor, cuts: Tensor) -> tuple[Tensor, Tensor]:
    """Squared lengths of sum_i inputs_i (x) signals_i and sums of the terms' lengths, float64 [k] each.

    inputs [r, a], signals [r, b]; cuts int64 [k + 1]. One program per subgraph, always in the same order: what it
    finds does not depend on the other subgraphs.
    """
    count = len(cuts) - 1
    squares, terms = torch.empty(2, count, dtype=torch.float64, device=inputs.device)
    widths = inputs.shape[1], signals.shape[1]
    with torch.cuda.device_of(inputs):
        _gram[(count,)](
            inputs.contiguous(), signals.contiguous(), cuts, squares, terms, *widths, R=_ROWS, C=_COLUMNS, num_warps=4
        )
    return squares, terms


@triton.jit
def _dots(rows, i, j, width, end, R: tl.constexpr, C: tl.constexpr):
    """<rows_i, rows_j> for R rows i and R rows j, float64 [R, R]; rows from `end` on count as zero."""
    total = tl.zeros((R, R), tl.float64)
    for first in range(0, width, C):
        column = first + tl.arange(0, C)
        there = (i < end)[:, None] & (column < width)[None, :]
        left = tl.load(rows + i[:, None] * width + column[None, :], mask=there, other=0.0).to(tl.float64)
        there = (j < end)[:, None] & (column < width)[None, :]
        right = tl.load(rows + j[:, None] * width + column[None, :], mask=there, other=0.0).to(tl.float64)
        total += tl.sum(left[:, None, :] * right[None, :, :], axis=2)
    return total


@triton.jit
def _gram(inputs, signals, ptr, squares, terms, width, outputs, R: tl.constexpr, C: tl.constexpr):
    s = tl.program_id(0)
    begin, end = tl.load(ptr + s), tl.load(ptr + s + 1)
    place = tl.arange(0, R)
    square = tl.zeros((R, R), tl.float64)
    length = tl.zeros((R, R), tl.float64)
    for above in range(begin, end, R):
        i = above + place
        alone = _dots(inputs, i, i, width, end, R, C) * _dots(signals, i, i, outputs, end, R, C)
        square += alone
        length += tl.where(place[:, None] == place[None, :], tl.sqrt(alone), 0.0)
        for left in range(begin, above, R):
            j = left + place
            square += 2 * _dots(inputs, i, j, width, end, R, C) * _dots(signals, i, j, outputs, end, R, C)
    tl.store(squares + s, tl.sum(tl.sum(square, axis=1), axis=0))
    tl.store(terms + s, tl.sum(tl.sum(length, axis=1), axis=0))
