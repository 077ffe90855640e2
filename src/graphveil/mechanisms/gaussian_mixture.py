"""A Gaussian whose centre moves by a random, hidden amount: sum_i w_i N(s_i, 1) against N(0, 1).

With the unit the output is a mixture, without it a single Gaussian. log(Q/P)(x) = log sum_i w_i e^{s_i x - s_i^2/2}
is increasing in x, so hockey-stick sets are half-lines; with x the point where it equals e and e_i = s_i x - s_i^2/2,
    H_{e^e}(Q || P)  = sum_i w_i delta_G(e_i; s_i)
    H_{e^e}(P || Q)  = e^e sum_i w_i e^{e_i} delta_G(-e_i; s_i)      at log(Q/P)(x) = -e,
which keeps full relative precision in both tails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from graphveil.core import Curve, Floats, InvalidInput
from graphveil.mechanisms.gaussian import gaussian_delta

_NODES = 1200
"""Points of the trapezoid rule for Renyi integrals; smooth integrands make it exact to many digits."""


@dataclass(frozen=True)
class GaussianMixture(Curve):
    """With probability `weights[i]` the unit moves the sum by `moves[i]` >= 0 noise standard deviations."""

    weights: tuple[float, ...]
    moves: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.moves) or not self.moves:
            raise InvalidInput("a mixture needs one weight for each of its moves")
        if not (min(self.weights) >= 0 and min(self.moves) >= 0):
            raise InvalidInput("weights and moves must be at least 0")
        if not math.isclose(sum(self.weights), 1.0, abs_tol=1e-12):
            raise InvalidInput(f"the weights must sum to 1, got {sum(self.weights)}")

    @property
    def infinite(self) -> bool:
        return max(self.moves) == math.inf

    def gdp(self) -> float | None:
        return self.moves[0] if len(self.moves) == 1 else None

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        weights, moves = self._parts()
        if not (moves > 0).any():
            same = -np.expm1(np.minimum(epsilons, 0.0))
            return same, same
        live, at = _crossing(weights, moves, epsilons)
        remove = _sum(weights, moves, lambda mu: gaussian_delta(mu * at - mu * mu / 2, mu))
        remove = np.where(live, remove, -np.expm1(np.minimum(epsilons, 0.0)))
        return np.clip(remove, 0.0, 1.0), np.clip(_add(weights, moves, epsilons), 0.0, 1.0)

    def rdp(self, orders: Floats) -> Floats:
        """log E_P[(Q/P)^a] and log E_P[(Q/P)^{1-a}] over a-1, by the trapezoid rule."""
        weights, moves = self._parts()
        reach = 12 + float(orders.max() * moves.max())
        x, step = np.linspace(-reach, reach, 2 * _NODES + 1, retstep=True)
        log_ratio = _log_ratio(np.log(weights), moves, x)[0]
        log_mass = -(x**2) / 2 - math.log(math.sqrt(2 * math.pi)) + math.log(float(step))
        up = _log_sum(log_mass + orders[:, None] * log_ratio)
        down = _log_sum(log_mass + (1 - orders[:, None]) * log_ratio)
        return np.asarray(np.maximum(np.maximum(up, down), 0.0) / (orders - 1))

    def _parts(self) -> tuple[Floats, Floats]:
        weights, moves = np.array(self.weights), np.array(self.moves)
        return weights[weights > 0], moves[weights > 0]

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls((0.7, 0.2, 0.1), (0.0, 0.5, 1.0)), cls((0.5, 0.5), (0.25, 2.0))


def _log_sum(terms: Floats) -> Floats:
    """log of the sum of exponentials along the last axis; several times faster than logaddexp.reduce."""
    top = terms.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(terms - top).sum(axis=-1)) + top[..., 0])


def _sum(weights: Floats, moves: Floats, term: object) -> Floats:
    assert callable(term)
    parts = [weight * term(float(mu)) for weight, mu in zip(weights, moves, strict=True) if mu > 0]
    return np.asarray(np.sum(parts, axis=0))


def _add(weights: Floats, moves: Floats, epsilons: Floats) -> Floats:
    """The second equation of the module: e^e w_i e^{e_i} are shares of 1 - e^e (weight that does not move)."""
    live, x = _crossing(weights, moves, -epsilons)
    still, moving = float(weights[moves == 0].sum()), moves[moves > 0]
    inner = moving[:, None] * x - (moving**2 / 2)[:, None]
    shares = np.log(weights[moves > 0])[:, None] + inner
    shares = np.exp(shares - shares.max(axis=0))
    shares /= shares.sum(axis=0)
    parts = [share * gaussian_delta(-one, float(mu)) for share, one, mu in zip(shares, inner, moving, strict=True)]
    moved = 1 - still * np.exp(np.where(live, epsilons, 0.0))
    return np.where(live, moved * np.sum(parts, axis=0), 0.0)


def _log_ratio(log_weights: Floats, moves: Floats, x: Floats) -> tuple[Floats, Floats]:
    """log sum_i w_i e^{s_i x - s_i^2/2} and its slope, each of the shape of x [k]."""
    terms = log_weights[:, None] + moves[:, None] * x - (moves**2 / 2)[:, None]
    top = terms.max(axis=0)
    shares = np.exp(terms - top)
    total = shares.sum(axis=0)
    return top + np.log(total), (shares * moves[:, None]).sum(axis=0) / total


def _crossing(weights: Floats, moves: Floats, targets: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Where the log-ratio reaches each target, and there the point x at which it does.

    Components that do not move are a constant: take it off the target. What is left is convex with a slope of at least
    the smallest move, and at the least x where any ONE component reaches the target it is at least the target, so
    Newton's steps from there descend to the solution quickly and without overshooting.
    """
    still = float(weights[moves == 0].sum())
    with np.errstate(over="ignore", invalid="ignore"):
        rest = -still * np.exp(-targets)
    live = rest > -1 + 1e-14
    wanted = np.where(live, targets + np.log1p(np.where(live, rest, 0.0)), 0.0)
    log_weights, moving = np.log(weights[moves > 0]), moves[moves > 0]
    x = ((wanted - log_weights[:, None]) / moving[:, None] + moving[:, None] / 2).min(axis=0)
    for _ in range(60):
        value, slope = _log_ratio(log_weights, moving, x)
        step = (value - wanted) / slope
        x = x - step
        if np.abs(step).max(initial=0.0) <= 1e-11 * (1 + np.abs(x).max(initial=0.0)):
            break
    return live, x
