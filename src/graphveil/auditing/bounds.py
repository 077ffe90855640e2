"""From what an attacker said to a certified lower bound on epsilon. Every proof is in docs/bounds.md.

Scores of a two-world audit are one per run: runs are independent, half of them with the unit (law P), half without (Q).
(epsilon, delta)-DP says P(E) <= e^epsilon Q(E) + delta for every event E, and the same with P and Q swapped; an audit
finds events for which that fails. A one-run audit flips a fair coin for every canary instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv, gammaincinv, gammaln, ndtr, ndtri
from scipy.stats import f, kurtosistest, rankdata, skewtest

from graphveil.checks import parse, require_cost
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import gaussian_delta
from graphveil.release.audit_result import AuditResult, Law
from graphveil.vocabulary import Floats

_RATIO = 1.06
"""Sums that bound an integral from above are at most this factor too large."""
_CLOSE = 1e-4
"""Searches stop this close below their answer, relatively."""
_NOT_NORMAL = 1e-6
"""Scores are refused as not normal at this significance: a million Gaussian audits lose one or two."""
_DRAWS = 5
"""Tied scores are put in order this many times."""
_FEWEST = 16
"""A frequency of fewer events than this is not extrapolated to more runs."""
_MAX_EXTRAPOLATED = 2**24
"""No audit is extrapolated to more than this many times its runs."""

Ceiling = Callable[[float, Floats], Floats]
"""(privacy parameter, FPR) -> the largest TPR that the parameter allows: 1 - f(FPR) of f-DP."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What an attacker said; larger means "the unit is there". +-inf is allowed, NaN is not.

    present [k], absent [l]: one score per run, or per target. AUC and TPR read either; a certified bound holds only if
    scores are independent, so for runs of their own. Degrees are the public degrees of the targets.
    """

    present: Floats
    absent: Floats
    present_degrees: NDArray[np.int64] | None = None
    absent_degrees: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name in ("present", "absent"):
            values = _floats(getattr(self, name), f"scores of the {name} world")
            degrees = getattr(self, f"{name}_degrees")
            if degrees is not None and np.shape(degrees) != values.shape:
                raise InvalidInput(f"{name}_degrees must have one degree per score, got shape {np.shape(degrees)}")
            object.__setattr__(self, name, values)
        if (self.present_degrees is None) != (self.absent_degrees is None):
            raise InvalidInput("degrees must be given for both worlds or for none")

    @property
    def runs(self) -> int:
        """Scores of both worlds together."""
        return len(self.present) + len(self.absent)

    @cached_property
    def _seen(self) -> _Seen:
        return _Seen.of(self)

    def flipped(self) -> Scores:
        """The attacker who says the opposite."""
        return Scores(-self.present, -self.absent, self.present_degrees, self.absent_degrees)

    def auc(self) -> float:
        """P(present > absent) + P(present = absent) / 2."""
        k, l = len(self.present), len(self.absent)  # noqa: E741
        ranks = rankdata(np.concatenate([self.present, self.absent]))[:k]
        return float((ranks.sum() - k * (k + 1) / 2) / (k * l))

    def tpr_at(self, fpr: float) -> float:
        """TPR of the best threshold with at most this FPR; a coin decides tied scores, as an attacker may."""
        if not 0 <= fpr <= 1:
            raise InvalidInput(f"a false positive rate must lie in [0, 1], got {fpr!r}")
        values = np.unique(np.concatenate([self.present, self.absent]))[::-1]
        right = np.append(0, len(self.present) - np.searchsorted(np.sort(self.present), values)) / len(self.present)
        wrong = np.append(0, len(self.absent) - np.searchsorted(np.sort(self.absent), values)) / len(self.absent)
        last = int(np.searchsorted(wrong, fpr, side="right")) - 1
        if last + 1 == len(wrong):
            return 1.0
        share = (fpr - wrong[last]) / (wrong[last + 1] - wrong[last])
        return float(right[last] + share * (right[last + 1] - right[last]))

    def by_degree(self) -> dict[str, Scores]:
        """Targets of "low" (at most the median of all) and "high" degree; a group that lacks a world is left out."""
        if self.present_degrees is None or self.absent_degrees is None:
            raise InvalidInput("scores carry no degrees to be broken down by")
        middle = np.median(np.concatenate([self.present_degrees, self.absent_degrees]))
        groups = {}
        for name, sign in (("low", 1), ("high", -1)):
            here = (self.present_degrees <= middle) == (sign > 0)
            there = (self.absent_degrees <= middle) == (sign > 0)
            if here.any() and there.any():
                parts = (self.present[here], self.absent[there])
                groups[name] = Scores(*parts, self.present_degrees[here], self.absent_degrees[there])
        return groups


def finding(
    attack: str,
    scores: Scores,
    claimed: float,
    delta: float,
    confidence: float = 0.99,
    threshold: float | None = None,
    law: Law | str = Law.ANY,
) -> AuditResult:
    """Audit a claim of `claimed` epsilon at `delta` with the scores of independent runs.

    What counts is settled beforehand: `gaussian_fit` if the law is "gaussian", `gaussian_test` if it is "gdp", else
    `clopper_pearson` at a threshold that was fixed before the runs, else `rank_test`.
    """
    known = parse(Law, law, "law")
    require_cost(claimed, "claimed epsilon")
    level = _level(delta, confidence)
    bounds = {
        "clopper_pearson": clopper_pearson(scores, delta, confidence, threshold),
        "rank_test": rank_test(scores, delta, confidence),
        "bayesian": bayesian(scores, delta, confidence, threshold),
    }
    counts = "rank_test" if threshold is None else "clopper_pearson"
    if known is not Law.ANY:
        bounds["gaussian_test"] = gaussian_test(scores, delta, confidence, threshold)
        counts = "gaussian_test"
    if known is Law.GAUSSIAN:
        bounds["gaussian_fit"] = gaussian_fit(scores, delta, confidence)
        counts = "gaussian_fit"
    needed: int | None = scores.runs
    if not bounds[counts] > claimed:
        needed = _needed(_would_refute(scores, claimed, delta, level, threshold, counts), scores.runs)
    return AuditResult(
        attack=attack,
        claimed=float(claimed),
        delta=float(delta),
        confidence=float(confidence),
        law=known,
        bounds=MappingProxyType(bounds),
        counts=counts,
        auc=scores.auc(),
        tpr_01=scores.tpr_at(0.001),
        tpr_1=scores.tpr_at(0.01),
        runs=scores.runs,
        needed=needed,
    )


def one_run_finding(
    attack: str,
    scores: ArrayLike,
    inside: ArrayLike,
    claimed: float,
    delta: float,
    confidence: float = 0.99,
    guesses: int | None = None,
    law: Law | str = Law.ANY,
) -> AuditResult:
    """Audit a claim with the canaries of one run, as `one_run_scores`; `one_run` counts if the law is "any"."""
    known = parse(Law, law, "law")
    require_cost(claimed, "claimed epsilon")
    values, coins = _canaries(scores, inside)
    bounds = {"one_run": one_run_scores(values, coins, delta, confidence, guesses)}
    if known is not Law.ANY:
        bounds["one_run_fdp"] = one_run_scores(values, coins, delta, confidence, guesses, known)
    both = Scores(values[coins], values[~coins]) if 0 < coins.sum() < len(coins) else None
    return AuditResult(
        attack=attack,
        claimed=float(claimed),
        delta=float(delta),
        confidence=float(confidence),
        law=known,
        bounds=MappingProxyType(bounds),
        counts="one_run" if known is Law.ANY else "one_run_fdp",
        auc=0.5 if both is None else both.auc(),
        tpr_01=0.001 if both is None else both.tpr_at(0.001),
        tpr_1=0.01 if both is None else both.tpr_at(0.01),
        runs=len(values),
        needed=None,
    )


def clopper_pearson(scores: Scores, delta: float, confidence: float, threshold: float | None = None) -> float:
    """Two Clopper-Pearson intervals on TPR and FPR, each with half of the failure probability; no assumption.

    epsilon >= max(ln((TPR - delta) / FPR), ln((1 - delta - FPR) / (1 - TPR))). A `threshold` (score above it: "there")
    must be fixed before the runs. Without one, thresholds are the scores of rank 1, 3, 9, ... in the world where the
    event is rare, and share the failure probability.
    """
    level = _level(delta, confidence)
    if threshold is not None:
        low, high = _rates(scores, threshold, level / 2)
    else:
        seen = scores._seen
        low, high = seen.rates(level / (2 * len(seen.hits)))
    return float(np.max(_epsilon_of_rates(low, high, delta)))


def rank_test(scores: Scores, delta: float, confidence: float) -> float:
    """Exact test of (epsilon, delta)-DP at ranks 1, 3, 9, ... of the rarer world; no assumption, no nuisance.

    Let t be the k-th largest of l absent scores. Q(S > t) is Beta(k, l - k + 1), so the number of n present scores
    above t is at most Bin(n, min(1, e^epsilon U + delta)) with that U, in the order of tails. The p-value is its tail;
    the ranks of both directions share the failure probability.
    """
    level = _level(delta, confidence)
    return scores._seen.bound(level, _dp_ceiling(delta))


def gaussian_test(scores: Scores, delta: float, confidence: float, threshold: float | None = None) -> float:
    """Epsilon at `delta` of the largest mu for which the claim "mu-GDP" is refuted (Nasr et al. 2023, section 4).

    No assumption on the scores. It refutes claims of mu-GDP; as a bound on epsilon it assumes that the mechanism is
    mu-GDP for some mu, and that mu is the least such.
    """
    level = _level(delta, confidence)
    if threshold is None:
        return gaussian_epsilon(scores._seen.bound(level, _gdp_ceiling), delta)
    low, high = _rates(scores, threshold, level / 2)
    return gaussian_epsilon(max(float((ndtri(low) - ndtri(high))[0]), 0.0), delta)


def gaussian_fit(scores: Scores, delta: float, confidence: float) -> float:
    """Epsilon at `delta` of an exact lower bound on mu, for scores that are normal with equal variances.

    mu = (mean present - mean absent) / std, and the two-sample t statistic has the noncentral t law. Refuses scores
    that are visibly not normal. Constant scores that differ between the worlds have no noise: infinite.
    """
    level = _level(delta, confidence)
    t, freedom, scale = _t_statistic(scores)
    if t == math.inf:
        return math.inf
    mu = _climb(lambda value: _t_tail(t, freedom, value * scale, level) <= level) if t > 0 else 0.0
    return gaussian_epsilon(mu, delta)


def bayesian(scores: Scores, delta: float, confidence: float, threshold: float | None = None) -> float:
    """Lower end of the credible interval of epsilon under Jeffreys priors (Zanella-Beguelin et al. 2023, section 4).

    FPR ~ Beta(FP + 1/2, TN + 1/2) and FNR ~ Beta(FN + 1/2, TP + 1/2) a posteriori. A statement about belief, not a
    certificate. Without a `threshold`, runs at even places choose one and runs at odd places are counted.
    """
    level = _level(delta, confidence)
    if threshold is None:
        if min(len(scores.present), len(scores.absent)) < 2:
            return 0.0
        threshold = _chosen(Scores(scores.present[::2], scores.absent[::2]), delta, level)
        scores = Scores(scores.present[1::2], scores.absent[1::2])
    right, wrong = _above(scores, threshold)
    at, weights, rest = _grid(level)
    fpr = betainccinv(wrong + 0.5, len(scores.absent) - wrong + 0.5, at)

    def doubted(epsilon: float) -> bool:
        odds = math.exp(min(epsilon, 700.0))
        least = np.clip(np.maximum((1 - delta - fpr) / odds, 1 - delta - odds * fpr), 0.0, 1.0)
        belief = betaincc(len(scores.present) - right + 0.5, right + 0.5, least)
        return float(belief @ weights) + rest <= level

    return _climb(doubted)


def one_run(correct: int, guesses: int, delta: float, canaries: int, confidence: float) -> float:
    """Lower bound from `correct` of `guesses` about `canaries` in one run (Steinke, Nasr & Jagielski 2023, Thm 5.2).

    With W ~ Bin(guesses, e^epsilon / (1 + e^epsilon)), the p-value is
    P(W >= v) + 2 canaries delta max_i P(v > W >= v - i) / i. Every canary was in or out by a fair coin of its own; the
    number of guesses was fixed before the run.
    """
    level = _level(delta, confidence)
    _require_guesses(correct, guesses, canaries)
    if correct == 0:
        return 0.0
    outcome = np.arange(guesses + 1)
    choose = gammaln(guesses + 1) - gammaln(outcome + 1) - gammaln(guesses - outcome + 1)
    steps = np.arange(1, correct + 1)

    def refuted(epsilon: float) -> bool:
        # ln of e^epsilon / (1 + e^epsilon), and of its complement
        right, wrong = -np.log1p(np.exp(-epsilon)), -epsilon - np.log1p(np.exp(-epsilon))
        mass = np.exp(choose + outcome * right + (guesses - outcome) * wrong)
        below = np.cumsum(mass[correct - 1 :: -1])
        return float(mass[correct:].sum() + 2 * canaries * delta * np.max(below / steps)) <= level

    return _climb(refuted)


def one_run_fdp(correct: int, guesses: int, delta: float, canaries: int, confidence: float) -> float:
    """`one_run` for claims of mu-GDP: epsilon at `delta` of the largest mu refuted (Mahloujifar et al. 2024, Alg. 3).

    It assumes what `gaussian_test` does, and coins and guesses as in `one_run`.
    """
    level = _level(delta, confidence)
    _require_guesses(correct, guesses, canaries)
    return gaussian_epsilon(_climb(lambda mu: _too_lucky(correct, guesses, canaries, level, mu)), delta)


def one_run_scores(
    scores: ArrayLike,
    inside: ArrayLike,
    delta: float,
    confidence: float,
    guesses: int | None = None,
    law: Law | str = Law.ANY,
) -> float:
    """`one_run` from canary scores [m] and coins `inside` [m]: the upper half of `guesses` is called in, the lower out.

    `guesses` is fixed before the run. Without it m, m/2, m/4, ... guesses are tried and share the failure probability.
    `one_run_fdp` is used unless the law is "any".
    """
    level = _level(delta, confidence)
    bound = one_run if parse(Law, law, "law") is Law.ANY else one_run_fdp
    values, coins = _canaries(scores, inside)
    m = len(values)
    tried = [m >> step for step in range(max(m.bit_length() - 3, 1))] if guesses is None else [guesses]
    order = np.lexsort((_coins(m, 0), values))
    best = 0.0
    for number in tried:
        if not 0 < number <= m:
            raise InvalidInput(f"guesses must lie between 1 and the {m} canaries, got {number!r}")
        called_out, called_in = order[: number // 2], order[m - (number - number // 2) :]
        correct = int(coins[called_in].sum() + (~coins[called_out]).sum())
        best = max(best, bound(correct, number, delta, m, 1 - level / len(tried)))
    return best


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(mu, 1) against N(0, 1), rounded down; infinite at delta 0."""
    if mu == 0 or not (delta == 0 or math.isfinite(mu)):
        return 0.0 if mu == 0 else math.inf
    return math.inf if delta == 0 else _climb(lambda value: gaussian_delta(np.array([value]), mu)[0] > delta, 1e-12)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Events "beyond the k-th most extreme score of the rarer world", for k = 1, 3, 9, ... and in both directions.

    ranks [c]: k; rare [c]: runs of the world in which the event is rare; hits [c] of often [c] runs of the other world
    fall into it.
    """

    ranks: Floats
    rare: Floats
    hits: Floats
    often: Floats

    @classmethod
    def of(cls, scores: Scores) -> _Seen:
        up = cls._beyond(scores.absent, scores.present)
        down = cls._beyond(-scores.present, -scores.absent)
        return cls(*(np.concatenate(pair) for pair in zip(up, down, strict=True)))

    @staticmethod
    def _beyond(rare: Floats, often: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """How many of `often` lie above the k-th largest of `rare`; fair coins decide ties.

        Any one draw of coins is valid, so the least of several is: audits of one size share their coins, and a single
        lucky draw would flatter them all.
        """
        ranks, both = _ranks(len(rare)), np.concatenate([rare, often])
        hits = np.full(len(ranks), len(often))
        for draw in range(_DRAWS if len(np.unique(both)) < len(both) else 1):
            mine = np.lexsort((_coins(len(both), draw), both))[::-1] < len(rare)
            hits = np.minimum(hits, np.cumsum(~mine)[np.flatnonzero(mine)[ranks - 1]])
        sizes = np.ones(len(ranks))
        return ranks.astype(np.float64), sizes * len(rare), hits.astype(np.float64), sizes * len(often)

    def at(self, chosen: NDArray[np.bool_], times: float = 1.0) -> _Seen:
        """Some of the events, with all counts multiplied."""
        return _Seen(*(times * part[chosen] for part in (self.ranks, self.rare, self.hits, self.often)))

    def rates(self, share: float) -> tuple[Floats, Floats]:
        """(TPR from below, FPR from above), each wrong with probability at most `share`."""
        return _least(self.hits, self.often, share), betainccinv(self.ranks, self.rare - self.ranks + 1, share)

    def p_values(self, level: float, allowed: Floats) -> Floats:
        """Chance of at least so many hits, from above, [c]; allowed [c, places]: the most that P(E) may be."""
        _, weights, rest = _grid(level)
        hits = np.maximum(self.hits, 1.0)[:, None]
        tails = betainc(hits, self.often[:, None] - hits + 1, allowed)
        return np.asarray(np.where(self.hits > 0, tails @ weights + rest, 1.0))

    def rarely(self, level: float) -> Floats:
        """Quantiles of Q(E), from the largest down, at the places of the grid, [c, places]."""
        return np.asarray(betainccinv(self.ranks[:, None], (self.rare - self.ranks + 1)[:, None], _grid(level)[0]))

    def bound(self, level: float, ceiling: Ceiling) -> float:
        """The largest parameter at which some event is too frequent; the events share `level`."""
        share = level / len(self.ranks)
        alive, rarely = self, self.rarely(share)

        def rejects(value: float) -> bool:
            nonlocal alive, rarely
            reject = alive.p_values(share, ceiling(value, rarely)) <= share
            if reject.any():
                # The search goes on above a value that is rejected: events that do not reject it are done.
                alive, rarely = alive.at(reject), rarely[reject]
            return bool(reject.any())

        return _climb(rejects)


def _dp_ceiling(delta: float) -> Ceiling:
    """TPR of (epsilon, delta)-DP: min(1, e^epsilon FPR + delta, 1 - e^-epsilon (1 - delta - FPR))."""

    def ceiling(epsilon: float, fpr: Floats) -> Floats:
        rising = np.exp(np.minimum(epsilon + np.log(np.maximum(fpr, 1e-300)), 1.0)) + delta
        return np.asarray(np.minimum(np.minimum(rising, 1 - math.exp(-epsilon) * (1 - delta - fpr)), 1.0))

    return ceiling


def _gdp_ceiling(mu: float, fpr: Floats) -> Floats:
    """TPR of mu-GDP: Phi(Phi^-1(FPR) + mu)."""
    return np.asarray(ndtr(ndtri(fpr) + mu))


def _epsilon_of_rates(low: Floats, high: Floats, delta: float) -> Floats:
    """The epsilon that a TPR of at least `low` at an FPR of at most `high` needs; at least 0."""
    with np.errstate(divide="ignore"):
        first = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
        second = np.log(np.maximum(1 - delta - high, 0.0)) - np.log(1 - low)
    return np.asarray(np.maximum(np.maximum(first, second), 0.0))


def _rates(scores: Scores, threshold: float, share: float) -> tuple[Floats, Floats]:
    """Clopper-Pearson at a fixed threshold: (TPR from below, FPR from above), each wrong with probability `share`."""
    if math.isnan(threshold):
        raise InvalidInput("threshold must be a number, got nan")
    right, wrong = _above(scores, threshold)
    low = _least(np.array([float(right)]), np.array([float(len(scores.present))]), share)
    quiet = np.array([float(len(scores.absent) - wrong)])
    return low, 1 - _least(quiet, np.array([float(len(scores.absent))]), share)


def _least(hits: Floats, runs: Floats, share: float) -> Floats:
    """Clopper-Pearson from below: the p for which `hits` or more of `runs` have probability `share`."""
    return np.asarray(np.where(hits > 0, betaincinv(np.maximum(hits, 1.0), runs - np.maximum(hits, 1.0) + 1, share), 0))


def _above(scores: Scores, threshold: float) -> tuple[int, int]:
    return int((scores.present > threshold).sum()), int((scores.absent > threshold).sum())


def _chosen(scores: Scores, delta: float, level: float) -> float:
    """The threshold of an order statistic with the best Clopper-Pearson bound, for use on other runs."""
    present, absent = np.sort(scores.present), np.sort(scores.absent)
    ups, downs = absent[-_ranks(len(absent))], present[_ranks(len(present)) - 1]
    candidates = np.concatenate([ups, np.nextafter(downs, -np.inf)])
    best = [float(_epsilon_of_rates(*_rates(scores, float(t), level / 2), delta)[0]) for t in candidates]
    return float(candidates[int(np.argmax(best))])


def _t_statistic(scores: Scores) -> tuple[float, int, float]:
    """(t, degrees of freedom, noncentrality per unit of mu); refuses what is visibly not normal."""
    k, l = len(scores.present), len(scores.absent)  # noqa: E741
    if min(k, l) < 2:
        raise InvalidInput("a Gaussian fit needs at least two scores in each world")
    if not (np.isfinite(scores.present).all() and np.isfinite(scores.absent).all()):
        raise InvalidInput("infinite scores are not normal; use the law 'any'")
    gap = float(scores.present.mean() - scores.absent.mean())
    spread = np.array([scores.present.var(ddof=1), scores.absent.var(ddof=1)])
    # Rounding alone gives constant scores a spread.
    noise = 1e-12 * max(float(np.abs(scores.present).max()), float(np.abs(scores.absent).max()))
    scale = math.sqrt(k * l / (k + l))
    if (spread <= noise**2).all():
        return (math.inf if gap > noise else 0.0), k + l - 2, scale
    _require_normal(scores, spread)
    pooled = math.sqrt(((k - 1) * spread[0] + (l - 1) * spread[1]) / (k + l - 2))
    return gap / pooled * scale, k + l - 2, scale


def _require_normal(scores: Scores, spread: Floats) -> None:
    """Skewness, kurtosis and ratio of variances, each at a significance that normal scores do not meet."""
    values = []
    for world in (scores.present, scores.absent):
        if len(world) >= 20 and np.ptp(world) > 0:
            values += [float(skewtest(world).pvalue), float(kurtosistest(world).pvalue)]
    freedom = (len(scores.present) - 1, len(scores.absent) - 1)
    ratio = float(spread[0] / spread[1]) if spread[1] > 0 else math.inf
    values.append(2 * float(min(f.sf(ratio, *freedom), f.cdf(ratio, *freedom))))
    if min(values) < _NOT_NORMAL:
        raise InvalidInput(
            "the scores are not normal with one variance (a test of skewness, kurtosis or variances fails); "
            "use the law 'gdp' or 'any'"
        )


def _t_tail(t: float, freedom: float, centre: float, level: float) -> float:
    """P(noncentral t >= t) = E Phi(centre - t S), S^2 = chi^2 / freedom, from above; t > 0."""
    at, weights, rest = _grid(level)
    spread = np.sqrt(gammaincinv(freedom / 2, at) * 2 / freedom)
    return float(ndtr(centre - t * spread) @ weights) + rest


def _too_lucky(correct: int, guesses: int, canaries: int, level: float, mu: float) -> bool:
    """Whether P(W >= correct) = `level` contradicts mu-GDP for W correct guesses; the recursion of docs/bounds.md.

    right and wrong are sums over w >= i of P(W = w) times w / canaries, and times (guesses - w) / canaries.
    """
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        least = float(ndtr(ndtri(right) - mu))
        if least <= wrong:
            return False
        right += i / (guesses - i) * (least - wrong)
        wrong = least
        if right + wrong > guesses / canaries:
            return True
    return False


def _would_refute(
    scores: Scores, claimed: float, delta: float, level: float, threshold: float | None, counts: str
) -> Callable[[float], bool] | None:
    """Whether the bound that counts would refute the claim, were all frequencies seen in `times` as many runs."""
    if claimed == math.inf:
        return None
    # Only now: the exact claim in the language of the bound.
    mu = _climb(lambda value: gaussian_delta(np.array([claimed]), value)[0] <= delta, 1e-12)
    if counts == "gaussian_fit":
        t, freedom, scale = _t_statistic(scores)
        if t <= 0:
            return None
        return lambda times: (
            _t_tail(t * math.sqrt(times), freedom * times, mu * scale * math.sqrt(times), level) <= level
        )
    ceiling = _dp_ceiling(delta) if counts != "gaussian_test" else _gdp_ceiling
    value = claimed if counts != "gaussian_test" else mu
    if threshold is not None:
        right, wrong = _above(scores, threshold)
        worlds = (np.array([float(len(scores.present))]), np.array([float(len(scores.absent))]))

        def refutes(times: float) -> bool:
            low = _least(np.array([right * times]), worlds[0] * times, level / 2)
            high = 1 - _least((worlds[1] - wrong) * times, worlds[1] * times, level / 2)
            return bool(low[0] > ceiling(value, high)[0])

        return refutes
    seen = scores._seen
    stable = (seen.ranks >= _FEWEST) & (seen.hits >= _FEWEST)
    if not stable.any():
        return None
    share = level / len(seen.ranks)

    def refutes_by_rank(times: float) -> bool:
        more = seen.at(stable, times)
        return bool((more.p_values(share, ceiling(value, more.rarely(share))) <= share).any())

    return refutes_by_rank


def _needed(refutes: Callable[[float], bool] | None, runs: int) -> int | None:
    """Runs at which `refutes` turns true, to 2 %; `None` if it never does."""
    if refutes is None:
        return None
    low, high = 1.0, 2.0
    while not refutes(high):
        low, high = high, high * 2
        if high > _MAX_EXTRAPOLATED:
            return None
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return math.ceil(runs * high)


def _climb(holds: Callable[[float], Any], close: float = _CLOSE) -> float:
    """The largest value at which a condition holds that holds up to some value, rounded down; 0 if it never does."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, high * 2
    while high - low > close * high:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _grid(level: float) -> tuple[Floats, Floats, float]:
    """Places w, weights and a remainder so that weights @ g(w) + remainder is above the integral of g over (0, 1).

    For g that falls from at most 1. Places shrink geometrically, so the sum is at most `_RATIO` times the integral,
    plus a thousandth of `level`.
    """
    edges = _RATIO ** -np.arange(math.ceil(math.log(1e3 / level) / math.log(_RATIO)) + 1.0)
    return edges[1:], edges[:-1] - edges[1:], float(edges[-1])


