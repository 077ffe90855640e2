"""A stack of message-passing layers, trained on arcs and rows that a subclass provides; keeps the logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphveil.data.arcs import Csr
from graphveil.methods.network import Network
from graphveil.nn.aggregate import Operator
from graphveil.nn.features import Scaling
from graphveil.nn.fit import Part, Recipe, fit
from graphveil.nn.gnn import Stack
from graphveil.nn.mlp import restore, with_prefix
from graphveil.privacy.session import Session
from graphveil.vocabulary import State


@dataclass(frozen=True)
class GraphNetwork(Network):
    """Knows nothing of privacy: what it reads has been released or is public, which subclasses see to and plan."""

    on_gpu = True

    @abstractmethod
    def layer(self) -> type[nn.Module]:
        """The kind of every layer."""

    @abstractmethod
    def operator(self, adj: Csr) -> Operator:
        """The sparse product of every layer."""

    @abstractmethod
    def arcs(self, session: Session) -> Csr:
        """The arcs that the layers read."""

    @abstractmethod
    def features(self, session: Session) -> Tensor:
        """The rows that the first layer reads, float32 [n, d]."""

    @abstractmethod
    def labels(self, session: Session) -> Tensor:
        """The labels that are learnt, int64 [n], -1 where there is none."""

    def fit(self, session: Session) -> State:
        x, y, arcs = self.features(session), self.labels(session), self.arcs(session)
        scaling = Scaling.fit(x, self.scale)
        x = scaling(x)
        stack = self.network_of(x.shape[1], session.public.num_classes).to(x.device)
        forward = self.forward(stack, x, arcs)
        recipe = Recipe(self.epochs, self.learning_rate, self.weight_decay, class_weight=self.class_weight)
        train, val = (mask & (y >= 0) for mask in (session.public.train, session.public.val))
        fit(
            stack,
            Part(lambda: forward()[train], y[train]),
            Part(lambda: forward()[val], y[val]),
            recipe,
            session.run.progress,
        )
        return {**with_prefix("net.", stack.state_dict()), **scaling.state(), "logits": _logits(forward)}

    def serve(self, session: Session, state: State) -> State:
        x, arcs = Scaling.restore(state, self.scale)(self.features(session)), self.arcs(session)
        stack = restore(self.network_of(x.shape[1], session.public.num_classes).to(x.device), state, "net.")
        return {**state, "logits": _logits(self.forward(stack, x, arcs))}

    def network_of(self, width: int, classes: int) -> nn.Module:
        """The network, with first weights."""
        return Stack(self.layer(), (width, *[self.hidden] * (self.layers - 1), classes), self.dropout)

    def forward(self, network: nn.Module, x: Tensor, arcs: Csr) -> Callable[[], Tensor]:
        """What gives the logits of all nodes, [n, c], as the network is by then. x: [n, d]."""
        operator = self.operator(arcs)
        return lambda: network(x, operator)


def _logits(forward: Callable[[], Tensor]) -> Tensor:
    with torch.no_grad():
        return forward()
