"""Neighbour sums against scipy, clipping against its bound, gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphveil.arcs import Csr
from graphveil.nn.aggregate import NeighbourSums, Operator, clip_rows, neighbour_sum


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
