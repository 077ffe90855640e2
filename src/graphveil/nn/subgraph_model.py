"""Message-passing networks over many small subgraphs in one block: the model, its aggregation and its forward pass.

A subgraph's answer is read at its centre alone. Aggregation is fixed and linear, so where every row is needed
it runs after the dense product, on narrow rows, and where only the centre is needed it runs before, on few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import elu, pad, relu

from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput
from graphveil.nn.aggregate import Operator
from graphveil.nn.sampling.subgraphs import Subgraphs

Kind = Literal["gcn", "sage", "gin"]
Activation = Literal["elu", "relu"]

_BLOCK = 1 << 14
"""Rows of a whole graph that are scaled or activated at a time."""

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"elu": elu, "relu": relu}


@dataclass(frozen=True)
class SubgraphModel:
    """Message passing, then a dense head, read at the centre: logits = act(... act(agg(x) W + b) ...)_centre W + b.

    agg (paper 000, appendix A.1), with N(u) the rows that u hears inside its subgraph and d_u = |N(u)| + 1:
    gcn  sum over N(u) + u of h_j / sqrt(d_j d_u);  sage  mean over N(u) + u;
    gin  sum over N(u) of h_j + (1 + lambda) h_u, with one learnt lambda per message-passing layer.
    """

    kind: Kind
    layers: int
    hidden: int
    activation: Activation
    classes: int
    width: int

    def __post_init__(self) -> None:
        known = self.kind in get_args(Kind) and self.activation in get_args(Activation) and self.layers in (1, 2)
        if not (known and min(self.hidden, self.classes, self.width) >= 1):
            raise InvalidInput(f"kinds gcn, sage, gin; 1 or 2 layers; elu or relu; sizes of at least 1, got {self}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of the features, every hidden layer and the logits."""
        return self.width, *[self.hidden] * self.layers, self.classes


@dataclass(frozen=True, eq=False)
class Layer:
    """One dense layer: weight [a, b], bias [b]; `own` is GIN's lambda, a scalar or one number per row [m, 1]."""

    weight: Tensor
    bias: Tensor
    own: Tensor | None = None

    @property
    def parts(self) -> list[Tensor]:
        """Its weights, in the order of `start`."""
        return [self.weight, self.bias] + ([] if self.own is None else [self.own])


def start(model: SubgraphModel, generator: torch.Generator | None = None) -> list[Tensor]:
    """Scaled Gaussian weights [a, b], zero biases [b] and, under GIN, zero lambdas []: layer after layer."""
    layers = []
    for depth, (a, b) in enumerate(pairwise(model.sizes)):
        own = torch.zeros((), device="cpu") if model.kind == "gin" and depth < model.layers else None
        weight = torch.randn(a, b, generator=generator) * (2 / a) ** 0.5
        layers.append(Layer(weight, weight.new_zeros(b), own))
    return [part for layer in layers for part in layer.parts]


def layers_of(model: SubgraphModel, weights: list[Tensor]) -> list[Layer]:
    """The weights of `start` grouped by layer."""
    parts = iter(weights)
    learnt = [model.kind == "gin" and depth < model.layers for depth in range(model.layers + 1)]
    return [Layer(next(parts), next(parts), next(parts) if own else None) for own in learnt]


def logits(model: SubgraphModel, weights: list[Tensor], batch: Subgraphs, x: Tensor) -> Tensor:
    """Logits of the k centres, [k, c]; differentiable in the weights. x: features of the rows, [r, d]."""
    return forward(model, layers_of(model, [weight.to(x.dtype) for weight in weights]), batch, x, Tape())


def logits_at_rows(
    model: SubgraphModel,
    weights: list[Tensor],
    batch: Subgraphs,
    x: Tensor,
    scaled: Callable[[Tensor], Tensor] = lambda rows: rows,
) -> Tensor:
    """Logits of every row and not of the centres alone, [r, c]. x: features of the rows, [r, d].

    `scaled` is what the network reads of some rows. What needs no other row is computed block by block, to save memory.
    """
    layers, sums = layers_of(model, [weight.to(x.dtype) for weight in weights]), sums_at_rows(model.kind, batch)
    act = _ACTIVATIONS[model.activation]
    h = _product(x, layers[0], scaled)
    for layer, following in pairwise(layers):
        h = _aggregate(sums, h, h, layer)
        h = _product(h, following, partial(_active, act=act, bias=layer.bias))
    return h + layers[-1].bias


def _active(rows: Tensor, act: Callable[[Tensor], Tensor], bias: Tensor) -> Tensor:
    return act(rows + bias)


def _product(rows: Tensor, layer: Layer, read: Callable[[Tensor], Tensor]) -> Tensor:
    """read(rows) W, a block at a time, [m, b]."""
    out = rows.new_empty(len(rows), layer.weight.shape[1])
    for first in range(0, len(rows), _BLOCK):
        out[first : first + _BLOCK] = read(rows[first : first + _BLOCK]) @ layer.weight
    return out


