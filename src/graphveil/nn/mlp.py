"""A perceptron for public features, and how its weights travel in a release."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from graphveil.core import State


class Dropout(nn.Module):
    """Silences entries with probability `rate`, rounded to a multiple of 1/256, and stretches the others, in training.

    Hand-written because torch draws a whole random word for every entry, which takes longer than a small layer's
    products. A byte is enough.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.silenced = round(256 * rate)

    def extra_repr(self) -> str:
        return f"{self.silenced}/256"

    def forward(self, x: Tensor) -> Tensor:
        """Like x."""
        if not self.training or not self.silenced:
            return x
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.silenced
        return x * kept.to(x.device, x.dtype).mul_(256 / (256 - self.silenced))


class Perceptron(nn.Module):
    """Dense layers of the given `sizes` with ReLU and dropout between them.

    `input_dropout` silences whole feature columns for a step: as good as dropping single entries here,
    and far cheaper, because it acts on the weights.
    """

    def __init__(self, sizes: tuple[int, ...], dropout: float = 0.0, input_dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout, self.input_dropout = Dropout(dropout), Dropout(input_dropout)

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
