"""Teacher and student: published and derived figures that the accountant must meet within half a per cent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import fftconvolve

import graphveil as gv
from graphveil.data.sealing import Public
from graphveil.mechanisms.dominating_pair import DominatingPair, PureCurve
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.noisy_max import LaplaceMax, NoisyMax, laplace_epsilon
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil.mechanisms.renyi import MomentsCurve
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Floats, Plan, Reading
from plans import plan_of

HALF_PER_CENT = 5e-3
NODE = Adjacency.of("node")
STRENGTHS = (0.1, 0.2, 0.4, 0.8, 1.0)


def about(value: float) -> object:
    return pytest.approx(value, rel=HALF_PER_CENT)


def spent(claim: PoissonCurve | MomentsCurve, queries: int, delta: float) -> float:
    return accounting.epsilon(plan_of((claim, queries)), delta)


@pytest.mark.parametrize(("classes", "strength", "epsilon"), [(10, 0.2, 0.2239), (4, 1.0, 1.1040), (2, 1.0, 0.9648)])
def test_one_laplace_argmax(classes: int, strength: float, epsilon: float) -> None:
    assert laplace_epsilon(classes, strength) == about(epsilon)


def test_gumbel_as_a_pure_mechanism() -> None:
    """Subsampled randomised response, whatever the number of classes; two classes attain it."""
    assert spent(PoissonCurve(PureCurve(1.0), 0.3), 500, 1e-4) == about(47.43)
    assert spent(PoissonCurve(NoisyMax(1.0, 2).curve(1), 0.3), 500, 1e-4) == about(47.43)


@pytest.mark.parametrize(
    ("strength", "laplace", "gumbel"), [(0.1, 4.07, 3.57), (0.2, 9.60, 8.32), (0.8, 69.4, 56.8), (1.0, 98.8, 80.4)]
)
def test_a_thousand_queries_as_pure_mechanisms(strength: float, laplace: float, gumbel: float) -> None:
    assert spent(PoissonCurve(PureCurve(laplace_epsilon(10, strength)), 0.3), 1000, 1e-4) == about(laplace)
    assert spent(PoissonCurve(PureCurve(strength), 0.3), 1000, 1e-4) == about(gumbel)


@pytest.mark.parametrize(("rate", "epsilon"), [(0.3, 166.57), (0.1, 36.63), (0.03, 7.97), (0.01, 2.20)])
def test_small_samples_go_far(rate: float, epsilon: float) -> None:
    assert spent(PoissonCurve(PureCurve(2.2), rate), 500, 1e-4) == about(epsilon)


# --- What is charged: randomised response over all classes, which two vertices attain. ---


def exact_epsilon(claim: DominatingPair, rate: float, times: int, delta: float) -> float:
    """Both directions by convolving the three losses on a grid fine enough for either rounding to be close."""
    present, absent = np.array(claim.present), np.array(claim.absent)
    mixed = (1 - rate) * absent + rate * present
    return max(_composed(mixed, absent, times, delta), _composed(absent, mixed, times, delta))


def _composed(first: Floats, second: Floats, times: int, delta: float) -> float:
    losses = np.log(first / second)
    grid = float(np.abs(losses).max()) / 500
    places = np.rint(losses / grid).astype(int)
    one = np.zeros(int(places.max() - places.min()) + 1)
    np.add.at(one, places - places.min(), first)
    total, base, left = np.ones(1), one, times
    while left:
        total = fftconvolve(total, base) if left & 1 else total
        base, left = fftconvolve(base, base) if left > 1 else base, left >> 1
    at = (times * int(places.min()) + np.arange(len(total))) * grid
    low, high = 0.0, float(at.max())
    for _ in range(60):
        middle = (low + high) / 2
        over = float((np.maximum(total, 0) * np.maximum(-np.expm1(np.minimum(middle - at, 0)), 0)).sum()) > delta
        low, high = (middle, high) if over else (low, middle)
    return high


@pytest.mark.parametrize(("kind", "strength"), [(LaplaceMax, 0.2), (LaplaceMax, 1.0), (NoisyMax, 0.4)])
def test_ten_classes_cost_less_than_two(kind: type[LaplaceMax | NoisyMax], strength: float) -> None:
    claim = kind(1 / strength, 10).curve(1)
    assert isinstance(claim, DominatingPair)
    found = spent(PoissonCurve(claim, 0.3), 1000, 1e-4)
    # Rounding losses to the nearest node is no bound, but close.
    assert found == pytest.approx(exact_epsilon(claim, 0.3, 1000, 1e-4), rel=HALF_PER_CENT)
    assert found < 0.5 * spent(PoissonCurve(PureCurve(kind(1 / strength, 10).epsilon()), 0.3), 1000, 1e-4)


OURS = {
    (500, "laplace", Reading.PUBLISHED, 1e-3): (2.67, 5.69, 13.16, 31.11, 44.07),
    (500, "laplace", Reading.PUBLISHED, 1e-4): (3.05, 6.46, 14.31, 33.41, 46.37),
    (500, "laplace", Reading.SOUND, 1e-4): (1.11, 2.55, 6.30, 18.18, 26.88),
    (500, "gumbel", Reading.SOUND, 1e-4): (0.98, 2.22, 5.35, 14.70, 21.36),
    (1000, "laplace", Reading.PUBLISHED, 1e-3): (3.91, 8.54, 19.81, 55.31, 81.23),
    (1000, "laplace", Reading.PUBLISHED, 1e-4): (4.45, 9.69, 22.12, 57.61, 83.54),
    (1000, "laplace", Reading.SOUND, 1e-4): (1.64, 3.81, 9.66, 29.10, 43.82),
    (1000, "gumbel", Reading.SOUND, 1e-4): (1.45, 3.31, 8.15, 23.30, 34.44),
}


@pytest.mark.parametrize(("queries", "argmax", "reading", "delta"), list(OURS))
def test_our_table_two(queries: int, argmax: str, reading: Reading, delta: float) -> None:
    """As the page of the method prints it, to the digits printed."""
    for strength, epsilon in zip(STRENGTHS, OURS[queries, argmax, reading, delta], strict=True):
        found = accounting.epsilon(teacher(queries, argmax, reading, strength), delta)
        assert found == pytest.approx(epsilon, abs=0.00501)


# --- Table 2 of the paper. ---


def teacher(queries: int, argmax: str, reading: Reading, strength: float, rate: float = 0.3) -> Plan:
    method = gv.methods.PrivGnn(queries=queries, rate=rate, spend="noise", argmax=argmax)
    return method.plan(Public.blank(2500, 767, 10, num_train=2500), NODE, reading, 1 / strength)


TABLE_TWO = {
    (500, 0.3, 1e-3): (2.67, 5.69, 13.15, 31.10, 44.07),
    (1000, 0.3, 1e-3): (3.90, 8.53, 19.81, 55.30, 81.23),
    # Amazon2M; for the last of a thousand Table 3 has 17.17.
    (500, 0.1, 1e-4): (0.97, 1.96, 4.03, 8.73, 11.17),
    (1000, 0.1, 1e-4): (1.39, 2.83, 5.94, 12.98, 17.73),
}


@pytest.mark.parametrize(("queries", "rate", "delta"), list(TABLE_TWO))
def test_published_table_two(queries: int, rate: float, delta: float) -> None:
    """Only with ten times the delta that the paper states, and without the factor 3 of its Theorem 8."""
    for strength, printed in zip(STRENGTHS, TABLE_TWO[queries, rate, delta], strict=True):
        plan = teacher(queries, "laplace", Reading.PUBLISHED, strength, rate)
        assert accounting.epsilon(plan, delta) == pytest.approx(printed, abs=0.0151)
        assert plan.refuted


def test_published_table_two_at_the_stated_delta() -> None:
    plan = teacher(1000, "laplace", Reading.PUBLISHED, 0.1)
    assert accounting.epsilon(plan, 1e-3) == about(3.91)
    assert accounting.epsilon(plan, 1e-4) == about(4.45)
    assert plan.steps[0].claim == MomentsCurve(PoissonCurve(LaplaceCurve(0.1), 0.3), 32)


@pytest.mark.parametrize(
    ("nodes", "queries", "printed"),
    [
        (2500, 500, (27.82, 87.82, 327.82, 800.97, 1000.97)),
        (2500, 1000, (47.82, 167.82, 647.82, 1600.97)),
        (10**6, 1000, (53.82, 173.82, 653.82, 1601.73, 2001.73)),
    ],
)
def test_published_pate(nodes: int, queries: int, printed: tuple[float, ...]) -> None:
    """PATEG of Table 2: the data-independent moments of LNMax up to order 8, at delta = 1 / private nodes."""
    method = gv.methods.Pate(queries=queries, aggregate="lnmax")
    for strength, epsilon in zip(STRENGTHS, printed, strict=False):
        public = Public.blank(nodes, 767, 10, num_train=nodes)
        plan = method.plan(public, NODE, Reading.PUBLISHED, 1 / strength)
        assert accounting.epsilon(plan, 1 / nodes) == pytest.approx(epsilon, abs=0.011)
        assert accounting.epsilon(method.plan(public, NODE, Reading.SOUND, 1 / strength), 1 / nodes) < 0.6 * epsilon


def test_noise_on_log_posteriors_is_unbounded() -> None:
    """The authors' code: 4.43 for a query at claimed 0.1 when two logits are 50 apart."""
    gap = 0.1 * 50
    lie = math.exp(-gap) * (2 + gap) / 4
    assert math.log((1 - lie) / lie) == about(4.43)
