"""Clipped gradients of own modules: those of the built-in engine and of a loop, bounded whatever the module does."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from graphveil.data.arcs import Csr
from graphveil.nn import own_gradients
from graphveil.nn.clipping import unflat
from graphveil.nn.own_gradients import OwnGradients, OwnModel, own_logits, shapes_of
from graphveil.nn.sampling.bounded import neighbourhoods
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph import gradients
from graphveil.nn.subgraph_model import SubgraphModel, logits
from own_modules import FRIENDLY, AttributeCache, DropoutByBatch, Gat, GlobalCache, Grumpy, Hoarder, LateCache

WIDTH, CLASSES, CLIP = 4, 3, 0.05
friendly = pytest.mark.parametrize("make", FRIENDLY.values(), ids=FRIENDLY)


@pytest.fixture(params=["side by side", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With blocks of four, or without any."""
    monkeypatch.setattr(own_gradients, "_BLOCKS", {8: 4} if request.param == "side by side" else {})
    return str(request.param)


def made(make: Any, seed: int = 0) -> OwnModel:
    torch.manual_seed(seed)
    return OwnModel.of(make(WIDTH, CLASSES))


def some_subgraphs(seed: int = 0, hops: int = 1) -> tuple[Subgraphs, Tensor, Tensor]:
    """Stars, pairs, single nodes and others, with features of all sizes and a label missing."""
    rng = np.random.default_rng(seed)
    sources, targets = np.nonzero(np.triu(rng.random((14, 14)) < 0.3, 1))
    mutual = rng.random(len(sources)) < 0.3
    sources, targets = np.concatenate([sources, targets[mutual]]), np.concatenate([targets, sources[mutual]])
    batch = neighbourhoods(Csr.from_edge_index(sources, targets, 14), np.arange(14), hops)
    x = rng.standard_normal((14, WIDTH)) * 10 ** rng.uniform(-2, 1, (14, 1))
    y = torch.from_numpy(rng.integers(0, CLASSES, 14))
    y[5] = -1
    return batch, torch.from_numpy(x).float()[torch.from_numpy(batch.nodes)], y


def summed(model: OwnModel, batch: Subgraphs, x: Tensor, y: Tensor, clip: float = CLIP, key: int = 3) -> Tensor:
    return OwnGradients(model, model.initial_weights(), batch, x, y, CLASSES, key).clipped_sum(clip)


def without(batch: Subgraphs, x: Tensor, y: Tensor, which: int) -> tuple[Subgraphs, Tensor, Tensor]:
    """The same without one subgraph."""
    rest = np.delete(np.arange(batch.count), which)
    rows = np.concatenate([np.arange(batch.ptr[each], batch.ptr[each + 1]) for each in rest])
    return batch.take(rest), x[torch.from_numpy(rows)], y[torch.from_numpy(rest)]


def test_subgraphs_of_many_shapes_are_tried() -> None:
    shapes = shapes_of(some_subgraphs()[0])
    assert len(shapes) > 4
    assert any(shape.shared is None for shape in shapes)
    assert any(shape.rows > 3 for shape in shapes)


@friendly
@pytest.mark.parametrize("hops", [1, 2])
def test_both_ways_agree_and_the_place_does_not_matter(make: Any, hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, x, y = some_subgraphs(hops=hops)
    found = []
    for blocks in ({8: 4}, {}):
        monkeypatch.setattr(own_gradients, "_BLOCKS", blocks)
        model = made(make)
        found.append(summed(model, batch, x, y))
        assert any(model.in_blocks.values()) is (bool(blocks) and make.__name__ != "Branching")
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-6)


@friendly
def test_one_subgraph_moves_the_sum_by_one_clip_and_others_by_nothing(make: Any, way: str) -> None:  # noqa: ARG001
    batch, x, y = some_subgraphs()
    model = made(make)
    whole = summed(model, batch, x, y)
    moves = []
    for which in range(batch.count):
        alone = batch.take(np.array([which]))
        rows = x[batch.ptr[which] : batch.ptr[which + 1]]
        own = summed(model, alone, rows, y[which : which + 1])
        assert float(own.norm()) <= CLIP
        moved = whole - summed(model, *without(batch, x, y, which))
        torch.testing.assert_close(moved, own, rtol=0, atol=1e-12)
        moves.append(float(moved.norm()) / CLIP)
    assert max(moves) > 0.99
    assert moves[5] == 0


@pytest.mark.parametrize("make", [LateCache, AttributeCache, DropoutByBatch, Hoarder, Grumpy])
def test_hostile_modules_are_bounded(make: Any, way: str) -> None:  # noqa: ARG001
    """What a module holds reaches no other subgraph, even one that the check would have refused, or had not seen."""
    batch, x, y = some_subgraphs()
    model = made(make)
    if make is LateCache:
        model.module.inner.calls = 2000
    whole = summed(model, batch, x, y)
    for which in range(batch.count):
        moved = whole - summed(model, *without(batch, x, y, which))
        assert float(moved.norm()) <= CLIP * (1 + 1e-12)


