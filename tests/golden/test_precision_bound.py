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


def for_most(epsilon: float, delta: float, share: float) -> float:
    """1 - (1 - p) (1 - delta) / (p + (1 - p) e^eps): the same of nodes that are not called. Less if p is above 1/2."""
    return 1 - (1 - share) * (1 - delta) / (share + (1 - share) * math.exp(epsilon))


def largest_precision(epsilon: float, delta: float, shares: Sequence[float]) -> float:
    """The most that any aligned classifier of private embeddings has for the first class, by linear programming.

    Unknown: a_l = Pr[called the first | truth = l] for all l. Privacy: a_i <= e^eps a_j + delta, and so with 1 - a.
    """
    count, factor = len(shares), math.exp(epsilon)
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    called = [[float(k == i) - factor * float(k == j) for k in range(count)] for i, j in pairs]
    limits = called + [[-value for value in row] for row in called]
    most = [delta] * len(pairs) + [factor - 1 + delta] * len(pairs)
    # Aligned: called as often as it occurs, so that precision and Pr[called | truth] are the same.
    found = linprog([-1.0] + [0.0] * (count - 1), limits, most, [shares], [shares[0]], (0, 1))
    return -float(found.fun)


@pytest.mark.parametrize(("classes", "value"), [(10, 0.451), (3, 0.787)], ids=["computers", "pubmed"])
def test_the_bound_is_the_printed_one(classes: int, value: float) -> None:
    assert printed(2.0, 1e-5, classes) == pytest.approx(value, abs=5e-4)


def test_the_bound_fails_for_a_large_class() -> None:
    assert largest_precision(0.0, 0.0, [0.9, 0.1]) == pytest.approx(0.9)
    assert printed(0.0, 0.0, 2) == 0.5


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("shares", [[0.2, 0.5, 0.3], [0.05, 0.25, 0.3, 0.4], [0.45, 0.55]], ids=str)
def test_the_corrected_bound_is_attained(epsilon: float, shares: list[float]) -> None:
    assert largest_precision(epsilon, 1e-3, shares) == pytest.approx(corrected(epsilon, 1e-3, shares[0]))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("shares", [[0.9, 0.1], [0.6, 0.3, 0.1]], ids=str)
def test_for_a_class_of_most_nodes_the_corrected_bound_holds_and_another_is_attained(
    epsilon: float, shares: list[float]
) -> None:
    found = largest_precision(epsilon, 1e-3, shares)
    assert found == pytest.approx(for_most(epsilon, 1e-3, shares[0]))
    assert found < corrected(epsilon, 1e-3, shares[0])


@pytest.mark.parametrize("shares", [[0.9, 0.1], [0.2, 0.5, 0.3], [0.05, 0.25, 0.3, 0.4]], ids=str)
def test_equation_8_bounds_the_plain_mean_and_not_the_weighted_one(shares: list[float]) -> None:
    bounds = [corrected(0.5, 0.0, share) for share in shares]
    assert sum(bounds) / len(bounds) <= printed(0.5, 0.0, len(shares))
    assert sum(share * largest_precision(0.0, 0.0, [share, 1 - share]) for share in shares) > printed(
        0.0, 0.0, len(shares)
    )
