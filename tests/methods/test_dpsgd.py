"""DpSgd: training records alone are read, and samples are sold only where they are proven."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import graphveil as gv
from graphveil.core import Adjacency, Reading, Unsupported
from graphveil.methods.dpsgd import DpSgd

METHODS = [DpSgd(steps=3), DpSgd(steps=3, sampling_rate=0.5)]


@pytest.mark.parametrize("method", METHODS, ids=["all", "sampled"])
def test_records_that_do_not_train_are_not_read(method: DpSgd) -> None:
    graph = gv.datasets.load("chain-s")
    x, y = graph.x.clone(), graph.y.clone()
    x[~graph.train] += 3.0
    y[~graph.train] = (y[~graph.train] + 1) % graph.num_classes
    first, second = (
        gv.train(one, method, noise=1.0, delta=1e-5, unit="node", seed=2).state
        for one in (graph, replace(graph, x=x, y=y))
    )
    assert torch.equal(first["weights.0"], second["weights.0"])


def test_samples_are_not_planned_where_a_record_is_replaced() -> None:
    public = gv.datasets.load("chain-s").seal(Adjacency.of("node"))[0]
    sampled = METHODS[1]
    assert sampled.plan(public, Adjacency.of("node"), Reading.SOUND, 2.0).steps
    for unit in ("features", "label"):
        with pytest.raises(Unsupported, match="sampling_rate=1"):
            sampled.plan(public, Adjacency.of(unit), Reading.SOUND, 2.0)
