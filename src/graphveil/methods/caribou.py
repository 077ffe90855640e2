"""CARIBOU: contractive graph layers with a converging privacy cost (Zheng, Li, Li & Wang 2025), edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Self

from torch import Tensor

from graphveil.core import (
    Adjacency,
    InvalidInput,
    Plan,
    Reading,
    Step,
    Unsupported,
    parse,
    require_whole,
)
from graphveil.graph import Public
from graphveil.mechanisms.contractive import Contractive
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.nn.edge_method import EdgeMethod, messages
from graphveil.nn.features import unit_rows
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
class Caribou(EdgeMethod):
    """X_k = clip(lipschitz (alpha A_hat X_{k-1} + (1 - alpha) mean(X_{k-1})) + beta X_0 + N(0, noise^2)), k = 1..hops.

    Equation 4 and Algorithm 1; A_hat = (D + tau I)^-1/2 (A + loops I) (D + tau I)^-1/2. Only the last state leaves; a
    perceptron reads it beside X_0 (section 4.5). In the paper's letters lipschitz is C_L, alpha is alpha_1,
    1 - alpha is alpha_2 and hops is K; there tau = loops = 1. `least_degree` (D_min) is read by PUBLISHED alone.
    """

    hops: int = 2
    lipschitz: float = 0.9
    alpha: float = 1.0
    beta: float = 1.0
    tau: float = 10.0
    loops: float = 0.0
    start: str = "posteriors"
    least_degree: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "hops", "least_degree")
        if self.least_degree < 1:
            raise InvalidInput(f"caribou needs least_degree of at least 1, got {self.least_degree}")
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

    def _act(self, noise: float) -> Contractive:
        return Contractive(noise, self.hops, self.lipschitz, self.alpha, self.beta, self.tau, self.loops)

    def released(self, session: Session, posteriors: Tensor) -> Tensor:
        """Unit rows of X_K - beta X_0, [n, width of X_0]."""
        features = session.public.features() if self.start == Start.FEATURES else posteriors - 1 / posteriors.shape[1]
        start = unit_rows(features)
        last = session.release("hops", partial(messages, rows=start))
        # X_0 is public: what the last hop added of it tells nothing, and at large beta it would hide the rest.
        return unit_rows(last - self.beta * start)

    def width(self, features: int, classes: int) -> int:
        return features if self.start == Start.FEATURES else classes

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
