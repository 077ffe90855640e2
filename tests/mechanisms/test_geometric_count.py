"""Marks are counted and bounded, and their noise has its law: coin by coin, and out to where it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Sealed
from graphveil.errors import GraphveilError, InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.geometric_count import Marks, Tally, ends, geometric
from graphveil.privacy.accounting import _FLOAT_ERROR
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.vocabulary import Floats

NOTHING = cast(Sealed, None)
SOURCES = [lambda: Seeded(11), Secure]
DRAWS = 40_000


def counts(act: Tally, cells: list[list[int]], size: int, source: Stream | None = None) -> list[int]:
    asked = Marks(np.array(cells or np.empty((0, 1)), dtype=np.int64), size)
    out = act.apply(NOTHING, lambda _: asked, source or Seeded(0))
    assert out.dtype == torch.int64
    told: list[int] = out.tolist()
    return told


def test_marks_are_counted() -> None:
    assert counts(Tally(0.0, marks=2), [[0, 1], [1, 1], [3, 0]], 5) == [2, 3, 0, 1, 0]
    assert counts(Tally(0.0), [], 3) == [0, 0, 0]
    assert counts(Tally(0.0), [[0]], 0) == []


def test_a_contribution_leaves_no_more_marks_than_declared() -> None:
    assert counts(Tally(0.0), [[2, 2, 2], [0, 1, 2]], 3) == [1, 0, 1]
    assert counts(Tally(0.0, marks=2), [[-1, 5], [0, -(2**40)]], 3) == [1, 0, 0]


def test_every_edge_or_arc_has_its_ends_once() -> None:
    adj = Csr.from_edge_index(np.array([0, 1, 2, 1]), np.array([1, 0, 1, 2]), 4)
    assert sorted(zip(*ends(adj, undirected=True), strict=True)) == [(0, 1), (1, 2)]
    assert sorted(zip(*ends(adj, undirected=False), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]


# --- The law of the noise. ---


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 2.7, 11.0])
def test_draws_are_geometric(make: Callable[[], Stream], scale: float) -> None:
    ratio = math.exp(-1 / scale)
    last = max(1, math.floor(scale * math.log(DRAWS * (1 - ratio) / 20)))
    seen = np.bincount(np.minimum(geometric(make(), DRAWS, scale).numpy(), last), minlength=last + 1)
    law = (1 - ratio) * ratio ** np.arange(last + 1)
    law[last] = ratio**last
    assert chisquare(seen, DRAWS * law).pvalue > 1e-6


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_noise_is_two_sided_geometric(make: Callable[[], Stream], scale: float) -> None:
    noise = np.array(counts(Tally(scale), [], DRAWS, make()))
    ratio, last = math.exp(-1 / scale), round(5 * scale)
    seen = np.bincount(np.clip(noise, -last, last) + last, minlength=2 * last + 1)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-last, last + 1))
    law[[0, -1]] /= 1 - ratio
    assert chisquare(seen, DRAWS * law).pvalue > 1e-6


def rates_of(scale: float) -> list[float]:
    """The rates of the coins that `geometric` asks for, from the lowest digit up."""
    rates: list[float] = []

    class Watch(Seeded):
        def coins(self, count: int, rate: float) -> torch.Tensor:
            rates.append(rate)
            return super().coins(count, rate)

    geometric(Watch(0), 1, scale)
    return rates


def law_of(rates: list[float]) -> Floats:
    """Pr[k] of the difference of two numbers whose digits come up at these rates, k = 1 - N .. N - 1."""
    masses = np.ones(1)
    for rate in rates:
        masses = np.concatenate([masses * (1 - rate), masses * rate])
    return np.convolve(masses, masses[::-1])


@pytest.mark.parametrize("scale", [1 / 32, 0.4, 1.0, 3.3, 40.0])
def test_every_likelihood_ratio_is_at_most_what_is_charged(scale: float) -> None:
    """The law of the noise from its coins' rates: no outcome within 32 scales is likelier by more than e^epsilon."""
    noise = law_of(rates_of(scale))
    centre = len(noise) // 2
    reach = min(int(32 * scale), centre - 1)
    near = np.log(noise[centre - reach : centre + reach + 2])
    epsilon = Tally(scale).curve(1).epsilon
    assert np.abs(np.diff(near)).max() <= epsilon + 1e-9
    assert np.abs(np.diff(near)).max() >= 0.999 * epsilon


# --- Where it ends. ---

SCALES = [1 / 32, 2.02 / 64, 3 / 64, 3.4 / 64, 4.04 / 64, 7 / 64, 0.5, 1.0, 2.0, 3.3, 1e3, 1e9, 2.0**50 - 1, 2.0**50]


