"""Checks on made-up graphs that a user's module treats subgraphs independently and keeps no state.

The scores and the gradient of a subgraph must follow from that subgraph, the weights and torch's seed, whatever was
computed before. The engine (`own_gradients`) enforces that for all that a module holds. These checks run before
anything private is read or charged; they name the layer that would not work so, and find what is kept in a global,
which the engine cannot reach.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
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
_TOLERANCE = (1e-3, 1e-4)
"""Relative and absolute difference that rounding may make where subgraphs are computed in one batch."""
_ROUNDS = 3
"""How often every made-up subgraph is computed again: a cache may fill up first."""


def require_independent(network: OwnNetwork, features: int, classes: int) -> None:
    """Refuses a module that mixes subgraphs or keeps something of them, and names the layer and what to use instead."""
    if network.make is not None:
        _checked(network.make, network, features, classes)


def require_rows(network: OwnNetwork, features: int, classes: int, rows_alone: bool = False) -> None:
    """Refuses a module that does not give a row of scores for every node of a made-up graph.

    For networks that read what is public or released, where nodes may be mixed freely. rows_alone: it gets no arcs.
    """
    if network.make is None:
        return
    with torch.random.fork_rng(devices=[]):
        module = network.module(features, classes)
        check = ModuleCheck(network.name, OwnModel.of(module), classes)
        if rows_alone and check.model.inputs != ("x",):
            raise InvalidInput(f"{network.name} gets rows of numbers here, and no arcs: write forward(x)")
        x, arcs = made_up_subgraphs(features)[-1]
        scores = check.run(module, *arguments(check.model.inputs, x, arcs)).scores
    if scores.shape != (len(x), classes):
        raise InvalidInput(
            f"{network.name} gave {list(scores.shape)} for a graph of {len(x)} nodes; a row of {classes} scores for "
            "every node is needed"
        )


@lru_cache(maxsize=64)
def _checked(make: Make, network: OwnNetwork, features: int, classes: int) -> None:  # noqa: ARG001  # a key of the cache
    """Once for every class, also if two have the same name."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = OwnModel.of(network.module(features, classes))
        if other := [name for name, part in model.module.state_dict().items() if not isinstance(part, Tensor)]:
            raise InvalidInput(f"{network.name}: {other[0]!r} of its state_dict is no tensor, and cannot be saved")
        ModuleCheck(network.name, model, classes).require_independent(made_up_subgraphs(features))


