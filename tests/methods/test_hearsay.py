"""Hearsay: what nodes tell, what it costs, which labels it reads, and what it reaches."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import graphveil as gv
from graphveil import accounting
from graphveil.core import Adjacency, InvalidInput, Reading
from graphveil.datasets.synthetic import social
from graphveil.graph import Graph, Public
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.methods.hearsay import Hearsay

SMALL = Hearsay(folds=3, hidden=8, head=8)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=900).random_split(seed=0)


@pytest.mark.parametrize("reading", list(Reading))
@pytest.mark.parametrize(("undirected", "moved"), [(True, math.sqrt(2)), (False, 1.0)])
@pytest.mark.parametrize("hops", [1, 3])
def test_a_hop_costs_the_rows_that_an_edge_moves(reading: Reading, undirected: bool, moved: float, hops: int) -> None:
    public, adjacency = Public.blank(9, 4, 3, undirected), Adjacency.of("edge", undirected)
    (step,) = Hearsay(hops=hops).plan(public, adjacency, reading, 2.0).steps
    assert (step.claim, step.times, step.refuted) == (GaussianCurve(moved / 2.0), hops, "")


def test_it_costs_what_gap_costs() -> None:
    public, adjacency = Public.blank(9, 4, 3), Adjacency.of("edge")
    assert accounting.epsilon(Hearsay().plan(public, adjacency, Reading.SOUND, 5.2759), 1e-5) == pytest.approx(
        1, rel=1e-3
    )


@pytest.mark.parametrize("degree", [0.0, 0.05, 0.9])
def test_messages_are_labels_or_beliefs_of_length_at_most_one(graph: Graph, degree: float) -> None:
    public, _ = graph.seal(Adjacency.of("edge"))
    beliefs = torch.randn(graph.num_nodes, graph.num_classes).mul(30).log_softmax(dim=1)
    said = Hearsay(degree=degree).said(public, beliefs)
    lengths = said.norm(dim=1)
    assert float(lengths.max()) <= 1 + 1e-6
    torch.testing.assert_close(lengths[graph.train], torch.ones(int(graph.train.sum())))
    assert torch.equal(said[graph.train, :-1].argmax(dim=1), graph.y[graph.train])
    assert torch.equal(said[~graph.train, :-1].argmax(dim=1), beliefs[~graph.train].argmax(dim=1))
    assert torch.allclose(said[:, -1], torch.tensor(math.sqrt(degree)))


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
    other = social(num_nodes=700, seed=5).random_split(seed=1)
    served = gv.infer(release, other, epsilon=8, delta=1e-5, seed=0)
    assert served.evaluate("test")["accuracy"] > 0.7
    assert served.certificate.epsilon <= 8


def test_edges_pay(graph: Graph) -> None:
    reached = [
        gv.train(graph, Hearsay(hidden=32), epsilon=epsilon, delta=1e-5, unit="edge", seed=0).evaluate("test")[
            "accuracy"
        ]
        for epsilon in (0.01, 8.0)
    ]
    assert reached[1] > reached[0] + 0.05


@pytest.mark.parametrize("wrong", [{"hops": 0}, {"folds": 1}, {"degree": 1.0}, {"degree": -0.1}, {"degree": math.nan}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        replace(SMALL, **wrong)


def test_node_level_is_refused_with_the_reason(graph: Graph) -> None:
    with pytest.raises(gv.Unsupported, match="row of its own"):
        gv.train(graph, SMALL, epsilon=1, unit="node")
