"""What mechanisms share that answer every use with one row: many uses at once, with the draws of one after another."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from graphveil.core import Floats, InvalidInput, Mechanism, Query

if TYPE_CHECKING:
    from graphveil.graph import Sealed
    from graphveil.noise import Source


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

    def answers(self, rows: Tensor, draws: list[Floats]) -> Tensor:
        """`answer`, unless the query has more or fewer rows than there are uses to charge."""
        if len(rows) != len(draws):
            raise InvalidInput(f"the query has {len(rows)} row(s) for {len(draws)} use(s); give one for each")
        return self.answer(rows, np.stack(draws))

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        return self.apply_many(sealed, query, source, 1)

    def apply_many(self, sealed: Sealed, query: Query, source: Source, uses: int) -> Tensor:
        return self.answers(query(sealed), [self.draw(source) for _ in range(uses)])
