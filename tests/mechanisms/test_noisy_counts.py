"""Noisy counts by group: what is counted, the exact law of the noise, and what a neighbour can change."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from graphveil.arcs import Csr, Ids
from graphveil.core import InvalidInput
from graphveil.graph import Sealed
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.noisy_counts import Grouped, NoisyCounts, geometric
from graphveil.noise import Secure, Seeded, Source

NOTHING = cast(Sealed, None)
SOURCES = [lambda: Seeded(11), Secure]
DRAWS = 40_000


def counted(adj: Csr, groups: list[int], count: int, scale: float = 0.0, source: Source | None = None) -> Ids:
    asked = Grouped(adj, torch.tensor(groups), count)
    released = NoisyCounts(scale).apply(NOTHING, lambda _: asked, source or Seeded(0))
    assert released.dtype == torch.int64
    return released.numpy()


def test_counts_arcs_by_the_group_they_come_from() -> None:
    # 0 -> 2, 1 -> 2, 3 -> 2, 2 -> 0; nobody speaks to 1 or 3.
    adj = Csr.from_edge_index(np.array([0, 1, 3, 2]), np.array([2, 2, 2, 0]), 4)
    assert counted(adj, [1, 1, 2, 0], 3).tolist() == [[0, 0, 1], [0, 0, 0], [1, 2, 0], [0, 0, 0]]


def test_groups_out_of_range_move_no_other_row() -> None:
    adj = Csr.from_edge_index(np.array([0, 1]), np.array([1, 0]), 2)
    assert counted(adj, [7, -3], 2).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 2.7, 11.0])
def test_draws_are_geometric(make: Callable[[], Source], scale: float) -> None:
    ratio = math.exp(-1 / scale)
    last = max(1, math.floor(scale * math.log(DRAWS * (1 - ratio) / 20)))
    seen = np.bincount(np.minimum(geometric(make(), DRAWS, scale), last), minlength=last + 1)
    law = (1 - ratio) * ratio ** np.arange(last + 1)
    law[last] = ratio**last
    assert chisquare(seen, DRAWS * law).pvalue > 1e-6


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_noise_is_two_sided_geometric(make: Callable[[], Source], scale: float) -> None:
    noise = counted(Csr.empty(DRAWS // 4), [0] * (DRAWS // 4), 4, scale, make()).ravel()
    ratio, last = math.exp(-1 / scale), round(5 * scale)
    seen = np.bincount(np.clip(noise, -last, last) + last, minlength=2 * last + 1)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-last, last + 1))
    law[[0, -1]] /= 1 - ratio
    assert chisquare(seen, DRAWS * law).pvalue > 1e-6


def exact_law(scale: float) -> np.ndarray:
    """Pr[k] for all k that the digits' coins allow, from the rates that `geometric` asks for."""
    rates: list[float] = []

    class Watch(Seeded):
        def coins(self, count: int, rate: float) -> torch.Tensor:
            rates.append(rate)
            return super().coins(count, rate)

    geometric(Watch(0), 1, scale)
    masses = np.ones(1)
    for rate in rates:
        masses = np.concatenate([masses * (1 - rate), masses * rate])
    return masses


@pytest.mark.parametrize("scale", [1 / 32, 0.4, 1.0, 3.3, 40.0])
def test_every_likelihood_ratio_is_at_most_what_is_charged(scale: float) -> None:
    """The law of the noise from its coins' rates: no outcome within 32 scales is likelier by more than e^epsilon."""
    one = exact_law(scale)
    assert len(one) >= 64 * scale
    noise = np.convolve(one, one[::-1])
    centre = len(one) - 1
    reach = min(int(32 * scale), centre - 1)
    near = np.log(noise[centre - reach : centre + reach + 2])
    epsilon = NoisyCounts(scale).curve(1).epsilon
    assert np.abs(np.diff(near)).max() <= epsilon + 1e-9
    assert np.abs(np.diff(near)).max() >= 0.999 * epsilon


@pytest.mark.parametrize("scale", [1e3, 1e9, 2.0**50])
def test_large_scales_keep_their_noise(scale: float) -> None:
    drawn = geometric(Secure(), 4_000, scale).astype(float)
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(scale, rel=0.15)
    assert len(np.unique(drawn)) > min(0.9 * 4_000, scale)


def test_costs() -> None:
    assert NoisyCounts(2.0).curve(2).epsilon == pytest.approx(1.0, rel=1e-9)
    assert NoisyCounts(2.0).curve(2).epsilon > 1.0, "rounding is not charged"
    assert NoisyCounts(4.0).curve(1) == PureCurve(0.25 + 2.0**-40)
    assert NoisyCounts(0.0).curve(1).infinite
    assert NoisyCounts(0.03).curve(1).infinite
    for wrong in (0.5, 0.0, -1.0, math.nan):
        with pytest.raises(InvalidInput):
            NoisyCounts(1.0).curve(wrong)
    for scale in (-1.0, math.nan, math.inf, 2.0**51):
        with pytest.raises(InvalidInput):
            NoisyCounts(scale)


def test_blocks_have_noise_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphveil.mechanisms.noisy_counts._BLOCK", 100)
    noise = counted(Csr.empty(150), [0] * 150, 2, 5.0).ravel()
    assert (noise != 0).mean() > 0.8
    assert np.mean(noise[:100] == noise[100:200]) < 0.3
