"""The head of few labels: what it begins as, what it can say, and that few labels suffice."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from graphveil.nn.shared_class_head import ByClass


def test_it_begins_as_its_first_block() -> None:
    x = torch.randn(5, 8)
    assert torch.equal(ByClass(8, 3, (0, 4))(x), x[:, :3])


def test_a_share_counts_for_every_class_alike() -> None:
    head, x = ByClass(8, 3, (0, 4)), torch.randn(5, 8)
    with torch.no_grad():
        head.shares.copy_(torch.tensor([0.5, -2.0]))
    torch.testing.assert_close(head(x), 0.5 * x[:, :3] - 2 * x[:, 4:7])


def test_classes_may_speak_of_one_another() -> None:
    """What the shares cannot say the rest can: here class k is told by column k + 1."""
    torch.manual_seed(0)
    y = torch.randint(4, (200,))
    x = torch.nn.functional.one_hot((y + 1) % 4, 4).float()
    head = ByClass(4, 4, (0,))
    optimiser = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(200):
        optimiser.zero_grad()
        cross_entropy(head(x), y).backward()
        optimiser.step()
    assert bool((head(x).argmax(dim=1) == y).all())
