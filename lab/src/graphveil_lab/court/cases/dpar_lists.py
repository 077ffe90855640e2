"""DPAR's noisy gradients charge the row of a node, and not the rows whose lists name it (Zhang et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.sealing import Public, Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.method import Method
from graphveil.nn.clipping import ExampleGradients, dense_gradients
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit
from graphveil_lab.court.case import Played, game_of

_LISTED = 20
"""Rows, beside the node's own, whose lists name it."""
_LARGE = 100.0


@dataclass(frozen=True)
class _DparStep(Method):
    """One step of DPAR's training after its lists were released, charged as its program does: no method of ours."""

    units = frozenset({Unit.NODE})

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        act = Gaussian(noise)
        return Plan(
            adjacency, reading, (Step("gradient", act, act.curve(1), 1, why="DPAR, as its program charges it"),)
        )

    def fit(self, session: Session) -> State:
        weights = released_lists(session.public.num_nodes)
        return {"gradient": session.release("gradient", partial(_gradients, weights=weights))}


def released_lists(count: int) -> Tensor:
    """Every node lists itself and node 0; entries of a column add up to 1, as in the program, [n, n]."""
    lists = torch.eye(count)
    lists[:, 0] = 1.0
    return lists / lists.sum(dim=0)


def _gradients(sealed: Sealed, weights: Tensor) -> ExampleGradients:
    """Query: gradients of all rows at the output layer, which is 0; the first layer is the identity.

    There the gradient at the first layer is 0, so that this is the whole gradient of a row.
    """
    return dense_gradients([torch.zeros(sealed.x.shape[1], 2)], weights @ sealed.x.relu(), sealed.y)


@dataclass(frozen=True, eq=False)
class DparLists(Played):
    """The features of a node are in the gradients of all rows that list it, and each of them is clipped by itself.

    DPAR releases a list of nodes with weights for every node, and then trains on rows that add up what a network says
    of the listed nodes. Its program divides each column of weights by its sum, clips the gradient of every row to C,
    and charges a Gaussian that one clip moves. That a column sums to 1 bounds no gradient: features have no bound, and
    clipping makes all 20 rows that list a large node equally long. Here they move the sum by 23.7 clips where 1 is
    charged. Noisy lists may name any node, so the charge must hold for these. It is a case about the authors' public
    program: of the paper itself no more than the abstract was at hand.
    """

    name: str = "dpar-lists"
    claim: str = "a node moves the sum of clipped gradients by one clip, whoever lists it; 20 rows do"
    source: str = "DPAR (WWW 2024), as its program computes gradients and charges them"
    delta: float = 0.05
    runs: int = 1000
    quick: int = 100

    def game(self) -> Game:
        """Twenty nodes that list node 0, with and without it."""
        x = torch.tensor([[0.0, 1.0]]).repeat(_LISTED + 1, 1)
        x[0] = torch.tensor([_LARGE * (_LISTED + 1), 0.0])
        y = torch.zeros(_LISTED + 1, dtype=torch.int64)
        y[0] = 1
        graph = small_graph([(0, leaf) for leaf in range(1, _LISTED + 1)], x, y)
        return game_of(Pair.without_node(graph, 0), _DparStep(), Unit.NODE, noise=1.0)
