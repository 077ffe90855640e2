"""The noisy sum of a batch is divided by the number of records that were in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.auditing.bounds import Scores
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil_lab.court.case import Case, as_charged

_RECORDS, _DIMENSIONS, _NOISE = 10, 2000, 1.0


@dataclass(frozen=True, eq=False)
class PrivateBatchSize(Case):
    """The number of records is private, and dividing by it scales the noise, whose size anybody can measure.

    (sum + noise N(0, I)) / n has noise of standard deviation noise / n on every entry. With 2,000 entries it is
    measured to 1.6 %, and 10 records against 9 change it by 11 %, even if the tenth adds nothing at all to the sum.
    Sums are divided by a public number instead: the expected batch size.
    """

    name: str = "private-batch-size"
    claim: str = "dividing a noisy sum by the number of records is post-processing: mu = 1/noise; noise 1"
    source: str = "common DP-SGD practice"
    delta: float = 0.05
    runs: int = 1000
    quick: int = 150

    def claimed(self) -> float:
        return as_charged(GaussianCurve(1 / _NOISE), 1, self.delta)

    def play(self, runs: int, seed: int) -> Scores:
        rng = np.random.default_rng(seed)
        worlds = []
        for records in (_RECORDS, _RECORDS - 1):
            released = _NOISE * rng.standard_normal((runs, _DIMENSIONS)) / records
            # Nobody says anything; more records, less noise.
            worlds.append(-np.sqrt((released**2).mean(axis=1)))
        return Scores(*worlds)
