"""A small GraphSAGE trained by hand: torch takes 2.5 times as long (many in one batch, bmm, autograd, fused Adam).

    h_i = dropout(relu(norm(x_i W + mean_{j -> i} x_j U))),   p_i = softmax(h_i V + mean_{j -> i} h_j V' + b)

It is a teacher (`graphveil.nn.teachers`) with its own nodes of one graph, the arcs among them, and a loss at those that
have labels; everything else about it follows from its `TeacherStart`. Inputs have no gradient and the mean of products
is the product of means, so a step is two products with the inputs each way, and the rest fits in a cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.nn.bits import BLOCK, Bits, packed, product
from graphveil.nn.sampling.splitmix import STEP, mix
from graphveil.vocabulary import Floats

Array = NDArray[np.float32]

_MOMENTUM, _EPSILON = 0.1, 1e-5
"""Of batch normalisation."""
_BETAS, _TINY = (0.9, 0.999), 1e-8
"""Of Adam."""


@dataclass(frozen=True)
class SageRecipe:
    """The paper's teacher (appendix G.1): hidden width, epochs of Adam, its learning rate, dropout."""

    hidden: int = 64
    epochs: int = 200
    learning_rate: float = 0.01
    dropout: float = 0.5

    def __post_init__(self) -> None:
        if min(self.hidden, self.epochs) < 1 or not 0 <= self.dropout < 1 or not self.learning_rate > 0:
            raise InvalidInput("a teacher needs hidden and epochs of at least 1, a learning rate and dropout in [0, 1)")


@dataclass(frozen=True, eq=False)
class TeacherStart:
    """A teacher's random draws: first weights, uniform in +-1/sqrt(inputs) as PyG draws them, and a dropout key.

    own, near: W and U, [d, h]; upper: V and V' one above the other, transposed, [2c, h]; bias: [c].
    """

    own: Array
    near: Array
    upper: Array
    bias: Array
    key: int

    @classmethod
    def draw(cls, seed: int, node: int, width: int, classes: int, recipe: SageRecipe) -> TeacherStart:
        """For the teacher that answers the public node `node`."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, node))))

        def uniform(fan: int, *shape: int) -> Array:
            return ((2 * rng.random(shape, dtype=np.float32) - 1) / np.float32(math.sqrt(fan))).astype(np.float32)

        own, near = uniform(width, width, recipe.hidden), uniform(width, width, recipe.hidden)
        upper, bias = uniform(recipe.hidden, 2 * classes, recipe.hidden), uniform(recipe.hidden, classes)
        return cls(own, near, upper, bias, int(rng.integers(2**63)))


@numba.njit(cache=True, nogil=True)
def dropout_factors(key: Any, epoch: int, rows: int, hidden: int, dropped: int) -> Any:
    """What multiplies a teacher's hidden units [rows, hidden]: 0 with probability p = dropped / 256, else 1 / (1 - p).

    A byte for every unit, by key and epoch: of SplitMix64, which is not for privacy noise.
    """
    out = np.empty((rows, hidden), np.float32)
    words = (hidden + 7) // 8
    factor = np.float32(256 / (256 - dropped))
    for i in range(rows):
        for w in range(words):
            word = mix(np.uint64(key) + np.uint64((epoch * rows + i) * words + w) * STEP)
            for byte in range(min(8, hidden - 8 * w)):
                kept = (word >> np.uint64(8 * byte)) & np.uint64(255) >= np.uint64(dropped)
                out[i, 8 * w + byte] = factor if kept else np.float32(0)
    return out


@numba.njit(cache=True, nogil=True)
def _adam(weights: Any, gradient: Any, first: Any, second: Any, rate: Any, bias1: Any, bias2: Any) -> None:
    """One step of Adam (Kingma & Ba 2015) in place, on flat float32 arrays; bias1, bias2: see `_adam_factors`."""
    for k in range(len(weights)):
        g = gradient[k]
        first[k] = np.float32(_BETAS[0]) * first[k] + np.float32(1 - _BETAS[0]) * g
        second[k] = np.float32(_BETAS[1]) * second[k] + np.float32(1 - _BETAS[1]) * g * g
        root = np.sqrt(second[k]) * bias2 + np.float32(_TINY)
        weights[k] -= rate * bias1 * first[k] / root


def _adam_factors(rate: float, step: int) -> tuple[np.float32, ...]:
    """The learning rate, 1 / (1 - beta_1^t) and 1 / sqrt(1 - beta_2^t)."""
    first, second = (1 - beta**step for beta in _BETAS)
    return np.float32(rate), np.float32(1 / first), np.float32(1 / math.sqrt(second))


class Inputs(Protocol):
    """The features x of a teacher's nodes, as what multiplies its weights."""

    def forward(self, weights: Array) -> Array:
        """x W, [n, h]. weights: [d, h]."""
        ...

    def backward(self, errors: Array) -> Array:
        """x^T E, [d, h]. errors: [n, h]."""
        ...


