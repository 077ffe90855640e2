"""CARIBOU's node sensitivity leaves out what the node itself brings (Zheng et al. 2025, Theorem 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.methods.edge.caribou import Caribou
from graphveil.vocabulary import Unit
from graphveil_lab.court.case import Played, game_of

_LEAVES = 20


@dataclass(frozen=True, eq=False)
class CaribouTheoremFive(Played):
    """A node that leaves takes its own beta X_0 with it, and the row of a hub is about sqrt(D/2) long, not 1.

    Equation 8 charges neither: moves of up to 12 times the printed one are known. Here a hub of degree 20 leaves at
    beta = 15, and its own row alone moves by more than 15 where about 3 is printed.
    """

    name: str = "caribou-theorem-5"
    claim: str = "a node moves a hop by what equation 8 says, whatever its beta X_0"
    source: str = "CARIBOU (2025), Theorem 5 and equation 8"
    delta: float = 0.1
    runs: int = 300
    quick: int = 100

    def game(self) -> Game:
        """A star, with and without its hub."""
        count = _LEAVES + 1
        # The leaves are joined in pairs, so that none of them has less than the least degree that is claimed.
        edges = [(0, leaf) for leaf in range(1, count)] + [(leaf, leaf + 1) for leaf in range(1, count, 2)]
        graph = small_graph(edges, torch.ones(count, 1), torch.arange(count) % 2)
        published = Caribou(hops=1, lipschitz=0.5, tau=1.0, loops=1.0, start="features", scale="none", epochs=1)
        method = replace(published, beta=15.0, most_degree=_LEAVES)
        return game_of(Pair.without_node(graph, 0), method, Unit.NODE, noise=6.0)
