"""Noisy counts: every contribution leaves a mark or two, and the cells they fall into are counted.

Noise is two-sided geometric: Laplace noise for whole numbers (Ghosh, Roughgarden & Sundararajan 2009).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numba
import numpy as np
import torch

from graphveil.checks import require_cost
from graphveil.data.arcs import Csr, Ids
from graphveil.errors import GraphveilError, InvalidInput, Unsupported
from graphveil.mechanisms import distributed_counts
from graphveil.mechanisms.additive import Additive, certain
from graphveil.mechanisms.distributed_counts import PartMarks
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.vocabulary import Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor

_MAX_EPSILON = 32.0
"""Beyond this for one contribution a uniform has too few digits: nothing finite is claimed."""

_LARGEST_SCALE = 2.0**50
"""The largest scale whose noise fits into whole numbers of 64 bits."""

_REACH = 64.0
"""Noise goes this many scales out at least."""

_ROUNDING = 2.0**-40
"""What rounding adds to the epsilon of one mark at most, charged (docs/methods/lpgnet.md)."""

_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Marks:
    """What is counted: the cells that each contribution marks, int64 [m, k], of 0..size-1; `size` is public.

    A contribution may mark one cell twice, which counts twice; a mark outside the range counts nowhere.
    """

    cells: Ids
    size: int

    def blocks(self) -> Iterator[Ids]:
        """All of `cells`, int64 [k, *] at a time; nothing here asks for more than one block."""
        yield self.cells

    def counted_there(self, marks: int) -> Tensor | None:  # noqa: ARG002
        """The first `marks` marks of all contributions, counted on another device, int64 [size]; None: count here."""
        return None


@dataclass(frozen=True, eq=False)
class NoisyBlocks:
    """Noise for blocks of cells, each from a source of its own: made again, a block gets the same noise."""

    scale: float
    sources: tuple[Source, ...]

    def __call__(self, place: int, counts: Ids) -> Ids:
        """Noisy counts of block `place`, int64 [k]."""
        noisy: Ids = counts + noise_of(copy.deepcopy(self.sources[place]), len(counts), self.scale).numpy()
        return noisy


@dataclass(frozen=True)
class Tally(Additive):
    """Query: `query(sealed) -> Marks`, or `PartMarks`. Releases the marks in every cell plus noise, int64 [size].

    Pr[noise = k] = (1 - a) / (1 + a) a^|k| with a = e^(-1/scale), independent for every cell. Of each contribution the
    first `marks` marks count, so one more contribution moves the counts by at most `marks` in L1.
    """

    scale: float
    marks: int = 1

    def __post_init__(self) -> None:
        if require_cost(self.scale, "scale") > _LARGEST_SCALE:
            raise InvalidInput(f"scale must be at most 2^50, got {self.scale!r}")
        if self.marks not in (1, 2) or not isinstance(self.marks, int) or isinstance(self.marks, bool):
            # The tails of the noise are shown to be thin enough for moves of one and two (docs/methods/lpgnet.md).
            raise InvalidInput(f"a contribution leaves one mark or two, got marks={self.marks!r}")

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        if isinstance(asked, PartMarks):
            return self._counted_in_parts(sealed, asked, source)
        counts = self._counted(asked)
        # Digits take many times the memory of what they are added to.
        for part in torch.split(counts, distributed_counts.BLOCK):
            part += noise_of(source, len(part), self.scale, part.device)
        return counts

    def bounded(self, sealed: SealedGraph, query: Query) -> Tensor:
        asked = query(sealed)
        if isinstance(asked, PartMarks):
            raise Unsupported("counts without noise would leave the places where edges lie; read the graph as a whole")
        return self._counted(asked)

    def _counted_in_parts(self, sealed: SealedGraph, asked: PartMarks, source: Source) -> Tensor:
        """Noisy counts made where edges lie: an arc marks one cell, an undirected edge is two arcs."""
        parts = distributed_counts.parts_of(sealed, len(asked.said))
        if self.marks != 1 + parts.undirected:
            raise InvalidInput(f"an edge leaves {1 + parts.undirected} mark(s) here, and {self.marks} are charged")
        # Two numbers for every cell, of one uniform for each of their digits.
        uniforms, sizes = 2 * len(_chances(self.scale)), distributed_counts.block_sizes(len(asked.said) * asked.count)
        noise = NoisyBlocks(self.scale, tuple(source.handed(uniforms * size) for size in sizes))
        counts = distributed_counts.counted(parts, asked.said.cpu().numpy(), asked.count, noise)
        return torch.from_numpy(counts).to(asked.said.device)

    def _counted(self, asked: Marks) -> Tensor:
        if (counted := asked.counted_there(self.marks)) is not None:
            return _require_counts(counted, asked.size)
        counts = np.zeros(asked.size, np.int64)
        for cells in asked.blocks():
            _count(cells[:, : self.marks], counts)
        return torch.from_numpy(counts)

    def log_ratio(self, rest: Tensor, shift: Tensor) -> float:
        log_ratio = float((rest.abs() - (rest - shift).abs()).sum())
        return log_ratio / self.scale if self.scale else certain(log_ratio)

    def curve(self, sensitivity: float) -> PureCurve:
        """`sensitivity` is 1: a neighbour changes one contribution, and each of its marks costs 1/scale."""
        if sensitivity != 1:
            raise InvalidInput(f"a neighbour changes one contribution, whose marks are charged, got {sensitivity}")
        if self.marks > _MAX_EPSILON * self.scale:
            return PureCurve(math.inf)
        return PureCurve(self.marks * (1 / self.scale + _ROUNDING))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(3.0), cls(2.0, marks=2)


def _require_counts(counted: Tensor, size: int) -> Tensor:
    """Whole numbers, one for every cell: what others counted."""
    if counted.dtype != torch.int64 or counted.shape != (size,):
        raise GraphveilError(f"counts must be int64 [{size}], got {counted.dtype} {list(counted.shape)}")
    return counted


@numba.njit(cache=True, nogil=True)
def _count(cells: Any, counts: Any) -> None:
    """One more in counts [size] for every entry of cells [m, k] that lies inside."""
    for row in range(cells.shape[0]):
        for mark in range(cells.shape[1]):
            if 0 <= cells[row, mark] < len(counts):
                counts[cells[row, mark]] += 1


def geometric(source: Source, count: int, scale: float, device: torch.device = _CPU) -> Tensor:
    """`count` draws of Pr[k] = (1 - a) a^k with a = e^(-1/scale), int64 [count], made on `device`.

    The binary digits of such a number are independent: digit j is 1 with odds a^(2^j). Every coin is exact to the last
    bits of a double however large the scale is; inverting a uniform would lose digits in proportion to it.
    """
    return source.digits(count, _chances(scale), device)


def _chances(scale: float) -> list[float]:
    """The chance of every digit to be 1."""
    # e^-700 is still a double, and no uniform is that small.
    odds = [math.exp(min(2**digit / scale, 700.0)) for digit in range(math.ceil(_REACH * scale).bit_length())]
    return [1 / (1 + each) for each in odds]


def noise_of(source: Source, count: int, scale: float, device: torch.device = _CPU) -> Tensor:
    """`count` draws of the two-sided geometric law, int64 [count]: the difference of two one-sided ones."""
    return geometric(source, count, scale, device) - geometric(source, count, scale, device)


def ends(adj: Csr, undirected: bool, part: slice = slice(None)) -> tuple[Ids, Ids]:
    """Source and target of every arc, or of every undirected edge once, int64 [m] each: one contribution each.

    part: a consecutive part of the arcs, all of them unless given.
    """
    sources, targets = adj.indices[part], adj.targets(part)
    once = sources < targets if undirected else sources != targets
    return sources[once], targets[once]
