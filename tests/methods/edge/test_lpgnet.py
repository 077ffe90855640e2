"""LPGNet: what a level costs, counts and stacks, how far an edge moves it, and what it reaches without noise."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.edge.lpgnet import LpgNet
from graphveil.methods.edge.parts.counts import cluster_degrees, log_counts
from graphveil.methods.method import METHODS
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Query, Reading
from serving import served_elsewhere

SMALL = LpgNet(hidden=8, head=8, epochs=3)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=900).random_split(seed=0)


def test_name() -> None:
    assert METHODS.find("lpgnet") is gv.methods.LpgNet


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize(("undirected", "moved"), [(True, 2), (False, 1)])
@pytest.mark.parametrize("reading", list(Reading))
def test_a_level_costs_the_counts_that_an_edge_changes(
    levels: int, undirected: bool, moved: int, reading: Reading
) -> None:
    public, adjacency = Public.blank(9, 4, 3, undirected), Adjacency.of("edge", undirected)
    plan = LpgNet(levels=levels).plan(public, adjacency, reading, 8.0)
    (step,) = plan.steps
    assert (step.act, step.times, plan.refuted) == (Tally(8.0, marks=moved), levels, ())
    assert isinstance(step.claim, PureCurve)
    assert step.claim.epsilon == pytest.approx(moved / 8.0, rel=1e-9)
    # Pure costs add up; at a small delta next to nothing is saved.
    assert accounting.epsilon(plan, 1e-12) == pytest.approx(levels * moved / 8.0, rel=1e-3)
    assert accounting.epsilon(plan, 1e-5) <= levels * moved / 8.0 * (1 + 1e-6)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_levels_share_the_budget_equally(levels: int, epsilon: float) -> None:
    public, adjacency = Public.blank(9, 4, 3), Adjacency.of("edge")
    plan = partial(LpgNet(levels=levels).plan, public, adjacency, Reading.SOUND)
    found = accounting.calibrate(plan, epsilon, 1e-5)
    assert found.noise == pytest.approx(2 * levels / epsilon, rel=2e-3)
    assert found.epsilon <= epsilon


@pytest.mark.parametrize("undirected", [True, False])
def test_an_edge_moves_exactly_what_is_charged(undirected: bool) -> None:
    """All graphs of three nodes, all clusterings and all neighbours: one count at each end, never less or more."""
    public, adjacency = Public.blank(3, 1, 2, undirected), Adjacency.of("edge", undirected)
    (step,) = LpgNet().plan(public, adjacency, Reading.SOUND, 2.0).steps
    pairs = list(combinations(range(3), 2) if undirected else permutations(range(3), 2))
    moves = set()
    for present in product([False, True], repeat=len(pairs)):
        links = np.zeros((3, 3), dtype=bool)
        for (u, v), there in zip(pairs, present, strict=True):
            links[u, v] |= there
            links[v, u] |= there and undirected
        here = Sketch(links, torch.zeros(3, 1), torch.zeros(3, dtype=torch.int64), undirected)
        for (u, v), clusters in product(pairs, product([0, 1], repeat=3)):
            query, outs = partial(cluster_degrees, clusters=torch.tensor(clusters), count=2), []
            for sealed in (here.sealed(public), here.toggled(u, v).sealed(public)):
                with sealed.opened():
                    outs.append(step.act.apply(sealed, query, Seeded(3)))
            moves.add(int((outs[0] - outs[1]).abs().sum()))
            assert int((outs[0] != outs[1]).sum()) == (2 if undirected else 1)
    assert moves == {2 if undirected else 1}
    charged = step.claim
    assert isinstance(charged, PureCurve)
    assert max(moves) <= charged.epsilon * 2.0
    assert max(moves) > 0.9 * charged.epsilon * 2.0, "a sensitivity ten per cent too small would go unnoticed"


class Watched(Session):
    """Keeps the clusters that were asked about, and what was released."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.asked: list[Tensor] = []
        self.told: list[Tensor] = []

    def release(self, name: str, query: Query) -> Tensor:
        assert isinstance(query, partial)
        assert query.func is cluster_degrees
        self.asked.append(query.keywords["clusters"])
        self.told.append(super().release(name, query))
        return self.told[-1]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_every_level_counts_by_the_classes_of_the_one_before(graph: Graph, levels: int) -> None:
    method, adjacency = replace(SMALL, levels=levels), Adjacency.of("edge")
    public, sealed = graph.seal(adjacency)
    session = Watched(public, sealed, method.plan(public, adjacency, Reading.SOUND, 0.0), Seeded(0))
    state = method.fit(session)
    assert session.left("counts") == 0
    links = torch.from_numpy(graph.adj.to_scipy().toarray()).double()
    for said, counts in zip(session.asked, session.told, strict=True):
        clusters = torch.nn.functional.one_hot(said, graph.num_classes).double()
        assert torch.equal(counts.reshape(-1, graph.num_classes).double(), links @ clusters)
    networks = {f"level {level}" for level in range(1, levels + 1)}
    assert {name.split(".")[0] for name in state} == {"encoder", "scaling", "logits", *networks}
    assert state[f"level {levels}.layers.0.weight"].shape == (8, 2 * levels * graph.num_classes)


def test_counts_are_read_on_one_scale() -> None:
    rows = log_counts(torch.tensor([[-7, 0, 3], [0, 0, 100]]), 2.0)
    assert torch.allclose(rows.sum(dim=1), torch.zeros(2), atol=1e-5)
    assert rows[0, 0] == rows[0, 1] < rows[0, 2]
    assert float(rows.std()) == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [{"levels": 0}, {"levels": 1.5}, {"levels": True}, {"hidden": 0}, {"scale": "odd"}])
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(gv.InvalidInput):
        LpgNet(**wrong)


def test_nodes_are_refused_with_the_reason(graph: Graph) -> None:
    with pytest.raises(gv.Unsupported, match="row of its own"):
        gv.train(graph, SMALL, epsilon=1.0, unit="node", seed=0)


@pytest.mark.parametrize("levels", [1, 2])
def test_weights_serve_this_graph_and_others_and_a_seed_fixes_all(graph: Graph, levels: int) -> None:
    other = replace(social(num_nodes=300, seed=1).random_split(seed=0), name="other")
    release, elsewhere = served_elsewhere(replace(SMALL, levels=levels), graph, other)
    assert elsewhere.certificate.epsilon < release.certificate.epsilon


def test_a_single_class_and_a_graph_without_edges_work(graph: Graph) -> None:
    alone = replace(graph, y=torch.zeros_like(graph.y), num_classes=1, adj=Csr.empty(graph.num_nodes))
    release = gv.train(alone, SMALL, epsilon=1.0, delta=1e-5, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] == 1.0


def test_directed_arcs_cost_half(graph: Graph) -> None:
    directed = replace(graph, undirected=False)
    both = [gv.train(one, SMALL, noise=4.0, delta=1e-5, unit="edge", seed=0) for one in (graph, directed)]
    assert both[0].certificate.epsilon == pytest.approx(2 * both[1].certificate.epsilon, rel=1e-2)


@pytest.mark.parametrize("levels", [1, 2])
def test_without_noise_edges_help(graph: Graph, levels: int) -> None:
    floor = gv.train(graph, gv.methods.Mlp(), epsilon=1.0, unit="edge", seed=0).evaluate("test")["accuracy"]
    release = gv.train(graph, LpgNet(levels=levels), epsilon=math.inf, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] > floor + 0.05
