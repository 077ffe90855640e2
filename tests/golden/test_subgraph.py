"""Figures for subgraph sampling that the accountant must meet within half a per cent."""

from __future__ import annotations

import numpy as np
import pytest

from graphveil import accounting
from graphveil.mechanisms.gaussian_mixture import GaussianMixture
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from plans import plan_of

NODES, RATE, STEPS = 22_470, 4096 / 22_470, 50


def one_out_arc(noise: float) -> RevealedMixture:
    """HeterPoisson, out-degree 1, M = 1: reveal whether the out-neighbour is central, hide the rest."""
    alone = GaussianMixture((1 - RATE, RATE), (0.0, 0.5 / noise))
    kept = GaussianMixture((1 - RATE, RATE), (1 / noise, 0.5 / noise))
    return RevealedMixture((1 - RATE, RATE), (alone, kept))


def test_heterpoisson_with_one_out_arc() -> None:
    claim = one_out_arc(3.0)
    assert claim.deltas(np.array([0.1]))[0][0] == pytest.approx(0.0148137, rel=1e-5)
    assert accounting.epsilon(plan_of((claim, STEPS)), NODES**-1.1) == pytest.approx(4.5499, rel=5e-3)


@pytest.mark.parametrize(("epsilon", "noise"), [(2, 6.05), (4, 3.34), (8, 1.90)])
def test_heterpoisson_noise(epsilon: float, noise: float) -> None:
    found = accounting.calibrate(lambda std: plan_of((one_out_arc(std), STEPS)), epsilon, NODES**-1.1)
    assert found.noise == pytest.approx(noise, rel=5e-3)
