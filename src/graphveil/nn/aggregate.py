"""Sums over neighbours: the parameter-free half of every message-passing layer.

Hand-written numba kernel: it is the fastest CPU product for this shape, and it accumulates in float64 so
that rounding stays far below the noise grid of the secure source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.data.device_arcs import blocks_of
from graphveil.nn.rows import blocks
from graphveil.runtime.kernels import kernels
from graphveil.vocabulary import Floats

_ONES: Floats = np.empty(0)
"""No weights, no factors."""


@numba.njit(parallel=True, cache=True, nogil=True)
def spmm(indptr: Any, indices: Any, weights: Any, factors: Any, rows: Any, cuts: Any, out: Any) -> None:
    """out[i] = sum over arcs of row i, with source j, of weights[arc] * factors[j] * rows[j].

    Empty `weights` or `factors` stand for ones. A source of factor 0 is left out, even if its row is not finite. Thread
    by thread the rows cuts[p]..cuts[p + 1]; every row is summed by one thread in the order of its arcs.
    """
    for part in numba.prange(len(cuts) - 1):
        total = np.empty(rows.shape[1], np.float64)
        for i in range(cuts[part], cuts[part + 1]):
            total[:] = 0.0
            for arc in range(indptr[i], indptr[i + 1]):
                j = indices[arc]
                weight = np.float64(weights[arc]) if len(weights) > 0 else 1.0
                if len(factors) > 0:
                    weight *= factors[j]
                    if weight == 0.0:
                        continue
                for k in range(rows.shape[1]):
                    total[k] += weight * rows[j, k]
            for k in range(rows.shape[1]):
                out[i, k] = total[k]


@numba.njit(parallel=True, cache=True, nogil=True)
def _lengths(rows: Any, out: Any) -> None:
    """out[i] = the Euclidean length of rows[i] in float64; infinite or nan if an entry is."""
    for i in numba.prange(len(rows)):
        total = 0.0
        for k in range(rows.shape[1]):
            total += np.float64(rows[i, k]) ** 2
        out[i] = np.sqrt(total)


_PARTS = 64
"""Parts that rows are cut into, each with about the same number of arcs: hubs make rows very unequal."""


def _sum_on_cpu(
    indptr: Ids, indices: Ids, rows: Tensor, out: Tensor, weights: NDArray[Any] = _ONES, factors: Floats = _ONES
) -> Tensor:
    """See `spmm`, in parts."""
    cuts = np.searchsorted(indptr, np.linspace(indptr[0], indptr[-1], _PARTS + 1))
    cuts[0], cuts[-1] = 0, len(indptr) - 1
    spmm(indptr, indices, weights, factors, rows.detach().contiguous().numpy(), cuts, out.numpy())
    return out


def _sum_on_gpu(indptr: Tensor, indices: Tensor, rows: Tensor) -> Tensor:
    """out[i] = sum of rows[j] over arcs j -> i, float64 [n, d], from a block of arcs at a time."""
    out = torch.zeros(len(indptr) - 1, rows.shape[1], dtype=torch.float64, device=rows.device)
    for _, sources, targets in blocks_of(indptr, indices, max(1, _ENTRIES // max(rows.shape[1], 1))):
        out.index_add_(0, targets, rows[sources].double())
    return out


_ENTRIES = 1 << 27
"""Numbers that are gathered at a time on a GPU, 1 GB."""


def neighbour_counts(indptr: Tensor, indices: Tensor, values: Tensor, count: int) -> Tensor:
    """How many neighbours of every node have each of `count` values, int64 [n count]; values: int64 [n]. For GPUs.

    Whole numbers, so that the order in which they are added does not matter. indptr, indices: arcs by target.
    """
    counts = torch.zeros(len(values) * count, dtype=torch.int64, device=values.device)
    if (kernel := kernels(__name__, values.device)) is not None:
        kernel.count(indptr, indices, values.to(torch.uint8 if count <= 256 else torch.int32), count, counts)
        return counts
    for _, sources, targets in blocks_of(indptr, indices):
        cells = targets.mul_(count).add_(values[sources])
        counts.scatter_add_(0, cells, torch.ones_like(cells))
    return counts


def neighbour_sum(adj: Csr, rows: Tensor, factors: Floats = _ONES) -> Tensor:
    """A diag(factors) rows, float64 [n, d]; factors: [n], or empty for ones."""
    if rows.device.type == "cpu":
        out = torch.empty(adj.num_nodes, rows.shape[1], dtype=torch.float64, device=rows.device)
        return _sum_on_cpu(adj.indptr, adj.indices, rows, out, factors=factors)
    scaled = rows.detach()
    if len(factors):
        weights = torch.from_numpy(factors).to(rows.device)[:, None]
        scaled = torch.where(weights == 0, 0.0, scaled.double() * weights)
    return _sum_on_gpu(*adj.on(rows.device), scaled)


def linked_sum(indptr: Ids, indices: Ids, rows: Tensor) -> Tensor:
    """`neighbour_sum` where the targets, [k], are other nodes than the sources, rows [m, d]: float64 [k, d].

    indptr: int [k + 1], which may begin anywhere in indices.
    """
    if rows.device.type == "cpu":
        out = torch.empty(len(indptr) - 1, rows.shape[1], dtype=torch.float64, device=rows.device)
        return _sum_on_cpu(indptr, indices, rows, out)
    pointers = torch.from_numpy(indptr.astype(np.int64) - indptr[0]).to(rows.device)
    return _sum_on_gpu(pointers, torch.from_numpy(indices[indptr[0] : indptr[-1]]).to(rows.device), rows)


def clip_factors(rows: Tensor, clip: float) -> Floats:
    """What scales each row down to length at most `clip`, float64 [n]; 0 for rows that are not finite."""
    if rows.device.type == "cpu":
        lengths = np.empty(len(rows))
        _lengths(rows.detach().numpy(), lengths)
    else:
        lengths = torch.linalg.vector_norm(rows.detach(), dim=1, dtype=torch.float64).cpu().numpy()
    return np.where(np.isfinite(lengths), clip / np.maximum(lengths, clip), 0.0)


def clip_rows(rows: Tensor, clip: float) -> Tensor:
    """Each row scaled down to length at most `clip`; rows that are not finite become zero."""
    factors = torch.from_numpy(clip_factors(rows, clip)).to(rows)[:, None]
    clipped = rows * factors
    # 0 * inf is nan.
    return clipped.masked_fill_(factors == 0, 0.0)


@dataclass(frozen=True, eq=False)
class NeighbourSums:
    """Every arc j -> i contributes row j to row i of the result: `Contributions` of edge-level methods."""

    adj: Csr
    rows: Tensor

    def clipped_sum(self, clip: float) -> Tensor:
        """A @ clipped rows, [n, d]: one arc moves one row by at most `clip`."""
        # Clipped in float64, inside the sum: float32 may leave a row longer than `clip` by a rounding error.
        return neighbour_sum(self.adj, self.rows, clip_factors(self.rows, clip))


def mean_matrix(adj: Csr) -> sp.csr_array:
    """D^-1 A, float32 [n, n]; the row of a node without neighbours is 0."""
    weights = np.repeat(1 / np.maximum(adj.in_degrees(), 1), adj.in_degrees()).astype(np.float32)
    return sp.csr_array((weights, adj.indices, adj.indptr), shape=(adj.num_nodes, adj.num_nodes))


@dataclass(frozen=True, eq=False)
class Operator:
    """A sparse matrix by rows that autograd can multiply by: out_i = sum over arcs of i of weights * rows[indices].

    indptr: int64 [m + 1]; indices: int64 [a]; weights: float [a]; columns: how many rows it reads.
    """

    indptr: Ids
    indices: Ids
    weights: NDArray[Any]
    columns: int

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Operator:
        """A scipy matrix, its weights in float32."""
        indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        return cls(indptr, indices, matrix.data.astype(np.float32), matrix.shape[1])

    def __matmul__(self, rows: Tensor) -> Tensor:
        product: Tensor = _Propagate.apply(rows, self)  # type: ignore[no-untyped-call]  # torch does not type it
        return product

    @cached_property
    def transposed(self) -> Operator:
        """The same matrix by columns, for the way back."""
        shape = (len(self.indptr) - 1, self.columns)
        turned = sp.csr_array(sp.csr_array((self.weights, self.indices, self.indptr), shape).T)
        return Operator(turned.indptr.astype(np.int64), turned.indices.astype(np.int64), turned.data, shape[0])

    def forth(self, rows: Tensor) -> Tensor:
        """S rows, [m, d], summed in float64 on a processor."""
        if rows.device.type != "cpu":
            return self.scattered(rows, transposed=False)
        out = rows.new_empty(len(self.indptr) - 1, rows.shape[1])
        return _sum_on_cpu(self.indptr, self.indices, rows, out, self.weights)

    def back(self, rows: Tensor) -> Tensor:
        """S^T rows, [columns, d]."""
        return self.transposed.forth(rows) if rows.device.type == "cpu" else self.scattered(rows, transposed=True)

    def scattered(self, rows: Tensor, transposed: bool) -> Tensor:
        """S rows or S^T rows from torch operations alone, on the rows' device."""
        count, (targets, sources, weights) = len(self.indptr) - 1, self._on(rows.device, rows.dtype)
        if transposed:
            targets, sources, count = sources, targets, self.columns
        return rows.new_zeros(count, rows.shape[1]).index_add_(0, targets, rows[sources] * weights)

    def _on(self, device: torch.device, kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Targets [a], sources [a] and weights [a, 1] on `device`, sent there once."""
        if (device, kind) not in self._sent:
            pointers, sources = torch.from_numpy(self.indptr).to(device), torch.from_numpy(self.indices).to(device)
            places = torch.arange(len(self.indptr) - 1, device=device)
            targets = places.repeat_interleave(pointers.diff(), output_size=len(sources))
            self._sent[device, kind] = targets, sources, torch.from_numpy(self.weights).to(device, kind)[:, None]
        return self._sent[device, kind]

    @cached_property
    def _sent(self) -> dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor, Tensor]]:
        return {}


@dataclass(frozen=True, eq=False)
class Walk:
    """diag(after) (A + loops I) diag(before), by which a matrix is multiplied a few columns at a time.

    No number is held for an arc: for graphs whose arcs are the largest thing there is. before, after: float64 [n].
    """

    adj: Csr
    before: Floats
    after: Floats
    loops: bool = False

    def __matmul__(self, rows: Tensor) -> Tensor:
        """Like rows, [n, d]."""
        out = torch.empty_like(rows)
        for part in blocks(rows.shape[1], COLUMNS):
            out[:, part] = self._some(rows[:, part].float())
        return out

    def _some(self, rows: Tensor) -> Tensor:
        """Of a few columns, float64 [n, k]."""
        total = neighbour_sum(self.adj, rows, self.before)
        if self.loops:
            total += rows * torch.from_numpy(self.before).to(rows.device)[:, None]
        return total.mul_(torch.from_numpy(self.after).to(rows.device)[:, None])


COLUMNS = 8
"""Columns of all nodes that are worked on at a time."""


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, operator: Operator) -> Tensor:
        ctx.operator = operator
        return operator.forth(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.operator.back(grads[0]), None
