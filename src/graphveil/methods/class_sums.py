"""Class sums: every node adds its row to the sum of its class."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphveil.nn.aggregate import clip_rows
from graphveil.nn.rows import Rows, summed


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sum over nodes of r_u e_{y_u}^T as `Contributions`. rows: r, [k, q]; labels: int64 [k], -1 adds nothing.

    block: rows that are read at a time, None for what a processor is best at.
    """

    rows: Rows
    labels: Tensor
    classes: int
    block: int | None = None

    def clipped_sum(self, clip: float) -> Tensor:
        """As a vector [q c], every r no longer than `clip`."""
        return summed(len(self.labels), lambda part: self._of(part, clip), self.block).T.ravel()

    def _of(self, part: slice, clip: float) -> Tensor:
        """Those of some nodes, [c, q]."""
        labels = self.labels[part]
        rows = clip_rows(self.rows[part].double(), clip) * (labels >= 0)[:, None]
        return rows.new_zeros(self.classes, rows.shape[1]).index_add(0, labels.clamp(min=0), rows)
