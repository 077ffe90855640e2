"""GAP: what a hop costs and releases, both architectures, and what they reach without noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

import graphveil as gv
from graphveil.data import datasets
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.methods.edge.gap import Gap
from graphveil.nn.jumping import beliefs
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Reading

AUTHORS = Gap(hops=2, embedding=16, jumping=True)
"""The architecture of GAP's authors."""
SMALL: dict[str, Any] = {"hidden": 8, "head": 8, "epochs": 3}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=900).random_split(seed=0)


@pytest.mark.parametrize("hops", [1, 2, 5])
@pytest.mark.parametrize(
    ("undirected", "reading", "moved"),
    [
        (True, Reading.SOUND, math.sqrt(2)),
        (True, Reading.PUBLISHED, 1.0),
        (False, Reading.SOUND, 1.0),
        (False, Reading.PUBLISHED, 1.0),
    ],
)
def test_a_hop_costs_the_rows_that_an_edge_moves(hops: int, undirected: bool, reading: Reading, moved: float) -> None:
    plan = Gap(hops=hops).plan(Public.blank(9, 4, 3, undirected), Adjacency.of("edge", undirected), reading, 3.0)
    (step,) = plan.steps
    assert (step.claim, step.times) == (GaussianCurve(moved / 3.0), hops)
    assert bool(step.refuted) == (undirected and reading is Reading.PUBLISHED)


def test_architectures_cost_the_same() -> None:
    public, adjacency = Public.blank(9, 4, 3), Adjacency.of("edge")
    plans = [method.plan(public, adjacency, Reading.SOUND, 7.4613) for method in (Gap(hops=2), AUTHORS)]
    assert plans[0] == plans[1]
    assert accounting.epsilon(plans[1], 1e-5) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(("hops", "embedding", "columns"), [(1, 0, 4), (3, 0, 12), (1, 7, 7), (2, 5, 10)])
def test_released_sums_are_unit_rows_of_neighbours_sums(graph: Graph, hops: int, embedding: int, columns: int) -> None:
    method, adjacency = Gap(hops=hops, embedding=embedding), Adjacency.of("edge")
    public, sealed = graph.seal(adjacency)
    session = Session(public, sealed, method.plan(public, adjacency, Reading.SOUND, 0.0), Seeded(0))
    start = torch.nn.functional.normalize(torch.randn(graph.num_nodes, embedding or graph.num_classes), dim=1)
    seen = method.released(session, start)
    assert seen.shape == (graph.num_nodes, columns)
    assert method.width(graph.num_features, graph.num_classes) == columns
    links = torch.from_numpy(graph.adj.to_scipy().toarray()).double()
    rows = start.double()
    for hop in seen.unflatten(1, (hops, -1)).unbind(dim=1):
        rows = torch.nn.functional.normalize(links @ rows, dim=1)
        assert torch.allclose(hop.double(), rows, atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hops": 0}, {"hops": 1.5}, {"embedding": -1}, {"embedding": 2.5}, {"hidden": -1},
        {"hidden": 0, "embedding": 4},
    ],
)  # fmt: skip
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(gv.InvalidInput):
        Gap(**wrong)


def test_nodes_are_refused_with_the_reason(graph: Graph) -> None:
    with pytest.raises(gv.Unsupported, match=r"row of its own .* not stable.* docs/methods/gap\.md"):
        gv.train(graph, Gap(), epsilon=1.0, unit="node", seed=0)


@pytest.mark.parametrize(
    "method",
    [Gap(**SMALL), Gap(hops=2, embedding=6, jumping=True, **SMALL), Gap(hops=2, hidden=0, head=8)],
)
def test_weights_serve_another_graph_and_a_seed_fixes_all(graph: Graph, method: Gap) -> None:
    release = gv.train(graph, method, noise=2.0, delta=1e-5, unit="edge", seed=3)
    again = gv.train(graph, method, noise=2.0, delta=1e-5, unit="edge", seed=3)
    assert torch.equal(release.state["logits"], again.state["logits"])
    other = replace(social(num_nodes=300, seed=1).random_split(seed=0), name="other")
    served = gv.infer(release, other, noise=4.0, delta=1e-5, seed=0)
    assert served.predict().shape == (300,)
    assert served.certificate.epsilon < release.certificate.epsilon


@pytest.mark.parametrize("method", [Gap(), Gap(hops=2, jumping=True), AUTHORS])
def test_without_noise_edges_help(graph: Graph, method: Gap) -> None:
    floor = gv.train(graph, gv.methods.Mlp(), epsilon=1.0, unit="edge", seed=0).evaluate("test")["accuracy"]
    release = gv.train(graph, method, epsilon=math.inf, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] > floor + 0.05


@pytest.fixture(scope="module")
def chain() -> Graph:
    return datasets.load("chain-s", split="public", seed=0)


def test_on_chains_an_encoder_that_met_no_first_node_makes_all_alike(chain: Graph) -> None:
    release = gv.train(chain, Gap(hops=15, scale="none"), epsilon=math.inf, unit="edge", seed=0)
    said = release.state["logits"].view(6, 8, 2)[:, 1:]
    assert torch.allclose(said, said[:1], atol=1e-5)


@pytest.mark.parametrize("jumping", [False, True])
def test_without_an_encoder_chains_are_learnt(chain: Graph, jumping: bool) -> None:
    method = Gap(hops=15, hidden=0, jumping=jumping, scale="none")
    release = gv.train(chain, method, epsilon=math.inf, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] == 1.0


def test_beliefs_in_two_classes_are_a_sign() -> None:
    rows = beliefs(torch.tensor([[9.0, -9.0], [0.1, 0.0], [0.0, 0.1]]))
    assert torch.allclose(rows, torch.tensor([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]) / math.sqrt(2))
