"""The words of `CounterRng` in one kernel. Loaded where Triton is installed alone."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_WORDS = 1024
"""Words of one program."""


def words(key: int, turn: Tensor, count: int) -> Tensor:
    """int64 [count] on the device of `turn`, int64 []. The kernel reads it, so that a recorded step draws anew."""
    out = torch.empty(count, dtype=torch.int64, device=turn.device)
    if count:
        # In two halves, which never have the values that Triton compiles kernels of their own for: 1, say.
        low, high = (key & 0x7FFFFFFF) | 1 << 31, (key >> 31) | 1 << 33
        _fill[(triton.cdiv(count, _WORDS),)](turn, out, low, high, count, N=_WORDS)
    return out


@triton.jit
def _mixed(x):
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit(do_not_specialize=["low", "high", "count"])
def _fill(turn, out, low, high, count, N: tl.constexpr):
    key = ((high & 0x1FFFFFFFF).to(tl.uint64) << 31) | (low & 0x7FFFFFFF).to(tl.uint64)
    first = _mixed(tl.load(turn).to(tl.uint64) * 0x9E3779B97F4A7C15 + key)
    place = tl.program_id(0) * N + tl.arange(0, N)
    word = _mixed(place.to(tl.uint64) * 0x9E3779B97F4A7C15 + first)
    tl.store(out + place, word.to(tl.int64), mask=place < count)
