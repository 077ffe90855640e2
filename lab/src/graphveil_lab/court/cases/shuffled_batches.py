"""Batches are cut from a shuffled list and charged as if every record joined each batch by a coin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.auditing.bounds import Scores
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil_lab.court.case import Case, as_charged

_BATCHES, _NOISE = 100, 0.4


@dataclass(frozen=True, eq=False)
class ShuffledBatches(Case):
    """In a shuffled epoch a record is in exactly one batch, so that it cannot hide in having been in none.

    All others say -1, one record says 1 or, as its neighbour, nothing. One batch sum of 100 is then larger by 2, or by
    1, than the rest, whichever batch it is: the largest noisy sum tells them apart nearly as well as one Gaussian
    release without any sampling would, mu = 1/noise = 2.5. Poisson sampling of rate 1/100 at the same noise, 100 times,
    costs far less: there the record may have joined no batch at all (Chua et al. 2024).
    """

    name: str = "shuffled-batches"
    claim: str = "an epoch of 100 shuffled batches costs what 100 Poisson batches of rate 1/100 cost; noise 0.4 clips"
    source: str = "common DP-SGD practice; Chua et al., How Private are DP-SGD Implementations? (ICML 2024)"
    delta: float = 0.05
    runs: int = 20_000
    quick: int = 4000

    def claimed(self) -> float:
        return as_charged(PoissonCurve(GaussianCurve(1 / _NOISE), 1 / _BATCHES), _BATCHES, self.delta)

    def play(self, runs: int, seed: int) -> Scores:
        rng = np.random.default_rng(seed)
        worlds = []
        for brought in (2.0, 1.0):
            # Batch sums less what all others say; which batch it is changes nothing for the largest.
            sums = _NOISE * rng.standard_normal((runs, _BATCHES))
            sums[:, 0] += brought
            worlds.append(sums.max(axis=1))
        return Scores(*worlds)
