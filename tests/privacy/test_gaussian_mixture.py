"""Hidden mixtures of Gaussians against direct integration and dp-accounting's own mixture."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from scipy.stats import norm

from gaussian_mixture import GaussianMixture
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.poisson import PoissonCurve

MIXTURES = [
    GaussianMixture((0.5, 0.2, 0.2, 0.08, 0.02), (0.0, 0.25, 0.5, 1.0, 1.5)),
    GaussianMixture((0.3, 0.7), (0.5, 2.0)),
    GaussianMixture((0.999, 0.001), (0.0, 4.0)),
]


@pytest.mark.parametrize("mixture", MIXTURES, ids=str)
def test_deltas_by_integration(mixture: GaussianMixture) -> None:
    x = np.linspace(-30, 40, 700_001)
    absent = norm.pdf(x)
    present = sum(weight * norm.pdf(x, move) for weight, move in zip(mixture.weights, mixture.moves, strict=True))
    epsilons = np.array([-2.0, -0.3, 0.0, 0.2, 1.0, 3.0])
    remove, add = mixture.deltas(epsilons)
    for place, epsilon in enumerate(epsilons):
        scale = np.exp(epsilon)
        assert remove[place] == pytest.approx(np.trapezoid(np.maximum(present - scale * absent, 0), x), abs=1e-8)
        assert add[place] == pytest.approx(np.trapezoid(np.maximum(absent - scale * present, 0), x), abs=1e-8)


def test_agrees_with_another_library() -> None:
    weights, moves = MIXTURES[0].weights, MIXTURES[0].moves
    theirs = google.from_mixture_gaussian_mechanism(1.0, list(moves), list(weights), value_discretization_interval=1e-3)
    remove, add = MIXTURES[0].deltas(np.array([0.1, 1.0]))
    assert max(remove[0], add[0]) == pytest.approx(theirs.get_delta_for_epsilon(0.1), rel=1e-3)
    assert max(remove[1], add[1]) == pytest.approx(theirs.get_delta_for_epsilon(1.0), rel=1e-3)


def test_poisson_sampling_is_a_mixture_of_two() -> None:
    epsilons = np.linspace(-3, 3, 61)
    ours = GaussianMixture((0.9, 0.1), (0.0, 1.0)).deltas(epsilons)
    theirs = PoissonCurve(GaussianCurve(1.0), 0.1).deltas(epsilons)
    assert np.allclose(ours[0], theirs[0], atol=1e-12)
    assert np.allclose(ours[1], theirs[1], atol=1e-12)


def test_longer_moves_cost_more() -> None:
    epsilons = np.linspace(-2, 4, 25)
    less, more = (GaussianMixture((0.6, 0.4), (0.0, move)).deltas(epsilons) for move in (1.0, 1.2))
    assert (more[0] >= less[0] - 1e-12).all()
    assert (more[1] >= less[1] - 1e-12).all()
