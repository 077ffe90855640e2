"""Hearsay: what nodes tell, what it costs, which labels it reads, and what it reaches."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import graphveil as gv
from graphveil.data.datasets.block_models import BlockModel
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.flipped_edges import FlippedEdges
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.edge import hearsay
from graphveil.methods.edge.hearsay import Hearsay, told_by
from graphveil.methods.edge.parts import counts
from graphveil.methods.edge.parts.counts import cluster_degrees
from graphveil.nn import rows
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Plan, Reading

SMALL = Hearsay(folds=3, hidden=8, head=8)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=900).random_split(seed=0)


@pytest.mark.parametrize("reading", list(Reading))
@pytest.mark.parametrize(("undirected", "cells"), [(True, 2), (False, 1)])
@pytest.mark.parametrize("hops", [1, 3])
def test_a_hop_costs_the_cells_that_an_edge_moves(reading: Reading, undirected: bool, cells: int, hops: int) -> None:
    public, adjacency = Public.blank(9, 4, 3, undirected), Adjacency.of("edge", undirected)
    plan = Hearsay(hops=hops).plan(public, adjacency, reading, 4.0)
    (step,) = plan.steps
    assert (step.name, type(step.claim), step.times, step.refuted) == ("hop", PureCurve, hops, "")
    assert accounting.epsilon(plan, 1e-12) == pytest.approx(hops * cells / 4.0, rel=1e-3)


@pytest.mark.parametrize("reading", list(Reading))
@pytest.mark.parametrize(("undirected", "moved"), [(True, math.sqrt(2)), (False, 1.0)])
@pytest.mark.parametrize("hops", [1, 3])
def test_a_sum_costs_the_rows_that_an_edge_moves(reading: Reading, undirected: bool, moved: float, hops: int) -> None:
    public, adjacency = Public.blank(9, 4, 3, undirected), Adjacency.of("edge", undirected)
    (step,) = Hearsay(channel="sums", hops=hops).plan(public, adjacency, reading, 2.0).steps
    assert (step.claim, step.times, step.refuted) == (GaussianCurve(moved / 2.0), hops, "")


def test_sums_cost_what_gap_costs() -> None:
    public, adjacency = Public.blank(9, 4, 3), Adjacency.of("edge")
    plan = Hearsay(channel="sums").plan(public, adjacency, Reading.SOUND, 5.2759)
    assert accounting.epsilon(plan, 1e-5) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("degree", [0.0, 0.05, 0.9])
def test_messages_are_labels_or_beliefs_of_length_at_most_one(graph: Graph, degree: float) -> None:
    public, _ = graph.seal(Adjacency.of("edge"))
    beliefs = torch.randn(graph.num_nodes, graph.num_classes).mul(30).log_softmax(dim=1)
    said = Hearsay(channel="sums", degree=degree).said(told_by(public, beliefs))
    lengths = said.norm(dim=1)
    assert float(lengths.max()) <= 1 + 1e-6
    torch.testing.assert_close(lengths[graph.train], torch.ones(int(graph.train.sum())))
    assert torch.equal(said[graph.train, :-1].argmax(dim=1), graph.y[graph.train])
    assert torch.equal(said[~graph.train, :-1].argmax(dim=1), beliefs[~graph.train].argmax(dim=1))
    assert torch.allclose(said[:, -1], torch.tensor(math.sqrt(degree)))


def test_pairs_answer_once_for_all_hops() -> None:
    public, adjacency = Public.blank(9, 4, 3), Adjacency.of("edge")
    (step,) = Hearsay(channel="pairs", hops=3).plan(public, adjacency, Reading.SOUND, 0.25).steps
    assert step.times == 1
    assert accounting.epsilon(Plan(adjacency, Reading.SOUND, (step,)), 1e-9) == pytest.approx(4.0, abs=1e-4)


def test_without_noise_counts_are_those_of_known_and_believed_classes(graph: Graph) -> None:
    release = gv.train(graph, SMALL, epsilon=math.inf, delta=1e-5, unit="edge", seed=0)
    sums = gv.train(graph, replace(SMALL, channel="sums"), epsilon=math.inf, delta=1e-5, unit="edge", seed=0)
    counts, plain = (one.evaluate("test")["accuracy"] for one in (release, sums))
    assert abs(counts - plain) < 0.1
    assert (
        release.evaluate("test")["accuracy"]
        > gv.train(graph, gv.methods.Mlp(epochs=20), epsilon=1, delta=1e-5, unit="edge", seed=0).evaluate("test")[
            "accuracy"
        ]
    )


def test_counts_carry_less_noise_at_the_same_epsilon_and_delta() -> None:
    """Geometric noise of scale 2/epsilon against Gaussian noise: 2.8 to 5.3 at epsilon 1, 0.2 to 0.85 at 8."""
    public, adjacency = Public.blank(9, 4, 3), Adjacency.of("edge")
    for epsilon in (1.0, 8.0):
        spread = {}
        for channel in ("sums", "counts"):
            plans = partial(Hearsay(channel=channel).plan, public, adjacency, Reading.SOUND)
            spread[channel] = accounting.calibrate(plans, epsilon, 1e-5).noise
        chance = math.exp(-1 / spread["counts"])
        assert math.sqrt(2 * chance) / (1 - chance) < spread["sums"] / 1.7


def test_at_equal_epsilon_and_delta_a_sum_is_harder_to_attack() -> None:
    """docs/methods/hearsay.md, Sums or counts: advantages at (2, 1e-5)."""
    public, adjacency = Public.blank(9, 4, 3), Adjacency.of("edge")
    proven = {}
    for channel in ("sums", "counts"):
        plans = partial(Hearsay(channel=channel).plan, public, adjacency, Reading.SOUND)
        proven[channel] = accounting.delta(plans(accounting.calibrate(plans, 2.0, 1e-5).noise), 0.0)
    assert proven == pytest.approx({"sums": 0.198, "counts": 0.762}, abs=1e-3)


def test_without_noise_sums_and_pairs_carry_the_same(graph: Graph) -> None:
    sums, pairs = (
        gv.train(graph, replace(SMALL, channel=channel, hops=2), epsilon=math.inf, delta=1e-5, unit="edge", seed=0)
        for channel in ("sums", "pairs")
    )
    torch.testing.assert_close(sums.state["logits"], pairs.state["logits"], rtol=1e-3, atol=1e-3)


def test_pairs_are_better_where_few_would_lie() -> None:
    """900 e^-8 is 0.3 lies a node; noise of 0.85 on each sum is far more."""
    graph = gv.datasets.load("chain-x").random_split(seed=0)
    reached = {
        channel: gv.train(graph, Hearsay(channel=channel, hops=2), epsilon=8, delta=1e-5, unit="edge", seed=0)
        for channel in ("sums", "pairs")
    }
    assert reached["pairs"].evaluate("test")["accuracy"] > reached["sums"].evaluate("test")["accuracy"]


def test_a_released_graph_never_gets_dense() -> None:
    """At epsilon 0.01 half of all pairs would say yes: 250,000 here."""
    graph = social(num_nodes=1000).random_split(seed=0)
    release = gv.train(graph, replace(SMALL, channel="pairs"), epsilon=0.01, delta=1e-5, unit="edge", seed=0)
    assert release.certificate.epsilon <= 0.01
    act = release.certificate.plan.step("pairs").act
    assert isinstance(act, FlippedEdges)
    keep, add = act.chances(act.share(499_500, 0.0, 32_000))
    assert 499_500 * add == pytest.approx(32_000)
    assert math.log(keep / add) == pytest.approx(act.epsilon)


def test_labels_outside_training_are_never_read(graph: Graph) -> None:
    told = gv.train(graph, SMALL, epsilon=4, delta=1e-5, unit="edge", seed=0).state["logits"]
    hidden = (graph.y + 1 + torch.arange(len(graph.y)) % 2) % graph.num_classes
    blind = replace(graph, y=torch.where(graph.train, graph.y, hidden))
    assert torch.equal(gv.train(blind, SMALL, epsilon=4, delta=1e-5, unit="edge", seed=0).state["logits"], told)


def test_same_seed_same_result_with_or_without_a_kept_encoder(graph: Graph) -> None:
    first, again = (gv.train(graph, SMALL, epsilon=1, delta=1e-5, unit="edge", seed=3) for _ in range(2))
    fresh = gv.train(replace(graph), SMALL, epsilon=1, delta=1e-5, unit="edge", seed=3)
    assert torch.equal(first.state["logits"], again.state["logits"])
    assert torch.equal(first.state["logits"], fresh.state["logits"])


def test_weights_serve_another_graph(graph: Graph) -> None:
    release = gv.train(graph, replace(SMALL, hops=2), epsilon=8, delta=1e-5, unit="edge", seed=0)
    other = replace(social(num_nodes=700, seed=5).random_split(seed=1), name="other")
    served = gv.infer(release, other, epsilon=8, delta=1e-5, seed=0)
    assert served.evaluate("test")["accuracy"] > 0.7
    assert served.certificate.epsilon <= 8


@pytest.fixture
def mute(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Features say nothing, so beliefs are poor; small graphs are compared too."""
    monkeypatch.setattr(hearsay, "_COMPARED", (100, 20_000))
    return replace(graph, x=torch.randn(graph.x.shape, generator=torch.Generator().manual_seed(0)), name="mute")


