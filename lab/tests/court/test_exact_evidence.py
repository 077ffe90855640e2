"""Exact evidence about sampled mechanisms, on the court's own pairs."""

from __future__ import annotations

import numpy as np
import pytest

from graphveil.runtime.engine import one_thread
from graphveil_lab.court import court
from graphveil_lab.court.sound_cases import SoundClaim


@pytest.mark.parametrize("name", ["ndp-node", pytest.param("heterpoisson-node", marks=pytest.mark.slow)])
def test_exact_evidence_is_a_likelihood_ratio(name: str) -> None:
    """Its mean over answers of the second graph is 1, which a guess at the law would miss."""
    (case,) = (case for case in court.cases() if case.name == name)
    assert isinstance(case, SoundClaim)
    with one_thread():
        ratios = np.exp(case.with_less_noise(1.0).log_ratios(False, range(200)))
    assert ratios.mean() == pytest.approx(1.0, abs=5 * ratios.std() / np.sqrt(len(ratios)))
    assert ratios.std() < 4


@pytest.mark.parametrize("name", ["drw-features", "ndp-node", "heterpoisson-node"])
def test_a_plan_without_any_noise_is_told_at_once(name: str) -> None:
    (case,) = (case for case in court.cases() if case.name == name)
    assert isinstance(case, SoundClaim)
    with one_thread():
        scores = case.with_less_noise(0.0).play(6, seed=3)
    assert scores.present.min() > scores.absent.max()
