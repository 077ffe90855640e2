"""The best proven line of a graph: which lines may be it, and what it is set beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphveil.cli import app
from graphveil.errors import InvalidInput
from graphveil_lab.bench.best_proven import best_proven
from reported import row, write

FREE = {"certificate_epsilon": 0.0, "sound_epsilon": 0.0}
OPEN = {"epsilon": "inf", "certificate_epsilon": "inf", "sound_epsilon": "inf"}


def told(tmp_path: Path, *lines: dict[str, Any]) -> list[str]:
    """The rows of the tables."""
    said = best_proven([write(tmp_path / "t.json", [{"split": "random", **line} for line in lines])])
    return [line for line in said.splitlines() if line.startswith("| ") and "---" not in line]


def test_gaps_to_no_privacy_and_to_the_largest_class(tmp_path: Path) -> None:
    lines = (
        *(row(method="gap", test=0.7), row(method="hearsay", test=0.75), row(method="gap", test=0.8, epsilon=2.0)),
        *(row(method="gcn", test=0.9, **OPEN), row(method="gin", test=0.85, **OPEN)),
        row(method="largest class", test=0.3, **FREE),
    )
    assert told(tmp_path, *lines) == [
        "| graph | largest class | not private | ε = 1 | ε = 2 |",
        "| cora | 30.0 | gcn 90.0 | hearsay 75.0 (-15.0, +45.0) | gap 80.0 (-10.0, +50.0) |",
    ]


@pytest.mark.parametrize(
    "worthless",
    [
        {"reading": "published", "sound_epsilon": 3.0},
        {"sound_epsilon": 1.2},
        {"audited": 1.1, "audit": "REFUTED: a canary"},
        {"selection": "tuned on validation, cost not charged"},
        {"failed": 1, "failure": "Unsupported: no"},
        {"test": None, "std": None},
    ],
)
def test_what_is_not_proven_is_not_the_best(tmp_path: Path, worthless: dict[str, Any]) -> None:
    lines = row(method="gap", test=0.5), {**row(method="boast", test=0.9), **worthless}
    assert told(tmp_path, *lines)[1] == "| cora |  |  | gap 50.0 (?, ?) |"


def test_a_line_that_spends_nothing_may_be_the_best_at_every_epsilon(tmp_path: Path) -> None:
    lines = row(method="gap", test=0.5), row(method="gap", test=0.9, epsilon=2.0), row(method="mlp", test=0.7, **FREE)
    assert told(tmp_path, *lines)[1] == "| cora |  |  | mlp 70.0 (?, ?) | gap 90.0 (?, ?) |"


def test_yardsticks_are_of_the_same_split_and_graph_for_all_units(tmp_path: Path) -> None:
    lines = (
        *(row(unit="node", method="whisper", test=0.5), row(unit="edge", method="largest class", test=0.4, **FREE)),
        *(row(dataset="other", method="largest class", test=0.1, **FREE), row(unit="edge", method="gcn", **OPEN)),
        {**row(unit="node", method="census", test=0.6), "split": "two_graphs"},
    )
    said = told(tmp_path, *lines)
    assert "| cora | 40.0 | gcn 55.0 | whisper 50.0 (-5.0, +10.0) |" in said
    assert said[-1] == "| cora |  |  | census 60.0 (?, ?) |"


def test_the_command_prints_it_and_says_what_it_lacks(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [row(method="gap", test=0.7), row(method="gcn", test=0.9, **OPEN)])
    said = CliRunner().invoke(app, ["bench", "board", str(path), "--best"])
    assert "| cora |  | gcn 90.0 | gap 70.0 (-20.0, ?) |" in said.output
    assert CliRunner().invoke(app, ["bench", "board", str(path), "--best", "--json"]).exit_code == 2
    with pytest.raises(InvalidInput, match="no line of these results spends"):
        best_proven([write(tmp_path / "u.json", [row(method="gcn", **OPEN)])])
