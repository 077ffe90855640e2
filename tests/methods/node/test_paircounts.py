"""One noisy count of linked classes beside dpsgd; its samples are tested in test_heterpoisson.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.methods.node.dpsgd import DpSgd
from graphveil.methods.node.paircounts import PairCounts, _Counts, _pairs
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Reading

NODE = Adjacency.of("node")


@pytest.fixture(scope="module")
def graph() -> gv.Graph:
    return gv.datasets.load("social", split="random", seed=0)


def test_pair_counts() -> None:
    """Centre 0 (class 1) heard nodes 1, 2 (class 0) and 3 (class 1); centre 4 (class 0) nobody; 5 has no label."""
    y = torch.tensor([1, 0, 0, 1, 0, -1])
    public = Public.blank(6, 1, 2, num_train=6)
    sealed = Sealed(torch.zeros(6, 1), y, Csr.empty(6), public)
    batch = Subgraphs(
        np.array([0, 1, 2, 3, 4, 5, 3]),
        np.array([0, 4, 5, 7]),
        np.array([0, 3, 3, 3, 3, 3, 4, 4]),
        np.array([1, 2, 3, 6]),
    )
    with sealed.opened():
        counts = _pairs(sealed, batch, classes=2)
    length = 5**0.5
    expected = torch.tensor([[1.0, 0.0, 0.0], [1.0, 2 / length, 1 / length]], dtype=torch.float64)
    assert torch.allclose(counts.clipped_sum(2**0.5).reshape(2, 3), expected)
    shorter = counts.clipped_sum(0.1).reshape(2, 3)
    assert shorter.norm(dim=1).tolist() == pytest.approx([0.1, 0.1])


def test_pair_counts_bound_every_centre() -> None:
    rows = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).double() * 9
    one_by_one = [_Counts(torch.tensor([label]), row[None]) for label, row in zip(range(-1, 3), rows, strict=False)]
    lengths = [float(one.clipped_sum(0.5).norm()) for one in one_by_one]
    assert lengths == pytest.approx([0.0, 0.5, 0.5, 0.5])
    together = _Counts(torch.arange(-1, 3), rows[:4]).clipped_sum(0.5)
    assert torch.allclose(together, torch.stack([one.clipped_sum(0.5) for one in one_by_one]).sum(dim=0))


def test_pairs_spend_little_on_the_counts() -> None:
    public = Public.blank(5000, 7, 3)
    plan = PairCounts().plan(public, NODE, Reading.SOUND, 20.0)
    assert [step.name for step in plan.steps] == ["gradient", "pairs"]
    assert [step.times for step in plan.steps] == [100, 1]
    own = accounting.epsilon(replace(plan, steps=plan.steps[:1]), 1e-5)
    assert own == accounting.epsilon(DpSgd(learning_rate=64.0).plan(public, NODE, Reading.SOUND, 20.0), 1e-5)
    assert own < accounting.epsilon(plan, 1e-5) < 1.1 * own


def test_undirected_pairs_are_symmetric(graph: gv.Graph) -> None:
    release = gv.train(graph, PairCounts(), noise=3.0, unit="node", seed=0)
    counts: Tensor = release.state["pairs.counts"]
    assert torch.equal(counts, counts.T)
    # Nearly half of the training ids are central once, half of them with a neighbour: friends are of one class.
    assert float(release.state["pairs.classes"].sum()) == pytest.approx(int(graph.train.sum()) / 2, rel=0.1)
    assert float(counts.diagonal().sum()) > 0.5 * float(counts.sum())


@pytest.mark.parametrize(
    "wrong", [{"multiplier": 0.0}, {"p_max": 0.0}, {"p_max": 1.1}, {"learning_rate": 0.0}, {"scale": "columns"}]
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        PairCounts(**wrong)
