"""Gaussian mechanism: a clipped sum plus N(0, std^2) on every entry (Balle & Wang 2018)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from mpmath.ctx_mp import MPContext
from scipy.special import erfcx, log_ndtr, ndtr

from graphveil.checks import require_cost
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms import distributed_counts
from graphveil.mechanisms.additive import Additive, certain
from graphveil.mechanisms.distributed_counts import PartSums
from graphveil.vocabulary import Curve, Floats, Query, SealedGraph, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from graphveil.data.arcs import Ids

_SMALL, _LARGE = 2.0**-10, 2.0**7
"""Between these mu the two terms of delta are subtracted as logarithms; outside they have too few digits in common."""
_FAR = 40
"""Phi(-40) is below the smallest double."""


def gaussian_delta(epsilons: Floats, mu: float) -> Floats:
    """H_{e^epsilon}(N(mu,1) || N(0,1)) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), stable in both tails.

    Rounded to nearest, not up: it may lie 2^-51 max(1, mu/8) below the truth, which the accountant pays for wherever it
    composes. `gaussian_bounds` has the truth between its ends.
    """
    if mu == 0:
        return np.asarray(-np.expm1(np.minimum(epsilons, 0.0)))
    if not _SMALL <= mu <= _LARGE:
        return _mirrored(epsilons, _narrow if mu < _SMALL else _wide, mu)
    first = log_ndtr(mu / 2 - epsilons / mu)
    second = epsilons + log_ndtr(-mu / 2 - epsilons / mu)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))


def _mirrored(epsilons: Floats, delta: Callable[[Floats, float], Floats], mu: float) -> Floats:
    """The curve whose half e >= 0 is `delta`: H_{e^e} = 1 - e^e + e^e H_{e^-e}."""
    below = np.minimum(epsilons, 0.0)
    return np.asarray(np.exp(below) * delta(np.abs(epsilons), mu) - np.expm1(below))


def _narrow(epsilons: Floats, mu: float) -> Floats:
    """phi(a) int_a^b (1 - x R(x)) dx with a, b = e/mu -+ mu/2 and Mills' ratio R, by Gauss' rule of two points."""
    middle, apart = np.minimum(epsilons, 2 * _FAR * mu) / mu, mu / math.sqrt(12)
    rates = (1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)) for x in (middle - apart, middle + apart))
    return np.asarray(np.exp(-((middle - mu / 2) ** 2) / 2) * (mu / math.sqrt(8 * math.pi)) * sum(rates))


def _wide(epsilons: Floats, mu: float) -> Floats:
    """Phi(-a) - phi(a) R(b) with a, b = e/mu -+ mu/2: no exponential overflows."""
    near, beyond = np.clip(epsilons / mu - mu / 2, -_FAR, _FAR), epsilons / mu + mu / 2
    # Near the smallest double the two terms underflow one after the other.
    return np.asarray(np.maximum(ndtr(-near) - np.exp(-(near**2) / 2) * erfcx(beyond / math.sqrt(2)) / 2, 0.0))


def gaussian_bounds(epsilon: float, mu: float) -> tuple[float, float]:
    """(lower, upper) around delta(epsilon; mu) for epsilon >= 0: the doubles next to its value to a hundred digits."""
    if mu == 0 or epsilon == math.inf:
        return 0.0, 0.0
    if mu == math.inf:
        return 1.0, 1.0
    near = Fraction(epsilon) / Fraction(mu) - Fraction(mu) / 2
    if abs(near) > _FAR:
        return (0.0, math.ulp(0.0)) if near > 0 else (math.nextafter(1.0, 0.0), 1.0)
    # The terms have as many digits in common as mu has zeros; with a large mu the second is below the last digit.
    digits = _digits(100 if mu > 1e-30 else 450)
    value = _tail(digits, near)
    if mu < 1e20:
        value -= digits.exp(epsilon) * _tail(digits, near + Fraction(mu))
    return math.nextafter(float(value), 0.0), min(math.nextafter(float(value), math.inf), 1.0)


@lru_cache
def _digits(count: int) -> Any:
    """Arithmetic of `count` decimal digits. Nobody changes its precision afterwards, so threads may share it."""
    digits = MPContext()
    digits.dps = count
    return digits


def _tail(digits: Any, x: Fraction) -> Any:
    """Phi(-x)."""
    return digits.erfc(digits.mpf(x.numerator) / x.denominator / digits.sqrt(2)) / 2


@dataclass(frozen=True)
class GaussianCurve(Curve):
    """Exactly mu-GDP: N(mu, 1) against N(0, 1)."""

    mu: float

    def __post_init__(self) -> None:
        require_cost(self.mu, "mu")

    @property
    def infinite(self) -> bool:
        return self.mu == math.inf

    def gdp(self) -> float:
        return self.mu

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        both = gaussian_delta(epsilons, self.mu)
        return both, both

    def rdp(self, orders: Floats) -> Floats:
        return orders * self.mu**2 / 2

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.1), cls(1.0), cls(3.0)


@dataclass(frozen=True, eq=False)
class NormalBlocks:
    """Noise for blocks of sums of whole `step`s, each from a source of its own: made again, a block gets the same."""

    std: float
    clip: float
    step: float
    entries: int
    sources: tuple[Source, ...]

    def __call__(self, place: int, sums: Ids) -> NDArray[np.float32]:
        """Noisy sums of block `place`, float32 [k]."""
        import torch

        total, source = torch.from_numpy(sums * self.step), copy.deepcopy(self.sources[place])
        return source.add_gaussian(total, self.std * self.clip, self.clip, self.entries).numpy()


@dataclass(frozen=True)
class Gaussian(Additive):
    """Query: `query(sealed) -> Contributions`, or `PartSums`. Noise `std` and sensitivity are in units of `clip`."""

    std: float
    clip: float = 1.0

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        if isinstance(asked, PartSums):
            return self._summed_in_parts(sealed, asked, source)
        return source.add_gaussian(asked.clipped_sum(self.clip), self.std * self.clip, unit=self.clip)

    def bounded(self, sealed: SealedGraph, query: Query) -> Tensor:
        asked = query(sealed)
        if isinstance(asked, PartSums):
            raise Unsupported("sums without noise would leave the places where edges lie; read the graph as a whole")
        total: Tensor = asked.clipped_sum(self.clip)
        return total

    def _summed_in_parts(self, sealed: SealedGraph, asked: PartSums, source: Source) -> Tensor:
        """Noisy sums made where edges lie, of rows on a grid that are no longer than `clip`."""
        import torch

        parts = distributed_counts.parts_of(sealed, len(asked.rows))
        rows, step = distributed_counts.on_grid(asked.rows.detach().cpu().numpy(), self.clip)
        sizes = distributed_counts.block_sizes(rows.size, rows.shape[1])
        sources = tuple(source.handed_normals(size) for size in sizes)
        noise = NormalBlocks(self.std, self.clip, step, rows.size, sources)
        return torch.from_numpy(distributed_counts.summed(parts, rows, noise)).reshape(rows.shape).to(asked.rows.device)

    def log_ratio(self, rest: Tensor, shift: Tensor) -> float:
        log_ratio = float((shift * (rest - shift / 2)).sum())
        return log_ratio / (self.std * self.clip) ** 2 if self.std else certain(log_ratio)

    def curve(self, sensitivity: float) -> GaussianCurve:
        """`sensitivity`: L2 distance of neighbouring sums, in clips; at least one contribution moves."""
        if not sensitivity >= 1:
            raise InvalidInput(f"sensitivity is in units of clip and at least 1, got {sensitivity}")
        return GaussianCurve(math.inf if self.std == 0 else sensitivity / self.std)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(4.0, clip=0.5)
