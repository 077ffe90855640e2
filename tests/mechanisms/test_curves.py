"""The contract of every curve. A new file in mechanisms/ is found here without editing anything."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

import long_arithmetic
from graphveil.codec import Serializable
from graphveil.errors import InvalidInput, Tampered
from graphveil.mechanisms.described import curves, mechanisms, rebuild_curve, rebuild_mechanism
from graphveil.mechanisms.dominating_pair import DominatingPair, PureCurve
from graphveil.mechanisms.fixed_size import FixedSizeCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.noisy_votes import TwoLaplaceCurve
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil.mechanisms.randomised_response import RandomisedResponse
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.sml import SmlCurve
from graphveil.privacy import accounting
from graphveil.vocabulary import Curve
from plans import plan_of

CURVES = [one for kind in curves().values() for one in kind.specimens()]
FINITE = [curve for curve in CURVES if not curve.infinite]
ALL_PARTS: list[Serializable] = [*CURVES, *(one for kind in mechanisms().values() for one in kind.specimens())]
EXTREME = [
    PoissonCurve(GaussianCurve(30.0), 0.3),
    PoissonCurve(GaussianCurve(1e-4), 1e-6),
    PoissonCurve(DominatingPair((0.6, 0.3, 0.1), (0.5, 0.3, 0.2)), 0.5),
    FixedSizeCurve(GaussianCurve(30.0), 0.3),
    FixedSizeCurve(LaplaceCurve(2.0), 1.0),
    GaussianCurve(50.0),
    PureCurve(30.0),
    RevealedMixture((0.5, 0.5), (PureCurve(0.1), PoissonCurve(GaussianCurve(1.0), 0.1))),
]


EDGES = [
    *(GaussianCurve(mu) for mu in (1e-300, 1e-20, 1e-8, 9e-4, 1.1e-3, 0.02, 7.0, 127.0, 129.0, 300.0)),
    *(kind(epsilon) for kind in (LaplaceCurve, PureCurve, TwoLaplaceCurve) for epsilon in (1e-6, 0.01, 5.0, 30.0)),
    SmlCurve(1e-4),
    SmlCurve(5.0),
    *(
        kind(base, rate)
        for kind in (PoissonCurve, FixedSizeCurve)
        for base in (GaussianCurve(1e-4), GaussianCurve(0.5), GaussianCurve(10.0), LaplaceCurve(1.0), PureCurve(20.0))
        for rate in (1e-8, 0.01, 0.5, 0.9, 1 - 1e-9)
    ),
    RevealedMixture((1 / 64,) * 64, tuple(GaussianCurve(move / 20) for move in range(64))),
]
WRITTEN = [curve for curve in FINITE if type(curve) in long_arithmetic.both.registry]


@pytest.mark.parametrize("curve", [*WRITTEN, *EXTREME, *EDGES], ids=lambda curve: str(curve)[:60])
def test_doubles_take_no_more_off_than_the_accountant_adds(curve: Curve) -> None:
    """Against sixty digits, as far as one use's losses go: a share of the curve, and a trace where that is near 0."""
    rng = np.random.default_rng(7)
    reach = accounting._support(curve) / 2
    epsilons = np.concatenate([rng.uniform(-reach, reach, 8), rng.normal(size=8) * reach / 10, [0.0]])
    found = curve.deltas(epsilons)
    assert found is not None
    with mp.workdps(2 * long_arithmetic.DIGITS):
        for place, epsilon in enumerate(map(float, epsilons)):
            for side, exact in zip(found, long_arithmetic.both(curve, mp.mpf(epsilon)), strict=True):
                told = mp.mpf(float(side[place]))
                assert exact <= told * (1 + mp.mpf(accounting._ROUNDING)) + accounting._rounding(curve)
                assert told <= exact * (1 + mp.mpf(2) ** -40) + 2 * accounting._rounding(curve)