def test_a_global_is_what_the_engine_cannot_see_to() -> None:
    """Why the check looks for it, and the card says so."""
    batch, x, y = some_subgraphs()
    model = made(GlobalCache)
    assert (
        max(
            float((summed(model, batch, x, y) - summed(model, *without(batch, x, y, which))).norm())
            for which in range(14)
        )
        > 1.5 * CLIP
    )


def test_errors_and_nan_count_zero_and_say_nothing() -> None:
    batch, x, y = some_subgraphs()
    model = made(Grumpy)
    centres = torch.from_numpy(batch.ptr[:-1])
    x[centres, 0] = 0.1
    for which, secret in ((2, 5000.0), (3, 500.0), (4, 70.0)):
        spoilt = x.clone()
        spoilt[centres[which], 0] = secret
        expected = summed(model, *without(batch, spoilt, y, which))
        torch.testing.assert_close(summed(model, batch, spoilt, y), expected, rtol=0, atol=1e-12)


def test_what_a_module_writes_is_not_released() -> None:
    batch, x, y = some_subgraphs()
    model = made(Hoarder)
    summed(model, batch, x * 100, y)
    assert not hasattr(model.module, "note")
    assert not model.state(model.start())["loot"].any()


class Writes(nn.Module):
    """Ordinary: a norm that is kept by force; and by the size of a subgraph, so that a check may not see it."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        self.lin.weight.data.mul_(-3.0) if len(x) == 3 else self.lin.weight.data.clamp_(-0.01, 0.01)
        x.zero_() if len(x) == 2 else x
        return self.lin(x)


class Hooked(nn.Module):
    """A function that the module holds is not copied with it, and writes to the one that it was made for."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, classes)
        self.register_buffer("seen", torch.zeros(width))
        self.lin.register_forward_hook(self._hook())

    def _hook(self) -> Any:
        def note(_: nn.Module, read: tuple[Tensor, ...], said: Tensor) -> None:  # noqa: ARG001
            with torch.no_grad():
                self.seen.copy_(read[0][0])

        return note

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x + self.get_buffer("seen"))


class Looks(torch.autograd.Function):
    """A rule of its own for vmap, which sees a whole block."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG004
        return grad

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> Any:  # noqa: ARG004
        return x * (-3.0 if bool((x == 0.125).any()) else 1.0), in_dims[0]


class OwnRule(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(Looks.apply(x))


class Views(nn.Module):
    """Fails side by side, and looks behind what it is given alone."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        x.sum().item()
        behind = x if x._base is None else x._base
        return self.lin(x) * (1 + behind.detach().abs().sum())


