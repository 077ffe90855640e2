"""A mixture whose component is seen: every component pays its share, one without noise all of it."""

from __future__ import annotations

import numpy as np
import pytest

from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture


def test_a_component_without_noise_tells_with_its_whole_weight() -> None:
    """delta(e) = sum_i w_i delta_i(e), and delta_i = 1 at every e where nothing hides."""
    finite = GaussianCurve(0.5)
    mixed = RevealedMixture((0.75, 0.25), (finite, PureCurve(np.inf)))
    epsilons = np.array([-2.0, 0.0, 1.0, 600.0])
    assert not mixed.infinite
    for found, one in zip(mixed.deltas(epsilons), finite.deltas(epsilons), strict=True):
        assert found == pytest.approx(0.75 * one + 0.25, abs=1e-15)