@pytest.mark.parametrize("mu", [1e-250, 1e-12, 1e-5, 9.7e-4, 9.8e-4, 0.1, 3.0, 127.9, 128.1, 1e3, 1e8])
def test_gaussian_tails_keep_their_digits(mu: float) -> None:
    """A share, not a trace: Renyi divergences weigh tails by e^(a e)."""
    with np.errstate(all="raise", under="ignore"):
        z = np.array([-6.0, 0.0, 2.0, 8.0, 20.0, 36.0])
        epsilons = mu * z + mu * mu / 2
        for epsilon, told in zip(epsilons, GaussianCurve(mu).deltas(epsilons)[0], strict=True):
            exact = long_arithmetic.gaussian(float(epsilon), mu)
            # A share of epsilon that is lost in rounding moves delta by about that times z (z + mu).
            assert abs(told / exact - 1) < 1e-8 * max(1.0, mu * 1e-6) or exact < 1e-300


@pytest.mark.parametrize("epsilon", [0.1, 8.0, 20.0, 31.0])
@pytest.mark.parametrize("categories", [2, 4])
def test_rare_lies_keep_their_digits(epsilon: float, categories: int) -> None:
    """1 - truth has none left of a lie of chance e^-36, and with them went epsilon."""
    [remove], _ = RandomisedResponse(epsilon, categories).curve(1).deltas(np.array([epsilon - 1e-3]))
    truth = 1 / (1 + (categories - 1) * math.exp(-epsilon))
    assert remove >= truth * -math.expm1(-1e-3) * (1 - 1e-9)
    assert RandomisedResponse(40.0, categories).curve(1).infinite, "doubles cannot draw so rare a lie"


def test_the_foundation_is_found() -> None:
    known = {"GaussianCurve", "LaplaceCurve", "PureCurve", "PoissonCurve", "FixedSizeCurve", "ExposedCurve"}
    assert known <= set(curves())


@pytest.mark.parametrize("curve", [*FINITE, *EXTREME], ids=str)
def test_deltas_are_hockey_stick_divergences(curve: Curve) -> None:
    """In [0, 1], decreasing, convex in e^epsilon, above max(0, 1 - e^epsilon), and 1 at minus infinity."""
    for reach in (0.5, 5.0, 40.0, 2000.0):
        epsilons = np.linspace(-reach, reach, 4001)
        both = curve.deltas(epsilons)
        if both is None:
            pytest.skip("charged by its Renyi curve")
        t = np.exp(np.minimum(epsilons, 700.0))
        for deltas in both:
            assert np.isfinite(deltas).all()
            assert (deltas >= np.maximum(-np.expm1(np.minimum(epsilons, 0.0)), 0.0) - 1e-12).all()
            assert (deltas <= 1.0).all()
            assert (np.diff(deltas) <= 1e-12).all()
            if reach <= 40:
                slopes = np.diff(deltas) / np.diff(t)
                # A sum over hundreds of components rounds ten times as much as one closed form.
                slack = (4e-15 if isinstance(curve, HeterPoissonCurve) else 4e-16) / np.diff(t)
                assert (np.diff(slopes) >= -4 * (slack[1:] + slack[:-1])).all()
                assert (slopes >= -1 - slack * 8).all()
        assert both[0][0] > 1 - np.exp(-reach) - 1e-12


@pytest.mark.parametrize("curve", FINITE, ids=str)
def test_directions_mirror_each_other(curve: Curve) -> None:
    """H_a(P || Q) = 1 - a + a H_{1/a}(Q || P): the two sides must speak of one pair of worlds."""
    epsilons = np.linspace(-3, 3, 121)
    both, mirrored = curve.deltas(epsilons), curve.deltas(-epsilons)
    if both is None or mirrored is None:
        pytest.skip("charged by its Renyi curve")
    assert both[0] == pytest.approx(1 - np.exp(epsilons) + np.exp(epsilons) * mirrored[1], abs=1e-12)


@pytest.mark.parametrize("curve", FINITE, ids=str)
def test_many_uses_cost_less_than_their_sum_and_no_more_when_settled_before(curve: Curve) -> None:
    together = accounting.epsilon(plan_of((curve, 6)), 1e-5)
    chosen = accounting.adaptive_epsilon([plan_of((curve, 1)) for _ in range(6)], 2.0, 1e-5)
    if curve.deltas(np.zeros(1)) is not None:  # a published bound at orders of its own is looser than ours at one
        assert together <= chosen
    assert chosen <= 6 * accounting.epsilon(plan_of((curve, 1)), 1e-5 / 420) + 1e-9
    once = accounting.epsilon(plan_of((curve, 1)), 1e-5)
    assert once <= together <= 6 * accounting.epsilon(plan_of((curve, 1)), 1e-5 / 6) + 1e-9


