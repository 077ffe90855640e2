"""What methods that sum an embedding again and again share: the embedding, and jumping knowledge over the sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphveil.nn.features import standard, unit_rows
from graphveil.nn.mlp import Dropout, Perceptron, predicted


class Jumping(nn.Module):
    """head(relu(tower_1 x_1 | ... | tower_k x_k)) (Xu et al. 2018): a layer for each part of x, a head on all."""

    def __init__(self, parts: Sequence[int], hidden: int, classes: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.parts = list(parts)
        self.towers = nn.ModuleList(nn.Linear(part, hidden) for part in parts)
        self.dropout = Dropout(dropout)
        self.head = Perceptron((hidden * len(parts), hidden, classes), dropout)

    def towered(self, x: Tensor) -> list[Tensor]:
        """Every part [n, part] of the input behind its own layer, [n, hidden] each."""
        return [tower(part) for tower, part in zip(self.towers, x.split_with_sizes(self.parts, dim=1), strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, c] of inputs [n, sum of parts]."""
        logits: Tensor = self.head(self.dropout(torch.relu(torch.cat(self.towered(x), dim=1))))
        return logits


class Embedder(nn.Module):
    """logits = classify(selu(sqrt(size) e)) with e = unit_rows(body(x)) [n, size]: the encoder of GAP's authors."""

    def __init__(self, features: int, hidden: int, size: int, classes: int) -> None:
        super().__init__()
        self.body = Perceptron((features, hidden, size), dropout=0.5, input_dropout=0.2)
        self.classify = nn.Linear(size, classes)

    def embedding(self, x: Tensor) -> Tensor:
        """Unit rows e [n, size] of features [n, d]."""
        return unit_rows(self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, c] of features [n, d]."""
        rows = self.embedding(x)
        # The factor brings coordinates to variance 1, as batch normalisation would.
        logits: Tensor = self.classify(torch.selu(rows * math.sqrt(rows.shape[1])))
        return logits


def embedded(encoder: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """(what a head reads of a node itself, unit rows to be summed), both [n, k], for scaled features [n, d].

    An `Embedder` gives its embedding; any other encoder gives class posteriors, k = c.
    """
    if isinstance(encoder, Embedder):
        with torch.no_grad():
            rows = encoder.eval().embedding(x)
        return rows * math.sqrt(rows.shape[1]), rows
    scores = predicted(encoder, x)
    return standard(scores.log_softmax(dim=1)), beliefs(scores)


def beliefs(scores: Tensor) -> Tensor:
    """unit_rows(P - 1/c) for posteriors P = softmax(scores), [n, c]: a uniform belief has no direction."""
    return unit_rows(scores.softmax(dim=1) - 1 / scores.shape[1])
