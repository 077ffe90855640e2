"""What a plan costs: the only file that composes.

Claims are composed as privacy loss distributions (dp-accounting's PLD objects), both directions kept and
the worse one reported. Claims that are exactly Gaussian compose in closed form first; a plan made of
nothing else needs no discretisation at all. Every number is an upper bound: `epsilon` never reports less
than the plan spends, and what doubles round off is added. `bracket` adds the matching lower bound.

Hand-written: the choice of grid, the optimistic (lower) discretisation and one-sided calibration, which
dp-accounting does not offer for arbitrary hockey-stick curves.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

from graphveil.checks import require_cost, require_delta, require_positive
from graphveil.errors import Tampered, Unsupported
from graphveil.mechanisms.gaussian import GaussianCurve, gaussian_bounds, gaussian_delta
from graphveil.vocabulary import Curve, Floats, Plan

_ORDERS: Floats = np.unique(np.concatenate([np.arange(2, 64), np.geomspace(64, 1024, 32).round()]))
_PRECISION = 1e-3
"""Halve the grid until epsilon moves by less than this share."""
_CLOSE = 2e-4
"""Calibration stops this close below its target."""
_SLACK = 2e-3
"""A bound that covers many cases is refined until it is this close to the worst single case..."""
_TIRING = 16
"""...and the slack grows by as much again with every so many refinements: the bound holds wherever we stop."""
_MENDED = 4e-3
"""Calibration with all cases of such a bound stops this close below its target."""
_TAIL = 1e-18
"""Mass beyond the grid that one use may carry to infinity."""
_MAX_BINS = 1 << 21
"""Nodes of one use's grid, about."""
_MAX_LENGTH = 1 << 22
"""Nodes of a composed grid: what would take more, and with it gigabytes, is composed on a coarser one."""
_RANGE = 1 << 16
"""No loss above this is resolved; it counts as infinite."""
_FLOAT_ERROR = 1e-13
"""Mass that one Fourier transform may misplace; see `_float_error`. It also pays for the tails that noise has on paper
but not as drawn: Laplace beyond 74 scales (2^-106 of mass per entry, times e^epsilon at most), and geometric beyond 64
(delta 2^-60 per contribution). Normal noise has its tails, so a plan that is exactly Gaussian sets nothing aside."""
_ROUNDING = 2.0**-48
"""Share by which a few dozen operations in doubles may be off, and what a Renyi divergence may lack; added."""
_NUDGE = 2.0**-42
"""First step, as a share, from an epsilon that doubles find towards one that is proven; see `_moved`."""
_WIDE = 64.0
"""Losses beyond this have fewer digits behind the point; see `_rounding`."""
_LOWER_RANGE = 512.0
"""The lower bound ignores losses above this: e^loss must fit a double."""
_GAUSSIAN, _RENYI, _SUMMED, _LEFT_OUT = 0.45, 0.35, 0.1, 0.1
"""Shares of delta where plans are chosen one after the other: see `adaptive_epsilon`; the last pays for losses that
Renyi divergences leave out and for tails that noise has on paper alone."""
_MIN_SQUARE = 1e-280
"""Squares below this have too few digits."""
_CELLS = 1 << 14
"""In so many cells a Renyi divergence is integrated."""
_MIN_NOISE = 1e-4
"""Calibration does not look below this."""

Claims = tuple[tuple[Curve, int], ...]


class _Cost(NamedTuple):
    """An epsilon as doubles find it, which may be off in its last digits, and one that is not below the truth.

    Calibration searches by the first, so that noise does not depend on how the last digits are made good; what is
    reported, and must fit a budget, is the second.
    """

    found: float
    proven: float


def epsilon(plan: Plan, delta: float, deadline: float = math.inf) -> float:
    """Smallest epsilon we can prove for `plan` at `delta` (upper end of the bracket).

    deadline: by when, on this thread's own clock, a plan from a file must be charged; then it is `Tampered`.
    """
    return _epsilon(_claims(plan.steps, deadline), require_delta(delta))


class _InTime:
    """A curve of a plan from a file, which may be asked until the deadline; equal to the curve, as caches see it."""

    def __init__(self, curve: Curve, deadline: float) -> None:
        self._curve, self._deadline = _watched(curve, deadline), deadline

    def __getattr__(self, name: str) -> Any:
        if time.thread_time() > self._deadline:
            raise Tampered("charging a plan from this file takes too long: no method of ours would plan that")
        return getattr(self._curve, name)

    def refine(self) -> tuple[_InTime, ...]:
        """As `Curve.refine`."""
        return tuple(_InTime(part, self._deadline) for part in self.__getattr__("refine")())

    def __eq__(self, other: object) -> bool:
        return self._curve == (other._curve if isinstance(other, _InTime) else other)

    def __hash__(self) -> int:
        return hash(self._curve)

    def __str__(self) -> str:
        return str(self._curve)


