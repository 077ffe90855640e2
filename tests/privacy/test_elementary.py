"""Logarithm, sine and cosine: near the truth, and the same to the last bit however they are computed."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

from graphveil.privacy import elementary

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"))]


def uniforms(count: int) -> Tensor:
    """As the secure source draws them: all over the interval, near zero, near one, and the turns' quarters."""
    rng = np.random.default_rng(0)
    near = 1 - 2.0 ** -rng.uniform(1, 53, count)
    quarters = np.arange(1, 8) / 8
    drawn = [rng.random(count), 2.0 ** -rng.uniform(0, 107, count), near, quarters, [1 - 2.0**-53, 2.0**-107]]
    every = np.concatenate(drawn)
    return torch.from_numpy(every[(every > 0) & (every < 1)])


def test_they_are_within_two_units_in_the_last_place() -> None:
    u = uniforms(1500)
    cosine, sine = elementary.cos_sin_of_turns(u)
    found = {"log": elementary.log(u), "cospi": cosine, "sinpi": sine}
    with mpmath.workprec(200):
        for name, values in found.items():
            for given, value in zip(u.tolist(), values.tolist(), strict=True):
                exact: Any = getattr(mpmath, name)(given if name == "log" else 2 * mpmath.mpf(given))
                assert abs(value - exact) <= 2 * math.ulp(float(exact)), (name, given)


@pytest.mark.parametrize("device", DEVICES)
def test_every_way_gives_the_same_bits(device: str) -> None:
    u = uniforms(200_000)
    assert torch.equal(elementary.log_by_torch(u.to(device)).cpu(), elementary.log(u))
    for one, other in zip(elementary.cos_sin_by_torch(u.to(device)), elementary.cos_sin_of_turns(u), strict=True):
        assert torch.equal(one.cpu(), other)
