"""A user's own module on made-up subgraphs, before anything private is read or charged: does it keep to itself?

A subgraph's answer and gradient must follow from that subgraph, the weights and torch's seed, whatever came before. The
engine (`own_gradients`) sees to that for all that a module holds; this check finds modules that would not work that
way, and those that keep something in a global, which no engine can see to.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from graphveil.errors import InvalidInput, Unsupported
from graphveil.nn.own_gradients import OwnModel
from graphveil.nn.own_network import Make, OwnNetwork, arguments, trainable

_INSTEAD = (
    "use LayerNorm, GroupNorm or torch_geometric.nn.GraphNorm, which read one subgraph, and keep nothing from one call "
    "to the next"
)
_CLOSE = (1e-3, 1e-4)
"""Relative and absolute difference that rounding may make where subgraphs lie side by side."""
_ROUNDS = 3
"""How often every made-up subgraph comes along: a cache may fill up first."""


def require_alone(network: OwnNetwork, features: int, classes: int) -> None:
    """Refuses a module that mixes subgraphs or keeps something of them, with the layer's name; says what to use."""
    if network.make is not None:
        _required(network.make, network, features, classes)


def require_rows(network: OwnNetwork, features: int, classes: int, rows_alone: bool = False) -> None:
    """Refuses a module that does not give a row of scores for every node of a made-up graph.

    For networks that read what is public or released, in which nodes may be mixed as one likes. rows_alone: rows are
    all that it gets.
    """
    if network.make is None:
        return
    with torch.random.fork_rng(devices=[]):
        module = network.module(features, classes)
        model = OwnModel.of(module)
        if rows_alone and model.inputs != ("x",):
            raise InvalidInput(f"{network.name} gets rows of numbers here, and no arcs: write forward(x)")
        x, arcs = list(_made_up(features))[-1]
        out = _Trial(network.name, model, features, classes).called(module, *arguments(model.inputs, x, arcs)).out
    if out.shape != (len(x), classes):
        raise InvalidInput(
            f"{network.name} gave {list(out.shape)} for a graph of {len(x)} nodes; a row of {classes} scores for every "
            "node is needed"
        )


@lru_cache(maxsize=64)
def _required(make: Make, network: OwnNetwork, features: int, classes: int) -> None:  # noqa: ARG001  # `make` tells apart
    """Once for every class: two that have the same name are two."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = OwnModel.of(network.module(features, classes))
        if other := [word for word, part in model.module.state_dict().items() if not isinstance(part, Tensor)]:
            raise InvalidInput(f"{network.name}: {other[0]!r} of its state_dict is no tensor, and cannot be saved")
        _Trial(network.name, model, features, classes).run()


@dataclass(frozen=True, eq=False)
class _Call:
    """What one layer read and said: the tensors among its arguments and its outputs."""

    layer: str
    kind: str
    read: list[Tensor]
    said: list[Tensor]


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a module made of one subgraph: its layers' calls, its output [*, c] and its gradient."""

    calls: list[_Call]
    out: Tensor
    gradient: list[Tensor] = field(default_factory=list)

    @property
    def all(self) -> list[Tensor]:
        return [self.out, *self.gradient]


