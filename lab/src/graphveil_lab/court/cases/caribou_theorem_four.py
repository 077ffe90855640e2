"""CARIBOU's edge sensitivity reads the least degree of the private graph (Zheng et al. 2025, Theorem 4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.mechanisms.contractive import Contractive, telling_direction
from graphveil.methods.edge.caribou import Caribou
from graphveil.methods.edge.parts.edge_method import messages
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Unit
from graphveil_lab.court.case import Played, game_of


@dataclass(frozen=True, eq=False)
class CaribouTheoremFour(Played):
    """The neighbour that lacks an edge may have a smaller least degree than the graph whose least degree is charged.

    The proof takes an edge more and the least degree of the graph without it, at least 1; for such pairs equation 6
    holds as far as we know. The theorem is stated for edges added or removed, and noise follows the graph at hand.
    In a graph of least degree 1 two nodes whose only edge is their own lose it: their rows of A_hat X move from the
    mean of both to their own, sqrt(2) C_L alpha_1 in all if they are opposite. Equation 6 prints 0.9714 C_L alpha_1 for
    D_min = 1, so that the true mu is 1.456 times the claimed one. The claim is Renyi's, which is loose at large deltas:
    at delta 0.1 it reads 1.70 for mu = 1, and the truth is 2.23.
    """

    name: str = "caribou-theorem-4"
    claim: str = "an edge more or less moves a hop of a graph of least degree 1 by 0.9714 C_L alpha_1 at most"
    source: str = "CARIBOU (2025), Theorem 4 as stated (Definition 2: added or removed) and equation 6"
    delta: float = 0.1
    runs: int = 30_000
    quick: int = 9000

    def game(self) -> Game:
        """Two opposite nodes that are joined, or not."""
        graph = small_graph([(0, 1)], torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1]))
        method = Caribou(hops=1, lipschitz=0.5, tau=1.0, loops=1.0, start="features")
        # The printed move of a hop is 0.4857: as much noise makes mu = 1.
        return game_of(Pair.without_edge(graph, 0, 1), method, Unit.EDGE, noise=0.4857)

    def play(self, runs: int, seed: int) -> Scores:
        """The act of the plan alone, scored by its telling direction: for one hop that is the most powerful test."""
        game, source = self.game(), Seeded(seed)
        act = game.plan.step("hops").act
        assert isinstance(act, Contractive)
        _, here, there = game.pair.worlds(game.plan.adjacency)
        ask = partial(messages, rows=game.pair.graph.x)
        with here.opened(), there.opened():
            direction = telling_direction(act, ask(there), ask(here))
            log_ratios = [
                np.array([float((act.apply(world, ask, source) * direction).sum()) for _ in range(runs)])
                for world in (here, there)
            ]
        return Scores(log_ratios[0], log_ratios[1])
