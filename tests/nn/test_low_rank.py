"""The core of a graph in public rows, and the largest entries of a low-rank matrix that is never formed."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import torch

from graphveil.data.arcs import Csr
from graphveil.nn import low_rank
from graphveil.nn.low_rank import Core, Degrees, EdgeCount, flat, largest_pairs, unflat


def random_graph(nodes: int, undirected: bool, seed: int = 0) -> Csr:
    links = np.random.default_rng(seed).random((nodes, nodes)) < 0.3
    links = np.triu(links, 1) | np.triu(links, 1).T if undirected else links & ~np.eye(nodes, dtype=bool)
    targets, sources = np.nonzero(links)
    return Csr.from_edge_index(sources, targets, nodes)


@pytest.mark.parametrize("undirected", [True, False])
def test_the_core_is_that_of_the_dense_matrix(undirected: bool) -> None:
    adj, rows = random_graph(12, undirected), torch.nn.functional.normalize(torch.randn(12, 4), dim=1) / 2
    dense = torch.from_numpy(adj.to_scipy().toarray()).double()
    wanted = rows.double().T @ dense @ rows.double()
    told = Core(adj, rows, undirected).clipped_sum(1.0)
    assert torch.allclose(unflat(told, 4) if undirected else told.reshape(4, 4), wanted)
    assert float(told.norm()) == pytest.approx(float(wanted.norm()))


@pytest.mark.parametrize("undirected", [True, False])
def test_an_edge_moves_the_core_by_one_clip_at_most_and_parallel_rows_attain_it(undirected: bool) -> None:
    torch.manual_seed(0)
    arcs = np.array([[0, 1], [1, 0]][: 2 if undirected else 1])
    edge = Csr.from_edge_index(arcs[:, 0], arcs[:, 1], 2)
    for clip in (0.02, 1.0, 7.0):
        moves = [
            float(Core(edge, 10 ** (3 * torch.rand(1) - 1) * torch.randn(2, 3), undirected).clipped_sum(clip).norm())
            for _ in range(300)
        ]
        assert max(moves) <= clip * (1 + 1e-9)
        assert float(Core(edge, torch.ones(2, 3) * 1e3, undirected).clipped_sum(clip).norm()) == pytest.approx(clip)
        # Rows that are orthogonal move it less, by sqrt(2) if undirected.
        apart = Core(edge, 1e3 * torch.eye(2), undirected).clipped_sum(clip).norm()
        assert float(apart) == pytest.approx(clip / math.sqrt(2) if undirected else clip)


def test_rows_that_are_not_finite_count_as_nothing() -> None:
    edge = Csr.from_edge_index(np.array([0, 1]), np.array([1, 0]), 2)
    assert float(Core(edge, torch.tensor([[math.nan], [1.0]]), True).clipped_sum(1.0).norm()) == 0


def test_flat_keeps_lengths_and_comes_back() -> None:
    core = torch.randn(5, 5, dtype=torch.float64)
    core = core + core.T
    assert float(flat(core).norm()) == pytest.approx(float(core.norm()))
    assert torch.allclose(unflat(flat(core), 5), core)


@pytest.mark.parametrize("undirected", [True, False])
def test_an_edge_moves_the_degrees_by_exactly_one_clip(undirected: bool) -> None:
    links = random_graph(9, undirected).to_scipy().toarray()
    before = Degrees(_graph(links), undirected).clipped_sum(3.0)
    assert torch.allclose(before, torch.from_numpy(3.0 * links.sum(axis=0)).double() / (2 if undirected else 1) ** 0.5)
    for source, target in [(0, 1), (4, 2), (8, 7)]:
        changed = links.copy()
        changed[target, source] = 1 - changed[target, source]
        if undirected:
            changed[source, target] = changed[target, source]
        moved = Degrees(_graph(changed), undirected).clipped_sum(3.0) - before
        assert float(moved.norm()) == pytest.approx(3.0)
        # Who is linked to has gained nothing, if directed.
        assert undirected or float(moved[target]) == 0


def _graph(links: np.ndarray) -> Csr:
    """links[i, j]: an arc j -> i."""
    targets, sources = np.nonzero(links)
    return Csr.from_edge_index(sources, targets, len(links))


def test_edges_are_counted() -> None:
    assert EdgeCount(random_graph(9, True), True).clipped_sum(1.0).item() == random_graph(9, True).num_arcs / 2
    assert EdgeCount(random_graph(9, False), False).clipped_sum(2.0).item() == 2 * random_graph(9, False).num_arcs


def brute(left: torch.Tensor, right: torch.Tensor, count: int, undirected: bool) -> set[tuple[int, int]]:
    scores = left @ right.T
    allowed = torch.ones_like(scores, dtype=torch.bool)
    allowed = allowed.tril(-1) if undirected else allowed.fill_diagonal_(False)
    scores = scores.masked_fill(~allowed, -math.inf)
    places = scores.ravel().topk(count).indices
    return {(int(place) % len(left), int(place) // len(left)) for place in places}


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("block", [1, 64, 1000, 1 << 22])
@pytest.mark.parametrize("count", [1, 7, 100, 435])
def test_the_largest_pairs_are_those_of_the_dense_matrix(undirected: bool, block: int, count: int) -> None:
    torch.manual_seed(count)
    left, right = torch.randn(2, 30, 4, dtype=torch.float64)
    with mock.patch.object(low_rank, "_BLOCK", block):
        found = largest_pairs(left, right, count, undirected)
    assert {(int(j), int(i)) for j, i in found.T} == brute(left, right, count, undirected)
    assert found.shape == (2, count)


def test_counts_are_cut() -> None:
    rows = torch.randn(6, 2)
    assert largest_pairs(rows, rows, -4, True).shape == (2, 0)
    assert largest_pairs(rows, rows, 10**9, True).shape == (2, 15)
    assert largest_pairs(rows, rows, 10**9, False).shape == (2, 30)
    assert largest_pairs(rows[:1], rows[:1], 3, True).shape == (2, 0)


def test_ties_are_filled_up() -> None:
    zero = torch.zeros(40, 3)
    with mock.patch.object(low_rank, "_BLOCK", 100):
        found = largest_pairs(zero, zero, 50, True)
    assert len({(int(j), int(i)) for j, i in found.T}) == 50
