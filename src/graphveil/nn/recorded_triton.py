"""Adam's step on one vector in one kernel; see `nn.recorded`. Loaded where Triton is installed alone."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_WEIGHTS = 1024
"""Weights of one program."""


def move(weights: Tensor, gradient: Tensor, first: Tensor, second: Tensor, numbers: Tensor, decay: float) -> None:
    """In place; numbers: 1 - beta, beta, rate / (1 - beta^t) and 1 / sqrt(1 - 0.999^t), float32 [4]."""
    count = len(weights)
    _move[(triton.cdiv(count, _WEIGHTS),)](weights, gradient, first, second, numbers, decay, count, N=_WEIGHTS)


@triton.jit
def _move(weights, gradient, first, second, numbers, decay, count, N: tl.constexpr):
    place = tl.program_id(0) * N + tl.arange(0, N)
    inside = place < count
    rest, beta = tl.load(numbers), tl.load(numbers + 1)
    rate, root = tl.load(numbers + 2), tl.load(numbers + 3)
    w = tl.load(weights + place, mask=inside, other=0.0)
    g = tl.load(gradient + place, mask=inside, other=0.0) + decay * w
    m = tl.load(first + place, mask=inside, other=0.0) * beta + g * rest
    v = tl.load(second + place, mask=inside, other=0.0) * 0.999 + g * g * 0.001
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)
    tl.store(weights + place, w - m / (tl.sqrt(v) * root + 1e-8) * rate, mask=inside)
