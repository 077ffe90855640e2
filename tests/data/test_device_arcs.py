"""Arcs as tensors: checked like arrays, and the same arrays when somebody asks for them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from graphveil.data import device_arcs
from graphveil.data.arcs import Csr
from graphveil.data.device_arcs import DeviceCsr, packed_on_device
from graphveil.errors import InvalidInput


def ends(nodes: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    upper = np.triu(np.random.default_rng(1).random((nodes, nodes)) < share, 1)
    targets, sources = np.nonzero(upper | upper.T)
    return sources, targets


@pytest.mark.parametrize("block", [3, 7, 1 << 26])
@pytest.mark.parametrize(("nodes", "share"), [(6, 0.3), (50, 0.1), (3, 0.0)])
def test_they_are_the_arcs_of_a_csr(nodes: int, share: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_arcs, "BLOCK", block)
    sources, targets = ends(nodes, share)
    order = np.random.default_rng(2).permutation(len(sources))
    found = packed_on_device(torch.from_numpy(np.stack([sources, targets])[:, order]), nodes)
    known = Csr.from_edge_index(sources, targets, nodes)
    for one in (found, pickle.loads(pickle.dumps(found))):
        assert np.array_equal(one.indptr, known.indptr)
        assert np.array_equal(one.indices, known.indices)
    assert (found.num_nodes, found.num_arcs) == (nodes, len(sources))
    assert found.is_symmetric()
    assert not found.has_loops()
    listed = [each for _, _, each in found.blocks()]
    assert np.array_equal(torch.cat([torch.empty(0, dtype=torch.int64), *listed]).numpy(), known.targets())


@pytest.mark.parametrize("block", [2, 1 << 26])
def test_a_missing_opposite_and_a_loop_are_found(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_arcs, "BLOCK", block)
    sources, targets = ends(20, 0.2)
    kept = np.ones(len(sources), bool)
    kept[5] = False
    assert not packed_on_device(torch.from_numpy(np.stack([sources[kept], targets[kept]])), 20).is_symmetric()
    assert packed_on_device(torch.tensor([[0, 1, 1], [1, 0, 1]]), 2).has_loops()


@pytest.mark.parametrize(
    ("pointers", "columns", "words"),
    [
        ([0, 2, 2], [1, 1], "strictly rise"),
        ([0, 2, 2], [1, 0], "strictly rise"),
        ([0, 1, 2], [1, 2], "outside 0..1"),
        ([0, 2, 1], [0, 1], "must rise"),
        ([0, 1, 3], [0, 1], "must rise"),
    ],
)
def test_bad_rows_are_refused(
    pointers: list[int], columns: list[int], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in (1, 1 << 26):
        monkeypatch.setattr(device_arcs, "BLOCK", block)
        with pytest.raises(InvalidInput, match=words):
            DeviceCsr(torch.tensor(pointers), torch.tensor(columns))


def test_repeats_and_strangers_are_refused() -> None:
    for pairs in ([[0, 0], [1, 1]], [[0, 5], [1, 0]], [[0, -1], [1, 0]]):
        with pytest.raises(InvalidInput, match="repeats an arc, or names"):
            packed_on_device(torch.tensor(pairs), 2)