def _watched(curve: Curve, deadline: float) -> Curve:
    """The same curve, in which every one of a list of curves has the deadline too: evaluating one is quick."""
    made = copy.copy(curve)
    for item in fields(curve):  # type: ignore[arg-type]  # all are dataclasses
        part = getattr(curve, item.name)
        if isinstance(part, Curve):
            object.__setattr__(made, item.name, _watched(part, deadline))
        elif isinstance(part, tuple) and any(isinstance(one, Curve) for one in part):
            object.__setattr__(made, item.name, tuple(_InTime(one, deadline) for one in part))
    return made


def adaptive_epsilon(plans: Sequence[Plan], budget: float, delta: float) -> float:
    """What plans on the same data, each chosen in view of what the earlier ones released, use of a budget.

    The promise is the budget, which is fixed before: if this never exceeds it, all releases together are (budget,
    delta)-DP. The number itself depends on what was chosen, and is no promise where it lies below the budget.

    Composed privacy loss distributions are no bound then: a plan can be chosen to be worst just where the loss is
    high. What holds: one plan's own epsilon; of several, the sum of their mu^2 if all are exactly Gaussian (Koskela,
    Tobaben & Honkela 2023), the sum of their Renyi divergences at ONE order that the budget fixes (Feldman & Zrnic
    2021), or the sum of their epsilons, each at its share of delta. docs/epsilon.md has the proof.
    """
    require_positive(budget, "epsilon")
    require_delta(delta)
    spending = [claims for plan in plans if (claims := _claims(plan.steps))]
    if len(spending) <= 1:
        return _epsilon(spending[0], delta) if spending else 0.0
    if any(curve.infinite for claims in spending for curve, _ in claims):
        return math.inf
    together = _claims(step for plan in plans for step in plan.steps)
    bound = min(
        _gaussian_cost(_only_mu(together), _GAUSSIAN * delta).proven if _only_gaussian(together) else math.inf,
        _renyi_epsilon(spending, budget, delta),
    )
    return max(min(bound, _summed_epsilon(spending, _SUMMED * delta, bound)), 0.0)


def _summed_epsilon(plans: Sequence[Claims], delta: float, most: float) -> float:
    """The i-th plan at delta / (i (i + 1)), a share that does not depend on how many will follow.

    Infinite where it would be above `most`, which is known sooner, and where a share is too small to resolve.
    """
    try:
        if sum(_first_case(claims, delta) for claims in plans) > most:
            return math.inf
        each = (_epsilon(claims, delta / (i * (i + 1))) for i, claims in enumerate(plans, 1))
        return math.fsum(each) * (1 + _ROUNDING)
    except Unsupported:
        return math.inf


def _renyi_epsilon(spending: Sequence[Claims], budget: float, delta: float) -> float:
    """What the order of the budget proves, unless more is left out than its share of delta pays for."""
    order = _order_of(budget, delta)
    spent, lost = 0.0, 0.0
    for curve, times in itertools.chain.from_iterable(spending):
        one, left_out = _renyi(curve, order, _LEFT_OUT * delta / (1000 * times))
        spent, lost = spent + times * one, lost + times * left_out + _float_error(((curve, times),))
    if lost > _LEFT_OUT * delta:
        return math.inf
    uses = sum(times for claims in spending for _, times in claims)
    return _renyi_cost(float(spent + _conversion(np.array(order), _RENYI * delta)), uses).proven


def _order_of(budget: float, delta: float) -> float:
    """Where the budget holds most Gaussian releases: the order a that maximises mu^2 = 2 (budget - conversion) / a."""
    return float(_ORDERS[np.argmax((budget - _conversion(_ORDERS, _RENYI * delta)) / _ORDERS)])


def _conversion(orders: Floats, delta: float) -> Floats:
    """Epsilon less the Renyi divergence, of each order."""
    return -math.log(delta) / (orders - 1) - _saved((), orders)


