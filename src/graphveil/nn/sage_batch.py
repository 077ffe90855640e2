"""Many small GraphSAGEs trained side by side, by hand: torch (bmm, autograd, fused Adam) takes 2.5 times as long.

    h_i = dropout(relu(norm(x_i W + mean_{j -> i} x_j U))),   p_i = softmax(h_i V + mean_{j -> i} h_j V' + b)

Each is a teacher (`graphveil.nn.teachers`) with its own nodes of one graph, the arcs among them, and a loss at those
that have labels. Inputs have no gradient and the mean of products is the product of means, so a step is two products
with the inputs each way, and the rest fits in a cache. Teachers of one batch do not see each other: a teacher's result
follows from its own nodes and its `TeacherStart`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

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
def dropout_factors(key: int, epoch: int, rows: int, hidden: int, dropped: int) -> Any:
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
def _adam(weights: Any, gradient: Any, first: Any, second: Any, factors: Any) -> None:
    """One step of Adam (Kingma & Ba 2015) in place, on flat float32 arrays; factors: see `_adam_factors`."""
    rate, bias1, bias2 = factors
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


class _Inputs(Protocol):
    """The features of several teachers' nodes, as what multiplies their weights."""

    def forward(self, weights: Tensor, out: Tensor) -> None:
        """x_t W_t for every teacher t. weights: [teachers, d, h]; out: [r, h], the teachers' rows one after another."""
        ...

    def backward(self, errors: Tensor, out: Tensor) -> None:
        """x_t^T E_t for every teacher t. errors: [r, h]; out: [teachers, d, h]."""
        ...


@dataclass(frozen=True, eq=False)
class DenseInputs:
    """Any features. rows: [r, d]; parts: each teacher's rows."""

    rows: Tensor
    parts: list[slice]

    @classmethod
    def of(cls, x: Tensor, groups: Sequence[Ids]) -> DenseInputs:
        parts = [slice(int(a), int(b)) for a, b in pairwise(_cuts(groups))]
        return cls(x[torch.from_numpy(np.concatenate(groups))], parts)

    def forward(self, weights: Tensor, out: Tensor) -> None:
        for weight, part in zip(weights, self.parts, strict=True):
            torch.mm(self.rows[part], weight, out=out[part])

    def backward(self, errors: Tensor, out: Tensor) -> None:
        for goal, part in zip(out, self.parts, strict=True):
            torch.mm(self.rows[part].T, errors[part], out=goal)


@dataclass(frozen=True, eq=False)
class BinaryInputs:
    """Features that are zero or the row's `level`, float32 [r, 1], as bits: 2.2 times as fast as dense ones.

    bits, transposed: each teacher's features packed by rows and by columns, flat, one teacher after another, with
    their cuts; rows: cuts of the teachers' rows.
    """

    bits: tuple[Bits, Ids]
    transposed: tuple[Bits, Ids]
    rows: Ids
    level: Tensor

    @classmethod
    def of(cls, x: Tensor, groups: Sequence[Ids]) -> BinaryInputs:
        ones = [x.numpy()[ids] != 0 for ids in groups]
        bits, transposed = [packed(part).ravel() for part in ones], [packed(part.T).ravel() for part in ones]
        level = x.amax(dim=1, keepdim=True)[torch.from_numpy(np.concatenate(groups))]
        joined = (np.concatenate(bits), _cuts(bits)), (np.concatenate(transposed), _cuts(transposed))
        return cls(joined[0], joined[1], _cuts(groups), level)

    def forward(self, weights: Tensor, out: Tensor) -> None:
        _multiply(self.bits, weights.flatten(0, 1), self._columns(weights), out, self.rows)
        out *= self.level

    def backward(self, errors: Tensor, out: Tensor) -> None:
        _multiply(self.transposed, self.level * errors, self.rows, out.flatten(0, 1), self._columns(out))

    @staticmethod
    def _columns(weights: Tensor) -> Ids:
        return np.arange(len(weights) + 1) * weights.shape[1]


