"""Louvain's communities of small dense graphs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from graphveil.data.arcs import Ids
from graphveil.nn.louvain import louvain
from graphveil.vocabulary import Floats


def modularity(weights: Floats, home: Ids) -> float:
    degree, total = weights.sum(axis=1), weights.sum()
    same = home[:, None] == home
    return float(((weights - np.outer(degree, degree) / total) * same).sum() / total)


def ring_of_cliques(cliques: int, size: int) -> Floats:
    weights: Floats = np.kron(np.eye(cliques), np.ones((size, size)) - np.eye(size))  # type: ignore[assignment]
    for first in range(cliques):
        one, other = first * size, (first + 1) % cliques * size + 1
        weights[one, other] = weights[other, one] = 1.0
    return weights


def test_cliques_are_found() -> None:
    home = louvain(ring_of_cliques(6, 5))
    assert home.tolist() == np.repeat(np.arange(6), 5).tolist()


def test_the_best_of_all_partitions_is_nearly_reached() -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        weights = np.triu(rng.random((6, 6)) * (rng.random((6, 6)) < 0.5))
        weights = weights + weights.T + 1e-3
        best = max(modularity(weights, np.array(home)) for home in product(range(3), repeat=6))
        assert modularity(weights, louvain(weights)) >= best - 0.05


@pytest.mark.parametrize("size", [0, 1, 3])
def test_nothing_is_joined_without_weights(size: int) -> None:
    assert louvain(np.zeros((size, size))).tolist() == list(range(size))


def test_communities_are_numbered_without_gaps() -> None:
    rng = np.random.default_rng(1)
    weights = np.triu(rng.laplace(size=(60, 60)).clip(min=0))
    home = louvain(weights + weights.T)
    assert set(home.tolist()) == set(range(int(home.max()) + 1))
