"""Which class most of several voters name, told with noise: LNMax (Papernot et al. 2017) and GNMax (2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from scipy.special import log_ndtr
from torch import Tensor

from graphveil.checks import require_cost
from graphveil.errors import InvalidInput
from graphveil.mechanisms.categorical import Answering, argmax_log_chances
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.noisy_max import laplace_log_below, laplace_log_density
from graphveil.mechanisms.shared_curves import EpsilonCurve
from graphveil.vocabulary import Curve, Floats, Source

_SMALLEST_SCALE = 1 / 16
"""Below this scale nothing finite is claimed: the tails of a double would be too coarse for a lost election."""

MAX_VOTERS = 1 << 16
_FLOOR = 2.0**-30
"""What double precision adds at most to mu where mu itself is tiny, charged."""

_ROUNDING = 2.0**-20
"""What double precision adds at most to epsilon (Laplace), or to mu as a share of it (Gaussian), charged."""


@dataclass(frozen=True)
class TwoLaplaceCurve(EpsilonCurve):
    """Two numbers with Laplace noise, each moved by `epsilon` noise scales: what a vote that changes sides costs.

    With w = epsilon - e/2: H_{e^e} = 1 - e^-w (1 + w/2) for 0 <= e <= 2 epsilon, and 0 beyond. Pure 2 epsilon, and less
    than randomised response with it.
    """

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        w = np.maximum(self.epsilon - np.abs(epsilons) / 2, 0.0)
        # expm1 keeps the digits where both terms are near 1.
        above = -np.expm1(-w) - np.exp(-w) * w / 2
        below = np.exp(np.minimum(epsilons, 0.0))
        both = np.where(epsilons >= 0, above, 1 - below + below * above)
        return both, both

    def atom(self) -> float | None:
        return 2 * self.epsilon or None

    def rdp(self, orders: Floats) -> Floats:
        return 2 * LaplaceCurve(self.epsilon).rdp(orders)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.1), cls(1.0)


@dataclass(frozen=True)
class PureMoments(EpsilonCurve):
    """Renyi divergences of any `epsilon`-DP mechanism: min(epsilon, order epsilon^2 / 2) (Bun & Steinke 2016, 3.3).

    With epsilon = 2 lambda that is the data-independent bound of LNMax that its authors use (Theorem 2).
    """

    def rdp(self, orders: Floats) -> Floats:
        return np.minimum(self.epsilon, orders * self.epsilon**2 / 2)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(0.1), cls(1.0)


@dataclass(frozen=True)
class NoisyVotes(Answering):
    """Query: `query(sealed) -> int64 [uses, voters]`, the class that each voter names. Releases int64 [uses].

    argmax_j (number of voters for j + scale N_j), N_j standard Laplace or, if `gaussian`, standard normal. A voter who
    changes sides moves two counts by one: 2 in L1, sqrt(2) in L2. What is not a class counts as class 0.
    """

    scale: float
    classes: int
    gaussian: bool = False

    def __post_init__(self) -> None:
        require_cost(self.scale, "scale")
        if self.classes < 2:
            raise InvalidInput(f"an election needs at least 2 classes, got {self.classes}")

    def draw(self, source: Source) -> Floats:
        return source.normal(self.classes) if self.gaussian else source.laplace(self.classes)

    def answer(self, rows: Tensor, draws: Floats) -> Tensor:
        return (self._counts(rows) + self.scale * torch.from_numpy(draws)).argmax(dim=1)

    def _counts(self, rows: Tensor) -> Tensor:
        """Votes for every class, float64 [uses, classes]."""
        if rows.dim() != 2 or not 1 <= rows.shape[1] <= MAX_VOTERS:
            raise InvalidInput(f"votes must be [uses, voters] with 1 to {MAX_VOTERS:,} voters, got {list(rows.shape)}")
        known = torch.where((rows >= 0) & (rows < self.classes), rows, 0).long()
        counts = torch.zeros(len(rows), self.classes, dtype=torch.float64)
        return counts.scatter_add_(1, known, torch.ones_like(known, dtype=torch.float64))

    def log_chances(self, rows: Tensor, answers: Tensor) -> Floats:
        scores = self._counts(rows).numpy() / max(self.scale, 1e-12)
        laws = (_normal_log_density, log_ndtr) if self.gaussian else (laplace_log_density, laplace_log_below)
        return argmax_log_chances(scores, answers.numpy(), *laws)

    def curve(self, sensitivity: float) -> Curve:
        """`sensitivity`: how many voters a neighbour turns; one."""
        if sensitivity != 1:
            raise InvalidInput(f"a neighbour turns one voter, got {sensitivity}")
        if self.scale < _SMALLEST_SCALE:
            return PureCurve(math.inf)
        if self.gaussian:
            return GaussianCurve(math.sqrt(2) / self.scale * (1 + _ROUNDING) + _FLOOR)
        return TwoLaplaceCurve(1 / self.scale + _ROUNDING)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0, 3), cls(2.0, 2, gaussian=True)


def _normal_log_density(x: Floats) -> Floats:
    return np.asarray(-(x**2) / 2 - math.log(2 * math.pi) / 2)
