"""Cross-fitting: no node's own label touches its belief, and networks side by side equal networks alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from graphveil.core import Adjacency
from graphveil.datasets.synthetic import social
from graphveil.graph.graph import Graph
from graphveil.graph.sealing import Public
from graphveil.nn.fit import Sweeps
from graphveil.nn.folds import Folds, MlpEnsemble


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=300).random_split(seed=0)


def fitted(graph: Graph, folds: int = 4) -> tuple[Folds, Public]:
    public, _ = graph.seal(Adjacency.of("edge"))
    torch.manual_seed(0)
    return Folds.fit(graph.x, public, folds, hidden=8), public


def test_parts_share_out_the_training_nodes(graph: Graph) -> None:
    folds, _ = fitted(graph)
    counts = torch.bincount(folds.parts[graph.train])
    assert torch.equal(folds.parts >= 0, graph.train)
    assert int(counts.max() - counts.min()) <= 1
    assert sum(len(ensemble.inner) for ensemble in folds.ensembles) == len(counts) == 4


def test_no_label_touches_the_belief_of_its_own_node(graph: Graph) -> None:
    folds, _ = fitted(graph)
    before = folds.log_beliefs(graph.x)
    # Not of the first part, whose loss chooses how to regularise.
    node = int((folds.parts == 2).nonzero()[0])
    y = graph.y.clone()
    y[node] = (y[node] + 1) % graph.num_classes
    after = fitted(replace(graph, y=y))[0].log_beliefs(graph.x)
    assert torch.equal(before[node], after[node])
    assert not torch.equal(before[folds.parts == 1], after[folds.parts == 1])


def test_networks_do_not_hear_each_other() -> None:
    torch.manual_seed(0)
    ensemble, x, y = MlpEnsemble(3, (5, 4, 2)), torch.randn(7, 3, 5), torch.randint(2, (7, 3))
    cross_entropy(ensemble(x).flatten(0, 1), y.flatten(), reduction="sum").backward()
    assert ensemble.inner.grad is not None
    alone = ensemble.inner.detach()[1].requires_grad_()
    scores = torch.relu(x[:, 1] @ alone + ensemble.inner_bias[1]) @ ensemble.outer[1] + ensemble.outer_bias[1]
    torch.testing.assert_close(ensemble(x)[:, 1], scores)
    cross_entropy(scores, y[:, 1], reduction="sum").backward()
    torch.testing.assert_close(ensemble.inner.grad[1], alone.grad)


def test_weights_travel(graph: Graph) -> None:
    folds, public = fitted(graph)
    back = Folds.restore(folds.state(), public)
    everyone = torch.cat([ensemble.log_posteriors(graph.x) for ensemble in folds.ensembles]).mean(dim=0)
    torch.testing.assert_close(back.log_beliefs(graph.x), everyone.log_softmax(dim=1))


@pytest.mark.parametrize("training", [1, 2, 5])
def test_a_handful_of_training_nodes_is_enough(graph: Graph, training: int) -> None:
    few = torch.zeros_like(graph.train)
    few[graph.train.nonzero()[:training]] = True
    folds, _ = fitted(graph.with_split(few, graph.val, graph.test, "few"))
    assert folds.log_beliefs(graph.x).isfinite().all()


@pytest.mark.parametrize("count", [1, 5, 16, 100, 3000])
def test_every_pass_reads_every_row_but_a_rest(count: int) -> None:
    batches = Sweeps(passes=3).batches(torch.arange(count))
    assert batches.shape[0] >= 100
    assert batches.shape[1] <= 512
    each = count // batches.shape[1]
    one = batches[:each].flatten()
    assert len(one.unique()) == len(one) > count - batches.shape[1]
