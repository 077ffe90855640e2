"""HeterPoisson's curves against mixtures that are built term by term, and what covering many out-degrees costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from neighbours import Sketch

from gaussian_mixture import GaussianMixture
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve, HeterPoissonSampling, revealed_curve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.sml import Sml, SmlCurve
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Curve
from plans import plan_of

EPSILONS = np.concatenate([np.linspace(-6, 6, 241), [8.0, 12.0, 20.0]])


def chances(count: int, chance: float) -> list[float]:
    """Bin(0..count; count, chance)."""
    return [math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(count + 1)]


def term_by_term(curve: HeterPoissonCurve, degree: int) -> RevealedMixture:
    """U2 at one out-degree: c ~ Bin(D, q) is seen, whether z is central and how often it was kept is not."""
    rate, keep = curve.rate, min(curve.cap, curve.multiplier / max(degree, 1))
    parts = []
    for count in range(degree + 1):
        weights, moves = [], []
        for kept, chance in enumerate(chances(count, keep)):
            weights += [(1 - rate) * chance, rate * chance]
            moves += [kept, kept + 0.5 if curve.overlap else 0.5]
        total = sum(weights)
        parts.append(GaussianMixture(tuple(w / total for w in weights), tuple(m / curve.noise for m in moves)))
    seen = np.array(chances(degree, rate))
    return RevealedMixture(tuple((seen / seen.sum()).tolist()), tuple(parts))


def spent(curve: Curve, times: int = 20, delta: float = 1e-5) -> float:
    return accounting.epsilon(plan_of((curve, times)), delta)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    ("degree", "noise", "rate", "multiplier", "cap"),
    [
        (0, 1.0, 0.3, 1.0, 1.0),
        (1, 3.0, 0.18, 1.0, 1.0),
        (1, 0.4, 0.5, 1.0, 1.0),
        (2, 1.5, 0.43, 2.0, 0.5),
        (3, 1.5, 0.43, 1.0, 1.0),
        (5, 4.0, 0.05, 2.5, 0.3),
        (12, 0.7, 0.2, 4.0, 1.0),
        (24, 2.0, 0.5, 3.0, 1.0),
        (4, 2.0, 1.0, 1.0, 1.0),
    ],
)
def test_one_out_degree_is_the_mixture_term_by_term(
    degree: int, noise: float, rate: float, multiplier: float, cap: float, overlap: bool
) -> None:
    curve = HeterPoissonCurve(noise, rate, multiplier, cap, degree, degree, overlap)
    for ours, exact in zip(curve.deltas(EPSILONS), term_by_term(curve, degree).deltas(EPSILONS), strict=True):
        assert (ours >= exact - 1e-12).all(), "below the truth"
        # Between its exact points the curve is a chord, at most half a per cent above.
        assert (ours <= exact * 1.006 + 1e-10).all(), "far above the truth"


def test_costs_of_one_out_degree_agree() -> None:
    for overlap in (False, True):
        curve = HeterPoissonCurve(2.0, 0.3, 1.0, 1.0, 3, 3, overlap)
        assert spent(curve) == pytest.approx(spent(term_by_term(curve, 3)), rel=3e-3)


FAMILIES = [
    HeterPoissonCurve(2.0, 0.4, 1.0, 1.0, 0, 40),
    HeterPoissonCurve(1.0, 0.2, 3.0, 1.0, 4, 5),
    HeterPoissonCurve(1.5, 0.3, 2.0, 1.0, 9, 30),
    HeterPoissonCurve(3.0, 0.5, 1.0, 0.2, 3, 24),
    HeterPoissonCurve(1.5, 0.3, 2.0, 0.5, 10, 20, overlap=True),
    HeterPoissonCurve(2.0, 0.02, 1.0, 1.0, 0, 3000),
]


def single(curve: HeterPoissonCurve, degree: int) -> HeterPoissonCurve:
    return replace(curve, low=degree, high=degree)


@pytest.mark.parametrize("curve", FAMILIES, ids=str)
def test_an_interval_bounds_every_out_degree_within(curve: HeterPoissonCurve) -> None:
    rng = np.random.default_rng(0)
    whole = curve.deltas(EPSILONS)
    for degree in {curve.low, curve.high, *rng.integers(curve.low, curve.high + 1, 6).tolist()}:
        # Small degrees against the exact mixture, large ones against our own curve of one degree.
        exact = term_by_term(curve, degree) if degree <= 40 else single(curve, degree)
        for bound, one in zip(whole, exact.deltas(EPSILONS), strict=True):
            # Our own curve lies up to half a per cent above the exact one.
            assert (bound >= one * (1 if degree <= 40 else 0.994) - 1e-11).all()


@pytest.mark.parametrize(
    ("curve", "epsilon"),
    [
        (HeterPoissonCurve(1.0, 0.02, 90.0, 1.0, 100, 1000), 6.0),
        (HeterPoissonCurve(1.0, 1.0, 10.0, 1.0, 11, 100, True), 520.0),
    ],
    ids=["its first degree", "its last degree"],
)
def test_a_part_of_an_interval_bounds_both_its_ends(curve: HeterPoissonCurve, epsilon: float) -> None:
    """Parts of several degrees: out-degree 100 is the first of one that keeps less at its end, then the last of one."""
    at = np.array([epsilon])
    exact = term_by_term(curve, 100).deltas(at)
    assert max(exact)[0] > 1e-9
    assert all(bound[0] >= one[0] for bound, one in zip(curve.deltas(at), exact, strict=True))


def parts_of(curve: HeterPoissonCurve) -> list[HeterPoissonCurve]:
    parts = curve.refine()
    assert all(isinstance(part, HeterPoissonCurve) for part in parts)
    return cast(list[HeterPoissonCurve], list(parts))


def leaves(curve: HeterPoissonCurve) -> list[HeterPoissonCurve]:
    parts = parts_of(curve)
    return [leaf for part in parts for leaf in leaves(part)] if parts else [curve]


@pytest.mark.parametrize("curve", FAMILIES[:-1], ids=str)
def test_refinements_leave_no_out_degree_out(curve: HeterPoissonCurve) -> None:
    """The leaves are single degrees; one that is missing keeps its node as surely as the largest that does so."""
    queue = [curve]
    while queue:
        many = queue.pop()
        parts = parts_of(many)
        covered = {degree for part in parts for degree in range(part.low, part.high + 1)}
        for degree in set(range(many.low, many.high + 1)) - covered if parts else set():
            assert any(many.keep(degree) == many.keep(other) for other in covered if other > degree)
        queue += parts
    assert all(leaf.low == leaf.high for leaf in leaves(curve))


@pytest.mark.parametrize("curve", FAMILIES, ids=str)
def test_out_degrees_that_keep_alike_are_bounded_by_the_largest(curve: HeterPoissonCurve) -> None:
    """D out-arcs that are always kept alike: D + 1 of them move the sum further."""
    alike = [degree for degree in range(curve.low, min(curve.high, 40)) if curve.keep(degree) == curve.keep(degree + 1)]
    for degree in alike:
        less, more = (term_by_term(curve, many).deltas(EPSILONS) for many in (degree, degree + 1))
        assert (more[0] >= less[0] - 1e-12).all()
        assert (more[1] >= less[1] - 1e-12).all()


@pytest.mark.parametrize("curve", FAMILIES, ids=str)
def test_refinements_charge_no_more(curve: HeterPoissonCurve) -> None:
    whole = curve.deltas(EPSILONS)
    for part in curve.refine():
        both = part.deltas(EPSILONS)
        assert both is not None
        for bound, finer in zip(whole, both, strict=True):
            assert (finer <= bound * 1.006 + 1e-11).all()


@pytest.mark.parametrize("curve", FAMILIES, ids=str)
def test_the_family_costs_what_its_worst_out_degree_costs(curve: HeterPoissonCurve) -> None:
    rng = np.random.default_rng(1)
    degrees = {*range(curve.low, min(curve.low + 7, curve.high + 1)), *rng.integers(curve.low, curve.high, 4).tolist()}
    each = [spent(single(curve, degree)) for degree in degrees]
    assert max(each) * (1 - accounting._PRECISION) <= spent(curve) <= max(each) * (1 + 2 * accounting._SLACK)


def test_cost_rises_with_everything_that_moves_more() -> None:
    base = HeterPoissonCurve(2.0, 0.2, 2.0, 0.5, 6, 6)
    least = spent(base)
    changes: list[dict[str, Any]] = [
        {"noise": 1.8}, {"rate": 0.25}, {"multiplier": 2.5}, {"overlap": True}, {"low": 4, "high": 4},
    ]  # fmt: skip
    for more in changes:
        # Four out-arcs are kept with probability 1/2, six with 1/3: as many on average, more at once.
        assert spent(replace(base, **more)) > least
    assert spent(replace(base, multiplier=1.0)) < least


@pytest.mark.parametrize("base", [GaussianCurve, SmlCurve])
@pytest.mark.parametrize(("noise", "overlap"), [(2.0, False), (2.0, True), (0.3, False)])
def test_revealing_covers_every_out_degree(
    base: type[SmlCurve] | type[GaussianCurve], noise: float, overlap: bool
) -> None:
    """With little noise, or at small epsilons, the largest out-degree is not the worst."""
    curve = HeterPoissonCurve(noise, 0.3, 2.0, 0.5, 0, 3000, overlap)
    whole = revealed_curve(base, curve).deltas(EPSILONS)
    ends = [revealed_curve(base, single(curve, degree)).deltas(EPSILONS)[0] for degree in (4, 3000)]
    assert (ends[0] > ends[1] + 1e-6).any()
    assert (ends[1] > ends[0] + 1e-6).any()
    for degree in (0, 1, 3, 4, 5, 8, 20, 150, 700, 2999, 3000):
        for bound, one in zip(whole, revealed_curve(base, single(curve, degree)).deltas(EPSILONS), strict=True):
            assert (bound >= one - 1e-12).all()


@pytest.mark.parametrize("overlap", [False, True])
def test_revealing_every_occurrence_is_looser(overlap: bool) -> None:
    """U1 bounds U2 at every out-degree."""
    curve = HeterPoissonCurve(2.0, 0.3, 2.0, 0.5, 0, 60, overlap)
    for degree in (0, 1, 3, 4, 5, 8, 20):
        loose = revealed_curve(GaussianCurve, single(curve, degree)).deltas(EPSILONS)
        for bound, one in zip(loose, term_by_term(curve, degree).deltas(EPSILONS), strict=True):
            assert (bound >= one - 1e-12).all()
    assert spent(revealed_curve(GaussianCurve, curve)) > spent(curve)


@pytest.mark.parametrize("overlap", [False, True])
def test_revealed_terms(overlap: bool) -> None:
    """q delta(1/2 [+ k]) + (1-q) sum_k Bin(k; D, q p) delta(k)."""
    curve = HeterPoissonCurve(2.0, 0.3, 1.0, 1.0, 5, 5, overlap)
    mixed = revealed_curve(SmlCurve, curve)
    expected = np.zeros_like(EPSILONS)
    for kept, chance in enumerate(chances(5, 0.3 / 5)):
        for weight, move in ((0.7, kept), (0.3, kept + 0.5 if overlap else 0.5)):
            expected = expected + weight * chance * SmlCurve(move / 2).deltas(EPSILONS)[0]
    assert mixed.deltas(EPSILONS)[0] == pytest.approx(expected, rel=1e-9)


def test_acts_claim_every_out_degree_of_their_population() -> None:
    act = HeterPoissonSampling(Gaussian(6.0, clip=0.5), 0.2, 1.0, 0.5, 50)
    assert act.curve(2) == HeterPoissonCurve(3.0, 0.2, 1.0, 0.5, 0, 49)
    assert replace(act, overlap=True).curve(2) == HeterPoissonCurve(3.0, 0.2, 1.0, 0.5, 0, 49, True)
    assert replace(act, inner=Gaussian(0.0)).curve(2).infinite
    assert replace(act, inner=Sml(0.0)).curve(2).deltas(np.array([50.0]))[0][0] > 0.3  # type: ignore[index]
    loud = replace(act, inner=Sml(6.0)).curve(2)
    assert isinstance(loud, RevealedMixture)
    assert all(isinstance(one, SmlCurve) for one in loud.curves)
    for sensitivity in (1.0, 3.0):
        with pytest.raises(InvalidInput, match="sensitivity 2"):
            act.curve(sensitivity)


def test_only_training_ids_are_ever_sampled() -> None:
    """In a complete graph, with coins that keep whoever may be kept: claims speak of as many ids as train."""
    links = ~np.eye(9, dtype=bool)
    graph = Sketch(links, torch.ones(9, 2), torch.arange(9) % 3, undirected=True).graph()
    public, sealed = graph.seal(Adjacency.of("node"))
    training = public.train.nonzero().flatten().numpy()
    act = HeterPoissonSampling(Gaussian(1.0), 0.5, 9.0, 1.0, len(training))
    with sealed.opened():
        batch = act.batch(sealed, training[:1], np.zeros(8))
    assert sorted(batch.nodes.tolist()) == training.tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": -1.0}, {"noise": math.nan}, {"rate": 0.0}, {"rate": 1.1}, {"multiplier": 0.0}, {"cap": 0.0},
        {"cap": 1.5}, {"low": -1}, {"low": 4, "high": 3},
    ],
)  # fmt: skip
def test_impossible_curves(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(HeterPoissonCurve(1.0, 0.2, 1.0, 1.0, 1, 3), **wrong)


def test_nothing_finite_is_claimed_of_hardly_any_noise() -> None:
    least = HeterPoissonCurve(2.0**-16, 0.5, 1.0, 1.0, 1, 1)
    assert not least.infinite
    assert replace(least, noise=2.0**-16 * (1 - 1e-9)).infinite


def test_chords_stay_above_where_exponentials_end() -> None:
    """At e = 700 the chord would need e^700 and more; with hardly any noise densities underflow between the moves."""
    loud = HeterPoissonCurve(0.0267, 0.5, 1.0, 1.0, 1, 1)
    assert loud.deltas(np.array([700.0]))[0][0] >= 0.12414
    silent = HeterPoissonCurve(0.008, 0.5, 1.0, 1.0, 1, 1)
    assert silent.deltas(np.array([400.0]))[1][0] >= 0.5 - 1e-9


def test_runs_with_different_out_degrees_are_not_charged_as_one() -> None:
    """Another split gives a node another degree: D = 1 in one run and D = 3 in the next cost more than either twice."""
    claim = HeterPoissonCurve(0.7891, 0.2, 1.0, 1.0, 0, 6)
    mixed = plan_of((replace(claim, low=1, high=1), 25), (replace(claim, low=3, high=3), 25))
    ledger = accounting.adaptive_epsilon([plan_of((claim, 25))] * 2, 4.0, 1e-5)
    assert ledger >= accounting.epsilon(mixed, 1e-5) > accounting.epsilon(plan_of((claim, 50)), 1e-5)
