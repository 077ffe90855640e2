"""Flagships on large graphs, read block by block: as good as on wholes, on disk as in memory, whatever the block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import graphveil as gv
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.methods.method import Method
from graphveil.nn import rows
from graphveil.runtime.compute import Compute

CASES = [
    pytest.param(gv.methods.Probe(), "label", id="probe-label"),
    pytest.param(gv.methods.Probe(), "features", id="probe-features"),
    pytest.param(gv.methods.Whisper(steps=20), "node", id="whisper-node"),
    pytest.param(gv.methods.Whisper(steps=20), "features", id="whisper-features"),
]
GIVEN: dict[str, Any] = {"epsilon": 4, "delta": 1e-5, "seed": 0}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=900).random_split(seed=0)


@pytest.mark.parametrize(("method", "unit"), CASES)
def test_blocks_are_as_good_as_wholes(
    graph: Graph, method: Method, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gv.train(graph, method, unit=unit, **GIVEN).evaluate("test")["accuracy"]
    monkeypatch.setattr(rows, "WHOLE", 100)
    # What was made of the same graph before is of wholes.
    apart = [gv.open_packed(gv.pack(graph, tmp_path / "packed")), graph.with_split(*_masks(graph), "again")]
    found = [gv.train(each, method, unit=unit, compute=Compute(block=64), **GIVEN) for each in apart]
    assert found[0].evaluate("test")["accuracy"] > whole - 0.03
    assert torch.equal(found[0].state["logits"], found[1].state["logits"])
    other = gv.train(gv.open_packed(tmp_path / "packed"), method, unit=unit, compute=Compute(block=333), **GIVEN)
    assert float((other.predict() == found[0].predict()).double().mean()) > 0.98


def _masks(graph: Graph) -> tuple[torch.Tensor, ...]:
    return graph.train, graph.val, graph.test
