"""PrivGraph: what it asks, what it spends, and the graphs it draws."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Probe, Sketch

import graphveil as gv
from communities import communities
from coupled import every_small_sketch
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.community_assignment import Settling
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.edge.privgraph import PrivGraph, measured, super_edges
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading

SMALL = PrivGraph(hidden=8, epochs=5)
PAPER = replace(SMALL, communities="louvain", move_share=1 / 3, group=4)
BOTH = [SMALL, PAPER]


def plan_of(method: PrivGraph, noise: float, undirected: bool = True, reading: Reading = Reading.SOUND) -> Plan:
    return method.plan(Public.blank(50, 5, 3, undirected), Adjacency.of("edge", undirected), reading, noise)


def release(method: PrivGraph, graph: Graph, noise: float, seed: int = 0) -> Csr:
    adjacency = Adjacency.of("edge", graph.undirected)
    public, sealed = graph.seal(adjacency)
    torch.manual_seed(seed)
    return method.arcs(Session(public, sealed, method.plan(public, adjacency, Reading.SOUND, noise), Seeded(seed)))


# --- Budgets. ---


@pytest.mark.parametrize("method", BOTH, ids=["public", "louvain"])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_shares_add_up_to_the_budget(method: PrivGraph, undirected: bool, epsilon: float) -> None:
    found = accounting.calibrate(partial(plan_of, method, undirected=undirected), epsilon, 1e-5)
    assert epsilon * 0.999 <= found.epsilon <= epsilon
    assert accounting.epsilon(plan_of(method, 1 / epsilon, undirected), 1e-9) == pytest.approx(epsilon, rel=0.02)


def test_the_paper_splits_into_three_equal_parts() -> None:
    plan = plan_of(PAPER, 0.5)
    assert [step.name for step in plan.steps] == ["start", "move", "extract"]
    assert [step.claim.epsilon for step in plan.steps] == pytest.approx([2 / 3] * 3, abs=1e-6)  # type: ignore[attr-defined]
    assert plan == plan_of(PAPER, 0.5, reading=Reading.SOUND)
    published = plan_of(PAPER, 0.5, reading=Reading.PUBLISHED)
    assert published.steps == plan.steps
    assert not published.refuted


def test_no_noise_costs_everything() -> None:
    for method in BOTH:
        assert accounting.epsilon(plan_of(method, 0.0), 1e-5) == math.inf


# --- Sensitivities, by brute force. ---


@pytest.mark.parametrize("undirected", [True, False])
def test_every_small_neighbour_moves_the_counts_by_two_marks(undirected: bool) -> None:
    """Graphs of two to five nodes, one toggle each, nodes in two communities, in one, and each in its own."""
    adjacency, seen = Adjacency.of("edge", undirected), set()
    for number, sketch in enumerate(every_small_sketch(0, 16)):
        nodes = len(sketch.y)
        here = sketch if undirected else replace(sketch, links=np.tril(sketch.links), undirected=False)
        u, v = list(combinations(range(nodes), 2))[number % (nodes * (nodes - 1) // 2)]
        graph = Graph(  # type: ignore[call-arg]
            here.x, here.adj(), here.y, 2, undirected, *[torch.zeros(nodes, dtype=torch.bool)] * 3, "s", "none"
        )
        public, sealed = graph.seal(adjacency)
        near = here.toggled(u, v).sealed(public)
        for home in (np.arange(nodes) % 2, np.zeros(nodes, np.int64), np.arange(nodes)):
            queries = [
                (Tally(0.0, marks=2), partial(measured, home=home), 2.0),
                (Tally(0.0), partial(super_edges, groups=home, count=int(home.max()) + 1), 1.0),
            ]
            for act, query, claimed in queries:
                outs = []
                for each in (sealed, near):
                    with each.opened():
                        outs.append(act.apply(each, query, Seeded(0)))
                moved = float((outs[0] - outs[1]).abs().sum())
                seen.add((claimed, moved))
    assert seen == {(2.0, 2.0), (1.0, 1.0)}


def test_what_is_measured() -> None:
    links = np.zeros((5, 5), dtype=bool)
    for u, v in ((0, 1), (1, 2), (0, 3), (2, 4), (3, 4)):
        links[u, v] = links[v, u] = True
    sketch = Sketch(links, torch.zeros(5, 2), torch.tensor([0, 1, 2, 0, 1]), True)
    _, sealed = sketch.graph().seal(Adjacency.of("edge"))
    with sealed.opened():
        asked = measured(sealed, np.array([0, 0, 0, 1, 2]))
        told = Tally(0.0, marks=2).apply(sealed, lambda _: asked, Seeded(0)).tolist()
        groups = super_edges(sealed, np.array([0, 0, 1, 1, 1]), 2)
        between = Tally(0.0).apply(sealed, lambda _: groups, Seeded(0)).tolist()
    # Degrees inside; then communities (1, 0), (2, 0), (2, 1), every edge twice.
    assert told == [1, 2, 1, 0, 0, 2, 2, 2]
    # Groups (0, 0), (1, 0), (1, 1).
    assert between == [1, 2, 2]


def test_a_search_would_notice_a_move_that_is_charged_once() -> None:
    """Both ends of an edge move: half the claim is exceeded."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(40):
        sketch = Sketch.random(rng, undirected=True)
        public, sealed = sketch.graph().seal(Adjacency.of("edge"))
        plan = PAPER.plan(public, Adjacency.of("edge"), Reading.SOUND, 1.0)
        u, v = rng.choice(len(sketch.y), size=2, replace=False)
        probe = Probe(
            Session(public, sealed, plan, Seeded(1)),
            sketch.sealed(public),
            sketch.toggled(int(u), int(v)).sealed(public),
        )
        PAPER.arcs(probe)
        worst = max(worst, probe.worst)
    assert worst == pytest.approx(1.0, abs=1e-6), "the counts reach their claims"
    assert isinstance(plan.step("move").act, Settling)


