"""Clipped gradients of a user's own module, which gets one subgraph at a time.

Nothing here relies on what the module's code does:

- The gradient of a subgraph is computed from that subgraph, the weights and a public key alone, and is clipped and
  summed here. `torch.func.vmap` runs the same function on a block of subgraphs; a module that vmap refuses, or that has
  a rule of its own for it, gets them one after the other.
- Every call has a fresh copy of the module, of all tensors it was made with, of the weights and of the subgraph, and
  the copies are thrown away: what it writes reaches neither another subgraph nor the release.
- The random generator starts again from the key in every call. So dropout is a function of the step and the shape of
  the subgraph, and does not depend on the rest of the batch.
- A subgraph counts zero if its gradient raises an error or is not finite: the error would reveal that it is there.

Python cannot stop a module from keeping data where no copy reaches: in a global, in a function that it holds, or in an
operator with its own rule for `vmap`. `module_checks` and trials on made-up data look for that.

Rounding. A subgraph must not depend on the others of its block even in the last digit, which relu could turn into a
different gradient (see nn/subgraph.py). Its block, and the size of that, follow from its own shape; blocks are padded
to that size; and a shape is computed in blocks only if, on made-up data, every place of a block gives the same bits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, TypeVar

import numba
import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, pad

from graphveil.nn.own_network import arguments, inputs_of, trainable
from graphveil.nn.sampling.subgraphs import Subgraphs

T = TypeVar("T")
Weights = dict[str, Tensor]

_ROUNDING = 1 + 1e-6
"""Computed norms may be a little too small and sums a little off; clip harder rather than exceed the bound."""

_BLOCKS = {16: 256, 64: 16}
"""Subgraphs of a block, by the rows that each may have at most; larger ones are computed alone."""
_MAX_BLOCK_NUMBERS = 1 << 22
"""Numbers in the gradients of one block, 16 MB: larger blocks are no faster, and their padding costs."""
_SMALL, _SMALL_BLOCK = 5, 32
"""Rows up to which few different graphs occur, so that those with the same arcs share a block where `vmap` refuses
different ones, as it does for PyG's convolutions that add loops; and its size, if they have more than three rows."""


@dataclass(frozen=True)
class Shape:
    """What the subgraphs of one block have in common: the number of rows and of arcs and, if shared, the arcs."""

    rows: int
    arcs: int
    shared: bytes | None

    def edge_index(self) -> Tensor | None:
        """The arcs that are shared, int64 [2, a]."""
        if self.shared is None:
            return None
        return torch.from_numpy(np.frombuffer(self.shared, np.int64).reshape(2, self.arcs).copy())


