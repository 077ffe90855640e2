"""One bit of a bounded number (Duchi, Jordan & Wainwright 2013; Ding, Kulkarni & Yekhanin 2017)."""

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
class OneBit(Mechanism):
    """Query: `query(sealed) -> float [m]`, cut to [-1, 1]. Each record says 1 or -1, int64 [m]; each is `epsilon`-DP.

    Pr[1] = (1 + mean x) / 2 with mean = (e^epsilon - 1) / (e^epsilon + 1): what is said, over `mean`, is unbiased.
    """

    epsilon: float

    @property
    def mean(self) -> float:
        """What is expected of a record with x = 1."""
        return math.tanh(self.epsilon / 2)

    def chances(self, x: Tensor) -> Tensor:
        """Pr[1], float64 [m]; what is no number is taken for 0."""
        return (1 + self.mean * x.double().nan_to_num(0.0).clamp(-1, 1)) / 2

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        chances = self.chances(query(sealed))
        return 2 * (torch.from_numpy(source.uniform(len(chances))) < chances).long() - 1

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        first, second = (self.chances(query(sealed)) for sealed in (here, there))
        told = torch.where(answer == 1, first.log() - second.log(), (1 - first).log() - (1 - second).log())
        return float(told.sum())

    def curve(self, sensitivity: float) -> Curve:
        """`sensitivity`: how many records a neighbour changes; one, from -1 to 1 at worst."""
        if sensitivity != 1:
            raise InvalidInput("a neighbour that changes several records must be charged as several steps")
        if self.epsilon > _LARGEST:
            return PureCurve(math.inf)
        # A chance and a uniform are off by 2^-53 each, which is a larger share of a rarer lie.
        return response(self.epsilon + 2.0**-51 * (1 + math.exp(self.epsilon)))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.5), cls(2.0)
