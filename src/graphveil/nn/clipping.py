"""Per-example clipped gradients without materialising them ("ghost" book-keeping).

The gradient of example i at dense layer k is the outer product inputs[k][i] (x) signals[k][i], so its norm
is a product of two norms and the clipped sum is one weighted matrix product per layer. Hand-written: the
libraries that offer it clip per node row rather than per example on graph models.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from graphveil.nn.features import by_record, unit_rows

_ROUNDING = 1 + 1e-9
"""Computed norms may be a little too small; clip a little harder rather than exceed the bound."""


@dataclass(frozen=True, eq=False)
class ExampleGradients:
    """Gradients of m examples at all layers, as (input, signal) pairs: inputs[k] [m, a_k], signals[k] [m, b_k].

    `known` are the lengths [m] of inputs[0] where they were computed before: features do not change.
    """

    inputs: tuple[Tensor, ...]
    signals: tuple[Tensor, ...]
    known: Tensor | None = None

    def norms(self) -> Tensor:
        """Length of each example's whole gradient, float64 [m]."""
        first = lengths_of(self.inputs[0]) if self.known is None else self.known
        inputs = [first, *map(lengths_of, self.inputs[1:])]
        return lengths_of(torch.stack([a * lengths_of(b) for a, b in zip(inputs, self.signals, strict=True)], dim=1))

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum of the gradients, each scaled down to length `clip`, flat float64 [p]. Overflowed ones count zero."""
        norms = self.norms()
        live = norms.isfinite()
        if not bool(live.all()):
            return ExampleGradients(_rows(self.inputs, live), _rows(self.signals, live)).clipped_sum(clip)
        weights = (clip / (norms * _ROUNDING).clamp(min=clip))[:, None]
        products = []
        for a, b in zip(self.inputs, self.signals, strict=True):
            # float64: summation error must stay far below one clipped contribution.
            # The narrow factor goes first: twice as fast as a.T @ b.
            products.append(((b.double() * weights).T @ a.double()).T.flatten())
        return torch.cat(products)


@dataclass(frozen=True, eq=False)
class Vectors:
    """One vector for every protected contribution: rows [m, d]."""

    rows: Tensor

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum of the rows, each scaled down to length `clip`, float64 [d]. Those that are not finite count zero."""
        rows = self.rows.double()
        rows = rows[lengths_of(rows).isfinite()]
        return (rows * (clip / (lengths_of(rows) * _ROUNDING).clamp(min=clip))[:, None]).sum(dim=0)


def lengths_of(rows: Tensor) -> Tensor:
    """Length of each row in float64, where squares of float32 neither underflow nor overflow, [m]."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return lengths


def _rows(tensors: tuple[Tensor, ...], mask: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor[mask] for tensor in tensors)


def start_weights(sizes: tuple[int, ...]) -> list[Tensor]:
    """Zero for one layer (softmax regression), scaled Gaussians for more; weights[k] is [sizes[k], sizes[k+1]].

    Drawn on the CPU, for every device alike.
    """
    if len(sizes) == 2:
        return [torch.zeros(sizes, device="cpu")]
    return [torch.randn(a, b, device="cpu") * (2 / a) ** 0.5 for a, b in pairwise(sizes)]


def dense_logits(weights: list[Tensor], x: Tensor) -> Tensor:
    """relu(... relu(x W_0) W_1 ...) W_last, [m, c]."""
    h = x
    for depth, weight in enumerate(weights):
        h = (h if depth == 0 else h.relu()) @ weight
    return h


class DenseScorer(nn.Module):
    """`dense_logits` of features scaled record by record, plus `prior` [c] if there is one: x [n, d] -> [n, c]."""

    def __init__(self, weights: list[Tensor], prior: Tensor | None, scale: str) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(weight, requires_grad=False) for weight in weights)
        self.prior = None if prior is None else nn.Parameter(prior, requires_grad=False)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, c]."""
        logits = dense_logits(list(self.weights), with_bias(x, self.scale))
        return logits if self.prior is None else logits + self.prior


def dense_gradients(
    weights: list[Tensor], x: Tensor, y: Tensor, known: Tensor | None = None, prior: Tensor | None = None
) -> ExampleGradients:
    """Cross-entropy gradients of every example; one with label -1 is absent and contributes zero.

    x: [m, d]; `known`: the rows' lengths [m], if they are known already; `prior`: added to the logits, [c].
    """
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    h = x
    for weight in (weight.to(x.dtype) for weight in weights):
        inputs.append(h.detach())
        out = (h @ weight).requires_grad_() if not outputs else h @ weight
        outputs.append(out)
        h = out.relu()
    logits = outputs[-1] if prior is None else outputs[-1] + prior
    loss = cross_entropy(logits, y, ignore_index=-1, reduction="sum")
    return ExampleGradients(tuple(inputs), torch.autograd.grad(loss, outputs), known)


def flat(weights: list[Tensor]) -> Tensor:
    """All weights in one vector [p], in the order of `clipped_sum`."""
    return torch.cat([weight.flatten() for weight in weights])


def unflat(vector: Tensor, like: list[Tensor]) -> list[Tensor]:
    """Inverse of `flat` for weights shaped `like`."""
    parts = torch.split(vector, [weight.numel() for weight in like])
    return [part.reshape(weight.shape) for part, weight in zip(parts, like, strict=True)]


def with_bias(x: Tensor, scale: str) -> Tensor:
    """Features scaled record by record, a small constant appended, unit length again: [m, d] -> [m, d + 1]."""
    return unit_rows(torch.cat([by_record(x, scale), x.new_full((x.shape[0], 1), 0.1, dtype=torch.float32)], dim=1))
