"""A graph seen through public rows Q [n, p]: its core C = Q^T A Q, the largest entries of Q C Q^T; and its degrees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.nn.aggregate import clip_rows, neighbour_sum

_BLOCK = 1 << 22
"""Entries of Q C Q^T that are looked at at a time."""


@dataclass(frozen=True, eq=False)
class Core:
    """C = Q^T A Q as `Contributions`: an undirected edge adds q_u q_v^T + q_v q_u^T, an arc v -> u adds q_u q_v^T.

    rows: Q, [n, p], public. |q_u q_v^T + q_v q_u^T|_F^2 = 2 |q_u|^2 |q_v|^2 + 2 (q_u q_v)^2 <= 4 c^4 for rows no longer
    than c, attained by parallel ones; |q_u q_v^T|_F <= c^2.
    """

    adj: Csr
    rows: Tensor
    undirected: bool

    def clipped_sum(self, clip: float) -> Tensor:
        """C as a vector as long as C, [p (p + 1) / 2] or [p^2]: an edge moves it by `clip` at most."""
        longest = math.sqrt(clip / 2 if self.undirected else clip)
        rows = clip_rows(self.rows.double(), longest)
        core = rows.T @ neighbour_sum(self.adj, rows)
        return flat(core) if self.undirected else core.ravel()


@dataclass(frozen=True, eq=False)
class Degrees:
    """How many arcs leave each node as `Contributions`: one entry for an arc, two for an undirected edge."""

    adj: Csr
    undirected: bool

    def clipped_sum(self, clip: float) -> Tensor:
        """clip x out-degrees, [n], over sqrt(2) if undirected: an edge moves the vector by `clip`."""
        counts = np.bincount(self.adj.indices, minlength=self.adj.num_nodes)
        return torch.from_numpy(clip / math.sqrt(2 if self.undirected else 1) * counts)


@dataclass(frozen=True, eq=False)
class EdgeCount:
    """The number of edges as `Contributions`."""

    adj: Csr
    undirected: bool

    def clipped_sum(self, clip: float) -> Tensor:
        """clip x edges, [1]; an undirected edge counts once."""
        return torch.tensor([clip * self.adj.num_arcs / (2 if self.undirected else 1)], dtype=torch.float64)


def flat(core: Tensor) -> Tensor:
    """A symmetric [p, p] as a vector [p (p + 1) / 2] of the same length: entries off the diagonal times sqrt(2)."""
    rows, columns = torch.triu_indices(len(core), len(core))
    return core[rows, columns] * torch.where(rows == columns, 1.0, math.sqrt(2)).to(core.dtype)


def unflat(values: Tensor, width: int) -> Tensor:
    """Inverse of `flat`."""
    rows, columns = torch.triu_indices(width, width)
    core = values.new_zeros(width, width)
    core[rows, columns] = values / torch.where(rows == columns, 1.0, math.sqrt(2)).to(values.dtype)
    core[columns, rows] = core[rows, columns]
    return core


def largest_pairs(left: Tensor, right: Tensor, count: int, undirected: bool) -> Tensor:
    """The `count` pairs with the largest left_i . right_j, as sources j and targets i, int64 [2, k]; no loops.

    Undirected: pairs j < i. Exact. Scores are made block by block, and what lies below the least of the best so far is
    dropped at once: O(count + block) memory. left, right: [n, p].
    """
    nodes = len(left)
    count = min(max(count, 0), nodes * (nodes - 1) // (2 if undirected else 1))
    if count == 0:
        return torch.empty(2, 0, dtype=torch.int64)
    scores, places, least = left.new_empty(0), torch.empty(0, dtype=torch.int64), -math.inf
    step = max(_BLOCK // nodes, 1)
    for first in range(0, nodes, step):
        last = min(first + step, nodes)
        columns = last if undirected else nodes
        block = left[first:last] @ right[:columns].T
        targets, sources = (block > least).nonzero(as_tuple=True) if least > -math.inf else _all(block)
        proper = sources < targets + first if undirected else sources != targets + first
        targets, sources = targets[proper], sources[proper]
        scores = torch.cat([scores, block[targets, sources]])
        places = torch.cat([places, (targets + first) * nodes + sources])
        if len(scores) > 2 * count or last == nodes:
            scores, best = scores.topk(min(count, len(scores)), sorted=False)
            places = places[best]
            least = float(scores.min()) if len(scores) == count else -math.inf
    places = places.sort().values
    return torch.stack([places % nodes, places // nodes])


def _all(block: Tensor) -> tuple[Tensor, Tensor]:
    """The place of every entry."""
    rows, columns = block.shape
    places = torch.arange(rows * columns)
    return places // columns, places % columns
