"""Where randomness for privacy comes from: a seeded source for research, a cryptographic one for release.

Both add noise through the same two verbs, so a mechanism cannot tell them apart. Hand-written because
no maintained library offers fast vectorised Gaussians from a cryptographic stream.
"""

from __future__ import annotations

import copy
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.errors import GraphveilError, InvalidInput, Unsupported
from graphveil.privacy import cipher, elementary
from graphveil.runtime.distributed import Workers
from graphveil.runtime.kernels import kernels
from graphveil.vocabulary import Floats, Source

_GRID_BITS = 26
"""The secure grid is this many binary digits finer than the noise."""

_FURTHEST = 80.0
"""No draw lies further out, in scales: uniforms of 106 binary places make Laplace draws up to 74, and `_TURNS` make
normal ones up to 56."""

_TURN, _TURNS = 53 * math.log(2), 40
"""Where an exponential draw starts anew, one time in 2^53, and how often it may."""

_BLOCK = 1 << 20
"""Entries that get their Gaussian noise at a time; even, because normal draws come in pairs."""

_SPARE = 64
"""Uniforms that are handed out beyond those that normal draws take; one draw in 2^53 takes one of them."""

_CPU = torch.device("cpu")

_forks = 0
"""How many forks lie between the first process and this one."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # not where processes never fork
    os.register_at_fork(after_in_child=_count_fork)


class Stream(Source, ABC):
    """A stream of random draws that protects private data."""

    label: ClassVar[str]
    secure: ClassVar[bool]

    @abstractmethod
    def uniform(self, count: int) -> Floats:
        """`count` independent draws from the open unit interval."""

    @abstractmethod
    def normal(self, count: int) -> Floats:
        """`count` independent standard normal draws."""

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` independent words of 64 fair bits."""

    @abstractmethod
    def _join(self, total: Floats, noise: Floats, scale: float, slack: float) -> Floats:
        """`total + scale * noise`; `slack` times the grid bounds what rounding adds to a unit move."""

    def begin(self) -> None:
        """A release begins. What one release draws says nothing about what another one does."""

    def handed(self, uniforms: int) -> Source:  # noqa: ARG002
        """A source of the next `uniforms` uniforms alone, for whoever makes some rows of this release elsewhere.

        It can be sent, and every copy of it draws the same: rows that are made again get the noise they had. This
        source goes on behind them.
        """
        raise Unsupported("this source's draws cannot be handed to another process")

    def handed_normals(self, count: int) -> Source:
        """The same for `count` normal draws.

        How many uniforms they take is a matter of chance. More than are handed here would be an error, and has a chance
        below 2^-1000.
        """
        return self.handed(2 * count + _SPARE)

    def laplace(self, count: int) -> Floats:
        """`count` independent standard Laplace draws: an exponential with a random sign."""
        return np.asarray(np.where(self.uniform(count) < 0.5, 1.0, -1.0) * np.log(self.uniform(count)))

    def gumbel(self, count: int) -> Floats:
        """`count` independent standard Gumbel draws, by inversion."""
        # Small uniforms carry the most digits, so the long right tail must come from them.
        return np.asarray(-np.log(-np.log1p(-self.uniform(count))))

    def coins(self, count: int, rate: float) -> Tensor:
        """`count` independent coins that come up True with probability `rate`, bool [count]."""
        return torch.from_numpy(self.uniform(count) < rate)

    def digits(self, count: int, chances: Sequence[float], device: torch.device = _CPU) -> Tensor:
        """`count` whole numbers whose binary digit j is 1 with chance j, independently, int64 [count] on `device`."""
        drawn = torch.zeros(count, dtype=torch.int64, device=_CPU)
        for place, chance in enumerate(chances):
            drawn += self.coins(count, chance).to(torch.int64) << place
        return drawn.to(device)

    def skips(self, count: int, rate: float) -> NDArray[np.int64]:
        """How many coins of probability `rate` < 1 fail before one comes up, int64 [count], by inversion.

        Double precision moves the mass of a skip by 2^-45 / rate of itself at most, if the source is secure.
        """
        # Small uniforms carry the most digits, so the long skips must come from them.
        return np.minimum(np.log(self.uniform(count)) / math.log1p(-rate), 2.0**62).astype(np.int64)

    def choose(self, count: int, size: int) -> Tensor:
        """A uniformly random subset of range(count) with `size` members, sorted, int64 [size]."""
        return torch.from_numpy(np.sort(np.argsort(self.uniform(count))[:size]))

    def below(self, count: int, bound: int) -> NDArray[np.int64]:
        """`count` independent draws from range(`bound`), each exactly as likely, int64 [count]; bound <= 2^62."""
        mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
        found = np.empty(0, np.int64)
        # Words that are too large are drawn anew: scaling a uniform would make some numbers more likely.
        while len(found) < count:
            drawn = (self.words(2 * (count - len(found)) + 16) & mask).astype(np.int64)
            found = np.concatenate([found, drawn[drawn < bound]])
        return found[:count]

    def subset(self, count: int, size: int) -> NDArray[np.int64]:
        """A uniformly random subset of range(count) with `size` members, ascending, int64 [size], in O(size) draws.

        `choose` takes O(count), and shuffles by doubles.
        """
        if 2 * size > count:
            kept = np.ones(count, dtype=bool)
            kept[self.subset(count, count - size)] = False
            return np.flatnonzero(kept)
        drawn = np.empty(0, np.int64)
        # The first `size` distinct members of a uniform sequence are a uniform subset.
        while len(drawn) < size:
            drawn = np.concatenate([drawn, self.below(size - len(drawn) + 16, count)])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        return np.sort(drawn[:size])

    def add_gaussian(self, total: Tensor, std: float, unit: float, entries: int | None = None) -> Tensor:
        """`total` plus N(0, std^2) on every entry; `unit` is the smallest L2 move that is charged.

        entries: of the whole sum, where `total` is a part of it.
        """
        flat, slack = total.detach().reshape(-1), math.sqrt(total.numel() if entries is None else entries) / unit
        _grid(std, slack)
        noisy = torch.empty(flat.shape, dtype=torch.float32, device=total.device)
        # In blocks, because draws and their grid take many times the memory of what they are added to.
        for first in range(0, len(flat), _BLOCK):
            noisy[first : first + _BLOCK] = self._with_normals(flat[first : first + _BLOCK], std, slack)
        return noisy.reshape(total.shape)

    def _with_normals(self, part: Tensor, std: float, slack: float) -> Tensor:
        """`_join` of a block and normal noise, float64 like it."""
        flat = _finite(part)
        return torch.from_numpy(self._join(flat, self.normal(flat.size), std, slack))

    def add_laplace(self, total: Tensor, scale: float, unit: float) -> Tensor:
        """`total` plus Laplace(scale) on every entry; `unit` is the smallest L1 move that is charged."""
        slack = total.numel() / unit
        _grid(scale, slack)
        flat = _finite(total)
        noisy = torch.from_numpy(self._join(flat, self.laplace(flat.size), scale, slack))
        return noisy.reshape(total.shape).to(torch.float32).to(total.device)