@dataclass(frozen=True, eq=False)
class _Trial:
    """One module and what it is tried on."""

    name: str
    model: OwnModel
    features: int
    classes: int

    def run(self) -> None:
        """Everything that is tried, or the refusal."""
        self._require_layers()
        self._require_copies()
        subgraphs = list(_made_up(self.features))
        for training in (True, False):
            module = copy.deepcopy(self.model.module).train(training)
            first = [self._seen(module, x, arcs) for x, arcs in subgraphs]
            for (x, _), seen in zip(subgraphs, first, strict=True):
                self._require_answer(seen, len(x))
            for _ in range(_ROUNDS):
                for place in reversed(range(len(subgraphs))):
                    self._require_same(first[place], self._seen(module, *subgraphs[place]))
            self._require_buffers(module)
        if "batch" in self.model.inputs:
            self._require_apart(*subgraphs[-2:])
            self._require_apart(*reversed(subgraphs[-2:]))

    def _require_layers(self) -> None:
        for word, layer in self.model.module.named_modules():
            if isinstance(layer, _BatchNorm) or getattr(layer, "track_running_stats", False):
                self._refuse(word, type(layer).__name__, "normalises by statistics of other subgraphs")

    def _require_copies(self) -> None:
        """A copy of the module shares nothing with it: only copies see data, and each sees one subgraph."""
        copied = copy.deepcopy(self.model.module)
        parts = set(map(id, self.model.module.modules()))
        tensors = {part.data_ptr() for part in _held(self.model.module) if part.numel()}
        shared = any(id(part) in parts for part in copied.modules())
        if shared or any(part.data_ptr() in tensors for part in _held(copied) if part.numel()):
            raise Unsupported(f"{self.name}: a copy of it shares modules or tensors with it; leave deepcopy as it is")

    def _require_answer(self, seen: _Seen, rows: int) -> None:
        shapes = [(self.classes,), (1, self.classes), (rows, self.classes)]
        if tuple(seen.out.shape) not in shapes or not seen.out.is_floating_point():
            raise InvalidInput(
                f"{self.name} gave {list(seen.out.shape)} for a subgraph of {rows} nodes; a network gives a row of "
                f"{self.classes} scores for every node, the first of which is read, or one for the subgraph"
            )
        if not all(bool(part.isfinite().all()) for part in seen.all):
            raise InvalidInput(
                f"{self.name} gave NaN or infinity for a made-up subgraph of {rows} node(s), in its scores or their "
                "gradient; such subgraphs would count for nothing (a deviation of one row, say, needs a floor)"
            )

    def _require_same(self, before: _Seen, after: _Seen) -> None:
        """The same subgraph, weights and seed give the same bits."""
        if not _equal(before.all, after.all):
            for a, b in zip(before.calls, after.calls, strict=False):
                if _equal(a.read, b.read) and not _equal(a.said, b.said):
                    self._refuse(a.layer, a.kind, "answers otherwise once it has seen other subgraphs")
            self._refuse("", "", "answers otherwise once it has seen other subgraphs, or draws chance outside of torch")

    def _require_buffers(self, module: nn.Module) -> None:
        for word, weight in module.named_parameters():
            if not torch.equal(weight, self.model.kept[word]):
                self._refuse(word.rpartition(".")[0], "", f"writes into its weight {word!r} while it computes")
        before = self.model.kept
        for word, part in module.named_buffers():
            if word not in before or not torch.equal(part, before[word]):
                layer = word.rpartition(".")[0]
                kind = type(module.get_submodule(layer)).__name__
                self._refuse(layer, kind, f"writes what it sees into its buffer {word.rpartition('.')[2]!r}")

    def _require_apart(self, here: tuple[Tensor, Tensor], there: tuple[Tensor, Tensor]) -> None:
        """Two subgraphs side by side, told apart by `batch`, give the first the answer that it gets alone."""
        module = copy.deepcopy(self.model.module).eval()
        (x, arcs), (other, more) = here, there
        batch = torch.cat([torch.zeros(len(x)), torch.ones(len(other))]).long()
        alone = self.called(module, *arguments(self.model.inputs, x, arcs))
        both = self.called(module, torch.cat([x, other]), torch.cat([arcs, more + len(x)], dim=1), batch)
        pooled = len(alone.out) == 1
        if both.out.shape != (2 if pooled else len(batch), self.classes) or not _close(alone.out, both.out):
            for a, b in zip(alone.calls, both.calls, strict=False):
                if all(map(_close, a.read, b.read)) and not all(map(_close, a.said, b.said)):
                    self._refuse(a.layer, a.kind, "reads other subgraphs of a batch: it does not heed `batch`")
            self._refuse("", "", "reads other subgraphs of a batch: its forward does not heed `batch`")

    def _seen(self, module: nn.Module, x: Tensor, arcs: Tensor) -> _Seen:
        """The module's answer, and the gradient of the loss for class 0 at the centre."""
        seen = self.called(module, *arguments(self.model.inputs, x, arcs))
        weights = [part for name, part in module.named_parameters() if name in trainable(module)]
        row = seen.out if seen.out.dim() == 1 else seen.out[0]
        if not row.requires_grad:
            raise InvalidInput(f"{self.name} gives scores that depend on none of its weights: nothing would be learnt")
        loss = row.logsumexp(0) - row[0]
        found = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        return _Seen(seen.calls, seen.out.detach(), list(found))

    def called(self, module: nn.Module, *inputs: Tensor) -> _Seen:
        """What the module makes of these inputs, or an error with its own words: nothing of them is private."""
        torch.default_generator.manual_seed(1)
        try:
            with torch.enable_grad(), _watched(module) as calls:
                out = module(*(part.clone() for part in inputs))
        except Exception as error:
            raise InvalidInput(
                f"{self.name} failed on a made-up subgraph of {len(inputs[0])} node(s) and "
                f"{inputs[1].shape[1] if len(inputs) > 1 else 0} arc(s): {type(error).__name__}: {error}"
            ) from error
        if type(out) is not Tensor:
            raise InvalidInput(f"{self.name} gave {type(out).__name__}; a network gives one plain tensor of scores")
        return _Seen(calls, out)

    def _refuse(self, layer: str, kind: str, why: str) -> NoReturn:
        what = f"layer {layer!r} ({kind})" if layer else "its own code, outside of its layers,"
        raise Unsupported(
            f"{self.name}: {what} {why}; one subgraph's gradient would tell of others. Instead, {_INSTEAD}"
        )


