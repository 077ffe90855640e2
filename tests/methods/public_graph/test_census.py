"""Census: what a node adds is bounded, absent nodes add nothing, and the student finds the classes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import graphveil as gv
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from graphveil.methods.class_sums import ClassSums
from graphveil.methods.public_graph.census import Census, rows_of


def two_graphs(seed: int = 0) -> Graph:
    return gv.datasets.load("social", split="two_graphs", seed=seed)


def test_rows_are_no_longer_than_one() -> None:
    alone = torch.nn.functional.normalize(torch.randn(50, 7, generator=torch.Generator().manual_seed(0)), dim=1)
    assert float(rows_of(alone).norm(dim=1).max()) == pytest.approx(1.0)


@pytest.mark.parametrize("clip", [1.0, 0.3])
def test_blanking_a_node_moves_the_sums_by_one_clip_at_most(clip: float) -> None:
    rows = 5 * torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(20) % 3
    whole = ClassSums(rows, labels, 3).clipped_sum(clip)
    moves = []
    for node in range(20):
        blank = labels.clone()
        blank[node] = -1
        moves.append(float((ClassSums(rows, blank, 3).clipped_sum(clip) - whole).norm()))
    assert max(moves) == pytest.approx(clip)


def test_sums_are_those_of_the_classes() -> None:
    rows, labels = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), torch.tensor([1, -1, 1])
    sums = ClassSums(rows, labels, 2).clipped_sum(1.0).reshape(2, 2)
    assert torch.allclose(sums, torch.tensor([[0.0, 0.6], [0.0, 0.8]], dtype=torch.float64))


def test_it_labels_the_public_graph_much_better_than_chance_at_epsilon_one() -> None:
    graph = two_graphs()
    release = gv.train(graph, Census(), epsilon=1, unit="node", seed=0)
    assert release.certificate.epsilon <= 1
    largest = float(torch.bincount(graph.public_graph.y[graph.public_graph.test]).max() / graph.public_graph.test.sum())
    assert release.evaluate("test")["accuracy"] > largest + 0.2


def test_labels_of_the_public_graph_are_not_read() -> None:
    graph = two_graphs()
    assert graph.public_graph is not None
    other = replace(graph.public_graph, y=(graph.public_graph.y + 1) % graph.num_classes)
    first, second = (
        gv.train(g, Census(), noise=1.0, unit="node", seed=3).state for g in (graph, graph.with_public(other))
    )
    assert torch.equal(first["student.weights"], second["student.weights"])


@pytest.mark.parametrize(
    "wrong", [{"width": 0}, {"width": 2.5}, {"ridge": 0.0}, {"ridge": math.nan}, {"scale": "huge"}]
)
def test_bad_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        Census(**wrong)


def test_a_missing_public_graph_is_refused() -> None:
    with pytest.raises(InvalidInput, match="public graph"):
        gv.train(gv.datasets.load("social"), Census(), epsilon=1, unit="node", seed=0)
