"""Figures for subgraph sampling that the accountant must meet within half a per cent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gaussian_mixture import GaussianMixture
from graphveil.data.sealing import Public
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve, revealed_curve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.sml import SmlCurve
from graphveil.methods.node.drw import Drw
from graphveil.methods.node.heterpoisson import HeterPoisson
from graphveil.methods.node.ndp import Ndp
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit
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


def curve(noise: float, low: int = 1, high: int = 1, cap: float = 1.0) -> HeterPoissonCurve:
    return HeterPoissonCurve(noise, RATE, 1.0, cap, low, high)


def test_heterpoisson_curve_with_one_out_arc() -> None:
    both = curve(3.0).deltas(np.array([0.1]))
    assert max(both[0][0], both[1][0]) == pytest.approx(0.0148137, rel=1e-3)
    assert accounting.epsilon(plan_of((curve(3.0), STEPS)), NODES**-1.1) == pytest.approx(4.5499, rel=5e-3)


def test_heterpoisson_revealing_every_occurrence() -> None:
    """U1 at the largest out-degree."""
    claim = revealed_curve(GaussianCurve, curve(3.0, NODES - 1, NODES - 1))
    assert accounting.epsilon(plan_of((claim, STEPS)), NODES**-1.1) == pytest.approx(6.2598, rel=5e-3)


@pytest.mark.parametrize(("cap", "noise"), [(0.5, 5.04), (0.1, 3.89)])
def test_heterpoisson_with_smaller_keep_probabilities(cap: float, noise: float) -> None:
    """p_max: the worst out-degree is M / p_max."""
    most = round(1 / cap)
    found = accounting.calibrate(lambda std: plan_of((curve(std, most, most, cap), STEPS)), 2, NODES**-1.1)
    assert found.noise == pytest.approx(noise, rel=5e-3)


NODE = Adjacency.of(Unit.NODE)
SIZES = {
    "facebook": (22_470, 9.0, 50),
    "twitch": (9_498, 9.0, 21),
    "computers": (13_752, 9.0, 31),
    "pubmed": (19_717, 9.0, 44),
    "reddit": (232_965, 4.0, 228),
}
"""Nodes, epochs of 4,096 centres, and steps."""
TABLE = [
    ("facebook", 2, 10.3, 6.05, 7.71),
    ("facebook", 4, 5.47, 3.34, 4.30),
    ("facebook", 8, 2.94, 1.90, 2.48),
    ("twitch", 2, 9.24, 4.84, 7.36),
    ("twitch", 8, 2.66, 1.55, 2.47),
    ("computers", 2, 9.85, 5.48, 7.59),
    ("computers", 8, 2.83, 1.74, 2.49),
    ("pubmed", 2, 10.2, 5.91, 7.68),
    ("pubmed", 8, 2.92, 1.86, 2.48),
    ("reddit", 2, 8.22, 5.73, 6.26),
    ("reddit", 8, 2.30, 1.76, 1.94),
]


def planned(dataset: str, reading: Reading, noise: float, **settings: Any) -> Plan:
    """The plan of a network on a graph of which sizes alone are known, every node training."""
    nodes, epochs, steps = SIZES[dataset]
    method = HeterPoisson(network="gcn", epochs=epochs, **settings)
    plan = method.plan(Public.blank(nodes, 500, 7, num_train=nodes), NODE, reading, noise)
    assert [step.times for step in plan.steps] == [steps]
    return plan


@pytest.mark.parametrize(("dataset", "epsilon", "published", "one_arc", "revealed"), TABLE)
def test_heterpoisson_table(dataset: str, epsilon: float, published: float, one_arc: float, revealed: float) -> None:
    """Noise that the authors' code asks for (unsound), that U2 needs at out-degree M, and that U1 needs."""
    delta = SIZES[dataset][0] ** -1.1

    def authors(noise: float) -> Plan:
        return planned(dataset, Reading.PUBLISHED, noise, noise_law="sml", exact_term=True)

    def at_one(noise: float) -> Plan:
        step = planned(dataset, Reading.SOUND, noise).steps[0]
        return plan_of((replace(step.claim, low=1, high=1), step.times))

    def everything(noise: float) -> Plan:
        step = planned(dataset, Reading.SOUND, noise).steps[0]
        return plan_of((revealed_curve(GaussianCurve, replace(step.claim, low=step.claim.high)), step.times))  # type: ignore[attr-defined]

    for plan_of_noise, expected in ((authors, published), (at_one, one_arc), (everything, revealed)):
        assert accounting.calibrate(plan_of_noise, epsilon, delta).noise == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize(("exact", "noise"), [(False, 3.670), (True, 2.944)])
