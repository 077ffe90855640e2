"""Poisson sampling in front of any mechanism: each record joins a use independently with probability `rate`.

Amplification (add/remove; Li et al. 2012, Balle et al. 2018): if (Q, P) dominates the inner mechanism with
and without the record, the sampled one is dominated by ((1-q)P + qQ, P). With q = rate and
e^{e'} = (e^e - 1 + q)/q the two directions are
    H_{e^e}((1-q)P + qQ || P) = q H_{e^e'}(Q || P)                          for e^e > 1 - q, else 1 - e^e
    H_{e^e}(P || (1-q)P + qQ) = (1 - (1-q) e^e) H_{e^-e''}(P || Q), e^{e''} = (e^-e - 1 + q)/q, else 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln

from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.additive import Additive
from graphveil.mechanisms.categorical import Answering
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.laplace import Laplace, LaplaceCurve
from graphveil.mechanisms.noisy_max import NoisyMax
from graphveil.mechanisms.shared_curves import SampledCurve, require_rate
from graphveil.vocabulary import Curve, Floats, Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor


def inner_epsilon(epsilons: Floats, rate: float) -> tuple[NDArray[np.bool_], Floats]:
    """Where e^epsilon > 1 - rate, and there the solution of e^inner = (e^epsilon - 1 + rate)/rate."""
    # Of two ways to write e^e - 1 + q each keeps the digits that the other loses.
    steep = np.exp(np.minimum(epsilons, 0.0)) - (1 - rate)
    near = np.where(epsilons < -math.log(2), steep, np.expm1(np.minimum(epsilons, 1.0)) + rate)
    live = near > 0
    # Far from zero the exponential would overflow; e^e - 1 + q = e^e (1 - (1-q) e^-e).
    far = epsilons + np.log1p((rate - 1) * np.exp(-np.maximum(epsilons, 1.0)))
    return live, np.asarray(np.where(epsilons > 1, far, np.log(np.where(live, near, 1.0))) - np.log(rate))


def amplified(base: Curve, rate: float, epsilons: Floats) -> tuple[Floats, Floats]:
    """Both directions of the amplified hockey-stick curve; see the module's equations."""
    live, inner = inner_epsilon(epsilons, rate)
    up = base.deltas(inner)
    live_back, inner_back = inner_epsilon(-epsilons, rate)
    down = base.deltas(-inner_back)
    if up is None or down is None:
        raise InvalidInput(f"{type(base).__name__} has no hockey-stick curve to amplify")
    remove = np.where(live, rate * up[0], -np.expm1(np.minimum(epsilons, 0.0)))
    kept = 1 - (1 - rate) * np.exp(np.where(live_back, np.minimum(epsilons, 700.0), 0.0))
    add = np.where(live_back, kept * down[1], 0.0)
    return np.clip(remove, 0.0, 1.0), np.clip(add, 0.0, 1.0)


@dataclass(frozen=True)
class PoissonCurve(SampledCurve):
    """The `base` curve behind Poisson sampling with probability `rate`, add/remove neighbours."""

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return amplified(self.base, self.rate, epsilons)

    def rdp(self, orders: Floats) -> Floats | None:
        """Zhu & Wang 2019, Theorem 5; their factor 3 drops for Gaussian and Laplace (Theorem 8)."""
        factor = 1.0 if isinstance(self.base, GaussianCurve | LaplaceCurve) else 3.0
        return np.array([self._rdp_at(int(order), factor) for order in orders])

    def _rdp_at(self, order: int, factor: float) -> float:
        terms = np.arange(2, order + 1, dtype=np.float64)
        inner = self.base.rdp(terms)
        if inner is None:
            raise InvalidInput(f"{type(self.base).__name__} has no Renyi curve to amplify")
        with np.errstate(divide="ignore"):
            log_keep, log_rate = np.log1p(-self.rate), np.log(self.rate)
        log_choose = gammaln(order + 1) - gammaln(terms + 1) - gammaln(order - terms + 1)
        left_out = np.where(order > terms, np.maximum(order - terms, 1) * log_keep, 0.0)
        rest = log_choose + left_out + terms * log_rate + (terms - 1) * inner
        rest[1:] += np.log(factor)
        first = (order - 1) * log_keep + np.log1p((order - 1) * self.rate)
        return float(np.logaddexp.reduce(np.append(rest, first)) / (order - 1))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(GaussianCurve(1.0), 0.1), cls(LaplaceCurve(1.0), 0.01), cls(GaussianCurve(0.5), 1.0)


