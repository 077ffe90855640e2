"""HeterPoisson's Theorem 3 (equation 8): as printed, where it fails, and what holds in its place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from scipy.optimize import linprog


def printed(epsilon: float, delta: float, classes: int) -> float:
    """Equation 8."""
    return (math.exp(epsilon) + delta * (classes - 1)) / (classes - 1 + math.exp(epsilon))


def corrected(epsilon: float, delta: float, share: float) -> float:
    """(p e^eps + (1 - p) delta) / (p e^eps + 1 - p) for a class of share p that is called as often as it occurs."""
    weight = share * math.exp(epsilon)
    return (weight + (1 - share) * delta) / (weight + 1 - share)


def largest_precision(epsilon: float, delta: float, shares: Sequence[float]) -> float:
    """The most that any aligned classifier of private embeddings has for the first class, by linear programming.

    Unknown: Pr[called the first | truth = l] for all l, of which each is at most e^eps times another plus delta.
    """
    count = len(shares)
    limits = [
        [float(k == i) - math.exp(epsilon) * float(k == j) for k in range(count)]
        for i in range(count)
        for j in range(count)
        if i != j
    ]
    # Aligned: called as often as it occurs, so that precision and Pr[called | truth] are the same.
    found = linprog([-1.0] + [0.0] * (count - 1), limits, [delta] * len(limits), [shares], [shares[0]], (0, 1))
    return -float(found.fun)


@pytest.mark.parametrize(("classes", "value"), [(10, 0.451), (3, 0.787)], ids=["computers", "pubmed"])
def test_the_bound_is_the_printed_one(classes: int, value: float) -> None:
    assert printed(2.0, 1e-5, classes) == pytest.approx(value, abs=5e-4)


def test_the_bound_fails_for_a_large_class() -> None:
    assert largest_precision(0.0, 0.0, [0.9, 0.1]) == pytest.approx(0.9)
    assert printed(0.0, 0.0, 2) == 0.5


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("shares", [[0.9, 0.1], [0.2, 0.5, 0.3], [0.05, 0.25, 0.3, 0.4]], ids=str)
def test_the_corrected_bound_is_attained(epsilon: float, shares: list[float]) -> None:
    assert largest_precision(epsilon, 1e-3, shares) == pytest.approx(corrected(epsilon, 1e-3, shares[0]))


@pytest.mark.parametrize("shares", [[0.9, 0.1], [0.2, 0.5, 0.3], [0.05, 0.25, 0.3, 0.4]], ids=str)
def test_equation_8_bounds_the_plain_mean_and_not_the_weighted_one(shares: list[float]) -> None:
    bounds = [corrected(0.5, 0.0, share) for share in shares]
    assert sum(bounds) / len(bounds) <= printed(0.5, 0.0, len(shares))
    assert sum(share * largest_precision(0.0, 0.0, [share, 1 - share]) for share in shares) > printed(
        0.0, 0.0, len(shares)
    )
