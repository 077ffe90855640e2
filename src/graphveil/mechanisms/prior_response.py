"""Randomised response among the likelier answers (RRWithPrior of Ghazi et al. 2021, Algorithm 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.randomised_response import RandomisedResponse
from graphveil.vocabulary import Mechanism, Query, SealedGraph, Source

_LARGEST = 32.0
"""Beyond this epsilon a double has too few digits for the chance of a lie: nothing finite is claimed."""


@dataclass(frozen=True, eq=False)
class Choices:
    """What each record would say, and among what it may choose: the second is public.

    truths: int64 [m], or -1 where there is nothing to say; candidates: bool [m, c], one at least in every row.
    """

    truths: Tensor
    candidates: Tensor


@dataclass(frozen=True)
class PriorResponse(Mechanism):
    """Query: `query(sealed) -> Choices`. Each record says one of its k candidates, int64 [m]; each is `epsilon`-DP.

    Its own, if that is a candidate, with chance e^epsilon / (e^epsilon + k - 1), and otherwise any other one of them;
    if its own is none of them, each with chance 1/k. A lone candidate is what everybody says.
    """

    epsilon: float
    categories: int
    """c."""

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        said = torch.empty_like(asked.truths)
        sizes = asked.candidates.sum(dim=1)
        for size in sizes.unique().tolist():
            # Who has how many candidates is public, and so is the order in which coins are thrown.
            group = (sizes == size).nonzero().ravel()
            said[group] = self._said(asked.truths[group], asked.candidates[group], size, source)
        return said

    def _said(self, truths: Tensor, candidates: Tensor, size: int, source: Source) -> Tensor:
        """For records with `size` candidates each."""
        places = candidates.nonzero()[:, 1].view(-1, size)
        if size == 1:
            return places[:, 0]
        found = places == truths[:, None]
        honest = source.coins(len(truths), RandomisedResponse(self.epsilon, size).truth).to(truths.device)
        drawn = torch.from_numpy(source.uniform(2 * len(truths))).to(truths.device).view(2, -1)
        own = found.long().argmax(dim=1)
        other = (own + 1 + (drawn[0] * (size - 1)).long()) % size
        anywhere = (drawn[1] * size).long()
        chosen = torch.where(found.any(dim=1), torch.where(honest, own, other), anywhere)
        return places.gather(1, chosen[:, None])[:, 0]

    def log_chances(self, candidates: Tensor, said: Tensor) -> Tensor:
        """ln Pr[said | truth] for every truth, float64 [m, c]; candidates: bool [m, c]; said: int64 [m]."""
        sizes = candidates.sum(dim=1, keepdim=True).double()
        lie = -torch.log(math.expm1(min(self.epsilon, 700.0)) + sizes)
        chances = torch.where(candidates, lie, -sizes.log())
        return chances.scatter(1, said[:, None], lie + min(self.epsilon, 700.0))

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        logs = []
        for sealed in (here, there):
            asked = query(sealed)
            # One more column for those who have nothing to say: none of their candidates is theirs.
            chances = self.log_chances(asked.candidates, answer)
            silent = -asked.candidates.sum(dim=1, keepdim=True).double().log()
            told = torch.cat([chances, silent], dim=1)
            logs.append(told.gather(1, asked.truths[:, None] % told.shape[1])[:, 0])
        return float((logs[0] - logs[1]).sum())

    def curve(self, sensitivity: float) -> PureCurve:
        """`sensitivity`: how many truths a neighbour changes; one."""
        if sensitivity != 1:
            raise InvalidInput("a neighbour that changes several answers must be charged as several steps")
        if self.epsilon > _LARGEST:
            return PureCurve(math.inf)
        # A uniform is off by 2^-53, which is a larger share of a rarer lie.
        return PureCurve(self.epsilon + 2.0**-50 * (self.categories + math.exp(self.epsilon)))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0, categories=4), cls(3.0, categories=3)
