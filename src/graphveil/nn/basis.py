"""Public rows Q through which a private graph is seen: functions of public features and labels alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import torch
from torch import Tensor

from graphveil.data.sealing import Public
from graphveil.nn.cross_fit import Folds, cross_fitted
from graphveil.nn.features import unit_rows
from graphveil.runtime.compute import HERE, Run
from graphveil.vocabulary import State

_POWER = 0.5
"""Columns are singular vectors times this power of their values: 0 whitens, 1 keeps the features' own weights."""


class Basis(StrEnum):
    """FEATURES leading directions of the features; RANDOM random ones; POSTERIORS class beliefs, out of fold."""

    FEATURES = "features"
    RANDOM = "random"
    POSTERIORS = "posteriors"


@dataclass(frozen=True, eq=False)
class Directions:
    """Q = unit rows of X map; map: [d, p]."""

    map: Tensor

    @classmethod
    def fit(cls, x: Tensor, kind: Basis, rank: int) -> Self:
        """From scaled features x [n, d]; p = min(rank, n, d)."""
        width = min(rank, *x.shape)
        if kind is Basis.RANDOM:
            return cls(torch.randn(x.shape[1], width) / width**0.5)
        # A few more columns than wanted make the sketch accurate.
        _, values, directions = torch.svd_lowrank(x, q=min(width + 16, *x.shape), niter=4)
        return cls(directions[:, :width] * values[:width].clamp(min=1e-6) ** (_POWER - 1))

    def rows(self, x: Tensor) -> Tensor:
        """Q for scaled features, [n, p]."""
        return unit_rows(x @ self.map)

    def state(self) -> State:
        """What another graph needs."""
        return {"basis.map": self.map}


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Q = unit rows of P - 1/c for class posteriors P that no node's own label has touched, [n, c]."""

    folds: Folds

    def rows(self, x: Tensor) -> Tensor:
        """Q for scaled features, [n, c]."""
        beliefs = self.folds.log_beliefs(x).exp()
        return unit_rows(beliefs - 1 / beliefs.shape[1])

    def state(self) -> State:
        """What another graph needs."""
        return self.folds.state()


def fitted(x: Tensor, public: Public, kind: Basis, rank: int, scale: str, run: Run = HERE) -> Directions | Beliefs:
    """The basis for scaled features x [n, d], made once for all runs on this graph."""
    if kind is Basis.POSTERIORS:
        return Beliefs(cross_fitted(x, public, scale, run=run))
    return public.cache_public(f"directions {kind} {rank} {scale}", lambda: Directions.fit(x, kind, rank))


def restored(state: State, public: Public) -> Directions | Beliefs:
    """The same basis for another graph."""
    return Directions(state["basis.map"]) if "basis.map" in state else Beliefs(Folds.restore(state, public))