@lru_cache(maxsize=4096)
def _renyi(curve: Curve, order: float, most: float) -> tuple[float, float]:
    """(Renyi divergence of one use, mass of the losses that it leaves out, at most `most`).

    From hockey sticks H, H' of the two directions, with losses above r left out:
    e^{(a-1) rho} <= 1 + a (a-1) int_0^r (e^{(a-1)u} H(u) + e^{-au} H'(u)) du + (a-1) e^{-ar} H'(r).
    H falls, so its value at the left end of a cell bounds it there; Pr[loss > r] <= H(r - h) / (1 - e^{-h}).
    """
    if curve.deltas(np.zeros(1)) is None or curve.gdp() is not None:
        return float(_rdp_total(((curve, 1),), np.array([order]))[0]), 0.0
    starts = 2.0 ** np.arange(-10, 9, 0.05)
    beyond = np.maximum(*_above(curve, starts)) / -np.expm1(-starts / 20)
    if beyond[-1] > most:
        return math.inf, 0.0
    first = int(np.argmax(beyond <= most))
    cells = np.linspace(0.0, starts[first] * 1.05, _CELLS + 1)
    sides = _above(curve, cells)
    # Exponentials that end in infinity make the bound infinite, or none at all.
    with np.errstate(over="ignore", invalid="ignore"):
        up, down = (np.diff(np.exp(slope * cells)) / slope for slope in (order - 1, -order))
        moments = [
            order * (order - 1) * float(up @ here[:-1] + down @ there[:-1])
            + (order - 1) * math.exp(-order * cells[-1]) * float(there[-1])
            for here, there in (sides, sides[::-1])
        ]
    if not np.isfinite(moments).all():
        return math.inf, 0.0
    return math.log1p(max(moments)) / (order - 1), float(beyond[first])


def _above(curve: Curve, at: Floats) -> tuple[Floats, Floats]:
    """Both sides of a hockey-stick curve with all that doubles may have taken off them."""
    both = curve.deltas(at)
    assert both is not None
    first, second = (side * (1 + _ROUNDING) + _rounding(curve) for side in both)
    return first, second


def delta(plan: Plan, epsilon: float) -> float:
    """Smallest delta we can prove for `plan` at `epsilon` (upper end)."""
    require_cost(epsilon, "epsilon")
    claims = _claims(plan.steps)
    if not claims or epsilon == math.inf:
        return 0.0
    if any(curve.infinite for curve, _ in claims):
        return 1.0
    return _worst_case(claims, lambda case, rough: _case_delta(case, epsilon, rough))[1]


def _case_delta(claims: Claims, epsilon: float, rough: bool) -> float:
    if _only_gaussian(claims):
        return gaussian_bounds(epsilon, _only_mu(claims) * (1 + _ROUNDING))[1]
    if not _has_deltas(claims):
        return _rdp_delta(claims, epsilon)
    lost = _float_error(claims)
    share = _share(claims)
    [found] = _refined(claims, lambda pld: (float(pld.get_delta_for_epsilon(epsilon - share)) + lost,), rough)
    return min(found * (1 + share), 1.0)


def bracket(plan: Plan, delta: float) -> tuple[float, float]:
    """(lower, upper) around the true epsilon of the composed claims; the width is discretisation error."""
    upper = epsilon(plan, delta)
    if upper in (0.0, math.inf):
        return upper, upper
    case = _worst_case(_claims(plan.steps), lambda case, rough: _case_epsilon(case, delta, rough).proven)[0]
    if _only_gaussian(case):
        mu = _only_mu(case) * (1 - _ROUNDING)
        return _moved(upper, lambda value: gaussian_bounds(value, mu)[0] >= delta, -1), upper
    if not _has_deltas(case):
        return upper, upper
    return _lower_epsilon(case, delta, upper), upper


def _lower_epsilon(claims: Claims, delta: float, upper: float) -> float:
    """Refine the optimistic grid until it is close to `upper` or too fine."""
    lower, grid = 0.0, _align(claims, _first_grid(claims) / 4)
    while (pld := _compose(claims, grid, pessimistic=False)) is not None:
        most = (delta + _float_error(claims)) * (1 + _share(claims))
        found = min(float(pld.get_epsilon_for_delta(most)), upper)
        finer = _moved(found, partial(_tells, pld, most), -1) - _share(claims)
        grid = _align(claims, grid / 4)
        if finer <= lower or finer > upper * (1 - 2 * _PRECISION) or _bins(claims, grid) > _MAX_BINS >> 3:
            return max(lower, finer)
        lower = finer
    return lower


def _tells(pld: Any, delta: float, epsilon: float) -> bool:
    """Whether a composed PLD has at least this delta at `epsilon`."""
    return bool(pld.get_delta_for_epsilon(epsilon) >= delta)