def made_up_subgraphs(features: int) -> list[tuple[Tensor, Tensor]]:
    """One node, a pair, no arcs, a star, a chain and a complete graph: features [n, d] and arcs int64 [2, a]."""
    generator = torch.Generator().manual_seed(0)
    star, chained = [(i, 0) for i in range(1, 5)], [(3, 2), (2, 1), (1, 0)]
    complete = [(i, j) for i in range(5) for j in range(5) if i != j]
    arcs: list[list[tuple[int, int]]] = [[], [(1, 0)], [], star, chained, complete]
    return [
        (torch.randn(rows, features, generator=generator), torch.tensor(some, dtype=torch.int64).reshape(-1, 2).T)
        for rows, some in zip((1, 2, 3, 5, 4, 5), arcs, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class LayerCall:
    """Copies of the tensors among a layer's arguments and outputs."""

    layer: str
    kind: str
    inputs: list[Tensor]
    outputs: list[Tensor]


@dataclass(frozen=True, eq=False)
class Computed:
    """What a module made of one input: the calls of its layers, innermost first, scores [*, c] and their gradient."""

    calls: list[LayerCall]
    scores: Tensor
    gradient: list[Tensor] = field(default_factory=list)

    @property
    def results(self) -> list[Tensor]:
        """The scores and the gradient."""
        return [self.scores, *self.gradient]


@dataclass(frozen=True, eq=False)
class ModuleCheck:
    """One module under test; every `require_` passes or raises."""

    name: str
    model: OwnModel
    classes: int

    def require_independent(self, subgraphs: list[tuple[Tensor, Tensor]]) -> None:
        """Each subgraph gets the same result in every order, and nothing of it is kept."""
        self.require_no_batch_statistics()
        self.require_deep_copy()
        for training in (True, False):
            module = copy.deepcopy(self.model.module).train(training)
            first = [self.run_with_gradient(module, x, arcs) for x, arcs in subgraphs]
            for (x, _), computed in zip(subgraphs, first, strict=True):
                self.require_finite_scores(computed, len(x))
            for _ in range(_ROUNDS):
                for subgraph, computed in reversed(list(zip(subgraphs, first, strict=True))):
                    self.require_equal(computed, self.run_with_gradient(module, *subgraph))
            self.require_unwritten(module)
        if "batch" in self.model.inputs:
            self.require_batch_respected(*subgraphs[-2:])
            self.require_batch_respected(*reversed(subgraphs[-2:]))

    def require_no_batch_statistics(self) -> None:
        """No layer normalises by running statistics or by those of a batch."""
        for path, layer in self.model.module.named_modules():
            if isinstance(layer, _BatchNorm) or getattr(layer, "track_running_stats", False):
                self._refuse(path, type(layer).__name__, "normalises by statistics of other subgraphs")

    def require_deep_copy(self) -> None:
        """A copy shares no module and no tensor with the original: each copy sees one subgraph."""
        original, copied = self.model.module, copy.deepcopy(self.model.module)
        modules = set(map(id, original.modules())) & set(map(id, copied.modules()))
        memory = [{part.data_ptr() for part in _tensors_of(one) if part.numel()} for one in (original, copied)]
        if modules or memory[0] & memory[1]:
            raise Unsupported(f"{self.name}: a copy of it shares modules or tensors with it; leave deepcopy as it is")

    def require_finite_scores(self, computed: Computed, rows: int) -> None:
        """Scores for every node, or for the subgraph, and finite gradients."""
        shapes = [(self.classes,), (1, self.classes), (rows, self.classes)]
        if tuple(computed.scores.shape) not in shapes or not computed.scores.is_floating_point():
            raise InvalidInput(
                f"{self.name} gave {list(computed.scores.shape)} for a subgraph of {rows} nodes; a network gives a row "
                f"of {self.classes} scores for every node, the first of which is read, or one for the subgraph"
            )
        if not all(bool(part.isfinite().all()) for part in computed.results):
            raise InvalidInput(
                f"{self.name} gave NaN or infinity for a made-up subgraph of {rows} node(s), in its scores or their "
                "gradient; such subgraphs would count for nothing (a deviation of one row, say, needs a floor)"
            )

    def require_equal(self, before: Computed, after: Computed) -> None:
        """The same subgraph, weights and seed give the same bits."""
        if _equal(before.results, after.results):
            return
        for a, b in zip(before.calls, after.calls, strict=False):
            if _equal(a.inputs, b.inputs) and not _equal(a.outputs, b.outputs):
                self._refuse(a.layer, a.kind, "gives other results after it has seen other subgraphs")
        why = "gives other results after it has seen other subgraphs, or draws random numbers outside of torch"
        self._refuse("", "", why)

    def require_unwritten(self, module: nn.Module) -> None:
        """Weights and buffers are those that the module was made with."""
        for path, part in chain(module.named_parameters(), module.named_buffers()):
            initial = self.model.initial.get(path)
            if initial is None or not torch.equal(part, initial):
                layer, _, name = path.rpartition(".")
                what = "weight" if isinstance(part, nn.Parameter) else "buffer"
                kind = type(module.get_submodule(layer)).__name__
                self._refuse(layer, kind, f"writes into its {what} {name!r} while it computes")

    def require_batch_respected(self, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> None:
        """In one batch of two subgraphs, which `batch` tells apart, the first gets the scores that it gets alone."""
        module = copy.deepcopy(self.model.module).eval()
        (x, arcs), (other, more) = first, second
        batch = torch.tensor([0] * len(x) + [1] * len(other))
        alone = self.run(module, *arguments(self.model.inputs, x, arcs))
        both = self.run(module, torch.cat([x, other]), torch.cat([arcs, more + len(x)], dim=1), batch)
        rows = 2 if len(alone.scores) == 1 else len(batch)
        if both.scores.shape == (rows, self.classes) and _begins_with(both.scores, alone.scores):
            return
        for a, b in zip(alone.calls, both.calls, strict=False):
            if all(map(_begins_with, b.inputs, a.inputs)) and not all(map(_begins_with, b.outputs, a.outputs)):
                self._refuse(a.layer, a.kind, "reads other subgraphs of a batch: it ignores `batch`")
        self._refuse("", "", "reads other subgraphs of a batch: its forward ignores `batch`")

    def run_with_gradient(self, module: nn.Module, x: Tensor, arcs: Tensor) -> Computed:
        """The module's scores, and the gradient of the loss for class 0 at the centre."""
        computed = self.run(module, *arguments(self.model.inputs, x, arcs))
        weights = [part for name, part in module.named_parameters() if name in trainable(module)]
        row = computed.scores if computed.scores.dim() == 1 else computed.scores[0]
        if not row.requires_grad:
            raise InvalidInput(f"{self.name} gives scores that depend on none of its weights: nothing would be learnt")
        loss = row.logsumexp(0) - row[0]
        gradient = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        return Computed(computed.calls, computed.scores.detach(), list(gradient))

    def run(self, module: nn.Module, *inputs: Tensor) -> Computed:
        """What the module makes of copies of these inputs, or an error that quotes its own: nothing here is private."""
        torch.default_generator.manual_seed(1)
        try:
            with torch.enable_grad(), _recorded_calls(module) as calls:
                scores = module(*(part.clone() for part in inputs))
        except Exception as error:
            raise InvalidInput(
                f"{self.name} failed on a made-up subgraph of {len(inputs[0])} node(s) and "
                f"{inputs[1].shape[1] if len(inputs) > 1 else 0} arc(s): {type(error).__name__}: {error}"
            ) from error
        if type(scores) is not Tensor:
            raise InvalidInput(f"{self.name} gave {type(scores).__name__}; a network gives one plain tensor of scores")
        return Computed(calls, scores)

    def _refuse(self, layer: str, kind: str, why: str) -> NoReturn:
        what = f"layer {layer!r} ({kind})" if layer else "its own code, outside of its layers,"
        raise Unsupported(
            f"{self.name}: {what} {why}; one subgraph's gradient would tell of others. Instead, {_INSTEAD}"
        )


@contextmanager
def _recorded_calls(module: nn.Module) -> Iterator[list[LayerCall]]:
    """The calls of all layers inside, as they return."""
    calls: list[LayerCall] = []

    def record(path: str, layer: nn.Module, inputs: Any, outputs: Any) -> None:
        calls.append(LayerCall(path, type(layer).__name__, _copies(inputs), _copies(outputs)))

    hooks = [
        layer.register_forward_hook(lambda layer, inputs, outputs, path=path: record(path, layer, inputs, outputs))
        for path, layer in module.named_modules()
        if path
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _copies(value: Any) -> list[Tensor]:
    """Copies of the tensors in arguments or outputs."""
    if isinstance(value, Tensor):
        return [value.detach().clone()]
    return [part for one in value for part in _copies(one)] if isinstance(value, list | tuple) else []


def _tensors_of(module: nn.Module) -> Iterator[Tensor]:
    return chain(module.parameters(), module.buffers())


def _equal(a: list[Tensor], b: list[Tensor]) -> bool:
    """To the last bit."""
    return len(a) == len(b) and all(map(torch.equal, a, b))


def _begins_with(both: Tensor, alone: Tensor) -> bool:
    """Whether the first rows of a batch are those of its first subgraph alone; integers, say arcs, are not compared."""
    if not alone.is_floating_point() or alone.dim() == 0:
        return True
    first = both[: len(alone)]
    return first.shape == alone.shape and torch.allclose(first, alone, *_TOLERANCE)
