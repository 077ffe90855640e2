"""The accountant against closed forms, brute force and other accountants."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from scipy.optimize import brentq
from scipy.stats import binom

import graphveil as gv
import long_arithmetic
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.dominating_pair import DominatingPair, PureCurve
from graphveil.mechanisms.fixed_size import FixedSizeCurve
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve, gaussian_bounds
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.sml import SmlCurve
from graphveil.mechanisms.unprotected import ExposedCurve
from graphveil.planning import plan_of as plan_of_method
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Curve, Floats, Plan, Reading
from plans import Opaque, plan_of

DELTAS = (1e-3, 1e-5, 1e-8, 1e-10)
LOPSIDED = DominatingPair((0.1, 0.9), (0.001, 0.999))
"""Seeing the first outcome is damning, not seeing it tells little: the two directions differ widely."""


def product_delta(claims: list[DominatingPair], epsilon: float, remove: bool) -> float:
    """H_{e^epsilon} of the joint law of independent outcomes, by listing them all."""
    total = 0.0
    for outcome in itertools.product(*(zip(one.present, one.absent, strict=True) for one in claims)):
        present, absent = math.prod(p for p, _ in outcome), math.prod(a for _, a in outcome)
        first, second = (present, absent) if remove else (absent, present)
        total += max(first - math.exp(epsilon) * second, 0.0)
    return total


def product_epsilon(claims: list[DominatingPair], delta: float) -> float:
    """Smallest epsilon of both directions, by bisection on `product_delta`."""
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        worst = max(product_delta(claims, middle, remove) for remove in (True, False))
        low, high = (middle, high) if worst > delta else (low, middle)
    return high


def response_delta(epsilon: float, times: int, at: float) -> float:
    """Exact composition of randomised response (Kairouz et al. 2015): the loss is (2 K - times) epsilon."""
    heads = np.arange(times + 1)
    mass = binom(times, 1 / (1 + math.exp(-epsilon))).pmf(heads)
    return float((mass * np.maximum(-np.expm1(at - (2 * heads - times) * epsilon), 0.0)).sum())


class TestBracket:
    @pytest.mark.parametrize("times", [1, 2, 7, 100, 3_000, 10_000])
    @pytest.mark.parametrize("total", [0.05, 1.0, 6.0])
    def test_holds_the_closed_form(self, total: float, times: int) -> None:
        """Composed Gaussians that must be discretised, against mu-GDP converted exactly."""
        plan = plan_of((Opaque(total / math.sqrt(times)), times))
        for delta in DELTAS:
            true = accounting.epsilon(plan_of((GaussianCurve(total), 1)), delta)
            lower, upper = accounting.bracket(plan, delta)
            assert lower <= true <= upper
            assert upper <= true * 1.004 + 1e-9, "the upper bound is loose"
            assert lower >= true * 0.98 - 1e-3, "the lower bound is loose"

    def test_sampling_almost_everyone(self) -> None:
        """Rate just below 1 goes through the amplified curve and must meet the unsampled closed form."""
        plan = plan_of((PoissonCurve(GaussianCurve(0.2), 1 - 1e-9), 25))
        lower, upper = accounting.bracket(plan, 1e-6)
        true = accounting.epsilon(plan_of((GaussianCurve(1.0), 1)), 1e-6)
        assert lower <= true * (1 + 1e-6)
        assert true * (1 - 1e-6) <= upper <= true * 1.004

    @pytest.mark.parametrize("epsilon", [20.0, 33.0, 35.5, 36.7, 40.0, 64.0])
    def test_large_pure_epsilons_are_not_understated(self, epsilon: float) -> None:
        """A lie of chance e^-epsilon must keep its digits: at any delta below 1/2 nearly all of epsilon is spent."""
        true = epsilon + math.log1p(-1e-5 * (1 + math.exp(-epsilon)))
        assert true - 1e-11 <= accounting.epsilon(plan_of((PureCurve(epsilon), 1)), 1e-5) <= epsilon * (1 + 1e-9)

    @pytest.mark.parametrize(("epsilon", "times"), [(0.1, 40), (0.5, 10), (2.0, 3)])
    def test_randomised_response(self, epsilon: float, times: int) -> None:
        plan = plan_of((PureCurve(epsilon), times))
        for at in (0.0, 0.3 * times * epsilon, 0.8 * times * epsilon):
            exact = response_delta(epsilon, times, at)
            assert exact <= accounting.delta(plan, at) <= exact * 1.001 + 1e-12
        true = 0.8 * times * epsilon
        delta = response_delta(epsilon, times, true)
        lower, upper = accounting.bracket(plan, delta)
        assert lower <= true * (1 + 1e-9)
        assert true <= upper <= true * 1.002

    def test_random_curves(self) -> None:
        """Optimistic and pessimistic discretisations bracket enumerated products of random pairs."""
        rng = np.random.default_rng(5)
        for _ in range(15):
            claims = []
            for _ in range(int(rng.integers(1, 4))):
                present, absent = rng.dirichlet(np.ones(4), size=2)
                claims.append(DominatingPair(tuple(map(float, present)), tuple(map(float, absent))))
            delta = float(10 ** rng.uniform(-4, -1))
            lower, upper = accounting.bracket(plan_of(*((claim, 1) for claim in claims)), delta)
            true = product_epsilon(claims, delta)
            assert lower <= true + 1e-9
            assert true <= upper + 1e-9
            assert upper <= true * 1.01 + 1e-3

    def test_exact_plans_have_no_width_but_their_last_digits(self) -> None:
        for plan in (plan_of(), plan_of((ExposedCurve(), 1))):
            lower, upper = accounting.bracket(plan, 1e-5)
            assert lower == upper == accounting.epsilon(plan, 1e-5)
        plan = plan_of((GaussianCurve(1.0), 5))
        lower, upper = accounting.bracket(plan, 1e-5)
        assert upper * (1 - 1e-11) < lower < upper == accounting.epsilon(plan, 1e-5)

    def test_large_losses(self) -> None:
        """Losses whose exponential does not fit a double."""
        plan = plan_of((PoissonCurve(GaussianCurve(45.0), 0.4), 1))
        lower, upper = accounting.bracket(plan, 1e-5)
        assert math.isfinite(lower)
        assert lower <= upper


class TestLastDigits:
    """What is reported against arithmetic of sixty digits: never below the truth, and hardly above."""

    MUS = (1e-300, 1e-30, 1e-12, *(10.0 ** (half / 2) for half in range(-16, 7)), 1e5, 1e10, 1e100)
    DELTAS = (5e-324, 1e-310, 1e-300, 1e-100, 1e-30, 1e-15, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-12)

    @pytest.mark.parametrize("mu", MUS)
    def test_gaussian_epsilons(self, mu: float) -> None:
        plan = plan_of((GaussianCurve(mu), 1))
        for delta in self.DELTAS:
            lower, upper = accounting.bracket(plan, delta)
            assert upper == accounting.epsilon(plan, delta)
            assert long_arithmetic.gaussian(upper, mu) <= delta
            if upper > 0:
                assert lower < upper
                assert long_arithmetic.gaussian(lower, mu) >= delta or lower == 0
                # The smallest doubles, and those next to 1, have too few digits to be close.
                close = long_arithmetic.gaussian(upper * (1 - mp.mpf(1e-9)), mu) > delta
                assert close or not 1e-307 < delta < 0.99

    @pytest.mark.parametrize("mu", MUS)
    def test_gaussian_deltas(self, mu: float) -> None:
        for z in (-30.0, -8.0, -1.0, 0.0, 0.3, 4.0, 8.5, 20.0, 37.0, 38.4, 39.0, 50.0, 1e10):
            epsilon = max(mu * z + mu * mu / 2, 0.0)
            exact = long_arithmetic.gaussian(epsilon, mu)
            lower, upper = gaussian_bounds(epsilon, mu)
            assert lower <= exact <= upper
            assert upper - lower <= 2**-51 * exact + 2 * math.ulp(0.0)
            told = accounting.delta(plan_of((GaussianCurve(mu), 1)), epsilon)
            assert exact <= told
            # The last bits of mu are added, and d ln delta / d ln mu is about z (z + mu).
            if abs(z) < 40:
                assert told <= exact * (1 + 1e-14 * (1 + abs(z)) * (1 + abs(z) + mu)) + 2 * math.ulp(0.0)

    def test_the_reference_is_the_integral(self) -> None:
        """delta(e; mu) = int_0^mu phi(t/2 - e/t) dt, which has no cancellation."""
        with mp.workdps(long_arithmetic.DIGITS):
            for epsilon, mu in ((0.0, 1.0), (0.3, 0.1), (3.0, 1.0), (1e-6, 1e-6), (60.0, 9.0)):
                exact = mp.quad(partial(vega, mp.mpf(epsilon)), mp.linspace(0, mp.mpf(mu), 9))
                assert abs(long_arithmetic.gaussian(epsilon, mu) / exact - 1) < 1e-20

    def test_the_sum_of_squares_is_rounded_up(self) -> None:
        """Every mu adds its rounding; at ten thousand of them the exact sum is still covered."""
        mus = [0.01 + place * 1e-7 for place in range(300)]
        exact = mp.sqrt(mp.fsum(mp.mpf(mu) ** 2 for mu in mus))
        plan = plan_of(*((GaussianCurve(mu), 1) for mu in mus))
        for delta in (1e-9, 1e-5, 0.05):
            assert long_arithmetic.gaussian(accounting.epsilon(plan, delta), exact) <= delta

    @pytest.mark.parametrize(("epsilon", "times"), [(0.3, 1), (1.0, 3), (0.1, 40), (0.01, 200)])
    def test_composed_responses(self, epsilon: float, times: int) -> None:
        """Losses that lie on the grid, so that nothing but rounding stands between the answer and the truth."""
        plan = plan_of((PureCurve(epsilon), times))
        for delta in (1e-10, 1e-5, 0.1):
            found = accounting.epsilon(plan, delta)
            assert long_arithmetic.response_delta(epsilon, times, found) <= delta
            lower = accounting.bracket(plan, delta)[0]
            assert long_arithmetic.response_delta(epsilon, times, lower) >= delta or lower == 0
            assert accounting.delta(plan, found / 2) >= long_arithmetic.response_delta(epsilon, times, found / 2)

    @pytest.mark.parametrize(
        "curve", [PoissonCurve(GaussianCurve(1.3), 0.2), FixedSizeCurve(GaussianCurve(2.0), 0.03)], ids=str
    )
    def test_sampled_once(self, curve: Curve) -> None:
        for delta in (1e-10, 1e-5, 1e-3):
            lower, upper = accounting.bracket(plan_of((curve, 1)), delta)
            assert max(long_arithmetic.both(curve, mp.mpf(upper))) <= delta
            assert max(long_arithmetic.both(curve, mp.mpf(lower))) >= delta

    def test_reading_a_composed_loss_does_not_drift(self) -> None:
        """The library counts losses down node by node, and what that loses is made good."""
        claims = ((PoissonCurve(GaussianCurve(1.0), 0.01), 1000),)
        pld = accounting._compose(claims, accounting._first_grid(claims) / 4, pessimistic=True)
        assert pld is not None
        found, proven = accounting._read(pld, 1e-5, 0.0)
        assert pld.get_delta_for_epsilon(found) > 1e-5, "nothing drifts any more: _read may be simpler"
        assert pld.get_delta_for_epsilon(proven) <= 1e-5
        assert proven <= found * (1 + 1e-10)
        # A curve that is too low by a share loses it of delta, and as much of epsilon. The search doubles its steps.
        for share in (0.01, 0.1):
            wide = accounting._read(pld, 1e-5, share).proven
            assert pld.get_delta_for_epsilon(wide - share) <= 1e-5 * (1 - share)
            assert pld.get_delta_for_epsilon(wide - share) > 1e-5 * (1 - 3 * share)

    def test_what_doubles_take_off_curves_is_put_back(self) -> None:
        at = np.array([0.0, 0.5, 3.0])
        for curve in (PureCurve(1.0), PoissonCurve(GaussianCurve(1.0), 0.1)):
            for told, above in zip(curve.deltas(at), accounting._above(curve, at), strict=True):
                assert above == pytest.approx(told * (1 + 2.0**-48) + 2.0**-52, rel=1e-15)
                assert (above > told).all()

    def test_renyi_sums(self) -> None:
        """rho + log(1 - 1/a) - log(a delta) / (a - 1), the least over the orders."""
        for rho, times, delta in ((1e-9, 10**6, 1e-300), (0.3, 7, 1e-5), (1e-12, 1, 0.9)):
            with mp.workdps(long_arithmetic.DIGITS):
                exact = min(
                    times * mp.mpf(rho) * a + mp.log(1 - 1 / a) - mp.log(a * mp.mpf(delta)) / (a - 1)
                    for a in map(mp.mpf, accounting._ORDERS.tolist())
                )
                found = accounting.epsilon(plan_of((Steep(rho), times)), delta)
                assert exact <= found <= max(exact, 0) * (1 + 1e-9) + times * 1e-14 + 1e-11

    def test_noise_stays_where_kept_records_have_it(self) -> None:
        """What is added to an epsilon in its last digits must not move a calibrated noise."""
        public, edge, node = Public.blank(10_000, 128, 10), Adjacency.of("edge"), Adjacency.of("node")
        kept = (
            (gv.methods.Gap(), edge, 1.0, "0x1.51b061776eaddp+2"),
            (gv.methods.Gap(), edge, 8.0, "0x1.b2a5f7fc6e04cp-1"),
            (gv.methods.DpSgd(learning_rate=64.0), node, 2.0, "0x1.3f09df49248adp+4"),
            (gv.methods.Hearsay(), edge, 4.0, "0x1.0000000000000p-1"),
            (gv.methods.LapGraph(), edge, 1.0, "0x1.0020558ffad64p+0"),
            (gv.methods.Ndp(), node, 4.0, "0x1.f6589256dd1dap+3"),
            (gv.methods.Drw(), Adjacency.of("features"), 1.0, "0x1.e3bee77b57c62p+3"),
            (gv.methods.PrivGnn(), node, 2.0, "0x1.3b65a1404ead3p+6"),
            (gv.methods.PairCounts(), node, 8.0, "0x1.877653c167379p+2"),
        )
        for method, adjacency, target, noise in kept:
            plans = partial(plan_of_method, method, public, adjacency, Reading.SOUND)
            found = accounting.calibrate(plans, target, 1e-5)
            # The last bits of Fourier transforms are the processor's.
            assert found.noise == pytest.approx(float.fromhex(noise), rel=1e-12), method
            assert found.epsilon <= target


def vega(epsilon: mp.mpf, t: mp.mpf) -> mp.mpf:
    """phi(t/2 - e/t)."""
    return mp.npdf(t / 2 - epsilon / t)


@dataclass(frozen=True)
class Steep(Curve):
    """Renyi divergence rho a of order a, and nothing else is known of it."""

    rho: float

    def rdp(self, orders: Floats) -> Floats:
        return self.rho * orders

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(0.1),)


class TestDirections:
    @pytest.mark.parametrize("flip", [False, True])
    def test_the_worse_one_counts(self, flip: bool) -> None:
        claim = DominatingPair(LOPSIDED.absent, LOPSIDED.present) if flip else LOPSIDED
        plan = plan_of((claim, 1))
        for delta in (1e-4, 1e-2, 0.05):
            assert accounting.epsilon(plan, delta) == pytest.approx(product_epsilon([claim], delta), rel=2e-3)
        assert accounting.epsilon(plan, 1e-6) > 4.5, "only the harmless direction was charged"

    def test_they_are_not_mixed(self) -> None:
        """Present against absent composes with itself, never with its reverse."""
        flipped = DominatingPair(LOPSIDED.absent, LOPSIDED.present)
        both = [LOPSIDED, flipped, LOPSIDED]
        for delta in (1e-5, 1e-3):
            found = accounting.epsilon(plan_of(*((claim, 1) for claim in both)), delta)
            true = product_epsilon(both, delta)
            assert true <= found <= true * 1.01

    def test_poisson_keeps_both(self) -> None:
        """Both amplified directions against integration of the two mixtures."""
        rate, mu = 0.3, 1.5
        x = np.linspace(-14, 16, 600_001)
        p, q = (np.exp(-((x - at) ** 2) / 2) / math.sqrt(2 * math.pi) for at in (0.0, mu))
        mixed = (1 - rate) * p + rate * q
        epsilons = np.array([-3.0, -0.36, -0.3, -0.1, 0.0, 0.1, 0.3, 0.36, 1.0, 3.0])
        remove, add = PoissonCurve(GaussianCurve(mu), rate).deltas(epsilons)
        for at, up, down in zip(epsilons, remove, add, strict=True):
            scale = math.exp(at)
            assert up == pytest.approx(np.trapezoid(np.maximum(mixed - scale * p, 0), x), abs=1e-7)
            assert down == pytest.approx(np.trapezoid(np.maximum(p - scale * mixed, 0), x), abs=1e-7)

    def test_fixed_size_takes_the_worse_inner_direction(self) -> None:
        flipped = DominatingPair(LOPSIDED.absent, LOPSIDED.present)
        epsilons = np.linspace(-2, 2, 9)
        first = FixedSizeCurve(LOPSIDED, 0.5).deltas(epsilons)
        second = FixedSizeCurve(flipped, 0.5).deltas(epsilons)
        assert np.allclose(first, second)
        assert first[0][-1] == pytest.approx(0.5 * (0.1 - 0.001 * (math.exp(2) - 0.5) / 0.5))


class TestChosenPlans:
    """Plans of which each is chosen when the releases before it are known."""

    BUDGET, DELTA, TOLD, EACH = 2.0, 1e-5, 20, 0.1

    def strongest(self, family: Callable[[float], Plan], spent: Callable[[list[Plan]], float]) -> float:
        """The largest parameter of `family` that fits the budget after `TOLD` answers."""
        before = [plan_of((PureCurve(self.EACH), 1))] * self.TOLD
        low, high = 0.0, 2.0
        for _ in range(40):
            middle = (low + high) / 2
            fits = spent([*before, family(middle)]) <= self.BUDGET
            low, high = (middle, high) if fits else (low, middle)
        return low

    def worst_delta(self, spent: Callable[[list[Plan]], float], epsilon: float = BUDGET) -> float:
        """sum_k Pr[k answers are true] max over both continuations of H(epsilon - loss of k): exact, and the worst."""
        mu = self.strongest(lambda value: plan_of((GaussianCurve(value), 1)), spent)
        last = self.strongest(lambda value: plan_of((PureCurve(value), 1)), spent)
        true = np.arange(self.TOLD + 1)
        chances = binom.pmf(true, self.TOLD, 1 / (1 + math.exp(-self.EACH)))
        left = epsilon - self.EACH * (2 * true - self.TOLD)
        after = [curve.deltas(left) for curve in (GaussianCurve(mu), PureCurve(last))]
        return float(chances @ np.maximum(*(both[0] for both in after if both is not None)))

    def test_a_choice_in_view_of_releases_breaks_composed_curves_and_not_the_ledgers_rule(self) -> None:
        def composed(plans: list[Plan]) -> float:
            """The rule that must not be used."""
            return accounting.epsilon(merged(plans), self.DELTA)

        assert self.worst_delta(composed) > 1.4 * self.DELTA
        assert self.worst_delta(composed, 2.014) > self.DELTA
        chosen = self.worst_delta(lambda plans: accounting.adaptive_epsilon(plans, self.BUDGET, self.DELTA))
        assert 0 < chosen <= self.DELTA

    def test_one_plan_costs_what_it_costs_alone(self) -> None:
        plan, free = plan_of(*TestComposition.CLAIMS), plan_of()
        assert accounting.adaptive_epsilon([], 2.0, 1e-5) == 0
        assert accounting.adaptive_epsilon([free, plan, free], 2.0, 1e-5) == accounting.epsilon(plan, 1e-5)

    @pytest.mark.parametrize("budget", [0.5, 2.0, 8.0])
    def test_several_cost_no_less_than_if_they_were_settled_before(self, budget: float) -> None:
        plans = [plan_of(claim) for claim in TestComposition.CLAIMS]
        assert accounting.adaptive_epsilon(plans, budget, 1e-5) >= accounting.epsilon(merged(plans), 1e-5)

    @pytest.mark.parametrize("budget", [1.0, 2.0, 8.0])
    @pytest.mark.parametrize(("rate", "low", "high"), [(1.0, 0.95, 0.97), (0.2, 0.84, 0.87)], ids=["all", "sampled"])
    def test_how_much_of_a_budget_many_plans_fill(self, budget: float, rate: float, low: float, high: float) -> None:
        def plan(mu: float, times: int) -> Plan:
            return plan_of((PoissonCurve(GaussianCurve(mu), rate), times))

        mu = brentq(
            lambda mu: accounting.adaptive_epsilon([plan(mu, 8)] * 8, budget, 1e-5) - budget, 1e-3, 4, xtol=1e-4
        )
        assert low * budget < accounting.epsilon(plan(mu, 64), 1e-5) < high * budget

    def test_pure_epsilons_add_up_in_full_and_no_further(self) -> None:
        plans = [plan_of((PureCurve(1.0), 1))] * 4
        assert accounting.adaptive_epsilon(plans, 4.0, 1e-5) == pytest.approx(4.0, abs=1e-3)
        assert accounting.adaptive_epsilon(plans, 4.0, 1e-5) <= 4.0

    def test_what_cannot_be_resolved_or_protects_nothing_is_infinite(self) -> None:
        sampled = plan_of((PoissonCurve(GaussianCurve(1.0), 0.1), 20))
        assert accounting.adaptive_epsilon([sampled] * 2, 2.0, 1e-12) == math.inf
        assert accounting.adaptive_epsilon([sampled, plan_of((ExposedCurve(), 1))], 2.0, 1e-5) == math.inf

    @pytest.mark.parametrize(
        "curve", [PureCurve(1.0), LaplaceCurve(0.5), PoissonCurve(GaussianCurve(0.5), 0.2)], ids=str
    )
    @pytest.mark.parametrize("order", [2.0, 5.0])
    def test_renyi_divergences_are_integrated_from_above(self, curve: Curve, order: float) -> None:
        [exact] = curve.rdp(np.array([order]))
        found, left_out = accounting._renyi(curve, order, 1e-14)
        assert exact - 1e-9 <= found <= exact * (1 + 2e-3)
        assert left_out <= 1e-14

    def test_the_shares_of_delta_are_all_of_it(self) -> None:
        shares = (accounting._GAUSSIAN, accounting._RENYI, accounting._SUMMED, accounting._LEFT_OUT)
        assert min(shares) > 0
        assert math.fsum(shares) == 1

    def test_the_ith_plan_gets_its_share_and_all_shares_are_one(self) -> None:
        """H(e) = (1 - e^(e - 1)) / (1 + 1/e) for one response of epsilon 1, so its epsilon at delta is known."""
        delta, plans = 1e-3, [((PureCurve(1.0), 1),)] * 5
        shares = [delta / (place * (place + 1)) for place in range(1, 6)]
        exact = [1 + math.log1p(-share * (1 + math.exp(-1))) for share in shares]
        assert accounting._summed_epsilon(plans, delta, math.inf) == pytest.approx(math.fsum(exact), abs=1e-11)
        assert sum(1 / (place * (place + 1)) for place in range(1, 10**6)) == pytest.approx(1, abs=1e-5)

    def test_the_sum_is_left_out_only_where_it_is_no_help(self) -> None:
        claims, delta = [((PureCurve(1.0), 1),)] * 3, 1e-4
        whole = accounting._summed_epsilon(claims, delta, math.inf)
        assert accounting._summed_epsilon(claims, delta, whole + 1e-9) == whole
        assert accounting._summed_epsilon(claims, delta, whole - 1e-3) == math.inf
        plans = [plan_of((PoissonCurve(GaussianCurve(1.0), 0.1), 30))] * 4
        everything = min(
            accounting._renyi_epsilon([accounting._claims(plan.steps) for plan in plans], 4.0, 1e-5),
            accounting._summed_epsilon([accounting._claims(plan.steps) for plan in plans], 1e-6, math.inf),
        )
        assert accounting.adaptive_epsilon(plans, 4.0, 1e-5) == everything

    @pytest.mark.parametrize(("times", "share", "finite"), [(1, 0.04, True), (1, 0.06, False), (3, 0.02, False)])
    def test_what_renyi_divergences_leave_out_is_paid_for(
        self, times: int, share: float, finite: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two plans, each of which leaves out `times` this share of delta; a tenth of it pays."""
        asked = []

        def renyi(curve: Curve, order: float, most: float) -> tuple[float, float]:  # noqa: ARG001
            asked.append(most)
            return 0.1, share * 1e-5

        monkeypatch.setattr(accounting, "_renyi", renyi)
        plans = [((PureCurve(0.1), times),), ((PureCurve(0.2), times),)]
        assert math.isfinite(accounting._renyi_epsilon(plans, 2.0, 1e-5)) == finite
        assert asked == [pytest.approx(1e-5 / 10 / 1000 / times)] * 2

    def test_transforms_are_paid_for_too(self) -> None:
        """Of noise's tails and of rounding, each plan's share comes off what may be left out."""
        few, many = ([((PureCurve(1e-6), times),)] * 2 for times in (1, 10**5))
        assert math.isfinite(accounting._renyi_epsilon(few, 2.0, 1e-11))
        assert accounting._renyi_epsilon(many, 2.0, 1e-11) == math.inf

    @pytest.mark.parametrize(("delta", "finite"), [(1.9e-12, False), (2.1e-12, True)])
    def test_each_plan_pays_for_a_transform(self, delta: float, finite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two plans set twice 1e-13 aside, and a tenth of delta must pay for that even if no loss is left out."""
        monkeypatch.setattr(accounting, "_renyi", lambda *_: (0.1, 0.0))
        plans = [((PureCurve(0.1), 1),), ((PureCurve(0.2), 1),)]
        assert math.isfinite(accounting._renyi_epsilon(plans, 2.0, delta)) == finite

    def test_renyi_sums_and_conversion(self) -> None:
        """Two plans of 3 and 4 uses: 7 divergences of the order of the budget, and one conversion at 0.35 delta."""
        budget, delta = 2.0, 1e-5
        order = accounting._order_of(budget, delta)
        one = accounting._renyi(PureCurve(0.1), order, accounting._LEFT_OUT * delta / 4000)[0]
        exact = 7 * one + math.log1p(-1 / order) - math.log(0.35 * delta * order) / (order - 1)
        plans = [((PureCurve(0.1), 3),), ((PureCurve(0.1), 4),)]
        assert accounting._renyi_epsilon(plans, budget, delta) == pytest.approx(exact, rel=1e-9)

    def test_the_order_holds_most_gaussian_releases(self) -> None:
        for budget, delta in ((0.5, 1e-5), (2.0, 1e-7), (8.0, 1e-5)):
            room = [(budget - math.log1p(-1 / a) + math.log(0.35 * delta * a) / (a - 1)) / a for a in range(2, 63)]
            assert accounting._order_of(budget, delta) == 2 + int(np.argmax(room))

    def test_losses_that_are_left_out_are_counted(self) -> None:
        """Pr[loss > r] of a heavy tail: what is left out is about what may be, and covers the truth."""
        curve = SmlCurve(0.5)
        for most in (1e-2, 1e-3):
            rho, left_out = accounting._renyi(curve, 1.5, most)
            assert math.isfinite(rho)
            assert most / 2 < left_out <= most


def merged(plans: list[Plan]) -> Plan:
    """All of them, as one plan that was settled before."""
    return plan_of(*((step.claim, step.times) for plan in plans for step in plan.steps))


class TestComposition:
    CLAIMS = ((PoissonCurve(GaussianCurve(1.0), 0.1), 20), (LaplaceCurve(0.3), 5), (GaussianCurve(0.4), 3))

    def test_order_is_free(self) -> None:
        costs = [accounting.epsilon(plan_of(*order), 1e-5) for order in itertools.permutations(self.CLAIMS)]
        assert max(costs) == pytest.approx(min(costs), rel=2e-3)

    def test_splitting_a_step_changes_nothing(self) -> None:
        claim = PoissonCurve(LaplaceCurve(1.0), 0.2)
        whole = accounting.epsilon(plan_of((claim, 12)), 1e-5)
        assert accounting.epsilon(plan_of((claim, 5), (claim, 7)), 1e-5) == whole

    def test_more_uses_cost_more(self) -> None:
        claim = FixedSizeCurve(GaussianCurve(0.5), 0.2)
        costs = [accounting.epsilon(plan_of((claim, times)), 1e-6) for times in (1, 2, 5, 20, 100)]
        assert costs == sorted(costs)
        assert costs[0] < costs[-1]

    def test_squares_of_mu_add_up_as_often_as_they_are_used(self) -> None:
        plan = plan_of((GaussianCurve(0.3), 4), (GaussianCurve(0.4), 1), (GaussianCurve(0.3), 2))
        alone = plan_of((GaussianCurve(math.sqrt(6 * 0.09 + 0.16)), 1))
        assert accounting.epsilon(plan, 1e-5) == pytest.approx(accounting.epsilon(alone, 1e-5), rel=1e-11)
        assert accounting.delta(plan, 1.0) == pytest.approx(accounting.delta(alone, 1.0), rel=1e-11)

    @pytest.mark.parametrize("mu", [1e-300, 1e-170, 1e153, 1e160])
    def test_squares_that_do_not_fit_a_double(self, mu: float) -> None:
        """They once underflowed, and what cost little cost nothing."""
        [(curve, once)] = accounting._claims(plan_of((GaussianCurve(mu), 9), (GaussianCurve(4 * mu), 1)).steps)
        assert (curve.gdp(), once) == (pytest.approx(5 * mu, rel=1e-15, abs=0), 1)

    def test_steps_upwards_are_levelled_from_above(self) -> None:
        """What rounding puts too high at one point is not taken off there: masses bound every value they came from."""
        losses = np.arange(-60, 61) * 0.1
        values = GaussianCurve(1.0).deltas(losses)[0].copy()
        values[90] = values[89] * (1 + 1e-6)
        masses = accounting._pmf(values, 60, 0.1, True)
        assert all(masses.get_delta_for_epsilon(losses[at]) >= values[at] * (1 - 1e-12) for at in range(60, 120))

    def test_ten_thousand_uses_are_quick(self) -> None:
        plan = plan_of((PoissonCurve(GaussianCurve(1.0), 0.0123), 10_000))
        accounting.epsilon(plan_of((PoissonCurve(GaussianCurve(1.0), 0.1), 2)), 1e-5)  # imports are not counted
        start = time.process_time()
        accounting.epsilon(plan, 1e-5)
        # It takes 0.2 s; 2 s is the promise, the factor is for slow machines.
        assert time.process_time() - start < 3 * 2


class TestOtherAccountants:
    @pytest.mark.parametrize(("sigma", "times"), [(1.0, 1), (4.0, 30)])
    def test_google_gaussian(self, sigma: float, times: int) -> None:
        theirs = google.from_gaussian_mechanism(sigma).self_compose(times).get_epsilon_for_delta(1e-6)
        ours = accounting.epsilon(plan_of((Gaussian(sigma).curve(1), times)), 1e-6)
        assert ours == pytest.approx(theirs, rel=2e-3)

    @pytest.mark.parametrize(("scale", "times"), [(1.0, 1), (5.0, 30)])
    def test_google_laplace(self, scale: float, times: int) -> None:
        theirs = google.from_laplace_mechanism(scale).self_compose(times).get_epsilon_for_delta(1e-6)
        ours = accounting.epsilon(plan_of((LaplaceCurve(1 / scale), times)), 1e-6)
        assert ours == pytest.approx(theirs, rel=2e-3)

    @pytest.mark.parametrize(("sigma", "rate", "times"), [(0.8, 0.05, 50), (2.0, 0.3, 20)])
    def test_google_subsampled(self, sigma: float, rate: float, times: int) -> None:
        pld = google.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-3)
        theirs = pld.self_compose(times).get_epsilon_for_delta(1e-6)
        ours = accounting.epsilon(plan_of((PoissonCurve(GaussianCurve(1 / sigma), rate), times)), 1e-6)
        assert ours == pytest.approx(theirs, rel=3e-3)

    @pytest.mark.parametrize(("sigma", "rate", "times"), [(1.0, 0.01, 1_000), (0.7, 0.1, 30)])
    def test_microsoft_interval(self, sigma: float, rate: float, times: int) -> None:
        prv = pytest.importorskip("prv_accountant")
        accountant = prv.PRVAccountant(
            prvs=prv.PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=sigma),
            max_self_compositions=times,
            eps_error=0.02,
            delta_error=1e-9,
        )
        lower, _, upper = accountant.compute_epsilon(delta=1e-5, num_self_compositions=times)
        ours = accounting.epsilon(plan_of((PoissonCurve(GaussianCurve(1 / sigma), rate), times)), 1e-5)
        assert lower <= ours <= upper


class TestEnds:
    def test_nothing_costs_nothing(self) -> None:
        assert accounting.epsilon(plan_of(), 1e-5) == 0.0
        assert accounting.delta(plan_of(), 0.0) == 0.0
        assert accounting.epsilon(plan_of((GaussianCurve(0.0), 9)), 1e-5) == 0.0
        assert accounting.epsilon(plan_of((PureCurve(0.0), 9), (LaplaceCurve(0.0), 2)), 1e-5) == 0.0

    def test_exposure_costs_everything(self) -> None:
        for curve in (ExposedCurve(), GaussianCurve(math.inf), LaplaceCurve(math.inf), PureCurve(math.inf)):
            plan = plan_of((PureCurve(0.1), 1), (curve, 1))
            assert accounting.epsilon(plan, 1e-5) == math.inf
            assert accounting.delta(plan, 100.0) == 1.0
        assert accounting.epsilon(plan_of((PoissonCurve(GaussianCurve(math.inf), 0.5), 1)), 1e-5) == math.inf

    def test_rare_exposure_is_a_matter_of_delta(self) -> None:
        claim = RevealedMixture((0.999, 0.001), (GaussianCurve(0.5), ExposedCurve()))
        assert accounting.epsilon(plan_of((claim, 1)), 5e-4) == math.inf
        assert accounting.delta(plan_of((claim, 3)), 100.0) == pytest.approx(1 - 0.999**3, rel=1e-6)

    @pytest.mark.parametrize("claims", [((GaussianCurve(0.7), 4),), TestComposition.CLAIMS, ((PureCurve(0.2), 30),)])
    def test_delta_undoes_epsilon(self, claims: tuple[tuple[Curve, int], ...]) -> None:
        plan = plan_of(*claims)
        for delta in (1e-3, 1e-6, 1e-9):
            assert accounting.delta(plan, accounting.epsilon(plan, delta)) == pytest.approx(delta, rel=2e-2)

    def test_delta_falls(self) -> None:
        plan = plan_of(*TestComposition.CLAIMS)
        values = [accounting.delta(plan, epsilon) for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0)]
        assert values == sorted(values, reverse=True)
        assert accounting.delta(plan, math.inf) == 0.0

    def test_deltas_that_doubles_cannot_resolve_are_refused(self) -> None:
        few, many = (plan_of((PoissonCurve(GaussianCurve(1.0), 0.01), times)) for times in (10, 100_000))
        with pytest.raises(Unsupported, match="floating-point"):
            accounting.epsilon(few, 1e-13)
        assert accounting.epsilon(few, 1e-11) > 0
        with pytest.raises(Unsupported, match="floating-point"):
            accounting.epsilon(many, 1e-11)
        assert accounting.epsilon(plan_of((GaussianCurve(1.0), 10)), 1e-30) > 0, "closed forms have no such limit"

    @pytest.mark.parametrize("times", [1, 100, 10_000, 100_000])
    def test_transforms_err_less_than_allowed(self, times: int) -> None:
        """What the Fourier transforms misplace, measured where everything else is known exactly."""
        claims = ((Opaque(1.0 / math.sqrt(times)), times),)
        grid = accounting._first_grid(claims) / 2
        upper, lower = (accounting._compose(claims, grid, pessimistic=side) for side in (True, False))
        allowed = accounting._float_error(claims)
        for delta in (1e-9, 1e-10, 1e-11, 1e-12):
            epsilon = accounting.epsilon(plan_of((GaussianCurve(1.0), 1)), delta)
            assert upper.get_delta_for_epsilon(epsilon) + allowed / 2 >= delta
            assert lower.get_delta_for_epsilon(epsilon) - allowed / 2 <= delta

    def test_what_transforms_may_misplace_comes_off_delta(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As if it were two fifths of it: H(e) = (1 - e^(e - 1)) / (1 + 1/e) for one response of epsilon 1."""
        monkeypatch.setattr(accounting, "_FLOAT_ERROR", 0.04)
        plan, claims = plan_of((PureCurve(1.0), 1)), ((PureCurve(1.0), 1),)
        exact = {delta: 1 + math.log1p(-delta * (1 + math.exp(-1))) for delta in (0.06, 0.14)}
        found = accounting._case_epsilon.__wrapped__(claims, 0.1, False)
        assert found == pytest.approx((exact[0.06], exact[0.06]), rel=1e-9)
        assert accounting._lower_epsilon(claims, 0.1, 1.0) == pytest.approx(exact[0.14], rel=1e-4)
        assert accounting.delta(plan, exact[0.06]) == pytest.approx(0.06 + 0.04, rel=1e-9)
        with pytest.raises(Unsupported, match="floating-point"):
            accounting._case_epsilon.__wrapped__(claims, 0.08, False)
        distance = math.tanh(0.5)
        assert accounting._case_epsilon.__wrapped__(claims, distance + 0.041, False) == (0.0, 0.0)
        assert accounting._case_epsilon.__wrapped__(claims, distance + 0.039, False).found > 0

    def test_every_use_and_every_wide_loss_adds_to_it(self) -> None:
        narrow, wide = PureCurve(1.0), PureCurve(600.0)
        base = accounting._FLOAT_ERROR
        assert accounting._float_error(((narrow, 1000), (narrow, 24))) == pytest.approx(base + 2.0**-42, abs=1e-20)
        assert accounting._float_error(((wide, 1024),)) == pytest.approx(base + 16 * 2.0**-42, abs=1e-20)
        assert accounting._share(((narrow, 1000), (wide, 24))) == 2.0**-38

    def test_mass_out_of_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rare = RevealedMixture((0.999, 0.001), (GaussianCurve(0.5), ExposedCurve()))
        assert accounting._out_of_reach(((rare, 3), (PureCurve(1.0), 5))) == pytest.approx(1 - 0.999**3, rel=1e-9)
        assert accounting.epsilon(plan_of((rare, 3)), 0.0029) == math.inf
        assert accounting.epsilon(plan_of((rare, 3)), 0.0031) < 20
        monkeypatch.setattr(accounting, "_compose", lambda *_, **__: pytest.fail("composed in vain"))
        assert accounting._case_epsilon.__wrapped__(((rare, 3),), 0.0029, False) == (math.inf, math.inf)

    @pytest.mark.parametrize("mu", [10.0, 30.0, 45.0])
    def test_large_epsilons(self, mu: float) -> None:
        """Subsampled losses in the hundreds: below the unsampled cost, and not far below it."""
        whole = accounting.epsilon(plan_of((GaussianCurve(mu), 1)), 1e-5)
        for claim in (PoissonCurve(GaussianCurve(mu), 0.4), FixedSizeCurve(GaussianCurve(mu), 0.4)):
            part = accounting.epsilon(plan_of((claim, 1)), 1e-5)
            assert whole * 0.95 < part < whole
        assert accounting.epsilon(plan_of((GaussianCurve(300.0), 1)), 1e-5) > 45_000

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, 2.0])
    def test_delta_must_be_a_probability(self, delta: float) -> None:
        with pytest.raises(InvalidInput, match="delta"):
            accounting.epsilon(plan_of((GaussianCurve(1.0), 1)), delta)

    @pytest.mark.parametrize("epsilon", [-0.1, math.nan])
    def test_epsilon_must_not_be_negative(self, epsilon: float) -> None:
        with pytest.raises(InvalidInput, match="epsilon"):
            accounting.delta(plan_of((GaussianCurve(1.0), 1)), epsilon)

    @pytest.mark.parametrize("make", [GaussianCurve, LaplaceCurve, PureCurve])
    @pytest.mark.parametrize("value", [math.nan, -1.0])
    def test_claims_without_meaning_are_refused(self, make: Callable[[float], Curve], value: float) -> None:
        """A NaN once folded into an empty plan and cost nothing."""
        with pytest.raises(InvalidInput):
            make(value)

    def test_curves_that_are_not_finite_are_refused(self) -> None:
        with pytest.raises(Unsupported, match="not finite"):
            accounting.epsilon(plan_of((Broken(), 1)), 1e-5)


