"""Csr agrees with scipy, and broken layouts are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphveil.data.arcs import Csr
from graphveil.errors import InvalidInput
from small_graph import QUICK


@st.composite
def arcs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    n = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), unique=True))
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1], n


@QUICK
@given(arcs())
def test_csr_agrees_with_scipy(given_arcs: tuple[np.ndarray, np.ndarray, int]) -> None:
    sources, targets, n = given_arcs
    csr = Csr.from_edge_index(sources, targets, n)
    dense = np.zeros((n, n), dtype=np.float32)
    dense[targets, sources] = 1
    expected = sp.csr_array(dense)
    assert np.array_equal(csr.indptr, expected.indptr)
    assert np.array_equal(csr.indices, expected.indices)
    assert csr.to_scipy().dtype == np.float32
    assert np.array_equal(csr.to_scipy().toarray(), dense)
    assert np.array_equal(csr.transpose().to_scipy().toarray(), dense.T)
    assert np.array_equal(csr.in_degrees(), dense.sum(1))
    assert csr.has_loops() == bool(np.diag(dense).any())
    assert csr.is_symmetric() == np.array_equal(dense, dense.T)
    both = np.maximum(dense, dense.T).nonzero()
    assert Csr.from_edge_index(both[0], both[1], n).is_symmetric()
    assert (csr.num_nodes, csr.num_arcs) == (n, len(sources))


@QUICK
@given(arcs())
def test_csr_round_trips_through_edge_index(given_arcs: tuple[np.ndarray, np.ndarray, int]) -> None:
    sources, targets, n = given_arcs
    csr = Csr.from_edge_index(sources, targets, n)
    edge_index = csr.edge_index()
    assert edge_index.dtype == torch.int64
    assert {tuple(arc) for arc in edge_index.T.tolist()} == set(zip(sources, targets, strict=True))
    again = Csr.from_edge_index(edge_index[0].numpy(), edge_index[1].numpy(), n)
    assert np.array_equal(again.indices, csr.indices)
    assert np.array_equal(again.indptr, csr.indptr)


@pytest.mark.parametrize(
    ("indptr", "indices", "words"),
    [
        ([0, 1], [0], "int64"),
        (np.array([0, 2]), np.array([0]), "end at 1"),
        (np.array([1, 1]), np.array([0]), "start at 0"),
        (np.array([], dtype=np.int64), np.array([], dtype=np.int64), "start at 0"),
        (np.array([0, 2, 1, 2]), np.array([0, 1]), "after row 1"),
        (np.array([0, 1]), np.array([3]), r"indices\[0\] is 3"),
        (np.array([0, 2, 2]), np.array([1, 0]), r"indices\[1\]"),
        (np.array([0, 2, 2]), np.array([1, 1]), r"indices\[1\]"),
    ],
)
def test_csr_refuses_a_broken_layout(indptr: Any, indices: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Csr(indptr, indices)


def test_csr_rows_may_fall_at_borders_and_be_empty() -> None:
    csr = Csr(np.array([0, 1, 1, 2]), np.array([2, 0]))
    assert csr.in_degrees().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("sources", "targets", "words"),
    [
        ([0.0], [1.0], "integer"),
        ([0, 1], [1], "pair up"),
        ([0, 0], [1, 1], "arc 1 .*duplicate of arc 0"),
        ([0], [9], "arc 0 "),
    ],
)
def test_from_edge_index_refuses(sources: list[Any], targets: list[Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Csr.from_edge_index(np.array(sources), np.array(targets), 3)


# Construction


def test_targets_of_a_part_are_a_part_of_the_targets() -> None:
    adj = Csr(np.array([0, 0, 3, 3, 4, 4, 6, 6]), np.array([0, 2, 3, 1, 1, 2]))
    whole = adj.targets()
    assert whole.tolist() == [1, 1, 1, 3, 5, 5]
    for first in range(8):
        for last in range(first, 9):
            assert adj.targets(slice(first, last)).tolist() == whole[first:last].tolist()
    assert Csr.empty(3).targets().tolist() == []
