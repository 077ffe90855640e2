"""NDP end to end: how many subgraphs one node changes, and how far it moves the sum."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch
from scipy.stats import hypergeom

import graphveil as gv
from coupled import every_small_sketch, graph_of, nodes_to_change, random_sketches, summed, thirds
from graphveil.data.sealing import PUBLIC_DEGREES, Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.occurrences import occurrence_curve, occurrences
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.methods.node.ndp import Ndp
from graphveil.nn.sampling.bounded import most_occurrences, neighbourhoods
from graphveil.nn.subgraph_model import start
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Reading, Unit
from plans import plan_of

SMALL = Ndp(hidden=2, steps=2, batch=3, cap=2, clip=1e-2)
VARIANTS = {
    "one hop": SMALL,
    "two hops": replace(SMALL, network="sage", layers=2, activation="elu", cap=1),
    "inductive": replace(SMALL, network="gin", layers=2, activation="elu", transductive=False),
}
variants = pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)
units = pytest.mark.parametrize("unit", [Unit.FEATURES, Unit.NODE])


def changed(sketch: Sketch, node: int, unit: Unit, coins: int) -> Sketch:
    """The neighbour in which this node is blanked, or has other features and another label."""
    if unit is Unit.NODE:
        return sketch.blanked(node)
    return sketch.replaced(node, -sketch.x[node] * 10 ** (coins % 5 - 2), 1 - int(sketch.y[node]))


def worst_move(method: Ndp, sketch: Sketch, unit: Unit, coins: int) -> float:
    """The largest move as a share of two clips for every drawn subgraph that holds the node; and none without one."""
    adjacency = Adjacency.of(unit, sketch.undirected)
    public, sealed = graph_of(sketch).seal(adjacency)
    act = method.plan(public, adjacency, Reading.SOUND, 1.0).steps[0].act
    assert isinstance(act, FixedSize)
    query = partial(method._query, weights=start(method.model(3, 2), torch.Generator().manual_seed(coins)))
    here = summed(act, sealed, query, coins)
    with sealed.opened():
        blocks = neighbourhoods(method._capped(sealed), np.flatnonzero(public.train.numpy()), method.layers)
    drawn = blocks.take(Seeded(coins).choose(act.population, act.size).numpy())
    worst = 0.0
    for node in nodes_to_change(sketch, coins):
        other = changed(sketch, node, unit, coins)
        there = summed(act, Sealed(other.x, other.y, other.adj(), public), query, coins)
        assert int((blocks.nodes == node).sum()) <= most_occurrences(method.cap, method.layers)
        moved, held = float((here - there).norm()) / method.clip, int((drawn.nodes == node).sum())
        assert held or moved == 0.0
        worst = max(worst, moved / max(2 * held, 1))
    return worst


@units
@variants
def test_one_node_moves_what_holds_it_on_random_graphs(method: Ndp, unit: Unit) -> None:
    worst = max(worst_move(method, sketch, unit, coins) for coins, sketch in enumerate(random_sketches(15)))
    # A blanked node takes its own gradient away and puts none in its place.
    assert (0.45 if unit is Unit.NODE else 0.9) < worst <= 1 + 1e-6


@thirds
@units
@variants
def test_one_node_moves_what_holds_it_on_every_small_graph(method: Ndp, unit: Unit, third: int) -> None:
    share = 3 * list(VARIANTS.values()).index(method) + third
    for coins, sketch in enumerate(every_small_sketch(share, 3 * len(VARIANTS))):
        assert worst_move(method, sketch, unit, coins) <= 1 + 1e-6


def test_occurrences_are_hypergeometric() -> None:
    for population, affected, size in [(10, 3, 4), (90_941, 6, 10_000), (50, 50, 7), (9, 2, 9), (40, 30, 20)]:
        expected = hypergeom.pmf(np.arange(affected + 1), population, affected, size)
        assert np.allclose(occurrences(population, affected, size), expected, rtol=1e-8, atol=1e-300)
        assert sum(occurrences(population, affected, size)) == pytest.approx(1, abs=1e-14)
    with pytest.raises(InvalidInput):
        occurrences(5, 6, 2)


def test_occurrence_curves() -> None:
    curve = occurrence_curve(100, 3, 20, 0.5)
    assert isinstance(curve, RevealedMixture)
    assert [one.gdp() for one in curve.curves] == [0.0, 0.5, 1.0, 1.5]
    assert occurrence_curve(10, 3, 10, 0.5) == GaussianCurve(1.5)
    assert occurrence_curve(10, 3, 5, float("inf")).infinite
    spent = [accounting.epsilon(plan_of((occurrence_curve(100, most, 20, 0.3), 10)), 1e-5) for most in (1, 3, 7)]
    assert spent == sorted(spent)


def test_the_published_proof_is_sound_and_looser() -> None:
    public, adjacency = Public.blank(2000, 4, 3), Adjacency.of("features")
    method = replace(SMALL, batch=300, steps=30)
    spent = [accounting.epsilon(method.plan(public, adjacency, reading, 8.0), 1e-5) for reading in Reading]
    assert dict(zip(Reading, spent, strict=True))[Reading.SOUND] < max(spent)


def test_node_level_says_that_degrees_are_public() -> None:
    blank = Public.blank(20, 4, 3)
    for unit, said in ((Unit.NODE, True), (Unit.FEATURES, False)):
        assert (PUBLIC_DEGREES in SMALL.plan(blank, Adjacency.of(unit), Reading.SOUND, 1.0).assumes) == said


def test_node_level_needs_public_degrees() -> None:
    """Sizes alone are enough for a plan, not for training."""
    graph, node = gv.datasets.load("chain-s"), Adjacency.of("node")
    public, sealed = graph.seal(node)
    bare = replace(public, degrees=None)
    session = Session(bare, sealed, SMALL.plan(bare, node, Reading.SOUND, 1.0), Seeded(0))
    with pytest.raises(gv.PrivateAccess, match="out-degrees"):
        SMALL.fit(session)
    assert session.left("gradient") == SMALL.steps


def test_an_undeclared_population_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    graph, ledger = gv.datasets.load("chain-s"), gv.Ledger(tmp_path / "ledger.db")
    mine = replace(graph, every_id_present=False)
    ledger.open(mine, "node", epsilon=100.0, delta=1e-2)
    train = partial(gv.train, method=SMALL, noise=9.0, delta=1e-5, unit="node", ledger=ledger, seed=0)
    with pytest.raises(InvalidInput, match=r"with_degrees\(degrees\).*--every-id-present"):
        train(mine)
    assert not ledger.entries()
    assert f"{PUBLIC_DEGREES}: counted in this graph" in train(graph).certificate.card()
    assert f"{PUBLIC_DEGREES}: bounds stated" in train(mine.with_degrees(2)).certificate.card()
    # Where edges are public nobody has to say anything.
    gv.train(mine, SMALL, noise=9.0, delta=1e-5, unit="features", seed=0)


@variants
def test_stated_degrees_silence_the_same_ids_with_and_without_a_node(method: Ndp) -> None:
    """What is left of the graph without a node is what was left of the graph, without the node."""
    for sketch in random_sketches(6):
        whole, adjacency = graph_of(sketch), Adjacency.of("node", sketch.undirected)
        degrees = np.bincount(whole.adj.indices, minlength=whole.num_nodes)
        for node in range(whole.num_nodes):
            there = replace(graph_of(sketch.blanked(node)), every_id_present=False).with_degrees(degrees)
            kept, plans = [], []
            for graph in (whole.with_degrees(degrees), there):
                public, sealed = graph.seal(adjacency)
                plans.append(method.plan(public, adjacency, Reading.SOUND, 2.0))
                with sealed.opened():
                    kept.append(method._capped(sealed).to_scipy().toarray())
            kept[0][node] = kept[0][:, node] = 0
            assert np.array_equal(*kept)
            assert plans[0] == plans[1]


@units
def test_it_learns(unit: Unit) -> None:
    """Four classes: chance is a quarter."""
    graph = gv.datasets.load("social", split="random", seed=0)
    method = Ndp(batch=600, steps=60, hidden=16)
    release = gv.train(graph, method, epsilon=16, delta=1e-5, unit=unit, seed=0)
    assert release.evaluate("test")["accuracy"] > 0.5


@pytest.mark.parametrize("wrong", [{"cap": 0}, {"arc_seed": -1}, {"cap": 1.5}, {"batch": 0}, {"layers": 0}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Ndp(**wrong)
