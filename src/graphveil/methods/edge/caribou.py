"""CARIBOU: contractive graph layers with a converging privacy cost (Zheng, Li, Li & Wang 2025).

Edge level, sound and published; node level as published only, with a sound cost of infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Self

import torch
from torch import Tensor, nn

from graphveil.checks import parse, require_whole
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.contractive import Contractive
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.mechanisms.unprotected import ExposedCurve
from graphveil.methods.edge.parts.edge_method import EdgeMethod, messages
from graphveil.nn.aggregate import NeighbourSums
from graphveil.nn.clipping import ExampleGradients, dense_gradients, dense_logits, with_bias
from graphveil.nn.features import Scale, Scaling, unit_rows
from graphveil.nn.mlp import Perceptron
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Curve, Plan, Reading, State, Step, Unit

_WHY = "docs/methods/caribou.md"

_MIN_DEGREE = (
    "Theorem 4 reads the least degree of the private graph, and the neighbour that lacks an edge may have a smaller "
    "one: a printed move for least degree 1 is exceeded 1.456-fold by joining two isolated nodes"
)
_NODE_MOVE = (
    "Theorem 5 reads the degrees of the private graph, leaves out the beta X_0 of the node that differs, and bounds "
    "the row of a hub by 1: tests/fuzz/sensitivity.py finds moves up to 12 times the printed one"
)
_NO_SOUND_NODE = (
    "caribou has no sound claim for nodes: one node moves a hop by about the root of its degree, which nothing public "
    f"bounds ({_WHY})"
)
_CLIP, _RATE = 0.1, 64.0
"""Clipping length and learning rate of the private gradient steps at node level, those of `dpsgd`."""


class FirstRows(StrEnum):
    """What messages start from: POSTERIORS [n, c] or FEATURES [n, d]."""

    POSTERIORS = "posteriors"
    FEATURES = "features"


@dataclass(frozen=True)
class Caribou(EdgeMethod):
    """X_k = clip(lipschitz (alpha A_hat X_{k-1} + (1 - alpha) mean(X_{k-1})) + beta X_0 + N(0, noise^2)), k = 1..hops.

    Equation 4 and Algorithm 1; A_hat = (D + tau I)^-1/2 (A + loops I) (D + tau I)^-1/2. Only the last state leaves; a
    perceptron reads it beside X_0 (section 4.5). At node level encoder and head are softmax regressions trained by
    `epochs` noisy gradient steps.
    """

    subtitle = "contractive graph layers with noise in every hop"
    units = frozenset({Unit.EDGE, Unit.NODE})

    hops: int = 2
    """K: layers of which only the last one's state leaves, at least 1."""
    lipschitz: float = 0.9
    """C_L: by how much a layer contracts, strictly between 0 and 1."""
    alpha: float = 1.0
    """alpha_1: the weight of the graph in (0, 1]; the rest, alpha_2, is the mean's."""
    beta: float = 1.0
    """The weight of X_0 in every layer, at least 0."""
    tau: float = 10.0
    """What is added to degrees before they normalise, above 0; 1 in the paper."""
    loops: float = 0.0
    """The weight of a node's own state in A_hat, in 0..tau; 1 in the paper."""
    start: Annotated[str, FirstRows] = "posteriors"
    """X_0: unit rows of the encoder's class posteriors less 1/c, or of the features themselves."""
    least_degree: int = 1
    """D_min of the published theorems, at least 1: every node of the private graph has it, which is assumed."""
    most_degree: int = 0
    """D_max of the published theorem at node level; 0 where it is not stated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "hops", "least_degree", "most_degree")
        if self.least_degree < 1:
            raise InvalidInput(f"caribou needs least_degree of at least 1, got {self.least_degree}")
        parse(FirstRows, self.start, "start")
        self._act(1.0)

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        act = self._act(noise)
        if reading is Reading.PUBLISHED and (self.tau, self.loops) != (1.0, 1.0):
            raise Unsupported("the published theorems speak of tau = 1 and loops = 1 only; use reading='sound'")
        self._require_readers(adjacency.unit)
        if adjacency.unit is Unit.NODE:
            return Plan(adjacency, reading, self._node_steps(act, reading, public.num_nodes))
        moved = act.move(adjacency.undirected)
        if reading is Reading.SOUND:
            return Plan(adjacency, reading, (Step("hops", act, act.curve(moved), 1, why=_WHY),))
        printed = printed_move(act, self.least_degree)
        step = Step(
            "hops",
            act,
            RenyiCurve(act.curve(printed)),
            1,
            why=_WHY,
            assumes=(f"every node of the private graph has degree {self.least_degree} or more",),
            refuted=_MIN_DEGREE if printed < moved else "",
        )
        return Plan(adjacency, reading, (step,))

    def _require_readers(self, unit: Unit) -> None:
        """Settings that nobody reads at this unit would change nothing."""
        if unit is Unit.NODE:
            unread = ("hidden", "head", "learning_rate", "class_weight")
            self.require_default(*unread, unless="unit=edge", error=Unsupported)
            return
        self.require_default("most_degree", unless="unit=node", error=Unsupported)
        if (self.tau, self.loops) != (1.0, 1.0):
            published = "the published theorems, which speak of tau=1 and loops=1 only"
            self.require_default("least_degree", unless=published, error=Unsupported)
        if self.start == FirstRows.FEATURES:
            self.require_default("epochs", unless="start=posteriors, which an encoder makes", error=Unsupported)

    def _node_steps(self, act: Contractive, reading: Reading, nodes: int) -> tuple[Step, ...]:
        """Theorems 5 and 6: encoder, hops and head, each with the same mu. The sound cost of the hops is infinite."""
        if self.most_degree < self.least_degree:
            raise Unsupported(f"{_NO_SOUND_NODE}; for the published claim state most_degree, the D_max of equation 8")
        if self.start == FirstRows.FEATURES and self.scale != Scale.NONE:
            raise Unsupported('start="features" takes unit rows of the features as they are here; use scale="none"')
        if self.scale in (Scale.SHIFTED, Scale.COLUMNS):
            raise Unsupported(f'scale="{self.scale}" reads features, which are private here; use "rows" or "centred"')
        claim = act.curve(printed_node_move(act, self.least_degree, self.most_degree, nodes))
        gradient = Gaussian(0.0 if claim.infinite else math.sqrt(self.epochs) / claim.mu, _CLIP)
        degrees = f"every node of the private graph has degree {self.least_degree} to {self.most_degree}"
        if reading is Reading.SOUND:
            hops = Step("hops", act, ExposedCurve(), 1, why=_WHY)
        else:
            hops = Step("hops", act, RenyiCurve(claim), 1, why=_WHY, assumes=(degrees,), refuted=_NODE_MOVE)
        encoder, head = (
            Step(name, gradient, _as_read(reading, gradient.curve(1.0)), self.epochs, why="docs/methods/dpsgd.md")
            for name in ("encoder", "head")
        )
        return (encoder, hops, head) if self.start == FirstRows.POSTERIORS else (hops, head)

    def _act(self, noise: float) -> Contractive:
        return Contractive(noise, self.hops, self.lipschitz, self.alpha, self.beta, self.tau, self.loops)

    def released(self, session: Session, beliefs: Tensor) -> Tensor:
        """Unit rows of X_K - beta X_0, [n, width of X_0]."""
        features = session.public.features() if self.start == FirstRows.FEATURES else beliefs - 1 / beliefs.shape[1]
        start = unit_rows(features)
        last = session.release("hops", partial(messages, rows=start))
        # X_0 is public: what the last hop added of it tells nothing, and at large beta it would hide the rest.
        return unit_rows(last - self.beta * start)

    def _told(self, encoder: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        own, posteriors = super()._told(encoder, x)
        # Section 4.5: the head reads X_0 beside X_K. An encoder would only blur features that speak for themselves.
        return (unit_rows(x), posteriors) if self.start == FirstRows.FEATURES else (own, posteriors)

    def _head(self, features: int, classes: int) -> nn.Module:
        return Perceptron((2 * self.width(features, classes), self.head, classes), dropout=0.2)

    def width(self, features: int, classes: int) -> int:
        return features if self.start == FirstRows.FEATURES else classes

    def fit(self, session: Session) -> State:
        if session.plan.adjacency.unit is not Unit.NODE:
            return super().fit(session)
        width, state = session.public.num_features, {}
        if self.start == FirstRows.POSTERIORS:
            state["encoder"] = self._descend(session, "encoder", width, partial(_own_records, scale=self.scale))
        last = self._node_release(session, state)
        state["head"] = self._descend(session, "head", last.shape[1], partial(_released_records, rows=last))
        neutral = Scaling.fit(torch.zeros(1, width), self.scale).state()
        return {**state, **neutral, "logits": _node_logits(state, last)}

    def serve(self, session: Session, state: State) -> State:
        if session.plan.adjacency.unit is not Unit.NODE:
            return super().serve(session, state)
        return {**state, "logits": _node_logits(state, self._node_release(session, state))}

    def _node_release(self, session: Session, state: State) -> Tensor:
        """X_K with its beta X_0, [n, width of X_0]: at node level nothing else of X_0 may be told."""
        return session.release("hops", partial(_own_messages, encoder=state.get("encoder"), scale=self.scale))

    def _descend(
        self, session: Session, step: str, width: int, records: Callable[[Sealed], tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Softmax regression by noisy gradient descent (section 4.5), [width + 1, c]."""
        weights = torch.zeros(width + 1, session.public.num_classes)
        for _ in range(self.epochs):
            total = session.release(step, partial(_gradients, weights=weights, records=records))
            weights = weights - _RATE * total.reshape(weights.shape) / (_CLIP * int(session.public.train.sum()))
        return weights

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        # The published reading exists for tau = loops = 1 alone; the second and the last are for node level.
        posteriors = cls(hops=1, lipschitz=0.5, tau=1.0, loops=1.0, scale="rows")
        features = replace(posteriors, hops=4, lipschitz=0.8, alpha=0.9, beta=0.0, start="features")
        return (
            replace(posteriors, hidden=4, head=4, epochs=2),
            replace(features, most_degree=8, epochs=2, scale="none"),
            replace(features, hidden=4, head=4),
            replace(features, hops=1, hidden=4, head=4),
            replace(posteriors, most_degree=8, epochs=2),
        )


