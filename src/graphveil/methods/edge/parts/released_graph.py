"""Any released graph as the input of any message-passing network: training on it is post-processing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Self

from torch import Tensor, nn

from graphveil.checks import parse
from graphveil.data.arcs import Csr, arcs_of
from graphveil.data.sealing import Public
from graphveil.methods.graph_network import GraphNetwork
from graphveil.nn.aggregate import Operator
from graphveil.nn.gnn import (
    GcnLayer,
    GinLayer,
    SageLayer,
    first_order_operator,
    mean_operator,
    sum_operator,
    symmetric_operator,
)
from graphveil.nn.module_checks import require_rows
from graphveil.nn.own_network import OwnNetwork, arguments, inputs_of
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit


class Backbone(StrEnum):
    """The network that reads the released graph."""

    GCN = "gcn"
    FIRST_ORDER = "first_order"
    SAGE = "sage"
    GIN = "gin"


_PARTS: dict[Backbone, tuple[type[nn.Module], Callable[[Csr], Operator]]] = {
    Backbone.GCN: (GcnLayer, symmetric_operator),
    Backbone.FIRST_ORDER: (GcnLayer, first_order_operator),
    Backbone.SAGE: (SageLayer, mean_operator),
    Backbone.GIN: (GinLayer, sum_operator),
}


@dataclass(frozen=True)
class ReleasedGraph(GraphNetwork):
    """Edge level: a subclass plans and makes the release (`arcs`), and `network` trains on it.

    Features and labels are public, and the released graph may be read as often as one likes.
    """

    units = frozenset({Unit.EDGE})

    network: Annotated[str | OwnNetwork, Backbone] = "gcn"
    """What trains on the released graph; first_order is a GCN with I + D^-1/2 A D^-1/2. Or an `OwnNetwork`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.network, OwnNetwork):
            unless = "a built-in network: an own one has settings of its own"
            self.require_default("hidden", "layers", "dropout", unless=unless)
        else:
            parse(Backbone, self.network, "network")

    @abstractmethod
    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        """What the release costs."""

    @abstractmethod
    def arcs(self, session: Session) -> Csr:
        """The arcs of the released graph."""

    def require_graph(self) -> None:
        """Refuse settings under which no graph is released, and weights of labels that nobody reads here."""
        self.require_default("class_weight", unless="a training: the graph is released without one")

    def layer(self) -> type[nn.Module]:
        return _PARTS[Backbone(str(self.network))][0]

    def operator(self, adj: Csr) -> Operator:
        return _PARTS[Backbone(str(self.network))][1](adj)

    def admit(self, public: Public) -> None:
        """Refuse an own network that gives no row for every node, before anything is released."""
        if isinstance(self.network, OwnNetwork):
            require_rows(self.network, public.num_features, public.num_classes)

    def network_of(self, width: int, classes: int) -> nn.Module:
        own = self.network
        return own.module(width, classes) if isinstance(own, OwnNetwork) else super().network_of(width, classes)

    def forward(self, network: nn.Module, x: Tensor, arcs: Csr) -> Callable[[], Tensor]:
        if not isinstance(self.network, OwnNetwork):
            return super().forward(network, x, arcs)
        return partial(network, *arguments(inputs_of(network), x, arcs.edge_index().to(x.device)))

    def features(self, session: Session) -> Tensor:
        return session.public.features()

    def labels(self, session: Session) -> Tensor:
        return session.public.labels()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(hidden=4, epochs=2),)


def graph_of(pairs: Tensor, num_nodes: int, undirected: bool) -> Csr:
    """Released pairs (sources, targets), int64 [2, k], as arcs; an undirected pair gives both."""
    sources, targets = pairs.cpu().numpy()
    listed = arcs_of(sources, targets, num_nodes, "released pair")
    return (listed.both_ways() if undirected else listed).pack()
