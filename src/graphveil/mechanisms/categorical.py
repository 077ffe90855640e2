"""What mechanisms share that answer every use with one row: many uses at once, with the draws of one after another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from torch import Tensor

from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Floats, Mechanism, Query, SealedGraph, Source


class Answering(Mechanism):
    """Query: `query(sealed) -> Tensor [uses, *]`, one row for every use. Releases one answer for every row.

    What a use draws does not depend on the rows, and uses draw one after the other: the same source gives the same
    answers however many uses share a release.
    """

    @abstractmethod
    def draw(self, source: Source) -> Floats:
        """The random numbers of one use, [k]."""

    @abstractmethod
    def answer(self, rows: Tensor, draws: Floats) -> Tensor:
        """What is released of rows [uses, *] with draws [uses, k]: [uses]."""

    @abstractmethod
    def log_chances(self, rows: Tensor, answers: Tensor) -> Floats:
        """For audits: the log chance of every answer, int64 [uses], given its row, [uses, *]; float64 [uses]."""

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        return float((self.log_chances(query(here), answer) - self.log_chances(query(there), answer)).sum())

    def answers(self, rows: Tensor, draws: list[Floats]) -> Tensor:
        """`answer`, unless the query has more or fewer rows than there are uses to charge."""
        if len(rows) != len(draws):
            raise InvalidInput(f"the query has {len(rows)} row(s) for {len(draws)} use(s); give one for each")
        return self.answer(rows, np.stack(draws))

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        return self.apply_many(sealed, query, source, 1)

    def apply_many(self, sealed: SealedGraph, query: Query, source: Source, uses: int) -> Tensor:
        return self.answers(query(sealed), [self.draw(source) for _ in range(uses)])


Law = Callable[[Floats], Floats]


def argmax_log_chances(scores: Floats, chosen: Ids, log_density: Law, log_below: Law) -> Floats:
    """ln Pr[argmax_k (s_k + N_k) = chosen] for every row of scores [uses, c], N_k independent of one law; [uses].

    ln int f(x - s_j) prod_{k != j} F(x - s_k) dx by the trapezoid rule: for audits, right to about 1e-4 of itself.
    """
    top = scores.max(axis=1)
    mine = np.take_along_axis(scores, chosen[:, None], axis=1)
    found = np.empty(len(scores))
    for use, (row, own, high) in enumerate(zip(scores, mine[:, 0], top, strict=True)):
        x = np.linspace(own - 20.0, high + 20.0, 2001)
        below = log_below(x[:, None] - row).sum(axis=1) - log_below(x - own)
        found[use] = np.logaddexp.reduce(log_density(x - own) + below) + np.log(x[1] - x[0])
    return found
