"""Public chance by counters: SplitMix64 of a key and a place, the same words on every device. Not for privacy noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numba
import numpy as np
import torch
from torch import Tensor

from graphveil.runtime.kernels import kernels

_WORDS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
"""Of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), as in `sampling.splitmix`."""
_STEP, *_FACTORS = (int(word) for word in _WORDS.view(np.int64))


@dataclass(frozen=True, eq=False)
class CounterRng:
    """Words by (key, turn, place). key: of this stream; turn: int64 [], on the device that the words are for.

    Whoever holds it moves `turn` on in place, so that a recorded step draws anew whenever it is replayed.
    """

    key: int
    turn: Tensor

    @classmethod
    def drawn(cls, device: torch.device) -> Self:
        """A stream whose key is drawn by torch's generator."""
        return cls(int(torch.randint(2**62, (), device="cpu")), torch.zeros((), dtype=torch.int64, device=device))

    def stream(self, number: int) -> CounterRng:
        """Another one, that moves with this one."""
        return CounterRng(int(mixed(torch.tensor(self.key + number + 1, device="cpu"))) & (2**62 - 1), self.turn)

    def words(self, count: int) -> Tensor:
        """int64 [count] of this turn."""
        if (kernel := kernels(__name__, self.turn.device)) is not None:
            made: Tensor = kernel.words(self.key, self.turn, count)
            return made
        first = mixed(self.turn * _STEP + self.key)
        if self.turn.device.type == "cpu":
            out = np.empty(count, np.int64)
            _fill(np.uint64(int(first) % 2**64), out.view(np.uint64))
            return torch.from_numpy(out)
        return mixed(torch.arange(count, device=self.turn.device) * _STEP + first)

    def below(self, count: int, bound: int) -> Tensor:
        """int64 [count] of range(bound): each as likely but for 2^-63 bound."""
        return (self.words(count) & 0x7FFFFFFFFFFFFFFF) % bound


def mixed(x: Tensor) -> Tensor:
    """SplitMix64's words of int64 counters, whose sums and products wrap round, on any device."""
    x = x + _STEP
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * _FACTORS[0]
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * _FACTORS[1]
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


@numba.njit(cache=True, nogil=True)
def _fill(first: Any, out: Any) -> None:
    for i in range(len(out)):
        word = np.uint64(i + 1) * _WORDS[0] + first
        word = (word ^ (word >> np.uint64(30))) * _WORDS[1]
        word = (word ^ (word >> np.uint64(27))) * _WORDS[2]
        out[i] = word ^ (word >> np.uint64(31))