def test_theorem_two(exact: bool, noise: float) -> None:
    found = accounting.calibrate(
        lambda std: planned("facebook", Reading.PUBLISHED, std, noise_law="sml", exact_term=exact), 8, NODES**-1.1
    )
    assert found.plan.refuted
    assert found.noise == pytest.approx(noise, rel=5e-3)


def test_heterpoisson_family_is_calibrated_through_the_method() -> None:
    """Facebook: out-degree M is the worst, so that covering all of them costs nothing."""
    found = accounting.calibrate(lambda noise: planned("facebook", Reading.SOUND, noise), 2, NODES**-1.1)
    assert found.epsilon <= 2
    assert found.noise == pytest.approx(6.05, rel=5e-3)


def test_out_degree_three_is_the_worst_on_twitch() -> None:
    """At epsilon 8 the noise that suffices for out-degree M = 1 does not for 3: the whole family must be charged."""
    delta, step = 9_498**-1.1, planned("twitch", Reading.SOUND, 1.55).steps[0]
    one, three = (plan_of((replace(step.claim, low=many, high=many), step.times)) for many in (1, 3))
    assert accounting.epsilon(one, delta) < 8
    assert accounting.bracket(three, delta)[0] > 8.1
    whole = accounting.epsilon(plan_of((step.claim, step.times)), delta)
    assert accounting.epsilon(three, delta) <= whole <= 1.003 * accounting.epsilon(three, delta)


@pytest.mark.slow  # the family's worst case is above, its calibration on Facebook
def test_the_noise_that_covers_twitch() -> None:
    found = accounting.calibrate(lambda noise: planned("twitch", Reading.SOUND, noise), 8, 9_498**-1.1)
    assert 7.95 <= found.epsilon <= 8
    assert found.noise == pytest.approx(1.569, rel=5e-3)


def test_sml_in_one_shot() -> None:
    """One contribution, noise sqrt 2: its authors claim (1, 0)."""
    for epsilon, expected in ((1.0, 0.187067), (4.0, 0.0596967)):
        both = SmlCurve(1 / np.sqrt(2)).deltas(np.array([epsilon]))
        assert [side[0] for side in both] == pytest.approx([expected, expected], rel=1e-5)


@pytest.mark.slow  # one contribution is above
def test_sml_truly_costs_thousands() -> None:
    """At the noise that is published as epsilon 2 on Facebook."""
    plan = planned("facebook", Reading.SOUND, 10.26, noise_law="sml")
    assert 590 < accounting.epsilon(plan, NODES**-1.1) < 10_000
    same = planned("facebook", Reading.PUBLISHED, 10.26, noise_law="sml", exact_term=True)
    assert accounting.epsilon(same, NODES**-1.1) == pytest.approx(2, rel=5e-3)


def spent(method: Drw | Ndp, num_train: int, spread: float, reading: Reading, delta: float) -> float:
    """Epsilon of the method on a graph of which sizes alone are known; `spread` = sigma / (2 clip), as papers print."""
    public = Public.blank(num_train, 500, 7, num_train=num_train)
    plan = method.plan(public, Adjacency.of(Unit.FEATURES), reading, 2 * spread)
    return accounting.epsilon(plan, delta)


@pytest.mark.parametrize(
    ("length", "spread", "steps", "epsilon"), [(1, 4, 100, 5.959), (1, 2, 10, 4.113), (2, 8, 100, 4.093)]
)
def test_drw_sound(length: int, spread: float, steps: int, epsilon: float) -> None:
    method = Drw(batch=10_000, length=length, steps=steps)
    assert spent(method, 44_625, spread, Reading.SOUND, 1e-6) == pytest.approx(epsilon, rel=5e-3)


def test_drw_published() -> None:
    """Wang, Balle & Kasiviswanathan, at orders up to 1024."""
    method = Drw(batch=10_000, length=1, steps=100)
    assert spent(method, 44_625, 2, Reading.PUBLISHED, 1e-6) == pytest.approx(32.98, rel=5e-3)


@pytest.mark.parametrize(("reading", "epsilon"), [(Reading.PUBLISHED, 7.202), (Reading.SOUND, 6.578)])
def test_ndp(reading: Reading, epsilon: float) -> None:
    method = Ndp(batch=10_000, cap=5, layers=1, steps=100)
    assert spent(method, 90_941, 8, reading, 90_941**-1.1) == pytest.approx(epsilon, rel=5e-3)