@dataclass(frozen=True, eq=False)
class DenseInputs:
    """Any features. x: [n, d]."""

    x: Tensor

    def forward(self, weights: Array) -> Array:
        """See `Inputs`."""
        return (self.x @ torch.from_numpy(weights)).numpy()

    def backward(self, errors: Array) -> Array:
        """See `Inputs`."""
        return (self.x.T @ torch.from_numpy(errors)).numpy()


@dataclass(frozen=True, eq=False)
class BinaryInputs:
    """Features that are zero or the row's `level`, float32 [n, 1], as bits: 2.2 times as fast as dense ones.

    rows, columns: the features packed by rows and by columns; scratch: see `product`.
    """

    rows: Bits
    columns: Bits
    level: Array
    scratch: Array

    @classmethod
    def of(cls, x: Tensor, scratch: Array) -> BinaryInputs:
        """x: [n, d]."""
        ones = x.numpy() != 0
        return cls(packed(ones), packed(ones.T), x.amax(dim=1, keepdim=True).numpy(), scratch)

    def forward(self, weights: Array) -> Array:
        """See `Inputs`."""
        out = self._product(self.rows, weights)
        out *= self.level
        return out

    def backward(self, errors: Array) -> Array:
        """See `Inputs`."""
        return self._product(self.columns, self.level * errors)

    def _product(self, bits: Bits, rows: Array) -> Array:
        out = np.empty((len(bits), rows.shape[1]), np.float32)
        product(bits, rows, self.scratch, out)
        return out


@numba.njit(cache=True, nogil=True)
def split(small: Any, hidden: int, classes: int) -> Any:
    """The weights above the first products: scale [h], shift [h], upper [2c, h] and bias [c]."""
    end = 2 * hidden + 2 * classes * hidden
    upper = small[2 * hidden : end].reshape(2 * classes, hidden)
    return small[:hidden], small[hidden : 2 * hidden], upper, small[end:]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _forward(hidden: Any, upper: Any, bias: Any, indptr: Any, indices: Any, out: Any) -> None:
    """Posteriors [n, c] into out[:, :c]; out: [n, 2c]. indptr, indices: the teacher's own arcs, by target."""
    rows, classes = len(hidden), len(bias)
    for i in range(rows):
        for k in range(2 * classes):
            total = np.float32(0)
            for j in range(hidden.shape[1]):
                total += hidden[i, j] * upper[k, j]
            out[i, k] = total
    logits = np.empty(classes, np.float32)
    for i in range(rows):
        degree = max(indptr[i + 1] - indptr[i], 1)
        logits[:] = 0
        for arc in range(indptr[i], indptr[i + 1]):
            for k in range(classes):
                logits[k] += out[indices[arc], classes + k]
        top = np.float32(-np.inf)
        for k in range(classes):
            logits[k] = logits[k] / np.float32(degree) + out[i, k] + bias[k]
            top = max(top, logits[k])
        total = np.float32(0)
        for k in range(classes):
            logits[k] = np.exp(logits[k] - top)
            total += logits[k]
        for k in range(classes):
            out[i, k] = logits[k] / total


