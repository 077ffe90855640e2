"""The nodes whose features lie nearest to a query's."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from torch import Tensor

from graphveil.data.arcs import Ids


@numba.njit(parallel=True, cache=True, nogil=True, fastmath={"reassoc"})
def _distances(rows: Any, ids: Any, point: Any, out: Any) -> None:
    """out[k] = |rows[ids[k]] - point|^2, summed in float64."""
    for place in numba.prange(len(ids)):
        total = 0.0
        for column in range(rows.shape[1]):
            gap = np.float64(rows[ids[place], column]) - np.float64(point[column])
            total += gap * gap
        out[place] = total


def nearest(x: Tensor, sampled: Ids, point: Tensor, count: int) -> Ids:
    """The `count` of the nodes `sampled` whose rows of x [n, d] are nearest to `point` [d], int64 ascending.

    Squared Euclidean distance (paper's V_KNN, section 3.1.1); of nodes equally far the lower ids win, so that binary
    features leave nothing to chance. Needs memory for one distance a sampled node, and no copy of x.
    """
    if len(sampled) <= count:
        return np.sort(sampled)
    ordered = np.sort(sampled)
    out = np.empty(len(ordered))
    _distances(x.numpy(), ordered, point.numpy(), out)
    return np.sort(ordered[np.argsort(out, kind="stable")[:count]])
