"""A sample of rate q is charged q times epsilon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.auditing.bounds import Scores
from graphveil_lab.court.case import Case

_RATE, _EPSILON = 0.1, 4.0


@dataclass(frozen=True, eq=False)
class RateTimesEpsilon(Case):
    """Amplification by sampling is ln(1 + q (e^epsilon - 1)), which is about q epsilon for small epsilons only.

    A record joins by a coin of probability q = 0.1, and a count leaves with Laplace noise for epsilon = 4. Counts above
    1 are e^4 times likelier for one who joined, so (1 - q + q e^4) times likelier for one who may have: ln of it is
    1.850, and 0.4 is claimed. The other direction, -ln(1 - q (1 - e^-epsilon)) = 0.103, stays below the claim: an audit
    must look at both.
    """

    name: str = "rate-times-epsilon"
    claim: str = "behind Poisson sampling of rate q an epsilon-DP release is (q epsilon, 0)-DP; q = 0.1, epsilon = 4"
    source: str = "folklore; the first-order term of Li et al. (2012) taken for the whole"
    delta: float = 0.0
    runs: int = 20_000
    quick: int = 4000

    def claimed(self) -> float:
        return _RATE * _EPSILON

    def play(self, runs: int, seed: int) -> Scores:
        rng = np.random.default_rng(seed)
        noise = rng.laplace(scale=1 / _EPSILON, size=(2, runs))
        return Scores(noise[0] + (rng.random(runs) < _RATE), noise[1])