def test_where_beliefs_are_poor_and_counts_nearly_exact_alike_nodes_are_heard(mute: Graph, graph: Graph) -> None:
    def grouped(of: Graph, epsilon: float, method: Hearsay = SMALL) -> bool:
        return "groups" in gv.train(of, method, epsilon=epsilon, delta=1e-5, unit="edge", seed=0).state

    assert grouped(mute, 8)
    assert not grouped(mute, 1)
    assert not grouped(graph, 8)
    assert not grouped(mute, 8, replace(SMALL, channel="sums"))


def test_four_parts_of_a_class_cost_what_one_does(mute: Graph) -> None:
    """An edge still moves one cell of either end."""
    public, sealed = mute.seal(Adjacency.of("edge"))
    release = gv.train(mute, SMALL, noise=0.25, unit="edge", seed=0)
    assert release.certificate.plan.steps[0].claim == Tally(0.25, marks=2).curve(1)
    said = torch.arange(mute.num_nodes) % 12
    with sealed.opened():
        marks = cluster_degrees(sealed, said, 12)
    assert marks.cells.shape == (mute.adj.num_arcs // 2, 2)
    assert marks.size == 12 * public.num_nodes


@pytest.mark.parametrize("undirected", [True, False])
def test_marks_are_the_same_in_blocks_of_arcs(undirected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = social(num_nodes=60, seed=3)
    made = made if undirected else replace(made, undirected=False)
    _, sealed = made.random_split().seal(Adjacency.of("edge", undirected))
    tally, query = Tally(0.0, marks=1 + undirected), partial(cluster_degrees, clusters=made.y, count=4)
    with sealed.opened():
        whole, cells = tally.bounded(sealed, query), query(sealed).cells
        monkeypatch.setattr(counts, "_ARCS", 7)
        assert torch.equal(tally.bounded(sealed, query), whole)
        assert np.array_equal(query(sealed).cells, cells)
    dense = torch.zeros(60, 4, dtype=torch.int64)
    for source, target in zip(made.adj.indices, made.adj.targets(), strict=True):
        dense[target, made.y[source]] += 1
    assert torch.equal(whole.view(60, 4), dense)


def test_a_large_graph_is_read_in_blocks_to_the_same_end(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made block by block, as beyond 131,072 nodes, is what is made at once, up to rounding."""
    method = replace(SMALL, hops=2)
    whole = gv.train(graph, method, epsilon=4, delta=1e-5, unit="edge", seed=0)
    monkeypatch.setattr(rows, "WHOLE", 100)
    monkeypatch.setattr(rows.blocks, "__defaults__", (64,))
    parts = gv.train(replace(graph), method, epsilon=4, delta=1e-5, unit="edge", seed=0)
    torch.testing.assert_close(parts.state["scaling.shift"], whole.state["scaling.shift"])
    agree = parts.state["logits"].argmax(dim=1) == whole.state["logits"].argmax(dim=1)
    assert float(agree.double().mean()) > 0.9


def test_alike_nodes_are_heard_without_labels_outside_training_and_on_another_graph(mute: Graph) -> None:
    release = gv.train(mute, SMALL, epsilon=8, delta=1e-5, unit="edge", seed=0)
    blind = replace(mute, y=torch.where(mute.train, mute.y, (mute.y + 1) % mute.num_classes))
    again = gv.train(blind, SMALL, epsilon=8, delta=1e-5, unit="edge", seed=0)
    assert torch.equal(again.state["logits"], release.state["logits"])
    other = replace(social(num_nodes=700, seed=5).random_split(seed=1), name="other")
    served = gv.infer(release, other, epsilon=8, delta=1e-5, seed=0)
    assert served.state["logits"].isfinite().all()


def test_edges_pay(graph: Graph) -> None:
    reached = [
        gv.train(graph, Hearsay(hidden=32), epsilon=epsilon, delta=1e-5, unit="edge", seed=0).evaluate("test")[
            "accuracy"
        ]
        for epsilon in (0.01, 8.0)
    ]
    assert reached[1] > reached[0] + 0.05


def few_labels() -> Graph:
    """Forty classes and thirty labels of each: a perceptron on 121 noisy columns learns the noise."""
    model = BlockModel((1.0,) * 40, nodes=2000, features=30, assortative=0.6, signal=0.6)
    return model.graph("forty").random_split(train=0.6, val=0.1, test=0.3, seed=0)


def test_with_few_labels_for_many_classes_noise_is_not_learnt() -> None:
    """The floor is what features alone reach: what the head reads at epsilon 1 is nearly all noise."""
    graph = few_labels()
    floor = gv.train(graph, gv.methods.Mlp(), epsilon=1, delta=1e-5, unit="edge", seed=0).evaluate("test")["accuracy"]
    for channel in ("counts", "sums"):
        method = Hearsay(channel=channel)
        reached = {
            epsilon: gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit="edge", seed=0).evaluate("test")
            for epsilon in (1, 8)
        }
        assert reached[1]["accuracy"] > floor - 0.02
        assert reached[8]["accuracy"] > floor + 0.2


def test_a_head_of_few_labels_serves_another_graph(graph: Graph) -> None:
    few = graph.random_split(train=0.2, val=0.1, test=0.7, seed=0)
    method = replace(SMALL, hops=2, head=Hearsay.head)
    release = gv.train(few, method, epsilon=8, delta=1e-5, unit="edge", seed=0)
    assert {"head.0.shares", "head.1.shares"} <= set(release.state)
    asked = gv.train(few, replace(method, head=8), epsilon=8, delta=1e-5, unit="edge", seed=0)
    assert "head.0.shares" not in asked.state, "who asks for a width gets it"
    other = replace(social(num_nodes=700, seed=5).random_split(seed=1), name="other")
    served = gv.infer(release, other, epsilon=8, delta=1e-5, seed=0)
    assert served.evaluate("test")["accuracy"] > 0.7


@pytest.mark.parametrize(
    "wrong", [{"hops": 0}, {"folds": 1}, {"degree": 1.0}, {"degree": -0.1}, {"degree": math.nan}, {"channel": "x"}]
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(SMALL, **wrong)


def test_node_level_is_refused_with_the_reason(graph: Graph) -> None:
    with pytest.raises(gv.Unsupported, match="row of its own"):
        gv.train(graph, SMALL, epsilon=1, unit="node")


def test_an_edge_is_told_from_counts_as_far_as_the_page_says() -> None:
    """Total variation of two cells that move by one each, by the law of the noise: tanh(1 / (2 noise)), 0.46."""
    noise = 1.0
    cells = np.arange(-60, 61)
    law = (1 - math.exp(-1 / noise)) / (1 + math.exp(-1 / noise)) * np.exp(-np.abs(cells) / noise)
    moved = (1 - math.exp(-1 / noise)) / (1 + math.exp(-1 / noise)) * np.exp(-np.abs(cells - 1) / noise)
    told = np.abs(np.outer(law, law) - np.outer(moved, moved)).sum() / 2
    assert told == pytest.approx(math.tanh(1 / (2 * noise)), abs=1e-9)
    assert round(told, 2) == 0.46
    assert told < accounting.delta(
        Hearsay().plan(Public.blank(9, 4, 3), Adjacency.of("edge"), Reading.SOUND, noise), 0.0
    )
