"""Shares of classes from noisy counts, and what nodes gain over the largest class."""

from __future__ import annotations

import math

import torch

from graphveil.methods.node.parts.prior import Gains, log_shares


def test_shares_stay_above_what_the_noise_hides() -> None:
    shares = log_shares(torch.tensor([80.0, -30.0, 3.0]), noise=10.0).exp()
    assert torch.allclose(shares, torch.tensor([0.8, 0.1, 0.1]))


def test_a_node_moves_the_gains_by_one_clip_and_without_a_label_not_at_all() -> None:
    labels, named = torch.tensor([0, 1, 1, -1]), torch.tensor([[0, 1], [1, 1], [0, 1], [1, 0]])
    whole = Gains(named, torch.tensor(0), labels).clipped_sum(math.sqrt(2))
    assert torch.allclose(whole, torch.tensor([1.0, 1.0], dtype=torch.float64))
    for node in range(4):
        absent = labels.clone()
        absent[node] = -1
        for clip in (math.sqrt(2), 0.5):
            with_it, without = (Gains(named, torch.tensor(0), y).clipped_sum(clip) for y in (labels, absent))
            assert float((with_it - without).norm()) <= clip + 1e-9
    assert torch.equal(whole, Gains(named[:3], torch.tensor(0), labels[:3]).clipped_sum(math.sqrt(2)))