def _grid(scale: float, slack: float) -> tuple[float, float]:
    """The step of the secure grid and the scale widened for it; refused where noise would not fit into 64 bits.

    A function of public numbers alone, and asked before the sum is looked at: a refusal tells nothing of it.
    """
    if scale == 0.0:
        return 0.0, 0.0
    if math.isfinite(scale):
        grid = 2.0 ** (math.floor(math.log2(scale)) - _GRID_BITS)
        wide = scale * (1 + 2 * grid * slack)
        if _FURTHEST * wide <= 2.0**62 * grid < math.inf:
            return grid, wide
    raise InvalidInput(f"noise of scale {scale:.3g} does not fit into whole numbers of 64 bits; use another amount")


def _finite(total: Tensor) -> Floats:
    return _finite_tensor(total).cpu().numpy()


def _finite_tensor(total: Tensor) -> Tensor:
    """`total` as float64 [k], where it is."""
    flat = total.detach().reshape(-1).to(torch.float64)
    if not bool(flat.isfinite().all()):
        raise GraphveilError("the bounded sum is not finite; a mechanism must bound before it perturbs")
    return flat


class Seeded(Stream):
    """Reproducible noise for research. Whoever knows the seed can subtract it: not for release.

    A copy goes on with the same draws, and so does a forked process: that is what a seed is for.
    """

    label = "seeded (not for release)"
    secure = False

    def __init__(self, seed: int, period: int = 1) -> None:
        """period: of a growing graph, whose periods draw apart even under one seed."""
        words = [seed, 0x5EED] if period == 1 else [seed, 0x5EED, period]
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))

    def handed(self, uniforms: int) -> Source:
        part = copy.deepcopy(self)
        # A uniform takes one step of the generator.
        self._generator.bit_generator.advance(uniforms)  # type: ignore[attr-defined]  # PCG64 has it
        return part

    def uniform(self, count: int) -> Floats:
        return np.maximum(self._generator.random(count), 2.0**-54)

    def normal(self, count: int) -> Floats:
        return self._generator.standard_normal(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)

    def _join(self, total: Floats, noise: Floats, scale: float, slack: float) -> Floats:  # noqa: ARG002
        return total + scale * noise


