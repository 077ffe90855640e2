"""A head for few labels: what a block of columns says of a class counts the same for every class."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ByClass(nn.Module):
    """logits_k = sum over blocks b of shares_b x[starts_b + k] + (x B + bias)_k, for rows x [n, width].

    `starts`: where blocks of `classes` columns begin, one column a class. A share is one number for all classes, which
    few labels suffice to learn. B, for what classes say of one another, begins at 0; weight decay keeps it there where
    labels are too few. The first block begins as the answer itself.
    """

    def __init__(self, width: int, classes: int, starts: tuple[int, ...]) -> None:
        super().__init__()
        self.starts, self.classes = starts, classes
        self.shares = nn.Parameter(torch.zeros(len(starts)))
        self.rest = nn.Linear(width, classes)
        with torch.no_grad():
            self.shares[0] = 1.0
            self.rest.weight.zero_()
            self.rest.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes]."""
        blocks = torch.stack([x[..., start : start + self.classes] for start in self.starts], dim=-1)
        logits: Tensor = blocks @ self.shares + self.rest(x)
        return logits
