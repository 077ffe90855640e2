"""Features of the training nodes, for a query: read while the gate is open, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from graphveil.data.arcs import Ids
from graphveil.data.sealing import Sealed


@dataclass(frozen=True, eq=False)
class OwnFeatures:
    """x of the training nodes, [t, d], as `Rows`; places: their ids, int64 [t]."""

    sealed: Sealed
    places: Ids

    @classmethod
    def of(cls, sealed: Sealed) -> OwnFeatures:
        """In the order of the ids."""
        return cls(sealed, np.flatnonzero(sealed.public.train.cpu().numpy()))

    @property
    def shape(self) -> tuple[int, ...]:
        """(t, d)."""
        return len(self.places), self.sealed.public.num_features

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        return self.sealed.rows(self.places[which if isinstance(which, slice) else which.cpu().numpy()])
