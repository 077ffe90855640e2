"""What `train` says of a model's quality: by class, beside the largest class, with a warning of a lazy model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bank import accounts, payments, written
from graphveil.cli import app
from graphveil.cli.scores import in_one_line, print_classes
from graphveil.tasks.class_scores import judged


def trained(folder: Path, *words: str, epochs: str = "2") -> str:
    """What train says about the small bank."""
    (folder / "nodes.csv").write_text(written(accounts()))
    (folder / "edges.csv").write_text(written(payments()))
    files = ["--edges", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv"), "--split", "random"]
    result = CliRunner().invoke(app, ["train", "mlp", *files, "--unit", "edge", "--epsilon", "1", "--seed", "0",
                                      "--epochs", epochs, "--quiet", *words])  # fmt: skip
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_train_prints_and_records_scores_by_the_names_of_classes(tmp_path: Path) -> None:
    said = trained(tmp_path, "--record", str(tmp_path / "run.json"))
    assert "(largest class " in said
    assert "is / named" in said
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["classes"] == ["fraud", "ok"]
    assert [len(row) for row in record["test"]["confusion"]] == [2, 2]
    fraud = next(line for line in said.splitlines() if line.strip().startswith("fraud"))
    assert f"{record['test']['classes'][0]['auc']:.4f}" in fraud
    assert {"balanced_accuracy", "average_precision", "largest_class"} <= record["val"].keys()


def test_a_model_that_names_one_class_is_warned_of(tmp_path: Path) -> None:
    """A threshold that everybody passes makes everybody a fraud."""
    assert "names one class only" in trained(tmp_path, "--threshold", "fraud=0.000001")
    assert "names one class only" not in trained(tmp_path, epochs="200")


@pytest.mark.parametrize(("classes", "crossed"), [(2, True), (6, True), (7, False), (40, False)])
def test_lines_fit_a_terminal(classes: int, crossed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    truth = torch.arange(200) % classes
    found = judged(truth, truth, classes, torch.eye(classes)[truth])
    print_classes([f"class {place}" for place in range(classes)], found)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert len(lines) < 22
    assert max(map(len, [*lines, in_one_line(found)])) < 112
    assert any("is / named" in line for line in lines) is crossed
    assert any("larger classes" in line for line in lines) is (classes > 12)


def test_what_is_unknown_is_a_dash() -> None:
    truth = torch.zeros(3, dtype=torch.int64)
    assert "AUC -," in in_one_line(judged(truth, truth, 2, torch.ones(3, 2)))