def rdp_epsilon(plan: Plan, delta: float) -> float:
    """Cross-check by Renyi composition (Canonne, Kamath & Steinke 2020 conversion); never below `epsilon`."""
    claims = _claims(plan.steps)
    return _rdp_epsilon(claims, require_delta(delta)) if claims else 0.0


@dataclass(frozen=True)
class Calibrated:
    """A plan whose epsilon is at most the target, the noise that makes it so, and that epsilon."""

    plan: Plan
    noise: float
    epsilon: float


def calibrate(plan_of_noise: Callable[[float], Plan], epsilon: float, delta: float) -> Calibrated:
    """Smallest noise whose plan spends at most `epsilon` at `delta`, and hardly less. One-sided."""
    require_delta(delta)
    if epsilon == math.inf:
        return Calibrated(plan_of_noise(0.0), 0.0, _spent(plan_of_noise(0.0), delta))
    target = require_positive(epsilon, "epsilon")
    quiet = plan_of_noise(1.0)
    if not any(math.isfinite(_first_case(_claims(plan_of_noise(noise).steps), delta)) for noise in (1.0, 1e6)):
        exposed = "; ".join(f"step {step.name!r}: {step.why}" for step in quiet.steps if step.claim.infinite)
        if not exposed:
            raise Unsupported(
                f"no amount of noise makes this plan private at delta {delta:.3g}: its claims need a larger one"
            )
        raise Unsupported(
            f"no amount of noise makes this method private, because it exposes private data ({exposed}); "
            "use epsilon=inf for a non-private baseline, or a private method"
        )
    if quiet == plan_of_noise(2.0):
        spent = _spent(quiet, delta)
        if spent > target:
            raise Unsupported(f"this plan spends epsilon {spent:.4g} whatever the noise; {target:.4g} was asked")
        return Calibrated(quiet, 0.0, spent)
    # Checking every case that the claims cover is slow: search with one of them, then mend with all.
    chosen = _search(lambda noise: _first_case(_claims(plan_of_noise(noise).steps), delta), target, delta)
    chosen = _mended(lambda noise: _spent(plan_of_noise(noise), delta, proven=False), chosen, target)
    chosen = _mended(lambda noise: _spent(plan_of_noise(noise), delta), chosen, target)
    return Calibrated(plan_of_noise(chosen), chosen, _spent(plan_of_noise(chosen), delta))


def _mended(spent: Callable[[float], float], noise: float, target: float) -> float:
    """The noise if it spends at most the target, else one that is hardly too large, in few evaluations of `spent`."""
    high, at_high = noise, spent(noise)
    if at_high <= target:
        return noise
    while at_high > target:
        low, at_low = high, at_high
        high = low * min(max(at_low / target, 1 + _CLOSE / 100), 2.0) ** 1.1
        at_high = spent(high)
    for _ in range(6):
        if at_high >= target * (1 - _MENDED):
            break
        middle = _between(low, at_low, high, at_high, target * (1 - _MENDED / 2), bisect=False)
        at_middle = spent(middle)
        if at_middle <= target:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return high


def _spent(plan: Plan, delta: float, proven: bool = True) -> float:
    return _epsilon(_claims(plan.steps), delta, proven)


def _first_case(claims: Claims, delta: float) -> float:
    """Epsilon of one of the cases that the claims cover: a lower bound that is quick to search with."""
    while parts := _refine(claims):
        claims = parts[0]
    return _epsilon(claims, delta, proven=False)


def _search(spent: Callable[[float], float], target: float, delta: float) -> float:
    """Bracket the noise by doubling, then interpolate in log-log; give the private end."""
    high, low = 1.0, 0.5
    at_high = spent(high)
    while at_high > target:
        low, high = high, high * 2
        at_high = spent(high)
        if high > 1e9:
            raise Unsupported(f"no noise below {high:.0g} brings epsilon down to {target:.4g} at delta {delta:.3g}")
    at_low = spent(low)
    while at_low <= target:
        if low < _MIN_NOISE:
            raise Unsupported(
                f"even noise {low:.0e} spends less than epsilon {target:.4g} at delta {delta:.3g}, because delta "
                "exceeds the chance that a record is read at all; choose a smaller delta"
            )
        high, at_high, low = low, at_low, low / 2
        at_low = spent(low)
    for turn in range(200):
        if at_high >= target * (1 - _CLOSE) or high / low < 1 + _CLOSE / 10:
            break
        middle = _between(low, at_low, high, at_high, target, bisect=turn % 3 == 2)
        at_middle = spent(middle)
        if at_middle <= target:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return high


