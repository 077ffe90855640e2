"""The exact law of an argmax under Laplace noise, by quadrature between the kinks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.stats import laplace

from graphveil.vocabulary import Floats


def laplace_argmax(values: Floats) -> Floats:
    """Pr[values_j + L_j is the largest] for standard Laplace L, [c]: int f(x - v_j) prod_{k != j} F(x - v_k) dx."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    total = np.zeros(len(values))
    kinks = sorted(set(values.tolist()))
    for low, high in pairwise([kinks[0] - 40, kinks[0] - 6, *kinks, kinks[-1] + 6, kinks[-1] + 45]):
        x = (high + low) / 2 + (high - low) / 2 * nodes
        at = x[None, :] - values[:, None]
        below, density = laplace.cdf(at), laplace.pdf(at)
        total += (weights * density * np.prod(below, axis=0) / below).sum(axis=1) * (high - low) / 2
    return total
