"""Eclipse releases singular vectors without noise (Tang et al. 2024, Theorem 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.methods.edge.eclipse import Eclipse
from graphveil.vocabulary import Unit
from graphveil_lab.court.case import Played, game_of

_HUB, _NODES = 40, 60


@dataclass(frozen=True, eq=False)
class EclipseVectors(Played):
    """Theorem 1 charges the singular values alone: it supposes that neighbouring graphs have the same vectors.

    The authors name this premise and admit that it may fail (section 6.2.2); edges are said to be private all the same.
    It fails. A pendant node at a hub has an entry in the hub's vector, and a row of zeros once its only edge is
    gone; vectors leave without noise, so that the edge is read off with certainty. The bound grows with the logarithm
    of the runs and has no limit.
    """

    name: str = "eclipse-vectors"
    claim: str = "Algorithm 1, noise on the singular values alone, is edge-level (epsilon, delta)-DP"
    source: str = "Eclipse (2024), section 6.1 and Corollary 1, from Theorem 1 and its premise"
    delta: float = 1e-4
    runs: int = 500
    quick: int = 100

    def game(self) -> Game:
        """A hub with many leaves beside a ring; the last leaf has its edge, or not."""
        star = [(0, leaf) for leaf in range(1, _HUB + 1)]
        ring = [(node, node + 1) for node in range(_HUB + 1, _NODES - 1)] + [(_HUB + 1, _NODES - 1)]
        graph = small_graph(star + ring, torch.ones(_NODES, 1), torch.arange(_NODES) % 2)
        method = Eclipse(basis="singular", use="graph", rank=3, printed_delta=self.delta)
        return game_of(Pair.without_edge(graph, 0, _HUB), method, Unit.EDGE, noise=1.0)
