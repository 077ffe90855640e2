"""DPDGC: what its sums cost and hold, and what it reaches without noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.methods.edge.dpdgc import Dpdgc, residuals
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Reading


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=900).random_split(seed=0)


@pytest.mark.parametrize(("rows", "sums"), [("labels", 1), ("learnt", 2)])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("reading", list(Reading))
def test_a_sum_costs_the_rows_that_an_edge_moves(rows: str, sums: int, undirected: bool, reading: Reading) -> None:
    method, public = Dpdgc(rows=rows), Public.blank(9, 4, 3, undirected)
    (step,) = method.plan(public, Adjacency.of("edge", undirected), reading, 2.5).steps
    moved = math.sqrt(2) if undirected and reading is Reading.SOUND else 1.0
    assert (step.claim, step.times) == (GaussianCurve(moved / 2.5), sums)
    assert bool(step.refuted) == (undirected and reading is Reading.PUBLISHED)


@pytest.mark.parametrize("rows", ["labels", "learnt"])
def test_sums_go_along_arcs_and_the_gradient_against_them(rows: str) -> None:
    """Dense products of a directed graph, each up to one factor."""
    links = np.random.default_rng(0).random((12, 12)) < 0.3
    np.fill_diagonal(links, False)
    targets, sources = np.nonzero(links)
    y, train = torch.arange(12) % 3, torch.arange(12) % 4 != 0
    arcs = Csr.from_edge_index(sources, targets, 12)
    graph = Graph(torch.randn(12, 5), arcs, y, 3, False, train, ~train & False, ~train, "dense", "quarters")
    method, adjacency = Dpdgc(rows=rows), Adjacency.of("edge", undirected=False)
    public, sealed = graph.seal(adjacency)
    session = Session(public, sealed, method.plan(public, adjacency, Reading.SOUND, 0.0), Seeded(0))
    seen = method.released(session, torch.zeros(12, 3))
    assert seen.shape[1] == method.width(5, 3)
    adj, start = torch.from_numpy(links).float(), residuals(public)
    if rows == "learnt":
        assert_parallel(seen[:, :3], adj.T @ start)
        start = torch.nn.functional.normalize(adj.T @ start, dim=1)
    assert_parallel(seen[:, -3:], adj @ start)


def assert_parallel(one: torch.Tensor, other: torch.Tensor) -> None:
    assert torch.allclose(one.float() / one.float().norm(), other / other.norm(), atol=1e-5)


def test_residuals_know_training_labels_alone(graph: Graph) -> None:
    public, _ = graph.seal(Adjacency.of("edge"))
    rows = residuals(public)
    assert torch.equal(rows[~graph.train], torch.zeros_like(rows[~graph.train]))
    assert torch.allclose(rows[graph.train].norm(dim=1), torch.ones(int(graph.train.sum())))
    assert torch.equal(rows[graph.train].argmax(dim=1), graph.y[graph.train])


def test_one_class_among_training_nodes_is_no_disaster(graph: Graph) -> None:
    """Residuals are zero then; the sums are noise and the head still predicts."""
    only = graph.y == 0
    one = Graph(graph.x, graph.adj, graph.y, 4, True, only, ~only & False, ~only, "social", "one class")
    release = gv.train(one, Dpdgc(hidden=8, head=8, epochs=2), noise=2.0, delta=1e-5, unit="edge", seed=0)
    assert release.state["logits"].isfinite().all()


def test_unknown_rows_are_refused() -> None:
    with pytest.raises(gv.InvalidInput, match="rows"):
        Dpdgc(rows="guessed")


def test_nodes_are_refused_with_the_reason(graph: Graph) -> None:
    with pytest.raises(gv.Unsupported, match="row of its own"):
        gv.train(graph, Dpdgc(), epsilon=1.0, unit="node", seed=0)


@pytest.mark.parametrize("rows", ["labels", "learnt"])
def test_weights_serve_another_graph_and_a_seed_fixes_all(graph: Graph, rows: str) -> None:
    method = Dpdgc(rows=rows, hidden=8, head=8, epochs=3)
    release = gv.train(graph, method, noise=2.0, delta=1e-5, unit="edge", seed=3)
    again = gv.train(graph, method, noise=2.0, delta=1e-5, unit="edge", seed=3)
    assert torch.equal(release.state["logits"], again.state["logits"])
    other = social(num_nodes=300, seed=1).random_split(seed=0)
    assert gv.infer(release, other, noise=4.0, delta=1e-5, seed=0).predict().shape == (300,)


@pytest.mark.parametrize("rows", ["labels", "learnt"])
def test_without_noise_edges_help(graph: Graph, rows: str) -> None:
    floor = gv.train(graph, gv.methods.Mlp(), epsilon=1.0, unit="edge", seed=0).evaluate("test")["accuracy"]
    release = gv.train(graph, Dpdgc(rows=rows), epsilon=math.inf, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] > floor + 0.05
