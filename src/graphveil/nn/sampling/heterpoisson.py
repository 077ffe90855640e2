"""HeterPoisson (Xiang, Wang, Wang, "Preserving node-level privacy in graph neural networks", section 4.2).

Every centre keeps each of its in-neighbours by an independent coin whose bias falls with that neighbour's
out-degree. Pure functions of the coins, so that two neighbouring graphs can be given the same ones.

What one node z can change, for fixed centres, `keep` and one draw per arc (proof: docs/sampling.md):
z is a centre: the subgraph of z and no other. z is not: the subgraphs that kept z and no other; each of its D
out-arcs leads to one of them with probability rate * keep[z], independently. `keep` must not depend on the
private graph: degrees of the present arcs would let z change what its in-neighbours do elsewhere.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from graphveil.checks import require_positive
from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.blocks import induce, require_centres
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.vocabulary import Floats


def keep_probabilities(out_degrees: Ids, multiplier: float, p_max: float = 1.0) -> Floats:
    """min(p_max, multiplier / out-degree), and 0 where the degree is 0, float64 [n] (Algorithm 3, line 5).

    out_degrees: int64 [n], those of the fixed public population.
    """
    require_positive(multiplier, "multiplier")
    if not 0 < p_max <= 1:
        raise InvalidInput(f"p_max is a probability above 0, got {p_max}")
    if bool((out_degrees < 0).any()):
        raise InvalidInput("out_degrees must not be negative")
    return np.where(out_degrees > 0, np.minimum(p_max, multiplier / np.maximum(out_degrees, 1)), 0.0)


def draws_needed(adj: Csr, centres: Ids) -> int:
    """How many in-arcs the centres have together; centres: int64 [k]."""
    return int((adj.indptr[centres + 1] - adj.indptr[centres]).sum())


@numba.njit(cache=True, nogil=True)
def _keep(indptr: Any, indices: Any, centres: Any, keep: Any, draws: Any, removed: Any, nodes: Any, ptr: Any) -> None:
    """Fill nodes and ptr: every centre, then its in-neighbours that stay, ascending."""
    row, draw = 0, 0
    for s in range(len(centres)):
        centre = centres[s]
        nodes[row] = centre
        row += 1
        for arc in range(indptr[centre], indptr[centre + 1]):
            node = indices[arc]
            if draws[draw] < keep[node] and not removed[node] and node != centre:
                nodes[row] = node
                row += 1
            draw += 1
        ptr[s + 1] = row


def sample(
    adj: Csr, centres: Ids, keep: Floats, draws: Floats, *, drop_centres: bool = True, induced: bool = False
) -> Subgraphs:
    """One subgraph per centre, of the in-neighbours j whose draw is below keep[j] (section 4.2).

    centres: int64 [k], increasing; keep: float64 [n]; draws: uniform, float64 [draws_needed], in the order of
    the centres' rows. `drop_centres` takes centres of the whole batch out of the other subgraphs (the paper only
    zeroes their features, which still moves mean and GCN normalisers); the accounting of HeterPoisson assumes
    it. Arcs lead to the centre; `induced` adds those to and among the others, which two layers read.
    """
    require_centres(adj, centres)
    needed = draws_needed(adj, centres)
    if draws.shape != (needed,) or keep.shape != (adj.num_nodes,):
        raise InvalidInput(
            f"need draws of shape ({needed},) and keep of shape ({adj.num_nodes},), got {draws.shape} and {keep.shape}"
        )
    # The system hands out zero pages as they are touched, so a mask over all nodes costs what is used of it.
    removed = np.zeros(adj.num_nodes, np.bool_)
    removed[centres] = drop_centres
    nodes, ptr = np.empty(len(centres) + needed, np.int64), np.zeros(len(centres) + 1, np.int64)
    _keep(adj.indptr, adj.indices, centres, keep, draws, removed, nodes, ptr)
    nodes = nodes[: ptr[-1]].copy()
    return induce(adj, nodes, ptr) if induced else _stars(nodes, ptr)


def _stars(nodes: Ids, ptr: Ids) -> Subgraphs:
    """Every other row of a subgraph sends to its centre, and nothing else."""
    degrees = np.zeros(len(nodes), np.int64)
    degrees[ptr[:-1]] = np.diff(ptr) - 1
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    return Subgraphs(nodes, ptr, indptr, np.delete(np.arange(len(nodes)), ptr[:-1]))
