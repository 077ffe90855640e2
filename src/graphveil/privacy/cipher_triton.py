"""The cipher's kernels for GPUs: the stream itself, and whole numbers made of it that never leave the registers.

Loaded by `cipher.kernels` alone: Triton need not be installed.
"""

from __future__ import annotations

import struct

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphveil.errors import InvalidInput

_GROUPS = 128
"""Blocks of the cipher that one program makes side by side."""


def fill(key: bytes, begin: int, out: Tensor) -> None:
    """The stream's blocks from `begin` on, into int64 [8 k]."""
    blocks = len(out) // 8
    if blocks:
        with torch.cuda.device_of(out):
            _fill[(triton.cdiv(blocks, _GROUPS),)](_place(key, begin, out.device), out, blocks, N=_GROUPS)


def digits(key: bytes, begin: int, chances: Tensor, out: Tensor) -> None:
    """Whole numbers into int64 [8 k]: digit j of number i is 1 if uniform i of the j-th 8 k uniforms is below chance j.

    The uniforms are those of `Secure.uniform` from block `begin` on: 8 k words of high digits, then 8 k of low ones.
    chances: float64 [digits].
    """
    groups = len(out) // 8
    if 2 * groups * len(chances) >= 1 << 31:
        raise InvalidInput("too many numbers at a time: their places would repeat beyond 2^31; draw fewer")
    if groups:
        grid, place = (triton.cdiv(groups, _GROUPS),), _place(key, begin, out.device)
        with torch.cuda.device_of(out):
            _digits[grid](place, chances, out, groups, len(chances), N=_GROUPS)


def _place(key: bytes, begin: int, device: torch.device) -> Tensor:
    """The key's eight words and the first block, int64 [9]: as a tensor, so that no kernel is compiled for a key."""
    return torch.tensor([*struct.unpack("<8I", key), begin], dtype=torch.int64, device=device)


@triton.jit
def _fill(place, out, blocks, N: tl.constexpr):
    block = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    inside = block < blocks
    w = _block(place, tl.load(place + 8) + block)
    at = out + 8 * block
    for k in tl.static_range(8):
        tl.store(at + k, w[2 * k].to(tl.int64) | (w[2 * k + 1].to(tl.int64) << 32), mask=inside)


@triton.jit
def _digits(place, chances, out, groups, count, N: tl.constexpr):
    group = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    inside = group < groups
    first = tl.load(place + 8) + group
    nothing = tl.zeros([N], dtype=tl.int64)
    n0, n1, n2, n3, n4, n5, n6, n7 = nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    for digit in range(count):
        # In units of 2^-53, in which the high digits of a uniform are whole.
        turn = tl.load(chances + digit) * 9007199254740992.0
        w = _block(place, first + 2 * digit * groups)
        h0, h1, h2, h3 = _high(w[0], w[1]), _high(w[2], w[3]), _high(w[4], w[5]), _high(w[6], w[7])
        h4, h5, h6, h7 = _high(w[8], w[9]), _high(w[10], w[11]), _high(w[12], w[13]), _high(w[14], w[15])
        # A uniform lies between its high digits and one more: only where the chance does too, low digits matter.
        c0, c1, c2, c3 = h0 + 1 < turn, h1 + 1 < turn, h2 + 1 < turn, h3 + 1 < turn
        c4, c5, c6, c7 = h4 + 1 < turn, h5 + 1 < turn, h6 + 1 < turn, h7 + 1 < turn
        open03 = _open(h0, turn) | _open(h1, turn) | _open(h2, turn) | _open(h3, turn)
        open47 = _open(h4, turn) | _open(h5, turn) | _open(h6, turn) | _open(h7, turn)
        if tl.max((open03 | open47).to(tl.int32), axis=0) > 0:
            v = _block(place, first + (2 * digit + 1) * groups)
            c0, c1 = _below(h0, v[0], v[1], turn), _below(h1, v[2], v[3], turn)
            c2, c3 = _below(h2, v[4], v[5], turn), _below(h3, v[6], v[7], turn)
            c4, c5 = _below(h4, v[8], v[9], turn), _below(h5, v[10], v[11], turn)
            c6, c7 = _below(h6, v[12], v[13], turn), _below(h7, v[14], v[15], turn)
        n0, n1 = n0 + (c0.to(tl.int64) << digit), n1 + (c1.to(tl.int64) << digit)
        n2, n3 = n2 + (c2.to(tl.int64) << digit), n3 + (c3.to(tl.int64) << digit)
        n4, n5 = n4 + (c4.to(tl.int64) << digit), n5 + (c5.to(tl.int64) << digit)
        n6, n7 = n6 + (c6.to(tl.int64) << digit), n7 + (c7.to(tl.int64) << digit)
    at = out + 8 * group
    tl.store(at, n0, mask=inside)
    tl.store(at + 1, n1, mask=inside)
    tl.store(at + 2, n2, mask=inside)
    tl.store(at + 3, n3, mask=inside)
    tl.store(at + 4, n4, mask=inside)
    tl.store(at + 5, n5, mask=inside)
    tl.store(at + 6, n6, mask=inside)
    tl.store(at + 7, n7, mask=inside)


