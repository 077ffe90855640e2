"""Networks on a released graph: which backbone runs, what edgerand and lapgraph spend and what they read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Probe, Sketch, neighbour

import graphveil as gv
from communities import communities
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.flipped_edges import FlippedEdges, counted
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.top_pairs import Ranked, TopPairs
from graphveil.methods.edge.edgerand import EdgeRand
from graphveil.methods.edge.lapgraph import LapGraph
from graphveil.methods.edge.parts.released_graph import Backbone, ReleasedGraph
from graphveil.nn.gnn import first_order_operator, symmetric_operator
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit

BOTH: list[ReleasedGraph] = [EdgeRand(hidden=8, epochs=5), LapGraph(hidden=8, epochs=5)]


def blocks(nodes: int, seed: int) -> Graph:
    return communities(nodes, seed).random_split(seed=seed)


def plan_of(method: ReleasedGraph, noise: float, undirected: bool = True) -> Plan:
    return method.plan(Public.blank(50, 5, 3, undirected), Adjacency.of("edge", undirected), Reading.SOUND, noise)


def release(method: ReleasedGraph, graph: Graph, noise: float, seed: int = 0) -> Csr:
    adjacency = Adjacency.of("edge", graph.undirected)
    public, sealed = graph.seal(adjacency)
    return method.arcs(Session(public, sealed, method.plan(public, adjacency, Reading.SOUND, noise), Seeded(seed)))


@pytest.mark.parametrize("method", BOTH, ids=lambda method: method.name())
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_calibration_meets_epsilon_from_below(method: ReleasedGraph, epsilon: float) -> None:
    found = accounting.calibrate(partial(plan_of, method), epsilon, 1e-5)
    assert epsilon * 0.999 <= found.epsilon <= epsilon
    assert accounting.epsilon(plan_of(method, 1 / epsilon), 1e-9) == pytest.approx(epsilon, rel=0.02)


@pytest.mark.parametrize("share", [0.01, 0.25, 0.9])
def test_lapgraph_pays_for_the_count_out_of_the_whole(share: float) -> None:
    count, top = plan_of(LapGraph(count_share=share), 0.5).steps
    assert isinstance(count.claim, LaplaceCurve)
    assert isinstance(top.claim, PureCurve)
    assert count.claim.epsilon == pytest.approx(share * 2, rel=1e-9)
    assert top.claim.epsilon == pytest.approx((1 - share) * 2, abs=2.0**-13)


@pytest.mark.parametrize("method", BOTH, ids=lambda method: method.name())
def test_without_noise_the_graph_is_read_as_it_is(method: ReleasedGraph) -> None:
    graph = blocks(40, seed=1)
    out = release(method, graph, 0.0)
    assert out.indptr.tolist() == graph.adj.indptr.tolist()
    assert out.indices.tolist() == graph.adj.indices.tolist()
    assert accounting.epsilon(plan_of(method, 0.0), 1e-5) == math.inf


@pytest.mark.parametrize("method", BOTH, ids=lambda method: method.name())
@pytest.mark.parametrize("undirected", [True, False])
def test_released_graphs_are_valid(method: ReleasedGraph, undirected: bool) -> None:
    out = release(method, replace(blocks(100, seed=2), undirected=undirected), 1.0)
    assert not out.has_loops()
    assert out.is_symmetric() == undirected


def test_edgerand_keeps_a_public_share_of_a_graph_that_would_be_too_large() -> None:
    graph = blocks(300, seed=3)
    pairs = 300 * 299 // 2
    lies = pairs / (1 + math.e)
    assert release(EdgeRand(), graph, 1.0).num_arcs / 2 == pytest.approx(lies, rel=0.1)
    thin = release(EdgeRand(most=1000), graph, 1.0)
    assert 900 < thin.num_arcs / 2 < 1300
    act = FlippedEdges(1.0)
    assert EdgeRand(most=1000).share(act, pairs) == pytest.approx(1000 / lies)
    assert EdgeRand().share(act, pairs) == 1


def test_lapgraph_names_as_many_pairs_as_the_noisy_count_says() -> None:
    graph = blocks(300, seed=4)
    sizes = [release(LapGraph(), graph, 0.5, seed).num_arcs / 2 for seed in range(40)]
    assert np.mean(sizes) == pytest.approx(graph.num_edges, rel=0.05)
    # Laplace of scale 50 has a mean deviation of 50.
    assert 25 < np.mean(np.abs(np.array(sizes) - graph.num_edges)) < 100
    assert all(size == int(size) for size in sizes)


@dataclass(frozen=True)
class _PrivateCount(LapGraph):
    """The mutation: as many pairs are named as there are edges."""

    def arcs(self, session: Session) -> Csr:
        session.release("count", partial(counted, undirected=True))
        session.release("top", _as_many)
        return Csr.empty(session.public.num_nodes)


def _as_many(sealed: Sealed) -> Ranked:
    return Ranked(sealed.adj, sealed.adj.num_arcs // 2)


@pytest.mark.parametrize("method", [BOTH[1], _PrivateCount(hidden=4, epochs=1)], ids=["released", "private"])
def test_how_many_are_named_depends_on_the_released_count_alone(method: LapGraph) -> None:
    rng = np.random.default_rng(5)
    sketch = Sketch.random(rng, undirected=True, nodes=9)
    public, sealed = sketch.graph().seal(Adjacency.of("edge"))
    plan = method.plan(public, Adjacency.of("edge"), Reading.SOUND, 1.0)
    near = neighbour(sketch, Unit.EDGE, rng)
    probe = Probe(Session(public, sealed, plan, Seeded(1)), sketch.sealed(public), near.sealed(public))
    method.arcs(probe)
    assert probe.worst == (math.inf if isinstance(method, _PrivateCount) else pytest.approx(1.0))


# --- Backbones. ---


@pytest.mark.parametrize("network", list(Backbone))
def test_every_backbone_learns_from_a_graph_that_is_told(network: Backbone) -> None:
    graph = blocks(300, seed=6)
    method = LapGraph(network=network, hidden=16, epochs=60)
    reached = gv.train(graph, method, noise=0.05, delta=1e-5, unit="edge", seed=0).evaluate("test")["accuracy"]
    assert reached > 0.7


def test_first_order_operator() -> None:
    """I + D^-1/2 A D^-1/2 on a path of three nodes and a lonely one."""
    path = Csr.from_edge_index(np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1]), 4)
    root = math.sqrt(0.5)
    wanted = torch.tensor([[1, root, 0, 0], [root, 1, root, 0], [0, root, 1, 0], [0, 0, 0, 1.0]])
    assert torch.allclose(first_order_operator(path) @ torch.eye(4), wanted)
    assert not torch.allclose(symmetric_operator(path) @ torch.eye(4), wanted)


def test_another_graph_spends_its_own_budget() -> None:
    graph, other = blocks(60, seed=4), blocks(90, seed=5)
    trained = gv.train(graph, BOTH[1], epsilon=2.0, delta=1e-5, unit="edge", seed=0)
    served = gv.infer(trained, replace(other, name="other"), epsilon=1.0, delta=1e-5, seed=0)
    assert len(served.predict()) == 90
    assert [step.name for step in served.certificate.plan.steps] == ["count", "top"]
    assert isinstance(served.certificate.plan.step("top").act, TopPairs)


@pytest.mark.parametrize("wrong", [{"network": "cnn"}, {"most": 0}, {"most": 1.5}])
def test_bad_settings_of_edgerand_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        EdgeRand(**wrong)


@pytest.mark.parametrize("share", [0.0, 1.0, math.nan])
def test_bad_shares_of_lapgraph_are_refused(share: float) -> None:
    with pytest.raises(InvalidInput):
        LapGraph(count_share=share)


@pytest.mark.parametrize("method", BOTH, ids=lambda method: method.name())
@pytest.mark.parametrize("unit", ["node", "features", "label"])
def test_other_units_are_refused(method: ReleasedGraph, unit: str) -> None:
    with pytest.raises(Unsupported, match="it supports: edge"):
        gv.train(blocks(30, seed=6), method, epsilon=1.0, unit=unit, seed=0)