class Greedy(Tensor):
    """Takes over what is done with the scores."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_function__(func, types, args, kwargs or {})
        return tuple(part.repeat(100, 1) for part in found) if isinstance(found, tuple) else found


class Subclassed(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x).as_subclass(Greedy)


@pytest.mark.parametrize("make", [Writes, Hooked, OwnRule, Views, Subclassed])
def test_what_a_module_writes_or_looks_at_reaches_nobody(make: Any, way: str) -> None:  # noqa: ARG001
    batch, x, y = some_subgraphs()
    x[int(batch.ptr[1])] = 0.125
    model = made(make)
    weights = model.start()
    start, buffers = [part.clone() for part in weights], model.state(weights)
    given, read = model.named(weights), x.clone()
    whole = OwnGradients(model, given, batch, x, y, CLASSES, 3).clipped_sum(CLIP)
    assert all(map(torch.equal, weights, start))
    assert torch.equal(x, read)
    assert all(torch.equal(part, buffers[name]) for name, part in model.state(start).items())
    for which in range(batch.count):
        moved = whole - summed(model, *without(batch, x, y, which))
        assert float(moved.norm()) <= CLIP * (1 + 1e-9)


def test_one_that_fails_does_not_change_how_the_others_of_its_block_are_computed(way: str) -> None:  # noqa: ARG001
    batch, x, y = some_subgraphs()
    model = made(Grumpy)
    centres = torch.from_numpy(batch.ptr[:-1])
    x[centres, 0] = 0.1
    spoilt = x.clone()
    spoilt[centres[2], 0] = 5000.0
    alone = [summed(model, *without(batch, some, y, 2)) for some in (x, spoilt)]
    assert torch.equal(*alone)
    torch.testing.assert_close(summed(model, batch, spoilt, y), alone[0], rtol=0, atol=1e-15)


def test_weights_are_shared_frozen_and_named_as_the_module_has_them() -> None:
    model = made(FRIENDLY["TiedFrozen"])
    batch, x, y = some_subgraphs()
    total = summed(model, batch, x, y)
    parts = dict(zip(model.initial_weights(), unflat(total, model.start()), strict=True))
    assert set(parts) == {"first.weight", "unused", "out.weight", "out.bias"}
    assert not parts["unused"].any()
    assert parts["first.weight"].any()
    state = model.state([part + 1 for part in model.start()])
    assert set(state) == set(model.module.state_dict())
    assert torch.equal(state["first.weight"], state["again.weight"])
    assert torch.equal(state["frozen.weight"], model.module.frozen.weight)
    assert torch.equal(state["out.bias"], model.module.out.bias.detach() + 1)
    assert model.module.out.bias.grad is None


def test_chance_follows_the_key_and_leaves_the_run_s_own_alone(way: str) -> None:  # noqa: ARG001
    batch, x, y = some_subgraphs()
    model, before = made(Gat), torch.get_rng_state()
    torch.set_rng_state(before)
    first = summed(model, batch, x, y, key=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert torch.equal(summed(model, batch, x, y, key=3), first)
    assert not torch.equal(summed(model, batch, x, y, key=4), first)


class BuiltIn(nn.Module):
    """What the built-in engine computes for network=gcn."""

    def __init__(self, width: int, classes: int, hidden: int, layers: int) -> None:
        super().__init__()
        sizes = [width, *[hidden] * layers]
        self.convs = nn.ModuleList(GCNConv(a, b) for a, b in itertools.pairwise(sizes))
        self.lin = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs:
            x = nn.functional.elu(conv(x, edge_index))
        return self.lin(x)

    def weights(self) -> list[Tensor]:
        """In the order of the built-in engine."""
        layers = [(conv.lin.weight, conv.bias) for conv in self.convs] + [(self.lin.weight, self.lin.bias)]
        return [part for weight, bias in layers for part in (weight.detach().T, bias.detach())]


@pytest.mark.parametrize("layers", [1, 2])
def test_the_same_network_has_the_gradients_and_answers_of_the_built_in_engine(layers: int, way: str) -> None:  # noqa: ARG001
    batch, x, y = some_subgraphs(hops=layers)
    torch.manual_seed(1)
    module = BuiltIn(WIDTH, CLASSES, 5, layers)
    known = SubgraphModel("gcn", layers, 5, "elu", CLASSES, WIDTH)
    model = OwnModel.of(module)
    for clip in (CLIP, 1e6):
        expected = unflat(gradients(known, module.weights(), batch, x, y).clipped_sum(clip), module.weights())
        found = dict(zip(model.initial_weights(), unflat(summed(model, batch, x, y, clip), model.start()), strict=True))
        names = [name for k in range(layers) for name in (f"convs.{k}.lin.weight", f"convs.{k}.bias")]
        for part, name in zip(expected, [*names, "lin.weight", "lin.bias"], strict=True):
            own = found[name].T if part.dim() == 2 else found[name]
            torch.testing.assert_close(own, part, rtol=1e-4, atol=1e-4 * min(clip, 1))
    answers = own_logits(model, model.initial_weights(), batch, x)
    torch.testing.assert_close(answers, logits(known, module.weights(), batch, x), rtol=1e-4, atol=1e-4)


def test_a_block_that_rounds_by_place_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(Gat)
    together = OwnModel.together

    def uneven(self: OwnModel, *given: Any, **more: Any) -> list[Tensor]:
        found = together(self, *given, **more)
        found[0][0] *= 1 + 1e-6
        return found

    monkeypatch.setattr(OwnModel, "together", uneven)
    batch, x, y = some_subgraphs()
    summed(model, batch, x, y)
    assert model.in_blocks
    assert not any(model.in_blocks.values())


def test_small_subgraphs_with_the_same_arcs_share_a_block_where_different_arcs_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GCNConv and GATConv look for loops, which vmap takes only if all have the same arcs; a mixer takes any."""
    ring = Csr.from_edge_index([0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3], 4)
    other = Csr.from_edge_index([0, 1, 2, 0, 1, 2, 3, 3], [1, 2, 3, 2, 0, 1, 2, 1], 4)
    sources = np.concatenate([ring.indices, ring.indices + 4, other.indices + 8])
    starts = np.concatenate([ring.indptr, ring.indptr[1:] + 8, other.indptr[1:] + 16])
    batch = Subgraphs(np.arange(12), np.array([0, 4, 8, 12]), starts, sources)
    torch.manual_seed(0)
    x, y = torch.randn(12, WIDTH), torch.tensor([0, 1, 2])
    for name, shared in (("Gat", 2), ("PooledGcn", 2), ("Mixer", 0)):
        model = made(FRIENDLY[name])
        found = summed(model, batch, x, y)
        together = [shape for shape, allowed in model.in_blocks.items() if allowed]
        assert [shape.shared is not None for shape in together] == ([True] * shared or [False])
        with monkeypatch.context() as alone:
            alone.setattr(own_gradients, "_BLOCKS", {})
            torch.testing.assert_close(found, summed(made(FRIENDLY[name]), batch, x, y), rtol=0, atol=1e-6)