def place_blind_product(rows: Tensor, weight: Tensor) -> Tensor:
    """rows W [m, b] in which a row's result does not depend on the other rows, nor on where it lies among them.

    A matrix product may round a row differently near an edge of the matrix. So all products have the same number of
    rows, filled up with zeros, and a trial shows whether the place within such a block matters on this machine. If it
    does, products run in float64, where the difference is a millionth of a millionth.
    """
    if torch.is_grad_enabled() and weight.requires_grad:
        return rows @ weight
    blind = _place_blind(*weight.shape, rows.dtype, rows.device, torch.get_num_threads())
    kind, size = rows.dtype if blind else torch.float64, _full(rows.device)
    out = rows.new_empty(len(rows) + -len(rows) % size, weight.shape[1])
    for first in range(0, len(rows), size):
        block, goal = rows[first : first + size], out[first : first + size]
        full = block if len(block) == size else pad(block, (0, 0, 0, size - len(block)))
        if blind:
            torch.mm(full, weight, out=goal)
        else:
            goal.copy_(full.to(kind) @ weight.to(kind))
    return out[: len(rows)]


def _full(device: torch.device) -> int:
    """Rows of one such product: few on a processor, where the last block is mostly padding, many on a GPU."""
    return 512 if device.type == "cpu" else 8192


@lru_cache(maxsize=64)
def _place_blind(width: int, outputs: int, dtype: torch.dtype, device: torch.device, threads: int) -> bool:  # noqa: ARG001
    """Whether every row of a full block comes out the same, to the last bit, one place further down."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(_full(device), width, generator=generator, dtype=dtype).to(device)
    weight = torch.randn(width, outputs, generator=generator, dtype=dtype).to(device)
    return torch.equal((rows @ weight).roll(1, 0), rows.roll(1, 0) @ weight)


@dataclass(frozen=True, eq=False)
class Tape:
    """What every dense layer k computed: inputs[k] [m, a], products[k] = inputs[k] W_k [m, b] and shifted[k] [m, b].

    shifted[k] is what enters the activation, bias included. Rows m: one per subgraph, or all of them. Products always
    take part in autograd, also where nothing before them does.
    """

    inputs: list[Tensor] = field(default_factory=list)
    products: list[Tensor] = field(default_factory=list)
    shifted: list[Tensor] = field(default_factory=list)

    def dense(self, rows: Tensor, layer: Layer, one_by_one: bool = False) -> Tensor:
        """rows W; `one_by_one` for rows of which others may come and go: see `place_blind_product`."""
        product = place_blind_product(rows, layer.weight) if one_by_one else rows @ layer.weight
        if torch.is_grad_enabled() and not product.requires_grad:
            product.requires_grad_()
        self.inputs.append(rows.detach())
        self.products.append(product)
        return product

    def shift(self, rows: Tensor, layer: Layer) -> Tensor:
        """rows + b."""
        self.shifted.append(rows + layer.bias)
        return self.shifted[-1]


def forward(model: SubgraphModel, layers: list[Layer], batch: Subgraphs, x: Tensor, tape: Tape) -> Tensor:
    """Logits [k, c] of one block-diagonal pass, recorded on the tape."""
    if x.shape != (len(batch.nodes), model.width):
        raise InvalidInput(f"features must be [{len(batch.nodes)}, {model.width}], got {list(x.shape)}")
    act = _ACTIVATIONS[model.activation]
    centres = torch.from_numpy(batch.ptr[:-1]).to(x.device)
    h = x
    if model.layers == 2:
        product = tape.dense(x, layers[0], one_by_one=True)
        h = act(tape.shift(_aggregate(sums_at_rows(model.kind, batch), product, product, layers[0]), layers[0]))
    last = layers[model.layers - 1]
    own = h if last.own is None else h[centres]
    aggregated = _aggregate(sums_at_centres(model.kind, batch), h, own, last)
    h = act(tape.shift(tape.dense(aggregated, last), last))
    return tape.shift(tape.dense(h, layers[-1]), layers[-1])


def _aggregate(sums: Operator, rows: Tensor, own: Tensor, layer: Layer) -> Tensor:
    aggregated = sums @ rows
    return aggregated if layer.own is None else torch.addcmul(aggregated, 1 + layer.own, own)


def sums_at_rows(kind: Kind, batch: Subgraphs) -> Operator:
    """The aggregation of every row, [r, r]."""
    return _weighted(kind, batch, np.arange(len(batch.nodes)), batch.indptr, batch.indices)


def sums_at_centres(kind: Kind, batch: Subgraphs) -> Operator:
    """The aggregation of the centres, [k, r]."""
    centres = batch.ptr[:-1]
    counts = batch.indptr[centres + 1] - batch.indptr[centres]
    indptr = np.concatenate(([0], np.cumsum(counts)))
    arcs = np.arange(indptr[-1]) + np.repeat(batch.indptr[centres] - indptr[:-1], counts)
    return _weighted(kind, batch, centres, indptr, batch.indices[arcs])


def sums_by_subgraph(batch: Subgraphs) -> Operator:
    """The plain sum over each subgraph's rows, [k, r]."""
    count = len(batch.nodes)
    return Operator(batch.ptr, np.arange(count), np.ones(count), count)


def _weighted(kind: Kind, batch: Subgraphs, rows: Ids, indptr: Ids, indices: Ids) -> Operator:
    """Weights of the arcs into `rows` [m]; u itself joins them except under GIN, whose lambda is learnt."""
    if kind == "gin":
        return Operator(indptr, indices, np.ones(len(indices)), len(batch.nodes))
    indices = np.insert(indices, indptr[:-1], rows)
    indptr = indptr + np.arange(len(indptr))
    scale = 1 / (np.diff(batch.indptr) + 1)
    mine = np.repeat(scale[rows], np.diff(indptr))
    return Operator(indptr, indices, np.sqrt(mine * scale[indices]) if kind == "gcn" else mine, len(batch.nodes))
