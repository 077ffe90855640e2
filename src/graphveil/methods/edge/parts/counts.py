"""Neighbours counted by class: the query of a tally, and what a network reads of noisy counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.data.parts import ScatteredArcs
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.distributed_counts import PartMarks
from graphveil.mechanisms.geometric_count import ends
from graphveil.nn.aggregate import neighbour_counts
from graphveil.nn.features import standard

_ARCS = 1 << 22
"""Arcs that are looked at a time: their cells take several times their memory."""


@dataclass(frozen=True, eq=False)
class NeighbourMarks:
    """`Marks` of `cluster_degrees`, made some arcs at a time."""

    adj: Csr
    said: Tensor
    count: int
    undirected: bool

    @property
    def clusters(self) -> Ids:
        """What every node says, int64 [n]."""
        return self.said.cpu().numpy()

    @property
    def size(self) -> int:
        """Cells: n * count."""
        return len(self.said) * self.count

    @property
    def cells(self) -> Ids:
        """All of them, int64 [m, 2 or 1]."""
        return np.concatenate([np.empty((0, 1 + self.undirected), np.int64), *self.blocks()])

    def blocks(self) -> Iterator[Ids]:
        """Those of some arcs after the other, int64 [k, 2 or 1]."""
        clusters = self.clusters
        for first in range(0, self.adj.num_arcs, _ARCS):
            sources, targets = ends(self.adj, self.undirected, slice(first, first + _ARCS))
            cells = [targets * self.count + clusters[sources]]
            if self.undirected:
                cells.append(sources * self.count + clusters[targets])
            yield np.stack(cells, axis=1)

    def counted_there(self, marks: int) -> Tensor | None:
        """The same counts on the device of `said`, where all marks count: an edge's two are those of its two arcs."""
        if self.said.device.type == "cpu" or marks < 1 + self.undirected:
            return None
        return neighbour_counts(*self.adj.on(self.said.device), self.said, self.count)


def cluster_degrees(sealed: Sealed, clusters: Tensor, count: int) -> NeighbourMarks | PartMarks:
    """Query: every node counts its neighbours by their public cluster; clusters: int64 [n], of 0..count-1.

    Cells: node * count + cluster. An edge marks one cell of either end, an arc one of its target.
    """
    if isinstance(sealed.adj, ScatteredArcs):
        return PartMarks(clusters, count)
    return NeighbourMarks(sealed.adj, clusters, count, sealed.public.undirected)


def logs_of(counts: Tensor, scale: float | Tensor) -> Tensor:
    """log(1 + scale + max(count, 0)), [n, c]: counts below the noise differ little then, and so do those of hubs.

    scale: of all counts, or of every row, [n, 1].
    """
    return torch.log(1 + scale + counts.clamp(min=0).float())


def log_counts(counts: Tensor, scale: float) -> Tensor:
    """`logs_of` counts, rows less their mean, on one common scale, [n, c]."""
    return standard(logs_of(counts, scale))
