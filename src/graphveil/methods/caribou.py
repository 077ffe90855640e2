"""CARIBOU: contractive graph layers with a converging privacy cost (Zheng, Li, Li & Wang 2025), edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Self

import torch
from torch import Tensor

from graphveil.core import (
    Adjacency,
    InvalidInput,
    Plan,
    Reading,
    Step,
    Unit,
    Unsupported,
    parse,
    require_positive,
    require_whole,
)
from graphveil.graph import Public, Sealed
from graphveil.mechanisms.contractive import Contractive
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.method import Method, State
from graphveil.nn.aggregate import NeighbourSums
from graphveil.nn.features import Scale, Scaling, standard, unit_rows
from graphveil.nn.fit import Recipe, fit_rows
from graphveil.nn.mlp import Perceptron, predicted, restore, with_prefix
from graphveil.session import Session

_LEAST_DEGREE = (
    "Theorem 4 reads the least degree of the private graph, and the neighbour that lacks an edge may have a smaller "
    "one: a printed move for least degree 1 is exceeded 1.456-fold by joining two isolated nodes"
)


class Start(StrEnum):
    """X_0: unit rows of the encoder's class posteriors less 1/c, [n, c], or of the features themselves, [n, d]."""

    POSTERIORS = "posteriors"
    FEATURES = "features"


@dataclass(frozen=True)
class Caribou(Method):
    """X_k = clip(lipschitz (alpha A_hat X_{k-1} + (1 - alpha) mean(X_{k-1})) + beta X_0 + N(0, noise^2)), k = 1..hops.

    Equation 4 and Algorithm 1; A_hat = (D + tau I)^-1/2 (A + loops I) (D + tau I)^-1/2. Only the last state leaves; a
    perceptron reads it beside X_0 (section 4.5). In the paper's letters lipschitz is C_L, alpha is alpha_1,
    1 - alpha is alpha_2 and hops is K; there tau = loops = 1. `least_degree` (D_min) is read by PUBLISHED alone.
    """

    units = frozenset({Unit.EDGE})

    hops: int = 2
    lipschitz: float = 0.9
    alpha: float = 1.0
    beta: float = 1.0
    tau: float = 10.0
    loops: float = 0.0
    start: str = "posteriors"
    least_degree: int = 1
    hidden: int = 128
    head: int = 64
    epochs: int = 150
    learning_rate: float = 0.01
    scale: str = "shifted"

    def __post_init__(self) -> None:
        require_whole(self, "hops", "least_degree", "hidden", "head", "epochs")
        if min(self.least_degree, self.hidden, self.head, self.epochs) < 1:
            raise InvalidInput("caribou needs least_degree, hidden, head and epochs of at least 1")
        require_positive(self.learning_rate, "learning_rate")
        parse(Scale, self.scale, "scale")
        parse(Start, self.start, "start")
        self._act(1.0)

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        act = self._act(noise)
        moved = act.move(adjacency.undirected)
        if reading is Reading.SOUND:
            return Plan(adjacency, reading, (Step("hops", act, act.curve(moved), 1, why="docs/methods/caribou.md"),))
        if (self.tau, self.loops) != (1.0, 1.0):
            raise Unsupported("the published theorems speak of tau = 1 and loops = 1 only; use reading='sound'")
        printed = printed_move(act, self.least_degree)
        step = Step(
            "hops",
            act,
            RenyiCurve(act.curve(printed)),
            1,
            why="docs/methods/caribou.md",
            assumes=(f"every node of the private graph has degree {self.least_degree} or more",),
            refuted=_LEAST_DEGREE if printed < moved else "",
        )
        return Plan(adjacency, reading, (step,))

    def fit(self, session: Session) -> State:
        public = session.public
        x, y, classes = public.features(), public.labels(), public.num_classes
        scaling = Scaling.fit(x, self.scale)
        encoder = self._encoder(public.num_features, classes)
        recipe = Recipe(self.epochs, self.learning_rate, weight_decay=5e-4, patience=20)
        fit_rows(encoder, scaling(x), y, public.train, public.val, recipe)
        inputs = self._inputs(session, encoder, scaling)
        head = self._head(public.num_features, classes)
        recipe = Recipe(200, self.learning_rate, weight_decay=1e-4, patience=40)
        fit_rows(head, inputs, y, public.train, public.val, recipe)
        weights = {**with_prefix("encoder.", encoder.state_dict()), **with_prefix("head.", head.state_dict())}
        return {**weights, **scaling.state(), "logits": predicted(head, inputs)}

    def serve(self, session: Session, state: State) -> State:
        width, classes = session.public.num_features, session.public.num_classes
        encoder = restore(self._encoder(width, classes), state, "encoder.")
        head = restore(self._head(width, classes), state, "head.")
        inputs = self._inputs(session, encoder, Scaling.restore(state, self.scale))
        return {**state, "logits": predicted(head, inputs)}

    def _act(self, noise: float) -> Contractive:
        return Contractive(noise, self.hops, self.lipschitz, self.alpha, self.beta, self.tau, self.loops)

    def _inputs(self, session: Session, encoder: torch.nn.Module, scaling: Scaling) -> Tensor:
        """The encoder's log posteriors beside unit rows of X_K - beta X_0, [n, c + width of X_0]."""
        x = session.public.features()
        scores = predicted(encoder, scaling(x)).log_softmax(dim=1)
        start = unit_rows(x if self.start == Start.FEATURES else scores.exp() - 1 / scores.shape[1])
        last = session.release("hops", partial(_messages, rows=start))
        # X_0 is public: what the last hop added of it tells nothing, and at large beta it would hide the rest.
        return torch.cat([standard(scores), unit_rows(last - self.beta * start)], dim=1)

    def _encoder(self, width: int, classes: int) -> Perceptron:
        return Perceptron((width, self.hidden, classes), dropout=0.5, input_dropout=0.2)

    def _head(self, width: int, classes: int) -> Perceptron:
        started = width if self.start == Start.FEATURES else classes
        return Perceptron((classes + started, self.head, classes), dropout=0.2)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        # The published reading exists for tau = loops = 1 alone.
        one = cls(hops=1, lipschitz=0.5, tau=1.0, loops=1.0, hidden=4, head=4, epochs=2)
        return one, replace(one, hops=4, lipschitz=0.8, alpha=0.9, beta=0.0, start="features")


def printed_move(act: Contractive, least_degree: int) -> float:
    """Equation 6: sqrt(2) C_L alpha_1 (1/((D+1)(D+2)) + C(D)/sqrt(D+1) + 1/sqrt((D+2)(D+1))), D being `least_degree`.

    C(D) = D' (1/sqrt(D'+1) - 1/sqrt(D'+2)) with D' = max(D, 3) (equation 7).
    """
    knee = max(least_degree, 3)
    shrunk = knee / math.sqrt(knee + 1) - knee / math.sqrt(knee + 2)
    first, second = least_degree + 1, least_degree + 2
    row = 1 / (first * second) + shrunk / math.sqrt(first) + 1 / math.sqrt(first * second)
    return math.sqrt(2) * act.lipschitz * act.alpha * row


def _messages(sealed: Sealed, rows: Tensor) -> NeighbourSums:
    return NeighbourSums(sealed.adj, rows)
