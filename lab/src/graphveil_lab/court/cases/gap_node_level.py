"""GAP at node level charges the rows that a node's messages reach, and not its own (Sajadmanesh et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch

from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.sealing import Public
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.edge.parts.edge_method import messages
from graphveil.methods.method import Method
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit
from graphveil_lab.court.case import Played, game_of

_DEGREE = 20


@dataclass(frozen=True)
class _NodeGap(Method):
    """One hop of GAP with a degree bound, charged as published: no method of ours makes this claim."""

    units = frozenset({Unit.NODE})

    bound: int = _DEGREE

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        act = Gaussian(noise)
        return Plan(adjacency, reading, (Step("hop", act, act.curve(math.sqrt(self.bound)), 1, why="GAP, Theorem 3"),))

    def fit(self, session: Session) -> State:
        # Public rows: what is told comes from the edges alone.
        rows = torch.ones(session.public.num_nodes, 1)
        return {"hop": session.release("hop", partial(messages, rows=rows))}


@dataclass(frozen=True, eq=False)
class GapNodeLevel(Played):
    """The node that leaves has a row of its own in the release, the sum of all it heard, and it is gone too.

    With at most D neighbours each way the published sensitivity is sqrt(D): one clip for every row that the node's
    messages reach. Its own row is D clips long if all neighbours say the same, so that the true one is sqrt(D^2 + D):
    20.5 instead of 4.5 for D = 20. No arc is dropped here, as no degree exceeds the bound; that dropping arcs is not
    stable either is another case.
    """

    name: str = "gap-node-level"
    claim: str = "with degrees of at most D a node moves the sum of a hop by sqrt(D) clips; D = 20"
    source: str = "GAP (USENIX Security 2023), node level"
    delta: float = 0.05
    runs: int = 1000
    quick: int = 100

    def game(self) -> Game:
        """A star, with and without its hub."""
        count = _DEGREE + 1
        graph = small_graph([(0, leaf) for leaf in range(1, count)], torch.ones(count, 1), torch.arange(count) % 2)
        # As much noise as the claimed move: mu = 1 is claimed.
        return game_of(Pair.without_node(graph, 0), _NodeGap(), Unit.NODE, noise=math.sqrt(_DEGREE))