def _between(low: float, at_low: float, high: float, at_high: float, target: float, bisect: bool) -> float:
    """Next noise to try: where a power law through both ends meets a point just under the target."""
    share = 0.5
    if not bisect and math.isfinite(at_low) and at_high > 0:
        aim = math.log(at_low / (target * (1 - _CLOSE / 2)))
        share = min(max(aim / math.log(at_low / at_high), 0.02), 0.98)
    return float(low ** (1 - share) * high**share)


def _claims(steps: Iterable[Any], deadline: float = math.inf) -> Claims:
    """Equal claims merged, exact Gaussians folded into one: mu^2 adds up."""
    counts: dict[Curve, int] = {}
    mus: list[tuple[float, int]] = []
    for step in steps:
        mu = step.claim.gdp()
        if mu is None or mu == math.inf:
            counts[step.claim] = counts.get(step.claim, 0) + step.times
        elif mu > 0:
            mus.append((mu, step.times))
    if mus:
        counts[GaussianCurve(_root_of_squares(mus))] = 1
    if deadline == math.inf:
        return tuple(counts.items())
    return tuple((cast(Curve, _InTime(curve, deadline)), times) for curve, times in counts.items())


def _root_of_squares(mus: Sequence[tuple[float, int]]) -> float:
    """sqrt(sum times mu^2), also where squares do not fit a double."""
    square = sum(times * mu * mu for mu, times in mus)
    if _MIN_SQUARE < square < math.inf:
        return math.sqrt(square)
    unit = max(mu for mu, _ in mus)
    return unit * math.sqrt(sum(times * (mu / unit) ** 2 for mu, times in mus))


def _only_gaussian(claims: Claims) -> bool:
    return len(claims) == 1 and claims[0][0].gdp() is not None and claims[0][1] == 1


def _only_mu(claims: Claims) -> float:
    mu = claims[0][0].gdp()
    return 0.0 if mu is None else mu


@lru_cache(maxsize=4096)
def _epsilon(claims: Claims, delta: float, proven: bool = True) -> float:
    """What is reported, or what calibration searches by; see `_Cost`."""
    if not claims:
        return 0.0
    if any(curve.infinite for curve, _ in claims):
        return math.inf

    def cost(case: Claims, rough: bool) -> float:
        one = _case_epsilon(case, delta, rough)
        return one.proven if proven else one.found

    return _worst_case(claims, cost)[1]


def _worst_case(claims: Claims, cost: Callable[[Claims, bool], float]) -> tuple[Claims, float]:
    """The worst single case that the claims cover, and an upper bound on every case's cost, close to it.

    Best-first branch and bound: what has the highest bound is refined until a single case is as bad. `cost` takes a
    case and whether a rough upper bound will do. Several claims that each cover many cases are charged as they are: a
    search over all their combinations would take for ever.
    """
    if sum(bool(curve.refine()) for curve, _ in claims) != 1:
        return claims, cost(claims, False)
    worst, reached = claims, 0.0
    fresh = itertools.count()
    queue = [(-math.inf, next(fresh), claims)]
    for refinements in itertools.count():
        if -queue[0][0] <= reached * (1 + _SLACK * (1 + refinements / _TIRING)):
            break
        bound, _, many = heapq.heappop(queue)
        for part in _refine(many):
            single = not _refine(part)
            spent = min(cost(part, not single), -bound)
            heapq.heappush(queue, (-spent, next(fresh), part))
            if single and spent > reached:
                worst, reached = part, spent
    return worst, -queue[0][0]


def _refine(claims: Claims) -> list[Claims]:
    """The claims with the first one that covers several cases replaced by each of them."""
    for place, (curve, times) in enumerate(claims):
        if parts := curve.refine():
            return [(*claims[:place], (part, times), *claims[place + 1 :]) for part in parts]
    return []


@lru_cache(maxsize=4096)
def _case_epsilon(claims: Claims, delta: float, rough: bool) -> _Cost:
    if _only_gaussian(claims):
        return _gaussian_cost(_only_mu(claims), delta)
    if not _has_deltas(claims):
        return _renyi_cost(_rdp_epsilon(claims, delta), sum(times for _, times in claims))
    lost = _float_error(claims)
    if delta <= 2 * lost:
        raise Unsupported(
            f"delta {delta:.1e} is below what floating-point composition of this plan resolves; "
            f"use {10 * lost:.0e} or more"
        )
    if _out_of_reach(claims) >= delta:
        return _Cost(math.inf, math.inf)
    if sum(times * _distance(curve) for curve, times in claims) <= delta - lost:
        return _Cost(0.0, 0.0)
    return _Cost(*_refined(claims, lambda pld: _read(pld, delta - lost, _share(claims)), rough))


