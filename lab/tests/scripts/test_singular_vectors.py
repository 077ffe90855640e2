"""The benchmark of singular vectors: it finds the edges that move them, and the row that tells an edge."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import singular_vectors
from graphveil.auditing.game import Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.graph import Graph
from singular_vectors import Moved, basis, edges


@pytest.fixture(scope="module")
def graph() -> Graph:
    """60 nodes, about 100 random edges, and one node with a single edge."""
    rng = np.random.default_rng(0)
    drawn = {(int(min(a, b)), int(max(a, b))) for a, b in rng.integers(0, 59, (100, 2)) if a != b}
    return small_graph([*sorted(drawn), (0, 59)], torch.ones(60, 1), torch.arange(60) % 2)


def test_the_row_of_a_pendant_node_tells_its_edge_though_cosines_are_near_one() -> None:
    row = singular_vectors.court()
    assert row["mean"] > 0.99
    assert row["row with"] > 0.1
    assert row["row without"] == 0.0


def test_the_search_finds_an_edge_that_few_are_worse_than(graph: Graph) -> None:
    joined = edges(graph)
    assert len(joined) == graph.num_edges
    before = basis(graph.adj, singular_vectors.RANK)[1]
    means = [Moved.by(Pair.without_edge(graph, *map(int, edge)), int(edge[0]), before).mean for edge in joined]
    kinds = {row["removed edge"]: row for row in singular_vectors.neighbours("small", graph, removed=5)}
    assert kinds["searched for"]["mean"] <= np.quantile(means, 0.05) + 1e-6
    assert min(means) - 1e-6 <= kinds["random, worst of 5"]["mean"] <= kinds["random, mean of 5"]["mean"]
    assert kinds["the only edge of a node"]["row without"] == 0.0 < kinds["the only edge of a node"]["row with"]


def test_pairs_of_a_graph_are_told_from_others(graph: Graph) -> None:
    joined = edges(graph)
    absent = np.array([[58, 59], [59, 57]])
    assert np.array_equal(singular_vectors.both(graph, np.concatenate([absent, joined[:, ::-1]])), joined[:, ::-1])
