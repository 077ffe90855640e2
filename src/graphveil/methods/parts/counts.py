"""Neighbours counted by class: the query of a tally, and what a network reads of noisy counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from graphveil.core import GraphveilError, InvalidInput
from graphveil.graph.arcs import Csr, Ids
from graphveil.graph.parts import EdgeParts, ScatteredArcs
from graphveil.graph.sealing import Sealed
from graphveil.mechanisms.tally import NoisyBlocks, ScatteredMarks, ends
from graphveil.nn.aggregate import neighbour_counts
from graphveil.nn.features import standard
from graphveil.runtime.engine import GROUP, Columns, GroupBy, present_engine

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


@dataclass(frozen=True, eq=False)
class PartMarks(ScatteredMarks):
    """The same marks of edges that lie in files: `NeighbourMarks` where no process has all arcs."""

    parts: EdgeParts
    clusters: Ids
    count: int

    @property
    def size(self) -> int:  # type: ignore[override]  # derived here, stored elsewhere
        """Cells: n * count."""
        return len(self.clusters) * self.count

    def counted(self, marks: int, block: int, finish: NoisyBlocks) -> Tensor:
        if marks != 1 + self.parts.undirected:
            raise InvalidInput(f"an edge leaves {1 + self.parts.undirected} mark(s) here, and {marks} are charged")
        spread, gather = _Cells(self, block), _Counted(self.size, len(self.clusters), block, finish)
        files, columns = self.parts.files, tuple(self.parts.columns)
        out, filled = np.zeros(self.size, np.int64), 0
        for found in present_engine().grouped(GroupBy(files, columns, -(-self.size // block), spread, gather)):
            out[found["cell"]] = found["count"]
            filled += len(found["cell"])
        if filled != self.size:
            # A cell that nobody counted would leave without noise.
            raise GraphveilError(f"{filled:,} of {self.size:,} cells were counted: the engine lost a block")
        return torch.from_numpy(out)


@dataclass(frozen=True, eq=False)
class _Cells:
    """From some edges to the cells that their arcs mark, one `key` an arc: its cell in the block * n + source."""

    asked: PartMarks
    block: int

    def __call__(self, table: Any) -> Columns:
        sources, targets = self.asked.parts.arcs(table)
        cells = targets * self.asked.count + self.asked.clusters[sources]
        # Within the block, so that no number of nodes makes a key too large.
        return {GROUP: cells // self.block, "key": cells % self.block * len(self.asked.clusters) + sources}


@dataclass(frozen=True, eq=False)
class _Counted:
    """From all keys of a block of cells to its noisy counts: nothing else leaves the place."""

    size: int
    nodes: int
    block: int
    finish: NoisyBlocks

    def __call__(self, group: int, rows: Columns) -> Columns:
        first = group * self.block
        length = min(self.block, self.size - first)
        counts = np.zeros(length, np.int64)
        rows["key"].sort()
        _count_once(rows["key"], self.nodes, counts)
        return {"cell": np.arange(first, first + length), "count": self.finish(group, counts)}


@numba.njit(cache=True, nogil=True)
def _count_once(keys: Any, nodes: Any, counts: Any) -> None:
    """One more in the cell of every key; keys: int64 [k], ascending."""
    for place in range(len(keys)):
        # An edge that is listed twice is one edge: otherwise it would move two counts.
        if place == 0 or keys[place] != keys[place - 1]:
            counts[keys[place] // nodes] += 1


def cluster_degrees(sealed: Sealed, clusters: Tensor, count: int) -> NeighbourMarks | PartMarks:
    """Query: every node counts its neighbours by their public cluster; clusters: int64 [n], of 0..count-1.

    Cells: node * count + cluster. An edge marks one cell of either end, an arc one of its target.
    """
    if isinstance(sealed.adj, ScatteredArcs):
        return PartMarks(sealed.adj.parts, clusters.cpu().numpy(), count)
    return NeighbourMarks(sealed.adj, clusters, count, sealed.public.undirected)


def logs_of(counts: Tensor, scale: float | Tensor) -> Tensor:
    """log(1 + scale + max(count, 0)), [n, c]: counts below the noise differ little then, and so do those of hubs.

    scale: of all counts, or of every row, [n, 1].
    """
    return torch.log(1 + scale + counts.clamp(min=0).float())


def log_counts(counts: Tensor, scale: float) -> Tensor:
    """`logs_of` counts, rows less their mean, on one common scale, [n, c]."""
    return standard(logs_of(counts, scale))
