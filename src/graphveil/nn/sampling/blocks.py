"""What the samplers share: checking centres, and adding the arcs among the nodes of each subgraph."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.subgraphs import Subgraphs


def require_centres(adj: Csr, centres: Ids) -> None:
    """Strictly increasing node ids, int64 [k], or a clear error."""
    if centres.ndim != 1 or centres.dtype != np.int64:
        raise InvalidInput(f"centres must be a one-dimensional int64 array, got {centres.dtype} {list(centres.shape)}")
    if not centres.size:
        return
    if bool((np.diff(centres) <= 0).any()):
        raise InvalidInput("centres must be strictly increasing; sort them and drop repeats")
    if centres[0] < 0 or centres[-1] >= adj.num_nodes:
        raise InvalidInput(f"centres {centres[0]}..{centres[-1]}: node ids must lie in 0..{adj.num_nodes - 1}")


@numba.njit(cache=True, nogil=True)
def _holds(arcs: Any, node: int) -> Any:
    """Whether the increasing `arcs` hold `node`."""
    start, stop = 0, len(arcs)
    while start < stop:
        middle = (start + stop) // 2
        if arcs[middle] < node:
            start = middle + 1
        else:
            stop = middle
    return start < len(arcs) and arcs[start] == node


@numba.njit(cache=True, nogil=True)
def _look_up(arcs: Any, nodes: Any, first: int, last: int, row: int, out: Any) -> int:
    """Write those rows first .. last-1 whose nodes are among `arcs`, by searching each; return how many."""
    filled = 0
    for other in range(first, last):
        if other != row and _holds(arcs, nodes[other]):
            out[filled] = other
            filled += 1
    return filled


@numba.njit(cache=True, nogil=True)
def _read_off(arcs: Any, rows: Any, first: int, row: int, out: Any) -> int:
    """Write the rows of those `arcs` that have one in this subgraph, by reading all arcs; return how many."""
    filled = 0
    ordered = True
    for node in arcs:
        other = rows[node] - 1
        # Rows of earlier subgraphs are below `first`, and 0 - 1 stands for a node that was never met.
        if other >= first and other != row:
            ordered = ordered and (filled == 0 or out[filled - 1] < other)
            out[filled] = other
            filled += 1
    if not ordered:
        out[:filled].sort()
    return filled


@numba.njit(cache=True, nogil=True)
def _induce(adj_ptr: Any, adj_indices: Any, nodes: Any, ptr: Any, rows: Any, indptr: Any, indices: Any) -> None:
    """Fill indptr and indices; rows: zeros [n], scratch for one more than the row of each node."""
    for s in range(len(ptr) - 1):
        first, last = ptr[s], ptr[s + 1]
        for row in range(first, last):
            rows[nodes[row]] = row + 1
        for row in range(first, last):
            arcs = adj_indices[adj_ptr[nodes[row]] : adj_ptr[nodes[row] + 1]]
            out = indices[indptr[row] :]
            # A hub in a small subgraph: look its few companions up instead of reading all its arcs.
            if last - first < len(arcs):
                indptr[row + 1] = indptr[row] + _look_up(arcs, nodes, first, last, row, out)
            else:
                indptr[row + 1] = indptr[row] + _read_off(arcs, rows, first, row, out)


def induce(adj: Csr, nodes: Ids, ptr: Ids) -> Subgraphs:
    """The subgraphs of `adj` on given nodes, without self-loops; nodes: int64 [r], ptr: int64 [k + 1].

    A row of d arcs in a subgraph of s nodes costs at most min(s, d) log d.
    """
    sizes = np.repeat(np.diff(ptr), np.diff(ptr))
    degrees = adj.indptr[nodes + 1] - adj.indptr[nodes]
    indptr, indices = np.zeros(len(nodes) + 1, np.int64), np.empty(int(np.minimum(sizes, degrees).sum()), np.int64)
    # The system hands out zero pages as they are touched, so the scratch costs what is used of it.
    _induce(adj.indptr, adj.indices, nodes, ptr, np.zeros(adj.num_nodes, np.int64), indptr, indices)
    return Subgraphs(nodes, ptr, indptr, indices[: indptr[-1]].copy())
