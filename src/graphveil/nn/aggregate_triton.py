"""Neighbours counted by their values, in one pass over the arcs of a GPU. Loaded where Triton is installed alone."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ARCS = 1024
"""Arcs of one program."""


def count(indptr: Tensor, indices: Tensor, values: Tensor, size: int, out: Tensor) -> None:
    """out[target * size + values[source]] += 1 for every arc. indptr: int64 [n + 1]; indices: [m]; out: int64."""
    programs = triton.cdiv(len(indices), _ARCS)
    if not programs:
        return
    cuts = torch.arange(programs + 1, device=indptr.device) * _ARCS
    # The row of the first arc of every program, and of the arc after its last.
    rows = torch.searchsorted(indptr, cuts.clamp(max=len(indices) - 1), right=True) - 1
    steps = int(rows.diff().max()).bit_length() + 1
    _count[(programs,)](indptr, indices, values, rows, out, len(indices), size, steps, A=_ARCS)


@triton.jit
def _count(indptr, indices, values, rows, out, arcs, size, steps, A: tl.constexpr):
    program = tl.program_id(0)
    arc = program.to(tl.int64) * A + tl.arange(0, A)
    inside = arc < arcs
    nothing = arc * 0
    low = nothing + tl.load(rows + program)
    high = nothing + tl.load(rows + program + 1)
    # The last row that begins at the arc or before it.
    for _ in range(steps):
        middle = (low + high + 1) // 2
        begins = tl.load(indptr + middle) <= arc
        low = tl.where(begins, middle, low)
        high = tl.where(begins, high, tl.minimum(middle - 1, high))
        high = tl.maximum(low, high)
    source = tl.load(indices + arc, mask=inside, other=0).to(tl.int64)
    cell = low * size + tl.load(values + source, mask=inside, other=0).to(tl.int64)
    tl.atomic_add(out + cell, nothing + 1, mask=inside, sem="relaxed")
