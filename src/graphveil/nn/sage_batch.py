"""Many small GraphSAGEs trained side by side, by hand.

    h_i = dropout(relu(norm(x_i W + mean_{j -> i} x_j U))),   p_i = softmax(h_i V + mean_{j -> i} h_j V' + b)

Each is a teacher (`graphveil.nn.teachers`) with its own nodes of one graph, the arcs among them, and a loss at those
that have labels. Hand-written passes, because inputs have no gradient and the mean of products is the product of means:
a step is two products with the inputs each way, and the rest fits in a cache. Teachers in one batch do not see each
other: all that one does follows from its own nodes and its `TeacherStart`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    """What chance gives a teacher: first weights, uniform in +-1/sqrt(inputs) as PyG draws them, and a dropout key.

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
def dropout_factors(key: int, epoch: int, rows: int, hidden: int, silenced: int) -> Any:
    """What multiplies a teacher's hidden units [rows, hidden]: 0 with probability silenced / 256, else its inverse.

    A byte for every unit, by key and epoch: of SplitMix64, which is not for privacy noise.
    """
    out = np.empty((rows, hidden), np.float32)
    words = (hidden + 7) // 8
    factor = np.float32(256 / (256 - silenced))
    for i in range(rows):
        for w in range(words):
            word = mix(np.uint64(key) + np.uint64((epoch * rows + i) * words + w) * STEP)
            for byte in range(min(8, hidden - 8 * w)):
                kept = (word >> np.uint64(8 * byte)) & np.uint64(255) >= np.uint64(silenced)
                out[i, 8 * w + byte] = factor if kept else np.float32(0)
    return out


@numba.njit(cache=True, nogil=True)
def _adam(weights: Any, gradient: Any, first: Any, second: Any, rate: Any, bias1: Any, bias2: Any) -> None:
    """One step of Adam (Kingma & Ba 2015) in place, on flat float32 arrays."""
    for k in range(len(weights)):
        g = gradient[k]
        first[k] = np.float32(_BETAS[0]) * first[k] + np.float32(1 - _BETAS[0]) * g
        second[k] = np.float32(_BETAS[1]) * second[k] + np.float32(1 - _BETAS[1]) * g * g
        root = np.sqrt(second[k]) * bias2 + np.float32(_TINY)
        weights[k] -= rate * bias1 * first[k] / root


class _Inputs(Protocol):
    """The features of several teachers' nodes, as what multiplies their weights."""

    def forth(self, weights: Tensor, out: Tensor) -> None:
        """x_t W_t for every teacher t. weights: [teachers, d, h]; out: [r, h], the teachers' rows in turn."""
        ...

    def back(self, errors: Tensor, out: Tensor) -> None:
        """x_t^T E_t for every teacher t. errors: [r, h]; out: [teachers, d, h]."""
        ...


@dataclass(frozen=True, eq=False)
class Dense:
    """Any features. rows: [r, d]; parts: each teacher's rows."""

    rows: Tensor
    parts: list[slice]

    @classmethod
    def of(cls, x: Tensor, groups: Sequence[Ids]) -> Dense:
        cuts = _cuts([len(ids) for ids in groups])
        parts = [slice(int(a), int(b)) for a, b in pairwise(cuts)]
        return cls(x[torch.from_numpy(np.concatenate(groups))], parts)

    def forth(self, weights: Tensor, out: Tensor) -> None:
        for t, part in enumerate(self.parts):
            torch.mm(self.rows[part], weights[t], out=out[part])

    def back(self, errors: Tensor, out: Tensor) -> None:
        for t, part in enumerate(self.parts):
            torch.mm(self.rows[part].T, errors[part], out=out[t])


@dataclass(frozen=True, eq=False)
class Flat:
    """Features that are zero or the row's `level`, as bits. level: float32 [r].

    bits: by rows, [r, b]; turned: each teacher's by columns, [d, b_t], one after another.
    """

    bits: Bits
    turned: Bits
    turned_cuts: Ids
    cuts: Ids
    level: Array

    @classmethod
    def of(cls, x: Tensor, groups: Sequence[Ids]) -> Flat:
        level = x.amax(dim=1).numpy()
        ones = [x.numpy()[ids] != 0 for ids in groups]
        turned = [packed(part.T).ravel() for part in ones]
        return cls(
            bits=np.concatenate([packed(part) for part in ones]),
            turned=np.concatenate(turned),
            turned_cuts=_cuts([len(part) for part in turned]),
            cuts=_cuts([len(ids) for ids in groups]),
            level=level[np.concatenate(groups)],
        )

    def forth(self, weights: Tensor, out: Tensor) -> None:
        tables = torch.empty(numba.get_num_threads(), 256 * BLOCK, out.shape[1]).numpy()
        _flat_forth(self.bits, self.cuts, self.level, weights.numpy(), tables, out.numpy())

    def back(self, errors: Tensor, out: Tensor) -> None:
        tables = torch.empty(numba.get_num_threads(), 256 * BLOCK, out.shape[2]).numpy()
        scaled = torch.from_numpy(self.level)[:, None] * errors
        _flat_back(self.turned, self.turned_cuts, self.cuts, scaled.numpy(), tables, out.numpy())


