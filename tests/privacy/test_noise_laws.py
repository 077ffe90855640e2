"""The source's verbs with draws that are given: every law is read off at its turning points, to the last digits."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from graphveil.privacy.noise import _GRID_BITS, Secure, Seeded, Stream
from recording import turning_point

SOURCES = [Seeded(1), Secure()]
both = pytest.mark.parametrize("source", SOURCES, ids=["seeded", "secure"])


def given(monkeypatch: pytest.MonkeyPatch, source: Stream, verb: str, *answers: Any) -> None:
    """`source.verb` returns these in turn, again and again, each spread over as many places as are asked for."""
    turns = itertools.cycle(answers)
    monkeypatch.setattr(source, verb, lambda count: np.resize(next(turns), count))


@both
@pytest.mark.parametrize("rate", [1e-6, 0.03, 0.3, 0.97, 1.0])
def test_a_coin_comes_up_below_its_rate(source: Stream, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def tails(uniform: float) -> bool:
        given(monkeypatch, source, "uniform", uniform)
        return not bool(source.coins(1, rate)[0])

    if rate == 1:
        assert not tails(1 - 2.0**-53)
    else:
        assert turning_point(tails, 0.0, 1.0) == pytest.approx(rate, rel=1e-12)


@both
@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_skips_are_geometric(source: Stream, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for skip in (1, 2, 5):

        def shorter(uniform: float, skip: int = skip) -> bool:
            given(monkeypatch, source, "uniform", uniform)
            return int(source.skips(1, rate)[0]) < skip

        # Pr[skip >= k] = (1 - rate)^k.
        assert turning_point(shorter, 1e-300, 1.0) == pytest.approx((1 - rate) ** skip, rel=1e-12)


@both
def test_laplace_and_gumbel_draws_are_quantiles(source: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    for uniform in (1e-30, 1e-3, 0.2, 0.8, 0.999):
        given(monkeypatch, source, "uniform", 0.2, uniform)
        # Either sign with one half, and an exponential length.
        below = float(source.laplace(1)[0])
        given(monkeypatch, source, "uniform", 0.7, uniform)
        above = float(source.laplace(1)[0])
        assert sorted([below, above]) == [pytest.approx(math.log(uniform)), pytest.approx(-math.log(uniform))]
        given(monkeypatch, source, "uniform", uniform)
        assert stats.gumbel_r.sf(source.gumbel(1)[0]) == pytest.approx(uniform)


def test_secure_normals_are_those_of_box_and_muller(monkeypatch: pytest.MonkeyPatch) -> None:
    secure = Secure()
    for radius, angle in ((0.3, 0.1), (1e-12, 0.6), (0.9, 0.85)):
        given(monkeypatch, secure, "uniform", radius, angle)
        found = secure.normal(2)
        assert (found**2).sum() / 2 == pytest.approx(-math.log(radius))
        assert math.atan2(found[1], found[0]) % (2 * math.pi) == pytest.approx(2 * math.pi * angle)


@both
@pytest.mark.parametrize("std", [0.004, 0.75, 1.0, 37.0])
@pytest.mark.parametrize(("law", "norm"), [("gaussian", 0.5), ("laplace", 1.0)])
def test_added_noise_has_its_scale_widened_by_two_grid_steps(
    source: Stream, law: str, norm: float, std: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scale' = scale (1 + 2 g m^norm / unit): one step for what rounding moves, one for float64 sums."""
    draws = np.array([1.0, -0.5, 2.0, 0.25])
    given(monkeypatch, source, "normal" if law == "gaussian" else "laplace", draws)
    total = torch.tensor([3.0, -1.0, 0.0, 8.0], dtype=torch.float64) * std
    add = source.add_gaussian if law == "gaussian" else source.add_laplace
    grid = 2.0 ** (math.floor(math.log2(std)) - _GRID_BITS)
    # The smaller the unit, the more two grid steps are of it: here a tenth or so.
    unit = 20 * grid * len(draws) ** norm
    noise = (add(total, std, unit).double() - total).numpy() / draws
    wide = std * (1 + 2 * grid * len(draws) ** norm / unit) if source.secure else std
    assert noise == pytest.approx(np.full(4, wide), rel=1e-5)


@pytest.mark.parametrize("size", [1, 7, 400])
def test_the_unit_is_that_of_the_whole_sum(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks too: rounding moves all entries of a sum, not those of one block."""
    monkeypatch.setattr("graphveil.privacy.noise._BLOCK", 2)
    secure = Secure()
    given(monkeypatch, secure, "normal", np.ones(2))
    unit = 1e-6
    out = secure.add_gaussian(torch.zeros(size, dtype=torch.float64), 1.0, unit).double().numpy()
    assert out == pytest.approx(np.full(size, 1 + 2 * 2.0**-_GRID_BITS * math.sqrt(size) / unit), rel=1e-6)


@both
def test_chosen_subsets_are_the_smallest_draws(source: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.array([0.5, 0.1, 0.9, 0.3, 0.7])
    given(monkeypatch, source, "uniform", draws)
    assert [source.choose(5, size).tolist() for size in (1, 2, 3)] == [[1], [1, 3], [0, 1, 3]]


@both
@pytest.mark.parametrize("bound", [1, 2, 5, 8])
def test_numbers_below_a_bound_are_low_bits_of_words_that_fit(
    source: Stream, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = np.arange(64, dtype=np.uint64) + np.uint64(1 << 40)
    monkeypatch.setattr(source, "words", lambda count: np.resize(words, count))
    found = source.below(24, bound)
    width = 1 << (bound - 1).bit_length()
    assert found.tolist() == [k % width for k in range(1000) if k % width < bound][:24]
