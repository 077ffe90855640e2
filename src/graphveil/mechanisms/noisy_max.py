"""Which of c classes a point of the simplex favours, told with noise (docs/methods/privgnn.md has the proofs).

For any two points p, q of the simplex and any set S of classes, Pr[S | p] is largest at a vertex inside S and Pr[S | q]
least at a vertex outside. So both mechanisms here are dominated, at every order, by randomised response over c classes
whose truth is e^epsilon times as likely as any single lie; two vertices attain it. epsilon is stated with each of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import torch
from torch import Tensor

from graphveil.checks import require_cost
from graphveil.errors import InvalidInput
from graphveil.mechanisms.categorical import Answering, argmax_log_chances
from graphveil.mechanisms.dominating_pair import PureCurve, response
from graphveil.vocabulary import Curve, Floats, Source

_LARGEST = 32.0
"""Beyond this epsilon doubles draw what is needed too coarsely: nothing finite is claimed."""

_MAX_CLASSES = 1024
"""So that rounding stays below `_ROUNDING`."""

_ROUNDING = 2.0**-20
"""What double precision adds to epsilon at most, charged."""

_QUADRATURE = 1e-9
"""Share by which the quadrature of `laplace_epsilon` is rounded up; it is exact to 1e-12."""


@dataclass(frozen=True)
class _Max(Answering):
    """Query: `query(sealed) -> Tensor [uses, classes]`, rows that are put onto the simplex. Releases int64 [uses]."""

    scale: float
    classes: int

    def __post_init__(self) -> None:
        require_cost(self.scale, "scale")
        if not 2 <= self.classes <= _MAX_CLASSES:
            raise InvalidInput(f"a noisy argmax needs 2 to {_MAX_CLASSES:,} classes, got {self.classes}")

    @abstractmethod
    def epsilon(self) -> float:
        """The largest |ln Pr[j | p] / Pr[j | q]| of exact arithmetic."""

    @abstractmethod
    def favoured(self, simplex: Floats, draws: Floats) -> Tensor:
        """The noisy argmax of points of the simplex [uses, classes], int64 [uses]."""

    def answer(self, rows: Tensor, draws: Floats) -> Tensor:
        if rows.dim() != 2 or rows.shape[1] != self.classes:
            raise InvalidInput(f"rows must be [uses, {self.classes}], got {list(rows.shape)}")
        return self.favoured(onto_simplex(rows).numpy(), draws)

    def curve(self, sensitivity: float) -> Curve:
        """`sensitivity`: how many rows of a use a neighbour changes; there is one."""
        if sensitivity != 1:
            raise InvalidInput(f"a use has one row, got {sensitivity}")
        if self.scale * _LARGEST < 1:
            return PureCurve(math.inf)
        return response(self.epsilon() + _ROUNDING, self.classes)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0, 2), cls(0.5, 3)


def onto_simplex(rows: Tensor) -> Tensor:
    """Rows [m, c] with what is negative or not a number set to 0, divided by their sums; float64. An empty one: 1/c."""
    scores = rows.detach().cpu().double().nan_to_num(0.0, 0.0, 0.0).clamp(0.0, 1e200)
    mass = scores.sum(dim=1, keepdim=True)
    return torch.where(mass > 0, scores / mass, torch.full_like(scores, 1 / scores.shape[1]))


@dataclass(frozen=True)
class NoisyMax(_Max):
    """The exponential mechanism (McSherry & Talwar 2007): Pr[j | p] is proportional to e^{p_j / scale}.

    That is the law of argmax (p + scale Gumbel). epsilon = 1/scale exactly: the log-ratio is (p_j - q_j)/scale +
    ln Z_q/Z_p, largest at two vertices, where Z_q = Z_p. Drawn by inversion from one uniform, least likely class first:
    its digits then suffice for every class.
    """

    def epsilon(self) -> float:
        return 1 / self.scale if self.scale else math.inf

    def log_chances(self, rows: Tensor, answers: Tensor) -> Floats:
        simplex, chosen = onto_simplex(rows).numpy(), answers.numpy()[:, None]
        if self.scale == 0:
            return np.where(simplex.argmax(axis=1) == chosen[:, 0], 0.0, -math.inf)
        exponents = simplex / self.scale
        mine = np.take_along_axis(exponents, chosen, axis=1)[:, 0]
        return np.asarray(mine - np.logaddexp.reduce(exponents, axis=1))

    def draw(self, source: Source) -> Floats:
        return source.uniform(1)

    def favoured(self, simplex: Floats, draws: Floats) -> Tensor:
        if self.scale == 0:
            return torch.from_numpy(simplex.argmax(axis=1))
        gaps = (simplex - simplex.max(axis=1, keepdims=True)) / self.scale
        order = np.argsort(gaps, axis=1, kind="stable")
        sums = np.exp(np.take_along_axis(gaps, order, axis=1)).cumsum(axis=1)
        place = (sums < draws * sums[:, -1:]).sum(axis=1, keepdims=True)
        return torch.from_numpy(np.take_along_axis(order, place, axis=1)[:, 0])


@dataclass(frozen=True)
class LaplaceMax(_Max):
    """argmax (p + scale Laplace), as PrivGNN's Algorithm 1 has it; epsilon = `laplace_epsilon(classes, 1/scale)`."""

    def epsilon(self) -> float:
        return laplace_epsilon(self.classes, 1 / self.scale) if self.scale else math.inf

    def log_chances(self, rows: Tensor, answers: Tensor) -> Floats:
        scores = onto_simplex(rows).numpy() / max(self.scale, 1e-12)
        return argmax_log_chances(scores, answers.numpy(), laplace_log_density, laplace_log_below)

    def draw(self, source: Source) -> Floats:
        return source.laplace(self.classes)

    def favoured(self, simplex: Floats, draws: Floats) -> Tensor:
        return torch.from_numpy((simplex + self.scale * draws).argmax(axis=1))