@numba.njit(parallel=True, cache=True, nogil=True)
def _flat_forth(bits: Any, cuts: Any, level: Any, weights: Any, tables: Any, out: Any) -> None:
    for t in numba.prange(len(weights)):
        table = tables[numba.get_thread_id()]  # type: ignore[attr-defined]  # numba does not list it
        product(bits[cuts[t] : cuts[t + 1]], weights[t], table, out[cuts[t] : cuts[t + 1]])
        for i in range(cuts[t], cuts[t + 1]):
            for j in range(out.shape[1]):
                out[i, j] *= level[i]


@numba.njit(parallel=True, cache=True, nogil=True)
def _flat_back(turned: Any, turned_cuts: Any, cuts: Any, errors: Any, tables: Any, out: Any) -> None:
    for t in numba.prange(len(out)):
        bits = turned[turned_cuts[t] : turned_cuts[t + 1]].reshape(out.shape[1], -1)
        table = tables[numba.get_thread_id()]  # type: ignore[attr-defined]  # numba does not list it
        product(bits, errors[cuts[t] : cuts[t + 1]], table, out[t])


@numba.njit(parallel=True, cache=True, nogil=True)
def _step_inputs(weights: Any, gradient: Any, first: Any, second: Any, rate: Any, bias1: Any, bias2: Any) -> None:
    """Adam on the first layer's weights, [2 teachers, d h] each."""
    for t in numba.prange(len(weights)):
        _adam(weights[t], gradient[t], first[t], second[t], rate, bias1, bias2)


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

    small: scale [h], shift [h], upper [2c h] and bias [c] in one; gives the gradient by it.
    """
    count, hidden = rows.shape
    scale, shift = small[:hidden], small[hidden : 2 * hidden]
    upper = small[2 * hidden : 2 * hidden + 2 * classes * hidden].reshape(2 * classes, hidden)
    bias = small[2 * hidden + 2 * classes * hidden :]
    inverse = _normalise(rows, running)
    active = np.empty_like(rows)
    for i in range(count):
        for j in range(hidden):
            active[i, j] = max(rows[i, j] * scale[j] + shift[j], np.float32(0)) * factors[i, j]
    out = np.empty((count, 2 * classes), np.float32)
    _forward(active, upper, bias, indptr, indices, out)
    _errors(out, labels, indptr, indices)
    gradient = np.zeros_like(small)
    by_scale, by_shift = gradient[:hidden], gradient[hidden : 2 * hidden]
    by_upper = gradient[2 * hidden : 2 * hidden + 2 * classes * hidden].reshape(2 * classes, hidden)
    by_bias = gradient[2 * hidden + 2 * classes * hidden :]
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
    cuts: Any,
    sender_cuts: Any,
    slots: Any,
    labels: Any,
    indptr: Any,
    indices: Any,
    arc_cuts: Any,
    small: Any,
    moments: Any,
    running: Any,
    keys: Any,
    epoch: int,
    silenced: int,
    rate: Any,
    bias1: Any,
    bias2: Any,
) -> None:
    """All teachers' passes above the first products, and Adam on what is above.

    rows: x W of all teachers' nodes; senders: x U of the nodes that others read, node i's in row slots[i].
    Both become the loss's gradients by them.
    """
    for t in numba.prange(len(cuts) - 1):
        first, last = cuts[t], cuts[t + 1]
        gradient = _pass(
            rows[first:last],
            senders[sender_cuts[t] : sender_cuts[t + 1]],
            slots[first:last],
            labels[first:last],
            indptr[first + t : last + t + 1],
            indices[arc_cuts[t] : arc_cuts[t + 1]],
            small[t],
            running[t],
            dropout_factors(keys[t], epoch, last - first, rows.shape[1], silenced),
        )
        _adam(small[t], gradient, moments[0, t], moments[1, t], rate, bias1, bias2)


@dataclass(frozen=True, eq=False)
class SageBatch:
    """A batch of teachers in training: their nodes one after another, their weights side by side.

    own: the features of all chosen nodes; near: of those that others hear; weights: W then U, [2, teachers, d, h];
    small: all other weights, see `_through`; running: [teachers, 2, h]. The rest as in `_step_above`.
    """

    own: _Inputs
    near: _Inputs
    cuts: Ids
    sender_cuts: Ids
    slots: Ids
    labels: Ids
    indptr: Ids
    indices: Ids
    arc_cuts: Ids
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
        inputs: type[Flat] | type[Dense],
    ) -> SageBatch:
        """Teachers at their start, each with its chosen nodes. x: [n, d]; y: int64 [n], -1 where unlabelled."""
        inside = np.zeros(adj.num_nodes, dtype=bool)
        subgraphs, senders, slots = [], [], []
        for ids in chosen:
            inside[ids] = True
            sub = adj.within(inside)
            inside[ids] = False
            spoken = np.bincount(sub.indices, minlength=len(ids)) > 0
            subgraphs.append(sub)
            senders.append(ids[spoken])
            slots.append(np.cumsum(spoken) - 1)
        hidden = recipe.hidden
        small = [np.concatenate([np.ones(hidden), np.zeros(hidden), s.upper.ravel(), s.bias]) for s in starts]
        return cls(
            own=inputs.of(x, chosen),
            near=inputs.of(x, senders),
            cuts=_cuts([len(ids) for ids in chosen]),
            sender_cuts=_cuts([len(ids) for ids in senders]),
            slots=np.concatenate(slots),
            labels=y.numpy()[np.concatenate(chosen)],
            indptr=np.concatenate([sub.indptr for sub in subgraphs]),
            indices=np.concatenate([sub.indices for sub in subgraphs]),
            arc_cuts=_cuts([sub.num_arcs for sub in subgraphs]),
            weights=torch.from_numpy(np.stack([[s.own for s in starts], [s.near for s in starts]])).clone(),
            small=np.stack(small).astype(np.float32),
            running=np.stack([np.stack([np.zeros(hidden), np.ones(hidden)])] * len(starts)).astype(np.float32),
            keys=np.array([s.key for s in starts], dtype=np.uint64),
            classes=len(starts[0].bias),
            recipe=recipe,
        )

    def train(self) -> None:
        """All epochs."""
        rows, senders = (torch.empty(int(cuts[-1]), self.recipe.hidden) for cuts in (self.cuts, self.sender_cuts))
        gradient, first = torch.empty_like(self.weights), torch.zeros_like(self.weights)
        second, moments = torch.zeros_like(self.weights), np.zeros((2, *self.small.shape), np.float32)
        silenced = round(256 * self.recipe.dropout)
        flat = [tensor.view(2 * len(self.keys), -1).numpy() for tensor in (self.weights, gradient, first, second)]
        for epoch in range(self.recipe.epochs):
            adam = (
                np.float32(self.recipe.learning_rate),
                np.float32(1 / (1 - _BETAS[0] ** (epoch + 1))),
                np.float32(1 / math.sqrt(1 - _BETAS[1] ** (epoch + 1))),
            )
            self.own.forth(self.weights[0], rows)
            self.near.forth(self.weights[1], senders)
            _step_above(
                rows.numpy(),
                senders.numpy(),
                self.cuts,
                self.sender_cuts,
                self.slots,
                self.labels,
                self.indptr,
                self.indices,
                self.arc_cuts,
                self.small,
                moments,
                self.running,
                self.keys,
                epoch,
                silenced,
                *adam,
            )
            self.own.back(rows, gradient[0])
            self.near.back(senders, gradient[1])
            _step_inputs(flat[0], flat[1], flat[2], flat[3], *adam)

    def posterior(self, place: int, x: Array, means: Array) -> Floats:
        """What a trained teacher says of a node [c], from the inputs of the node (row 0) and of those it hears."""
        hidden, small = self.recipe.hidden, self.small[place]
        own, near = self.weights[:, place].numpy()
        upper = small[2 * hidden : 2 * hidden + 2 * self.classes * hidden].reshape(2, self.classes, hidden)
        mean, variance = self.running[place]
        normal = (x @ own + means @ near - mean) / np.sqrt(variance + _EPSILON)
        active = np.maximum(normal * small[:hidden] + small[hidden : 2 * hidden], 0)
        logits = upper[0] @ active[0] + small[2 * hidden + upper.size :]
        if len(active) > 1:
            logits = logits + upper[1] @ active[1:].mean(axis=0)
        powers = np.exp(logits.astype(np.float64) - logits.max())
        posterior: Floats = powers / powers.sum()
        return posterior


def _cuts(sizes: Sequence[int]) -> Ids:
    """Where consecutive parts of these sizes begin and end, int64 [k + 1]."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
