"""Disjoint random walks, DRW and DRW-R (Ayle et al. 2022, section 4.2 and appendix B, Algorithms 2 and 3).

Every node lies in exactly one subgraph, so a change of one node's features or label moves one subgraph.
Structure is public under this unit and so may the seed be. DRW-D is a new partition, with another seed, every
few steps: the guarantee of a step does not depend on which partition it used.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from graphveil.data.arcs import Csr
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.blocks import induce
from graphveil.nn.sampling.splitmix import below, state_of
from graphveil.nn.sampling.subgraphs import Subgraphs


def least_subgraphs(num_nodes: int, length: int, restarts: int = 1) -> int:
    """M_min = ceil(N / (1 + R L)): no partition of N nodes has fewer subgraphs (section 4.2)."""
    return -(-num_nodes // (1 + restarts * length))


@numba.njit(cache=True, nogil=True)
def _shuffle(items: Any, state: Any) -> None:
    """A uniform order, in place (Fisher and Yates)."""
    for last in range(len(items) - 1, 0, -1):
        other = below(state, last + 1)
        items[last], items[other] = items[other], items[last]


@numba.njit(cache=True, nogil=True)
def _pick(indices: Any, start: int, stop: int, taken: Any, state: Any) -> Any:
    """A uniform choice among the entries start .. stop-1 that are not taken, or -1."""
    free = 0
    for arc in range(start, stop):
        free += not taken[indices[arc]]
    if free == 0:
        return -1
    left = below(state, free)
    for arc in range(start, stop):
        if not taken[indices[arc]]:
            if left == 0:
                return indices[arc]
            left -= 1
    return -1


@numba.njit(cache=True, nogil=True)
def _walk(
    indptr: Any, indices: Any, order: Any, length: int, restarts: int, taken: Any, state: Any, nodes: Any, ptr: Any
) -> int:
    """Fill nodes and ptr, and return the number of subgraphs."""
    row, count = 0, 0
    for root in order:
        if taken[root]:
            continue
        taken[root] = True
        nodes[row] = root
        row += 1
        for _ in range(restarts):
            node = root
            for _ in range(length):
                node = _pick(indices, indptr[node], indptr[node + 1], taken, state)
                if node < 0:
                    break
                taken[node] = True
                nodes[row] = node
                row += 1
        # Once per root. Algorithm 3 as printed adds the subgraph after every restart, so that its nodes would
        # lie in several subgraphs and one node's features would move several gradients.
        count += 1
        ptr[count] = row
    return count


def partition(
    adj: Csr, length: int, restarts: int = 1, *, seed: int, roots: NDArray[np.bool_] | None = None
) -> Subgraphs:
    """All nodes in disjoint subgraphs: a root, then what `restarts` walks of `length` steps from it reach.

    A walk goes from a node to a uniformly chosen in-neighbour that is still free, since messages come from
    there; rows are in the order of the visits, and all arcs inside a subgraph are included. `roots`, bool [n]:
    nodes that become roots first, in uniform order; what no walk reaches roots its own subgraphs after them.
    """
    if length < 1 or restarts < 1:
        raise InvalidInput(f"length and restarts must be at least 1, got {length} and {restarts}")
    if roots is not None and (roots.shape != (adj.num_nodes,) or roots.dtype != np.bool_):
        raise InvalidInput(f"roots must be bool [{adj.num_nodes}], got {roots.dtype} {list(roots.shape)}")
    state = state_of(seed)
    # The next free node of a uniform order is a uniform choice among the free nodes.
    order = np.arange(adj.num_nodes)
    _shuffle(order, state)
    if roots is not None:
        order = np.concatenate([order[roots[order]], order[~roots[order]]])
    nodes, ptr = np.empty(adj.num_nodes, np.int64), np.zeros(adj.num_nodes + 1, np.int64)
    taken = np.zeros(adj.num_nodes, np.bool_)
    count = _walk(adj.indptr, adj.indices, order, length, restarts, taken, state, nodes, ptr)
    return induce(adj, nodes, ptr[: count + 1].copy())
