"""Clipped subgraph gradients against one dense network per subgraph, and their bound under hostile subgraphs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, elu, relu

from graphveil.errors import InvalidInput
from graphveil.nn.aggregate import Operator
from graphveil.nn.clipping import flat
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph import (
    Materialised,
    Several,
    Single,
    SubgraphGradients,
    gradients,
    gram_by_size,
    gram_on_cpu,
    owners_of,
    product_at_once,
    with_one,
)
from graphveil.nn.subgraph_model import Kind, SubgraphModel, logits, start, sums_at_centres, sums_at_rows

KINDS, LAYERS, ACTIVATIONS = ("gcn", "sage", "gin"), (1, 2), ("elu", "relu")
MODELS = [
    SubgraphModel(kind, layers, 5, activation, classes=3, width=4)
    for kind, layers, activation in itertools.product(KINDS, LAYERS, ACTIVATIONS)
]
models = pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.kind}{model.layers}-{model.activation}")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


def together(sizes: list[int], arcs: list[np.ndarray]) -> Subgraphs:
    """Subgraphs of given sizes; arcs[s][i, j] says that row i of subgraph s hears row j."""
    ptr = np.concatenate(([0], np.cumsum(np.array(sizes, dtype=np.int64))))
    heard = [first + np.flatnonzero(row) for first, each in zip(ptr, arcs, strict=False) for row in each]
    counts = np.array([len(row) for row in heard], dtype=np.int64)
    indices = np.concatenate([np.empty(0, np.int64), *heard])
    return Subgraphs(np.arange(ptr[-1]), ptr, np.concatenate(([0], np.cumsum(counts))), indices)


def random_batch(seed: int, count: int, largest: int = 5) -> Subgraphs:
    """Unequal sizes, one-way arcs, isolated centres among them."""
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.integers(1, largest + 1, count)]
    return together(sizes, [(rng.random((n, n)) < 0.5) & ~np.eye(n, dtype=bool) for n in sizes])


def pick(batch: Subgraphs, x: Tensor, which: list[int]) -> tuple[Subgraphs, Tensor]:
    """Some of the subgraphs, in the order asked for, with their features."""
    arcs = [dense_arcs(batch, s) for s in which]
    rows = [np.arange(batch.ptr[s], batch.ptr[s + 1]) for s in which]
    return together([len(each) for each in arcs], arcs), x[np.concatenate([np.empty(0, np.int64), *rows])]


def dense_arcs(batch: Subgraphs, s: int) -> np.ndarray:
    """arcs[i, j] of subgraph s."""
    first, last = batch.ptr[s], batch.ptr[s + 1]
    found = np.zeros((last - first, last - first), dtype=bool)
    for i in range(first, last):
        found[i - first, batch.indices[batch.indptr[i] : batch.indptr[i + 1]] - first] = True
    return found


def random_weights(model: SubgraphModel, seed: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """No zeros: biases and lambdas must show."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(weight.shape, generator=generator, dtype=dtype) for weight in start(model)]


def dense_logits(model: SubgraphModel, weights: list[Tensor], arcs: np.ndarray, x: Tensor) -> Tensor:
    """The paper's equations with a dense matrix, read at row 0, [c]."""
    act = elu if model.activation == "elu" else relu
    heard = torch.from_numpy(arcs).to(x.dtype)
    looped = heard + torch.eye(len(x), dtype=x.dtype)
    degrees = looped.sum(dim=1)
    h, parts = x, iter(weights)
    for _ in range(model.layers):
        weight, bias = next(parts), next(parts)
        if model.kind == "gcn":
            h = looped / (degrees[:, None] * degrees[None]).sqrt() @ h
        elif model.kind == "sage":
            h = looped / degrees[:, None] @ h
        else:
            h = heard @ h + (1 + next(parts)) * h
        h = act(h @ weight + bias)
    return (h @ next(parts) + next(parts))[0]


