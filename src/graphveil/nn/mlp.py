"""A perceptron for public features, and how its weights travel in a release."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from graphveil.method import State


class Perceptron(nn.Module):
    """Dense layers of the given `sizes` with ReLU and dropout between them.

    `input_dropout` silences whole feature columns for a step: as good as dropping single entries here,
    and far cheaper, because it acts on the weights.
    """

    def __init__(self, sizes: tuple[int, ...], dropout: float = 0.0, input_dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout, self.input_dropout = nn.Dropout(dropout), nn.Dropout(input_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, sizes[-1]]."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        h = nn.functional.linear(x, first.weight * self.input_dropout(torch.ones(x.shape[1])), first.bias)
        for layer in self.layers[1:]:
            h = layer(self.dropout(torch.relu(h)))
        return h


def with_prefix(prefix: str, state: State) -> State:
    """The same tensors under names that start with `prefix`."""
    return {prefix + name: tensor for name, tensor in state.items()}


def restore(module: nn.Module, state: State, prefix: str = "") -> nn.Module:
    """Load the tensors whose names start with `prefix` into `module`, ready for prediction."""
    module.load_state_dict({name[len(prefix) :]: tensor for name, tensor in state.items() if name.startswith(prefix)})
    return module.eval()


def predicted(module: nn.Module, x: Tensor) -> Tensor:
    """What a trained module says of rows [n, d], [n, c]."""
    with torch.no_grad():
        scores: Tensor = module.eval()(x)
    return scores
