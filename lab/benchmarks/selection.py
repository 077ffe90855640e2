"""What a search costs (docs/methods/best.md), as a table.

    python lab/benchmarks/selection.py --json lab/results/search-noise.json

The noise of every training, as a multiple of what one training alone would need, so that the best of k candidates is
(epsilon, delta)-DP. Candidates are Gaussian releases of the same mu; the noise of a training is 1 / mu.

Here all k are run and composed exactly: sqrt(k). The others draw a random number of candidates with replacement and
show the best (Papernot & Steinke 2022). Their number is so large that a given candidate is tried with a chance of 95 %.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from graphveil.mechanisms.gaussian import gaussian_delta
from graphveil.vocabulary import Floats
from graphveil_lab import kept_files

DELTA = 1e-5
MISSED = 0.05
"""The chance that a given candidate is never tried."""
ORDERS = np.concatenate([np.arange(1.05, 10, 0.05), np.arange(10, 200, 1.0), np.arange(200, 2000, 10.0)])


def exact(mu: float, epsilon: float) -> float:
    """Delta of one Gaussian release."""
    return float(gaussian_delta(np.array([epsilon]), mu)[0])


def converted(renyi: Floats) -> float:
    """Epsilon of Renyi divergences at `ORDERS` (Canonne, Kamath & Steinke 2020, proposition 12)."""
    return float(np.min(renyi + np.log1p(-1 / ORDERS) - np.log(DELTA * ORDERS) / (ORDERS - 1)))


def one(mu: float) -> float:
    """Epsilon of one training by the same conversion: what the two bounds below lose to it."""
    return converted(ORDERS * mu**2 / 2)


def poisson(mu: float, mean: float) -> float:
    """Theorem 6: e' = e(a) + mean * delta(e^) + ln(mean) / (a - 1), where exp(e^) = 1 + 1 / (a - 1), for order a."""
    deltas = gaussian_delta(np.log1p(1 / (ORDERS - 1)), mu)
    return converted(ORDERS * mu**2 / 2 + mean * deltas + math.log(mean) / (ORDERS - 1))


def geometric(mu: float, mean: float) -> float:
    """Theorem 2 with eta = 1, so gamma = 1 / mean; b is any order:

    e' = e(a) + (1 + eta) (1 - 1/b) e(b) + (1 + eta) ln(1/gamma) / b + ln(mean) / (a - 1).
    """
    extra = 2 * np.min((ORDERS - 1) * mu**2 / 2 + math.log(mean) / ORDERS)
    return converted(ORDERS * mu**2 / 2 + extra + math.log(mean) / (ORDERS - 1))


def poisson_mean(candidates: int) -> float:
    """A given candidate is drawn Poisson(mean / k) times."""
    return candidates * math.log(1 / MISSED)


def geometric_mean(candidates: int) -> float:
    """1/gamma, if E s^K = gamma s / (1 - (1 - gamma) s) is `MISSED`; s = 1 - 1/k is the chance to miss in one draw."""
    missed_once = 1 - 1 / candidates
    return missed_once * (1 - MISSED) / (MISSED * (1 - missed_once))


def times(spent: Callable[[float], float], epsilon: float) -> float:
    """How much more noise than one training alone."""
    alone = brentq(lambda mu: exact(mu, epsilon) - DELTA, 1e-3, 50)
    return float(alone / brentq(lambda mu: spent(mu) - epsilon, 1e-3, 1.2 * alone))


def rows() -> list[dict[str, float]]:
    """One for every epsilon and number of candidates."""
    found = []
    for epsilon, count in product((1.0, 2.0, 4.0, 8.0), (2, 4, 8)):
        many, more = poisson_mean(count), geometric_mean(count)
        drawn = {
            "Poisson number": times(partial(poisson, mean=many), epsilon),
            "Poisson mean": many,
            "geometric number": times(partial(geometric, mean=more), epsilon),
            "geometric mean": more,
        }
        alone = times(one, epsilon)
        found.append({"epsilon": epsilon, "candidates": count, "all": math.sqrt(count), **drawn, "Renyi alone": alone})
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also keep it")
    asked = parser.parse_args()
    found = rows()
    print("| epsilon | k | all k, charged (here) | Poisson number | geometric number | one, by Renyi bounds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in found:
        drawn = [f"{row[f'{law} number']:.2f} (mean {row[f'{law} mean']:.0f})" for law in ("Poisson", "geometric")]
        cells = [
            f"{row['epsilon']:g}",
            f"{row['candidates']}",
            f"{row['all']:.2f}",
            *drawn,
            f"{row['Renyi alone']:.2f}",
        ]
        print(f"| {' | '.join(cells)} |")
    if asked.json:
        kept_files.write(asked.json, found)


if __name__ == "__main__":
    main()
