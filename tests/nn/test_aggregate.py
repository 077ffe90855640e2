"""Neighbour sums against scipy, clipping against its bound, gradients against finite differences."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphveil.data.arcs import Csr
from graphveil.nn.aggregate import NeighbourSums, Operator, Walk, clip_factors, clip_rows, linked_sum, neighbour_sum


def random_adj(seed: int, nodes: int = 30) -> Csr:
    links = np.random.default_rng(seed).random((nodes, nodes)) < 0.2
    targets, sources = np.nonzero(links & ~np.eye(nodes, dtype=bool))
    return Csr.from_edge_index(sources, targets, nodes)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), width=st.integers(1, 9))
def test_sums_equal_scipy(seed: int, width: int) -> None:
    adj = random_adj(seed)
    rows = torch.randn(30, width, generator=torch.Generator().manual_seed(seed))
    expected = adj.to_scipy().astype(np.float64) @ rows.double().numpy()
    assert np.allclose(neighbour_sum(adj, rows).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("nodes", [1, 63, 300])
def test_rows_of_very_unequal_size(nodes: int) -> None:
    """Rows are shared out by arcs: one hub, nobody else heard, and more or fewer rows than parts."""
    hub = Csr.from_edge_index(np.arange(1, nodes), np.full(nodes - 1, nodes // 2), nodes + 1)
    rows = torch.randn(nodes + 1, 3, generator=torch.Generator().manual_seed(0))
    expected = hub.to_scipy().astype(np.float64) @ rows.double().numpy()
    assert np.allclose(neighbour_sum(hub, rows).numpy(), expected, atol=1e-12)


def test_threads_do_not_change_a_bit() -> None:
    adj, rows = random_adj(3, nodes=300), torch.randn(300, 7)
    before, found = numba.get_num_threads(), []
    for threads in (1, before):
        numba.set_num_threads(threads)
        found.append(neighbour_sum(adj, rows))
    numba.set_num_threads(before)
    assert torch.equal(*found)


def test_a_row_is_summed_alike_in_every_place() -> None:
    """The same sources in the same order give the same bits, wherever the row stands and whoever else is there."""
    rows = torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    sources = np.arange(0, 90, 3)
    sums = []
    for place, others in ((100, 0), (199, 60)):
        told = np.concatenate([sources, np.arange(others)])
        heard = np.concatenate([np.full(len(sources), place), np.full(others, 120)])
        sums.append(neighbour_sum(Csr.from_edge_index(told, heard, 200), rows)[place])
    assert torch.equal(*sums)


def test_factors_clip_inside_the_sum() -> None:
    adj, rows = random_adj(5), torch.randn(30, 4, generator=torch.Generator().manual_seed(2)) * 3
    rows[4, 1] = float("nan")
    inside = neighbour_sum(adj, rows, clip_factors(rows, 0.7))
    assert torch.allclose(inside, neighbour_sum(adj, clip_rows(rows.double(), 0.7)), atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), clip=st.floats(1e-3, 1e3))
def test_one_arc_moves_one_row_by_at_most_the_clip(seed: int, clip: float) -> None:
    adj = random_adj(seed)
    rows = torch.randn(30, 4, generator=torch.Generator().manual_seed(seed)) * 1e4
    sources, targets = adj.edge_index().numpy()
    fewer = Csr.from_edge_index(sources[1:], targets[1:], 30)
    moved = NeighbourSums(adj, rows).clipped_sum(clip) - NeighbourSums(fewer, rows).clipped_sum(clip)
    assert int((moved.abs().sum(dim=1) > 0).sum()) == 1
    assert float(moved.norm()) == pytest.approx(clip, rel=1e-9)


def test_rows_that_are_not_finite_count_as_zero() -> None:
    rows = torch.tensor([[3.0, 4.0], [float("nan"), 1.0], [float("inf"), 0.0], [0.3, 0.4]])
    clipped = clip_rows(rows, 1.0)
    assert torch.allclose(clipped, torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, 0.0], [0.3, 0.4]]))


def test_operator_has_the_right_gradient() -> None:
    matrix = sp.random_array((12, 12), density=0.3, rng=np.random.default_rng(0), format="csr")
    operator = Operator.of(sp.csr_array(matrix))
    rows = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    dense = torch.from_numpy(matrix.toarray().astype(np.float32)).double()
    assert torch.allclose(operator @ rows, dense @ rows)
    (grad,) = torch.autograd.grad(((operator @ rows) ** 2).sum(), rows)
    (expected,) = torch.autograd.grad(((dense @ rows) ** 2).sum(), rows)
    assert torch.allclose(grad, expected)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_a_walk_is_a_product_of_matrices(loops: bool, kind: torch.dtype) -> None:
    adj, rng = random_adj(3), np.random.default_rng(3)
    before, after = rng.random(30), rng.random(30)
    rows = torch.randn(30, 19, generator=torch.Generator().manual_seed(3)).to(kind)
    looped = adj.to_scipy().toarray() + loops * np.eye(30)
    expected = after[:, None] * (looped @ (before[:, None] * rows.double().numpy()))
    found = Walk(adj, before, after, loops) @ rows
    assert found.dtype == kind
    assert np.allclose(found.double().numpy(), expected, rtol=2e-3 if kind == torch.float16 else 1e-5, atol=2e-3)


def test_sums_over_links_are_those_of_a_part_of_the_rows() -> None:
    links = sp.csr_array((np.random.default_rng(0).random((40, 12)) < 0.3).astype(np.float64))
    rows = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    expected = links @ rows.double().numpy()
    assert np.array_equal(linked_sum(links.indptr, links.indices, rows).numpy(), expected)
    assert np.array_equal(linked_sum(links.indptr[7:20], links.indices, rows).numpy(), expected[7:19])
