"""PrivGNN's noisy argmax of four classes costs more than lambda (Olatunji et al. 2023, Theorem 7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from graphveil.auditing.bounds import Scores
from graphveil.mechanisms.noisy_max import LaplaceMax
from graphveil.privacy.noise import Seeded
from graphveil_lab.court.case import Case

_CLASSES, _LAMBDA = 4, 1.0


@dataclass(frozen=True, eq=False)
class PrivGnnArgmax(Case):
    """Naming only the class of the largest noisy entry helps, but not enough for the printed claim.

    The law of argmax(e_j + Laplace(1/lambda)) is (epsilon_0, 0)-DP with epsilon_0 = ln Pr[j | e_j] / Pr[j | e_i], which
    is 1.104 for four classes and lambda = 1: above the claimed 1, though below the 2 of the vector.
    """

    name: str = "privgnn-argmax"
    claim: str = "the argmax of a posterior with Laplace noise of scale 1/lambda is (lambda, 0)-DP; lambda = 1"
    source: str = "PrivGNN (TMLR 2023), proof of Theorem 7, appendix B.2"
    delta: float = 0.0
    runs: int = 200_000
    quick: int = 60_000
    threshold: float | None = 0.5

    def claimed(self) -> float:
        return _LAMBDA

    def play(self, runs: int, seed: int) -> Scores:
        act, source = LaplaceMax(1 / _LAMBDA, _CLASSES), Seeded(seed)
        worlds = []
        for vertex in torch.eye(_CLASSES)[:2]:
            named = act.answer(vertex.expand(runs, -1), source.laplace(runs * _CLASSES).reshape(runs, _CLASSES))
            # Whether it is the class that the unit would bring.
            worlds.append((named == 0).double().numpy())
        return Scores(*worlds)
