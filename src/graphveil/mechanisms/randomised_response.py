"""Randomised response over k categories (Warner 1965): tell the truth, or any one of the other answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve, response
from graphveil.vocabulary import Curve, Mechanism, Query, SealedGraph, Source

_LARGEST = 32.0
"""Beyond this epsilon a double has too few digits for the chance of a lie: nothing finite is claimed."""


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

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        answers = query(sealed).clamp(0, self.categories - 1)
        honest = source.coins(len(answers), self.truth)
        shifts = torch.from_numpy(source.uniform(len(answers)) * (self.categories - 1)).long() + 1
        return torch.where(honest, answers, (answers + shifts) % self.categories)

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        first, second = (query(sealed).clamp(0, self.categories - 1) for sealed in (here, there))
        return self.epsilon * float((answer == first).sum() - (answer == second).sum())

    def curve(self, sensitivity: float) -> Curve:
        """`sensitivity`: how many answers a neighbour changes; only one is covered by this curve."""
        if sensitivity != 1:
            raise InvalidInput("a neighbour that changes several answers must be charged as several steps")
        if self.epsilon > _LARGEST:
            return PureCurve(math.inf)
        # A coin is off by 2^-53, which is a larger share of a rarer lie.
        return response(self.epsilon + 2.0**-52 * (1 + math.exp(self.epsilon)), self.categories)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.10986), cls(1.0, categories=4)