@dataclass(frozen=True, eq=False)
class OwnModel:
    """A user's module, of which only copies see data.

    initial: copies of all its tensors by name, as it was made. Every call gets copies of these: a function that the
    module holds, such as a hook, may write to the tensors of the original.
    in_blocks: which shapes may be computed in blocks, as far as they have been tried.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    initial: Weights
    in_blocks: dict[Shape, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, module: nn.Module) -> OwnModel:
        """The module with how it is called."""
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return cls(module, inputs_of(module), {name: part.detach().clone() for name, part in tensors.items()})

    def initial_weights(self) -> Weights:
        """The weights that are learnt, by name, as the module was made."""
        return {name: self.initial[name].clone() for name in trainable(self.module)}

    def start(self) -> list[Tensor]:
        """The same in order, without their names."""
        return list(self.initial_weights().values())

    def named(self, weights: list[Tensor]) -> Weights:
        """Weights in the order of `start`, by name."""
        return dict(zip(trainable(self.module), weights, strict=True))

    def state(self, weights: list[Tensor]) -> Weights:
        """The module's state_dict with these weights; buffers are those that it was made with."""
        tensors = {**self.initial, **self.named(weights)}
        # Tied weights have several names there, and one here.
        names = {id(part): name for name, part in (*self.module.named_parameters(), *self.module.named_buffers())}
        return {
            name: tensors[names.get(id(part), name)].detach().clone()
            for name, part in self.module.state_dict(keep_vars=True).items()
        }

    def logits(self, module: nn.Module, weights: Weights, x: Tensor, arcs: Tensor) -> Tensor:
        """Logits [c]: the centre's row, or the only one of a module that pools. x: [n, d]; arcs: int64 [2, a]."""
        tensors = {name: part.clone() for name, part in self.initial.items() if name not in weights}
        out: Tensor = functional_call(module, {**tensors, **weights}, arguments(self.inputs, x, arcs))
        if type(out) is not Tensor:  # a class of its own could take over what is done with it
            raise TypeError(f"scores must be a plain tensor, and are a {type(out).__name__}")
        return out if out.dim() == 1 else out[0]

    def loss(self, weights: Weights, x: Tensor, arcs: Tensor, y: Tensor, module: nn.Module) -> Tensor:
        """Cross-entropy of one subgraph; y: the centre's label, []."""
        return cross_entropy(self.logits(module, weights, x, arcs)[None], y[None])

    def alone(self, weights: Weights, x: Tensor, arcs: Tensor, y: Tensor, key: int) -> list[Tensor]:
        """The gradient of one subgraph, by plain autograd, in a block of one: [1, *] for every weight."""
        inputs = {name: part.detach().clone().requires_grad_() for name, part in weights.items()}
        with torch.enable_grad():
            torch.default_generator.manual_seed(key)
            # Copies: the base of a view would be the features of others.
            loss = self.loss(inputs, x.clone(), arcs.clone(), y.clone(), copy.deepcopy(self.module))
        found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
        return _of_right_shape([part[None] for part in found], weights, 1)

    def together(self, weights: Weights, x: Tensor, arcs: Tensor, y: Tensor, key: int) -> list[Tensor]:
        """The gradients of a block of subgraphs, [m, *] for every weight.

        x: [m, n, d]; arcs: int64 [2, a] that all share, or [m, 2, a]; y: [m].
        """
        one = grad(partial(self.loss, module=copy.deepcopy(self.module)))
        inputs = {name: part.detach().clone() for name, part in weights.items()}
        torch.default_generator.manual_seed(key)
        with _without_vmap_rules():
            found = vmap(one, (None, 0, _dim(arcs), 0), randomness="same")(inputs, x.clone(), arcs.clone(), y.clone())
        return _of_right_shape([found[name] for name in weights], weights, len(x))

    def block_size(self, shape: Shape) -> int:
        """How many subgraphs of this shape make a block, 1 if each is alone: a function of the shape and the module."""
        size = next((size for rows, size in _BLOCKS.items() if shape.rows <= rows), 1)
        if shape.shared is not None and shape.rows > 3 and shape != _star(shape.rows):
            size = min(size, _SMALL_BLOCK)
        size = min(size, _MAX_BLOCK_NUMBERS // max(sum(part.numel() for part in self.start()), 1))
        # A power of two: what is left over when vector lanes are filled takes other kernels, which may round otherwise.
        return 1 << max(size.bit_length() - 1, 0)

    def allows_blocks(self, shape: Shape, width: int, classes: int) -> bool:
        """Whether subgraphs of this shape may be computed in blocks, tried once on made-up data."""
        if shape not in self.in_blocks:
            tried = self.block_size(shape) > 1 and _guarded(partial(self._place_blind, shape, width, classes))
            self.in_blocks[shape] = bool(tried)
        return self.in_blocks[shape]

    def _place_blind(self, shape: Shape, width: int, classes: int) -> bool:
        """Whether a subgraph has the same bits in every place of a block, and alone the same but for rounding."""
        generator, size = torch.Generator().manual_seed(0), self.block_size(shape)
        x = torch.randn(size, shape.rows, width, generator=generator)
        y = torch.randint(classes, (size,), generator=generator)
        weights = {
            name: part + 0.1 * torch.randn(part.shape, generator=generator)
            for name, part in self.initial_weights().items()
        }
        arcs, rolled = shape.edge_index(), shape.edge_index()
        if arcs is None or rolled is None:
            arcs = torch.randint(shape.rows, (size, 2, shape.arcs), generator=generator)
            rolled = arcs.roll(1, 0)
        here = self.together(weights, x, arcs, y, key=0)
        there = self.together(weights, x.roll(1, 0), rolled, y.roll(1, 0), key=0)
        blind = all(torch.equal(a.roll(1, 0), b) for a, b in zip(here, there, strict=True))
        # The others of a block must not matter, however large they are.
        for scale in (1.0, 1e3):
            others = torch.cat([x[:1], scale * torch.randn(size - 1, shape.rows, width, generator=generator)])
            beside = self.together(weights, others, arcs, y, key=0)
            blind = blind and all(torch.equal(a[:1], b[:1]) for a, b in zip(here, beside, strict=True))
        alone = self.alone(weights, x[0], _one(arcs, 0), y[0], key=0)
        return blind and all(torch.allclose(a[:1], b, 1e-3, 1e-5) for a, b in zip(here, alone, strict=True))


@dataclass(frozen=True, eq=False)
class OwnGradients:
    """Gradients of k subgraphs by a user's module, which leave only as their clipped sum: `Contributions`.

    x: features of the rows, [r, d]; y: labels of the centres, [k], -1 for one that is absent and contributes zero.
    """

    model: OwnModel
    weights: Weights
    batch: Subgraphs
    x: Tensor
    y: Tensor
    classes: int
    key: int

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum of the gradients, each scaled down to length `clip`, flat float64 [p]; those not finite count zero."""
        total = np.zeros(sum(part.numel() for part in self.weights.values()))
        allows = partial(self.model.allows_blocks, width=self.x.shape[1], classes=self.classes)
        with torch.random.fork_rng(devices=[]):
            for shape, members in shapes_of(self.batch, self.y, allows).items():
                size = self.model.block_size(shape) if allows(shape) else 1
                for first in range(0, len(members), size):
                    for block in self._gradients(shape, members[first : first + size], size):
                        _add_clipped(total, block, clip)
        return torch.from_numpy(total)

    def _gradients(self, shape: Shape, members: list[int], size: int) -> Iterator[list[Tensor]]:
        """The gradients of subgraphs of one block, [m, *] for every weight.

        If one fails, each is computed again, in a block of the same size: with the same kernels, to the same bits.
        """
        x, arcs = read(self.batch, self.x, shape, members)
        found = _guarded(partial(self._block, x, arcs, self.y[members], size))
        if found is not None:
            yield found
        elif len(members) > 1:
            for member in members:
                yield from self._gradients(shape, [member], size)

    def _block(self, x: Tensor, arcs: Tensor, y: Tensor, size: int) -> list[Tensor]:
        """A block padded to `size` with zeros, whose gradients are dropped again."""
        if size == 1:
            return self.model.alone(self.weights, x[0], _one(arcs, 0), y[0], self.key)
        count, missing = len(x), size - len(x)
        arcs = arcs if _dim(arcs) is None else pad(arcs, (0, 0, 0, 0, 0, missing))
        full = pad(x, (0, 0, 0, 0, 0, missing)), arcs, pad(y, (0, missing))
        return [part[:count] for part in self.model.together(self.weights, *full, self.key)]


def shapes_of(
    batch: Subgraphs, y: Tensor | None = None, allows: Callable[[Shape], bool] = lambda _: False
) -> dict[Shape, list[int]]:
    """The subgraphs of every shape; those without a label, y [k] of -1, are left out.

    allows: whether a module takes subgraphs with different arcs in one block; small ones are grouped by arcs otherwise.
    """
    rows, arcs, centres = np.diff(batch.ptr), np.diff(batch.indptr[batch.ptr]), batch.ptr[:-1]
    into_centre = batch.indptr[centres + 1] - batch.indptr[centres]
    # Sources are listed once, ascending: as many as there are other rows, and none of them the centre, are all others.
    first = np.append(batch.indices, 0)[batch.indptr[centres]]
    stars = (into_centre == rows - 1) & (arcs == rows - 1) & ((into_centre == 0) | (first > centres))
    found: dict[Shape, list[int]] = {}
    for member in range(batch.count) if y is None else (y >= 0).nonzero().ravel().tolist():
        shape = _star(int(rows[member])) if stars[member] else Shape(int(rows[member]), int(arcs[member]), None)
        if shape.shared is None and shape.rows <= _SMALL and not allows(shape):
            shape = replace(shape, shared=arcs_of(batch, member).numpy().tobytes())
        found.setdefault(shape, []).append(member)
    return found


@lru_cache(maxsize=256)
def _star(rows: int) -> Shape:
    """An arc from every other row to the centre, and none else."""
    return Shape(rows, rows - 1, np.stack([np.arange(1, rows), np.zeros(rows - 1, np.int64)]).tobytes())


def arcs_of(batch: Subgraphs, member: int) -> Tensor:
    """The arcs of one subgraph, sources above targets, its rows counted from 0, int64 [2, a]."""
    first, last = batch.ptr[member], batch.ptr[member + 1]
    counts = np.diff(batch.indptr[first : last + 1])
    sources = batch.indices[batch.indptr[first] : batch.indptr[last]] - first
    return torch.from_numpy(np.stack([sources, np.repeat(np.arange(last - first), counts)]))


def read(batch: Subgraphs, x: Tensor, shape: Shape, members: list[int]) -> tuple[Tensor, Tensor]:
    """Features [m, n, d], and arcs [2, a] if shared or else [m, 2, a], of some subgraphs of one shape."""
    rows, shared = batch.ptr[members][:, None] + np.arange(shape.rows), shape.edge_index()
    arcs = shared if shared is not None else torch.stack([arcs_of(batch, member) for member in members])
    return x[torch.from_numpy(rows)], arcs


def _dim(arcs: Tensor) -> int | None:
    """The dimension of arcs along which subgraphs lie; None if they share them."""
    return None if arcs.dim() == 2 else 0


def _one(arcs: Tensor, place: int) -> Tensor:
    """The arcs of one subgraph of a block."""
    return arcs if _dim(arcs) is None else arcs[place]


def own_logits(model: OwnModel, weights: Weights, batch: Subgraphs, x: Tensor) -> Tensor:
    """Logits of the k centres, [k, c], each from its own subgraph, in evaluation mode. x: the rows' features [r, d]."""
    one, found = partial(model.logits, copy.deepcopy(model.module).eval(), weights), dict[int, Tensor]()
    with torch.no_grad():
        for shape, members in shapes_of(batch).items():
            size = max(1, (1 << 14) // shape.rows)
            for first in range(0, len(members), size):
                some = members[first : first + size]
                found |= dict(zip(some, _logits_of(one, *read(batch, x, shape, some)), strict=True))
    return torch.stack([found[member] for member in range(batch.count)])


def _logits_of(one: Callable[[Tensor, Tensor], Tensor], x: Tensor, arcs: Tensor) -> list[Tensor]:
    """`one(x[s], arcs[s])` of every subgraph: by vmap where the module allows it, else one after the other."""
    if len(x) > 1:
        found = _guarded(partial(vmap(one, (0, _dim(arcs)), randomness="same"), x, arcs))
        if found is not None:
            return list(found)
    return [one(x[place], _one(arcs, place)) for place in range(len(x))]


def _of_right_shape(found: list[Tensor], weights: Weights, count: int) -> list[Tensor]:
    """Gradients [m, *] of all weights, or an error: nothing else could be clipped."""
    for part, weight in zip(found, weights.values(), strict=True):
        if type(part) is not Tensor or part.shape != (count, *weight.shape):
            raise TypeError("a gradient is not of its weight's shape")
    return found


@contextmanager
def _without_vmap_rules() -> Iterator[None]:
    """Inside, a torch.autograd.Function with a rule of its own for `vmap`, which would see a whole block, fails."""
    real = vars(Function)["apply"]

    def apply(cls: type[Function], *args: Any, **named: Any) -> Any:
        if cls.vmap is not Function.vmap:
            raise TypeError(f"{cls.__name__} has a rule of its own for vmap, which sees all subgraphs of a block")
        return real.__func__(cls, *args, **named)

    setattr(Function, "apply", classmethod(apply))  # noqa: B010  # types do not know that it is put back below
    try:
        yield
    finally:
        setattr(Function, "apply", real)  # noqa: B010


def _guarded(work: Callable[[], T]) -> T | None:
    """What `work` gives, or None if the module failed: an error may follow from private data and reveal it."""
    try:
        return work()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit):
        return None


def _add_clipped(total: Any, gradients: list[Tensor], clip: float) -> None:
    """Add every gradient [m, *], scaled down to length `clip`, to the flat float64 [p]; those not finite count zero.

    By numba: torch, which makes float64 copies first, takes 1.2 to 3 times as long for the whole clipped sum.
    """
    rows = [part.detach().flatten(1).contiguous().numpy() for part in gradients]
    norms = np.sqrt(sum(map(_squared_lengths, rows)))
    weights = clip / np.maximum(norms * _ROUNDING, clip)
    for part, goal in zip(rows, np.split(total, np.cumsum([part.shape[1] for part in rows[:-1]])), strict=True):
        _add_weighted(goal, part, weights)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _squared_lengths(rows: Any) -> Any:
    """Of every row, float64 [m]."""
    found = np.zeros(len(rows))
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            found[i] += np.float64(rows[i, j]) * np.float64(rows[i, j])
    return found


@numba.njit(cache=True, nogil=True)
def _add_weighted(total: Any, rows: Any, weights: Any) -> None:
    """total += weights @ rows in float64. Weight 0, of an infinite norm, and NaN leave a row out."""
    for i in range(len(rows)):
        if weights[i] > 0:
            for j in range(rows.shape[1]):
                total[j] += weights[i] * np.float64(rows[i, j])
