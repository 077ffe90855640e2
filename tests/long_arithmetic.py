"""Hockey-stick curves to sixty digits, written from their definitions, for tests of what doubles make of them."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import mpmath as mp

from graphveil.mechanisms.dominating_pair import DominatingPair, PureCurve
from graphveil.mechanisms.fixed_size import FixedSizeCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.noisy_votes import TwoLaplaceCurve
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.sml import SmlCurve
from graphveil.vocabulary import Curve

DIGITS = 60
Long = Any
"""mpmath's number."""


def gaussian(epsilon: Long, mu: Long) -> Long:
    """Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), to sixty digits after the terms have cancelled."""
    with mp.workdps(DIGITS):
        e, mu = mp.mpf(epsilon), mp.mpf(mu)
        if mu == 0:
            return max(mp.mpf(0), -mp.expm1(e))
        near = e / mu - mu / 2
        if near > 100:  # below e^-5000, whatever mu
            return mp.mpf(0)
        if mu > 10**20:  # the second term is below e^(-near^2/2) / mu
            return mp.mpf(1) if near < -100 else _tail(near)
        with mp.workdps(2 * DIGITS + 2 * abs(int(mp.log10(mu)))):
            return _tail(e / mu - mu / 2) - mp.exp(e) * _tail(e / mu + mu / 2)


def _tail(x: Long) -> Long:
    return mp.erfc(x / mp.sqrt(2)) / 2


@singledispatch
def both(curve: Curve, e: Long) -> tuple[Long, Long]:
    """(remove, add) at epsilon `e`, of the curves that are written here."""
    raise NotImplementedError(type(curve).__name__)


@both.register
def _(curve: GaussianCurve, e: Long) -> tuple[Long, Long]:
    value = gaussian(e, curve.mu)
    return value, value


@both.register
def _(curve: LaplaceCurve, e: Long) -> tuple[Long, Long]:
    """int max(p - e^e q, 0) for p = e^-|x| / 2 and q = e^-|x - s| / 2."""
    move = mp.mpf(curve.epsilon)
    value = -mp.expm1(e) if e < -move else max(-mp.expm1((e - move) / 2), mp.mpf(0))
    return value, value


@both.register
def _(curve: TwoLaplaceCurve, e: Long) -> tuple[Long, Long]:
    w = max(mp.mpf(curve.epsilon) - abs(e) / 2, mp.mpf(0))
    value = _whole(lambda _: 1 - mp.exp(-w) * (1 + w / 2), e)
    return value, value


@both.register
def _(curve: SmlCurve, e: Long) -> tuple[Long, Long]:
    value = -mp.expm1(-(mp.sqrt(e**2 + 2 * mp.mpf(curve.ratio) ** 2) - e) / 2)
    return value, value


@both.register
def _(curve: PureCurve, e: Long) -> tuple[Long, Long]:
    truth = 1 / (1 + mp.exp(-mp.mpf(curve.epsilon)))
    value = max(truth - mp.exp(e) * (1 - truth), mp.mpf(0)) + max((1 - truth) - mp.exp(e) * truth, mp.mpf(0))
    return value, value


@both.register
def _(curve: DominatingPair, e: Long) -> tuple[Long, Long]:
    pairs = [(mp.mpf(p), mp.mpf(q)) for p, q in zip(curve.present, curve.absent, strict=True)]
    up, down = (sum(max(a - mp.exp(e) * b, mp.mpf(0)) for a, b in side) for side in (pairs, [p[::-1] for p in pairs]))
    return up, down


@both.register
def _(curve: RevealedMixture, e: Long) -> tuple[Long, Long]:
    parts = [(mp.mpf(weight), both(one, e)) for weight, one in zip(curve.weights, curve.curves, strict=True)]
    return sum(weight * one[0] for weight, one in parts), sum(weight * one[1] for weight, one in parts)


@both.register
def _(curve: PoissonCurve, e: Long) -> tuple[Long, Long]:
    """The module's equations; e^e' = (e^e - 1 + q) / q."""
    q = mp.mpf(curve.rate)
    up, down = ((mp.exp(sign * e) - 1 + q) / q for sign in (1, -1))
    remove = q * both(curve.base, mp.log(up))[0] if up > 0 else -mp.expm1(e)
    add = (1 - (1 - q) * mp.exp(e)) * both(curve.base, -mp.log(down))[1] if down > 0 else mp.mpf(0)
    return remove, add


@both.register
def _(curve: FixedSizeCurve, e: Long) -> tuple[Long, Long]:
    q = mp.mpf(curve.rate)
    value = _whole(lambda size: q * max(both(curve.base, mp.log((mp.exp(size) - 1 + q) / q))), e)
    return value, value


def _whole(above: Any, e: Long) -> Long:
    """The curve of a symmetric pair, which is `above` for e >= 0: H(e) = 1 - e^e + e^e H(-e)."""
    return above(e) if e >= 0 else -mp.expm1(e) + mp.exp(e) * above(-e)


def response_delta(epsilon: float, times: int, at: Long) -> Long:
    """Exact composition of randomised response: the loss is (2 K - times) epsilon, K binomial."""
    with mp.workdps(DIGITS):
        truth = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        masses = (mp.binomial(times, k) * truth**k * (1 - truth) ** (times - k) for k in range(times + 1))
        losses = ((2 * k - times) * mp.mpf(epsilon) for k in range(times + 1))
        return sum(max(-mp.expm1(at - loss), 0) * mass for mass, loss in zip(masses, losses, strict=True))
