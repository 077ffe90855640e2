"""Labels of alike rows: what a node's likes among the training nodes are, wherever they lie in the graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

_TEMPERATURE = 0.03
"""Cosines this much smaller count e times less."""
_BLOCK = 2048
"""Rows that are compared with all training nodes at a time."""
_DOUBT = 0.01


def labels_of_alike(rows: Tensor, labels: Tensor, train: Tensor, classes: int) -> Tensor:
    """ln(share_k + 0.01), where share_k of training nodes j has weight e^(cos(r_i, r_j) / 0.03), [n, c].

    rows: [n, k]; labels: int64 [n], read where train: bool [n]. Nobody votes for itself; negative cosines do not count.
    """
    rows, voters = normalize(rows, dim=1), train.nonzero().ravel()
    votes, place = one_hot(labels[voters], classes).to(rows.dtype), voters.new_full((len(rows),), -1)
    place[voters] = torch.arange(len(voters), device=voters.device)
    known, shares = rows[voters].T, []
    for first in range(0, len(rows), _BLOCK):
        own = place[first : first + _BLOCK]
        cosines = rows[first : first + _BLOCK] @ known
        weights = torch.where(cosines > 0, ((cosines - 1) / _TEMPERATURE).exp(), 0.0)
        itself = (own >= 0).nonzero().ravel()
        weights[itself, own[itself]] = 0.0
        totals = weights @ votes
        shares.append(totals / totals.sum(dim=1, keepdim=True).clamp(min=1e-30))
    return (torch.cat(shares) + _DOUBT).log()
