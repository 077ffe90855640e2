"""The contract of every attack with canaries. A new file in evidence/attacks/ is found without editing anything."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from neighbours import Sketch

import graphveil as gv
from graphveil.auditing.bounds import finding
from graphveil.auditing.game import ATTACKS, Canary, Game, Pair
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.vocabulary import Adjacency, Reading, Unit

CASES = [
    pytest.param(kind(), Adjacency.of(unit, undirected), id=f"{name}-{unit}-{undirected}")
    for name, kind in ATTACKS.ours().items()
    if issubclass(kind, Canary)
    for unit in sorted(kind.units)
    for undirected in (True, False)
]


def sketched(adjacency: Adjacency) -> Graph:
    return Sketch.random(np.random.default_rng(1), adjacency.undirected, nodes=9).graph()


def arcs(adj: Csr) -> set[tuple[int, int]]:
    return set(zip(adj.indices.tolist(), adj.targets().tolist(), strict=True))


def touched(pair: Pair) -> set[int]:
    """Nodes whose features, label or edges differ."""
    here = pair.graph
    rows = (here.x != pair.x).any(dim=1) | (here.y != pair.y)
    return set(rows.nonzero().flatten().tolist())


def neighbours(pair: Pair, adjacency: Adjacency) -> bool:
    """Whether the two graphs differ in one unit and in nothing else."""
    here, nodes = pair.graph, touched(pair)
    gone = arcs(here.adj) ^ arcs(pair.adj)
    if adjacency.unit is Unit.EDGE:
        links = {frozenset(arc) for arc in gone} if adjacency.undirected else gone
        return not nodes and len(links) == 1
    if len(nodes) != 1:
        return False
    (node,) = nodes
    if adjacency.unit is Unit.NODE:
        blank = int(pair.y[node]) == -1 and not bool(pair.x[node].any())
        return blank and not any(node in arc for arc in arcs(pair.adj)) and all(node in arc for arc in gone)
    return not gone and (adjacency.unit is Unit.FEATURES or torch.equal(here.x, pair.x))


@pytest.mark.parametrize(("canary", "adjacency"), CASES)
def test_pairs_are_neighbours_and_name_nobody(canary: Canary, adjacency: Adjacency) -> None:
    pairs = canary.pairs(sketched(adjacency), adjacency, 0)
    assert len(pairs) >= 2
    for pair in pairs:
        assert neighbours(pair, adjacency), pair.what
        assert not any(letter.isdigit() for letter in pair.what)


@pytest.mark.parametrize(("canary", "adjacency"), CASES)
def test_wins_where_everything_is_told(canary: Canary, adjacency: Adjacency) -> None:
    """Epsilon is infinite: every pair of graphs is told apart in every run."""
    method = gv.methods.Gcn()
    for pair in canary.pairs(sketched(adjacency), adjacency, 0):
        plan = method.plan(pair.worlds(adjacency)[0], adjacency, Reading.SOUND, 0.0)
        scores = Game(pair, method, plan).play(3, 0)
        assert scores.auc() == 1.0, pair.what
        assert scores.present.tolist() == [math.inf] * 3


@pytest.mark.parametrize(("canary", "adjacency"), CASES)
def test_is_at_chance_where_nothing_is_told(canary: Canary, adjacency: Adjacency) -> None:
    """Epsilon is zero: both graphs are the same."""
    method = gv.methods.Gap(hidden=4, head=4, epochs=1) if adjacency.unit is Unit.EDGE else gv.methods.DpSgd(steps=2)
    for pair in canary.pairs(sketched(adjacency), adjacency, 0):
        same = replace(pair, x=pair.graph.x, y=pair.graph.y, adj=pair.graph.adj)
        plan = method.plan(pair.worlds(adjacency)[0], adjacency, Reading.SOUND, 1.0)
        scores = Game(same, method, plan).play(5, 0)
        assert scores.auc() == 0.5
        assert not scores.present.any()


@pytest.mark.parametrize(("canary", "adjacency"), CASES)
def test_the_smallest_graphs_are_no_trouble(canary: Canary, adjacency: Adjacency) -> None:
    one = torch.ones(1, dtype=torch.bool)
    lone = Graph(
        torch.ones(1, 1), Csr.empty(1), torch.zeros(1, dtype=torch.int64), 1, adjacency.undirected,
        one, ~one, ~one, "lone", "one",
    )  # fmt: skip
    for pair in canary.pairs(lone, adjacency, 0):
        assert neighbours(pair, adjacency)


def test_a_pendant_edge_at_a_hub_refutes_the_published_eclipse() -> None:
    adjacency = Adjacency.of("edge")
    links = np.zeros((30, 30), dtype=bool)
    links[0, 1:] = links[1:, 0] = True
    graph = Sketch(links, torch.eye(30), torch.arange(30) % 3, undirected=True).graph()
    method = gv.methods.Eclipse(basis="singular", use="graph", rank=4, hidden=4, epochs=2)
    pair = next(one for one in ATTACKS.find("canary_edge")().pairs(graph, adjacency, 0) if "pendant" in one.what)  # type: ignore[attr-defined]
    plan = method.plan(pair.worlds(adjacency)[0], adjacency, Reading.PUBLISHED, 1.0)
    claimed = gv.accounting.epsilon(plan, 1e-5)
    scores = Game(pair, method, plan).play(60, 0)
    assert finding("canary_edge", scores, claimed, 1e-5).verdict == "refuted"
