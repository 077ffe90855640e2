"""What mechanisms share that bound a query and add noise of a known law to every entry."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from graphveil.vocabulary import Mechanism, Query, SealedGraph

if TYPE_CHECKING:
    from torch import Tensor


class Additive(Mechanism):
    """Releases `bounded(sealed, query)` plus noise of density f."""

    @abstractmethod
    def bounded(self, sealed: SealedGraph, query: Query) -> Tensor:
        """What is released but for the noise."""

    @abstractmethod
    def log_ratio(self, rest: Tensor, shift: Tensor) -> float:
        """ln f(rest - shift) / f(rest), both of the released shape; infinite without noise."""

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        low = self.bounded(there, query).double()
        return self.log_ratio(answer.double() - low, self.bounded(here, query).double() - low)


def certain(log_ratio: float) -> float:
    """Without noise whatever differs is certain."""
    return math.copysign(math.inf, log_ratio) if log_ratio else 0.0