@numba.njit(cache=True, nogil=True)
def _errors(out: Any, labels: Any, indptr: Any, indices: Any) -> None:
    """From posteriors in out[:, :c] to the loss's gradient by h V (left half) and by h V' (right half), in place."""
    classes = out.shape[1] // 2
    labelled = np.float32(max((labels >= 0).sum(), 1))
    out[:, classes:] = 0
    for i in range(len(out)):
        if labels[i] < 0:
            out[i, :classes] = 0
            continue
        out[i, labels[i]] -= np.float32(1)
        for k in range(classes):
            out[i, k] /= labelled
        degree = np.float32(max(indptr[i + 1] - indptr[i], 1))
        for arc in range(indptr[i], indptr[i + 1]):
            for k in range(classes):
                out[indices[arc], classes + k] += out[i, k] / degree


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _normalise(rows: Any, running: Any) -> Any:
    """Batch normalisation of rows [n, h] in place, before scale and shift; gives 1/deviation [h].

    running: mean and variance [2, h], moved on. Variance over n, and over n - 1 in `running`, as torch does.
    """
    count, hidden = rows.shape
    mean, square = np.zeros(hidden), np.zeros(hidden)
    for i in range(count):
        for j in range(hidden):
            mean[j] += rows[i, j]
    mean /= count
    for i in range(count):
        for j in range(hidden):
            gap = rows[i, j] - mean[j]
            square[j] += gap * gap
    inverse = np.empty(hidden, np.float32)
    for j in range(hidden):
        running[0, j] += np.float32(_MOMENTUM) * (np.float32(mean[j]) - running[0, j])
        running[1, j] += np.float32(_MOMENTUM) * (np.float32(square[j] / max(count - 1, 1)) - running[1, j])
        inverse[j] = np.float32(1 / np.sqrt(square[j] / count + _EPSILON))
    for i in range(count):
        for j in range(hidden):
            rows[i, j] = (rows[i, j] - np.float32(mean[j])) * inverse[j]
    return inverse


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _through(
    rows: Any, labels: Any, indptr: Any, indices: Any, small: Any, classes: int, running: Any, factors: Any
) -> Any:
    """The pass between both means: rows [n, h] become the loss's gradient by them.

    small: see `split`; gives the gradient by it.
    """
    count, hidden = rows.shape
    scale, shift, upper, bias = split(small, hidden, classes)
    inverse = _normalise(rows, running)
    active = np.empty_like(rows)
    for i in range(count):
        for j in range(hidden):
            active[i, j] = max(rows[i, j] * scale[j] + shift[j], np.float32(0)) * factors[i, j]
    out = np.empty((count, 2 * classes), np.float32)
    _forward(active, upper, bias, indptr, indices, out)
    _errors(out, labels, indptr, indices)
    gradient = np.zeros_like(small)
    by_scale, by_shift, by_upper, by_bias = split(gradient, hidden, classes)
    back = np.empty(hidden, np.float32)
    for i in range(count):
        back[:] = 0
        for k in range(2 * classes):
            error = out[i, k]
            if error != 0:
                for j in range(hidden):
                    back[j] += error * upper[k, j]
                    by_upper[k, j] += error * active[i, j]
        for k in range(classes):
            by_bias[k] += out[i, k]
        for j in range(hidden):
            active_back = back[j] * factors[i, j] if active[i, j] > 0 else np.float32(0)
            by_scale[j] += active_back * rows[i, j]
            by_shift[j] += active_back
            active[i, j] = active_back
    for i in range(count):
        for j in range(hidden):
            centred = active[i, j] - (by_shift[j] + rows[i, j] * by_scale[j]) / np.float32(count)
            rows[i, j] = scale[j] * inverse[j] * centred
    return gradient


