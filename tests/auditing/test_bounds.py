"""Certified lower bounds against mechanisms whose epsilon is known."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom, nct

from fuzz import auditor
from graphveil.auditing import bounds
from graphveil.auditing.bounds import Scores, finding
from graphveil.errors import InvalidInput
from graphveil.release.audit_result import AuditResult, Law

DELTA = 1e-5


def normal(mu: float, runs: int, seed: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    return Scores(rng.normal(mu, 1, runs), rng.normal(0, 1, runs))


# The scores themselves


def test_auc_counts_pairs_and_halves_ties() -> None:
    rng = np.random.default_rng(0)
    present, absent = rng.integers(0, 5, 40).astype(float), rng.integers(0, 4, 30).astype(float)
    present[0], absent[0] = math.inf, -math.inf
    pairs = [(a > b) + 0.5 * (a == b) for a in present for b in absent]
    scores = Scores(present, absent)
    assert scores.auc() == pytest.approx(np.mean(pairs))
    assert scores.flipped().auc() == pytest.approx(1 - np.mean(pairs))


def test_tpr_is_that_of_a_test_that_an_attacker_can_run() -> None:
    scores = Scores(np.array([3.0, 2.0, 2.0, 0.0]), np.array([2.0, 1.0, 0.0, 0.0]))
    assert scores.tpr_at(0.0) == 0.25
    assert scores.tpr_at(0.125) == pytest.approx(0.5), "a coin decides half of the ties"
    assert scores.tpr_at(0.25) == 0.75
    assert scores.tpr_at(1.0) == 1.0
    alone = Scores(np.array([0.0, 2.0]), np.array([1.0]))
    assert alone.tpr_at(0.99) == 0.5, "no more than attained, however few the runs"


def test_scores_by_degree() -> None:
    degrees = np.arange(10)
    scores = Scores(np.arange(10.0), np.arange(10.0), degrees, degrees)
    parts = scores.by_degree()
    assert parts["low"].present.tolist() == [0, 1, 2, 3, 4]
    assert parts["high"].absent.tolist() == [5, 6, 7, 8, 9]
    same = Scores(np.arange(3.0), np.arange(3.0), np.ones(3, np.int64), np.ones(3, np.int64))
    assert list(same.by_degree()) == ["low"]
    with pytest.raises(InvalidInput, match="no degrees"):
        normal(1, 5).by_degree()


@pytest.mark.parametrize("bad", [[], [math.nan], [[1.0]], ["x"]])
def test_malformed_scores_are_refused(bad: list[object]) -> None:
    with pytest.raises(InvalidInput):
        Scores(np.ones(3), bad)
    with pytest.raises(InvalidInput):
        bounds.one_run_scores(bad, np.ones(len(bad), bool), DELTA, 0.99)


@pytest.mark.parametrize(("delta", "confidence"), [(1.0, 0.99), (-0.1, 0.99), (math.nan, 0.99), (0.1, 0.0), (0.1, 1.0)])
def test_delta_and_confidence_are_checked(delta: float, confidence: float) -> None:
    scores = normal(1, 20)
    for bound in (bounds.clopper_pearson, bounds.rank_test, bounds.bayesian, bounds.gaussian_test, bounds.gaussian_fit):
        with pytest.raises(InvalidInput):
            bound(scores, delta, confidence)
    with pytest.raises(InvalidInput):
        bounds.one_run(5, 10, delta, 10, confidence)


def test_other_malformed_input() -> None:
    scores = normal(1, 20)
    with pytest.raises(InvalidInput, match="claimed"):
        finding("x", scores, math.nan, DELTA)
    with pytest.raises(InvalidInput, match="law"):
        finding("x", scores, 1.0, DELTA, law="normal")
    with pytest.raises(InvalidInput, match="threshold"):
        finding("x", scores, 1.0, DELTA, threshold=math.nan)
    with pytest.raises(InvalidInput, match="guesses"):
        bounds.one_run(11, 10, DELTA, 10, 0.99)
    with pytest.raises(InvalidInput, match="guesses"):
        bounds.one_run_scores(np.ones(4), np.ones(4, bool), DELTA, 0.99, guesses=5)
    with pytest.raises(InvalidInput, match="truth value"):
        bounds.one_run_scores(np.ones(4), np.ones(4), DELTA, 0.99)


# Edges


@pytest.mark.parametrize("runs", [1, 2, 30, 999])
def test_equal_scores_say_nothing(runs: int) -> None:
    scores = Scores(np.full(runs, 0.3), np.full(runs, 0.3))
    assert scores.auc() == 0.5
    for bound in (bounds.clopper_pearson, bounds.rank_test, bounds.bayesian, bounds.gaussian_test):
        assert bound(scores, DELTA, 0.99) == 0
    if runs > 1:
        assert bounds.gaussian_fit(scores, DELTA, 0.99) == 0


@pytest.mark.parametrize("gap", [1.0, math.inf])
def test_perfect_separation_has_a_finite_bound(gap: float) -> None:
    n = 100
    scores = Scores(np.full(n, gap), np.zeros(n))
    low, high = 0.005 ** (1 / n), 1 - 0.005 ** (1 / n)
    expected = math.log((low - DELTA) / high)
    assert bounds.clopper_pearson(scores, DELTA, 0.99, threshold=0.5) == pytest.approx(expected)
    assert 2 < bounds.clopper_pearson(scores, DELTA, 0.99) < expected
    # All n present scores exceed all n absent ones: at epsilon, P(E) <= 1 - e^-epsilon (1 - Q(E)) makes that unlikely.
    assert bounds.clopper_pearson(scores, DELTA, 0.99) < bounds.rank_test(scores, DELTA, 0.99) < math.log(n)


def test_delta_zero_is_pure_privacy() -> None:
    scores = normal(2, 500)
    assert 0 < bounds.rank_test(scores, DELTA, 0.99) <= bounds.rank_test(scores, 0.0, 0.99) < math.inf
    assert bounds.gaussian_fit(scores, 0.0, 0.99) == math.inf, "no Gaussian is purely private"
    assert bounds.gaussian_fit(normal(0, 500, seed=1), 0.0, 0.9999) == 0


def test_one_score_in_each_world_certifies_nothing() -> None:
    scores = Scores(np.array([1.0]), np.array([0.0]))
    assert bounds.rank_test(scores, DELTA, 0.99) == bounds.bayesian(scores, DELTA, 0.99) == 0
    with pytest.raises(InvalidInput, match="two scores"):
        bounds.gaussian_fit(scores, DELTA, 0.99)


def test_a_release_without_noise_has_no_finite_gaussian_bound() -> None:
    assert bounds.gaussian_fit(Scores(np.full(5, 0.1), np.zeros(5)), DELTA, 0.99) == math.inf


@pytest.mark.parametrize("kind", ["mixture", "variance", "response", "infinite"])
def test_gaussian_fit_refuses_what_is_not_normal(kind: str) -> None:
    rng = np.random.default_rng(0)
    present = {
        "mixture": rng.normal(6 * (rng.random(500) < 0.1), 1),
        "variance": rng.normal(0, 2, 500),
        "response": (rng.random(500) < 0.97).astype(float),
        "infinite": np.full(500, math.inf),
    }[kind]
    absent = rng.normal(0, 1, 500)
    with pytest.raises(InvalidInput, match="normal"):
        bounds.gaussian_fit(Scores(present, absent), DELTA, 0.99)


# Each bound against its definition


def test_rank_p_value_is_the_integral() -> None:
    seen = bounds._Seen(*(np.array([value]) for value in (9.0, 200.0, 60.0, 150.0)))
    ceiling = bounds._dp_ceiling(0.01)
    exact = quad(
        lambda u: beta.pdf(u, 9, 192) * binom.sf(59, 150, float(ceiling(1.5, np.array([u]))[0])),
        0,
        1,
        points=[0.05, 0.1],
    )[0]
    found = float(seen.p_values(1e-3, ceiling(1.5, seen.rarely(1e-3)))[0])
    assert exact <= found <= bounds._RATIO * exact + 1e-6


@pytest.mark.parametrize(("t", "freedom", "centre"), [(3.0, 10, 0.5), (40.0, 2000, 36.0), (1.0, 50, 0.0)])
def test_t_tail_is_the_noncentral_t(t: float, freedom: int, centre: float) -> None:
    exact = float(nct.sf(t, freedom, centre))
    assert exact <= bounds._t_tail(t, freedom, centre, 0.01) <= bounds._RATIO * exact + 1e-5


def test_one_run_agrees_with_the_paper() -> None:
    """Steinke et al. 2023: Appendix D, and section 7."""
    assert bounds.one_run(75, 100, 1e-4, 1000, 0.95) == pytest.approx(0.673, abs=1e-3)
    assert bounds.one_run(1439, 1510, 1e-5, 100_000, 0.95) == pytest.approx(2.675, abs=1e-3)


def test_one_run_without_delta_is_a_binomial_test() -> None:
    lower = bounds.one_run(80, 100, 0.0, 100, 0.99)
    assert binom.sf(79, 100, 1 / (1 + math.exp(-lower))) == pytest.approx(0.01, rel=5e-3)
    assert bounds.one_run(0, 100, 0.0, 100, 0.99) == bounds.one_run(50, 100, 0.0, 100, 0.99) == 0


def test_one_run_recursion_bounds_every_law_of_correct_guesses() -> None:
    """Independent guesses about Gaussian canaries are mu-GDP: the recursion must not call their tail too lucky."""
    for mu in (0.3, 1.0, 2.5):
        law = binom(40, float(ndtr(mu / 2)))
        for correct in range(20, 41):
            tail = float(law.sf(correct - 1))
            assert not bounds._too_lucky(correct, 40, 40, tail, mu)
    assert bounds._too_lucky(40, 40, 40, 0.01, 0.3)
    assert bounds.one_run_fdp(40, 40, DELTA, 40, 0.99) > 0


def test_canaries_in_an_order_that_knows_their_coins() -> None:
    """Ties must not be decided by place: here members come first."""
    inside = np.arange(200) < 100
    assert bounds.one_run_scores(np.zeros(200), inside, DELTA, 0.99) < 0.2
    assert bounds.one_run_scores(inside.astype(float), inside, DELTA, 0.99, guesses=200) > 2


def test_more_confidence_certifies_less() -> None:
    scores = normal(1.5, 400)
    for bound in (bounds.clopper_pearson, bounds.rank_test, bounds.bayesian, bounds.gaussian_test, bounds.gaussian_fit):
        values = [bound(scores, DELTA, confidence) for confidence in (0.9, 0.99, 0.9999)]
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1]


# Several events are tried, and share the chance to err


def test_thresholds_that_are_tried_share_the_failure_probability() -> None:
    """100 runs of each world: ranks 1, 3, 9, 27 of either direction, and two rates of each event may be wrong."""
    n, events = 100, 2 * 4
    share = 0.01 / (2 * events)
    low, high = share ** (1 / n), 1 - share ** (1 / n)
    scores = Scores(np.ones(n), np.zeros(n))
    assert len(scores._seen.hits) == events
    assert bounds.clopper_pearson(scores, DELTA, 0.99) == pytest.approx(math.log((low - DELTA) / high), rel=1e-9)


@pytest.mark.parametrize("law", ["any", "gdp"])
def test_ranks_that_are_tried_share_the_failure_probability(law: str) -> None:
    """All present scores exceed all absent ones. At the bound the best of eight events has an eighth of the level."""
    n, events, level = 100, 8, 0.01
    scores = Scores(np.ones(n), np.zeros(n))
    if law == "any":
        found, ceiling = bounds.rank_test(scores, 0.0, 1 - level), bounds._dp_ceiling(0.0)
    else:
        found, ceiling = scores._seen.bound(level, bounds._gdp_ceiling), bounds._gdp_ceiling

    def tail(rank: int) -> float:
        """P(all n present scores lie above the absent score of this rank) = E ceiling(U)^n, U ~ Beta(k, n - k + 1)."""
        places = (np.arange(200_000) + 0.5) / 200_000
        return float((ceiling(found, beta.ppf(places, rank, n - rank + 1)) ** n).mean())

    best = min(tail(rank) for rank in (1, 3, 9, 27))
    assert level / events / 1.1 <= best <= level / events


@pytest.mark.parametrize("law", ["any", "gdp"])
def test_numbers_of_guesses_that_are_tried_share_the_failure_probability(law: str) -> None:
    """64 canaries: 64, 32, 16 and 8 guesses are tried, and all of them are right."""
    inside = np.arange(64) < 32
    bound = bounds.one_run if law == "any" else bounds.one_run_fdp
    each = [bound(number, number, DELTA, 64, 1 - 0.01 / 4) for number in (64, 32, 16, 8)]
    found = bounds.one_run_scores(inside.astype(float), inside, DELTA, 0.99, law=law)
    assert found == pytest.approx(max(each), rel=1e-9)
    alone = bounds.one_run_scores(inside.astype(float), inside, DELTA, 0.99, guesses=64, law=law)
    assert alone == pytest.approx(bound(64, 64, DELTA, 64, 0.99), rel=1e-9)
    assert alone > found


def test_a_fixed_threshold_shares_between_two_rates() -> None:
    """Sixty of a hundred above it in one world, twenty in the other: half of the level for either rate."""
    scores = Scores(np.repeat([1.0, 0.0], [60, 40]), np.repeat([1.0, 0.0], [20, 80]))
    low, high = beta.ppf(0.005, 60, 41), beta.ppf(0.995, 21, 80)
    wanted = max(math.log((low - DELTA) / high), math.log((1 - DELTA - high) / (1 - low)))
    assert bounds.clopper_pearson(scores, DELTA, 0.99, threshold=0.5) == pytest.approx(wanted, rel=1e-9)
    mu = float(ndtri(low) - ndtri(high))
    assert bounds.gaussian_test(scores, DELTA, 0.99, threshold=0.5) == pytest.approx(
        bounds.gaussian_epsilon(mu, DELTA), rel=1e-9
    )


# What must be shown


def test_bounds_rarely_exceed_the_truth() -> None:
    """A small version of tests/fuzz/auditor.py: ten families of mechanisms, six of each."""
    found = auditor.exceeding(mechanisms=60, runs=400, seed=3)
    for name, tally in found.items():
        allowed = 4 if name == "bayesian" else 1 + tally["audits"] // 100
        assert tally["above"] <= allowed, name


@pytest.mark.slow
def test_bounds_of_five_hundred_mechanisms() -> None:
    found = auditor.exceeding(mechanisms=500, runs=2000, seed=0)
    for name in ("clopper_pearson", "rank_test", "one_run"):
        tally = found[name]
        assert tally["above"] <= 5, name


@pytest.mark.parametrize(("size", "epsilon", "delta"), [(12, 0.5, 0.0), (60, 0.0, 0.0), (60, 1.0, 0.05)])
def test_coverage_at_the_boundary(size: int, epsilon: float, delta: float) -> None:
    """Where the claim is exactly true and the mechanism the worst of its kind: at most 1 %, up to chance."""
    rng, above, audits = np.random.default_rng(size), 0, 150
    for _ in range(audits):
        worlds = (auditor.worst(rng, size, there, epsilon, delta) for there in (True, False))
        above += bounds.rank_test(Scores(*worlds), delta, 0.99) > epsilon
    assert above <= binom.ppf(0.9999, audits, 0.01)


def test_gaussian_coverage_is_exact() -> None:
    rng, above, audits = np.random.default_rng(8), 0, 400
    for _ in range(audits):
        scores = Scores(rng.normal(1.2, 1, 15), rng.normal(0, 1, 25))
        above += bounds.gaussian_fit(scores, 0.01, 0.9) > bounds.gaussian_epsilon(1.2, 0.01)
    assert binom.ppf(1e-4, audits, 0.1) <= above <= binom.ppf(1 - 1e-4, audits, 0.1)


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_gaussian_mechanism_is_bounded_within_a_fifth(epsilon: float) -> None:
    """2,000 runs in each world. Epsilon 0.5 and 1 are out of reach of any valid bound: see docs/bounds.md."""
    mu = auditor.mu_of(epsilon, DELTA)
    shares = [bounds.gaussian_fit(normal(mu, 2000, seed), DELTA, 0.99) / epsilon for seed in range(20)]
    assert np.median(shares) > 0.8
    assert np.mean(np.array(shares) > 1) <= 0.1


def test_a_halved_noise_is_refuted_and_the_right_one_is_not() -> None:
    mu = auditor.mu_of(2.0, DELTA)
    for law in ("gdp", "gaussian"):
        assert finding("halved", normal(2 * mu, 1000), 2.0, DELTA, law=law).verdict == "refuted"
        assert finding("right", normal(mu, 1000), 2.0, DELTA, law=law).verdict == "consistent"
    assert finding("halved", normal(8.0, 1000), 2.0, DELTA).verdict == "refuted"


def test_rounding_errors_of_naive_laplace_noise_are_found() -> None:
    """Mironov 2012: 1 + y and y lie on other grids, so the last digit of |x| - |x - 1| tells which world it was."""
    rng, scale = np.random.default_rng(0), 4.0
    present, absent = rng.laplace(1.0, scale, 2000), rng.laplace(0.0, scale, 2000)
    naive = Scores(np.abs(present) - np.abs(present - 1), np.abs(absent) - np.abs(absent - 1))
    assert bounds.rank_test(naive, 0.0, 0.99) > 1.5
    exact = Scores(np.clip(2 * present - 1, -1, 1), np.clip(2 * absent - 1, -1, 1))
    assert bounds.rank_test(exact, 0.0, 0.99) < 1 / scale


def test_needed_runs_are_about_enough() -> None:
    mu = auditor.mu_of(2.0, DELTA)
    first = finding("small", normal(1.3 * mu, 400), 2.0, DELTA, law="gaussian")
    assert first.verdict == "consistent"
    assert first.needed is not None
    assert first.needed > first.runs
    refuted = [
        finding("more", normal(1.3 * mu, 2 * first.needed // 2, seed), 2.0, DELTA, law="gaussian").verdict == "refuted"
        for seed in range(10)
    ]
    assert sum(refuted) >= 3
    assert finding("sound", normal(0.5 * mu, 400), 2.0, DELTA, law="gaussian").needed is None
    assert finding("at a threshold", normal(1.0, 400), 2.0, DELTA, threshold=0.5).needed is None


def test_finding_travels_as_json() -> None:
    made = finding("canary", normal(1, 300), math.inf, DELTA, law="gdp")
    again = AuditResult.rebuild(json.loads(json.dumps(made.describe())))
    assert again == made
    assert "consistent" in str(made)
    assert made.lower == made.bounds["gaussian_test"]
    with pytest.raises(InvalidInput, match="does not follow"):
        AuditResult.rebuild({**made.describe(), "verdict": "refuted"})
    with pytest.raises(InvalidInput, match="not a finding"):
        AuditResult.rebuild({"attack": "canary"})
    for claimed in ("nan", -1.0):
        with pytest.raises(InvalidInput, match="claimed epsilon must be a number of at least 0"):
            AuditResult.rebuild({**made.describe(), "claimed": claimed})


def test_a_bound_that_equals_the_claim_does_not_refute_it() -> None:
    made = finding("canary", normal(1, 300), math.inf, DELTA)
    assert replace(made, claimed=made.lower).verdict == "consistent"
    assert replace(made, claimed=math.nextafter(made.lower, 0)).verdict == "refuted"


@pytest.mark.parametrize(
    ("law", "counts"), [("any", "bayesian"), ("any", "gaussian_test"), ("gdp", "rank_test"), ("gdp", "gaussian_fit")]
)
def test_only_what_is_a_certificate_under_the_law_counts(law: str, counts: str) -> None:
    made = finding("canary", normal(1, 300), 1.0, DELTA, law="gaussian")
    with pytest.raises(InvalidInput, match=f"'{counts}' does not count"):
        replace(made, law=Law(law), counts=counts)


def test_the_least_lucky_of_the_coins_decides_ties() -> None:
    tied = Scores(np.repeat([0.0, 1.0, 2.0], 20), np.repeat([0.0, 1.0, 2.0], [30, 20, 10]))
    coins = bounds._coins
    alone = []
    for draw in range(bounds._DRAWS):
        with mock.patch.object(bounds, "_coins", lambda size, _, draw=draw: coins(size, draw)):
            alone.append(bounds._Seen.of(tied).hits)
    assert np.array_equal(bounds._Seen.of(tied).hits, np.min(alone, axis=0))
    assert not np.array_equal(alone[-1], np.min(alone, axis=0)), "else this shows nothing"


def test_one_run_finding() -> None:
    rng = np.random.default_rng(0)
    inside = rng.random(400) < 0.5
    scores = rng.normal(4.0 * inside, 1)
    made = bounds.one_run_finding("canaries", scores, inside, 1.0, DELTA)
    assert made.verdict == "refuted"
    assert made.counts == "one_run"
    assert made.auc > 0.95
    claimed = bounds.one_run_finding("canaries", scores, inside, 50.0, DELTA, law="gdp")
    assert claimed.verdict == "consistent"
    assert claimed.lower == claimed.bounds["one_run_fdp"]
    everyone = bounds.one_run_finding("canaries", scores, np.ones(400, bool), 1.0, DELTA)
    assert everyone.auc == 0.5


def test_many_scores_take_well_under_a_second() -> None:
    for scores in (normal(1.0, 50_000), Scores(np.round(normal(1.0, 50_000).present), np.zeros(50_000))):
        start = time.process_time()
        bounds.rank_test(scores, DELTA, 0.99)
        assert time.process_time() - start < 2
