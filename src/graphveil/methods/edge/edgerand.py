"""EdgeRand of DPGCN (Wu, Long, Zhang & Li: LinkTeller, 2022): randomised response on every pair, edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from graphveil.checks import require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.flipped_edges import FlippedEdges, asked, row_starts
from graphveil.methods.edge.parts.released_graph import ReleasedGraph, graph_of
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, Step


@dataclass(frozen=True)
class EdgeRand(ReleasedGraph):
    """Every pair tells whether it is an edge and lies with probability 1 / (1 + e^epsilon), epsilon = 1 / noise."""

    subtitle = "randomised response on every pair of nodes"

    most: int = 2_000_000
    """Lies that are expected at most, at least 1: where there would be more, a public share of all yeses is kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "most")
        if self.most < 1:
            raise InvalidInput(f"edgerand needs most of at least 1, got {self.most}")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        self.admit(public)
        act = FlippedEdges(1 / noise if noise > 0 else math.inf, adjacency.undirected)
        return Plan(adjacency, reading, (Step("flips", act, act.curve(1), 1, why="docs/methods/edgerand.md"),))

    def arcs(self, session: Session) -> Csr:
        """The arcs of the flipped graph."""
        act = session.plan.act("flips", FlippedEdges)
        nodes = session.public.num_nodes
        share = self.share(act, int(row_starts(nodes, act.undirected)[-1]))
        return graph_of(session.release("flips", partial(asked, share=share)), nodes, act.undirected)

    def share(self, act: FlippedEdges, pairs: int) -> float:
        """The share of yeses that is kept: 1 where at most `most` lies are expected. Public: it reads n and epsilon."""
        lies = act.chances(1.0)[1] * pairs
        return 1.0 if lies <= self.most else self.most / lies

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, epochs=2)
        return small, replace(small, network="sage", most=5)
