"""A Gaussian whose centre moves by a random, hidden amount, as an oracle: sum_i w_i N(s_i, 1) against N(0, 1).

With the unit the output is a mixture, without it a single Gaussian. log(Q/P)(x) = log sum_i w_i e^{s_i x - s_i^2/2}
is increasing in x, so hockey-stick sets are half-lines; with x the point where it equals e and e_i = s_i x - s_i^2/2,
    H_{e^e}(Q || P)  = sum_i w_i delta_G(e_i; s_i)
    H_{e^e}(P || Q)  = e^e sum_i w_i e^{e_i} delta_G(-e_i; s_i)      at log(Q/P)(x) = -e,
which keeps full relative precision in both tails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from graphveil.mechanisms.gaussian import gaussian_delta
from graphveil.vocabulary import Curve, Floats


@dataclass(frozen=True)
class GaussianMixture(Curve):
    """With probability `weights[i]` the unit moves the sum by `moves[i]` >= 0 noise standard deviations, not all 0."""

    weights: tuple[float, ...]
    moves: tuple[float, ...]

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        weights, moves = np.array(self.weights), np.array(self.moves)
        weights, moves = weights[weights > 0], moves[weights > 0]
        live, x = _crossing(weights, moves, epsilons)
        parts = [
            weight * gaussian_delta(move * x - move**2 / 2, move)
            for weight, move in zip(weights.tolist(), moves.tolist(), strict=True)
            if move > 0
        ]
        remove = np.where(live, np.sum(parts, axis=0), -np.expm1(np.minimum(epsilons, 0.0)))
        return np.clip(remove, 0.0, 1.0), np.clip(_add(weights, moves, epsilons), 0.0, 1.0)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls((0.7, 0.2, 0.1), (0.0, 0.5, 1.0)),)


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
