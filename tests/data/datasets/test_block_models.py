"""Graphs of the kinds that users have: what they are is fixed, and they are neither trivial nor hopeless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graphveil.data import datasets
from graphveil.data.datasets.block_models import MODELS, BlockModel
from graphveil.data.graph import Graph

FIXED = {
    "unequal": (4_000, 19_905, 2, 50, 3_600, 0.8860),
    "ten-features": (4_000, 19_731, 5, 10, 1_379, 0.6141),
    "sixty-classes": (6_000, 28_781, 60, 50, 426, 0.3939),
    "reciprocal": (4_000, 39_648, 5, 50, 1_379, 0.5384),
    "thirty-thousand": (30_000, 149_676, 7, 50, 9_000, 0.5943),
}
"""Nodes, edges, classes, features, nodes of the largest class, share of the edges within a class."""


def kept_in_class(graph: Graph) -> float:
    sources, targets = graph.adj.edge_index()
    return float((graph.y[sources] == graph.y[targets]).double().mean())


def answered(graph: Graph) -> float:
    """Share of the arcs that have one back."""
    here = graph.adj.to_scipy()
    return float(here.multiply(here.T).sum() / here.sum())


@pytest.mark.parametrize("name", FIXED)
def test_what_a_graph_is_does_not_change(name: str) -> None:
    graph = datasets.load(name)
    counts = (graph.num_nodes, graph.num_edges, graph.num_classes, graph.num_features, int(graph.y.bincount().max()))
    assert (*counts, round(kept_in_class(graph), 4)) == FIXED[name]
    assert graph.undirected is (name != "reciprocal")
    assert graph.name == name
    degrees = graph.adj.in_degrees()
    assert degrees.max() > 8 * degrees.mean(), "a heavy tail"
    assert graph.x.norm(dim=1).mean() == pytest.approx((1 + MODELS[name].signal ** 2) ** 0.5, rel=0.05)


def test_every_graph_of_the_folder_is_fixed_here_and_listed() -> None:
    assert set(FIXED) == set(MODELS)
    rows = {row["name"]: row for row in datasets.describe()}
    assert {name: (rows[name]["nodes"], rows[name]["edges"]) for name in FIXED} == {
        name: fixed[:2] for name, fixed in FIXED.items()
    }


def test_a_graph_follows_from_its_seed() -> None:
    model = MODELS["reciprocal"]
    assert model.graph("a", 3).fingerprint() == model.graph("a", 3).fingerprint()
    assert model.graph("a", 3).fingerprint() != model.graph("a", 4).fingerprint()


def test_nearly_half_of_the_arcs_of_reciprocal_have_one_back() -> None:
    graph = datasets.load("reciprocal")
    assert answered(graph) == pytest.approx(0.46, abs=0.01)
    assert not graph.undirected


@pytest.mark.parametrize(("assortative", "share"), [(1.0, 1.0), (0.5, 0.6), (0.0, 0.2), (-0.5, 0.1), (-1.0, 0.0)])
def test_assortative_says_how_many_edges_stay_in_their_class(assortative: float, share: float) -> None:
    model = BlockModel((1,) * 5, assortative=assortative)
    assert kept_in_class(model.graph("a")) == pytest.approx(share, abs=0.02)


def test_a_small_class_has_no_more_edges_than_its_share() -> None:
    graph = replace(MODELS["unequal"], tail=None).graph("a")
    degrees = torch.from_numpy(graph.adj.in_degrees()).double()
    assert degrees[graph.y == 1].mean() == pytest.approx(float(degrees.mean()), rel=0.05)


def test_a_class_has_two_kinds_which_edges_follow_too() -> None:
    graph = replace(MODELS["ten-features"], signal=50.0, assortative=1.0).graph("a")
    rows = graph.x[graph.y == 0].numpy()
    apart = np.linalg.norm(rows - rows[0], axis=1) > 10
    assert 0.4 < apart.mean() < 0.6
    sources, targets = graph.adj.edge_index()
    assert float((graph.x[sources] - graph.x[targets]).norm(dim=1).max()) < 10


def test_the_page_tells_what_the_graphs_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "leaderboard.md").read_text()
    for name, (nodes, edges, classes, features, largest, within) in FIXED.items():
        counted = f"{edges:,} arcs" if name == "reciprocal" else f"{edges:,}"
        row = f"| `{name}` | {nodes:,} | {counted} | {classes} | {features} | {largest / nodes:.1%} | {within:.1%} |"
        assert row.replace("%", " %") in page
