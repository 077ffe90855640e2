"""What an answer tells an attacker who knows every sample that may have been drawn: feasible where these are few.

`Mechanism.evidence` takes what the other records add as its mean. On a graph of a few nodes their coins can be gone
through instead, and the answer's law is an exact mixture.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from graphveil.data.arcs import Ids
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.additive import Additive
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.nn.sampling.heterpoisson import draws_needed
from graphveil.vocabulary import Mechanism, Query

_MAX = 32
"""Samples of one graph that are gone through for every answer."""
_Law = list[tuple[float, Tensor]]
"""The chance of every sample, and what would be released of it but for the noise."""


def exact_evidence(act: Mechanism, here: Sealed, there: Sealed, query: Query, answer: Tensor) -> float | None:
    """By how much, as a logarithm, the answer is likelier on the first graph; None where samples are too many."""
    law, other = _law(act, here, query), _law(act, there, query)
    if law is None or other is None:
        return None
    inner: Additive = act.inner  # type: ignore[attr-defined]
    start = other[0][1]
    told = _log_density(inner, law, start, answer) - _log_density(inner, other, start, answer)
    return None if math.isnan(told) else told  # without noise most answers fit no sample to the last digit


def _log_density(inner: Additive, law: _Law, start: Tensor, answer: Tensor) -> float:
    """Of the answer, beside what it would be if `start` were all that was released."""
    rest = answer.double() - start
    logs = [math.log(chance) + inner.log_ratio(rest, found - start) for chance, found in law]
    return float(np.logaddexp.reduce(logs))


def _law(act: Mechanism, sealed: Sealed, query: Query) -> _Law | None:
    if isinstance(act, FixedSize) and isinstance(act.inner, Additive):
        return _of_fixed_size(act, act.inner, sealed, query)
    if isinstance(act, HeterPoissonSampling):
        return _of_coins(act, sealed, query)
    return None


def _of_fixed_size(act: FixedSize, inner: Additive, sealed: Sealed, query: Query) -> _Law | None:
    ways = math.comb(act.population, act.size)
    if ways > _MAX:
        return None
    ids = range(act.population)
    alone = [inner.bounded(sealed, partial(query, batch=torch.tensor([one]))).double() for one in ids]
    batches = itertools.combinations(alone, act.size)
    return [(1 / ways, torch.stack(batch).sum(dim=0)) for batch in batches]


def _of_coins(act: HeterPoissonSampling, sealed: Sealed, query: Query) -> _Law | None:
    """Only where whoever is asked stays: coins of arcs would be too many."""
    train = sealed.public.train.nonzero().flatten().numpy()
    keep = act._keep(sealed)[train]
    if 2 ** len(train) > _MAX or bool(((keep > 0) & (keep < 1)).any()):
        return None
    return list(_each_choice(act, sealed, query, train))


def _each_choice(act: HeterPoissonSampling, sealed: Sealed, query: Query, train: Ids) -> Iterator[tuple[float, Tensor]]:
    for coins in itertools.product((False, True), repeat=len(train)):
        centres = train[np.array(coins)]
        chance = act.rate ** len(centres) * (1 - act.rate) ** (len(train) - len(centres))
        if chance:
            batch = act.batch(sealed, centres, np.zeros(draws_needed(sealed.adj, centres)))
            yield chance, act.inner.bounded(sealed, partial(query, batch=batch)).double()
