"""What the non-private GNN baselines share: expose everything, train a stack of layers, keep the logits."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from graphveil.core import Adjacency, Plan, Reading, State, Unit
from graphveil.graph.arcs import Csr
from graphveil.graph.sealing import Public
from graphveil.mechanisms.exposed import exposing_plan
from graphveil.methods.bases.network import Network
from graphveil.nn.aggregate import Operator
from graphveil.nn.features import Scaling
from graphveil.nn.fit import Part, Recipe, fit
from graphveil.nn.gnn import Stack
from graphveil.nn.mlp import restore, with_prefix
from graphveil.privacy.session import Session

_PARTS = frozenset({"x", "y", "edges"})


@dataclass(frozen=True)
class ExposedGnn(Network):
    """A GNN baseline: epsilon is infinite under every unit. Subclasses name the layer and its operator."""

    units = frozenset(Unit)
    layer: ClassVar[type[nn.Module]]

    @abstractmethod
    def operator(self, adj: Csr) -> Operator:
        """The sparse product of every layer."""

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return exposing_plan(adjacency, reading, _PARTS)

    def fit(self, session: Session) -> State:
        x, y, operator = expose(session, "x"), expose(session, "y"), self.operator(self.arcs(session))
        scaling = Scaling.fit(x, self.scale)
        x = scaling(x)
        stack = self._stack(x.shape[1], session.public.num_classes)
        recipe = Recipe(self.epochs, self.learning_rate, self.weight_decay)
        train, val = (mask & (y >= 0) for mask in (session.public.train, session.public.val))
        fit(
            stack,
            Part(lambda: stack(x, operator)[train], y[train]),
            Part(lambda: stack(x, operator)[val], y[val]),
            recipe,
        )
        return {**with_prefix("net.", stack.state_dict()), **scaling.state(), "logits": _logits(stack, x, operator)}

    def serve(self, session: Session, state: State) -> State:
        x, operator = Scaling.restore(state, self.scale)(expose(session, "x")), self.operator(self.arcs(session))
        stack = restore(self._stack(x.shape[1], session.public.num_classes), state, "net.")
        return {**state, "logits": _logits(stack, x, operator)}

    def arcs(self, session: Session) -> Csr:
        """The arcs that the layers read: all of them, as they are."""
        sources, targets = expose(session, "edges").numpy()
        return Csr.from_edge_index(sources, targets, session.public.num_nodes)

    def _stack(self, width: int, classes: int) -> Stack:
        return Stack(self.layer, (width, *[self.hidden] * (self.layers - 1), classes), self.dropout)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(hidden=4, epochs=2),)


def _logits(stack: nn.Module, x: Tensor, operator: Operator) -> Tensor:
    with torch.no_grad():
        scores: Tensor = stack(x, operator)
    return scores


def expose(session: Session, part: str) -> Tensor:
    """A part of the graph: from the public side if it is there, else exposed. Edges come as [2, m]."""
    private = part in session.plan.adjacency.private
    if part == "edges":
        return (
            session.release("expose", lambda sealed: sealed.adj.edge_index())
            if private
            else session.public.arcs().edge_index()
        )
    if part == "x":
        return session.release("expose", lambda sealed: sealed.x) if private else session.public.features()
    return session.release("expose", lambda sealed: sealed.y) if private else session.public.labels()