def _read(pld: Any, delta: float, share: float) -> _Cost:
    """Epsilon of a composed PLD. Its library adds up the losses node by node, which drifts; delta is read afresh.

    Curves that are too low by a share w are those of e^w times the measure: n uses lose n w of epsilon and of delta.
    """
    found = float(pld.get_epsilon_for_delta(delta))
    least = delta * (1 - share)
    return _Cost(found, _moved(found, lambda value: pld.get_delta_for_epsilon(value) <= least, 1) + share)


def _share(claims: Claims) -> float:
    """By what share, in all, the curves of a composition may be too low; see `_rounding` for what is no share."""
    return _ROUNDING * sum(times for _, times in claims)


def _moved(value: float, holds: Callable[[float], bool], way: int, least: float = _ROUNDING) -> float:
    """`value`, moved up (`way` 1) or down (-1) until it `holds`, in steps that double. There is nothing below 0."""
    step = _NUDGE * value or least
    while value < math.inf and not holds(value):
        if way < 0 and value == 0:
            break
        value, step = max(value + way * step, 0.0), 2 * step
    return value


def _distance(curve: Curve) -> float:
    """Total variation of one use, delta(0); the distances of several uses add up at most."""
    both = curve.deltas(np.zeros(1))
    return 1.0 if both is None else float(np.maximum(*both)[0])


def _out_of_reach(claims: Claims) -> float:
    """Mass of losses beyond every claim's grid, which the composition counts as infinite."""
    within = 0.0
    for curve, times in claims:
        both = curve.deltas(np.array([_support(curve)]))
        assert both is not None  # a claim without deltas is charged by its Renyi curve
        within += times * math.log1p(-min(float(np.maximum(*both)[0]), 1 - 1e-16))
    return -math.expm1(within)


def _float_error(claims: Claims) -> float:
    """Mass that the transforms of a composition may misplace; taken off delta before it is used.

    Raising a transform to the power `times` multiplies its relative rounding error by `times`, and every use has a
    curve that was rounded. Against closed forms the error stays ten times below this allowance.
    """
    return _FLOAT_ERROR + sum(times * _rounding(curve) for curve, times in claims)


def _rounding(curve: Curve) -> float:
    """How far rounding may put one use's hockey-stick curve below the truth where it is near 0, and so no share of it.

    Losses keep 52 bits, at best of 1, and a curve falls by at most what the loss grows.
    """
    return 2.0**-52 * max(_support(curve) / _WIDE, 1.0)


def _gaussian_cost(mu: float, delta: float) -> _Cost:
    """Exact conversion of mu-GDP, found in doubles and proven in long arithmetic for a mu whose last bits are ours."""
    found, most = _gaussian_epsilon(mu, delta), mu * (1 + _ROUNDING)
    return _Cost(found, _moved(found, lambda value: gaussian_bounds(value, most)[1] <= delta, 1, _NUDGE * mu))


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Exact conversion of mu-GDP by bisection; the upper end of the last interval."""

    def excess(value: float) -> bool:
        return float(gaussian_delta(np.array([value]), mu)[0]) > delta

    if not excess(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while excess(high):
        low, high = high, high * 2
    # Between neighbouring doubles there is no middle.
    while high - low > 1e-12 * high and low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if excess(middle) else (low, middle)
    return high


def _has_deltas(claims: Claims) -> bool:
    return all(curve.deltas(np.zeros(1)) is not None for curve, _ in claims)


def _rdp_total(claims: Claims, orders: Floats) -> Floats:
    total = np.zeros_like(orders)
    for curve, times in claims:
        one = curve.rdp(orders)
        if one is None:
            raise Unsupported(f"{type(curve).__name__} can be charged neither as PLD nor as Renyi curve")
        total = total + times * one
    # What overflows to infinity minus infinity bounds nothing.
    return np.where(np.isnan(total), np.inf, total)


def _orders(claims: Claims) -> Floats:
    """The orders of a published bound that stands alone, else ours."""
    own = claims[0][0].orders() if len(claims) == 1 else None
    return _ORDERS if own is None else own


def _saved(claims: Claims, orders: Floats) -> Floats:
    """What Canonne, Kamath & Steinke 2020 take off Mironov's conversion; nothing for a published bound without it."""
    if len(claims) == 1 and claims[0][0].mironov_conversion():
        return np.zeros_like(orders)
    return np.log(orders) / (orders - 1) - np.log1p(-1 / orders)


