"""Matrices that are made as they are read give what the same formulas give on whole tensors."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from graphveil.nn import rows
from graphveil.nn.features import Scaling, centred, one_scale, standard
from graphveil.nn.rows import (
    HStack,
    RowMap,
    Selected,
    alike,
    at_a_time,
    blocks,
    column_deviations,
    column_means,
    deviation,
    gram,
    held,
    in_blocks,
    summed,
    whole,
)
from graphveil.runtime.compute import HERE


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(103, 5) * 3 + 1


@pytest.fixture
def in_tens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "WHOLE", 10)
    monkeypatch.setattr(rows.blocks, "__defaults__", (10,))


@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 3), (9, 3), (10, 3), (11, 100)])
def test_blocks_cover_everything_once(count: int, size: int) -> None:
    found = [place for part in blocks(count, size) for place in range(count)[part]]
    assert found == list(range(count))


def test_rows_are_made_from_their_own_row(x: Tensor) -> None:
    doubled = RowMap(x, lambda some: torch.cat([some, 2 * some], dim=1), 10)
    ids = torch.tensor([[3, 3], [0, 102]])
    assert doubled.shape == (103, 10)
    assert torch.equal(doubled[ids][1, 0], torch.cat([x[0], 2 * x[0]]))
    both = HStack((doubled, x))
    assert both.shape == (103, 15)
    assert torch.equal(both[5:9], torch.cat([x[5:9], 2 * x[5:9], x[5:9]], dim=1))


def test_a_small_matrix_keeps_its_bits(x: Tensor) -> None:
    assert torch.equal(alike(RowMap(x, centred, 5))[:], standard(x))
    assert torch.equal(alike(x)[torch.arange(103)], one_scale(x))
    assert torch.equal(deviation(x), x.std())
    assert torch.equal(column_means(x), x.mean(dim=0))
    assert torch.equal(column_deviations(x), x.std(dim=0))


@pytest.mark.usefixtures("in_tens")
def test_blocks_agree_with_the_whole(x: Tensor) -> None:
    torch.testing.assert_close(deviation(x), x.std())
    torch.testing.assert_close(column_means(x), x.mean(dim=0))
    torch.testing.assert_close(column_deviations(x), x.std(dim=0))
    assert torch.equal(in_blocks(103, lambda part: x[part] + 1), x + 1)
    assert not isinstance(held(RowMap(x, centred, 5), HERE), Tensor)


@pytest.mark.parametrize("scale", ["shifted", "columns", "rows", "centred", "none"])
def test_a_scaling_is_the_same_in_blocks(x: Tensor, scale: str, request: pytest.FixtureRequest) -> None:
    whole = Scaling.fit(x, scale)
    request.getfixturevalue("in_tens")
    parts = Scaling.fit(x, scale)
    torch.testing.assert_close(parts.shift, whole.shift)
    torch.testing.assert_close(parts.factor, whole.factor)
    torch.testing.assert_close(parts.rows(x)[torch.tensor([[7], [90]])], whole(x)[torch.tensor([[7], [90]])])


def test_a_single_entry_has_a_deviation() -> None:
    assert math.isclose(float(deviation(torch.ones(1, 1))), 1e-6, rel_tol=1e-5)


def test_some_rows_are_read_by_their_ids(x: Tensor) -> None:
    ids = torch.tensor([90, 3, 3])
    some = Selected(RowMap(x, centred, 5), ids)
    assert some.shape == (3, 5)
    assert torch.equal(some[:], centred(x)[ids])
    assert torch.equal(some[torch.tensor([[2], [0]])], centred(x)[torch.tensor([[3], [90]])])


def test_rows_may_have_no_columns(x: Tensor) -> None:
    assert RowMap(x[:, :0], lambda some: some, 0)[:].shape == (103, 0)


def test_sums_and_moments_are_the_same_in_blocks(x: Tensor, request: pytest.FixtureRequest) -> None:
    assert torch.equal(gram(x), x.T @ x)
    assert isinstance(whole(RowMap(x, centred, 5)), Tensor)
    request.getfixturevalue("in_tens")
    torch.testing.assert_close(gram(x), x.T @ x)
    torch.testing.assert_close(summed(103, lambda part: x[part].sum(dim=0)), x.sum(dim=0))
    assert not isinstance(whole(RowMap(x, centred, 5)), Tensor)


@pytest.mark.usefixtures("in_tens")
def test_room_is_for_a_block_where_rows_are_many() -> None:
    assert at_a_time(10, 7, 3).size == 10 * 7 + 3
    assert at_a_time(10, 7, 3).lower == ""
    found = at_a_time(1000, 7, 3, 4)
    assert found.size == 4 * 7 + 3
    assert "--block" in found.lower
