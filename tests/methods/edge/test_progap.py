"""ProGAP: what a stage costs, how stages build on one another, and what it reaches without noise."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

import graphveil as gv
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.methods.edge.gap import Gap
from graphveil.methods.edge.progap import ProGap
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Query, Reading
from serving import served_elsewhere

SMALL = ProGap(stages=2, hidden=8, epochs=3)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=900).random_split(seed=0)


@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("reading", list(Reading))
def test_a_stage_costs_what_a_hop_of_gap_costs(stages: int, undirected: bool, reading: Reading) -> None:
    public, adjacency = Public.blank(9, 4, 3, undirected), Adjacency.of("edge", undirected)
    (step,) = ProGap(stages=stages).plan(public, adjacency, reading, 2.5).steps
    (hop,) = Gap(hops=stages).plan(public, adjacency, reading, 2.5).steps
    assert (step.act, step.claim, step.times, step.refuted) == (hop.act, hop.claim, hop.times, hop.refuted)
    moved = math.sqrt(2) if undirected and reading is Reading.SOUND else 1.0
    assert step.claim == GaussianCurve(moved / 2.5)


class Watched(Session):
    """Keeps the rows that every sum was asked of."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.asked: list[torch.Tensor] = []

    def release(self, name: str, query: Query) -> torch.Tensor:
        assert isinstance(query, partial)
        self.asked.append(query.keywords["rows"])
        return super().release(name, query)


@pytest.mark.parametrize(("embedding", "columns"), [(0, 4), (6, 6)])
def test_every_stage_sums_unit_rows_of_the_one_before(graph: Graph, embedding: int, columns: int) -> None:
    method, adjacency = replace(SMALL, stages=3, embedding=embedding), Adjacency.of("edge")
    public, sealed = graph.seal(adjacency)
    session = Watched(public, sealed, method.plan(public, adjacency, Reading.SOUND, 0.0), Seeded(0))
    state = method.fit(session)
    assert [rows.shape for rows in session.asked] == [(graph.num_nodes, columns)] * 3
    for rows in session.asked:
        assert torch.allclose(rows.norm(dim=1), torch.ones(graph.num_nodes), atol=1e-4)
    assert not torch.allclose(session.asked[0], session.asked[1], atol=1e-2)
    assert {name.split(".")[0] for name in state} == {"encoder", "scaling", "stage 1", "stage 2", "stage 3", "logits"}


@pytest.mark.parametrize("wrong", [{"stages": 0}, {"stages": 1.5}, {"embedding": -1}])
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(gv.InvalidInput):
        ProGap(**wrong)


def test_nodes_are_refused_with_the_reason(graph: Graph) -> None:
    with pytest.raises(gv.Unsupported, match="row of its own"):
        gv.train(graph, SMALL, epsilon=1.0, unit="node", seed=0)


@pytest.mark.parametrize("embedding", [0, 6])
def test_weights_serve_this_graph_and_others_and_a_seed_fixes_all(graph: Graph, embedding: int) -> None:
    other = social(num_nodes=300, seed=1).random_split(seed=0)
    served_elsewhere(replace(SMALL, embedding=embedding), graph, other)


@pytest.mark.parametrize("method", [ProGap(), ProGap(embedding=16)])
def test_without_noise_edges_help(graph: Graph, method: ProGap) -> None:
    floor = gv.train(graph, gv.methods.Mlp(), epsilon=1.0, unit="edge", seed=0).evaluate("test")["accuracy"]
    release = gv.train(graph, method, epsilon=math.inf, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] > floor + 0.05