def _multiply(bits: tuple[Bits, Ids], rows: Tensor, row_cuts: Ids, out: Tensor, out_cuts: Ids) -> None:
    """out_t = bits_t @ rows_t for every teacher t. rows, out: [*, h], of which the cuts say which are teacher t's."""
    tables = np.empty((numba.get_num_threads(), 256 * BLOCK, out.shape[1]), np.float32)
    _products(*bits, rows.numpy(), row_cuts, out.numpy(), out_cuts, tables)


@numba.njit(parallel=True, cache=True, nogil=True)
def _products(bits: Any, bit_cuts: Any, rows: Any, row_cuts: Any, out: Any, out_cuts: Any, tables: Any) -> None:
    for t in numba.prange(len(bit_cuts) - 1):
        table = tables[numba.get_thread_id()]  # type: ignore[attr-defined]  # numba does not list it
        goal, own = out[out_cuts[t] : out_cuts[t + 1]], bits[bit_cuts[t] : bit_cuts[t + 1]]
        own = own.reshape(len(goal), len(own) // max(len(goal), 1))
        product(own, rows[row_cuts[t] : row_cuts[t + 1]], table, goal)


@numba.njit(parallel=True, cache=True, nogil=True)
def _step_inputs(weights: Any, gradient: Any, first: Any, second: Any, factors: Any) -> None:
    """Adam on the first layer's weights, [2 teachers, d h] each."""
    for t in numba.prange(len(weights)):
        _adam(weights[t], gradient[t], first[t], second[t], factors)


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
    """One teacher's pass above the first products: rows [n, h] become the loss's gradient by them.

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


class Layout(NamedTuple):
    """Where the nodes and arcs of all teachers lie in a batch, as the compiled passes read it.

    cuts, sender_cuts, arc_cuts: each teacher's nodes, the nodes that others read, and its arcs, int64 [teachers + 1];
    slots: the row of node i among the senders, and labels: [r]; indptr, indices: the teachers' arcs, by target.
    """

    cuts: Ids
    sender_cuts: Ids
    arc_cuts: Ids
    slots: Ids
    labels: Ids
    indptr: Ids
    indices: Ids


@numba.njit(cache=True, nogil=True)
def _pass(
    own: Any, near: Any, slot: Any, labels: Any, indptr: Any, indices: Any, small: Any, running: Any, factors: Any
) -> Any:
    """One teacher's pass above the first products, see `_step_above`; gives the gradient by `small`."""
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


@numba.njit(parallel=True, cache=True, nogil=True)
def _step_above(
    rows: Any,
    senders: Any,
    layout: Any,
    small: Any,
    moments: Any,
    running: Any,
    keys: Any,
    epoch: int,
    dropped: int,
    factors: Any,
) -> None:
    """All teachers' passes above the first products, and Adam on the weights there.

    rows: x W of all teachers' nodes; senders: x U of the nodes that others read. Both become the loss's gradients by
    them. dropped: see `dropout_factors`.
    """
    for t in numba.prange(len(keys)):
        first, last = layout.cuts[t], layout.cuts[t + 1]
        gradient = _pass(
            rows[first:last],
            senders[layout.sender_cuts[t] : layout.sender_cuts[t + 1]],
            layout.slots[first:last],
            layout.labels[first:last],
            layout.indptr[first + t : last + t + 1],
            layout.indices[layout.arc_cuts[t] : layout.arc_cuts[t + 1]],
            small[t],
            running[t],
            dropout_factors(keys[t], epoch, last - first, rows.shape[1], dropped),
        )
        _adam(small[t], gradient, moments[0, t], moments[1, t], factors)


@dataclass(frozen=True, eq=False)
class SageBatch:
    """A batch of teachers in training: their nodes one after another, their weights side by side.

    own: the features of all chosen nodes; near: of those with an arc to another; weights: W then U,
    [2, teachers, d, h]; small: all other weights, see `split`; running: batch normalisation's, [teachers, 2, h].
    """

    own: _Inputs
    near: _Inputs
    layout: Layout
    weights: Tensor
    small: Array
    running: Array
    keys: NDArray[np.uint64]
    classes: int
    recipe: SageRecipe

    @classmethod
    def of(
        cls,
        x: Tensor,
        y: Tensor,
        adj: Csr,
        chosen: Sequence[Ids],
        starts: Sequence[TeacherStart],
        recipe: SageRecipe,
        inputs: type[BinaryInputs] | type[DenseInputs],
    ) -> SageBatch:
        """Teachers at their start, each with its chosen nodes. x: [n, d]; y: int64 [n], -1 where unlabelled."""
        inside = np.zeros(adj.num_nodes, dtype=bool)
        subgraphs, senders, slots = [], [], []
        for ids in chosen:
            inside[ids] = True
            sub = adj.within(inside)
            inside[ids] = False
            sends = np.bincount(sub.indices, minlength=len(ids)) > 0
            subgraphs.append(sub)
            senders.append(ids[sends])
            slots.append(np.cumsum(sends) - 1)
        indices, hidden = [sub.indices for sub in subgraphs], recipe.hidden
        layout = Layout(
            cuts=_cuts(chosen),
            sender_cuts=_cuts(senders),
            arc_cuts=_cuts(indices),
            slots=np.concatenate(slots),
            labels=y.numpy()[np.concatenate(chosen)],
            indptr=np.concatenate([sub.indptr for sub in subgraphs]),
            indices=np.concatenate(indices),
        )
        small = [np.concatenate([np.ones(hidden), np.zeros(hidden), s.upper.ravel(), s.bias]) for s in starts]
        return cls(
            own=inputs.of(x, chosen),
            near=inputs.of(x, senders),
            layout=layout,
            weights=torch.from_numpy(np.stack([[s.own for s in starts], [s.near for s in starts]])),
            small=np.stack(small).astype(np.float32),
            running=np.tile(np.stack([np.zeros(hidden, np.float32), np.ones(hidden, np.float32)]), (len(starts), 1, 1)),
            keys=np.array([s.key for s in starts], dtype=np.uint64),
            classes=len(starts[0].bias),
            recipe=recipe,
        )

    def train(self) -> None:
        """All epochs."""
        layout, dropped = self.layout, round(256 * self.recipe.dropout)
        rows, senders = (torch.empty(cuts[-1], self.recipe.hidden) for cuts in (layout.cuts, layout.sender_cuts))
        gradient, first, second = (torch.zeros_like(self.weights) for _ in range(3))
        flat = [part.view(2 * len(self.keys), -1).numpy() for part in (self.weights, gradient, first, second)]
        moments = np.zeros((2, *self.small.shape), np.float32)
        above = rows.numpy(), senders.numpy(), layout, self.small, moments, self.running, self.keys
        for epoch in range(self.recipe.epochs):
            factors = _adam_factors(self.recipe.learning_rate, epoch + 1)
            self.own.forward(self.weights[0], rows)
            self.near.forward(self.weights[1], senders)
            _step_above(*above, epoch, dropped, factors)
            self.own.backward(rows, gradient[0])
            self.near.backward(senders, gradient[1])
            _step_inputs(flat[0], flat[1], flat[2], flat[3], factors)

    def posterior(self, place: int, x: Array, means: Array) -> Floats:
        """A trained teacher's posterior of a node [c], from its inputs (row 0) and those of its in-neighbours."""
        scale, shift, upper, bias = split(self.small[place], self.recipe.hidden, self.classes)
        own, near = self.weights[:, place].numpy()
        mean, variance = self.running[place]
        normal = (x @ own + means @ near - mean) / np.sqrt(variance + _EPSILON)
        active = np.maximum(normal * scale + shift, 0)
        logits = upper[: self.classes] @ active[0] + bias
        if len(active) > 1:
            logits = logits + upper[self.classes :] @ active[1:].mean(axis=0)
        powers = np.exp(logits.astype(np.float64) - logits.max())
        posterior: Floats = powers / powers.sum()
        return posterior


def _cuts(parts: Sequence[NDArray[Any]]) -> Ids:
    """Where these parts begin and end one after another, int64 [k + 1]."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
