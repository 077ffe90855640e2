"""Contributions are bounded by whoever sums them, whatever the data hold."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.laplace import Laplace
from graphveil.mechanisms.noisy_max import LaplaceMax, NoisyMax
from graphveil.mechanisms.noisy_votes import NoisyVotes
from graphveil.mechanisms.randomised_response import RandomisedResponse
from graphveil.nn.aggregate import NeighbourSums
from graphveil.nn.clipping import ExampleGradients, dense_gradients
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Contributions

NOTHING = cast(Sealed, None)
STAR = Csr.from_edge_index(np.array([1, 2, 3]), np.array([0, 0, 0]), 4)
BAD = [float("nan"), float("inf"), -float("inf"), 3e38, 1e30]


def gradients(a: Tensor, b: Tensor) -> ExampleGradients:
    return ExampleGradients((a, torch.ones(len(a), 2)), (b, b.flip(1)))


def each_alone(contributions: ExampleGradients, clip: float) -> list[Tensor]:
    """Every example's own clipped gradient."""
    return [
        ExampleGradients(
            tuple(a[i : i + 1] for a in contributions.inputs), tuple(b[i : i + 1] for b in contributions.signals)
        ).clipped_sum(clip)
        for i in range(len(contributions.inputs[0]))
    ]


@pytest.mark.parametrize("clip", [1e-6, 0.1, 30.0])
@pytest.mark.parametrize("size", [1e-30, 1e-22, 1e-6, 1.0, 1e3, 1e15, 1e30])
def test_every_gradient_is_at_most_clip_long(size: float, clip: float) -> None:
    """Also where float32 squares underflow (1e-23) or overflow (1e19)."""
    torch.manual_seed(0)
    whole = gradients(torch.randn(40, 6) * size, torch.randn(40, 3) / size**0.2)
    alone = each_alone(whole, clip)
    assert max(float(one.norm()) for one in alone) <= clip
    assert torch.allclose(torch.stack(alone).sum(dim=0), whole.clipped_sum(clip), atol=1e-12 * clip * 40, rtol=1e-9)


def test_underflow_does_not_hide_a_long_gradient() -> None:
    """|a|^2 underflows in float32, yet a (x) b is longer than the clip."""
    a, b = torch.full((1, 1000), 1e-23), torch.full((1, 1000), 1e17)
    assert float(ExampleGradients((a,), (b,)).clipped_sum(1e-6).norm()) <= 1e-6


def test_short_gradients_are_left_alone() -> None:
    torch.manual_seed(1)
    a, b = torch.randn(5, 4) * 0.01, torch.randn(5, 3)
    exact = torch.einsum("mi,mj->ij", a.double(), b.double()).flatten()
    assert torch.allclose(ExampleGradients((a,), (b,)).clipped_sum(1.0), exact, rtol=1e-12)


def test_gradients_are_those_of_autograd() -> None:
    torch.manual_seed(2)
    weights, x, y = [torch.randn(5, 4), torch.randn(4, 3)], torch.randn(7, 5), torch.tensor([0, 1, 2, 0, -1, 1, 2])
    found = each_alone(dense_gradients(weights, x, y), 1e9)
    for row in range(7):
        leaves = [weight.clone().requires_grad_() for weight in weights]
        logits = (x[row] @ leaves[0]).relu() @ leaves[1]
        if y[row] < 0:
            assert not found[row].any(), "an absent record contributed"
            continue
        torch.nn.functional.cross_entropy(logits, y[row]).backward()
        exact = torch.cat([leaf.grad.flatten() for leaf in leaves if leaf.grad is not None]).double()
        assert torch.allclose(found[row], exact, atol=1e-6)


def test_an_empty_batch_sums_to_zero() -> None:
    none = dense_gradients([torch.randn(5, 4), torch.randn(4, 3)], torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))
    assert none.clipped_sum(1.0).tolist() == [0.0] * 32


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("where", ["input", "signal"])
def test_one_rotten_gradient_does_not_spoil_the_sum(bad: float, where: str) -> None:
    torch.manual_seed(3)
    a, b = torch.randn(6, 4), torch.randn(6, 2)
    rest = gradients(a[1:], b[1:]).clipped_sum(0.5)
    (a if where == "input" else b)[0, 1] = bad
    total = gradients(a, b).clipped_sum(0.5)
    assert total.isfinite().all()
    assert float((total - rest).norm()) <= 0.5 * (1 + 1e-12)


@pytest.mark.parametrize("bad", BAD)
def test_neighbour_sums(bad: float) -> None:
    rows = torch.randn(4, 3)
    clean = NeighbourSums(STAR, rows).clipped_sum(0.7)
    rows[2, 1] = bad
    spoilt = NeighbourSums(STAR, rows).clipped_sum(0.7)
    assert spoilt.isfinite().all()
    assert float((spoilt - clean)[0].norm()) <= 1.4 * (1 + 1e-12), "one row changed: it leaves and enters"
    long = NeighbourSums(STAR, torch.randn(4, 3) * 1e3)
    without = Csr.from_edge_index(np.array([1, 2]), np.array([0, 0]), 4)
    moved = long.clipped_sum(0.7) - NeighbourSums(without, long.rows).clipped_sum(0.7)
    assert float(moved.norm()) <= 0.7 * (1 + 1e-12), "an arc moved the sum by more than the clip"
    assert float(moved.norm()) >= 0.7 * (1 - 1e-6)


@pytest.mark.parametrize("bad", BAD)
def test_mechanisms_survive_rotten_rows(bad: float) -> None:
    """Near-zero noise, so that the bounded sum itself is seen."""
    rows = torch.ones(3, 2)
    rows[1, 0] = bad
    laplace = Laplace(1e-9, clip=1.0).apply(NOTHING, lambda _: rows, Seeded(0))
    assert laplace.isfinite().all()
    assert float(laplace.abs().sum()) <= 3.0001
    for act in (NoisyMax(1.0, 2), LaplaceMax(1.0, 2), NoisyVotes(1.0, 2)):
        chosen = act.apply_many(NOTHING, lambda _: rows, Seeded(0), 3)
        assert chosen.shape == (3,)
        assert ((chosen >= 0) & (chosen < 2)).all()


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e30])
def test_long_contributions_move_a_release_by_one_clip(factor: float) -> None:
    clip = 0.25
    torch.manual_seed(4)
    a, b = torch.randn(9, 5) * factor, torch.randn(9, 3)
    pairs: list[tuple[Contributions, Contributions]] = [
        (ExampleGradients((a,), (b,)), ExampleGradients((a[1:],), (b[1:],))),
    ]
    for whole, less in pairs:
        outs = [Gaussian(1e-9, clip).apply(NOTHING, lambda _, one=one: one, Seeded(1)) for one in (whole, less)]
        assert float((outs[0] - outs[1]).norm()) <= clip * (1 + 1e-4)
    rows = torch.randn(9, 5) * factor
    laplace = [Laplace(1e-9, clip).apply(NOTHING, lambda _, one=one: one, Seeded(1)) for one in (rows, rows[1:])]
    assert float((laplace[0] - laplace[1]).abs().sum()) <= clip * (1 + 1e-4)


def test_answers_out_of_range_are_folded_in() -> None:
    out = RandomisedResponse(50.0, categories=3).apply(NOTHING, lambda _: torch.tensor([-7, 0, 2, 99]), Seeded(0))
    assert out.tolist() == [0, 0, 2, 2]
