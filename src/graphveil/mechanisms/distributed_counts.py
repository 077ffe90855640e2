"""Counts and sums over neighbours where edges lie in files: added up, and given their noise, where arcs come together.

A query names public data alone, what every node says. Which arcs there are, how they are added up and what noise is
added is the mechanism's: nothing that a query brings along runs in a worker. Only whole numbers are added, so that the
order in which arcs meet does not matter; noise is a block's own, so that a block that is made again gets the noise it
had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from graphveil.data.arcs import Ids
from graphveil.data.parts import EdgeParts, ScatteredArcs
from graphveil.errors import GraphveilError, InvalidInput
from graphveil.runtime.engine import GROUP, Columns, GroupBy
from graphveil.vocabulary import SealedGraph

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 1 << 20
"""Cells that are added up in one place."""

Finish = Callable[[int, Ids], NDArray[Any]]
"""What may leave of a block: of its place and of what was added up there, int64 [k], as many numbers."""


@dataclass(frozen=True, eq=False)
class PartMarks:
    """Query of a tally: every arc marks cell target * count + said[source]. said: int64 [n], of 0..count-1, public."""

    said: Tensor
    count: int


@dataclass(frozen=True, eq=False)
class PartSums:
    """Query of a Gaussian sum: every arc adds row `source` to row `target`. rows: float [n, d], public."""

    rows: Tensor


def parts_of(sealed: SealedGraph, nodes: int) -> EdgeParts:
    """Where the arcs of `sealed` lie, whose `nodes` nodes all say something."""
    if not isinstance(sealed.adj, ScatteredArcs) or nodes != sealed.adj.num_nodes:
        raise GraphveilError(f"{nodes} nodes say something of edges in parts, and the graph is another one")
    return sealed.adj.parts


def block_sizes(cells: int, width: int = 1) -> list[int]:
    """Cells of every block; cells come in rows of `width`, and no row is cut."""
    block = _rows_in(width) * width
    return [min(block, cells - first) for first in range(0, cells, block)]


def counted(parts: EdgeParts, said: Ids, count: int, finish: Finish) -> Ids:
    """`finish` of the counts of every block, side by side, int64 [n count]; said: int64 [n]."""
    if len(said) and not 0 <= said.min() <= said.max() < count:
        raise InvalidInput(f"nodes say whole numbers of 0 to {count - 1}")
    cells = len(said) * count
    spread, gather = _Spread(parts, BLOCK, said, count), _Gather(cells, len(said), BLOCK, finish)
    return _gathered(spread, cells, gather, np.dtype(np.int64))


def summed(parts: EdgeParts, rows: Ids, finish: Finish) -> NDArray[np.float32]:
    """`finish` of the sums of every block of targets, row after row, float32 [n d]; rows: int64 [n, d]."""
    block = _rows_in(rows.shape[1])
    gather = _Gather(len(rows), len(rows), block, finish, rows)
    return _gathered(_Spread(parts, block), rows.size, gather, np.dtype(np.float32))


def on_grid(rows: NDArray[Any], clip: float) -> tuple[Ids, float]:
    """Rows clipped and rounded TOWARDS ZERO to whole numbers of a step, int64 [n, d], and the step.

    No entry grows, so no row is longer than `clip`. The step is a power of two, so fine that all sums over neighbours
    stay below 2^52 steps: they are exact as whole numbers and as doubles.
    """
    step = 2.0 ** (math.floor(math.log2(clip)) - 51 + len(rows).bit_length())
    # In units of `clip`: squares of tiny rows would vanish.
    wide = np.array(rows, np.float64) / clip
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    # A little shorter than asked for: lengths and products are rounded.
    factors = _SHORTER * clip / np.maximum(lengths, 1.0)
    live = np.isfinite(lengths)
    wide[~live], factors[~live] = 0.0, 0.0
    wide *= (factors / step)[:, None]
    return np.trunc(wide).astype(np.int64), step


_SHORTER = 1 - 2.0**-30
"""Pays for the rounding of a row's length and of its products, of up to a million entries."""


def _rows_in(width: int) -> int:
    """Rows of `width` cells in a block."""
    return max(1, BLOCK // max(width, 1))


@dataclass(frozen=True, eq=False)
class _Spread:
    """From some edges to where their arcs are added up, one `key` an arc: its place in the block * n + source.

    An arc's place is its target, or, where nodes say something, target * count + said[source].
    """

    parts: EdgeParts
    block: int
    said: Ids | None = None
    count: int = 1

    def __call__(self, table: Any) -> Columns:
        sources, targets = self.parts.arcs(table)
        places = targets if self.said is None else targets * self.count + self.said[sources]
        # Within the block, so that no number of nodes makes a key too large.
        return {GROUP: places // self.block, "key": places % self.block * len(self.parts.ids) + sources}


@dataclass(frozen=True, eq=False)
class _Gather:
    """From all keys of a block of places to what `finish` makes of it: nothing else leaves. rows: see `summed`."""

    places: int
    nodes: int
    block: int
    finish: Finish
    rows: Ids | None = None

    def __call__(self, group: int, found: Columns) -> Columns:
        first = group * self.block
        length, width = min(self.block, self.places - first), 1 if self.rows is None else self.rows.shape[1]
        total = np.zeros((length, width), np.int64)
        found["key"].sort()
        _add_once(found["key"], self.nodes, np.ones((1, 1), np.int64) if self.rows is None else self.rows, total)
        cells = np.arange(first * width, (first + length) * width)
        return {"cell": cells, "value": self.finish(group, total.reshape(-1))}


@numba.njit(cache=True, nogil=True)
def _add_once(keys: Any, nodes: Any, rows: Any, total: Any) -> None:
    """total[place] += the row of the source of every key, or the only row; keys: int64 [k], ascending."""
    for at in range(len(keys)):
        # An edge that is listed twice is one edge: otherwise it would move sums twice.
        if at == 0 or keys[at] != keys[at - 1]:
            place, source = keys[at] // nodes, keys[at] % nodes if len(rows) > 1 else 0
            for column in range(rows.shape[1]):
                total[place, column] += rows[source, column]


def _gathered(spread: _Spread, cells: int, gather: _Gather, kind: np.dtype[Any]) -> NDArray[Any]:
    """What all blocks give, side by side, from the workers of the engine."""
    out, seen = np.zeros(cells, kind), np.zeros(cells, np.bool_)
    groups, parts = -(-gather.places // gather.block), spread.parts
    for found in parts.engine.grouped(GroupBy(parts.files, parts.columns, groups, spread, gather)):
        out[found["cell"]], seen[found["cell"]] = found["value"], True
    if not seen.all():
        # A cell that nobody added up would leave without noise.
        raise GraphveilError(f"{int((~seen).sum()):,} of {cells:,} cells are missing: the engine lost a block")
    return out
