"""Neighbours counted by class: the query of a tally, and what a network reads of noisy counts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphveil.graph.sealing import Sealed
from graphveil.mechanisms.tally import Marks, ends
from graphveil.nn.features import standard


def cluster_degrees(sealed: Sealed, clusters: Tensor, count: int) -> Marks:
    """Query: every node counts its neighbours by their public cluster; clusters: int64 [n], of 0..count-1.

    Cells: node * count + cluster. An edge marks one cell of either end, an arc one of its target.
    """
    said, undirected = clusters.numpy(), sealed.public.undirected
    sources, targets = ends(sealed.adj, undirected)
    cells = [targets * count + said[sources]]
    if undirected:
        cells.append(sources * count + said[targets])
    return Marks(np.stack(cells, axis=1), len(said) * count)


def log_counts(counts: Tensor, scale: float) -> Tensor:
    """log(1 + scale + max(count, 0)), rows less their mean, on one common scale, [n, c].

    Counts below the noise differ little then, and so do those of hubs.
    """
    return standard(torch.log(1 + scale + counts.clamp(min=0).float()))
