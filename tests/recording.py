"""A source that writes down what it is asked for, and answers as it is told to: laws are read off, not sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Floats, Source

T = TypeVar("T")

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Call:
    """A verb of the source and the numbers it was given, but for the data."""

    verb: str
    numbers: tuple[float, ...]


class Recording(Seeded):
    """Seeded draws, no noise on sums. What a mechanism itself asks is recorded, not what a verb asks of another.

    `script`: for a verb, what its next calls return, one after the other; then seeded draws follow.
    """

    label = "recording"

    def __init__(self, seed: int = 0, **script: Iterable[Any]) -> None:
        super().__init__(seed)
        self.calls: list[Call] = []
        self._script: dict[str, Iterator[Any]] = {verb: iter(answers) for verb, answers in script.items()}
        self._inside = False

    def _asked(self, verb: str, numbers: tuple[float, ...], draw: Callable[[], T]) -> T:
        if self._inside:
            return draw()
        self.calls.append(Call(verb, numbers))
        given: T | None = next(self._script.get(verb, iter(())), None)
        if given is not None:
            return given
        self._inside = True
        try:
            return draw()
        finally:
            self._inside = False

    def uniform(self, count: int) -> Floats:
        return self._asked("uniform", (count,), lambda: Seeded.uniform(self, count))

    def normal(self, count: int) -> Floats:
        return self._asked("normal", (count,), lambda: Seeded.normal(self, count))

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._asked("words", (count,), lambda: Seeded.words(self, count))

    def laplace(self, count: int) -> Floats:
        return self._asked("laplace", (count,), lambda: Seeded.laplace(self, count))

    def gumbel(self, count: int) -> Floats:
        return self._asked("gumbel", (count,), lambda: Seeded.gumbel(self, count))

    def coins(self, count: int, rate: float) -> Tensor:
        return self._asked("coins", (count, rate), lambda: Seeded.coins(self, count, rate))

    def digits(self, count: int, chances: Sequence[float], device: torch.device = _CPU) -> Tensor:
        """Recorded as the coins that it is made of."""
        return Seeded.digits(self, count, chances, device)

    def begin(self) -> None:
        """Nothing is drawn."""

    def handed(self, uniforms: int) -> Source:
        return self._asked("handed", (uniforms,), lambda: Seeded.handed(self, uniforms))

    def handed_normals(self, count: int) -> Source:
        return self._asked("handed_normals", (count,), lambda: Seeded.handed_normals(self, count))

    def skips(self, count: int, rate: float) -> NDArray[np.int64]:
        return self._asked("skips", (count, rate), lambda: Seeded.skips(self, count, rate))

    def choose(self, count: int, size: int) -> Tensor:
        return self._asked("choose", (count, size), lambda: Seeded.choose(self, count, size))

    def below(self, count: int, bound: int) -> NDArray[np.int64]:
        return self._asked("below", (count, bound), lambda: Seeded.below(self, count, bound))

    def subset(self, count: int, size: int) -> NDArray[np.int64]:
        return self._asked("subset", (count, size), lambda: Seeded.subset(self, count, size))

    def add_gaussian(self, total: Tensor, std: float, unit: float) -> Tensor:
        return self._asked("add_gaussian", (std, unit), lambda: total.detach().float())

    def add_laplace(self, total: Tensor, scale: float, unit: float) -> Tensor:
        return self._asked("add_laplace", (scale, unit), lambda: total.detach().float())


def turning_point(turned: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that is false at `low` becomes true, to the last digits of a double."""
    assert not turned(low)
    assert turned(high)
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high and not high < middle < low:
            break
        low, high = (low, middle) if turned(middle) else (middle, high)
    return high
