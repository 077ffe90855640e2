"""Sound claims of ours in court: every method, for every unit of which its sound plan says something finite.

Small graphs on which one unit moves a release as far as it can: two nodes with no other edge that are joined; a node
with large features and the only label of its class, once between two others and once as the hub of all; a node that is
replaced by its opposite.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from graphveil.auditing.bounds import Scores, finding
from graphveil.auditing.game import Game, Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.graph import Graph
from graphveil.errors import GraphveilError
from graphveil.methods.method import METHODS, Method
from graphveil.methods.node.parts.subgraph_method import SubgraphMethod
from graphveil.nn.own_network import OwnNetwork
from graphveil.privacy import accounting
from graphveil.release.audit_result import AuditResult
from graphveil.vocabulary import Adjacency, Mechanism, Plan, Reading, Unit
from graphveil_lab.court.case import Case, Played
from graphveil_lab.court.stronger import strong_pairs, stronger

DELTAS = 0.4, 0.05
"""A claim is a curve. A few hundred runs tell half of the noise from all of it at the first, and rarer leaks at the
second."""
MAX = 1.6
"""The noise grows until a claim costs no more at the first delta: a Gaussian then moves by 1.4 to 2 deviations."""
_NOISES = tuple(math.exp2(half / 2) for half in range(-4, 24))
"""A claim that does not fall with the noise is heard with the last."""
_NODES, _CROWD, _FEATURES, _CLASSES = 12, 24, 4, 3
_RUNS, _FEWER, _OWN, _QUICK = 1000, 200, 100, 8
"""How often a graph is released; networks of one's own are the slowest. Where time is short, one case of every method
and unit is heard."""
_SLOW = frozenset({"drw", "heterpoisson", "lpgnet", "ndp", "paircounts", "pate", "privgnn", "probe", "progap"})
"""Methods of which a specimen takes 10 ms a run or more: they get fewer."""
_MORE = {
    "heterpoisson-node": 800,
    "heterpoisson-node-3": 3200,
    "heterpoisson-node-5": 500,
    "lpgnet-edge-2": 700,
    "ndp-node-5": 400,
    "ndp-node-7": 300,
    "pate-node-3": 400,
    "privgnn-node": 1000,
    "privgnn-node-3": 500,
    "privgraph-edge": 3000,
}
"""Cases that fewer runs do not tell from half of the noise."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SoundClaim(Played):
    """The sound claim of a method for a pair of graphs; expected to stand."""

    method: Method
    adjacency: Adjacency
    pair: Pair

    @cached_property
    def plan(self) -> Plan:
        """The sound plan with the least noise that costs `MAX` or less."""
        return self._plan(self.noise)

    @cached_property
    def noise(self) -> float:
        """The first of 2^-2, 2^-1.5, 2^-1, ... that costs `MAX` or less: calibration would be slow."""
        # Claims fall with the noise, and are found by halving: those with little noise take long to compose.
        first = bisect_left(_NOISES, -MAX, key=lambda noise: -accounting.epsilon(self._plan(noise), DELTAS[0]))
        return _NOISES[min(first, len(_NOISES) - 1)]

    def _plan(self, noise: float) -> Plan:
        return self.method.plan(self.pair.worlds(self.adjacency)[0], self.adjacency, Reading.SOUND, noise)

    def game(self) -> Game:
        return Game(self.pair, self.method, self.plan)

    def with_less_noise(self, share: float) -> Game:
        """The game of a plan that draws this share of the noise that it charges for: what a court must catch."""
        steps = tuple(replace(step, act=drawing(step.act, share)) for step in self.plan.steps)
        return Game(self.pair, self.method, replace(self.plan, steps=steps))

    def judge(self, scores: Scores, confidence: float) -> AuditResult:
        """At each of `DELTAS`, which share the chance of an error: the finding that comes nearest to a refutation."""
        shared = 1 - (1 - confidence) / len(DELTAS)
        found = [finding(self.name, scores, accounting.epsilon(self.plan, delta), delta, shared) for delta in DELTAS]
        return max(found, key=lambda one: one.lower - one.claimed)


def drawing(act: Mechanism, share: float) -> Mechanism:
    """The mechanism with this share of its noise and nothing else changed; an answer's own epsilon grows instead."""
    name = next(each for each in ("inner", "std", "scale", "epsilon") if hasattr(act, each))
    held = getattr(act, name)
    less = drawing(held, share) if name == "inner" else held / share if name == "epsilon" else held * share
    return replace(act, **{name: less})  # type: ignore[type-var]


def upheld() -> Iterator[Case]:
    """One case per specimen of every method, unit and pair."""
    for kind in METHODS.ours().values():
        for unit in sorted(kind.units):
            adjacency = Adjacency.of(unit)
            made = 0
            for method in map(stronger, (*kind.specimens(), *_with_own_network(kind))):
                for pair in _pairs_of(method, unit):
                    proof = _proof(method, adjacency, pair)
                    if not proof:
                        continue
                    made += 1
                    name = f"{method.name()}-{unit.value}" + (f"-{made}" if made > 1 else "")
                    yield SoundClaim(
                        name=name,
                        claim=f"{method.name()} hides {pair.what}",
                        source=proof,
                        delta=DELTAS[0],
                        runs=_runs(method, name),
                        quick=_QUICK if made == 1 else 0,
                        expected="consistent",
                        method=method,
                        adjacency=adjacency,
                        pair=pair,
                    )


