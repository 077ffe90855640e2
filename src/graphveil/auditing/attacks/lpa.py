"""Link stealing from posteriors (He, Jia, Backes, Gong & Zhang: Stealing Links, USENIX Security 2021), attack 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from torch import Tensor

from graphveil.auditing.attacks.parts.pairs import EdgeInference
from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Target
from graphveil.checks import parse
from graphveil.data.arcs import Ids
from graphveil.release.release import Release
from graphveil.vocabulary import Floats

_BLOCK = 1 << 22
"""Entries of rows that are compared at a time."""


class Distance(StrEnum):
    """The distances of the paper's Table 13."""

    COSINE = "cosine"
    EUCLIDEAN = "euclidean"
    CORRELATION = "correlation"
    CHEBYSHEV = "chebyshev"
    BRAYCURTIS = "braycurtis"
    CANBERRA = "canberra"
    CITYBLOCK = "cityblock"
    SQEUCLIDEAN = "sqeuclidean"


@dataclass(frozen=True)
class Lpa(EdgeInference):
    """score(u, v) = -distance(p_u, p_v) for the posteriors p [n, c] that the release gives away (section 4.2).

    Unsupervised: the attacker has no edge to learn from, so the distance is fixed beforehand.
    """

    distance: str = "correlation"

    def __post_init__(self) -> None:
        super().__post_init__()
        parse(Distance, self.distance, "distance")

    def scores(self, target: Target, seed: int) -> Scores:
        return self.judged(target, target.release(), seed)

    def judged(self, target: Target, release: Release, seed: int) -> Scores:
        """`scores` of a model that is there already."""
        pairs = self.pairs(target.graph, seed)
        return pairs.scores(-distances(release.predict_proba(), pairs.nodes, self.distance))


def distances(rows: Tensor, pairs: Ids, distance: str) -> Floats:
    """The distance between the two rows [n, d] of every pair, float64 [k]; pairs: int64 [k, 2].

    Where it is not defined (a row of zeros has no direction) it says nothing: 1 for the angles, 0 for the others.
    """
    measure = _MEASURES[parse(Distance, distance, "distance")]
    step = max(_BLOCK // rows.shape[1], 1)
    values = rows.numpy()
    blocks = [pairs[first : first + step] for first in range(0, len(pairs), step)]
    return np.concatenate([measure(*values[block.T].astype(np.float64)) for block in blocks])


def _cosine(a: Floats, b: Floats) -> Floats:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return 1 - _ratio((a * b).sum(axis=1), lengths)


def _correlation(a: Floats, b: Floats) -> Floats:
    return _cosine(a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True))


def _ratio(over: Floats, under: Floats) -> Floats:
    """0 where both are."""
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0)


_MEASURES: dict[Distance, Callable[[Floats, Floats], Floats]] = {
    Distance.COSINE: _cosine,
    Distance.EUCLIDEAN: lambda a, b: np.linalg.norm(a - b, axis=1),
    Distance.CORRELATION: _correlation,
    Distance.CHEBYSHEV: lambda a, b: np.abs(a - b).max(axis=1),
    Distance.BRAYCURTIS: lambda a, b: _ratio(np.abs(a - b).sum(axis=1), np.abs(a + b).sum(axis=1)),
    Distance.CANBERRA: lambda a, b: _ratio(np.abs(a - b), np.abs(a) + np.abs(b)).sum(axis=1),
    Distance.CITYBLOCK: lambda a, b: np.abs(a - b).sum(axis=1),
    Distance.SQEUCLIDEAN: lambda a, b: ((a - b) ** 2).sum(axis=1),
}
