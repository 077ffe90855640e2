"""Sampling without replacement in front of a pair whose two directions differ: the worse one is charged for both."""

from __future__ import annotations

import numpy as np
import pytest

from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import DominatingPair
from graphveil.mechanisms.fixed_size import FixedSize, FixedSizeCurve
from graphveil.mechanisms.gaussian import Gaussian

PAIR = DominatingPair((0.7, 0.3, 0.0), (0.5, 0.3, 0.2))


@pytest.mark.parametrize("rate", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("base", [PAIR, DominatingPair(PAIR.absent, PAIR.present)], ids=["one way", "the other"])
def test_the_worse_direction_of_the_inner_pair_is_charged(base: DominatingPair, rate: float) -> None:
    """H_{e^e}((1-q)P + qQ || P) of both orders of the pair, by hand, at positive and at negative epsilons."""
    for epsilon in (0.0, 0.05, 0.3, 1.0):
        worst = 0.0
        for q, p in ((base.present, base.absent), (base.absent, base.present)):
            mixed = [(1 - rate) * without + rate * there for there, without in zip(q, p, strict=True)]
            worst = max(worst, sum(max(m - np.exp(epsilon) * w, 0.0) for m, w in zip(mixed, p, strict=True)))
        curve = FixedSizeCurve(base, rate)
        up, down = curve.deltas(np.array([epsilon]))
        assert up[0] == pytest.approx(worst, abs=1e-12)
        assert down[0] == up[0]
        # The other half is its mirror image: H_{e^-e} = 1 - e^-e + e^-e H_{e^e}.
        mirrored = curve.deltas(np.array([-epsilon]))[0][0]
        assert mirrored == pytest.approx(1 - np.exp(-epsilon) + np.exp(-epsilon) * worst, abs=1e-12)


def test_no_sample_is_larger_than_its_population() -> None:
    assert FixedSize(Gaussian(4.0), 50, 50).curve(2.0).rate == 1
    for size in (51, 0, -1):
        with pytest.raises(InvalidInput, match=r"1\.\.50"):
            FixedSize(Gaussian(4.0), size, 50)
