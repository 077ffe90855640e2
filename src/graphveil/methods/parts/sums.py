"""Class sums: every node adds its row to the sum of its class."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphveil.nn.aggregate import clip_rows


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sum over nodes of r_u e_{y_u}^T as `Contributions`. rows: r, [k, q]; labels: int64 [k], -1 adds nothing."""

    rows: Tensor
    labels: Tensor
    classes: int

    def clipped_sum(self, clip: float) -> Tensor:
        """As a vector [q c], every r no longer than `clip`."""
        there = self.labels >= 0
        rows = clip_rows(self.rows.double(), clip) * there[:, None]
        sums = rows.new_zeros(self.classes, rows.shape[1])
        return sums.index_add(0, self.labels.clamp(min=0), rows).T.ravel()
