"""SML noise in many dimensions is charged as in one (HeterPoisson, Lemma 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.sealing import Public, Sealed
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.sml import Sml
from graphveil.methods.method import Method
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit
from graphveil_lab.court.case import Played, game_of

_DIMENSIONS = 1000


@dataclass(frozen=True)
class _SmlSum(Method):
    """One sum of vectors with SML noise, charged by Lemma 1: as Laplace noise of scale std / sqrt(2)."""

    units = frozenset({Unit.NODE})

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        claim = LaplaceCurve(math.sqrt(2) / noise)
        return Plan(adjacency, reading, (Step("sum", Sml(noise), claim, 1, why="HeterPoisson, Lemma 1"),))

    def fit(self, session: Session) -> State:
        return {"sum": session.release("sum", _rows)}


@dataclass(frozen=True)
class _Rows:
    """Contributions: a vector for every node, [n, d]."""

    rows: Tensor

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum of the rows, each no longer than `clip`, [d]."""
        lengths = torch.linalg.vector_norm(self.rows, dim=1, keepdim=True)
        return torch.sum(self.rows * (clip / lengths.clamp(min=clip)), dim=0)


def _rows(sealed: Sealed) -> _Rows:
    return _Rows(sealed.x.double())


@dataclass(frozen=True, eq=False)
class SmlLemmaOne(Played):
    """SML noise is sqrt(W) Z with one W ~ Exp(1) for all entries; along the canary alone it is a Laplace variable.

    That marginal is what Lemma 1 charges: (1, 0)-DP for a move of one clip and sigma = sqrt(2). But the length of the
    other 999 entries tells W, so that the noise is a Gaussian of known and sometimes tiny scale. True is delta(1) =
    0.187 and delta(4) = 0.0597, and epsilon at delta 1e-5 is above 1,900. An attack that looks along the canary sees
    the marginal alone, and could never notice.
    """

    name: str = "sml-lemma-1"
    claim: str = "SML noise of sigma = sqrt(2) clips is (1, 0)-DP in any dimension; 1,000 of them"
    source: str = "HeterPoisson (S&P 2024), Lemma 1"
    delta: float = 0.01
    runs: int = 2000
    quick: int = 500

    def game(self) -> Game:
        """Two nodes of which one says nothing and the other, the canary, is there or not."""
        graph = small_graph([], torch.eye(2, _DIMENSIONS).flip(0) * torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]))
        return game_of(Pair.without_node(graph, 1), _SmlSum(), Unit.NODE, noise=math.sqrt(2))
