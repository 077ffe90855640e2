"""Randomised response over k categories (Warner 1965): tell the truth, or any one of the other answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from graphveil.core import InvalidInput, Mechanism, Query
from graphveil.mechanisms.dominating_pair import DominatingPair

if TYPE_CHECKING:
    from graphveil.graph import Sealed
    from graphveil.noise import Source


@dataclass(frozen=True)
class RandomisedResponse(Mechanism):
    """Query: `query(sealed) -> int64 [m]` in range(categories). Each answer alone is `epsilon`-DP.

    Pr[truth] = e^epsilon / (e^epsilon + k - 1); every other answer is equally likely.
    """

    epsilon: float
    categories: int = 2

    @property
    def truth(self) -> float:
        """Probability that an answer is the true one."""
        return 1 / (1 + (self.categories - 1) * math.exp(-self.epsilon))

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        answers = query(sealed).clamp(0, self.categories - 1)
        honest = source.coins(len(answers), self.truth)
        shifts = torch.from_numpy(source.uniform(len(answers)) * (self.categories - 1)).long() + 1
        return torch.where(honest, answers, (answers + shifts) % self.categories)

    def evidence(self, here: Sealed, there: Sealed, query: Query, answer: Tensor, uses: int | None = None) -> float:  # noqa: ARG002
        first, second = (query(sealed).clamp(0, self.categories - 1) for sealed in (here, there))
        return self.epsilon * float((answer == first).sum() - (answer == second).sum())

    def curve(self, sensitivity: float) -> DominatingPair:
        """`sensitivity`: how many answers a neighbour changes; only one is covered by this curve."""
        if sensitivity != 1:
            raise InvalidInput("a neighbour that changes several answers must be charged as several steps")
        lie = (1 - self.truth) / (self.categories - 1)
        rest = (0.0,) if self.categories == 2 else ((self.categories - 2) * lie,)
        return DominatingPair((self.truth, lie, *rest), (lie, self.truth, *rest))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.10986), cls(1.0, categories=4)
