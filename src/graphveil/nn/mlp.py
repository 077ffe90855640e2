"""A plain multi-layer perceptron."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


class Perceptron(nn.Module):
    """Dense layers of the given `sizes` with ReLU and dropout between them."""

    def __init__(self, sizes: tuple[int, ...], dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, sizes[-1]]."""
        h = x
        for depth, layer in enumerate(self.layers):
            h = layer(h if depth == 0 else self.dropout(torch.relu(h)))
        return h
