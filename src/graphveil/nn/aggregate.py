"""Sums over neighbours: the parameter-free half of every message-passing layer.

Hand-written numba kernel: it is the fastest CPU product for this shape, and it accumulates in float64 so
that rounding stays far below the noise grid of the secure source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.arcs import Csr


@numba.njit(parallel=True, cache=True, nogil=True)
def spmm(indptr: Any, indices: Any, weights: Any, rows: Any, out: Any) -> None:
    """out[i] = sum over sources j of row i of weights[arc] * rows[j]."""
    for i in numba.prange(len(indptr) - 1):
        total = np.zeros(rows.shape[1], np.float64)
        for arc in range(indptr[i], indptr[i + 1]):
            weight = weights[arc] if len(weights) > 0 else 1.0
            for k in range(rows.shape[1]):
                total[k] += weight * rows[indices[arc], k]
        for k in range(rows.shape[1]):
            out[i, k] = total[k]


def neighbour_sum(adj: Csr, rows: Tensor) -> Tensor:
    """A @ rows, float64 [n, d]."""
    return _product(adj.indptr, adj.indices, np.empty(0, np.float32), rows)


def _product(indptr: NDArray[Any], indices: NDArray[Any], weights: NDArray[np.float32], rows: Tensor) -> Tensor:
    source = np.ascontiguousarray(rows.detach().cpu().numpy())
    out = np.empty((len(indptr) - 1, source.shape[1]))
    spmm(indptr, indices, weights, source, out)
    return torch.from_numpy(out)


def clip_rows(rows: Tensor, clip: float) -> Tensor:
    """Each row scaled down to length at most `clip`; rows that are not finite become zero."""
    clean = torch.where(rows.isfinite().all(dim=1, keepdim=True), rows, 0.0)
    clipped: Tensor = clean * (clip / clean.norm(dim=1, keepdim=True).clamp(min=clip))
    return clipped


@dataclass(frozen=True, eq=False)
class NeighbourSums:
    """Every arc j -> i contributes row j to row i of the result: `Contributions` of edge-level methods."""

    adj: Csr
    rows: Tensor

    def clipped_sum(self, clip: float) -> Tensor:
        """A @ clipped rows, [n, d]: one arc moves one row by at most `clip`."""
        # Clipping in float32 may leave a row longer than `clip` by a rounding error, so clip in float64.
        return neighbour_sum(self.adj, clip_rows(self.rows.double(), clip))


class Operator:
    """A fixed weighted sparse matrix that autograd can multiply by; keeps its transpose for the way back."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self._forth = _Arrays(matrix)
        self._back = _Arrays(sp.csr_array(matrix.T))

    def __matmul__(self, rows: Tensor) -> Tensor:
        product: Tensor = _Propagate.apply(rows, self._forth, self._back)  # type: ignore[no-untyped-call]
        return product


class _Arrays:
    def __init__(self, matrix: sp.csr_array) -> None:
        self.indptr, self.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.weights = matrix.data.astype(np.float32)

    def __matmul__(self, rows: Tensor) -> Tensor:
        return _product(self.indptr, self.indices, self.weights, rows).to(rows.dtype)


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, forth: _Arrays, back: _Arrays) -> Tensor:
        ctx.back = back
        return forth @ rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back @ grads[0], None, None
