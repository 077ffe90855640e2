"""Clipped gradients of a user's own module, which gets one subgraph at a time.

The module's code is no evidence of anything, so nothing here depends on what it does:

- A subgraph's gradient is computed from that subgraph, the weights and a public key alone, is clipped here, and is
  added up here. `vmap` runs one and the same function on many subgraphs side by side; a module that does not allow it,
  or says itself what `vmap` does, gets them one after the other.
- Every call has a fresh copy of the module and copies of all tensors that it was made with, of the weights and of the
  subgraph, which are thrown away: what it writes reaches neither another subgraph nor the release.
- Chance begins anew at the key in every call. So dropout is a function of the step and the shape of the subgraph, and
  who else is in the batch does not move it.
- What fails, or is not finite, counts zero: an error that one subgraph raises would tell that it is there.

What Python cannot prevent is a module that keeps data where no copy reaches, in a global, in a function that it holds,
or in an operator of its own with a rule for `vmap`: `own_check` and trials on made-up data look for that.

Rounding. A subgraph must not depend on its neighbours in a block by a last digit either, which relu could turn into a
different gradient (see nn/subgraph.py). Which block it joins, and how large that is, follows from its own shape;
blocks are filled up; and a shape runs side by side only if, on made-up data, every place of the block gives the same
bits. Otherwise it runs alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
"""Subgraphs of a block, by the rows that each may have at most; larger ones run alone."""
_BLOCK_NUMBERS = 1 << 22
"""Numbers of a block's gradients at most, 16 MB: more do not gain, and what fills up blocks costs."""
_SMALL = 3
"""Rows up to which there are few different subgraphs, so that those with the same arcs share a block; stars do too."""
_FEW, _FEW_BLOCK = 5, 32
"""Rows up to which that is so where a module does not take different arcs side by side, and subgraphs of a block then.

PyG's convolutions that add loops look for those that are there, which `vmap` refuses unless all have the same arcs.
"""


