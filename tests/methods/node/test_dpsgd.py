"""DpSgd: training records alone are read, and samples are sold only where they are proven."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

import graphveil as gv
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.methods.node.dpsgd import DpSgd
from graphveil.vocabulary import Adjacency, Reading

METHODS = [
    DpSgd(steps=3),
    DpSgd(steps=3, sampling_rate=0.5),
    DpSgd(steps=3, learning_rate=64.0),
    DpSgd(steps=3, learning_rate=64.0, sampling_rate=0.5),
]


@pytest.mark.parametrize("method", METHODS, ids=["all", "sampled", "all, given rate", "sampled, given rate"])
def test_records_that_do_not_train_are_not_read(method: DpSgd) -> None:
    graph = gv.datasets.load("chain-s")
    x, y = graph.x.clone(), graph.y.clone()
    x[~graph.train] += 3.0
    y[~graph.train] = (y[~graph.train] + 1) % graph.num_classes
    first, second = (
        gv.train(one, method, noise=1.0, delta=1e-5, unit="node", seed=2).state
        for one in (graph, replace(graph, x=x, y=y))
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_samples_are_not_planned_where_a_record_is_replaced() -> None:
    public = gv.datasets.load("chain-s").seal(Adjacency.of("node"))[0]
    sampled = METHODS[1]
    assert sampled.plan(public, Adjacency.of("node"), Reading.SOUND, 2.0).steps
    for unit in ("features", "label"):
        with pytest.raises(Unsupported, match="sampling_rate=1"):
            sampled.plan(public, Adjacency.of(unit), Reading.SOUND, 2.0)


def test_a_given_rate_runs_gradients_alone_as_ever() -> None:
    graph = gv.datasets.load("chain-s")
    method = DpSgd(steps=4, learning_rate=64.0)
    release = gv.train(graph, method, noise=1.0, delta=1e-5, unit="node", seed=2)
    assert [step.name for step in release.certificate.plan.steps] == ["gradient"]
    assert release.state.keys() == {"weights.0"}
    sums = release.state["weights.0"].double().sum(dim=0)
    assert sums.tolist() == pytest.approx([7.008749, -11.433994], rel=1e-5)
    with pytest.raises(InvalidInput, match="learning_rate"):
        DpSgd(learning_rate=-1.0)


@pytest.mark.parametrize(("unit", "moved"), [("node", 1.0), ("features", 2.0), ("label", 2.0)])
def test_counts_and_check_are_charged(unit: str, moved: float) -> None:
    """A record adds one clip to every sum: it is charged once where it comes or goes, twice where it is replaced."""
    plan = DpSgd().plan(Public.blank(1000, 5, 3), Adjacency.of(unit), Reading.SOUND, 20.0)
    assert {step.name: step.times for step in plan.steps} == {"counts": 1, "gradient": 100, "check": 1}
    for step in plan.steps:
        assert step.claim == GaussianCurve(moved / plan.act(step.name, Gaussian).std)
    # Two candidates, each right where the largest class is wrong.
    assert plan.act("check", Gaussian).clip == math.sqrt(2)
    assert plan.act("counts", Gaussian).clip == 1.0
    costs = {step.name: step.times * step.claim.gdp() ** 2 for step in plan.steps}
    assert costs["gradient"] / sum(costs.values()) == pytest.approx(0.9)


def uneven(nodes: int, width: int, rare: float, tells: float, seed: int) -> Graph:
    """Two classes, the second with share `rare`; features are noise and `tells` times a direction."""
    draw = torch.Generator().manual_seed(seed)
    y = (torch.rand(nodes, generator=draw) < rare).long()
    x = torch.randn(nodes, width, generator=draw)
    x[:, 0] += tells * (2.0 * y - 1)
    nothing = torch.zeros(2, 0, dtype=torch.int64)
    return Graph.from_pyg(Data(x, nothing, y=y), undirected=True).random_split(0.25, 0.0, 0.75, seed=seed)


def beside_the_largest(graph: Graph, method: DpSgd, epsilon: float, seed: int = 0) -> float:
    release = gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit="node", seed=seed)
    assert release.certificate.epsilon <= epsilon
    largest = int(torch.bincount(graph.y[graph.train]).argmax())
    return release.evaluate("test")["accuracy"] - float((graph.y[graph.test] == largest).double().mean())


@pytest.mark.parametrize(
    ("width", "rare", "tells", "seeds"),
    [(400, 0.4, 0.0, 3), (400, 0.22, 0.0, 3), (10, 0.05, 0.5, 12), (30, 0.22, 0.3, 12)],
)
def test_never_far_below_the_largest_class(width: int, rare: float, tells: float, seeds: int) -> None:
    """With as many features as nodes, those who taught the weights find them good: they must not be believed."""
    for epsilon in (0.5, 2.0, 8.0):
        graphs = [uneven(3000, width, rare, tells, seed) for seed in range(seeds)]
        found = [beside_the_largest(graph, DpSgd(), epsilon, seed) for seed, graph in enumerate(graphs)]
        assert sum(found) / len(found) >= -0.005, (epsilon, found)


def test_what_is_learnt_is_kept_where_it_helps() -> None:
    graph = uneven(3000, 10, 0.4, 1.5, seed=0)
    for method in (DpSgd(), DpSgd(hidden=8, steps=40), DpSgd(momentum=0.5, average=0.5, sampling_rate=0.5, steps=20)):
        assert beside_the_largest(graph, method, 4.0) > 0.1, method