def oracle(model: SubgraphModel, weights: list[Tensor], batch: Subgraphs, x: Tensor, y: Tensor) -> Tensor:
    """Every subgraph's gradient by itself, float64 [k, p]."""
    leaves = [weight.double().requires_grad_() for weight in weights]
    rows = []
    for s in range(batch.count):
        inside = x[batch.ptr[s] : batch.ptr[s + 1]].double()
        answer = dense_logits(model, leaves, dense_arcs(batch, s), inside)
        loss = cross_entropy(answer[None], y[s : s + 1], ignore_index=-1, reduction="sum")
        rows.append(flat(list(torch.autograd.grad(loss, leaves))))
    return torch.stack(rows)


def several(inputs: Tensor, signals: Tensor, ptr: np.ndarray) -> Several:
    """A layer's part with its rows' owners."""
    cuts = torch.from_numpy(ptr)
    return Several(inputs, signals, ptr, cuts, owners_of(cuts, len(inputs)))


def clipped(each: Tensor, clip: float) -> Tensor:
    return (each * (clip / each.norm(dim=1, keepdim=True).clamp(min=clip))).sum(dim=0)


def error(ours: Tensor, truth: Tensor) -> float:
    """Distance relative to the truth."""
    return float((ours - truth).norm() / truth.norm().clamp(min=1e-30))


@models
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), clip=st.floats(1e-2, 10), count=st.integers(1, 12))
def test_equals_the_materialised_sum(model: SubgraphModel, seed: int, clip: float, count: int) -> None:
    torch.manual_seed(seed)
    batch, weights = random_batch(seed, count), random_weights(model, seed)
    x = torch.randn(len(batch.nodes), 4, dtype=torch.float64) * 2
    y = torch.randint(-1, 3, (count,))
    each, ours = oracle(model, weights, batch, x, y), gradients(model, weights, batch, x, y)
    assert torch.allclose(ours.norms(), each.norm(dim=1), rtol=1e-9, atol=1e-12)
    assert error(ours.clipped_sum(clip), clipped(each, clip)) < 1e-5
    assert error(ours.clipped_sum(1e9), each.sum(dim=0)) < 1e-9  # nothing is clipped: no clipping harder either


@models
def test_float32_stays_close_to_the_float64_truth(model: SubgraphModel) -> None:
    batch, weights = random_batch(3, 60, largest=9), random_weights(model, 1, torch.float32)
    x, y = torch.randn(len(batch.nodes), 4), torch.randint(0, 3, (60,))
    each = oracle(model, weights, batch, x, y)
    assert error(gradients(model, weights, batch, x, y).clipped_sum(0.5), clipped(each, 0.5)) < 1e-5


@models
def test_logits_are_the_papers(model: SubgraphModel) -> None:
    batch, weights = random_batch(5, 20), random_weights(model, 2)
    x = torch.randn(len(batch.nodes), 4, dtype=torch.float64)
    inside = [x[batch.ptr[s] : batch.ptr[s + 1]] for s in range(20)]
    truth = [dense_logits(model, weights, dense_arcs(batch, s), inside[s]) for s in range(20)]
    assert torch.allclose(logits(model, weights, batch, x), torch.stack(truth))


def test_a_star_in_numbers() -> None:
    """Two leaves speak to a centre and hear nobody: gcn gives each 1 / sqrt(1 * 3), the centre itself 1 / 3."""
    star = together([3], [np.array([[False, True, True], [False] * 3, [False] * 3])])
    x = torch.tensor([[3.0], [1.0], [2.0]], dtype=torch.float64)
    assert (sums_at_centres("gcn", star) @ x).item() == pytest.approx(3 / 3 + 3 / 3**0.5)
    assert (sums_at_centres("sage", star) @ x).item() == pytest.approx(2.0)
    assert (sums_at_centres("gin", star) @ x).item() == pytest.approx(3.0)


HOSTILE = [0.0, 1e-30, 1e-3, 1e5, 1e19, 1e30, float("inf"), float("nan")]


@models
@pytest.mark.parametrize("scale", HOSTILE)
@pytest.mark.parametrize("clip", [1e-3, 0.5])
def test_one_subgraph_moves_the_sum_by_at_most_the_clip(model: SubgraphModel, scale: float, clip: float) -> None:
    batch, weights = random_batch(11, 8), random_weights(model, 4, torch.float32)
    x, y = torch.randn(len(batch.nodes), 4), torch.randint(0, 3, (8,))
    for row in (batch.ptr[2], batch.ptr[3] - 1):
        loud = x.clone()
        loud[row] *= scale
        rest, rest_x = pick(batch, loud, [0, 1, *range(3, 8)])
        with_it = gradients(model, weights, batch, loud, y).clipped_sum(clip)
        without = gradients(model, weights, rest, rest_x, y[[0, 1, *range(3, 8)]]).clipped_sum(clip)
        assert float((with_it - without).norm()) <= clip


