"""Louvain's communities (Blondel et al. 2008) of a small dense graph: for released weights, so it costs no privacy."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from graphveil.data.arcs import Ids
from graphveil.vocabulary import Floats

_SWEEPS = 100
"""Rounds in which single nodes move, at most, on one level."""


def louvain(weights: Floats) -> Ids:
    """The community of every node, int64 [s], numbered 0, 1, ...; weights: symmetric [s, s], none below 0.

    w_ii counts every edge inside i twice. Nodes move in order, so the result is a function of the weights.
    """
    found = np.arange(len(weights))
    while True:
        moved = np.unique(_one_level(weights, _SWEEPS), return_inverse=True)[1]
        if len(moved) == (count := int(moved.max(initial=-1)) + 1):
            return found
        found = moved[found]
        member = np.zeros((len(moved), count))
        member[np.arange(len(moved)), moved] = 1.0
        weights = member.T @ weights @ member


@numba.njit(cache=True, nogil=True)
def _one_level(weights: Any, sweeps: int) -> Any:
    """Every node joins, again and again, the community that raises modularity most, int64 [s]."""
    size = len(weights)
    home, degree, total = np.arange(size), weights.sum(axis=1), weights.sum()
    inside = degree.copy()
    for _ in range(sweeps):
        still = True
        for node in range(size):
            links = np.zeros(size)
            for other in range(size):
                if other != node:
                    links[home[other]] += weights[node, other]
            old = home[node]
            inside[old] -= degree[node]
            best, gain = old, links[old] - degree[node] * inside[old] / max(total, 1e-300)
            for community in range(size):
                here = links[community] - degree[node] * inside[community] / max(total, 1e-300)
                # Rounding must not make two nodes chase each other.
                if links[community] > 0 and here > gain + 1e-9 * total:
                    best, gain = community, here
            inside[best] += degree[node]
            home[node] = best
            still = still and best == old
        if still:
            break
    return home
