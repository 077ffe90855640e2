"""What nodes are taught: labels, and how much each of them counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels y [n], and what every node counts in a loss, [n]; None: all alike."""

    y: Tensor
    counted: Tensor | None = None

    def loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Sum of the cross-entropies of logits [*, c] of the nodes `rows`, int64 [*], by what each counts."""
        logits, rows = logits.flatten(0, -2), rows.flatten()
        if self.counted is None:
            return cross_entropy(logits, self.y[rows], reduction="sum")
        return torch.dot(cross_entropy(logits, self.y[rows], reduction="none"), self.counted[rows])
