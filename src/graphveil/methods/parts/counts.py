"""Neighbours counted by class: the query of a tally, and what a network reads of noisy counts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphveil.graph.sealing import Sealed
from graphveil.mechanisms.tally import Marks, ends
from graphveil.nn.features import standard


def cluster_degrees(sealed: Sealed, scores: Tensor) -> Marks:
    """Query: every node counts its neighbours by their likeliest class under the public `scores` [n, c].

    Cells: node * c + class. An edge marks one cell of either end, an arc one of its target.
    """
    (nodes, classes), clusters = scores.shape, scores.argmax(dim=1).numpy()
    undirected = sealed.public.undirected
    sources, targets = ends(sealed.adj, undirected)
    cells = [targets * classes + clusters[sources]]
    if undirected:
        cells.append(sources * classes + clusters[targets])
    return Marks(np.stack(cells, axis=1), nodes * classes)


def log_counts(counts: Tensor, scale: float) -> Tensor:
    """log(1 + scale + max(count, 0)), rows less their mean, on one common scale, [n, c].

    Counts below the noise differ little then, and so do those of hubs.
    """
    return standard(torch.log(1 + scale + counts.clamp(min=0).float()))