def _own_messages(sealed: Sealed, encoder: Tensor | None, scale: str) -> NeighbourSums:
    """Query at node level: X_0 is made of private features. Unit rows of P - 1/c, or of the features."""
    if encoder is None:
        return NeighbourSums(sealed.adj, unit_rows(sealed.x))
    posteriors = dense_logits([encoder], with_bias(sealed.x, scale)).softmax(dim=1)
    return NeighbourSums(sealed.adj, unit_rows(posteriors - 1 / posteriors.shape[1]))


def _own_records(sealed: Sealed, scale: str) -> tuple[Tensor, Tensor]:
    """Features [m, d + 1] and labels [m] of the training nodes."""
    return with_bias(sealed.x[sealed.public.train], scale), sealed.y[sealed.public.train]


def _released_records(sealed: Sealed, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Released rows [m, k + 1] and private labels [m] of the training nodes."""
    return with_bias(rows[sealed.public.train], Scale.ROWS), sealed.y[sealed.public.train]


def _gradients(sealed: Sealed, weights: Tensor, records: Callable[[Sealed], tuple[Tensor, Tensor]]) -> ExampleGradients:
    return dense_gradients([weights], *records(sealed))


def _node_logits(state: State, last: Tensor) -> Tensor:
    return dense_logits([state["head"]], with_bias(last, Scale.ROWS))


def _as_read(reading: Reading, claim: Curve) -> Curve:
    """The published accountant composes Renyi divergences (Theorem 6)."""
    return RenyiCurve(claim) if reading is Reading.PUBLISHED else claim


def printed_move(act: Contractive, least_degree: int) -> float:
    """Equation 6: sqrt(2) C_L alpha_1 (1/((D+1)(D+2)) + C(D)/sqrt(D+1) + 1/sqrt((D+2)(D+1))), D = `least_degree`."""
    first, second = least_degree + 1, least_degree + 2
    row = 1 / (first * second) + _shrunk(least_degree) / math.sqrt(first) + 1 / math.sqrt(first * second)
    return math.sqrt(2) * act.lipschitz * act.alpha * row


def printed_node_move(act: Contractive, least_degree: int, most_degree: int, nodes: int) -> float:
    """Equation 8: 1 + alpha_2 C_L 2n/(n+1) + alpha_1 C_L (sqrt(H)/((D+1)(D+2)) + C(D) sqrt(H/(D+1)) + 1/sqrt(D+2)).

    D is `least_degree`, H is `most_degree`, n is `nodes`.
    """
    first, second, hub = least_degree + 1, least_degree + 2, math.sqrt(most_degree)
    graph = hub / (first * second) + _shrunk(least_degree) * hub / math.sqrt(first) + 1 / math.sqrt(second)
    return 1 + act.lipschitz * ((1 - act.alpha) * 2 * nodes / (nodes + 1) + act.alpha * graph)


def _shrunk(least_degree: int) -> float:
    """C(D) = D' (1/sqrt(D'+1) - 1/sqrt(D'+2)) with D' = max(D, 3) (equation 7)."""
    knee = max(least_degree, 3)
    return knee / math.sqrt(knee + 1) - knee / math.sqrt(knee + 2)