@pytest.mark.parametrize("curve", [*FINITE, PoissonCurve(PureCurve(1.0), 0.3)], ids=str)
def test_renyi_never_beats_the_loss_distribution(curve: Curve) -> None:
    if curve.rdp(np.array([2.0])) is None or curve.deltas(np.zeros(1)) is None:
        pytest.skip("speaks one language only")
    for times in (1, 10, 300):
        for delta in (1e-3, 1e-6, 1e-9):
            plan = plan_of((curve, times))
            assert accounting.epsilon(plan, delta) <= accounting.rdp_epsilon(plan, delta) * 1.003 + 1e-9


@pytest.mark.parametrize("curve", FINITE, ids=str)
def test_renyi_bounds_the_divergence_of_the_pair(curve: Curve) -> None:
    """D_a in BOTH directions, integrated from the hockey-stick curve itself:
    E_P[(P/Q)^(a-1)] = 1 + integral of a (a-1) t^(a-2) (H_t(P||Q) - max(0, 1-t)) dt over t > 0."""
    orders = np.array([2.0, 3.0, 6.0])
    claimed = curve.rdp(orders)
    # Twice the reach of one use, on both sides: the rest is below 1e-18.
    losses = np.linspace(-2, 2, 400_001) * accounting._support(curve)
    both = curve.deltas(losses)
    if claimed is None or both is None:
        pytest.skip("speaks one language only")
    for order, bound in zip(orders, claimed, strict=True):
        for deltas in both:
            excess = deltas - np.maximum(-np.expm1(np.minimum(losses, 0.0)), 0.0)
            moment = 1 + np.trapezoid(order * (order - 1) * np.exp((order - 1) * losses) * excess, losses)
            assert np.log(moment) / (order - 1) <= bound * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.7])
@pytest.mark.parametrize(
    "base", [GaussianCurve(0.5), GaussianCurve(1.5), LaplaceCurve(0.4), LaplaceCurve(2.0)], ids=str
)
def test_renyi_divergences_of_poisson_samples_are_exact(base: GaussianCurve | LaplaceCurve, rate: float) -> None:
    """ln int p (1 - q + q p'/p)^a / (a - 1), integrated directly: a few per cent too many or too few are seen."""
    normal = isinstance(base, GaussianCurve)
    move = base.mu if isinstance(base, GaussianCurve) else base.epsilon

    def log_density(x: float) -> float:
        return -x * x / 2 - math.log(2 * math.pi) / 2 if normal else -abs(x) - math.log(2)

    def moment(x: float, order: int) -> float:
        ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + log_density(x - move) - log_density(x))
        return math.exp(log_density(x) + order * ratio) - math.exp(log_density(x))

    for order in (2, 3, 7, 20):
        ends = (-40.0, 0.0, move, 20.0, 80.0)
        above = sum(quad(moment, *cell, (order,), epsabs=0, epsrel=1e-9, limit=200)[0] for cell in pairwise(ends))
        [told] = PoissonCurve(base, rate).rdp(np.array([float(order)]))
        assert told == pytest.approx(math.log1p(above) / (order - 1), rel=1e-6)