def _pairs_of(method: Method, unit: Unit) -> tuple[Pair, ...]:
    """As many as the unit has; the method's own take the place of the first."""
    own = strong_pairs(method, unit)
    return *own, *pairs(unit)[len(own) :]


def _with_own_network(kind: type[Method]) -> tuple[Method, ...]:
    """A method on subgraphs with a module that is not ours: its gradients take another way to the noise."""
    if not issubclass(kind, SubgraphMethod):
        return ()
    first = kind.specimens()[0]
    return (replace(first, network=OwnNetwork.of(Linear), hidden=kind.hidden, activation=kind.activation),)


class Linear(nn.Module):
    """Softmax regression on the mean of a subgraph's features, as somebody else might write it."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.dense = nn.Linear(features, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:  # noqa: ARG002
        """A row for every subgraph of the batch, [k, c]."""
        count = int(batch.max()) + 1
        sums = torch.zeros(count, x.shape[1], dtype=x.dtype).index_add(0, batch, x)
        sizes = torch.zeros(count, dtype=x.dtype).index_add(0, batch, torch.ones_like(x[:, 0]))
        logits: Tensor = self.dense(sums / sizes[:, None])
        return logits


def _runs(method: Method, name: str) -> int:
    """By what a run costs, as measured once: no case looks at its results before it ends."""
    if name in _MORE:
        return _MORE[name]
    if isinstance(method, SubgraphMethod) and isinstance(method.network, OwnNetwork):
        return _OWN
    return _FEWER if method.name() in _SLOW else _RUNS


def _proof(method: Method, adjacency: Adjacency, pair: Pair) -> str:
    """Where the sound claim is proven; empty if there is none, or nothing is asked of private data."""
    try:
        plan = method.plan(pair.worlds(adjacency)[0], adjacency, Reading.SOUND, 1.0)
    except GraphveilError:
        return ""
    finite = not any(step.claim.infinite for step in plan.steps)
    return ", ".join(dict.fromkeys(step.why for step in plan.steps)) if finite else ""


@lru_cache
def pairs(unit: Unit) -> tuple[Pair, ...]:
    """Neighbouring graphs of one or two dozen nodes on which one unit moves a release as far as it can."""
    if unit is Unit.EDGE:
        crowd = _graph([(0, 1), *_crowd()], _features(_CROWD))
        return (replace(Pair.without_edge(crowd, 0, 1), what="the only edge of two nodes"),)
    between = _graph([(0, 1), (0, 2), *_ring(2)], _features(_NODES))
    if unit is Unit.NODE:
        hub = _graph([*((0, other) for other in range(1, _NODES)), *_ring(2)], _features(_NODES))
        return (
            replace(Pair.without_node(between, 0), what="a node between two others"),
            replace(Pair.without_node(hub, 0), what="a hub of all others"),
        )
    label = replace(Pair.with_other(between, 0, between.x[0], 0), what="the label of a node")
    if unit is Unit.LABEL:
        return (label,)
    return replace(Pair.with_other(between, 0, -between.x[0], 0), what="what a node is"), label


def _features(count: int) -> Tensor:
    """Random rows, [count, d], of which the first is ten times as long, and the second its opposite."""
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((count, _FEATURES)).astype(np.float32))
    x[0] *= 10
    x[1] = -x[0]
    return x


def _graph(edges: list[tuple[int, int]], x: Tensor) -> Graph:
    """Node 0 alone has class 2, the last three do not train, and strangers stand beside it."""
    y = torch.arange(len(x)) % 2
    y[0] = _CLASSES - 1
    train = torch.arange(len(x)) < len(x) - 3
    private = small_graph(edges, x, y).with_split(train, torch.zeros_like(train), ~train, "first nodes")
    return private.with_public(_strangers())


def _ring(first: int) -> list[tuple[int, int]]:
    return [(first, _NODES - 1), *((node, node + 1) for node in range(first, _NODES - 1))]


def _crowd() -> list[tuple[int, int]]:
    """Three in five of the pairs of the nodes 2, 3, ...: so many that a noisy number of edges is near the truth."""
    pairs_of = itertools.combinations(range(2, _CROWD), 2)
    coins = np.random.default_rng(0).random(_CROWD**2)
    return [(one, other) for one, other in pairs_of if coins[one * _CROWD + other] < 0.6]


@lru_cache
def _strangers() -> Graph:
    """A public ring, for methods that teach others."""
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((_NODES, _FEATURES)).astype(np.float32))
    return replace(small_graph(_ring(0), x, torch.arange(_NODES) % _CLASSES), name="strangers")
