"""Subgraphs in which a node occurs a bounded number of times, for NDP (Daigavane et al. 2021, arXiv:2111.15521).

If every node of H has at most K out-arcs, z lies in the r-hop in-neighbourhoods of the nodes it reaches in at
most r steps, itself included: at most 1 + K + ... + K^r. What makes the arcs of H few decides the unit:

- FEATURES (arcs public): `cap_out_arcs`. H never changes, so one node's features move at most that many
  subgraphs.
- NODE (arcs private, out-degrees of the fixed population public): `silence_hubs`. Whether an arc stays depends on
  the arc and on a public number, so H without z is what the rule makes of the graph without z, and only
  subgraphs in which z occurs can change. `cap_out_arcs` is NOT sound here: a node that loses an arc to z keeps
  another one instead, which moves a subgraph that never held z, and z may have any number of such in-neighbours.

docs/sampling.md proves both, and that no rule can cap hubs by their present arcs and bound what z changes.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.blocks import induce, require_centres
from graphveil.nn.sampling.splitmix import mix, state_of
from graphveil.nn.sampling.subgraphs import Subgraphs


def most_occurrences(cap: int, hops: int) -> int:
    """1 + K + ... + K^r: in how many r-hop neighbourhoods a node with out-degrees capped at K can occur."""
    return sum(cap**hop for hop in range(hops + 1))


@numba.njit(cache=True, nogil=True)
def _smallest(indptr: Any, targets: Any, cap: int, state: Any, kept: Any) -> None:
    """kept[arc] = whether the arc is among the `cap` of its source with the smallest priorities."""
    for source in range(len(indptr) - 1):
        start, stop = indptr[source], indptr[source + 1]
        if stop - start <= cap:
            kept[start:stop] = True
            continue
        # For one source the priority is a permutation of the targets, so that there are no ties.
        key = mix(state[0] ^ mix(np.uint64(source)))
        priorities = np.empty(stop - start, np.uint64)
        for arc in range(start, stop):
            priorities[arc - start] = mix(key ^ np.uint64(targets[arc]))
        for place in np.argsort(priorities)[:cap]:
            kept[start + place] = True


def cap_out_arcs(adj: Csr, cap: int, seed: int) -> Csr:
    """At most `cap` out-arcs of every node, chosen by a hash of (seed, source, target). Sound for FEATURES only."""
    _require_cap(cap)
    out = adj.transpose()
    kept = np.zeros(adj.num_arcs, np.bool_)
    _smallest(out.indptr, out.indices, cap, state_of(seed), kept)
    return out.select(kept).transpose()


def silence_hubs(adj: Csr, out_degrees: Ids, cap: int) -> Csr:
    """The out-arcs of nodes whose population out-degree is at most `cap`; hubs send nothing. Sound for NODE.

    out_degrees: int64 [n], public, those of the fixed population: blanking a node does not change them.
    """
    _require_cap(cap)
    present = np.bincount(adj.indices, minlength=adj.num_nodes)
    if out_degrees.shape != present.shape or bool((present > out_degrees).any()):
        raise InvalidInput("out_degrees must have one entry per node, at least the number of its arcs present")
    return adj.select(out_degrees[adj.indices] <= cap)


def _require_cap(cap: int) -> None:
    if cap < 1:
        raise InvalidInput(f"cap must be at least 1, got {cap}")


@numba.njit(cache=True, nogil=True)
def _reach(indptr: Any, indices: Any, centre: int, hops: int, stamp: int, seen: Any, queue: Any) -> int:
    """Write the nodes at most `hops` arcs before `centre` to the queue, nearest first; return how many."""
    queue[0], seen[centre] = centre, stamp
    start, stop = 0, 1
    for _ in range(hops):
        end = stop
        for place in range(start, stop):
            for arc in range(indptr[queue[place]], indptr[queue[place] + 1]):
                node = indices[arc]
                if seen[node] != stamp:
                    seen[node] = stamp
                    queue[end] = node
                    end += 1
        start, stop = stop, end
    return stop


@numba.njit(cache=True, nogil=True)
def _measure(indptr: Any, indices: Any, centres: Any, hops: int, seen: Any, queue: Any, ptr: Any) -> None:
    """Fill ptr with where each neighbourhood ends."""
    for s in range(len(centres)):
        ptr[s + 1] = ptr[s] + _reach(indptr, indices, centres[s], hops, s + 1, seen, queue)


@numba.njit(cache=True, nogil=True)
def _collect(indptr: Any, indices: Any, centres: Any, hops: int, seen: Any, queue: Any, ptr: Any, nodes: Any) -> None:
    """Fill nodes; the stamps are the negatives of those used for measuring."""
    for s in range(len(centres)):
        size = _reach(indptr, indices, centres[s], hops, -s - 1, seen, queue)
        nodes[ptr[s] : ptr[s + 1]] = queue[:size]


def neighbourhoods(adj: Csr, centres: Ids, hops: int) -> Subgraphs:
    """All nodes at most `hops` arcs before each centre, nearest first, with all arcs of `adj` among them.

    adj: already capped; centres: int64 [k], increasing.
    """
    require_centres(adj, centres)
    if hops < 0:
        raise InvalidInput(f"hops must not be negative, got {hops}")
    seen, queue = np.zeros(adj.num_nodes, np.int64), np.empty(adj.num_nodes, np.int64)
    ptr = np.zeros(len(centres) + 1, np.int64)
    # Walking twice is cheaper than buffers that grow, and needs no guess of their size.
    _measure(adj.indptr, adj.indices, centres, hops, seen, queue, ptr)
    nodes = np.empty(ptr[-1], np.int64)
    _collect(adj.indptr, adj.indices, centres, hops, seen, queue, ptr, nodes)
    return induce(adj, nodes, ptr)
