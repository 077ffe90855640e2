"""From terms to a plan: noise is calibrated by the proof that is charged, at the delta that is promised."""

from __future__ import annotations

import math

import pytest

from graphveil.core import Reading
from graphveil.methods.privgnn import PrivGnn
from graphveil.planning import Terms, even_odds, planned
from graphveil.privacy import accounting
from two_graphs import SIZES

DEARER = PrivGnn(queries=50, neighbours=0, spend="noise", teacher="sage", single=True)
"""Its published proof charges less than can be proven."""


@pytest.mark.parametrize("reading", Reading)
def test_noise_meets_epsilon_by_the_proof_that_is_charged(reading: Reading) -> None:
    made = planned(DEARER, SIZES, Terms("node", epsilon=2.0, delta=1e-4, reading=reading))
    assert made.plan.reading is reading
    assert 1.9 < accounting.epsilon(made.plan, 1e-4) <= 2.0
    if reading is Reading.PUBLISHED:
        assert made.sound is not None
        assert accounting.epsilon(made.sound, 1e-4) > 2.0


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 12.0])
def test_odds_are_never_told_smaller_than_they_are(epsilon: float) -> None:
    more, less = map(float, even_odds(epsilon).split(" : "))
    true = 100 / (1 + math.exp(-epsilon))
    assert true <= more + 1e-9 <= true + 1 + 1e-9
    assert more + less == pytest.approx(100)
    assert less > 0


def test_odds_without_a_bound_are_certainty() -> None:
    assert {even_odds(epsilon) for epsilon in (40.0, 1e9, math.inf)} == {"100 : 0"}
    assert even_odds(0.0) == "50 : 50"
