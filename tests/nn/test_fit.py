"""What nodes count in training: as scikit-learn weighs them, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_sample_weight
from torch import Tensor, nn

from graphveil.nn.fit import ClassWeight, Recipe, Sweeps, fit_in_batches, fit_rows

BALANCED = ClassWeight.BALANCED


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [2, 2, 0], [1], [], [[0, 1], [0, 0], [0, 0]]])
def test_balanced_weights_are_those_of_scikit_learn(labels: list[int]) -> None:
    y = torch.tensor(labels, dtype=torch.int64)
    found = BALANCED.of(y)
    assert found is not None
    assert found.shape == y.shape
    assert ClassWeight.EQUAL.of(y) is None
    if len(labels):
        expected = compute_sample_weight("balanced", y.flatten().numpy())
        assert found.flatten().numpy() == pytest.approx(expected)
        assert float(found.mean()) == pytest.approx(1)


def rare() -> tuple[Tensor, Tensor]:
    """Rows [400, 2] that say nothing about a class that every tenth node has."""
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(size=(400, 2))).float(), (torch.arange(400) % 10 == 0).long()


def mean_chance(module: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        return float(module(x).softmax(dim=1)[:, 1].mean())


@pytest.mark.parametrize(("word", "expected"), [("equal", 0.1), ("balanced", 0.5)])
def test_what_tells_nothing_is_given_the_share_that_counts(word: str, expected: float) -> None:
    """With nothing to go by, a model learns the prior: that of the nodes, or that of the weights."""
    x, y = rare()
    everybody = torch.ones(400, dtype=torch.bool)
    for validated in (everybody, ~everybody):
        torch.manual_seed(0)
        module = nn.Linear(2, 2)
        fit_rows(module, x, y, everybody, validated, Recipe(300, 0.05, patience=300, class_weight=word))
        assert mean_chance(module, x) == pytest.approx(expected, abs=0.05)
    torch.manual_seed(0)
    module = nn.Linear(2, 2)
    fit_in_batches(module, x, y, torch.arange(400), Sweeps(40, 0.05, class_weight=word))
    assert mean_chance(module, x) == pytest.approx(expected, abs=0.05)
