"""Labels told to neighbours: every training node spreads one vote for its class over the outsiders it is linked to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.core import Floats
from graphveil.graph.sealing import Sealed
from graphveil.nn.coordinates import both_ways


@dataclass(frozen=True, eq=False)
class SpreadLabels:
    """Z [m, c]: training u adds e_{y_u} / sqrt(d_u) to the rows of its d_u linked outsiders, as `Contributions`.

    links: [t, m], 1 where a training node and an outsider are linked; labels: int64 [t], -1 tells nothing. What a node
    adds is a function of its own record, of length 1 or, without links, 0.
    """

    links: sp.csr_array
    labels: Tensor
    classes: int

    def clipped_sum(self, clip: float) -> Tensor:
        """As a vector [m c], what a node adds being no longer than `clip`."""
        told = own_votes(self.links, self.labels, self.classes) * min(clip, 1.0)
        return torch.from_numpy(np.asarray(self.links.T @ told)).ravel()


def own_votes(links: sp.csr_array, labels: Tensor, classes: int) -> Floats:
    """What each training node adds to every row that it is linked to, [t, c]."""
    told = np.zeros((links.shape[0], classes))
    there = np.flatnonzero(labels.numpy() >= 0)
    # Rounding must not make the squares of d_u such numbers exceed 1.
    told[there, labels.numpy()[there]] = (1 - 1e-9) / np.sqrt(np.maximum(np.diff(links.indptr)[there], 1))
    return told


def links_to_outsiders(sealed: Sealed) -> sp.csr_array:
    """Which training nodes and which nodes outside training are linked, in either direction, float64 [t, m]."""
    train = sealed.public.train.numpy()
    whole = both_ways(sealed.adj).to_scipy()
    return sp.csr_array(whole[train][:, ~train].astype(np.float64))