# --- Graphs. ---


@pytest.mark.parametrize("method", BOTH, ids=["public", "louvain"])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0, 1e4, 1e12])
def test_released_graphs_are_valid(method: PrivGraph, undirected: bool, noise: float) -> None:
    graph = replace(communities(90, seed=2), undirected=undirected)
    out = release(replace(method, most=500), graph, noise)
    assert not out.has_loops()
    assert out.is_symmetric() or not undirected
    assert out.num_nodes == 90
    assert out.num_arcs / (2 if undirected else 1) < 700


def test_little_noise_gives_a_graph_like_the_true_one() -> None:
    graph = communities(300, seed=3, lift=4.0).random_split(seed=0)
    out = release(SMALL, graph, 0.02)
    assert out.num_arcs == pytest.approx(graph.adj.num_arcs, rel=0.1)

    def same(adj: Csr) -> float:
        return float(
            (graph.y[torch.from_numpy(adj.indices)] == graph.y[torch.from_numpy(adj.targets())]).double().mean()
        )

    assert same(graph.adj) > 0.75
    assert same(out) > 0.6
    assert np.corrcoef(out.in_degrees(), graph.adj.in_degrees())[0, 1] > 0.3


@pytest.mark.parametrize("method", BOTH, ids=["public", "louvain"])
def test_seeds_repeat(method: PrivGraph) -> None:
    graph = communities(60, seed=4).random_split(seed=0)
    first, again, other = (release(method, graph, 1.0, seed).indices.tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other
    trained = [gv.train(graph, method, epsilon=1.0, delta=1e-5, unit="edge", seed=3) for _ in range(2)]
    assert torch.equal(trained[0].predict_proba(), trained[1].predict_proba())


@pytest.mark.parametrize("method", BOTH, ids=["public", "louvain"])
@pytest.mark.parametrize(("nodes", "edges", "classes"), [(2, 0, 1), (2, 1, 2), (1, 0, 1), (7, 0, 3), (5, 4, 1)])
def test_tiny_graphs(method: PrivGraph, nodes: int, edges: int, classes: int) -> None:
    path = np.arange(edges)
    adj = Csr.from_edge_index(np.concatenate([path, path + 1]), np.concatenate([path + 1, path]), nodes)
    every, none = torch.ones(nodes, dtype=torch.bool), torch.zeros(nodes, dtype=torch.bool)
    y = torch.arange(nodes) % classes
    graph = Graph(torch.randn(nodes, 3), adj, y, classes, True, every, none, none, "tiny", "all train")
    for epsilon in (0.1, 5.0):
        told = gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit="edge", seed=0)
        assert told.predict().shape == (nodes,)


@pytest.mark.parametrize("method", BOTH, ids=["public", "louvain"])
def test_another_graph_spends_its_own_budget_and_its_labels_are_not_read(method: PrivGraph) -> None:
    graph, other = communities(60, seed=4).random_split(seed=0), replace(communities(90, seed=5), name="other")
    trained = gv.train(graph, method, epsilon=2.0, delta=1e-5, unit="edge", seed=0)
    served, again = (
        gv.infer(trained, one, epsilon=1.0, delta=1e-5, seed=0) for one in (other, replace(other, y=other.y.flip(0)))
    )
    assert len(served.predict()) == 90
    assert torch.equal(served.predict_proba(), again.predict_proba())
    assert [step.name for step in served.certificate.plan.steps][-2:] == ["move", "extract"]


def test_more_noise_than_can_be_drawn_is_refused_in_the_plan() -> None:
    for method in BOTH:
        with pytest.raises(InvalidInput, match="2\\^50"):
            plan_of(method, 1e30)


@pytest.mark.parametrize(
    "wrong",
    [
        {"communities": "none"},
        {"move_share": 0.0},
        {"move_share": 1.0},
        {"move_share": math.nan},
        {"communities": "louvain", "move_share": 0.7},
        {"start_share": 0.0},
        {"lean": -1.0},
        {"lean": math.inf},
        {"lean": math.nan},
        {"group": 0},
        {"group": 2.5},
        {"most": 0},
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        PrivGraph(**wrong)
