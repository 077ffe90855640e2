"""The perceptron's dropout follows its law."""

from __future__ import annotations

import math

import pytest
import torch

from graphveil.nn.mlp import Dropout


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_dropout_silences_at_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(0)
    ones, part = torch.ones(1001, 77, requires_grad=True), Dropout(rate)
    out = part(ones)
    exact, spread = round(256 * rate) / 256, 6 / math.sqrt(out.numel())
    silent = out == 0
    assert abs(float(silent.float().mean()) - exact) < spread
    assert torch.allclose(out[~silent], torch.tensor(1 / (1 - exact)))
    out.sum().backward()
    assert ones.grad is not None
    assert torch.equal(ones.grad, out)
    for other in (silent.roll(1), silent.roll(8), silent.roll(1, dims=0), part(ones) == 0):
        assert abs(float((silent & other).float().mean()) - exact**2) < spread, "entries are silenced together"


def test_dropout_rests_outside_training() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5)(torch.zeros(0, 3)).shape == (0, 3)
