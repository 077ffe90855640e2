"""A perceptron for public features, and how its weights travel in a release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor, nn

from graphveil.nn.features import Scaling
from graphveil.nn.rows import Rows, in_blocks
from graphveil.runtime.counter_rng import CounterRng
from graphveil.vocabulary import State


class Dropout(nn.Module):
    """Silences entries with probability `rate`, rounded to a multiple of 1/256, and stretches the others, in training.

    Hand-written because torch draws a whole random word for every entry, which takes longer than a small layer's
    products. A byte is enough.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.silenced = round(256 * rate)
        self.chance: CounterRng | None = None
        """Where bytes come from; None: torch's generator of the CPU, wherever x is."""

    def extra_repr(self) -> str:
        return f"{self.silenced}/256"

    def forward(self, x: Tensor) -> Tensor:
        """Like x."""
        if not self.training or not self.silenced:
            return x
        kept = self._bytes(x).to(x.device).view(x.shape) >= self.silenced
        return x * kept.to(x.dtype).mul_(256 / (256 - self.silenced))

    def of_relu(self, x: Tensor) -> Tensor:
        """What `forward` makes of relu(x), bit for bit; on a processor in one look at x, there and back."""
        if not self.training or not self.silenced or x.device.type != "cpu" or x.dtype is not torch.float32:
            silenced: Tensor = self(torch.relu(x))
            return silenced
        done: Tensor = _SilencedRelu.apply(x, self._bytes(x), self.silenced)  # type: ignore[no-untyped-call]  # as torch
        return done

    def _bytes(self, x: Tensor) -> Tensor:
        """A random byte for every entry of x, uint8 [numel]."""
        count = -(-x.numel() // 8)
        if self.chance is None:
            words = torch.empty(count, dtype=torch.int64, device="cpu").random_(-(2**63), None)
        else:
            words = self.chance.words(count)
        return words.view(torch.uint8)[: x.numel()]


class _SilencedRelu(torch.autograd.Function):
    """relu(x) 256 / (256 - silenced), or 0 where the entry's byte is below `silenced`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, drawn: Tensor, silenced: int) -> Tensor:
        ctx.stretch = np.float32(256 / (256 - silenced))
        given = x.detach().contiguous()
        out = torch.empty_like(given)
        _silence(given.view(-1).numpy(), drawn.numpy(), silenced, ctx.stretch, out.view(-1).numpy())
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (out,), grad = ctx.saved_tensors, grads[0].contiguous()
        back = torch.empty_like(grad)
        _silence_back(grad.view(-1).numpy(), out.view(-1).numpy(), ctx.stretch, back.view(-1).numpy())
        return back, None, None


@numba.njit(cache=True, nogil=True)
def _silence(x: Any, drawn: Any, silenced: Any, stretch: Any, out: Any) -> None:
    for i in range(len(x)):
        # What is no number stays none.
        out[i] = np.float32(0) if x[i] <= 0 else x[i] * (stretch if drawn[i] >= silenced else np.float32(0))


@numba.njit(cache=True, nogil=True)
def _silence_back(grad: Any, out: Any, stretch: Any, back: Any) -> None:
    for i in range(len(grad)):
        back[i] = grad[i] * (stretch if out[i] > 0 else np.float32(0))


@contextmanager
def counted(module: nn.Module, chance: CounterRng) -> Iterator[None]:
    """Inside, what `module` silences is drawn from `chance`: the same on every device, and fast on all."""
    drops = [part for part in module.modules() if isinstance(part, Dropout)]
    for number, part in enumerate(drops):
        part.chance = chance.stream(number)
    try:
        yield
    finally:
        for part in drops:
            part.chance = None


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
        kept = self.input_dropout(x.new_ones(x.shape[1])) if self.input_dropout.silenced else None
        h = nn.functional.linear(x, first.weight if kept is None else first.weight * kept, first.bias)
        for layer in self.layers[1:]:
            h = layer(self.dropout.of_relu(h))
        return h


class ScaledScorer(nn.Module):
    """`net` on features that are scaled first: x [n, d] -> [n, c]."""

    def __init__(self, net: nn.Module, scaling: Scaling) -> None:
        super().__init__()
        self.net, self.how = net, scaling.how
        kept = {"shift": scaling.shift, "factor": scaling.factor}
        self.scaling = nn.ParameterDict({name: nn.Parameter(part, False) for name, part in kept.items()})

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, c]."""
        scores: Tensor = self.net(Scaling(self.how, self.scaling["shift"], self.scaling["factor"])(x))
        return scores


def with_prefix(prefix: str, state: State) -> State:
    """The same tensors under names that start with `prefix`."""
    return {prefix + name: tensor for name, tensor in state.items()}


def restore(module: nn.Module, state: State, prefix: str = "") -> nn.Module:
    """Load the tensors whose names start with `prefix` into `module`, ready for prediction."""
    module.load_state_dict({name[len(prefix) :]: tensor for name, tensor in state.items() if name.startswith(prefix)})
    return module.eval()


def predicted(module: nn.Module, x: Rows, block: int | None = None) -> Tensor:
    """What a trained module says of rows [n, d], one by one, [n, c]."""
    module.eval()
    with torch.no_grad():
        return in_blocks(x.shape[0], lambda part: module(x[part]), block)
