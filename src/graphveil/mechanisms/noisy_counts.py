"""Counts of neighbours by group, each with two-sided geometric noise: Laplace noise for whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor

from graphveil.arcs import Csr, Ids
from graphveil.core import InvalidInput, Mechanism, Query, require_cost
from graphveil.mechanisms.dominating_pair import PureCurve

if TYPE_CHECKING:
    from graphveil.graph import Sealed
    from graphveil.noise import Source

_LEAST = 1 / 32
"""Beyond epsilon 32 for one count a uniform has too few digits: nothing finite is claimed."""

_MOST = 2.0**50
"""The largest scale whose noise fits into whole numbers of 64 bits."""

_REACH = 64.0
"""Noise goes this many scales out at least."""

_ROUNDING = 2.0**-40
"""What rounding adds to the epsilon of one count at most, charged (docs/methods/lpgnet.md)."""

_BLOCK = 1 << 20
"""Counts that get their noise at a time, because digits take many times the memory of what they are added to."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """What is asked: how many arcs every node receives from each of `count` groups.

    groups: int64 [n], the group of every node, public or released before; cut to 0..count - 1.
    """

    adj: Csr
    groups: Tensor
    count: int


@dataclass(frozen=True)
class NoisyCounts(Mechanism):
    """Query: `query(sealed) -> Grouped`. Releases counts plus noise, int64 [n, count].

    Pr[noise = k] = (1 - a) / (1 + a) a^|k| with a = e^(-1/scale) (Ghosh, Roughgarden & Sundararajan 2009), drawn
    independently for every entry. An arc is counted in exactly one entry.
    """

    scale: float

    def __post_init__(self) -> None:
        if require_cost(self.scale, "scale") > _MOST:
            raise InvalidInput(f"scale must be at most 2^50, got {self.scale!r}")

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        groups = asked.groups.clamp(0, asked.count - 1).numpy()
        entries = asked.adj.targets() * asked.count + groups[asked.adj.indices]
        counts = np.bincount(entries, minlength=asked.adj.num_nodes * asked.count)
        for first in range(0, len(counts), _BLOCK):
            part = counts[first : first + _BLOCK]
            part += geometric(source, len(part), self.scale) - geometric(source, len(part), self.scale)
        return torch.from_numpy(counts).reshape(-1, asked.count)

    def curve(self, sensitivity: float) -> PureCurve:
        """`sensitivity`: how many counts a neighbour changes by one; each costs 1/scale."""
        if not sensitivity >= 1:
            raise InvalidInput(f"a neighbour changes at least one count, got {sensitivity}")
        return PureCurve(math.inf if self.scale < _LEAST else sensitivity * (1 / self.scale + _ROUNDING))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(3.0)


def geometric(source: Source, count: int, scale: float) -> Ids:
    """`count` draws of Pr[k] = (1 - a) a^k with a = e^(-1/scale), int64 [count].

    The binary digits of such a number are independent: digit j is 1 with odds a^(2^j). Every coin is exact to the last
    bits of a double however large the scale is; inverting a uniform would lose digits in proportion to it.
    """
    drawn = np.zeros(count, np.int64)
    if scale == 0:
        return drawn
    for digit in range(max(1, math.ceil(math.log2(_REACH * scale)))):
        # e^-700 is still a double, and no uniform is that small.
        rate = 1 / (1 + math.exp(min(2**digit / scale, 700.0)))
        drawn += source.coins(count, rate).numpy().astype(np.int64) << digit
    return drawn
