"""Regression on noisy class sums: least squares where data are plenty, and no noise is taken for a signal."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from graphveil.nn.shrinkage import posteriors, shrunk_weights


def records(count: int, width: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows [count, width + 1] of which the last entry counts, and one-hot labels that go with the first entries."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, width, generator=draw, dtype=torch.float64) / width**0.5
    scores = 3 * rows[:, :classes] + 0.5 * torch.randn(count, classes, generator=draw, dtype=torch.float64)
    rows = torch.cat([rows, torch.full((count, 1), 0.5, dtype=torch.float64)], dim=1)
    return rows, torch.nn.functional.one_hot(scores.argmax(dim=1), classes).double()


def noisy(sums: Tensor, noise: float, seed: int = 0) -> Tensor:
    return sums + noise * torch.randn(sums.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("thin", [1.0, 0.3, 0.1])
@pytest.mark.parametrize("counted", [True, False])
def test_without_noise_and_with_plenty_of_data_it_is_least_squares(thin: float, counted: bool) -> None:
    """Also where labels go with directions in which rows hardly differ, and where all directions are alike."""
    rows, labels = records(20_000, 6, 3)
    rows[:, :2] *= thin
    rows = rows if counted else rows[:, :-1]
    wanted = torch.linalg.lstsq(rows, labels).solution
    found = shrunk_weights(rows.T @ labels, rows.T @ rows, 0.0)
    assert found.dtype == torch.float64
    assert torch.allclose(rows @ found, rows @ wanted, atol=0.05)


def test_sums_of_nothing_but_noise_weigh_nothing() -> None:
    rows, labels = records(500, 40, 4)
    for seed in range(3):
        sums = noisy(torch.zeros(41, 4, dtype=torch.float64), 20.0, seed)
        found = rows @ shrunk_weights(sums, rows.T @ rows, 20.0)
        plain = rows @ torch.linalg.solve(rows.T @ rows, sums)
        assert float(found.norm()) < 0.05 * float(plain.norm())
        assert float(found.norm()) < 0.1 * float(labels.norm())


def test_a_signal_is_told_from_the_noise_around_it() -> None:
    rows, labels = records(4000, 60, 3)
    gram, unseen = rows.T @ rows, records(2000, 60, 3, seed=1)
    for seed in range(3):
        sums = noisy(rows.T @ labels, 20.0, seed)
        found, plain, shares = (
            float((unseen[0] @ weights - unseen[1]).square().mean())
            for weights in (shrunk_weights(sums, gram, 20.0), torch.linalg.solve(gram, sums), 0 * sums)
        )
        assert found < 0.9 * plain
        assert found < 0.9 * shares


def test_more_noise_shrinks_more_and_thin_directions_most() -> None:
    rows, labels = records(3000, 4, 3)
    rows[:, 2] *= 0.1
    vectors = torch.linalg.eigh(rows.T @ rows)[1]
    plain = torch.linalg.solve(rows.T @ rows, rows.T @ labels)
    kept = []
    for noise in (0.01, 10.0, 40.0):
        found = vectors.T @ shrunk_weights(rows.T @ labels, rows.T @ rows, noise)
        kept.append((found / (vectors.T @ plain)).mean(dim=1))
    for less, more in pairwise(kept):
        assert bool((more < less).all())
    # The values ascend.
    assert bool((kept[1].diff() > 0).all())


@pytest.mark.parametrize("noise", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("size", [0.0, 1e-12, 1e9])
def test_weights_are_always_finite(noise: float, width: int, classes: int, size: float) -> None:
    sums = noisy(torch.zeros(width, classes, dtype=torch.float64), max(noise, 1.0))
    found = shrunk_weights(sums, size * torch.eye(width, dtype=torch.float64), noise)
    assert found.shape == (width, classes)
    assert bool(found.isfinite().all())


def test_a_gram_of_lower_rank_will_do() -> None:
    rows, labels = records(3000, 3, 3)
    twice = torch.cat([rows, rows], dim=1)
    found = twice @ shrunk_weights(twice.T @ labels, twice.T @ twice, 0.01)
    assert torch.allclose(found, rows @ torch.linalg.solve(rows.T @ rows, rows.T @ labels), atol=0.05)


def test_posteriors_sum_to_one_and_none_is_zero() -> None:
    scores = torch.tensor([[0.7, 0.3, 0.0, 0.0], [-5.0, -1.0, -2.0, -9.0], [2.0, -1.0, 0.5, 0.0]], dtype=torch.float64)
    found = posteriors(scores)
    assert found.sum(dim=1).tolist() == pytest.approx([1.0] * 3)
    # A tenth of an even chance, before all are made to sum to 1.
    assert found[0].tolist() == pytest.approx([0.7 / 1.05, 0.3 / 1.05, 0.025 / 1.05, 0.025 / 1.05])
    assert found[1].tolist() == pytest.approx([0.25] * 4)
    assert found[2].tolist() == pytest.approx([2 / 2.55, 0.025 / 2.55, 0.5 / 2.55, 0.025 / 2.55])
