"""PrivGNN takes 1 for the sensitivity of a posterior (Olatunji et al. 2023, Theorem 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.auditing.bounds import Scores
from graphveil_lab.court.case import Case

_CLASSES, _LAMBDA = 4, 1.0


@dataclass(frozen=True, eq=False)
class PrivGnnPosterior(Case):
    """A posterior that moves from one class to another loses 1 here and gains 1 there: its L1 sensitivity is 2.

    So Laplace noise of scale 1/lambda on every entry is (2 lambda, 0)-DP and no better; Theorem 7 says (lambda, 0)-DP.
    The log ratio of the vector is 2 lambda wherever the first entry exceeds 1 and the second lies below 0.
    """

    name: str = "privgnn-posterior"
    claim: str = "a posterior with Laplace noise of scale 1/lambda on every entry is (lambda, 0)-DP; lambda = 1"
    source: str = "PrivGNN (TMLR 2023), proof of Theorem 7, appendix B.2"
    delta: float = 0.0
    runs: int = 10_000
    quick: int = 2000

    def claimed(self) -> float:
        return _LAMBDA

    def play(self, runs: int, seed: int) -> Scores:
        noise = np.random.default_rng(seed).laplace(scale=1 / _LAMBDA, size=(2, runs, _CLASSES))
        here, there = np.eye(_CLASSES)[0], np.eye(_CLASSES)[1]
        worlds = (noise[0] + here, noise[1] + there)
        log_ratios = [_LAMBDA * (np.abs(x - there) - np.abs(x - here)).sum(axis=1) for x in worlds]
        return Scores(log_ratios[0], log_ratios[1])
