"""A perceptron that never reads an edge: epsilon 0 at edge level, the floor every edge-level method must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.mechanisms.unprotected import exposing_plan
from graphveil.methods.baseline.parts.exposed_gnn import expose
from graphveil.methods.method import PredictionReads
from graphveil.methods.network import Network
from graphveil.nn.features import Scaling
from graphveil.nn.fit import Recipe, fit_rows
from graphveil.nn.mlp import Perceptron, ScaledScorer, restore, with_prefix
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Unit


@dataclass(frozen=True)
class Mlp(Network):
    """relu(X W1) W2. Under EDGE the plan is empty; under any other unit it exposes features and labels."""

    on_gpu = True

    subtitle = "perceptron on node features, without edges"
    units = frozenset(Unit)
    reads = PredictionReads.OWN_FEATURES

    hidden: int = 128
    epochs: int = 150
    input_dropout: float = 0.2
    """Share of the features that is silenced in training, in [0, 1)."""

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return exposing_plan(adjacency, reading, frozenset({"x", "y"}))

    def fit(self, session: Session) -> State:
        x, y, public = expose(session, "x"), expose(session, "y"), session.public
        scaling = Scaling.fit(x, self.scale)
        net = self._net(public.num_features, public.num_classes).to(x.device)
        recipe = Recipe(self.epochs, self.learning_rate, self.weight_decay, patience=20, class_weight=self.class_weight)
        fit_rows(net, scaling(x), y, public.train, public.val, recipe, session.run.progress)
        return {**with_prefix("net.", net.state_dict()), **scaling.state()}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:  # noqa: ARG002
        with torch.no_grad():
            scores: Tensor = self.scorer(state)(x)
        return scores

    def scorer(self, state: State) -> ScaledScorer:
        classes, features = state[f"net.layers.{self.layers - 1}.bias"].shape[0], len(state["scaling.shift"])
        shift = state["scaling.shift"]
        net = restore(self._net(features, classes).to(shift.device), state, "net.")
        return ScaledScorer(net, Scaling.restore(state, self.scale))

    def _net(self, width: int, classes: int) -> Perceptron:
        return Perceptron((width, *[self.hidden] * (self.layers - 1), classes), self.dropout, self.input_dropout)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(hidden=4, epochs=2),)
