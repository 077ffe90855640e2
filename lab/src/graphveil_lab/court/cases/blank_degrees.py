"""HeterPoisson's degrees are counted in a graph in which an id is blank, and called public."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.graph import Graph
from graphveil.methods.node.paircounts import PairCounts
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Floats, Plan, Reading, Unit
from graphveil_lab.court.case import Case

_PAIRS = 600
_NOISE = 16.0
_NODE = Adjacency.of(Unit.NODE)


@dataclass(frozen=True, eq=False)
class BlankDegrees(Case):
    """A neighbour stays in a subgraph with probability 1 / degree, and a hub changes the degrees of all its neighbours.

    HeterPoisson calls degrees public: those with every id present. Who counts them in the graph at hand counts private
    facts if an id may be blank in it. 600 pairs of partners all know a hub. With the hub a partner has degree 2 and is
    heard half of the time, without it always: the noisy count of pairs of labels falls by some 150 of 300, where one
    record is charged, who moves it by a few. The library charges this plan where the data holder says that every id is
    present, and the statement is on the certificate; who has blank ids states bounds on degrees instead
    (docs/methods/heterpoisson.md).
    """

    name: str = "blank-degrees"
    claim: str = "degrees may be counted in the graph at hand, though one of its ids may be blank"
    source: str = "HeterPoisson (S&P 2024) without its fixed population; graphveil before it asked who is present"
    delta: float = 0.05
    runs: int = 150
    quick: int = 60

    def claimed(self) -> float:
        return accounting.epsilon(_plan(_pair().graph), self.delta)

    def play(self, runs: int, seed: int) -> Scores:
        pair = _pair()
        blank = replace(pair.graph, x=pair.x, y=pair.y, adj=pair.adj)
        drawn = np.random.default_rng(seed).integers(2**62, size=(2, runs))
        # With the hub fewer pairs are heard.
        return Scores(-_pairs_told(pair.graph, drawn[0]), -_pairs_told(blank, drawn[1]))


def _pair() -> Pair:
    """A hub of all partners, present or blank."""
    leaves = range(1, 2 * _PAIRS + 1)
    edges = [*((0, leaf) for leaf in leaves), *((leaf, leaf + 1) for leaf in leaves[::2])]
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2 * _PAIRS + 1, 2)).astype(np.float32))
    return Pair.without_node(small_graph(edges, x, torch.arange(len(x)) % 2), 0)


def _plan(graph: Graph) -> Plan:
    return PairCounts().plan(graph.seal(_NODE)[0], _NODE, Reading.SOUND, _NOISE)


def _pairs_told(graph: Graph, seeds: Floats) -> Floats:
    """How many pairs of labels each run counts; degrees are those of `graph`, [k]."""
    plan, (public, sealed) = _plan(graph), graph.seal(_NODE)
    states = (PairCounts().fit(Session(public, sealed, plan, Seeded(int(seed)))) for seed in seeds)
    return np.array([float(state["pairs.counts"].sum()) for state in states])
