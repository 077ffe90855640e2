"""Symmetric multivariate Laplace noise: its law, and what it reveals in many dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import kve
from scipy.stats import kstest
from torch import Tensor

from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import gaussian_delta
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.sml import Sml, SmlCurve
from graphveil.privacy import accounting
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.vocabulary import Floats
from plans import plan_of

NOTHING = cast(Sealed, None)
EPSILONS = np.array([-3.0, -0.4, 0.0, 0.1, 1.0, 4.0, 30.0])


class Fixed:
    """One contribution that is already short enough."""

    def __init__(self, total: Tensor) -> None:
        self.total = total

    def clipped_sum(self, clip: float) -> Tensor:
        assert float(self.total.norm()) <= clip
        return self.total


def releases(act: Sml, total: Tensor, runs: int, source: Stream) -> Floats:
    """[runs, d]."""
    query = Fixed(total)
    return np.stack([act.apply(NOTHING, lambda _: query, source).double().numpy() for _ in range(runs)])


@pytest.mark.parametrize("make", [lambda: Seeded(1), Secure], ids=["seeded", "secure"])
def test_the_noise_is_a_normal_vector_of_one_random_length(make: Callable[[], Stream]) -> None:
    """sqrt(W) Z: in 4,000 dimensions the length tells W; any coordinate is Laplace with scale std / sqrt 2."""
    act = Sml(3.0, clip=0.5)
    noise = releases(act, torch.zeros(4000), 1500, make()) / (act.std * act.clip)
    spread = (noise**2).mean(axis=1)
    assert kstest(spread, "expon").pvalue > 1e-4
    assert kstest(noise[:, 7], "laplace", args=(0, 1 / math.sqrt(2))).pvalue > 1e-4
    # Given the length it is normal: a coordinate over the root of W.
    assert kstest(noise[:, 11] / np.sqrt(spread), "norm").pvalue > 1e-4
    assert (noise[:, 0] * noise[:, 1] > 0).mean() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(len(noise)))


def test_the_noise_sits_on_the_sum() -> None:
    total = torch.linspace(-0.01, 0.01, 300)
    assert np.allclose(releases(Sml(1e-6), total, 3, Seeded(2)), total.numpy(), atol=1e-4)


@pytest.mark.parametrize("ratio", [0.05, 0.7, 3.0])
def test_the_curve_is_the_mean_over_the_revealed_scale(ratio: float) -> None:
    """E_W delta_G(e; m / sqrt W), integrated over w = t^2."""
    both = SmlCurve(ratio).deltas(EPSILONS)
    for place, epsilon in enumerate(EPSILONS):

        def mass(t: float, at: float = float(epsilon)) -> float:
            return 2 * t * math.exp(-t * t) * float(gaussian_delta(np.array([at]), ratio / t)[0])

        exact = sum(quad(mass, low, high, limit=200)[0] for low, high in ((1e-9, 0.01), (0.01, 0.3), (0.3, 7.0)))
        assert both[0][place] == pytest.approx(exact, rel=1e-6)
        assert both[1][place] == both[0][place]


def log_density(points: Floats, std: float) -> Floats:
    """Of SML noise in d dimensions, up to a constant: r^(1 - d/2) K_{d/2 - 1}(sqrt2 r / std). points: [runs, d]."""
    dimension = points.shape[1]
    at = math.sqrt(2) * np.linalg.norm(points, axis=1) / std
    return np.asarray((1 - dimension / 2) * np.log(at) + np.log(kve(dimension / 2 - 1, at)) - at)


def measured(dimension: int, std: float, epsilon: float, runs: int) -> float:
    """Pr[S | one] - e^epsilon Pr[S | none] on the set that the likelihood ratio of the whole vector picks."""
    act, move = Sml(std), torch.zeros(dimension)
    move[0] = 1.0
    found = []
    for total, seed in ((move, 3), (torch.zeros(dimension), 4)):
        seen = releases(act, total, runs, Seeded(seed))
        ratio = log_density(seen - move.numpy(), std) - log_density(seen, std)
        found.append(float((ratio > epsilon).mean()))
    return found[0] - math.exp(epsilon) * found[1]


def test_the_published_claim_is_refuted_in_many_dimensions() -> None:
    """Lemma 1: noise sqrt 2 makes one contribution (1, 0)-private, as the Laplace marginal would."""
    runs, std = 10_000, math.sqrt(2)
    published = LaplaceCurve(math.sqrt(2) / std).deltas(np.array([1.0]))[0][0]
    assert published == pytest.approx(0.0, abs=1e-12)
    # Two binomial shares, five standard deviations.
    margin = 5 * (1 + math.e) * math.sqrt(0.25 / runs)
    seen = measured(100, std, 1.0, runs)
    assert seen > published + margin
    truth = SmlCurve(1 / std).deltas(np.array([1.0]))[0][0]
    assert truth - margin < seen < truth + margin, "the closed form is exceeded, or not approached"
    # In one dimension nothing is wrong with it.
    assert measured(1, std, 1.0, runs) < published + margin


def test_less_noise_is_noticed() -> None:
    """The same measurement against a claim for twice the noise."""
    std, runs = math.sqrt(2), 10_000
    margin = 5 * (1 + math.e) * math.sqrt(0.25 / runs)
    assert measured(60, std / 2, 1.0, runs) > SmlCurve(1 / std).deltas(np.array([1.0]))[0][0] + margin


def test_costs() -> None:
    assert Sml(2.0, clip=9.0).curve(3) == SmlCurve(1.5)
    assert Sml(0.0).curve(1).infinite
    assert accounting.epsilon(plan_of((SmlCurve(0.0), 3)), 1e-5) < 1e-6
    # About m^2 / (2 e): one use at delta costs m^2 / (2 delta).
    assert accounting.epsilon(plan_of((SmlCurve(0.1), 1)), 1e-4) == pytest.approx(0.01 / 2e-4, rel=5e-2)


@pytest.mark.parametrize("wrong", [{"std": -1.0}, {"std": math.nan}, {"std": 1.0, "clip": 0.0}])
def test_impossible_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        Sml(**wrong)


@pytest.mark.parametrize("sensitivity", [0.5, 0.0, -1.0, math.nan])
def test_sensitivities_below_one_contribution_are_refused(sensitivity: float) -> None:
    with pytest.raises(InvalidInput):
        Sml(1.0).curve(sensitivity)
