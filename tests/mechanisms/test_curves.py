"""The contract of every curve. A new file in mechanisms/ is found here without editing anything."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphveil import accounting, discover
from graphveil.core import Curve, Described, InvalidInput, Tampered
from graphveil.mechanisms.dominating_pair import DominatingPair, PureCurve
from graphveil.mechanisms.fixed_size import FixedSizeCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from plans import plan_of

CURVES = [one for kind in discover.curves().values() for one in kind.specimens()]
FINITE = [curve for curve in CURVES if not curve.infinite]
ALL_PARTS: list[Described] = [*CURVES, *(one for kind in discover.mechanisms().values() for one in kind.specimens())]
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


def test_the_foundation_is_found() -> None:
    known = {"GaussianCurve", "LaplaceCurve", "PureCurve", "PoissonCurve", "FixedSizeCurve", "ExposedCurve"}
    assert known <= set(discover.curves())


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
    chosen = accounting.epsilon_of_chosen([plan_of((curve, 1)) for _ in range(6)], 2.0, 1e-5)
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


def test_exact_gaussians_say_the_same_in_all_languages() -> None:
    for curve in FINITE:
        mu = curve.gdp()
        if mu is not None:
            epsilons = np.linspace(-4, 4, 33)
            both = curve.deltas(epsilons)
            assert both is not None
            assert np.allclose(both, GaussianCurve(mu).deltas(epsilons), atol=1e-12)


@pytest.mark.parametrize("part", ALL_PARTS, ids=str)
def test_parts_survive_json(part: Described) -> None:
    text = json.dumps(part.describe())
    rebuild = discover.rebuild_curve if isinstance(part, Curve) else discover.rebuild_mechanism
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
        discover.rebuild_curve(described)


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
