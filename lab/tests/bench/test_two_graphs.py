"""Experiments on two graphs: the public one is what is scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graphveil as gv
from graphveil_lab.bench import runner
from graphveil_lab.bench.spec import Spec


def spec(method: str, params: dict[str, Any], split: str = "two_graphs") -> Spec:
    base = {"title": "t", "datasets": ["social"], "unit": "node", "delta": 1e-5, "epsilons": [2], "seeds": [2]}
    return Spec.model_validate(base | {"split": split, "method": [{"name": method, "params": params}]})


def test_public_test_nodes_are_scored(tmp_path: Path) -> None:
    [record] = runner.run(spec("dpsgd", {"steps": 3}), out=tmp_path, progress=False)
    assert record.result is not None
    graph = gv.datasets.load("social", split="two_graphs", seed=2)
    release = gv.train(graph, gv.methods.DpSgd(steps=3), epsilon=2, delta=1e-5, unit="node", seed=2)
    expected = release.evaluate("test", graph.public_graph)
    kept = record.result.test.model_dump(exclude={"rare_f1", "precision"})
    assert kept == pytest.approx({score: expected[score] for score in kept})


def test_what_could_not_be_scored_is_refused() -> None:
    with pytest.raises(ValueError, match="gcn labels the private graph alone"):
        spec("gcn", {})
    assert spec("pate", {}).tasks()
    with pytest.raises(ValueError, match="pate needs a public graph"):
        spec("pate", {}, split="random")
    assert spec("pate", {}, split="two_graphs_exchanged").tasks()
    with pytest.raises(ValueError, match="gcn labels the private graph alone"):
        spec("gcn", {}, split="two_graphs_exchanged")