class _Keystream(threading.local):
    """ChaCha20 under a key of its own in every thread and process: no two of them ever draw the same words.

    A fork copies the key with the memory, so the child takes a fresh one before it draws. Threads share nothing, so
    there is no lock that a fork could copy while it is held.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Go on under a fresh key, from its first word; no key is used twice."""
        self._key, self._next = os.urandom(32), 0
        self._owner = (os.getpid(), _forks)

    def taken(self, count: int) -> tuple[bytes, int]:
        """The key, and the first of the next `count` words of its stream, which nobody else is given."""
        # Two nets: processes are told apart by number, and where numbers come again, by the forks between them.
        if self._owner != (os.getpid(), _forks):
            self.renew()
        first, self._next = self._next, self._next + count
        return self._key, first

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words of the stream."""
        return cipher.words(*self.taken(count), count)


class Secure(Stream):
    """Noise from a ChaCha20 keystream under a fresh key, added on an integer grid.

    The bounded sum is rounded to a power-of-two grid g, the noise to the same grid, and both are added
    in int64. The result is post-processing of (rounded sum + continuous noise), so the low bits of a
    float leak nothing. Rounding may move two neighbouring sums apart by one g per entry, and summation
    in float64 by less than another; the noise is widened to pay for both:
    scale' = scale * (1 + 2 g * slack). What remains is float64 sampling error.

    Uniforms keep 53 significant digits however small they are. With the usual 53 binary places instead,
    the tails of the noise (about one Laplace draw in 10^8) would be coarser than the grid, and an output
    there would be possible under one of two neighbouring sums only.

    Every release has a key of its own, and a draw is a function of that key and its place in the release, whatever
    device makes it (`cipher`, `elementary`). Threads may share it and processes may fork: each goes on under a key of
    its own. It cannot be copied or pickled.
    A machine that is restored from a snapshot repeats its memory, and with it the noise: out of scope.
    """

    label = "cryptographic (ChaCha20)"
    secure = True

    def __init__(self) -> None:
        self._stream = _Keystream()

    def __reduce__(self) -> tuple[Any, ...]:
        raise Unsupported(
            "a cryptographic source cannot be copied or sent: both would draw the same noise; make another"
        )

    def begin(self) -> None:
        self._stream.renew()

    def handed(self, uniforms: int) -> Source:
        return _Part(*self._stream.taken(2 * uniforms), 2 * uniforms)

    def uniform(self, count: int) -> Floats:
        return _uniform_of(torch.from_numpy(self._stream.words(2 * count).view(np.int64))).numpy()

    def _uniform_on(self, count: int, device: torch.device) -> Tensor:
        """`uniform`, float64 [count], made on `device`: the same numbers from the same words."""
        if device.type == "cpu":
            return torch.from_numpy(self.uniform(count))
        return _uniform_of(cipher.words_on(*self._stream.taken(2 * count), 2 * count, device))

    def normal(self, count: int) -> Floats:
        return self._normal_on(count, _CPU).numpy()

    def _normal_on(self, count: int, device: torch.device) -> Tensor:
        """Standard normal draws (Box & Muller 1958), float64 [count], made on `device`."""
        half = (count + 1) // 2
        radius = (2 * self._exponential(half, device)).sqrt()
        cosine, sine = elementary.cos_sin_of_turns(self._uniform_on(half, device))
        return torch.cat([radius * cosine, radius * sine])[:count]

    def _exponential(self, count: int, device: torch.device = _CPU) -> Tensor:
        """Standard exponential draws with a far tail: beyond 53 ln 2 a draw starts anew, for it has no memory.

        Normal noise that ended at 12 deviations could not hide a move of as many.
        """
        drawn = -elementary.log(self._uniform_on(count, device))
        for turn in range(1, _TURNS + 1):
            rare = (drawn > turn * _TURN).nonzero().ravel()
            if not len(rare):
                break
            drawn[rare] = turn * _TURN - elementary.log(self._uniform_on(len(rare), device))
        return drawn

    def laplace(self, count: int) -> Floats:
        signs = np.where(self.uniform(count) < 0.5, 1.0, -1.0)
        return np.asarray(signs * elementary.log(torch.from_numpy(self.uniform(count))).numpy())

    def digits(self, count: int, chances: Sequence[float], device: torch.device = _CPU) -> Tensor:
        if device.type == "cpu":
            return super().digits(count, chances)
        gpu, (key, first) = kernels(cipher.__name__, device), self._stream.taken(2 * count * len(chances))
        if gpu is not None and first % 8 == 0 and count % 8 == 0:
            drawn = torch.empty(count, dtype=torch.int64, device=device)
            gpu.digits(key, first // 8, torch.tensor(chances, dtype=torch.float64, device=device), drawn)
            return drawn
        drawn = torch.zeros(count, dtype=torch.int64, device=device)
        for place, chance in enumerate(chances):
            words = cipher.words_on(key, first + 2 * count * place, 2 * count, device)
            drawn += (_uniform_of(words) < chance).to(torch.int64) << place
        return drawn

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._stream.words(count)

    def _join(self, total: Floats, noise: Floats, scale: float, slack: float) -> Floats:
        return _on_grid(torch.from_numpy(total), torch.from_numpy(noise), scale, slack).numpy()

    def _with_normals(self, part: Tensor, std: float, slack: float) -> Tensor:
        if part.device.type == "cpu":
            return super()._with_normals(part, std, slack)
        return _on_grid(_finite_tensor(part), self._normal_on(len(part), part.device), std, slack)


def _uniform_of(words: Tensor) -> Tensor:
    """Uniforms, float64 [k], of int64 [2 k]: the high digits of all of them, then the low ones."""
    high, low = ((words >> 11) & ((1 << 53) - 1)).to(torch.float64).view(2, -1)
    made: Tensor = (high + (low + 0.5) * 2.0**-53) * 2.0**-53
    return made.clamp(max=1 - 2.0**-53)


def _on_grid(total: Tensor, noise: Tensor, scale: float, slack: float) -> Tensor:
    """`total` and widened `noise` rounded to the grid and added there, float64 [k]."""
    if scale == 0.0:
        return total
    grid, wide = _grid(scale, slack)
    # Beyond 2^52 grid steps a double has no room for the grid. Saturating moves no two sums apart,
    # whereas an error would tell which of them it was. Quotients by a power of two are exact on every device.
    steps = (total / grid).clamp(-(2.0**52), 2.0**52)
    units: Tensor = steps.round().to(torch.int64) + (wide * noise / grid).round().to(torch.int64)
    return units.to(torch.float64) * grid


@dataclass
class _Range:
    """Some words of one key's stream, in their order, and no others."""

    key: bytes = field(repr=False)
    first: int
    left: int

    def taken(self, count: int) -> tuple[bytes, int]:
        """See `_Keystream.taken`; words of others are refused."""
        if count > self.left:
            raise GraphveilError(f"{count} words were asked for, and {self.left} were handed out")
        first, self.first, self.left = self.first, self.first + count, self.left - count
        return self.key, first

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words."""
        return cipher.words(*self.taken(count), count)


class _Part(Secure):
    """The draws of some rows of one release, from its key and their place: `Secure.handed`.

    Unlike its parent it can be sent. Whoever holds the key can make this release's noise, so it stays inside the walls.
    A key for every part alone would give other noise than one process draws, whose words are those of one key: the two
    are equal only while parts know that key.
    """

    def __init__(self, key: bytes, first: int, words: int) -> None:
        self._whole = (key, first, words)
        self._stream = _Range(key, first, words)  # type: ignore[assignment]  # draws words alike, and never renews

    def begin(self) -> None:
        raise Unsupported("a part of a release is no release")

    def handed(self, uniforms: int) -> Source:
        raise Unsupported(f"a part cannot hand on {uniforms} draws")

    def __reduce__(self) -> tuple[Any, ...]:
        # From its first word, wherever it stands: rows that are made again get the noise they had.
        return _Part, self._whole


def common(source: Stream, workers: Workers) -> Stream:
    """The first process's `source`, for all of them."""
    return source if workers.size == 1 else _Common(source, workers)


class _Common(Stream):
    """Draws in the first process and sends the draws to the others, which never use the source they hold."""

    label = "drawn by the first process"
    secure = False

    def __init__(self, source: Stream, workers: Workers) -> None:
        self._source, self._workers = source, workers

    def begin(self) -> None:
        if self._workers.first:
            self._source.begin()

    def uniform(self, count: int) -> Floats:
        return self._workers.sent(count, lambda: self._source.uniform(count))

    def normal(self, count: int) -> Floats:
        return self._workers.sent(count, lambda: self._source.normal(count))

    def words(self, count: int) -> NDArray[np.uint64]:
        # As doubles on the way, because not every backend sends unsigned words; no bit changes.
        return self._workers.sent(count, lambda: self._source.words(count).view(np.float64).copy()).view(np.uint64)

    def _join(self, total: Floats, noise: Floats, scale: float, slack: float) -> Floats:
        return self._workers.sent(total.size, lambda: self._source._join(total, noise, scale, slack))
