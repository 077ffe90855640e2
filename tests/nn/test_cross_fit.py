"""Cross-fitting: no node's own label touches its belief, and networks side by side equal networks alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.nn import fit as fitting
from graphveil.nn.cross_fit import Folds, MlpEnsemble
from graphveil.nn.fit import MANY, Sweeps, fit_in_batches
from graphveil.nn.mlp import Dropout
from graphveil.vocabulary import Adjacency


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


@pytest.mark.parametrize("passes", [1, 2, 10, 20])
@pytest.mark.parametrize("rows", [MANY + 1, 160_000, 600_000, 5_000_000])
def test_cycles_make_the_passes_and_no_more(passes: int, rows: int) -> None:
    cycles = Sweeps(passes).cycles(rows)
    assert sum(cycles) == min(passes * rows // 2048, 4096)
    assert cycles[0] <= 2 * passes * MANY // 2048
    assert all(sum(cycles[:place]) <= cycles[place] <= 3 * sum(cycles[:place]) for place in range(1, len(cycles)))


def _learnt(monkeypatch: pytest.MonkeyPatch, y: torch.Tensor, x: torch.Tensor) -> tuple[int, MlpEnsemble]:
    """Steps that two networks side by side took on many rows."""
    monkeypatch.setattr(fitting, "MANY", 2_000)
    monkeypatch.setattr(fitting, "_LARGE", 128)
    torch.manual_seed(0)
    ensemble, calls = MlpEnsemble(2, (4, 16, 2)), list[int]()
    ensemble.register_forward_hook(lambda module, *_: calls.append(int(module.training)))
    fit_in_batches(ensemble, x, y, torch.stack([torch.arange(len(x))] * 2, dim=1), Sweeps(10))
    return sum(calls), ensemble


def test_many_rows_are_read_again_only_while_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    x = torch.randn(40_000, 4)
    # Chance is learnt at once; a ball takes long.
    steps, _ = _learnt(monkeypatch, torch.randint(2, (40_000,)), x)
    assert steps <= sum(Sweeps(10).cycles(40_000 - 40_000 // 32)[:3])
    ball = (x.square().sum(dim=1) < 3.4).long()
    longer, ensemble = _learnt(monkeypatch, ball, x)
    assert longer > steps
    right = (ensemble.log_posteriors(x).argmax(dim=2) == ball).double().mean(dim=1)
    assert float(right.min()) > 0.9


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_silenced_relu_is_relu_and_dropout_bit_for_bit(rate: float) -> None:
    dropout, x = Dropout(rate), torch.randn(7, 33, 11)
    found = []
    for work in (dropout.of_relu, lambda given: dropout(torch.relu(given))):
        torch.manual_seed(3)
        given = x.clone().requires_grad_()
        out = work(given)
        out.square().sum().backward()
        found.append((out.detach(), given.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_silenced_relu_hides_nothing_that_is_no_number() -> None:
    assert Dropout(0.5).of_relu(torch.full((64,), float("nan"))).isnan().all()
