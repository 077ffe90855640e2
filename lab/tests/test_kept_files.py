"""Kept files say what made them."""

from __future__ import annotations

import json
import math
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from graphveil_lab import kept_files

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*.json"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_every_kept_file_says_what_made_it(file: Path) -> None:
    made = kept_files.read(file).made
    assert made["command"].startswith(("graphveil ", "python lab/"))
    assert f"lab/results/{file.name}" in made["command"]
    assert len(made["commit"].removesuffix("-dirty")) == 40
    assert datetime.fromisoformat(made["date"]).tzinfo is not None
    assert made["version"]


def test_a_file_is_written_with_what_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = kept_files.checkout()
    assert root is not None
    monkeypatch.setattr("sys.argv", [str(root / "lab" / "benchmarks" / "floors.py"), "--json", "a b"])
    kept_files.write(tmp_path / "deep" / "t.json", {"b": math.inf, "a": [1]})
    text = (tmp_path / "deep" / "t.json").read_text()
    assert list(json.loads(text)) == ["made", "runs"]
    assert list(json.loads(text)["runs"]) == ["a", "b"]
    kind, made, content = kept_files.read(tmp_path / "deep" / "t.json")
    assert (kind, content) == ("runs", {"a": [1], "b": "inf"})
    assert made["command"] == "python lab/benchmarks/floors.py --json 'a b'"
    assert made["version"] == version("graphveil")


def test_the_command_line_is_named_as_it_is_typed() -> None:
    assert kept_files.command(["/opt/bin/graphveil", "bench", "run", "smoke"]) == "graphveil bench run smoke"
