"""LapGraph of DPGCN (Wu, Long, Zhang & Li: LinkTeller, 2022): the largest of all noisy pairs, edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.flipped_edges import counted
from graphveil.mechanisms.laplace import Laplace
from graphveil.mechanisms.top_pairs import Ranked, TopPairs
from graphveil.methods.edge.parts.released_graph import ReleasedGraph, graph_of
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, Step


@dataclass(frozen=True)
class LapGraph(ReleasedGraph):
    """E~ = floor(edges + Laplace), then the E~ pairs with the largest A_ij + Laplace; a network trains on them.

    The whole budget is 1 / noise.
    """

    subtitle = "graph of the pairs with largest noisy values"

    count_share: float = 0.01
    """Of the budget, what the number of edges gets, strictly between 0 and 1; the pairs get the rest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.count_share < 1:
            raise InvalidInput(f"count_share must lie strictly between 0 and 1, got {self.count_share}")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        self.admit(public)
        count = Laplace(scale=noise / self.count_share)
        top = TopPairs(noise / (1 - self.count_share), adjacency.undirected)
        why = "docs/methods/lapgraph.md"
        return Plan(
            adjacency,
            reading,
            (Step("count", count, count.curve(1), 1, why=why), Step("top", top, top.curve(1), 1, why=why)),
        )

    def arcs(self, session: Session) -> Csr:
        """The arcs of the released graph."""
        act = session.plan.act("top", TopPairs)
        edges = math.floor(float(session.release("count", partial(counted, undirected=act.undirected))))
        return graph_of(session.release("top", partial(ranked, count=edges)), session.public.num_nodes, act.undirected)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, epochs=2)
        return small, replace(small, network="gin", count_share=0.2)


def ranked(sealed: Sealed, count: int) -> Ranked:
    """Query: which pairs are edges, and how many to name, which was released before."""
    return Ranked(sealed.adj, count)
