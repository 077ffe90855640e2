"""What made a kept file is noted, and noticed if it is another."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import making
from graphveil import discover
from graphveil.report import records


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of results."""
    (tmp_path / "history").mkdir()
    monkeypatch.setattr(making, "RESULTS", tmp_path)
    monkeypatch.setattr(making, "NOTES", tmp_path / "history" / "made_by.json")
    return tmp_path


RUN = {"part": "figure 7", "dataset": "cora", "method": "gcn", "epsilon": "inf", "seed": 0, "accuracy": 0.8}


def altered(results: Path, **changed: Any) -> None:
    notes = results / "history" / "made_by.json"
    said = json.loads(notes.read_text())
    said["edge-attacks"] |= changed
    notes.write_text(json.dumps(said))


def test_a_file_is_current_when_it_is_kept(results: Path) -> None:
    assert making.stale("edge-attacks") == ["it is not known what made it"]
    making.keep(results / "edge-attacks.json", [RUN])
    assert making.stale("edge-attacks") == []
    assert making.runs_of("edge-attacks") == [RUN]


@pytest.mark.parametrize("changed", [{"made_by": "caribou 0"}, {"source": "0"}, {"content": "0"}])
def test_other_code_or_another_file_makes_it_stale(results: Path, changed: dict[str, str]) -> None:
    making.keep(results / "edge-attacks.json", [RUN])
    altered(results, **changed)
    assert len(making.stale("edge-attacks")) == 1
    assert making.runs_of("edge-attacks") == [], "stale runs are made again"


def test_a_report_tells_of_a_stale_file_and_does_not_show_it(results: Path) -> None:
    attacks = {"lpa": {"auc": 0.75}}
    making.keep(results / "edge-attacks.json", [{**RUN, "sound epsilon": 1.0, "attacks": attacks}])
    assert "edge-attacks" in records.read([results]).attacks
    altered(results, made_by="caribou 0")
    found = records.read([results])
    assert found.plain["edge-attacks"].rows == (("made by caribou 0; run it again",),)
    assert not found.attacks


def test_elsewhere_a_file_is_only_written(results: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    making.keep(tmp_path / "other" / "edge-attacks.json", [RUN])
    assert not (results / "history" / "made_by.json").exists()


def test_the_source_of_a_script_is_all_that_it_takes_of_evidence_and_of_its_neighbours() -> None:
    node = making.MADE["node-attacks"].files[0]
    direct = {path.name for path in making._imported(node)}
    assert {"edge_attacks.py", "gmia.py", "bounds.py"} <= direct
    assert "making.py" not in direct
    assert {path.parent.name for path in making._imported(node)} <= {"benchmarks", "evidence", "attacks", "cases"}


@pytest.mark.parametrize("name", making.MADE)
def test_a_script_names_no_method_that_is_not_noted(name: str) -> None:
    made = making.MADE[name]
    known = {kind.__name__: method for method, kind in discover.methods().items()}
    asked = {
        known[kind]
        for file in made.files
        for kind in re.findall(r"gv\.methods\.(\w+)", file.read_text())
        if kind in known
    }
    assert asked <= set(made.methods) <= set(discover.methods())


def test_runs_that_are_the_same_again_are_noted(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making.keep(results / "edge-attacks.json", [RUN])
    altered(results, source="0")
    monkeypatch.setattr("edge_attacks.again", lambda run: {**run, "accuracy": run["accuracy"] - 0.2})
    assert not making.confirm("edge-attacks", 1, jobs=1)
    assert making.stale("edge-attacks")
    monkeypatch.setattr("edge_attacks.again", lambda run: run)
    assert making.confirm("edge-attacks", 1, jobs=1)
    assert not making.stale("edge-attacks")