@numba.njit(cache=True, nogil=True)
def _pass(
    own: Any, near: Any, slot: Any, labels: Any, indptr: Any, indices: Any, small: Any, running: Any, factors: Any
) -> Any:
    """The pass above the first products: gives the gradient by `small`.

    own: x W of the nodes; near: x U of those that others read, node i's in row slot[i]. Both become the gradients of
    the loss by them.
    """
    for i in range(len(own)):
        share = np.float32(1) / np.float32(max(indptr[i + 1] - indptr[i], 1))
        for arc in range(indptr[i], indptr[i + 1]):
            for j in range(own.shape[1]):
                own[i, j] += share * near[slot[indices[arc]], j]
    classes = (len(small) - 2 * own.shape[1]) // (2 * own.shape[1] + 1)
    gradient = _through(own, labels, indptr, indices, small, classes, running, factors)
    near[:] = 0
    for i in range(len(own)):
        share = np.float32(1) / np.float32(max(indptr[i + 1] - indptr[i], 1))
        for arc in range(indptr[i], indptr[i + 1]):
            for j in range(own.shape[1]):
                near[slot[indices[arc]], j] += share * own[i, j]
    return gradient


@dataclass(frozen=True, eq=False)
class SageTeacher:
    """own, near: W and U, [d, h]; small: all other weights, see `split`; running: see `_normalise`, [2, h]."""

    own: Array
    near: Array
    small: Array
    running: Array
    classes: int

    @classmethod
    def trained(cls, x: Tensor, y: Tensor, adj: Csr, ids: Ids, start: TeacherStart, recipe: SageRecipe) -> SageTeacher:
        """A teacher of the nodes `ids`, int64 [k] ascending. x: [n, d]; y: int64 [n], -1 where unlabelled."""
        inside = np.zeros(adj.num_nodes, dtype=bool)
        inside[ids] = True
        arcs, hidden = adj.within(inside), recipe.hidden
        small = np.concatenate([np.ones(hidden), np.zeros(hidden), start.upper.ravel(), start.bias]).astype(np.float32)
        running = np.stack([np.zeros(hidden, np.float32), np.ones(hidden, np.float32)])
        # Memory of torch's is aligned: a product could round otherwise from another place.
        own, near = (torch.from_numpy(part).clone().numpy() for part in (start.own, start.near))
        made = cls(own, near, small, running, len(start.bias))
        made._train(x[torch.from_numpy(ids)], y.numpy()[ids], arcs, start.key, recipe)
        return made

    def _train(self, x: Tensor, labels: Ids, arcs: Csr, key: int, recipe: SageRecipe) -> None:
        """All epochs. x: [k, d]; labels: [k]."""
        sends = np.bincount(arcs.indices, minlength=len(x)) > 0
        binary = bool(((x == 0) | (x == x.amax(dim=1, keepdim=True))).all())
        scratch = np.empty((256 * BLOCK, recipe.hidden), np.float32)
        rows, senders = (
            BinaryInputs.of(part, scratch) if binary else DenseInputs(part) for part in (x, x[torch.from_numpy(sends)])
        )
        slots, dropped = np.cumsum(sends) - 1, round(256 * recipe.dropout)
        parts = [part.ravel() for part in (self.own, self.near, self.small)]
        moments = [(np.zeros_like(part), np.zeros_like(part)) for part in parts]
        for epoch in range(recipe.epochs):
            above, near = rows.forward(self.own), senders.forward(self.near)
            factors = dropout_factors(np.uint64(key), epoch, len(x), recipe.hidden, dropped)
            by_small = _pass(above, near, slots, labels, arcs.indptr, arcs.indices, self.small, self.running, factors)
            rate = _adam_factors(recipe.learning_rate, epoch + 1)
            for part, slope, (first, second) in zip(
                parts, (rows.backward(above), senders.backward(near), by_small), moments, strict=True
            ):
                _adam(part, slope.ravel(), first, second, *rate)

    def posterior(self, x: Array, means: Array) -> Floats:
        """The posterior of a node [c], from its inputs (row 0) and those of its in-neighbours."""
        scale, shift, upper, bias = split(self.small, self.own.shape[1], self.classes)
        mean, variance = self.running
        normal = (x @ self.own + means @ self.near - mean) / np.sqrt(variance + _EPSILON)
        active = np.maximum(normal * scale + shift, 0)
        logits = upper[: self.classes] @ active[0] + bias
        if len(active) > 1:
            logits = logits + upper[self.classes :] @ active[1:].mean(axis=0)
        powers = np.exp(logits.astype(np.float64) - logits.max())
        posterior: Floats = powers / powers.sum()
        return posterior