def test_terms_that_cancel_cannot_hide_from_the_clip() -> None:
    """Rows (a, b) and (a, -b + tiny): the sum is tiny, and what is left of it is rounding."""
    a, b = torch.randn(1, 6) * 1e6, torch.randn(1, 3)
    rows = several(torch.cat([a, a]), torch.cat([b, -b * (1 + 1e-6)]), np.array([0, 2]))
    total = SubgraphGradients((rows,)).clipped_sum(1.0)
    exact = torch.einsum("ia,ib->ab", rows.inputs.double(), rows.signals.double())
    assert float(total.norm()) <= 1.0
    assert float(SubgraphGradients((rows,)).norms()) >= float(exact.norm())


@models
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_one_subgraph_changes_only_its_own_gradient(model: SubgraphModel, poison: float) -> None:
    batch, weights = random_batch(21, 6), random_weights(model, 5, torch.float32)
    x, y = torch.randn(len(batch.nodes), 4), torch.randint(0, 3, (6,))
    changed = x.clone()
    changed[batch.ptr[4] : batch.ptr[5]] = poison
    before, after = (gradients(model, weights, batch, rows, y) for rows in (x, changed))
    others = torch.arange(6) != 4
    assert torch.equal(before.norms()[others], after.norms()[others])
    if not np.isfinite(poison):
        gone, gone_x = pick(batch, x, [0, 1, 2, 3, 5])
        rest = gradients(model, weights, gone, gone_x, y[others]).clipped_sum(1.0)
        assert torch.allclose(after.clipped_sum(1.0), rest)


@models
def test_rounding_stays_within_the_clip_in_a_large_batch(model: SubgraphModel) -> None:
    """Two thousand copies of one loud subgraph add up in one direction, where errors are largest."""
    loud = random_batch(71, 1)
    x, weights = torch.randn(len(loud.nodes), 4) * 1e3, random_weights(model, 10, torch.float32)
    sums = []
    for count in (2000, 2001):
        many, many_x = pick(loud, x, [0] * count)
        sums.append(gradients(model, weights, many, many_x, torch.ones(count).long()).clipped_sum(0.7))
    assert float((sums[1] - sums[0]).norm()) <= 0.7


@models
def test_permuting_subgraphs_permutes_norms(model: SubgraphModel) -> None:
    batch, weights = random_batch(31, 7), random_weights(model, 6)
    x, y = torch.randn(len(batch.nodes), 4, dtype=torch.float64), torch.randint(0, 3, (7,))
    order = [3, 0, 6, 1, 5, 2, 4]
    turned, turned_x = pick(batch, x, order)
    ours, theirs = gradients(model, weights, batch, x, y), gradients(model, weights, turned, turned_x, y[order])
    assert torch.allclose(ours.norms()[order], theirs.norms())
    assert torch.allclose(ours.clipped_sum(0.3), theirs.clipped_sum(0.3))


@models
def test_identical_subgraphs_count_twice(model: SubgraphModel) -> None:
    batch, weights = random_batch(41, 1, largest=6), random_weights(model, 7)
    x, y = torch.randn(len(batch.nodes), 4, dtype=torch.float64), torch.tensor([1])
    twice, twice_x = pick(batch, x, [0, 0])
    once = gradients(model, weights, batch, x, y).clipped_sum(0.2)
    assert torch.allclose(gradients(model, weights, twice, twice_x, y.repeat(2)).clipped_sum(0.2), 2 * once)


@models
def test_an_empty_batch_sums_to_zero(model: SubgraphModel) -> None:
    batch, weights = together([], []), random_weights(model, 8, torch.float32)
    ours = gradients(model, weights, batch, torch.zeros(0, 4), torch.zeros(0).long())
    assert ours.norms().shape == (0,)
    assert torch.equal(ours.clipped_sum(1.0), torch.zeros(len(flat(weights)), dtype=torch.float64))
    assert logits(model, weights, batch, torch.zeros(0, 4)).shape == (0, 3)


