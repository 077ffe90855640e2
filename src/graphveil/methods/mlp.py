"""A perceptron that never reads an edge: epsilon 0 at edge level, the floor every edge-level method must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from graphveil.core import Adjacency, Plan, Reading, Unit
from graphveil.graph import Public
from graphveil.mechanisms.exposed import expose, exposing_plan
from graphveil.method import Method, Serves, State
from graphveil.nn.features import scaled
from graphveil.nn.fit import Recipe, fit_rows
from graphveil.nn.mlp import Perceptron
from graphveil.session import Session


@dataclass(frozen=True)
class Mlp(Method):
    """relu(X W1) W2. Under EDGE the plan is empty; under any other unit it exposes features and labels."""

    units = frozenset(Unit)
    serves = Serves.OWN_FEATURES

    hidden: int = 64
    layers: int = 2
    dropout: float = 0.5
    epochs: int = 300
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    scale: str = "rows"

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return exposing_plan(adjacency, reading, frozenset({"x", "y"}))

    def fit(self, session: Session) -> State:
        x, y = scaled(expose(session, "x"), self.scale, public=True), expose(session, "y")
        net = self._net(x.shape[1], session.public.num_classes)
        recipe = Recipe(self.epochs, self.learning_rate, self.weight_decay)
        fit_rows(net, x, y, session.public.train, session.public.val, recipe)
        return net.state_dict()

    def logits(self, state: State, x: Tensor) -> Tensor:
        classes = state[f"layers.{self.layers - 1}.bias"].shape[0]
        net = self._net(x.shape[1], classes)
        net.load_state_dict(state)
        with torch.no_grad():
            scores: Tensor = net.eval()(scaled(x, self.scale, public=True))
        return scores

    def _net(self, width: int, classes: int) -> Perceptron:
        return Perceptron((width, *[self.hidden] * (self.layers - 1), classes), self.dropout)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(hidden=4, epochs=2),)