@triton.jit
def _high(low, high):
    """The upper 53 bits of a 64-bit word, as float64."""
    return ((high.to(tl.int64) << 21) | (low.to(tl.int64) >> 11)).to(tl.float64)


@triton.jit
def _open(high, turn):
    return (high < turn) & (high + 1 >= turn)


@triton.jit
def _below(high, low_word, high_word, turn):
    """Whether the uniform is below the chance. A product by a power of two is exact, fused with the sum or not."""
    uniform = high + (_high(low_word, high_word) + 0.5) * 1.1102230246251565e-16
    return tl.minimum(uniform, 9007199254740991.0) < turn


@triton.jit
def _quarter(a, b, c, d):
    a = a + b
    d = d ^ a
    d = (d << 16) | (d >> 16)
    c = c + d
    b = b ^ c
    b = (b << 12) | (b >> 20)
    a = a + b
    d = d ^ a
    d = (d << 8) | (d >> 24)
    c = c + d
    b = b ^ c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@triton.jit
def _block(place, block):
    """The sixteen words of every block, uint32 [N] each. block: int64 [N]."""
    segment = block >> 30
    s12 = (block & 0x3FFFFFFF).to(tl.uint32)
    s13 = (segment & 0xFFFFFFFF).to(tl.uint32)
    s14 = (segment >> 32).to(tl.uint32)
    s15 = s12 & 0
    x0, x1, x2, x3 = s15 + 0x61707865, s15 + 0x3320646E, s15 + 0x79622D32, s15 + 0x6B206574
    x4, x5 = s15 + tl.load(place).to(tl.uint32), s15 + tl.load(place + 1).to(tl.uint32)
    x6, x7 = s15 + tl.load(place + 2).to(tl.uint32), s15 + tl.load(place + 3).to(tl.uint32)
    x8, x9 = s15 + tl.load(place + 4).to(tl.uint32), s15 + tl.load(place + 5).to(tl.uint32)
    x10, x11 = s15 + tl.load(place + 6).to(tl.uint32), s15 + tl.load(place + 7).to(tl.uint32)
    x12, x13, x14, x15 = s12, s13, s14, s15
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    x0, x1, x2, x3 = x0 + 0x61707865, x1 + 0x3320646E, x2 + 0x79622D32, x3 + 0x6B206574
    x4, x5 = x4 + tl.load(place).to(tl.uint32), x5 + tl.load(place + 1).to(tl.uint32)
    x6, x7 = x6 + tl.load(place + 2).to(tl.uint32), x7 + tl.load(place + 3).to(tl.uint32)
    x8, x9 = x8 + tl.load(place + 4).to(tl.uint32), x9 + tl.load(place + 5).to(tl.uint32)
    x10, x11 = x10 + tl.load(place + 6).to(tl.uint32), x11 + tl.load(place + 7).to(tl.uint32)
    x12, x13, x14 = x12 + s12, x13 + s13, x14 + s14
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15
