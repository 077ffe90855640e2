"""Elections with noise: what a voter who changes sides costs."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import chisquare, laplace

from argmax_law import laplace_argmax
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.noisy_votes import NoisyVotes, TwoLaplaceCurve
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Floats
from plans import plan_of

NOTHING = cast(Sealed, None)


def test_two_laplace_numbers_cost_what_two_laplace_mechanisms_cost() -> None:
    """Against the one-dimensional curve, integrated over the first number."""
    one, two = LaplaceCurve(0.8), TwoLaplaceCurve(0.8)
    for epsilon in (-2.0, -0.5, 0.0, 0.3, 1.0, 1.59, 1.7):

        def rest(x: float, e: float = epsilon) -> float:
            loss = abs(x - 0.8) - abs(x)
            return float(laplace.pdf(x) * one.deltas(np.array([e - loss]))[0][0])

        exact = quad(rest, -40, 0)[0] + quad(rest, 0, 0.8, limit=200)[0] + quad(rest, 0.8, 40)[0]
        assert float(two.deltas(np.array([epsilon]))[0][0]) == pytest.approx(exact, abs=1e-9)


def test_composition_agrees_with_steps_of_one_number() -> None:
    for times, delta in ((1, 1e-3), (40, 1e-5)):
        together = accounting.epsilon(plan_of((TwoLaplaceCurve(0.2), times)), delta)
        apart = accounting.epsilon(plan_of((LaplaceCurve(0.2), 2 * times)), delta)
        assert together == pytest.approx(apart, rel=3e-3)
        assert together <= accounting.epsilon(plan_of((PureCurve(0.4), times)), delta) * (1 + 1e-3)


def elected(counts: list[int], scale: float) -> Floats:
    """Exactly: Pr[j] under Laplace noise."""
    return laplace_argmax(np.array(counts) / scale)


def test_no_election_costs_more_than_claimed() -> None:
    """Exact laws of all elections of four voters among three classes, and every voter's change of sides."""
    scale = 0.9
    claim = NoisyVotes(scale, 3).curve(1)
    epsilons = np.array([0.0, 0.3, 0.8, 1.5, 2 / scale])
    allowed = claim.deltas(epsilons)
    assert allowed is not None
    worst = np.zeros(len(epsilons))
    for first in range(5):
        for second in range(5 - first):
            counts = [first, second, 4 - first - second]
            for a in range(3):
                for b in range(3):
                    if a != b and counts[a]:
                        other = list(counts)
                        other[a] -= 1
                        other[b] += 1
                        here, there = elected(counts, scale), elected(other, scale)
                        found = [float(np.maximum(here - math.exp(e) * there, 0).sum()) for e in epsilons]
                        worst = np.maximum(worst, found)
    assert (worst <= allowed[0] + 1e-8).all()
    assert worst[0] > 0.3 * allowed[0][0], "far from the claim: something else is tested"


def test_gaussian_elections() -> None:
    assert NoisyVotes(4.0, 5, gaussian=True).curve(1).gdp() == pytest.approx(math.sqrt(2) / 4, rel=1e-5)
    assert isinstance(NoisyVotes(4.0, 5, gaussian=True).curve(1), GaussianCurve)


@pytest.mark.parametrize("gaussian", [False, True])
def test_nothing_finite_is_claimed_below_a_sixteenth(gaussian: bool) -> None:
    assert not NoisyVotes(1 / 16, 3, gaussian).curve(1).infinite
    assert NoisyVotes(1 / 16 - 2.0**-40, 3, gaussian).curve(1).infinite


@pytest.mark.parametrize("gaussian", [False, True])
def test_classes_are_elected_as_often_as_they_should(gaussian: bool) -> None:
    """Noise of its own for every class: one draw for all would leave the winner as it is."""
    act, uses = NoisyVotes(0.9, 3, gaussian), 3000
    votes = torch.tensor([[0, 0, 1, 2]])
    out = act.apply_many(NOTHING, lambda _: votes.expand(uses, 4), Seeded(5), uses)
    law = np.exp([act.log_chances(votes, torch.tensor([one]))[0] for one in range(3)])
    assert law.sum() == pytest.approx(1, abs=1e-3)
    assert chisquare(np.bincount(out.numpy(), minlength=3), uses * law / law.sum()).pvalue > 1e-6


def test_votes_are_counted() -> None:
    votes = torch.tensor([[0, 1, 1], [2, 2, 0], [7, -3, 1]])
    out = NoisyVotes(1e-9, 3).apply_many(NOTHING, lambda _: votes, Seeded(0), 3)
    assert out.tolist() == [1, 2, 0]
    assert NoisyVotes(1e-9, 3).curve(1).infinite


def test_bad_arguments_are_refused() -> None:
    for scale, classes in ((-1.0, 3), (math.nan, 3), (1.0, 1)):
        with pytest.raises(InvalidInput):
            NoisyVotes(scale, classes)
    with pytest.raises(InvalidInput):
        NoisyVotes(1.0, 3).curve(2)
    with pytest.raises(InvalidInput, match="votes"):
        NoisyVotes(1.0, 3).apply(NOTHING, lambda _: torch.ones(1, 0), Seeded(0))


def test_renyi_alone_is_dearer() -> None:
    plan = plan_of((TwoLaplaceCurve(0.3), 50))
    assert accounting.epsilon(plan, 1e-5) < accounting.epsilon(plan_of((RenyiCurve(TwoLaplaceCurve(0.3)), 50)), 1e-5)