def _rdp_epsilon(claims: Claims, delta: float) -> float:
    orders = _orders(claims)
    spent = _rdp_total(claims, orders) - np.log(delta) / (orders - 1) - _saved(claims, orders)
    return max(float(np.min(spent)), 0.0)


def _renyi_cost(found: float, uses: int) -> _Cost:
    """With what the divergences of so many uses may lack, and their sum with log(1/delta), which is below 2^10."""
    return _Cost(found, found * (1 + _ROUNDING) + (uses + 2**10) * _ROUNDING if found > 0 else found)


def _rdp_delta(claims: Claims, epsilon: float) -> float:
    orders = _orders(claims)
    log_delta = (orders - 1) * (_rdp_total(claims, orders) - epsilon - _saved(claims, orders))
    return min(float(np.exp(np.min(log_delta))), 1.0)


def _refined(claims: Claims, read: Callable[[Any], tuple[float, ...]], rough: bool) -> tuple[float, ...]:
    """Read numbers off the composed PLD, halving the grid until the first settles.

    Coarser is only larger: `rough` stops at once, and what is too long for a grid is composed on a coarser one.
    """
    grid = _align(claims, _first_grid(claims))
    while (pld := _compose(claims, grid, pessimistic=True)) is None:
        if _bins(claims, grid) < 2:
            uses = sum(times for _, times in claims)
            raise Unsupported(f"{uses:,} uses take too much memory to charge; plan fewer of them")
        grid = _align(claims, grid * 4)
    values = read(pld)
    for _ in range(0 if rough else 8):
        grid = _align(claims, grid / 2)
        if (pld := _compose(claims, grid, pessimistic=True)) is None:
            break
        finer = read(pld)
        settled = math.isfinite(values[0]) and values[0] - finer[0] <= _PRECISION * finer[0]
        values = tuple(map(min, values, finer))
        if settled or _bins(claims, grid) > _MAX_BINS >> 1:
            break
    return values


def _first_grid(claims: Claims) -> float:
    """A sixth of the smallest typical loss that matters, unless that needs too many bins; `_refined` halves it."""
    losses = [(_typical_loss(curve), times) for curve, times in claims]
    total = max(loss * math.sqrt(times) for loss, times in losses)
    typical = min(loss for loss, times in losses if loss * times >= 1e-3 * total) / 6
    return typical * max(1.0, _bins(claims, typical) / (_MAX_BINS >> 2))


def _bins(claims: Claims, grid: float) -> float:
    """How many grid nodes the widest claim needs."""
    return 2 * max(_support(curve) for curve, _ in claims) / grid


def _align(claims: Claims, grid: float) -> float:
    """The next finer grid that has a claim's point mass on a node, where splitting it would cost most.

    A point mass within the first cell is of no account, and would make the grid as fine as itself.
    """
    atoms = [atom for curve, _ in claims if (atom := curve.atom()) is not None and atom >= grid]
    return atoms[0] / math.ceil(atoms[0] / grid) if atoms else grid


def _typical_loss(curve: Curve) -> float:
    """Spread of the loss: the root of the chi-square divergence, which is its variance while it is small."""
    renyi = curve.rdp(np.array([2.0]))
    if renyi is not None and np.isfinite(renyi[0]) and renyi[0] > 0:
        return min(math.sqrt(math.expm1(min(float(renyi[0]), 1.0))), 1.0)
    # N(mu,1) against N(0,1) has spread mu and total variation mu/sqrt(2 pi) for small mu.
    return max(math.sqrt(2 * math.pi) * _distance(curve), 1e-9)


@lru_cache(maxsize=4096)
def _support(curve: Curve) -> float:
    """A power of two beyond which one use has (almost) no loss left, at most `_RANGE`."""
    reaches = 2.0 ** np.append(np.arange(-20, math.log2(_RANGE)), 60)
    both = curve.deltas(reaches)
    if both is None:
        return float(reaches[0])
    # What is lost at any reach is infinite loss: looking for it further out would only coarsen the grid.
    inside = (np.maximum(*both) - np.maximum(*both)[-1] <= _TAIL)[:-1]
    return float(reaches[np.argmax(inside)]) if inside.any() else float(_RANGE)


def _compose(claims: Claims, grid: float, *, pessimistic: bool) -> Any:
    """PLD of all claims on one grid; None if it would have too many nodes, which is known before they are computed."""
    total, length = None, 0.0
    for curve, times in claims:
        one = _pld(curve, grid, pessimistic)
        length += max(_length(side, times) for side in (one._pmf_remove, one._pmf_add))
        if length > _MAX_LENGTH:
            return None
        with warnings.catch_warnings():
            # Its tail bounds overflow to infinity for large orders, which only makes them unused.
            warnings.simplefilter("ignore", RuntimeWarning)
            many = one.self_compose(times) if times > 1 else one
        total = many if total is None else total.compose(many)
    return total


