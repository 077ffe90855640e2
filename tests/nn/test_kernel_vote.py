"""Labels of alike rows: against a sum by hand, and nobody counts for itself."""

from __future__ import annotations

import math

import pytest
import torch

from graphveil.nn import kernel_vote
from graphveil.nn.kernel_vote import labels_of_alike


def by_hand(rows: torch.Tensor, labels: torch.Tensor, train: torch.Tensor, node: int, classes: int) -> list[float]:
    totals = [0.0] * classes
    for other in train.nonzero().ravel().tolist():
        cosine = float(torch.cosine_similarity(rows[node], rows[other], dim=0))
        if other != node and cosine > 0:
            totals[int(labels[other])] += math.exp((cosine - 1) / 0.03)
    return [math.log(each / max(sum(totals), 1e-30) + 0.01) for each in totals]


@pytest.mark.parametrize("block", [2048, 3])
def test_likes_vote_by_how_alike_they_are(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_vote, "_BLOCK", block)
    rows = torch.randn(11, 3, generator=torch.Generator().manual_seed(0)).double()
    labels, train = torch.arange(11) % 3, torch.arange(11) % 4 > 0
    found = labels_of_alike(rows, labels, train, 3)
    for node in range(11):
        assert found[node].tolist() == pytest.approx(by_hand(rows, labels, train, node, 3), rel=1e-6)


def test_neither_the_own_label_nor_those_outside_training_are_read() -> None:
    rows = torch.randn(9, 2, generator=torch.Generator().manual_seed(1))
    labels, train = torch.arange(9) % 2, torch.arange(9) < 6
    found = labels_of_alike(rows, labels, train, 2)
    others = torch.where(train, labels, -1)
    assert torch.equal(labels_of_alike(rows, others, train, 2), found)
    for node in range(6):
        changed = others.clone()
        changed[node] = 1 - changed[node]
        assert torch.equal(labels_of_alike(rows, changed, train, 2)[node], found[node])


def test_where_nobody_trains_or_a_row_is_empty_all_classes_are_alike() -> None:
    rows, none = torch.eye(4), torch.zeros(4, dtype=torch.bool)
    assert labels_of_alike(rows, -torch.ones(4, dtype=torch.long), none, 3).unique().numel() == 1
    rows[2] = 0.0
    assert labels_of_alike(rows, torch.zeros(4, dtype=torch.long), ~none, 3)[2].unique().numel() == 1