@dataclass(frozen=True)
class Shape:
    """What subgraphs in one block have in common: their rows, the number of their arcs and, if shared, the arcs."""

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
    """A user's module as the engine runs it: copies of it see data, and it does not.

    kept: copies of all its tensors by name, as it was made. Every call gets copies of these, whatever became of the
    module's own: a function that it holds, a hook say, may still write to the module that the copies were made of.
    side_by_side: which shapes may share a block, as far as they have been tried.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    kept: Weights
    side_by_side: dict[Shape, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, module: nn.Module) -> OwnModel:
        """The module with how it is called."""
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return cls(module, inputs_of(module), {name: part.detach().clone() for name, part in tensors.items()})

    def start(self) -> list[Tensor]:
        """The weights that are learnt, as the module has them."""
        return [self.kept[name].clone() for name in trainable(self.module)]

    def named(self, weights: list[Tensor]) -> Weights:
        """Weights in the order of `start`, by name."""
        return dict(zip(trainable(self.module), weights, strict=True))

    def state(self, weights: list[Tensor]) -> Weights:
        """The module's state_dict with these weights; buffers are those that it was made with."""
        held = {**self.kept, **self.named(weights)}
        # Tied weights have several names there, and one here.
        twins = {id(part): name for name, part in (*self.module.named_parameters(), *self.module.named_buffers())}
        return {
            name: held[twins.get(id(part), name)].detach().clone()
            for name, part in self.module.state_dict(keep_vars=True).items()
        }

    def row(self, module: nn.Module, weights: Weights, x: Tensor, arcs: Tensor) -> Tensor:
        """Logits [c]: the centre's row, or the only one of a module that pools. x: [n, d]; arcs: int64 [2, a]."""
        held = {name: part.clone() for name, part in self.kept.items() if name not in weights}
        out: Tensor = functional_call(module, {**held, **weights}, arguments(self.inputs, x, arcs))
        if type(out) is not Tensor:  # a class of its own could take over what is done with it
            raise TypeError(f"scores must be a plain tensor, and are a {type(out).__name__}")
        return out if out.dim() == 1 else out[0]

    def loss(self, weights: Weights, x: Tensor, arcs: Tensor, y: Tensor, module: nn.Module) -> Tensor:
        """Cross-entropy of one subgraph; y: the centre's label, []."""
        return cross_entropy(self.row(module, weights, x, arcs)[None], y[None])

    def alone(self, weights: Weights, x: Tensor, arcs: Tensor, y: Tensor, key: int) -> list[Tensor]:
        """The gradient of one subgraph, by plain autograd, in a block of one: [1, *] for every weight."""
        inputs = {name: part.detach().clone().requires_grad_() for name, part in weights.items()}
        with torch.enable_grad():
            torch.default_generator.manual_seed(key)
            # Copies: a view would lead to the features of others.
            loss = self.loss(inputs, x.clone(), arcs.clone(), y.clone(), copy.deepcopy(self.module))
        found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
        return _whole([part[None] for part in found], weights, 1)

    def together(self, weights: Weights, x: Tensor, arcs: Tensor, y: Tensor, key: int) -> list[Tensor]:
        """The gradients of a block of subgraphs, [m, *] for every weight.

        x: [m, n, d]; arcs: int64 [2, a] that all have, or [m, 2, a]; y: [m].
        """
        one = grad(partial(self.loss, module=copy.deepcopy(self.module)))
        # What a module writes into weights or features goes to copies that are thrown away.
        inputs = {name: part.detach().clone() for name, part in weights.items()}
        sides = (None, 0, None if arcs.dim() == 2 else 0, 0)
        torch.default_generator.manual_seed(key)
        with _no_rules_of_their_own():
            found = vmap(one, in_dims=sides, randomness="same")(inputs, x.clone(), arcs.clone(), y.clone())
        return _whole([found[name] for name in weights], weights, len(x))

    def block(self, shape: Shape) -> int:
        """How many subgraphs of this shape make a block; 1 if each runs alone. A function of the shape alone."""
        size = next((size for rows, size in _BLOCKS.items() if shape.rows <= rows), 1)
        if shape.shared is not None and shape.rows > _SMALL and shape != _star(shape.rows):
            size = min(size, _FEW_BLOCK)
        size = min(size, _BLOCK_NUMBERS // max(sum(part.numel() for part in self.start()), 1))
        # A power of two: what is left over when lanes are filled takes other kernels, and may differ by a last digit.
        return 1 << max(size.bit_length() - 1, 0)

    def allows(self, shape: Shape, width: int, classes: int) -> bool:
        """Whether subgraphs of this shape may run side by side, tried once on made-up data."""
        if shape not in self.side_by_side:
            self.side_by_side[shape] = self.block(shape) > 1 and bool(
                _guarded(partial(self._tried, shape, width, classes))
            )
        return self.side_by_side[shape]

    def _tried(self, shape: Shape, width: int, classes: int) -> bool:
        """Every place of a block gives the same bits, and what the subgraph gives alone but for rounding."""
        chance, size = torch.Generator().manual_seed(0), self.block(shape)
        x = torch.randn(size, shape.rows, width, generator=chance)
        y = torch.randint(classes, (size,), generator=chance)
        weights = {
            name: part + 0.1 * torch.randn(part.shape, generator=chance) for name, part in self.made_up().items()
        }
        shared = shape.edge_index()
        arcs = torch.randint(shape.rows, (size, 2, shape.arcs), generator=chance) if shared is None else shared
        here = self.together(weights, x, arcs, y, key=0)
        moved = arcs if shared is not None else arcs.roll(1, 0)
        there = self.together(weights, x.roll(1, 0), moved, y.roll(1, 0), key=0)
        first = self.alone(weights, x[0], arcs if shared is not None else arcs[0], y[0], key=0)
        blind = all(torch.equal(a.roll(1, 0), b) for a, b in zip(here, there, strict=True))
        # Others that are far larger, and others still: what they are must not matter.
        for scale in (1.0, 1e3):
            strangers = torch.cat([x[:1], scale * torch.randn(size - 1, shape.rows, width, generator=chance)])
            beside = self.together(weights, strangers, arcs, y, key=0)
            blind = blind and all(torch.equal(a[:1], b[:1]) for a, b in zip(here, beside, strict=True))
        return blind and all(torch.allclose(a[:1], b, 1e-3, 1e-5) for a, b in zip(here, first, strict=True))

    def made_up(self) -> Weights:
        """The weights that the module was made with."""
        return self.named(self.start())


@dataclass(frozen=True, eq=False)
class OwnGradients:
    """Gradients of k subgraphs by a user's module, known through their clipped sum alone: `Contributions`.

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
        """Sum of the gradients, each scaled down to length `clip`, flat float64 [p]. What is not finite counts zero."""
        total = np.zeros(sum(part.numel() for part in self.weights.values()))
        with torch.random.fork_rng(devices=[]):
            for shape, members in self._shapes():
                for block in self._blocks(shape, members):
                    _add_clipped(total, block, clip)
        return torch.from_numpy(total)

    def _shapes(self) -> Iterator[tuple[Shape, list[int]]]:
        """Which subgraphs have which shape: those that may not share a block do so with their equals, if small."""
        for shape, members in shapes_of(self.batch, self.y).items():
            if shape.shared is not None or shape.rows > _FEW or self._allows(shape):
                yield shape, members
            else:
                yield from _by_arcs(self.batch, shape, members).items()

    def _allows(self, shape: Shape) -> bool:
        return self.model.allows(shape, self.x.shape[1], self.classes)

    def _blocks(self, shape: Shape, members: list[int]) -> Iterator[list[Tensor]]:
        """The gradients of subgraphs of one shape, some at a time, [m, *] for every weight."""
        allowed = self._allows(shape)
        size = self.model.block(shape) if allowed else 1
        for first in range(0, len(members), size):
            some = members[first : first + size]
            x, arcs, y = self._read(shape, some)
            if not allowed:
                yield from self._one_by_one(x, arcs, y)
            elif (found := _guarded(partial(self._together, x, arcs, y, size))) is not None:
                yield found
            else:
                yield from self._each_in_a_block(x, arcs, y, size)

    def _each_in_a_block(self, x: Tensor, arcs: Tensor, y: Tensor, size: int) -> Iterator[list[Tensor]]:
        """Subgraphs of a block in which one failed, each in a block of zeros: the same kernels, and the same bits."""
        for place in range(len(x)):
            own = arcs if arcs.dim() == 2 else arcs[place : place + 1]
            some = x[place : place + 1], own, y[place : place + 1], size
            if (found := _guarded(partial(self._together, *some))) is not None:
                yield found

    def _together(self, x: Tensor, arcs: Tensor, y: Tensor, size: int) -> list[Tensor]:
        """A block that is filled up to `size` with zeros, whose gradients are dropped again."""
        count, fill = len(x), size - len(x)
        arcs = arcs if arcs.dim() == 2 else pad(arcs, (0, 0, 0, 0, 0, fill))
        full = pad(x, (0, 0, 0, 0, 0, fill)), arcs, pad(y, (0, fill))
        return [part[:count] for part in self.model.together(self.weights, *full, self.key)]

    def _one_by_one(self, x: Tensor, arcs: Tensor, y: Tensor) -> Iterator[list[Tensor]]:
        for place in range(len(x)):
            own = arcs if arcs.dim() == 2 else arcs[place]
            found = _guarded(partial(self.model.alone, self.weights, x[place], own, y[place], self.key))
            if found is not None:
                yield found

    def _read(self, shape: Shape, members: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Features [m, n, d], arcs [2, a] or [m, 2, a], and labels [m] of some subgraphs of one shape."""
        starts = self.batch.ptr[members]
        x = self.x[torch.from_numpy(starts[:, None] + np.arange(shape.rows))]
        shared = shape.edge_index()
        arcs = shared if shared is not None else torch.stack([arcs_of(self.batch, member) for member in members])
        return x, arcs, self.y[members]


def shapes_of(batch: Subgraphs, y: Tensor | None = None) -> dict[Shape, list[int]]:
    """Which subgraphs have which shape; those without a label, y [k] of -1, are left out."""
    rows, arcs = np.diff(batch.ptr), np.diff(batch.indptr[batch.ptr])
    centres = batch.ptr[:-1]
    heard = batch.indptr[centres + 1] - batch.indptr[centres]
    # Sources are listed once, ascending: as many as there are other rows, and none of them the centre, are all others.
    first = np.append(batch.indices, 0)[batch.indptr[centres]]
    stars = (heard == rows - 1) & (arcs == rows - 1) & ((heard == 0) | (first > centres))
    found: dict[Shape, list[int]] = {}
    for member in range(batch.count) if y is None else (y >= 0).nonzero().ravel().tolist():
        size = int(rows[member])
        if stars[member]:
            shape = _star(size)
        else:
            shared = arcs_of(batch, member).numpy().tobytes() if size <= _SMALL else None
            shape = Shape(size, int(arcs[member]), shared)
        found.setdefault(shape, []).append(member)
    return found


def _by_arcs(batch: Subgraphs, shape: Shape, members: list[int]) -> dict[Shape, list[int]]:
    """Subgraphs with as many rows and arcs as `shape` says, by which arcs they are."""
    found: dict[Shape, list[int]] = {}
    for member in members:
        found.setdefault(Shape(shape.rows, shape.arcs, arcs_of(batch, member).numpy().tobytes()), []).append(member)
    return found


@lru_cache(maxsize=256)
def _star(rows: int) -> Shape:
    """Every other row sends to the centre, and nothing else."""
    return Shape(rows, rows - 1, np.stack([np.arange(1, rows), np.zeros(rows - 1, np.int64)]).tobytes())


def arcs_of(batch: Subgraphs, member: int) -> Tensor:
    """The arcs of one subgraph, sources above targets, its rows counted from 0, int64 [2, a]."""
    first, last = batch.ptr[member], batch.ptr[member + 1]
    counts = np.diff(batch.indptr[first : last + 1])
    sources = batch.indices[batch.indptr[first] : batch.indptr[last]] - first
    return torch.from_numpy(np.stack([sources, np.repeat(np.arange(last - first), counts)]))


def own_logits(model: OwnModel, weights: Weights, batch: Subgraphs, x: Tensor) -> Tensor:
    """Logits of the k centres, [k, c], each from its own subgraph, in evaluation mode. x: the rows' features [r, d]."""
    module, found = copy.deepcopy(model.module).eval(), dict[int, Tensor]()
    one = partial(model.row, module, weights)
    with torch.no_grad():
        for shape, members in shapes_of(batch).items():
            shared = shape.edge_index()
            size = max(1, (1 << 14) // shape.rows)
            for first in range(0, len(members), size):
                some = members[first : first + size]
                rows = x[torch.from_numpy(batch.ptr[some][:, None] + np.arange(shape.rows))]
                arcs = shared if shared is not None else torch.stack([arcs_of(batch, member) for member in some])
                found |= dict(zip(some, _side_by_side(one, rows, arcs), strict=True))
    return torch.stack([found[member] for member in range(batch.count)])


def _side_by_side(one: Callable[[Tensor, Tensor], Tensor], x: Tensor, arcs: Tensor) -> list[Tensor]:
    """`one(x[s], arcs[s])` of every subgraph: by vmap where the module allows it, else one after the other."""
    many = None
    if len(x) > 1:
        many = _guarded(partial(vmap(one, in_dims=(0, None if arcs.dim() == 2 else 0), randomness="same"), x, arcs))
    if many is not None:
        return list(many)
    return [one(x[place], arcs if arcs.dim() == 2 else arcs[place]) for place in range(len(x))]


def _whole(found: list[Tensor], weights: Weights, count: int) -> list[Tensor]:
    """Gradients [m, *] of all weights, if they are that and no more: nothing else could be clipped."""
    for part, weight in zip(found, weights.values(), strict=True):
        if type(part) is not Tensor or part.shape != (count, *weight.shape):
            raise TypeError("a gradient is not of its weight's shape")
    return found


@contextmanager
def _no_rules_of_their_own() -> Iterator[None]:
    """Inside, a torch.autograd.Function that says itself what `vmap` does, and so sees a whole block, fails."""
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
    """What `work` gives, or None if the module failed: an error may follow from private data, and tells of it."""
    try:
        return work()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit):
        return None


def _add_clipped(total: Any, gradients: list[Tensor], clip: float) -> None:
    """Add every gradient [m, *], scaled down to length `clip`, to the flat float64 [p]."""
    rows = [part.detach().reshape(len(part), -1).contiguous().numpy() for part in gradients]
    norms = np.sqrt(sum(_squares(part) for part in rows))
    live = np.isfinite(norms)
    weights = np.where(live, clip / np.maximum(np.where(live, norms, 0.0) * _ROUNDING, clip), 0.0)
    place = 0
    for part in rows:
        _add(total[place : place + part.shape[1]], part, weights)
        place += part.shape[1]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _squares(rows: Any) -> Any:
    """The squared length of every row, float64 [m]."""
    found = np.empty(len(rows))
    for i in range(len(rows)):
        square = 0.0
        for j in range(rows.shape[1]):
            square += np.float64(rows[i, j]) * np.float64(rows[i, j])
        found[i] = square
    return found


@numba.njit(cache=True, nogil=True)
def _add(total: Any, rows: Any, weights: Any) -> None:
    """total += weights @ rows in float64. A row of weight zero is left out: zero times NaN is NaN."""
    for i in range(len(rows)):
        if weights[i] > 0:
            for j in range(rows.shape[1]):
                total[j] += weights[i] * np.float64(rows[i, j])
