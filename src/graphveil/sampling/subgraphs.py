"""Many small subgraphs in one block, as samplers make them and the gradient engine reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.arcs import Ids


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

    def occurrences(self, num_nodes: int) -> Ids:
        """In how many subgraphs each node occurs, int64 [num_nodes]."""
        return np.bincount(self.nodes, minlength=num_nodes)