@models
def test_absent_labels_and_isolated_centres(model: SubgraphModel) -> None:
    batch, weights = together([1, 1, 1], [np.zeros((1, 1), dtype=bool)] * 3), random_weights(model, 9)
    x, y = torch.randn(3, 4, dtype=torch.float64), torch.tensor([2, -1, 0])
    ours = gradients(model, weights, batch, x, y)
    assert float(ours.norms()[1]) == 0.0
    assert error(ours.clipped_sum(0.1), clipped(oracle(model, weights, batch, x, y), 0.1)) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_torch_operations_equal_the_compiled_ones(kind: Kind) -> None:
    """Accelerators take the first, processors the second."""
    batch = random_batch(51, 9)
    for sums in (sums_at_rows(kind, batch), sums_at_centres(kind, batch)):
        _same_products(sums)


def _same_products(sums: Operator) -> None:
    rows, targets = torch.randn(sums.columns, 3), torch.randn(len(sums.indptr) - 1, 3)
    assert torch.allclose(sums.forth(rows), sums.scattered(rows, transposed=False), atol=1e-5)
    assert torch.allclose(sums.back(targets), sums.scattered(targets, transposed=True), atol=1e-5)


def test_both_grams_agree() -> None:
    batch = random_batch(61, 40, largest=12)
    rows = several(torch.randn(len(batch.nodes), 7), torch.randn(len(batch.nodes), 3), batch.ptr)
    for ours, theirs in zip(gram_on_cpu(rows), gram_by_size(rows), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10)


def test_a_bias_is_the_weight_of_a_one() -> None:
    """How a GPU joins a weight and its bias."""
    inputs, signals, weights = torch.randn(30, 6), torch.randn(30, 4), torch.rand(30, dtype=torch.float64)
    apart, joined = (Single(inputs, signals), Materialised(signals)), Single(with_one(inputs), signals)
    assert torch.allclose(joined.squares(), apart[0].squares() + apart[1].squares(), rtol=1e-12)
    assert torch.allclose(joined.weighted(weights), torch.cat([part.weighted(weights) for part in apart]), atol=1e-12)
    poisoned = Single(with_one(inputs.fill_(float("nan"))), signals)
    assert not bool(poisoned.only(torch.zeros(30, dtype=torch.bool)).weighted(weights).any())


@pytest.mark.parametrize("rows", [0, 3, 4096, 4099, 9000])
def test_a_product_in_blocks_is_the_product(rows: int) -> None:
    inputs, signals = torch.randn(rows, 5, dtype=torch.float64), torch.randn(rows, 3, dtype=torch.float64)
    assert torch.allclose(product_at_once(inputs, signals), (inputs.T @ signals).flatten(), atol=1e-10)


@models
def test_parts_as_a_gpu_joins_them_are_the_same_gradient(model: SubgraphModel, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, weights = random_batch(71, 30), random_weights(model, 4)
    x, y = torch.randn(len(batch.nodes), 4, dtype=torch.float64), torch.randint(-1, 3, (30,))
    here = gradients(model, weights, batch, x, y)
    monkeypatch.setattr("graphveil.nn.subgraph._fewer", lambda small: [torch.cat(small, dim=1)])
    monkeypatch.setattr("graphveil.nn.subgraph._dense", lambda a, b: [Single(with_one(a), b)])
    there = gradients(model, weights, batch, x, y)
    assert len(there.parts) < len(here.parts)
    assert torch.allclose(there.norms(), here.norms(), rtol=1e-12)
    assert error(there.clipped_sum(0.5), here.clipped_sum(0.5)) < 1e-12


def test_what_does_not_fit_is_refused() -> None:
    model = MODELS[0]
    with pytest.raises(InvalidInput, match="kinds"):
        replace(model, layers=3)
    with pytest.raises(InvalidInput, match="features"):
        logits(model, start(model), random_batch(1, 3), torch.zeros(1, 4))


def test_start_follows_its_generator() -> None:
    model = MODELS[0]
    first, second = (start(model, torch.Generator().manual_seed(3)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
