"""The generated datasets: the social network and the chains."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from graphveil.data import datasets
from graphveil.data.datasets.chains import chains
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput


def kept_in_class(graph: Graph) -> float:
    sources, targets = graph.adj.edge_index()
    return float((graph.y[sources] == graph.y[targets]).float().mean())


@pytest.mark.parametrize("homophily", [0.1, 0.25, 0.5, 0.8, 1.0])
def test_homophily_is_the_share_of_edges_within_a_class(homophily: float) -> None:
    # 3000 nodes have about 18000 edges, so the share has a standard error of 0.004 at most.
    assert kept_in_class(social(homophily=homophily)) == pytest.approx(homophily, abs=0.02)


@pytest.mark.parametrize("degree", [4.0, 12.0])
def test_mean_degree_is_near_and_the_tail_heavy(degree: float) -> None:
    degrees = social(average_degree=degree).adj.in_degrees()
    assert 0.93 * degree < degrees.mean() <= degree
    assert degrees.max() > 6 * degrees.mean()
    assert degrees.std() > 1.5 * np.sqrt(degrees.mean())  # a graph of equal nodes would have about 1.0


def test_social_is_determined_by_its_seed() -> None:
    assert social(seed=3).fingerprint() == social(seed=3).fingerprint()
    assert social(seed=3).fingerprint() != social(seed=4).fingerprint()


def test_load_social_draws_the_split_not_the_graph() -> None:
    one, two = datasets.load("social", seed=1), datasets.load("Social", seed=2)
    assert one.fingerprint() == two.fingerprint()
    assert one.split_hash() != two.split_hash()


def test_shapes_and_classes() -> None:
    graph = social(num_nodes=101, num_classes=3, num_features=2, average_degree=5.0)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (101, 2, 3)
    assert sorted(torch.bincount(graph.y).tolist()) == [33, 34, 34]


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_classes": 1},
        {"num_nodes": 3},
        {"num_features": 0},
        {"average_degree": 0.0},
        {"average_degree": float("nan")},
        {"num_nodes": 20, "average_degree": 15.0},
        {"homophily": 1.2},
    ],
)
def test_social_refuses(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        social(**wrong)


def least_squares_accuracy(graph: Graph, x: np.ndarray) -> float:
    """Test accuracy of the best linear map from rows of x to classes."""
    train, test, y = graph.train.numpy(), graph.test.numpy(), graph.y.numpy()
    design = np.column_stack([x, np.ones(len(x))])
    weights = np.linalg.lstsq(design[train], np.eye(graph.num_classes)[y[train]], rcond=None)[0]
    return float(((design[test] @ weights).argmax(1) == y[test]).mean())


def test_neighbours_tell_what_a_profile_alone_does_not() -> None:
    # The features are Gaussian around the class centres, so a linear rule is all that an MLP can learn.
    graph = datasets.load("social")
    x = graph.x.numpy()
    alone = least_squares_accuracy(graph, x)
    degrees = graph.adj.in_degrees()[:, None] + 1
    together = least_squares_accuracy(graph, (graph.adj.to_scipy() @ x + x) / degrees)
    assert 0.58 < alone < 0.72
    assert together > 0.85


@pytest.mark.slow
def test_a_million_nodes_take_seconds() -> None:
    start = time.process_time()
    graph = social(num_nodes=1_000_000, average_degree=10.0)
    assert time.process_time() - start < 20
    assert graph.adj.in_degrees().mean() > 9.8


SIZES = {"chain-s": (8, 6, 8, 32), "chain-m": (10, 6, 10, 40), "chain-l": (15, 6, 15, 60), "chain-x": (15, 10, 25, 100)}


@pytest.mark.parametrize("name", SIZES)
def test_chains_are_paths_with_one_telling_head(name: str) -> None:
    length, count, train, test = SIZES[name]
    graph = datasets.load(name, split="public", seed=5)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (length * count, 5, 2)
    assert graph.num_edges == (length - 1) * count
    first = torch.arange(graph.num_nodes) % length == 0
    assert not graph.x[~first].any()
    assert torch.equal(graph.x[first], torch.eye(5)[graph.y[first]])
    assert torch.bincount(graph.y).tolist() == [length * count // 2] * 2
    sources, targets = graph.adj.edge_index()
    assert torch.all((sources - targets).abs() == 1)
    assert torch.equal(sources // length, targets // length)
    assert torch.equal(graph.y[sources], graph.y[targets])
    assert (int(graph.train.sum()), int(graph.test.sum())) == (train, test)
    assert int((graph.train | graph.val | graph.test).sum()) == graph.num_nodes


def test_chain_splits_follow_the_seed() -> None:
    one, again, two = (datasets.load("chain-s", split="public", seed=s).split_hash() for s in (1, 1, 2))
    assert one == again != two


@pytest.mark.parametrize(("length", "count", "features"), [(1, 6, 5), (8, 5, 5), (8, 6, 1), (8, 0, 5)])
def test_chains_refuse(length: int, count: int, features: int) -> None:
    with pytest.raises(InvalidInput):
        chains(length, count, num_features=features)
