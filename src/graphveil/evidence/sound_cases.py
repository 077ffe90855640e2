"""Sound claims of ours in court: every method, for every unit of which its sound plan says something finite.

Small graphs on which one unit moves a release as far as it can: two nodes with no other edge that are joined; a node
with large features and the only label of its class, once between two others and once as the hub of all; a node that is
replaced by its opposite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch

from graphveil import discover
from graphveil.core import Adjacency, GraphveilError, Plan, Reading, Unit
from graphveil.evidence.case import Case, Played, small_graph
from graphveil.evidence.game import Game, Pair
from graphveil.graph.graph import Graph
from graphveil.methods.bases.method import Method
from graphveil.privacy import accounting

MOST, DELTA = 2.0, 0.05
"""The noise doubles until a claim costs no more. A claim is a curve; at such a delta a few hundred runs tell most."""
_DOUBLINGS = 12
"""A claim that does not fall with the noise is heard as it is."""
_NODES, _FEATURES, _CLASSES = 12, 4, 3
_RUNS, _QUICK = 200, 8
"""Where time is short, one case of every method and unit is heard."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Upheld(Played):
    """The sound claim of a method for a pair of graphs; expected to stand."""

    method: Method
    adjacency: Adjacency
    pair: Pair

    @cached_property
    def plan(self) -> Plan:
        """The sound plan with the first noise of 1, 2, 4, ... that costs `MOST` or less: calibration would be slow."""
        public = self.pair.worlds(self.adjacency)[0]
        for doublings in range(_DOUBLINGS):
            plan = self.method.plan(public, self.adjacency, Reading.SOUND, 2.0**doublings)
            if accounting.epsilon(plan, DELTA) <= MOST:
                break
        return plan

    def game(self) -> Game:
        return Game(self.pair, self.method, self.plan)


def upheld() -> Iterator[Case]:
    """One case per specimen of every method, unit and pair."""
    for kind in discover.methods().values():
        for unit in sorted(kind.units):
            adjacency = Adjacency.of(unit)
            made = 0
            for method in kind.specimens():
                for pair in pairs(unit):
                    proof = _proof(method, adjacency, pair)
                    if not proof:
                        continue
                    made += 1
                    yield Upheld(
                        name=f"{method.name()}-{unit.value}" + (f"-{made}" if made > 1 else ""),
                        claim=f"{method.name()} hides {pair.what}",
                        source=proof,
                        delta=DELTA,
                        runs=_RUNS,
                        quick=_QUICK if made == 1 else 0,
                        expected="consistent",
                        method=method,
                        adjacency=adjacency,
                        pair=pair,
                    )


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
    """Neighbouring graphs of a dozen nodes on which one unit moves a release as far as it can."""
    if unit is Unit.EDGE:
        return (replace(Pair.without_edge(_graph([(0, 1)]), 0, 1), what="the only edge of two nodes"),)
    between, hub = _graph([(0, 1), (0, 2)]), _graph([(0, other) for other in range(1, _NODES)])
    if unit is Unit.NODE:
        return (
            replace(Pair.without_node(between, 0), what="a node between two others"),
            replace(Pair.without_node(hub, 0), what="a hub of all others"),
        )
    row = between.x[0] if unit is Unit.LABEL else -between.x[0]
    what = "the label of a node" if unit is Unit.LABEL else "what a node is"
    return (replace(Pair.with_other(between, 0, row, 0), what=what),)


def _graph(edges: list[tuple[int, int]]) -> Graph:
    """These edges beside a ring of the nodes 2, 3, ...; node 0 alone has class 2, and 1 is its opposite."""
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((_NODES, _FEATURES)).astype(np.float32))
    x[0] *= 10
    x[1] = -x[0]
    y = torch.arange(_NODES) % 2
    y[0] = _CLASSES - 1
    train = torch.arange(_NODES) < _NODES - 3
    private = small_graph([*edges, *_ring(2)], x, y).with_split(train, torch.zeros_like(train), ~train, "first nodes")
    return private.with_public(_strangers())


def _ring(first: int) -> list[tuple[int, int]]:
    return [(first, _NODES - 1), *((node, node + 1) for node in range(first, _NODES - 1))]


@lru_cache
def _strangers() -> Graph:
    """A public ring, for methods that teach others."""
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((_NODES, _FEATURES)).astype(np.float32))
    return replace(small_graph(_ring(0), x, torch.arange(_NODES) % _CLASSES), name="strangers")
