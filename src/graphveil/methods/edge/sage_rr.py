"""GraphSAGE on a graph that went through asymmetric randomised response, edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Self

from graphveil.checks import parse, require_positive
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.flipped_edges import FlippedEdges, asked, counted, row_starts
from graphveil.mechanisms.laplace import Laplace
from graphveil.methods.baseline.sage import Sage
from graphveil.methods.edge.parts.released_graph import graph_of
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, Step, Unit

_BOTH_ARCS = (
    "an undirected edge is two entries of the adjacency matrix, and each answers for itself and is counted: a "
    "neighbour changes two answers and moves the count by 2, so the truth is twice the charge"
)


class Answers(StrEnum):
    """Who answers in an undirected graph."""

    EDGES = "edges"
    ARCS = "arcs"


@dataclass(frozen=True)
class SageRr(Sage):
    """A noisy number of edges, then a flipped graph of a multiple of them; SAGE trains on that graph.

    The whole budget is 1 / noise: a share for the number (Laplace), the rest for every pair's answer.
    """

    subtitle = "GraphSAGE on a graph released by randomised response"
    units = frozenset({Unit.EDGE})

    growth: float = 4.0
    """Expected arcs of the flipped graph for every arc that was counted, above 0."""
    count_share: float = 0.01
    """Of the budget, what the number of edges gets, strictly between 0 and 1; the answers get the rest."""
    answers: Annotated[str, Answers] = "edges"
    """Who answers in an undirected graph: every edge once, or each of its two arcs for itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self.growth, "growth")
        if not 0 < self.count_share < 1:
            raise InvalidInput(f"count_share must lie strictly between 0 and 1, got {self.count_share}")
        parse(Answers, self.answers, "answers")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        if not adjacency.undirected:
            self.require_default("answers", unless="an undirected graph", error=Unsupported)
        whole = 1 / noise if noise > 0 else math.inf
        twice = adjacency.undirected and self.answers == Answers.ARCS
        count = Laplace(scale=noise / self.count_share)
        flips = FlippedEdges((1 - self.count_share) * whole, undirected=adjacency.undirected and not twice)
        moved = 2 if twice and reading is Reading.SOUND else 1
        refuted = _BOTH_ARCS if twice and reading is Reading.PUBLISHED else ""
        why = "docs/methods/sage_rr.md"
        return Plan(
            adjacency,
            reading,
            (
                Step("count", count, count.curve(moved), 1, why=why, refuted=refuted),
                Step("flips", flips, flips.curve(moved), 1, why=why, refuted=refuted),
            ),
        )

    def arcs(self, session: Session) -> Csr:
        """The arcs of the flipped graph."""
        act = session.plan.act("flips", FlippedEdges)
        nodes = session.public.num_nodes
        edges = float(session.release("count", partial(counted, undirected=act.undirected)))
        share = act.share(int(row_starts(nodes, act.undirected)[-1]), edges, self.growth * edges)
        return graph_of(session.release("flips", partial(asked, share=share)), nodes, act.undirected)

    @classmethod
    def name(cls) -> str:
        return "sage_rr"

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(hidden=4, epochs=2), cls(hidden=4, epochs=2, growth=3.0, answers="arcs")