def _length(pmf: Any, times: int) -> float:
    """About how many nodes `times` uses take. The library keeps mean +- (n t var / 2 + 35 / t) at its best t.

    Its t are 1/k to 20/k for k nodes of one use, and 35 is -log of the mass beyond.
    """
    size = len(pmf._probs)
    if times == 1:
        return size
    nodes = np.arange(size)
    mean = float(nodes @ pmf._probs)
    variance = float((nodes - mean) ** 2 @ pmf._probs)
    orders = np.arange(1, 21) / size
    return min(float(times * size), 2 * float(np.min(times * orders * variance / 2 + 35 / orders)))


def _pld(curve: Curve, grid: float, pessimistic: bool) -> Any:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    reach = math.ceil((_support(curve) if pessimistic else min(_support(curve), _LOWER_RANGE)) / grid)
    both = curve.deltas(np.arange(-reach, reach + 1, dtype=np.float64) * grid)
    if both is None:
        raise Unsupported(f"{type(curve).__name__} has no hockey-stick curve")
    if not (np.isfinite(both[0]).all() and np.isfinite(both[1]).all()):
        raise Unsupported(f"the hockey-stick curve of {curve} is not finite everywhere; refusing to charge it")
    remove, add = (_pmf(side, reach, grid, pessimistic) for side in both)
    return PrivacyLossDistribution(remove, add)


def _pmf(deltas: Floats, reach: int, grid: float, pessimistic: bool) -> Any:
    """Loss masses on the grid whose hockey-stick curve lies above (or, optimistic, below) `deltas`."""
    from dp_accounting.pld import pld_pmf

    losses = np.arange(-reach, reach + 1) * grid
    values = np.clip(deltas, -np.expm1(np.minimum(losses, 0.0)), 1.0)
    if not pessimistic:
        t = np.exp(losses)
        masses = _masses(t, _lowered(np.minimum.accumulate(values), t))
        return pld_pmf.DensePLDPmf(grid, -reach, masses, 0.0, pessimistic_estimate=False)
    # Rounding may leave tiny steps upwards; level them from above.
    values = np.maximum.accumulate(values[::-1])[::-1]
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, -reach, reach, values).to_dense_pmf()


def _lowered(values: Floats, t: Floats) -> Floats:
    """Node values whose straight-line interpolation stays below the convex curve they were read from.

    The curve is convex in t = e^epsilon, so on each interval it lies above the extensions of the two
    neighbouring chords; `gap` is the height of the triangle between them and the interval's own chord.
    Lowering both ends by the gap keeps the chord below; `_masses` restores convexity.
    """
    slopes = np.diff(values) / np.diff(t)
    left, right = np.append(slopes[0], slopes[:-1]), np.append(slopes[1:], slopes[-1])
    before, after = np.maximum(slopes - left, 0.0), np.maximum(right - slopes, 0.0)
    gap = before * after / np.maximum(before + after, 1e-300) * np.diff(t)
    drop = np.maximum(np.append(gap, 0.0), np.append(0.0, gap))
    floor = np.maximum(1 - t, 0.0)
    # Every hockey-stick curve lies above the floor. Where lowering would cross it, sit on it, and so do
    # the two neighbours, or the chord towards them could rise above the curve again.
    short = values - drop <= floor
    short[[0, -1]] = True
    short[1:-1] |= short[:-2] | short[2:]
    return np.where(short, floor, values - drop)


def _masses(t: Floats, values: Floats) -> Floats:
    """Loss masses [k] of the largest convex function below the points: t times what its slope gains there.

    The library's second differences of all points would be rounding between the corners, and it leaves out the negative
    half of that: mass without a source, which a lower bound cannot have.
    """
    corners = _corners(t, values)
    slopes = np.clip(np.diff(values[corners]) / np.diff(t[corners]), -1.0, 0.0)
    masses = np.zeros_like(t)
    masses[corners] = t[corners] * np.maximum(np.diff(slopes, prepend=-1.0, append=0.0), 0.0)
    return masses


def _corners(t: Floats, values: Floats) -> list[int]:
    """Where the largest convex function below the points bends (monotone chain)."""
    kept: list[int] = []
    for index in range(len(t)):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            if (values[b] - values[a]) * (t[index] - t[a]) < (values[index] - values[a]) * (t[b] - t[a]):
                break
            kept.pop()
        kept.append(index)
    return kept