def laplace_log_density(x: Floats) -> Floats:
    """ln f of the standard Laplace law."""
    return np.asarray(-np.abs(x) - math.log(2))


def laplace_log_below(x: Floats) -> Floats:
    """ln F of the standard Laplace law, stable in both tails."""
    return np.asarray(np.where(x < 0, np.minimum(x, 0) - math.log(2), np.log1p(-np.exp(-np.abs(x)) / 2)))


@lru_cache(maxsize=4096)
def laplace_epsilon(classes: int, gap: float) -> float:
    """ln Pr[j | e_j] / Pr[j | e_i] of the argmax of e_j + Laplace(1/gap), rounded up; privacy.

    With F and f the standard Laplace distribution and density, the two are
        int f(x - gap) F(x)^(c-1) dx     and     int f(x) F(x)^(c-2) F(x - gap) dx.
    """
    # Smooth between 0 and gap, and after it: pieces of length at most one, with many nodes each.
    cuts = np.concatenate([np.linspace(0, gap, math.ceil(gap) + 1), gap + np.arange(1, 51)])
    nodes, weights = np.polynomial.legendre.leggauss(48)
    half = np.diff(cuts)[:, None] / 2
    x = (cuts[:-1, None] + half + half * nodes).ravel()
    weight = (half * weights).ravel()
    below = np.log1p(-np.exp(-x) / 2)
    # Below 0 everything is a power of e^x.
    lower = math.exp(-gap - classes * math.log(2)) / classes
    truth = lower + float((weight * np.exp(-np.abs(x - gap) + (classes - 1) * below)).sum()) / 2
    shifted = np.where(x < gap, np.exp(np.minimum(x - gap, 0)) / 2, 1 - np.exp(np.minimum(gap - x, 0)) / 2)
    lie = lower + float((weight * np.exp(-x + (classes - 2) * below) * shifted).sum()) / 2
    return math.log(truth / lie) * (1 + _QUADRATURE)