def _ranks(runs: int) -> NDArray[np.int64]:
    """1, 3, 9, ... up to half of the runs. Of the factors 2, 3, 4, 8, 16 this loses least to sharing and to gaps."""
    return np.asarray(3 ** np.arange(int(math.log(max(runs / 2, 1.0)) / math.log(3) + 1e-9) + 1), dtype=np.int64)


def _coins(size: int, draw: int) -> Floats:
    """Coins that decide ties. They are the same in every audit, and know nothing of the scores."""
    return np.random.default_rng(draw).random(size)


def _canaries(scores: ArrayLike, inside: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    values, coins = _floats(scores, "canary scores"), np.asarray(inside)
    if coins.dtype != np.bool_ or coins.shape != values.shape:
        raise InvalidInput("`inside` must hold one truth value per canary")
    return values, coins


def _floats(values: ArrayLike, what: str) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers") from None
    if found.ndim != 1 or len(found) == 0:
        raise InvalidInput(f"{what} must be a non-empty list of numbers, got shape {found.shape}")
    if np.isnan(found).any():
        raise InvalidInput(f"{what} hold nan at place {int(np.flatnonzero(np.isnan(found))[0])}")
    return found


def _level(delta: float, confidence: float) -> float:
    """The failure probability, once delta and confidence have been checked."""
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta must lie in [0, 1), got {delta!r}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    return 1 - confidence


def _require_guesses(correct: int, guesses: int, canaries: int) -> None:
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise InvalidInput(f"need 0 <= correct <= guesses <= canaries, got {correct!r}, {guesses!r}, {canaries!r}")
