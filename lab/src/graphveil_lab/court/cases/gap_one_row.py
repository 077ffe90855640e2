"""GAP at edge level charges one row for an undirected edge (Sajadmanesh et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.methods.edge.gap import Gap
from graphveil.vocabulary import Unit
from graphveil_lab.court.case import Played, game_of


@dataclass(frozen=True, eq=False)
class GapOneRow(Played):
    """An undirected edge is two arcs into two different rows: both rows of A X move by one clip, the sum by sqrt(2).

    Claimed is mu = 1/noise, true is mu = sqrt(2)/noise, which every edge attains, whatever the features. At noise 1 and
    delta 0.3 the claim is 0.277 and the truth 0.936. At delta 1e-5 the claims 1, 2, 4, 8 are truly 1.465, 2.954, 5.992
    and 12.26, but that takes millions of runs to see.
    """

    name: str = "gap-one-row"
    claim: str = "one undirected edge moves the noisy sum of a hop by one clip"
    source: str = "GAP (USENIX Security 2023), edge level, as in its code"
    delta: float = 0.3
    runs: int = 3000
    quick: int = 1500

    def game(self) -> Game:
        """Two nodes that are joined, or not."""
        pair = Pair.without_edge(small_graph([(0, 1)], torch.eye(2), torch.tensor([0, 1])), 0, 1)
        return game_of(pair, Gap(epochs=1, hidden=2), Unit.EDGE, noise=1.0)
