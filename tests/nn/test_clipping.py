"""Clipped gradients against torch.func's per-example ones, and their bound under hostile examples."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy

from graphveil.nn.clipping import Vectors, dense_gradients, dense_logits, flat, start_weights, unflat, with_bias


def oracle(weights: list[Tensor], x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Materialise every example's gradient, clip, add up."""

    def loss(vector: Tensor, row: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(dense_logits(unflat(vector, weights), row[None]), label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))(flat(weights), x, y)
    return (each * (clip / each.norm(dim=1, keepdim=True).clamp(min=clip))).sum(dim=0)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.sampled_from([(5, 3), (5, 4, 3), (6, 5, 4, 2)]),
    clip=st.floats(1e-3, 10),
    count=st.integers(1, 20),
)
def test_equals_the_materialised_sum(seed: int, sizes: tuple[int, ...], clip: float, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(a.shape, generator=generator, dtype=torch.float64) for a in start_weights(sizes)]
    x = torch.randn(count, sizes[0], generator=generator, dtype=torch.float64) * 3
    y = torch.randint(0, sizes[-1], (count,), generator=generator)
    ours = dense_gradients(weights, x, y).clipped_sum(clip)
    assert torch.allclose(ours, oracle(weights, x, y, clip), rtol=1e-4, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e5, 1e30]))
def test_one_example_moves_the_sum_by_at_most_the_clip(seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(a.shape, generator=generator) for a in start_weights((4, 5, 3))]
    x = torch.randn(6, 4, generator=generator)
    x[0] *= scale
    y = torch.randint(0, 3, (6,), generator=generator)
    with_it = dense_gradients(weights, x, y).clipped_sum(0.5)
    without = dense_gradients(weights, x[1:], y[1:]).clipped_sum(0.5)
    assert float((with_it - without).norm()) <= 0.5


def test_absent_examples_contribute_nothing() -> None:
    weights, x = [torch.randn(4, 3)], torch.randn(5, 4)
    y = torch.tensor([0, -1, 2, -1, 1])
    there = y >= 0
    ours = dense_gradients(weights, x, y).clipped_sum(1.0)
    assert torch.allclose(ours, dense_gradients(weights, x[there], y[there]).clipped_sum(1.0))


def test_an_empty_batch_sums_to_zero() -> None:
    empty = dense_gradients([torch.randn(4, 3)], torch.zeros(0, 4), torch.zeros(0).long())
    assert torch.equal(empty.clipped_sum(1.0), torch.zeros(12, dtype=torch.float64))


def test_features_are_scaled_one_record_at_a_time() -> None:
    x = torch.randn(6, 4)
    assert torch.allclose(with_bias(x, "centred")[2], with_bias(x[2:3], "centred")[0])
    with pytest.raises(ValueError, match="private"):
        with_bias(x, "shifted")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clip=st.floats(1e-3, 10), size=st.sampled_from([1e-30, 1.0, 1e30]))
def test_one_vector_moves_a_sum_by_one_clip_at_most(seed: int, clip: float, size: float) -> None:
    rows = size * torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))
    whole, rest = Vectors(rows).clipped_sum(clip), Vectors(rows[1:]).clipped_sum(clip)
    assert float((whole - rest).norm()) <= clip * (1 + 1e-12)
    if size == 1e-30:
        assert torch.allclose(whole, rows.double().sum(dim=0))


def test_vectors_that_are_no_numbers_count_nothing() -> None:
    rows = torch.tensor([[3.0, 4.0], [float("nan"), 0.0], [float("inf"), 1.0]])
    assert torch.allclose(Vectors(rows).clipped_sum(1.0), torch.tensor([0.6, 0.8], dtype=torch.float64))
    assert Vectors(torch.zeros(0, 2)).clipped_sum(1.0).tolist() == [0.0, 0.0]
