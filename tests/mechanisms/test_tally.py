"""Marks are counted, bounded and perturbed."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest
from neighbours import Silent
from scipy.stats import kstest, laplace

from graphveil.core import InvalidInput
from graphveil.graph import Sealed
from graphveil.mechanisms.tally import Marks, Tally
from graphveil.noise import Secure, Seeded

NOTHING = cast(Sealed, None)


def counts(act: Tally, cells: list[list[int]], size: int) -> list[float]:
    asked = Marks(np.array(cells or np.empty((0, 1)), dtype=np.int64), size)
    out: list[float] = act.apply(NOTHING, lambda _: asked, Silent(0)).tolist()
    return out


def test_marks_are_counted() -> None:
    assert counts(Tally(1.0, marks=2), [[0, 1], [1, 1], [3, 0]], 5) == [2, 3, 0, 1, 0]
    assert counts(Tally(1.0), [], 3) == [0, 0, 0]
    assert counts(Tally(1.0), [[0]], 0) == []


def test_a_contribution_leaves_no_more_marks_than_declared() -> None:
    assert counts(Tally(1.0), [[2, 2, 2], [0, 1, 2]], 3) == [1, 0, 1]
    assert counts(Tally(1.0, marks=2), [[-1, 5], [0, -(2**40)]], 3) == [1, 0, 0]


@pytest.mark.parametrize("source", [Seeded(1), Secure()], ids=["seeded", "secure"])
def test_noise_has_its_law(source: Seeded | Secure) -> None:
    asked = Marks(np.repeat(np.arange(100), 3)[:, None], 20_000)
    out = Tally(2.5).apply(NOTHING, lambda _: asked, source).double().numpy()
    out[:100] -= 3
    assert kstest(out, laplace(scale=2.5).cdf).pvalue > 1e-6


def test_cost() -> None:
    assert Tally(4.0, marks=2).curve(1).epsilon == 0.5
    assert Tally(4.0).curve(2).epsilon == 0.5
    assert Tally(0.0).curve(1).infinite


@pytest.mark.parametrize("wrong", [(-1.0, 1), (math.nan, 1), (1.0, 0), (1.0, 1.5)])
def test_bad_settings_are_refused(wrong: tuple[float, int]) -> None:
    with pytest.raises(InvalidInput):
        Tally(*wrong)
    with pytest.raises(InvalidInput):
        Tally(1.0).curve(0.5)
