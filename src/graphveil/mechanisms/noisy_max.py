"""Report-noisy-max with Gumbel noise: the exponential mechanism (McSherry & Talwar 2007) on the simplex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from graphveil.core import InvalidInput, Mechanism, Query
from graphveil.mechanisms.dominating_pair import PureCurve

if TYPE_CHECKING:
    from graphveil.graph import Sealed
    from graphveil.noise import Source


@dataclass(frozen=True)
class NoisyMax(Mechanism):
    """Query: `query(sealed) -> Tensor [m, k]`, rows that are put onto the simplex. Releases int64 [m].

    Pr[j | p] is proportional to e^{p_j / scale}. Between any two points of the simplex the log-ratio is
    (p_j - p'_j)/scale + ln Z' - ln Z, largest at two vertices, where Z = Z': exactly 1/scale.
    """

    scale: float

    def apply(self, sealed: Sealed, query: Query, source: Source) -> Tensor:
        scores = query(sealed).double().nan_to_num(0.0, 0.0, 0.0).clamp(min=0.0)
        mass = scores.sum(dim=1, keepdim=True)
        simplex = torch.where(mass > 0, scores / mass, torch.full_like(scores, 1 / scores.shape[1]))
        noise = torch.from_numpy(source.gumbel(scores.numel())).reshape(scores.shape)
        return (simplex + self.scale * noise).argmax(dim=1)

    def curve(self, sensitivity: float) -> PureCurve:
        """`sensitivity`: how many rows a neighbour changes; each row costs 1/scale."""
        if not sensitivity >= 1:
            raise InvalidInput(f"a neighbour changes at least one row, got {sensitivity}")
        return PureCurve(math.inf if self.scale == 0 else sensitivity / self.scale)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1.0), cls(10.0)
