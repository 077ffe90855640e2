"""Training steps on a GPU, recorded once and replayed: launching a small step takes longer than computing it.

    m <- beta m + (1 - beta) g,    v <- 0.999 v + 0.001 g^2,
    w <- w - rate (m / (1 - beta^t)) / (sqrt(v / (1 - 0.999^t)) + 1e-8)

Adam with decay of weights inside g, as torch has it, on all weights as one vector: its betas and rates are numbers on
the GPU, because a cycle of the learning rate changes both with every step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphveil.nn.rows import Rows
from graphveil.nn.targets import Targets
from graphveil.runtime.kernels import kernels
from graphveil.runtime.progress import Progress

_SECOND, _TINY = 0.999, 1e-8
_WARM_UP = 3
"""Steps before one is recorded, which are undone again: libraries initialise in them."""
_ROWS = 2048
"""Of a batch, as `nn.fit` draws them for many rows."""
_ALIGNED = 32
"""Weights begin at multiples of this many numbers."""


class Recorded:
    """Trains `module` from rows of x to targets, a replayed step for every batch; turn: int64 [], counts the steps."""

    def __init__(
        self, module: nn.Module, x: Rows, targets: Targets, weight_decay: float, turn: Tensor, progress: Progress
    ) -> None:
        self._progress = progress
        self._module, self._x, self._targets, self._decay, self._turn = module, x, targets, weight_decay, turn
        weights = list(module.parameters())
        self._pads = [weight.new_zeros(_padded_size(weight) - weight.numel()).detach() for weight in weights]
        self._weights = self._in_one(weights)
        self._first, self._second = torch.zeros_like(self._weights), torch.zeros_like(self._weights)
        self._numbers = torch.zeros(4, device=turn.device)
        self._steps, self._batch = 0, turn.new_empty(0)
        self._replay: Any = None

    def cycle(self, batches: Iterator[Tensor], steps: int, learning_rate: float) -> None:
        """One step for each of the first `steps` batches, in one cycle of the learning rate."""
        numbers = self._table(steps, learning_rate)
        self._module.train()
        tracked = self._progress.track(range(steps), "training on the GPU", rows=_ROWS)
        for step, batch in zip(tracked, batches, strict=False):
            if self._replay is None:
                self._replay = self._recorded(batch)
            self._batch.copy_(batch)
            self._numbers.copy_(numbers[step])
            self._replay.replay()
        self._steps += steps
        self._module.eval()

    def _table(self, steps: int, learning_rate: float) -> Tensor:
        """Of every step: 1 - beta, beta, rate / (1 - beta^t), 1 / sqrt(1 - 0.999^t), [steps, 4]."""
        one = torch.optim.Adam([torch.zeros(1, device="cpu", requires_grad=True)])
        cycle = torch.optim.lr_scheduler.OneCycleLR(one, learning_rate, total_steps=steps)
        found = []
        for step in range(steps):
            rate, beta, t = one.param_groups[0]["lr"], one.param_groups[0]["betas"][0], self._steps + step + 1
            found.append([1 - beta, beta, rate / (1 - beta**t), 1 / math.sqrt(1 - _SECOND**t)])
            one.step()
            cycle.step()
        return torch.tensor(found, dtype=torch.float32, device=self._turn.device)

    def _recorded(self, batch: Tensor) -> Any:
        self._batch = batch.clone()
        kept = [part.clone() for part in self._moving]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch does not type it
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        for part, before in zip(self._moving, kept, strict=True):
            part.copy_(before)
        return graph

    @property
    def _moving(self) -> tuple[Tensor, ...]:
        """What a step changes."""
        return self._weights, self._first, self._second, self._turn

    def _step(self) -> None:
        batch = self._batch
        loss = self._targets.loss(self._module(self._x[batch]), batch)
        found = torch.autograd.grad(loss / len(batch), list(self._module.parameters()))
        with torch.no_grad():
            self._move(self._joined(found))
        self._turn.add_(1)

    def _move(self, gradient: Tensor) -> None:
        if (kernel := kernels(__name__, self._turn.device)) is not None:
            kernel.move(self._weights, gradient, self._first, self._second, self._numbers, self._decay)
            return
        rest, beta, rate, root = self._numbers
        gradient = gradient + self._decay * self._weights
        self._first.mul_(beta).add_(gradient * rest)
        self._second.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
        self._weights.sub_(self._first / ((self._second.sqrt() * root).add_(_TINY)) * rate)

    def _in_one(self, weights: list[nn.Parameter]) -> Tensor:
        """All weights in one vector, of which they become parts."""
        whole = self._joined([weight.detach() for weight in weights])
        at = 0
        for weight in weights:
            weight.data = whole[at : at + weight.numel()].view_as(weight)
            at += _padded_size(weight)
        return whole

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        pairs = zip(parts, self._pads, strict=True)
        return torch.cat([piece for part, pad in pairs for piece in (part.reshape(-1), pad)])


def _padded_size(part: Tensor) -> int:
    return -(-part.numel() // _ALIGNED) * _ALIGNED
