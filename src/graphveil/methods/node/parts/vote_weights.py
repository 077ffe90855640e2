"""Labels told to neighbours: every training node votes for its class among the outsiders it is linked to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.data.arcs import Ids
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.geometric_count import Marks
from graphveil.nn.coordinates import both_ways
from graphveil.nn.sampling.splitmix import mix
from graphveil.vocabulary import Floats


@dataclass(frozen=True, eq=False)
class ToldLabels:
    """Z [m, c]: training u adds votes[u, v] e_{y_u} to the row of outsider v, as `Contributions`.

    votes: [t, m], rows of length at most 1; labels: int64 [t], -1 tells nothing.
    """

    votes: sp.csr_array
    labels: Tensor
    classes: int

    def clipped_sum(self, clip: float) -> Tensor:
        """As a vector [m c], what a node adds being no longer than `clip`."""
        told = one_hot(self.labels, self.classes) * min(clip, 1.0)
        return torch.from_numpy(np.asarray(self.votes.T @ told)).ravel()

    def marks(self) -> Marks:
        """The same where every row of votes has one entry, which is 1, or none."""
        rows, labels = np.flatnonzero(np.diff(self.votes.indptr)), self.labels.numpy()
        rows = rows[labels[rows] >= 0]
        cells = np.full(len(labels), -1)
        cells[rows] = self.votes.indices[self.votes.indptr[rows]] * self.classes + labels[rows]
        return Marks(cells[:, None], self.votes.shape[1] * self.classes)


def one_hot(labels: Tensor, classes: int) -> Floats:
    """float64 [t, c]; a row of zeros for label -1."""
    found = np.zeros((len(labels), classes))
    there = np.flatnonzero(labels.numpy() >= 0)
    found[there, labels.numpy()[there]] = 1.0
    return found


def spread_votes(links: sp.csr_array) -> sp.csr_array:
    """1 / sqrt(d_u) for each of the d_u links of training u, [t, m]: length 1 or, without links, 0."""
    # Rounding must not make the squares of d_u such numbers exceed 1.
    lengths = (1 - 1e-9) / np.sqrt(np.maximum(np.diff(links.indptr), 1))
    return sp.csr_array(sp.diags_array(lengths) @ links)


def single_votes(links: sp.csr_array) -> sp.csr_array:
    """1 for one link of every training node that has any, [t, m]: a choice by u's own links and public coins alone."""
    chosen = _chosen(links.indptr.astype(np.int64), links.indices.astype(np.int64))
    rows = np.flatnonzero(chosen >= 0)
    return sp.csr_array((np.ones(len(rows)), (rows, chosen[rows])), shape=links.shape)


@numba.njit(cache=True, nogil=True)
def _chosen(indptr: Any, indices: Any) -> Ids:
    """The entry of each row with the smallest hash of (row, entry), int64 [t]; -1 where there is none."""
    found = np.full(len(indptr) - 1, -1, np.int64)
    for row in range(len(found)):
        least = np.uint64(0)
        for place in range(indptr[row], indptr[row + 1]):
            word = mix(mix(np.uint64(row)) ^ np.uint64(indices[place]))
            if found[row] < 0 or word < least:
                found[row], least = indices[place], word
    return found


def links_to_outsiders(sealed: Sealed) -> sp.csr_array:
    """Which training nodes and which nodes outside training are linked, in either direction, float64 [t, m]."""
    train = sealed.public.train.cpu().numpy()
    whole = both_ways(sealed.adj).to_scipy()
    return sp.csr_array(whole[train][:, ~train].astype(np.float64))