@pytest.mark.parametrize("scale", SCALES)
def test_noise_reaches_64_scales_and_its_end_costs_next_to_nothing(scale: float) -> None:
    """Digits below N = 2^d: a move by one has delta (1 - a) a^(N - 1) / (1 - a^N) beyond epsilon = 1 / scale.

    With p the law below N, Pr[difference = k] - e^epsilon Pr[k + 1] sums to that over k >= 0. Moved by two at
    epsilon 2 / scale: (1 + a^2) a^(N - 2) (1 - a) at most.
    """
    last = 2 ** len(rates_of(scale)) - 1
    assert last >= 64 * scale
    tail = -math.expm1(-1 / scale) * math.exp(-last / scale) / -math.expm1(-(last + 1) / scale)
    assert tail < 2.0**-90 < 1e-10 * _FLOAT_ERROR
    if scale >= 2 / 32:
        twice = 2 * -math.expm1(-1 / scale) * math.exp(-(last - 1) / scale)
        assert twice < 2.0**-75
    if last < 1000:
        noise, epsilon = law_of(rates_of(scale)), 1 / scale + 1e-12
        found = np.maximum(noise - math.exp(epsilon) * np.append(noise[1:], 0.0), 0.0).sum()
        assert found == pytest.approx(tail, rel=0.01)


@pytest.mark.parametrize("marks", [1, 2])
@pytest.mark.parametrize("scale", [scale for scale in SCALES if scale < 10])
def test_what_uniforms_cannot_draw_is_paid_for(scale: float, marks: int) -> None:
    """A secure uniform below 2^-53 is a multiple of 2^-106 and a half: rarer coins come up at a rounded rate."""
    if Tally(scale, marks).curve(1).infinite:
        return
    drawn = [rate if rate > 2.0**-53 else round(rate * 2.0**106) * 2.0**-106 for rate in rates_of(scale)]
    noise, epsilon = law_of(drawn), Tally(scale, marks).curve(1).epsilon
    moved = np.append(noise[marks:], np.zeros(marks))
    assert np.maximum(noise - math.exp(epsilon) * moved, 0.0).sum() < 2.0**-60 < 1e-5 * _FLOAT_ERROR


@pytest.mark.parametrize("scale", [1e3, 1e9, 2.0**50])
def test_large_scales_keep_their_noise(scale: float) -> None:
    drawn = geometric(Secure(), 4_000, scale).numpy().astype(float)
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(scale, rel=0.15)
    assert len(np.unique(drawn)) > min(0.9 * 4_000, scale)


def test_blocks_have_noise_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphveil.mechanisms.distributed_counts.BLOCK", 100)
    noise = np.array(counts(Tally(5.0), [], 300))
    assert (noise != 0).mean() > 0.8
    assert np.mean(noise[:100] == noise[100:200]) < 0.3


# --- Costs. ---


def test_costs() -> None:
    assert Tally(2.0, marks=2).curve(1).epsilon == pytest.approx(1.0, rel=1e-9)
    assert Tally(2.0, marks=2).curve(1).epsilon > 1.0, "rounding is not charged"
    assert Tally(4.0).curve(1) == PureCurve(0.25 + 2.0**-40)
    assert Tally(0.0).curve(1).infinite
    assert Tally(1 / 33).curve(1).infinite
    assert Tally(1 / 17, marks=2).curve(1).infinite
    assert not Tally(1 / 32).curve(1).infinite
    for wrong in (0.5, 0.0, -1.0, 2.0, math.nan):
        with pytest.raises(InvalidInput):
            Tally(1.0).curve(wrong)


@pytest.mark.parametrize(
    "wrong", [(-1.0, 1), (math.nan, 1), (math.inf, 1), (2.0**51, 1), (1.0, 0), (1.0, 1.0), (1.0, 3), (1.0, True)]
)
def test_bad_settings_are_refused(wrong: tuple[float, int]) -> None:
    with pytest.raises(InvalidInput):
        Tally(*wrong)


@pytest.mark.parametrize(
    "wrong", [torch.zeros(3, dtype=torch.int64), torch.zeros(4), torch.zeros(2, 2, dtype=torch.int64)]
)
def test_counts_that_come_from_elsewhere_are_one_whole_number_for_every_cell(wrong: torch.Tensor) -> None:
    class There(Marks):
        def counted_there(self, marks: int) -> torch.Tensor:  # noqa: ARG002
            return wrong

    asked = There(np.empty((0, 1), np.int64), 4)
    with pytest.raises(GraphveilError, match=r"counts must be int64 \[4\]"):
        Tally(1.0).apply(NOTHING, lambda _: asked, Seeded(0))
