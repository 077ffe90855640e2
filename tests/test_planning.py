"""From terms to a plan: noise is calibrated by the proof that is charged, at the delta that is promised."""

from __future__ import annotations

import pytest

from graphveil.methods.public_graph.privgnn import PrivGnn
from graphveil.planning import Terms, planned
from graphveil.privacy import accounting
from graphveil.vocabulary import Reading
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