def test_renyi_divergences_of_other_poisson_samples_are_those_of_the_theorem() -> None:
    """Zhu & Wang 2019, Theorem 5, with its factor 3 from the third moment on."""
    base, q, order = PureCurve(0.8), 0.3, 6
    moments = [math.comb(order, j) * q**j * (1 - q) ** (order - j) for j in range(order + 1)]
    inner = [0.0, 0.0, *base.rdp(np.arange(2.0, order + 1))]
    total = (1 - q) ** (order - 1) * (1 + (order - 1) * q) + moments[2] * math.exp(inner[2])
    total += 3 * sum(moments[j] * math.exp((j - 1) * inner[j]) for j in range(3, order + 1))
    [told] = PoissonCurve(base, q).rdp(np.array([float(order)]))
    assert told == pytest.approx(math.log(total) / (order - 1), rel=1e-12)


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_renyi_divergences_of_fixed_samples_are_those_of_the_theorem(mu: float, rate: float) -> None:
    """Wang, Balle & Kasiviswanathan 2019, Theorem 9; sampling never costs."""
    orders = (2, 3, 8, 30)
    told = FixedSizeCurve(GaussianCurve(mu), rate).rdp(np.array(orders, dtype=np.float64))
    with mp.workdps(30):
        for order, found in zip(orders, told, strict=True):
            inner = [mp.mpf(j) * mp.mpf(mu) ** 2 / 2 for j in range(order + 1)]
            second = min(4 * mp.expm1(inner[2]), 2 * mp.exp(inner[2]))
            total = 1 + mp.binomial(order, 2) * mp.mpf(rate) ** 2 * second
            total += sum(
                2 * mp.binomial(order, j) * mp.mpf(rate) ** j * mp.exp((j - 1) * inner[j]) for j in range(3, order + 1)
            )
            assert found == pytest.approx(float(min(mp.log(total) / (order - 1), inner[order])), rel=1e-9)


def test_exact_gaussians_say_the_same_in_all_languages() -> None:
    for curve in FINITE:
        mu = curve.gdp()
        if mu is not None:
            epsilons = np.linspace(-4, 4, 33)
            both = curve.deltas(epsilons)
            assert both is not None
            assert np.allclose(both, GaussianCurve(mu).deltas(epsilons), atol=1e-12)


@pytest.mark.parametrize("part", ALL_PARTS, ids=str)
def test_parts_survive_json(part: Serializable) -> None:
    text = json.dumps(part.describe())
    rebuild = rebuild_curve if isinstance(part, Curve) else rebuild_mechanism
    assert rebuild(json.loads(text)) == part


@pytest.mark.parametrize(
    "described",
    [
        {"kind": "os.system", "command": "true"},
        {"kind": "GaussianCurve"},
        {"kind": "GaussianCurve", "mu": 1.0, "extra": 2},
        {"kind": "GaussianCurve", "mu": -1.0},
        {"kind": "GaussianCurve", "mu": float("nan")},
        {"kind": "GaussianCurve", "mu": "1"},
        {"kind": "Gaussian", "std": 1.0, "clip": 1.0},
        {"kind": "PoissonCurve", "rate": 1.5, "base": {"kind": "GaussianCurve", "mu": 1.0}},
        {"kind": "DominatingPair", "present": [0.5, 0.4], "absent": [0.5, 0.5]},
        None,
        [],
    ],
)
def test_nonsense_is_refused(described: object) -> None:
    with pytest.raises(Tampered):
        rebuild_curve(described)


@pytest.mark.parametrize(
    ("present", "absent"),
    [
        ((0.5, 0.5), (1.0,)),
        ((), ()),
        ((1.5, -0.5), (0.5, 0.5)),
        ((0.5, 0.5 - 1e-10), (0.5, 0.5)),
        ((np.nan, 1), (0, 1)),
    ],
)
def test_pairs_are_distributions(present: tuple[float, ...], absent: tuple[float, ...]) -> None:
    """A mass of 1e-10 that is missing would be missing from delta."""
    with pytest.raises(InvalidInput):
        DominatingPair(present, absent)


def test_mixtures_are_distributions() -> None:
    for weights in ((0.5, 0.4), (1.5, -0.5), (1.0,)):
        with pytest.raises(InvalidInput):
            RevealedMixture(weights, (GaussianCurve(1.0), GaussianCurve(2.0)))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan")])
def test_rates_are_probabilities(rate: float) -> None:
    for kind in (PoissonCurve, FixedSizeCurve):
        with pytest.raises(InvalidInput, match="rate"):
            kind(GaussianCurve(1.0), rate)


def test_sampling_never_costs() -> None:
    """Wang et al.'s bound alone would exceed the unsampled Gaussian's at high rates."""
    orders = np.array([2.0, 8.0, 64.0])
    for rate in (0.05, 0.45, 1.0):
        sampled = FixedSizeCurve(GaussianCurve(0.1), rate).rdp(orders)
        assert sampled is not None
        assert (sampled <= GaussianCurve(0.1).rdp(orders)).all()
