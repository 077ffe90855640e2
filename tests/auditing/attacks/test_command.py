"""`graphveil attack`: one command for every attack on a trained model, each beside its floors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graphveil import cli
from graphveil.errors import GraphveilError
from joined import unrelated


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """A graph as a user's own tables."""
    graph = unrelated(60)
    sources, targets = graph.adj.indices, graph.adj.targets()
    once = sources < targets
    edges = np.stack([sources[once], targets[once]], axis=1)
    np.savetxt(tmp_path / "edges.csv", edges, fmt="%d", delimiter=",", header="source,target", comments="")
    rows = np.concatenate([np.arange(60)[:, None], graph.y.numpy()[:, None], graph.x.numpy()], axis=1)
    header = ",".join(["id", "label", *(f"f{i}" for i in range(graph.num_features))])
    form = ["%d", "%d", *["%.6f"] * graph.num_features]
    np.savetxt(tmp_path / "nodes.csv", rows, fmt=form, delimiter=",", header=header, comments="")
    return ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv")]


def test_it_says_how_well_the_attack_went_beside_the_floors(tables: list[str]) -> None:
    words = ["attack", "linkteller", "gcn", *tables, "--epsilon", "inf", "--sample", "30", "--epochs", "60", "--json"]
    told = json.loads(CliRunner().invoke(cli.app, words).stdout)
    assert told["result"]["auc"] > 0.75
    assert [floor["attacker"] for floor in told["floors"]] == ["features alone", "mlp posteriors"]
    assert told["attack"]["sample"] == 30
    assert {"auc low degree", "auc high degree", "tpr at 0.1 %", "tpr at 1 %"} < set(told["result"])


def test_attacker_and_method_have_settings_of_their_own(tables: list[str]) -> None:
    words = ["attack", "lpa", "gap", *tables, "--epsilon", "2", "--hops", "2", "--epochs", "2", "--json"]
    told = json.loads(CliRunner().invoke(cli.app, [*words, "--set", "distance=cosine", "--set", "sample=20"]).stdout)
    assert (told["attack"]["distance"], told["attack"]["sample"], told["method"]["hops"]) == ("cosine", 20, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["telepathy", "gap"], "linkteller"),
        (["lpa", "gap", "--set", "metric=cosine"], "distance"),
        (["lpa", "gap", "--set", "sample=many"], "whole number"),
        (["lpa", "gcn", "--unit", "node"], "edge"),
        (["gmia", "gcn", "--unit", "edge"], "node"),
    ],
)
def test_what_cannot_be_is_refused(tables: list[str], words: list[str], said: str) -> None:
    result = CliRunner().invoke(cli.app, ["attack", *words, *tables, "--epsilon", "1"])
    assert isinstance(result.exception, GraphveilError)
    assert said in str(result.exception)
