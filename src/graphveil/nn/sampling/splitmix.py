"""SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): public coins inside compiled loops, the same on every machine.

Never for noise or for anything that must stay secret.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

STEP = np.uint64(0x9E3779B97F4A7C15)
"""From one word of a stream to the next: word c of the stream that starts at s is mix(s + c STEP)."""
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def state_of(seed: int) -> NDArray[np.uint64]:
    """The state that a seed stands for, uint64 [1]."""
    return np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.uint64)


@numba.njit(cache=True, nogil=True)
def mix(word: Any) -> Any:
    """A fixed permutation of the 64-bit words in which every bit depends on every bit."""
    word = word + STEP
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))


@numba.njit(cache=True, nogil=True)
def below(state: Any, count: int) -> int:
    """A uniform draw from 0 .. count-1 (up to count / 2^53), advancing the state."""
    word = mix(state[0])
    state[0] += STEP
    return int(np.float64(word >> np.uint64(11)) * 2.0**-53 * count)
