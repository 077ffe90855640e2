"""Many small subgraphs in one block, as samplers make them and the gradient engine reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.data.arcs import Ids


@dataclass(frozen=True, eq=False)
class Subgraphs:
    """k subgraphs side by side. Subgraph s owns the rows ptr[s] .. ptr[s+1]-1, and row ptr[s] is its centre.

    nodes: int64 [r], the node behind every row; ptr: int64 [k + 1]; indptr: int64 [r + 1] and indices:
    int64 [a], the arcs inside the subgraphs: row i lists, ascending, the rows j whose messages it receives.
    """

    nodes: Ids
    ptr: Ids
    indptr: Ids
    indices: Ids

    @property
    def count(self) -> int:
        """k."""
        return len(self.ptr) - 1

    @property
    def centres(self) -> Ids:
        """The nodes in the middle, int64 [k]."""
        return self.nodes[self.ptr[:-1]]

    def take(self, which: Ids) -> Subgraphs:
        """Some of the subgraphs, in the order asked for; which: int64 [m]."""
        ptr, rows, moved = _gathered(self.ptr, which)
        indptr, arcs, _ = _gathered(self.indptr, rows)
        # A row keeps its place within its subgraph, so a source moves as far as its target does.
        indices = self.indices[arcs] + np.repeat(moved, np.diff(indptr))
        return Subgraphs(self.nodes[rows], ptr, indptr, indices)

    def occurrences(self, num_nodes: int) -> Ids:
        """In how many subgraphs each node occurs, int64 [num_nodes]."""
        return np.bincount(self.nodes, minlength=num_nodes)


def _gathered(ptr: Ids, which: Ids) -> tuple[Ids, Ids, Ids]:
    """Some of the ranges ptr[s] .. ptr[s+1]-1 side by side: their new ptr, their members, how far each member moves."""
    sizes = ptr[which + 1] - ptr[which]
    fresh = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    moved = np.repeat(fresh[:-1] - ptr[which], sizes)
    return fresh, np.arange(fresh[-1]) - moved, moved
