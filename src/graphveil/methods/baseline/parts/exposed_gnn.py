"""What the non-private GNN baselines share: everything is exposed, and a network trains on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.mechanisms.unprotected import exposing_plan
from graphveil.methods.graph_network import GraphNetwork
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit

_PARTS = frozenset({"x", "y", "edges"})


@dataclass(frozen=True)
class ExposedGnn(GraphNetwork):
    """A GNN baseline: epsilon is infinite under every unit. Subclasses name the layer and its operator."""

    units = frozenset(Unit)

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return exposing_plan(adjacency, reading, _PARTS)

    def arcs(self, session: Session) -> Csr:
        """All of them, as they are."""
        sources, targets = expose(session, "edges").cpu().numpy()
        return Csr.from_edge_index(sources, targets, session.public.num_nodes)

    def features(self, session: Session) -> Tensor:
        return expose(session, "x")

    def labels(self, session: Session) -> Tensor:
        return expose(session, "y")

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(hidden=4, epochs=2),)


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
