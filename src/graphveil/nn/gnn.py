"""Message-passing networks without privacy: each layer is a fixed sparse product and dense weights."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from graphveil.data.arcs import Csr
from graphveil.nn.aggregate import Operator, mean_matrix


def symmetric_operator(adj: Csr) -> Operator:
    """(D + I)^-1/2 (A + I) (D + I)^-1/2 (Kipf & Welling 2017, equation 2)."""
    looped = sp.csr_array(adj.to_scipy() + sp.eye_array(adj.num_nodes, format="csr", dtype=np.float32))
    scale = sp.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return Operator.of(sp.csr_array(scale @ looped @ scale))


def first_order_operator(adj: Csr) -> Operator:
    """I + D^-1/2 A D^-1/2 (Kipf & Welling 2017, equation 6); isolated nodes hear themselves alone."""
    scale = sp.diags_array(1 / np.sqrt(np.maximum(adj.in_degrees(), 1)))
    return Operator.of(sp.csr_array(scale @ adj.to_scipy() @ scale + sp.eye_array(adj.num_nodes, format="csr")))


def walk_operator(adj: Csr) -> Operator:
    """D^-1/2 A D^-1/2; isolated nodes receive zero."""
    scale = sp.diags_array((np.maximum(np.diff(adj.indptr), 1) ** -0.5).astype(np.float32))
    return Operator.of(sp.csr_array(scale @ adj.to_scipy() @ scale))


def mean_operator(adj: Csr) -> Operator:
    """D^-1 A; isolated nodes receive zero."""
    return Operator.of(mean_matrix(adj))


def sum_operator(adj: Csr) -> Operator:
    """A itself."""
    return Operator.of(adj.to_scipy())


class GcnLayer(nn.Module):
    """A_hat (X W + b)."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, out)

    def forward(self, x: Tensor, operator: Operator) -> Tensor:
        """[n, width] -> [n, out]."""
        dense: Tensor = self.dense(x)
        return operator @ dense


class SageLayer(nn.Module):
    """X W_own + mean(X) W_near + b (Hamilton et al. 2017)."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.own, self.near = nn.Linear(width, out), nn.Linear(width, out, bias=False)

    def forward(self, x: Tensor, operator: Operator) -> Tensor:
        """[n, width] -> [n, out]. Weights go first: the mean of products is the product of means."""
        own: Tensor = self.own(x)
        near: Tensor = self.near(x)
        return own + operator @ near


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that takes a single row too, which torch refuses: it is its own mean, so the bias is left."""

    def forward(self, x: Tensor) -> Tensor:
        """[n, width] -> [n, width]."""
        return self.bias.expand_as(x) if self.training and len(x) == 1 else super().forward(x)


class GinLayer(nn.Module):
    """MLP((1 + lambda) X + A X) with a learnt lambda (Xu et al. 2019, equation 4.1)."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, out), nn.Linear(out, out)
        self.norm = BatchNorm(out)  # sums grow with the degree; the paper normalises them too
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, operator: Operator) -> Tensor:
        """[n, width] -> [n, out]. The first dense layer is linear, so it goes before the sum."""
        projected = self.first(x)
        mixed: Tensor = self.second(torch.relu(self.norm((1 + self.weight) * projected + operator @ projected)))
        return mixed


class HostDropout(nn.Dropout):
    """torch's, drawn by the generator of the CPU for every device: a seed gives one training."""

    def forward(self, x: Tensor) -> Tensor:
        """Like x."""
        if x.device.type == "cpu" or not self.training:
            return super().forward(x)
        kept = super().forward(torch.ones(x.shape, dtype=x.dtype, device="cpu")) > 0
        return x * kept.to(x.device) * (1 / (1 - self.p) if self.p < 1 else 0.0)


class Stack(nn.Module):
    """`layers` message-passing layers with ReLU and dropout between them."""

    def __init__(self, kind: type[nn.Module], sizes: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(a, b) for a, b in pairwise(sizes))
        self.dropout = HostDropout(dropout)

    def forward(self, x: Tensor, operator: Operator) -> Tensor:
        """Logits [n, sizes[-1]]."""
        h = x
        for depth, layer in enumerate(self.layers):
            h = layer(h if depth == 0 else self.dropout(torch.relu(h)), operator)
        return h