@dataclass(frozen=True)
class Broken(Curve):
    """A curve with a hole."""

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        both = np.where(np.abs(epsilons) < 0.1, np.maximum(1 - np.exp(epsilons), 0.01), np.nan)
        return np.where(epsilons > 0.1, 0.0, both), np.where(epsilons > 0.1, 0.0, both)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(),)


class TestCalibration:
    def plans(self, rng: np.random.Generator, sampled: bool) -> Callable[[float], Plan]:
        """The plan of a random method for a random unit, as a function of the noise."""
        public = Public.blank(int(rng.integers(50, 5000)), 8, 3)
        if not sampled and rng.random() < 0.5:
            gap = gv.methods.Gap(hops=int(rng.integers(1, 8)))
            edge = Adjacency.of("edge", undirected=bool(rng.random() < 0.5))
            reading = Reading.SOUND if rng.random() < 0.5 else Reading.PUBLISHED
            return lambda noise: gap.plan(public, edge, reading, noise)
        dpsgd = gv.methods.DpSgd(
            steps=int(10 ** rng.uniform(0, 3)),
            clip=float(10 ** rng.uniform(-2, 1)),
            sampling_rate=float(10 ** rng.uniform(-2, -0.1)) if sampled else 1.0,
        )
        unit = Adjacency.of("node" if sampled else rng.choice(["node", "features", "label"]))
        return lambda noise: dpsgd.plan(public, unit, Reading.SOUND, noise)

    @pytest.mark.parametrize("trials", [100, pytest.param(500, marks=pytest.mark.slow)])
    def test_never_above_the_target_and_close_below_it(self, trials: int) -> None:
        """Random methods and budgets; every tenth samples its batches, so that its cost is discretised."""
        rng = np.random.default_rng(2024)
        for trial in range(trials):
            plans = self.plans(rng, sampled=trial % 10 == 0)
            target = float(np.exp(rng.uniform(math.log(0.05), math.log(50))))
            delta = float(np.exp(rng.uniform(math.log(1e-10), math.log(1e-3))))
            found = accounting.calibrate(plans, target, delta)
            assert found.plan == plans(found.noise)
            assert found.epsilon == accounting.epsilon(found.plan, delta)
            assert 0.995 * target <= found.epsilon <= target, (trial, found)

    @pytest.mark.parametrize("start", [0.1, 0.9, 1.0 - 1e-12])
    def test_noise_is_mended_until_it_fits(self, start: float) -> None:
        """Epsilon 1 / noise at a target of 1: from below to just above, and nothing where it fits already."""
        tried = []

        def spent(noise: float) -> float:
            tried.append(noise)
            return 1 / noise

        found = accounting._mended(spent, start, 1.0)
        assert 1 - accounting._MENDED <= 1 / found <= 1
        assert len(tried) < 15
        assert accounting._mended(spent, 3.0, 1.0) == 3.0

    def test_what_is_proven_must_fit_not_what_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As if rounding cost a tenth: the noise found by the search is corrected for it at last."""
        exactly = accounting._gaussian_cost

        def coarse(mu: float, delta: float) -> accounting._Cost:
            found = exactly(mu, delta).found
            return accounting._Cost(found, 1.1 * found)

        monkeypatch.setattr(accounting, "_gaussian_cost", coarse)
        for cached in (accounting._epsilon, accounting._case_epsilon):
            cached.cache_clear()
        try:
            found = accounting.calibrate(lambda noise: plan_of((GaussianCurve(1 / noise), 7)), 1.0, 1e-6)
            assert 0.99 <= found.epsilon <= 1.0
            assert found.epsilon == accounting.epsilon(found.plan, 1e-6)
        finally:
            for cached in (accounting._epsilon, accounting._case_epsilon):
                cached.cache_clear()

    def test_infinite_budget_needs_no_noise(self) -> None:
        found = accounting.calibrate(lambda noise: plan_of((Gaussian(noise).curve(1), 1)), math.inf, 1e-5)
        assert (found.noise, found.epsilon) == (0.0, math.inf)

    def test_plans_that_no_noise_protects(self) -> None:
        with pytest.raises(Unsupported, match="no amount of noise"):
            accounting.calibrate(lambda noise: plan_of((ExposedCurve(), 1)), 1.0, 1e-5)  # noqa: ARG005

    def test_plans_without_noise(self) -> None:
        fixed = plan_of((PureCurve(0.5), 1))
        assert accounting.calibrate(lambda noise: fixed, 1.0, 1e-5).epsilon <= 1.0  # noqa: ARG005
        with pytest.raises(Unsupported, match="whatever the noise"):
            accounting.calibrate(lambda noise: fixed, 0.1, 1e-5)  # noqa: ARG005

    def test_a_floor_above_the_target(self) -> None:
        """One step does not depend on the noise and alone costs more than was asked."""
        with pytest.raises(Unsupported, match="no noise below"):
            accounting.calibrate(lambda noise: plan_of((PureCurve(0.5), 1), (GaussianCurve(1 / noise), 1)), 0.2, 1e-5)

    def test_delta_that_forgives_everything(self) -> None:
        """A record is read with probability 1e-5 < delta: no noise is needed, and none must not be the answer."""
        with pytest.raises(Unsupported, match="smaller delta"):
            accounting.calibrate(lambda noise: plan_of((PoissonCurve(GaussianCurve(1 / noise), 1e-6), 10)), 1.0, 1e-3)

    @pytest.mark.parametrize("target", [0.0, -1.0, math.nan])
    def test_targets_are_checked(self, target: float) -> None:
        with pytest.raises(InvalidInput, match="epsilon"):
            accounting.calibrate(lambda noise: plan_of((GaussianCurve(1 / noise), 1)), target, 1e-5)


@dataclass(frozen=True)
class Family(Curve):
    """One of several claims holds in every use; at once they are bounded by their pointwise maximum."""

    members: tuple[Curve, ...]

    def refine(self) -> tuple[Curve, ...]:
        """Halves, then the members themselves."""
        middle = len(self.members) // 2
        if len(self.members) > 3:
            return Family(self.members[:middle]), Family(self.members[middle:])
        return self.members

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        each = [member.deltas(epsilons) for member in self.members]
        first, second = (np.max([both[side] for both in each if both is not None], axis=0) for side in (0, 1))
        return first, second

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls((GaussianCurve(1.0), GaussianCurve(2.0))),)


@dataclass(frozen=True)
class Pair(Curve):
    """Two cases, of which each may cover more."""

    first: Curve
    second: Curve

    def refine(self) -> tuple[Curve, ...]:
        return self.first, self.second

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(Opaque(1.0), Opaque(2.0)),)


class TestFamilies:
    """Claims that cover several cases are charged at the worst of them, never below, and hardly above."""

    RARE = PoissonCurve(GaussianCurve(4.0), 0.0005)
    OFTEN = PoissonCurve(GaussianCurve(0.4), 0.2)
    MEMBERS = (Opaque(0.1), RARE, Opaque(0.13), OFTEN, Opaque(0.05), LaplaceCurve(0.15))

    def costs(self, times: int, delta: float, *others: tuple[Curve, int]) -> list[float]:
        return [accounting.epsilon(plan_of((member, times), *others), delta) for member in self.MEMBERS]

    @pytest.mark.parametrize("delta", [1e-3, 1e-6])
    @pytest.mark.parametrize("times", [1, 15])
    def test_epsilon_delta_and_bracket(self, times: int, delta: float) -> None:
        plan, worst = plan_of((Family(self.MEMBERS), times)), max(self.costs(times, delta))
        found = accounting.epsilon(plan, delta)
        assert worst * (1 - accounting._PRECISION) <= found <= worst * (1 + 2 * accounting._SLACK)
        lower, upper = accounting.bracket(plan, delta)
        assert lower <= worst * (1 + 1e-9)
        assert upper == found
        member = self.MEMBERS[int(np.argmax(self.costs(times, delta)))]
        assert lower >= 0.99 * accounting.bracket(plan_of((member, times)), delta)[0], "not the worst member's bracket"
        lost = max(accounting.delta(plan_of((member, times)), worst / 2) for member in self.MEMBERS)
        assert (
            lost * (1 - accounting._PRECISION)
            <= accounting.delta(plan, worst / 2)
            <= lost * (1 + 2 * accounting._SLACK) + 1e-12
        )

    def test_the_bound_is_that_of_what_was_not_looked_into(self) -> None:
        """Where a rough bound is within the slack of a single case nobody looks closer, and the rough one counts."""
        single, many = Opaque(1.0), Family((Opaque(0.5), Opaque(0.6), Opaque(0.7), Opaque(0.8)))
        prices = {single: (1.0, 1.0), many: (1.0015, 0.9)}

        def cost(case: accounting.Claims, rough: bool) -> float:
            [(curve, _)] = case
            return prices.get(curve, (9.0, 0.1))[0 if rough else 1]

        worst, bound = accounting._worst_case(((Pair(single, many), 1),), cost)
        assert worst == ((single, 1),)
        assert bound == 1.0015, "what was reached is no bound on what was not"
        prices[many] = (1.5, 0.9)
        assert accounting._worst_case(((Pair(single, many), 1),), cost)[1] == 1.0, "far above it is looked into"

    def test_the_worst_member_depends_on_the_question(self) -> None:
        """Who rarely loses much is worst at a small delta, who often loses little at a large one."""
        rare, often = (self.MEMBERS.index(member) for member in (self.RARE, self.OFTEN))
        few, many = self.costs(15, 1e-6), self.costs(15, 1e-2)
        assert few[rare] > few[often]
        assert many[often] > many[rare]

    def test_one_case_holds_in_every_use(self) -> None:
        """Composing the pointwise maximum would charge as if the case could change from use to use."""
        family = Family((self.RARE, self.OFTEN))
        one = accounting.epsilon(plan_of((family, 15)), 1e-5)
        changing = accounting._case_epsilon(((family, 15),), 1e-5, False).proven
        assert one < 0.995 * changing

    def test_beside_other_claims(self) -> None:
        other = (PoissonCurve(GaussianCurve(1.0), 0.1), 5)
        found = accounting.epsilon(plan_of((Family(self.MEMBERS), 10), other), 1e-5)
        worst = max(self.costs(10, 1e-5, other))
        assert worst * (1 - accounting._PRECISION) <= found <= worst * (1 + 2 * accounting._SLACK)

    def test_two_families(self) -> None:
        first, second = (Opaque(0.1), self.RARE), (self.OFTEN, LaplaceCurve(0.15))
        found = accounting.epsilon(plan_of((Family(first), 4), (Family(second), 6)), 1e-5)
        worst = max(accounting.epsilon(plan_of((a, 4), (b, 6)), 1e-5) for a in first for b in second)
        assert worst * (1 - accounting._PRECISION) <= found <= worst * (1 + 2 * accounting._SLACK)

    @pytest.mark.parametrize(("target", "delta"), [(1.0, 1e-5), (4.0, 1e-3)])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_calibration_covers_every_member(self, target: float, delta: float, reverse: bool) -> None:
        """Also where the case that is searched with is the mildest."""

        def members(noise: float) -> tuple[Curve, ...]:
            each = (Opaque(0.2 / noise), PoissonCurve(GaussianCurve(1 / noise), 0.3), Opaque(0.5 / noise))
            return each[::-1] if reverse else each

        found = accounting.calibrate(lambda noise: plan_of((Family(members(noise)), 8)), target, delta)
        assert 0.99 * target <= found.epsilon <= target
        each = [accounting.epsilon(plan_of((member, 8)), delta) for member in members(found.noise)]
        assert 0.99 * target <= max(each) <= target


class TestCliffs:
    """Settings that once took minutes and gigabytes: an answer, or a refusal that says why, in bounded work."""

    @pytest.mark.parametrize("target", [1e-8, 1e-5])
    def test_a_target_below_what_rounding_costs(self, target: float) -> None:
        """The smallest claim's point mass falls as noise grows, and the grid does not follow it."""
        plans = partial(
            plan_of_method, gv.methods.LapGraph(), Public.blank(10_000, 128, 10), Adjacency.of("edge"), Reading.SOUND
        )
        start = time.process_time()
        with pytest.raises(Unsupported, match="no noise below"):
            accounting.calibrate(plans, target, 1e-5)
        assert time.process_time() - start < 20

    def test_grids_do_not_follow_a_point_mass_of_no_account(self) -> None:
        claims = ((PureCurve(1e-12), 1), (PureCurve(1.0), 1))
        assert accounting._bins(claims, accounting._align(claims, accounting._first_grid(claims))) < 1000
        exact = 1 + math.log1p(-1e-5 * (1 + math.exp(-1)))
        assert exact <= accounting.epsilon(plan_of(*claims), 1e-5) <= exact * 1.001

    def test_what_is_too_long_is_composed_on_a_coarser_grid(self, monkeypatch: pytest.MonkeyPatch) -> None:
        claims = ((Opaque(0.01), 10_000),)
        whole = accounting._case_epsilon.__wrapped__(claims, 1e-5, False).proven
        monkeypatch.setattr(accounting, "_MAX_LENGTH", 5000)
        lengths = []
        compose = accounting._compose

        def spy(*args: Any, **named: Any) -> Any:
            pld = compose(*args, **named)
            lengths.append(0 if pld is None else len(pld._pmf_remove._probs))
            return pld

        monkeypatch.setattr(accounting, "_compose", spy)
        coarse = accounting._case_epsilon.__wrapped__(claims, 1e-5, False).proven
        assert 0 in lengths, "the first grid was too long"
        assert max(lengths) < 6000
        assert whole < coarse < 1.1 * whole

    def test_length_is_known_before_the_transform(self) -> None:
        for curve, times in ((Opaque(0.1), 7), (PoissonCurve(GaussianCurve(1.0), 0.01), 3000), (PureCurve(0.01), 900)):
            claims = ((curve, times),)
            grid = accounting._first_grid(claims)
            one = accounting._pld(curve, grid, True)
            pld = accounting._compose(claims, grid, pessimistic=True)
            assert pld is not None
            assert len(pld._pmf_remove._probs) == pytest.approx(accounting._length(one._pmf_remove, times), rel=0.2)

    def test_more_uses_than_can_be_charged_are_refused(self) -> None:
        with pytest.raises(Unsupported, match="plan fewer"):
            accounting.delta(plan_of((PureCurve(1.0), 10**13)), 1.0)

    @pytest.mark.parametrize("mu", [1e-300, 1e-160, 1e160, 1e300])
    def test_gaussians_of_any_size(self, mu: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            spent = accounting.epsilon(plan_of((GaussianCurve(mu), 1)), 1e-5)
        assert spent == (0.0 if mu < 1 else math.inf)
