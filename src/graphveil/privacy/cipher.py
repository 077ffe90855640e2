"""ChaCha20 (RFC 8439) as a function of key and place: the stream that cryptographic noise is made from.

A stream is the 64-bit words 0, 1, 2, ... of one key, eight to a block. Block b has the counter b mod 2^30 and the nonce
floor(b / 2^30), so that no counter of the RFC's 32 bits ever ends. Any word can be made without those before it, on any
device: by the library `cryptography` on a processor, by a Triton kernel on a GPU, and by torch operations where either
is missing. All give the same words.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.runtime.kernels import kernels

_SEGMENT_BITS = 30
"""Blocks under one nonce, as a power of two: 2^36 bytes."""

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
"""The words "expand 32-byte k"."""

_AT_ONCE = 1 << 20
"""Blocks that torch operations make at a time: 64 MB."""


def words(key: bytes, first: int, count: int) -> NDArray[np.uint64]:
    """The words first .. first + count - 1 of the stream under `key` (32 bytes), in this machine's memory."""
    begin, end = first // 8, -(-(first + count) // 8)
    if _library() is None:
        made = words_by_torch(key, begin, end - begin, torch.device("cpu")).numpy().view(np.uint64)
    else:
        made = _by_library(key, begin, end)
    return made[first - 8 * begin : first - 8 * begin + count]


def words_on(key: bytes, first: int, count: int, device: torch.device) -> Tensor:
    """The same words on `device`, as int64 with the same bits."""
    if device.type == "cpu":
        return torch.from_numpy(words(key, first, count).view(np.int64).copy())
    begin, end = first // 8, -(-(first + count) // 8)
    gpu = kernels(__name__, device)
    if gpu is None:
        made = words_by_torch(key, begin, end - begin, device)
    else:
        made = torch.empty(8 * (end - begin), dtype=torch.int64, device=device)
        gpu.fill(key, begin, made)
    return made[first - 8 * begin : first - 8 * begin + count]


@cache
def _library() -> object | None:
    """`cryptography`'s cipher, if it is installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    except ImportError:
        return None
    return ChaCha20


def _by_library(key: bytes, begin: int, end: int) -> NDArray[np.uint64]:
    """The blocks begin .. end - 1, one segment after the other, uint64 [8 k]."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    made = np.zeros(64 * (end - begin), np.uint8)
    place = begin
    while place < end:
        segment, counter = place >> _SEGMENT_BITS, place & ((1 << _SEGMENT_BITS) - 1)
        stop = min(end, (segment + 1) << _SEGMENT_BITS)
        # The library takes the counter and the RFC's nonce as one.
        cipher = Cipher(ChaCha20(key, struct.pack("<IQI", counter, segment, 0)), mode=None).encryptor()
        zeros = made[64 * (place - begin) : 64 * (stop - begin)].data
        cipher.update_into(zeros, zeros)
        place = stop
    return made.view(np.uint64)


def words_by_torch(key: bytes, begin: int, blocks: int, device: torch.device) -> Tensor:
    """The words of `blocks` blocks from `begin` on, int64 [8 blocks], from torch operations alone."""
    made = torch.empty(8 * blocks, dtype=torch.int64, device=device)
    for first in range(0, blocks, _AT_ONCE):
        count = min(_AT_ONCE, blocks - first)
        made[8 * first : 8 * (first + count)] = _made(key, begin + first, count, device)
    return made


def _made(key: bytes, begin: int, count: int, device: torch.device) -> Tensor:
    places = torch.arange(begin, begin + count, device=device)
    segments = places >> _SEGMENT_BITS
    fixed = [_signed(word) for word in (*_CONSTANTS, *struct.unpack("<8I", key))]
    state = torch.empty(16, count, dtype=torch.int32, device=device)
    state[:12] = torch.tensor(fixed, dtype=torch.int32, device=device)[:, None]
    state[12] = (places & ((1 << _SEGMENT_BITS) - 1)).to(torch.int32)
    state[13], state[14], state[15] = _low(segments), _low(segments >> 32), 0
    rows = list(state.clone().view(4, 4, count))
    for _ in range(10):
        rows = _round(*rows)
        # Diagonals become columns, and columns again.
        rows = _round(*(row.roll(-turn, 0) for turn, row in enumerate(rows)))
        rows = [row.roll(turn, 0) for turn, row in enumerate(rows)]
    return (torch.cat(rows) + state).T.flatten().view(torch.int64)


def _round(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> list[Tensor]:
    """A quarter round on each of four columns; every row: int32 [4, k], whose sums wrap round."""
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a = a + b
    d = _rotated(d ^ a, 8)
    c = c + d
    b = _rotated(b ^ c, 7)
    return [a, b, c, d]


def _rotated(x: Tensor, bits: int) -> Tensor:
    return (x << bits) | ((x >> (32 - bits)) & ((1 << bits) - 1))


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _low(x: Tensor) -> Tensor:
    """The low 32 bits of non-negative int64, as int32."""
    low = x & 0xFFFFFFFF
    return torch.where(low >= 1 << 31, low - (1 << 32), low).to(torch.int32)
