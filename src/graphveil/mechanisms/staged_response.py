"""Randomised response in stages: what was said before decides among what the next ones choose (Ghazi et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphveil.mechanisms.prior_response import Choices, PriorResponse
from graphveil.vocabulary import Query, SealedGraph, Source


@dataclass(frozen=True, eq=False)
class Stages:
    """What each record would say, when it is asked, and among what it may choose: the last two are public.

    truths: int64 [m], or -1 where there is nothing to say; stage: int64 [m]; candidates: from all that was said in
    earlier stages, int64 [m] with -1 for who was not asked yet, to bool [m, c], one at least in every row.
    """

    truths: Tensor
    stage: Tensor
    candidates: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class StagedResponse(PriorResponse):
    """Query: `query(sealed) -> Stages`. Each record speaks once, as in `PriorResponse`, stage after stage.

    Releases int64 [m, 1 + c]: what each said, and 1 for each of its candidates. A neighbour changes one truth. Answers
    of earlier stages have the same law in both worlds, its own is `epsilon`-DP given them, and later ones are made of
    answers and public data: `epsilon` for all stages together.
    """

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        asked = query(sealed)
        said = torch.full_like(asked.truths, -1)
        among = torch.zeros(len(said), self.categories, dtype=torch.bool)
        for stage in asked.stage.unique().tolist():
            group = (asked.stage == stage).nonzero().ravel()
            among[group] = asked.candidates(said.clone())[group]
            choices = Choices(asked.truths[group], among[group])
            said[group] = super().apply(sealed, lambda _, choices=choices: choices, source)
        return torch.cat([said[:, None], among.long()], dim=1)

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,
    ) -> float:
        among = answer[:, 1:].bool()
        return super().evidence(here, there, lambda sealed: Choices(query(sealed).truths, among), answer[:, 0], uses)
