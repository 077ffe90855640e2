"""Scores of classes are those of the field's library, say nothing where nothing can be said, and see a lazy model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graphveil.tasks.class_scores import judged
from graphveil.tasks.node_classification import NodeClassification
from graphveil.tasks.task import Threshold


def drawn(seed: int = 0, nodes: int = 200, classes: int = 4) -> tuple[Any, Any, Any]:
    """Chances with ties, unequal classes, and what they name: predicted [n], truth [n], chances [n, c]."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(classes, size=nodes, p=np.arange(1, classes + 1) / sum(range(1, classes + 1)))
    chances = np.round(rng.dirichlet(np.ones(classes), size=nodes) + 0.3 * np.eye(classes)[truth], 1)
    return torch.from_numpy(chances.argmax(1)), torch.from_numpy(truth), torch.from_numpy(chances)


def test_numbers_that_scikit_learn_gave() -> None:
    said, truth, chances = drawn()
    found = judged(said, truth, 4, chances)
    assert found["confusion"] == [[15, 3, 0, 3], [6, 23, 1, 2], [8, 8, 31, 10], [15, 15, 17, 43]]
    assert found["balanced_accuracy"] == pytest.approx(0.6136682852965748)
    assert found["f1"] == pytest.approx(0.5488566093912006)
    assert [each["auc"] for each in found["classes"]] == pytest.approx(
        [0.9110135674381484, 0.8990885416666667, 0.8609373083057293, 0.8583333333333333]
    )
    assert [each["average_precision"] for each in found["classes"]] == pytest.approx(
        [0.5242176475853499, 0.5660154885952041, 0.6292873518293634, 0.7741705821544057]
    )


@pytest.mark.parametrize(
    ("chances", "auc", "average_precision"),
    [
        ([0.4, 0.1, 0.3, 0.2], 1.0, 1.0),
        ([0.1, 0.4, 0.2, 0.3], 0.0, (1 / 3 + 2 / 4) / 2),
        # All enter together: precision is the share of members, whatever their order.
        ([0.5] * 4, 0.5, 0.5),
        ([0.4, 0.3, 0.2, 0.1], 0.75, (1 + 2 / 3) / 2),
    ],
)
def test_ranks_decide_and_ties_count_half(chances: list[float], auc: float, average_precision: float) -> None:
    truth, first = torch.tensor([0, 1, 0, 1]), torch.tensor(chances)
    found = judged(truth, truth, 2, torch.stack([first, 1 - first], dim=1))["classes"][0]
    assert found["auc"] == pytest.approx(auc)
    assert found["average_precision"] == pytest.approx(average_precision)


def test_rows_are_the_truth_and_columns_what_was_named() -> None:
    found = judged(torch.tensor([1, 1, 0]), torch.tensor([0, 1, 1]), 3)
    assert found["confusion"] == [[0, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert [each["named"] for each in found["classes"]] == [1, 2, 0]


def test_chances_that_are_no_numbers_have_no_order() -> None:
    """A training that diverged is scored like any other: what it names counts, its chances do not."""
    truth = torch.tensor([0, 1, 0])
    found = judged(truth, truth, 2, torch.full((3, 2), torch.nan))
    assert (found["accuracy"], found["auc"], found["average_precision"]) == (1.0, None, None)


def test_what_has_no_meaning_is_none_and_left_out_of_means() -> None:
    """Nobody has class 2, and nobody is given class 1."""
    said, truth = torch.tensor([0, 0, 2, 0]), torch.tensor([0, 0, 1, 1])
    found = judged(said, truth, 3, torch.eye(3)[said])
    lone, unnamed, absent = found["classes"]
    assert (unnamed["precision"], absent["recall"], absent["auc"], absent["average_precision"]) == (None,) * 4
    assert absent["f1"] is None
    assert found["balanced_accuracy"] == pytest.approx((lone["recall"] + 0) / 2)
    assert judged(said, truth, 3)["auc"] is None
    alone = torch.zeros(2, dtype=torch.int64)
    assert judged(alone, alone, 2, torch.tensor([[0.9, 0.1], [0.6, 0.4]]))["auc"] is None


@pytest.mark.parametrize(
    ("said", "truth", "lazy"),
    [([0, 0, 0], [0, 0, 1], True), ([0, 0, 1], [0, 0, 1], False), ([0, 0, 0], [0, 0, 0], False)],
    ids=["one-of-two", "both", "one-there-is"],
)
def test_a_model_that_names_one_class_is_seen(said: list[int], truth: list[int], lazy: bool) -> None:
    found = judged(torch.tensor(said), torch.tensor(truth), 2)
    assert found["names_one_class"] is lazy
    if lazy:
        # As good as it looks: the share of the class, and half of the classes.
        assert found["accuracy"] == found["largest_class"] == pytest.approx(2 / 3)
        assert found["balanced_accuracy"] == 0.5


def test_a_threshold_moves_what_is_named_and_no_rank() -> None:
    scores, truth = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]]), torch.tensor([0, 1, 1])
    task = NodeClassification()
    plain, early = task.judge(scores, truth, (3, 1, 2)), task.judge(scores, truth, (3, 1, 2), Threshold(1, 0.25))
    assert (plain["names_one_class"], early["accuracy"]) == (True, 1.0)
    assert plain["auc"] == early["auc"] == 1.0