@dataclass(frozen=True)
class Poisson(Mechanism):
    """Query: `query(sealed, batch) -> what inner expects`, batch int64 [k] of ids in range(population).

    Many uses at once, if `inner` answers row by row: `query(sealed, batches) -> Tensor [uses, *]`, one batch for every
    use; row i must be a function of the records in batch i alone.
    """

    inner: Mechanism
    rate: float
    population: int

    def __post_init__(self) -> None:
        require_rate(self.rate)

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        return self.inner.apply(sealed, partial(query, batch=self._batch(source)), source)

    def apply_many(self, sealed: SealedGraph, query: Query, source: Source, uses: int) -> Tensor:
        if not isinstance(self.inner, Answering):
            return super().apply_many(sealed, query, source, uses)
        # Batch and noise of a use come from the source together, so that it does not matter which uses share a call.
        drawn = [(self._batch(source), self.inner.draw(source)) for _ in range(uses)]
        return self.inner.answers(query(sealed, batches=[batch for batch, _ in drawn]), [draws for _, draws in drawn])

    def evidence(
        self, here: SealedGraph, there: SealedGraph, query: Query, answer: Tensor, uses: int | None = None
    ) -> float:
        whole = torch.arange(self.population)
        given = {"batch": whole} if uses is None else {"batches": [whole] * uses}
        return sampled_evidence(self.inner, self.rate, here, there, partial(query, **given), answer)

    def _batch(self, source: Source) -> Tensor:
        return source.coins(self.population, self.rate).nonzero().flatten()

    def curve(self, sensitivity: float) -> Curve:
        return PoissonCurve(self.inner.curve(sensitivity), self.rate)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(Gaussian(1.0), 0.2, 50), cls(Laplace(1.0), 0.1, 50), cls(NoisyMax(0.5, 3), 0.3, 50)


def sampled_evidence(
    inner: Mechanism, rate: float, here: SealedGraph, there: SealedGraph, query: Query, answer: Tensor
) -> float:
    """ln (1 - rate + rate L): the record was sampled with probability `rate`, and then `answer` is L times likelier.

    For audits. `query(sealed)` asks about everybody; of the records that both graphs have a share `rate` is expected.
    """
    if isinstance(inner, Additive):
        low = inner.bounded(there, query).double()
        log_ratio = np.asarray(inner.log_ratio(answer.double() - rate * low, inner.bounded(here, query).double() - low))
    elif isinstance(inner, Answering):
        log_ratio = inner.log_chances(query(here), answer) - inner.log_chances(query(there), answer)
    else:
        raise Unsupported(f"what a sample of {type(inner).__name__} tells is not known yet")
    with np.errstate(divide="ignore"):
        return float(np.logaddexp(np.log1p(-rate), math.log(rate) + log_ratio).sum())


@dataclass(frozen=True)
class SampledOnce(Poisson):
    """One Poisson sample that all uses of a call share. Query: `query(sealed, batch) -> Tensor [uses, *]`.

    Whoever is in the sample is in it for every use, so that no use is cheaper than without sampling.
    """

    def apply_many(self, sealed: SealedGraph, query: Query, source: Source, uses: int) -> Tensor:
        return self.inner.apply_many(sealed, partial(query, batch=self._batch(source)), source, uses)

    def evidence(
        self, here: SealedGraph, there: SealedGraph, query: Query, answer: Tensor, uses: int | None = None
    ) -> float:
        # One coin for all uses.
        log_ratio = self.inner.evidence(here, there, partial(query, batch=torch.arange(self.population)), answer, uses)
        return (
            float(np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + log_ratio)) if self.rate < 1 else log_ratio
        )

    def curve(self, sensitivity: float) -> Curve:
        return self.inner.curve(sensitivity)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(NoisyMax(0.5, 3), 0.3, 50),)
