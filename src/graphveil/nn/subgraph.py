"""Clipped gradients of many subgraphs by "ghost" book-keeping: torch.func's vmap(grad) takes 11 to 42 times as long.

One forward and one backward pass to the layers' outputs give, for every dense layer, its inputs a and the loss's
derivative b by its product. The gradient of subgraph s is the sum over its rows i of a_i (x) b_i, so its squared
length is <A A^T, B B^T>, and the clipped sum over all subgraphs is one weighted matrix product.

Rounding. Norms and products come from the same (a, b), so errors before them do not lengthen a clipped gradient. But
a subgraph's gradient must not depend on the other subgraphs either, and the rounding of a matrix product does depend
on where a row lies. With one layer every product has one row per centre, and centres do not depend on private data.
With two layers a node adds rows in front of others: there the first product is `place_blind_product`, and what follows
is computed row by row. Should a last digit still differ somewhere, a smooth activation (elu) passes on just that;
relu's derivative jumps and could turn a gradient round, so methods refuse it there (`require_smooth`).

The weighted products run in float64, in blocks of B rows: casting one block at a time stays in the cache and costs
under a tenth of the product, and float64 everywhere is what makes a bound possible at all. float32 blocks of 64 rows
would be 1.8 times as fast at that product, but 22,000 rows x 64 x 2^-24 = 8% of one clip could be lost in the worst
case. Here, with m rows in k subgraphs, the sum is off by at most (B + m / B) 2^-53 times the sum over subgraphs of
the weighted lengths of their terms a_i (x) b_i. That is at most 100 clips each (see `_CANCELLED`), so two sums of
k = 4,096 subgraphs are together off by under 1e-6 of a clip, which `_ROUNDING` pays for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numba
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphveil.data.arcs import Ids
from graphveil.nn.clipping import lengths_of
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph_model import Layer, SubgraphModel, Tape, forward, layers_of, sums_by_subgraph
from graphveil.runtime.kernels import kernels

_ROUNDING = 1 + 1e-6
"""Computed norms may be a little too small and sums a little off; clip harder rather than exceed the bound."""

_CANCELLED = 1e-4
"""A squared length counts as at least this share of (sum of its terms' lengths)^2. Only a gradient whose terms
cancel to a hundredth is clipped harder for it, and rounding errors, which follow the terms, stay in proportion."""


@dataclass(frozen=True, eq=False)
class Materialised:
    """Gradients small enough to hold, of biases and lambdas: values [k, b]."""

    values: Tensor

    def squares(self) -> Tensor:
        """Squared length per subgraph, float64 [k]."""
        return _lengths(self.values).square()

    def weighted(self, weights: Tensor) -> Tensor:
        """Sum over subgraphs of weights[s] * gradient of s, flat float64. weights: float64 [k]."""
        return weights @ self.values.double()

    def only(self, live: Tensor) -> Materialised:
        """The same with the subgraphs outside the mask [k] set to zero."""
        return Materialised(_masked(self.values, live))


@dataclass(frozen=True, eq=False)
class Single:
    """One row per subgraph: gradient s is inputs[s] (x) signals[s]. inputs [k, a], signals [k, b]."""

    inputs: Tensor
    signals: Tensor

    def squares(self) -> Tensor:
        """Squared length per subgraph, float64 [k]."""
        return (_lengths(self.inputs) * _lengths(self.signals)).square()

    def by_row(self, values: Tensor) -> Tensor:
        """What every row has of the values [k] of the subgraphs."""
        return values

    def weighted(self, weights: Tensor) -> Tensor:
        """Sum over subgraphs of weights[s] * gradient of s, flat float64. weights: float64 [k]."""
        return _product(self.inputs, self.signals, self.by_row(weights))

    def only(self, live: Tensor) -> Self:
        """The same with the subgraphs outside the mask [k] set to zero."""
        rows = self.by_row(live)
        return replace(self, inputs=_masked(self.inputs, rows), signals=_masked(self.signals, rows))


@dataclass(frozen=True, eq=False)
class Several(Single):
    """Rows ptr[s] .. ptr[s+1]-1 per subgraph, gradient s the sum of inputs[i] (x) signals[i] over them.

    inputs [r, a], signals [r, b]; ptr int64 [k + 1]; on the rows' device, cuts: the same, and owners int64 [r], the
    subgraph of every row.
    """

    ptr: Ids
    cuts: Tensor
    owners: Tensor

    def squares(self) -> Tensor:
        """Sum over rows i, j of <inputs_i, inputs_j> <signals_i, signals_j>, float64 [k]."""
        gram, terms = (gram_on_cpu if self.inputs.device.type == "cpu" else gram_on_gpu)(self)
        return torch.maximum(gram, _CANCELLED * terms.square())

    def by_row(self, values: Tensor) -> Tensor:
        """See `Single`."""
        return values[self.owners]


GradientPart = Materialised | Single
"""One weight tensor's share of all k gradients."""


@dataclass(frozen=True, eq=False)
class SubgraphGradients:
    """Gradients of k subgraphs, one part per weight tensor in the order of `start`: `Contributions`."""

    parts: tuple[GradientPart, ...]

    def norms(self) -> Tensor:
        """Length of each subgraph's whole gradient, float64 [k]; not finite where anything overflowed."""
        return torch.stack([part.squares() for part in self.parts]).sum(dim=0).sqrt()

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum of the gradients, each scaled down to length `clip`, flat float64 [p]. Overflowed ones count zero."""
        norms = self.norms()
        total = _added(self.parts, norms, clip)
        # Last: a GPU has all its work by then, and is waited for only once.
        if math.isfinite(float(norms.sum())):
            return total
        live = norms.isfinite()
        return _added(tuple(part.only(live) for part in self.parts), torch.where(live, norms, 0.0), clip)


def _added(parts: tuple[GradientPart, ...], norms: Tensor, clip: float) -> Tensor:
    weights = clip / (norms * _ROUNDING).clamp(min=clip)
    return torch.cat([part.weighted(weights) for part in parts])


def gradients(model: SubgraphModel, weights: list[Tensor], batch: Subgraphs, x: Tensor, y: Tensor) -> SubgraphGradients:
    """Cross-entropy gradients of every subgraph; one whose label is -1 is absent and contributes zero.

    x: features of the rows, [r, d]; y: labels of the centres, [k].
    """
    frozen = layers_of(model, [weight.detach().to(x.dtype) for weight in weights])
    several = [model.layers == 2 and depth == 0 for depth in range(len(frozen))]
    layers = [_by_row(layer, len(x) if many else batch.count) for layer, many in zip(frozen, several, strict=True)]
    tape, depth = Tape(), len(layers)
    with torch.enable_grad():
        loss = cross_entropy(forward(model, layers, batch, x.detach(), tape), y, ignore_index=-1, reduction="sum")
    lambdas = [layer.own for layer in layers if layer.own is not None]
    found = torch.autograd.grad(loss, [*tape.products, *tape.shifted, *lambdas])
    by_product, by_shift, by_lambda = found[:depth], found[depth : 2 * depth], iter(found[2 * depth :])
    cuts = torch.from_numpy(batch.ptr).to(x.device) if any(several) else y.new_empty(0)
    owners = owners_of(cuts, len(x)) if any(several) else cuts
    parts: list[GradientPart] = []
    for layer, many, inputs, signals, shift in zip(layers, several, tape.inputs, by_product, by_shift, strict=True):
        own = [] if layer.own is None else [next(by_lambda)]
        if many:
            parts.append(Several(inputs, signals, batch.ptr, cuts, owners))
            parts += [Materialised(_summed(rows, batch, owners)) for rows in _fewer([shift, *own])]
        else:
            parts += [*_dense(inputs, signals), *map(Materialised, own)]
    return SubgraphGradients(tuple(parts))


def owners_of(cuts: Tensor, rows: int) -> Tensor:
    """The subgraph of every row, int64 [rows]; cuts: int64 [k + 1]."""
    return torch.repeat_interleave(cuts.diff(), output_size=rows)


def _fewer(small: list[Tensor]) -> list[Tensor]:
    """Tensors [m, *] in one on a GPU, where each kernel costs more than its numbers; as they are on a processor."""
    return [torch.cat(small, dim=1)] if small[0].device.type != "cpu" and len(small) > 1 else small


def _dense(inputs: Tensor, signals: Tensor) -> list[GradientPart]:
    """Weight and bias of a layer that is read at centres alone, whose product and bias have the same derivative."""
    if inputs.device.type == "cpu":
        return [Single(inputs, signals), Materialised(signals)]
    return [Single(with_one(inputs), signals)]


def with_one(inputs: Tensor) -> Tensor:
    """float64 [k, a + 1], a one behind every row: the bias is the weight of an input that is always one."""
    out = inputs.new_ones(len(inputs), inputs.shape[1] + 1, dtype=torch.float64)
    out[:, :-1] = inputs
    return out


def _summed(rows: Tensor, batch: Subgraphs, owners: Tensor) -> Tensor:
    """The sum over each subgraph's rows, [k, b]."""
    if rows.device.type == "cpu":
        return sums_by_subgraph(batch).forth(rows)
    return rows.new_zeros(batch.count, rows.shape[1]).index_add_(0, owners, rows)


def _by_row(layer: Layer, rows: int) -> Layer:
    """GIN's lambda once per row, so that autograd returns its gradient row by row, [rows, 1]."""
    return layer if layer.own is None else replace(layer, own=layer.own.repeat(rows, 1).requires_grad_())


def _masked(rows: Tensor, mask: Tensor) -> Tensor:
    """Rows outside the mask [m] set to zero: a weight of zero would not silence NaN."""
    return torch.where(mask[:, None], rows, 0.0)


_ON_GPU = 4096
"""Rows of a block on a GPU, where all blocks are multiplied at once."""


def _blocks(rows: Tensor) -> tuple[Tensor, ...]:
    """Few enough rows at a time that their float64 copies stay in a processor's cache."""
    return torch.split(rows, 512)


def _lengths(rows: Tensor) -> Tensor:
    """Length of each row, float64 [m]; by blocks, because torch copies to float64 first."""
    # A GPU converts as it reads.
    return lengths_of(rows) if rows.device.type != "cpu" else torch.cat([lengths_of(block) for block in _blocks(rows)])


def _product(inputs: Tensor, signals: Tensor, weights: Tensor) -> Tensor:
    """Sum over rows of weights[i] * inputs[i] (x) signals[i], flat float64 [a b]."""
    if inputs.device.type != "cpu":
        return product_at_once(inputs.double(), signals * weights[:, None])
    total = inputs.new_zeros(signals.shape[1], inputs.shape[1], dtype=torch.float64)
    for a, b, weight in zip(*map(_blocks, (inputs, signals, weights)), strict=True):
        # The narrow factor goes first: twice as fast as a.T @ b.
        total.addmm_((b.double() * weight[:, None]).T, a.double())
    return total.T.flatten()


def product_at_once(inputs: Tensor, signals: Tensor) -> Tensor:
    """Sum over rows of inputs[i] (x) signals[i], flat [a b], float64 like both: all full blocks by one kernel."""
    if len(inputs) <= _ON_GPU:  # one block, and a third of the kernels
        return (inputs.T @ signals).flatten()
    full = len(inputs) // _ON_GPU * _ON_GPU
    rest = inputs[full:].T @ signals[full:]
    blocks = (part[:full].view(-1, _ON_GPU, part.shape[1]) for part in (inputs, signals))
    return rest.add_(torch.bmm(next(blocks).mT, next(blocks)).sum(dim=0)).flatten()


def gram_on_cpu(rows: Several) -> tuple[Tensor, Tensor]:
    """Squared lengths and sums of the terms' lengths, float64 [k] each: every pair of rows once, nothing copied."""
    squares, terms = rows.inputs.new_empty(2, len(rows.ptr) - 1, dtype=torch.float64)
    inputs, signals = rows.inputs.contiguous().numpy(), rows.signals.contiguous().numpy()
    _gram(rows.ptr, inputs, signals, squares.numpy(), terms.numpy())
    return squares, terms


# Reordering a sum lets it use vector instructions; NaN and infinity keep their meaning.
@numba.njit(parallel=True, cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _gram(ptr: Any, inputs: Any, signals: Any, squares: Any, terms: Any) -> None:
    for s in numba.prange(len(ptr) - 1):
        square, length = 0.0, 0.0
        for i in range(ptr[s], ptr[s + 1]):
            for j in range(ptr[s], i):
                square += 2 * _dot(inputs[i], inputs[j]) * _dot(signals[i], signals[j])
            alone = _dot(inputs[i], inputs[i]) * _dot(signals[i], signals[i])
            square += alone
            length += np.sqrt(alone)
        squares[s] = square
        terms[s] = length


@numba.njit(cache=True, nogil=True, inline="always", fastmath={"reassoc", "contract"})
def _dot(a: Any, b: Any) -> Any:
    total = 0.0
    for c in range(len(a)):
        total += np.float64(a[c]) * np.float64(b[c])
    return total


_LARGEST = 512
"""Rows of the largest subgraph that one program of the kernel takes; its time grows with their square."""


def gram_on_gpu(rows: Several) -> tuple[Tensor, Tensor]:
    """The same on a GPU: by Triton's kernel where there is one."""
    small = np.diff(rows.ptr).max(initial=0) <= _LARGEST
    kernel = kernels(__name__, rows.inputs.device) if small else None
    return gram_by_size(rows) if kernel is None else kernel.gram(rows.inputs, rows.signals, rows.cuts)


def gram_by_size(rows: Several) -> tuple[Tensor, Tensor]:
    """The same from batched products over subgraphs of about as many rows, filled up with zeros, on their device."""
    sizes, width = np.diff(rows.ptr), rows.inputs.shape[1]
    squares, terms = rows.inputs.new_zeros(2, len(sizes), dtype=torch.float64)
    lengths = np.maximum(sizes, 1)
    # By powers of two from eight on: empty products cost a GPU less than many small ones.
    steps = 1 << np.maximum(np.ceil(np.log2(lengths)).astype(np.int64), 3)
    for size in np.unique(steps):
        # 64M numbers at a time bound the float64 copies.
        most = max(1, 2**26 // int(size * width))
        who = np.flatnonzero(steps == size)
        for part in np.split(who, range(most, len(who), most)):
            at = torch.from_numpy(np.stack([part, rows.ptr[part], sizes[part]])).to(squares.device)
            place = torch.arange(int(size), device=squares.device)
            members = (at[1][:, None] + place).clamp(max=len(rows.inputs) - 1)
            there = (place < at[2][:, None])[:, :, None]
            a = torch.where(there, rows.inputs[members], 0.0).double()
            b = torch.where(there, rows.signals[members], 0.0).double()
            products = torch.bmm(a, a.mT) * torch.bmm(b, b.mT)
            squares[at[0]] = products.sum(dim=(1, 2))
            terms[at[0]] = products.diagonal(dim1=1, dim2=2).sqrt().sum(dim=1)
    return squares, terms