def _held(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


@contextmanager
def _watched(module: nn.Module) -> Iterator[list[_Call]]:
    """What every layer reads and says inside, innermost first."""
    calls: list[_Call] = []

    def note(word: str, layer: nn.Module, read: Any, said: Any) -> None:
        calls.append(_Call(word, type(layer).__name__, _tensors(read), _tensors(said)))

    hooks = [
        layer.register_forward_hook(lambda layer, read, said, word=word: note(word, layer, read, said))
        for word, layer in module.named_modules()
        if word
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _tensors(value: Any) -> list[Tensor]:
    """Copies of the tensors in arguments or outputs."""
    if isinstance(value, Tensor):
        return [value.detach().clone()]
    return [part for one in value for part in _tensors(one)] if isinstance(value, list | tuple) else []


def _equal(a: list[Tensor], b: list[Tensor]) -> bool:
    """To the last bit."""
    return len(a) == len(b) and all(map(torch.equal, a, b))


def _close(alone: Tensor, both: Tensor) -> bool:
    """What a subgraph has alone stands first where it lies beside another; integers, such as arcs, are not compared."""
    if not alone.is_floating_point() or alone.dim() == 0:
        return True
    first = both[: len(alone)]
    return first.shape == alone.shape and torch.allclose(first, alone, *_CLOSE)


def _made_up(features: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Subgraphs of one node, of a pair, a star, a chain, and many arcs: features [n, d] and arcs int64 [2, a]."""
    chance = torch.Generator().manual_seed(0)
    dense = [(i, j) for i in range(5) for j in range(5) if i != j]
    for rows, arcs in (
        (1, []),
        (2, [(1, 0)]),
        (3, []),
        (5, [(i, 0) for i in range(1, 5)]),
        (4, [(3, 2), (2, 1), (1, 0)]),
        (5, dense),
    ):
        yield torch.randn(rows, features, generator=chance), torch.tensor(arcs, dtype=torch.int64).reshape(-1, 2).T
