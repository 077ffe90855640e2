"""Products with matrices of zeros and ones by table lookup (Arlazarov, Dinic, Kronrod & Faradzev 1970).

Eight columns of ones are a byte: all 256 sums of eight rows are made once, and every byte looks its sum up. Half the
time of a dense product for bags of words. Hand-written: BLAS knows no bits.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

BLOCK = 8
"""Bytes whose tables are held at a time; together they fit in a core's second cache."""

Bits = NDArray[np.uint8]


def packed(ones: NDArray[np.bool_]) -> Bits:
    """ones [n, k] as bytes [n, b], the lowest bit first, padded with zeros to whole blocks."""
    count, columns = ones.shape
    bits = np.zeros((count, -(-columns // (8 * BLOCK)) * BLOCK), np.uint8)
    bits[:, : -(-columns // 8)] = np.packbits(ones, axis=1, bitorder="little")
    return bits


@numba.njit(cache=True, nogil=True, fastmath={"reassoc"})
def product(bits: Any, rows: Any, table: Any, out: Any) -> None:
    """out [n, h] = ones @ rows [k, h], for ones [n, k] packed as `bits`; table: float32 [256 BLOCK, h], scratch."""
    count, hidden = out.shape
    out[:] = 0
    for first in range(0, bits.shape[1], 8):
        for place in range(8):
            base, size = 256 * place, 1
            for k in range(hidden):
                table[base, k] = 0
            for row in range(8 * (first + place), min(8 * (first + place) + 8, len(rows))):
                for r in range(base, base + size):
                    for k in range(hidden):
                        table[r + size, k] = table[r, k] + rows[row, k]
                size *= 2
        for i in range(count):
            a, b = np.int64(bits[i, first]), 256 + np.int64(bits[i, first + 1])
            c, d = 512 + np.int64(bits[i, first + 2]), 768 + np.int64(bits[i, first + 3])
            e, f = 1024 + np.int64(bits[i, first + 4]), 1280 + np.int64(bits[i, first + 5])
            g, h = 1536 + np.int64(bits[i, first + 6]), 1792 + np.int64(bits[i, first + 7])
            for k in range(hidden):
                out[i, k] += ((table[a, k] + table[b, k]) + (table[c, k] + table[d, k])) + (
                    (table[e, k] + table[f, k]) + (table[g, k] + table[h, k])
                )
