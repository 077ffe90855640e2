"""What made a kept file is noted, and noticed if it is another."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import making
from graphveil import discover
from graphveil.bench import spec
from graphveil.datasets.source import SplitName
from graphveil.evidence import court
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
    rooms = {path.parent.name for path in making._imported(node)}
    assert rooms <= {"benchmarks", "evidence", "attacks", "cases", "privacy", "release"}


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


@pytest.mark.parametrize("name", making.MADE)
def test_a_script_names_no_split_that_is_not_noted(name: str) -> None:
    made = making.MADE[name]
    named = rf'(?:split=|return |else |")({"|".join(get_args(SplitName))})"'
    asked = {split for file in made.files for split in re.findall(named, file.read_text())}
    assert not made.datasets or asked - {"public"} <= set(made.splits)
    data = making.key_of(name)["data"]
    assert any(" " in each for each in data) or not any(each in data for each in made.datasets)


def test_another_split_makes_a_file_stale(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making.keep(results / "leaky-loop.json", [RUN])
    assert not making.stale("leaky-loop")
    monkeypatch.setattr(making.runner, "split_of", lambda *_: "split otherwise")
    (why,) = making.stale("leaky-loop")
    assert why.startswith("data: ")


@pytest.mark.usefixtures("results")
def test_what_hands_results_on_is_noted_and_counts_without_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "REPOSITORY", tmp_path)
    monkeypatch.setattr(making, "PACKAGE", tmp_path)
    monkeypatch.setattr(making, "PLUMBING", ("one", "two"))
    for name in making.PLUMBING:
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    assert not making.plumbing_noted()
    monkeypatch.setattr(sys, "argv", ["making.py", "plumbing"])
    making.main()
    assert making.plumbing_noted() == making.plumbing()
    for text, same in (("x = 1  # one\n", True), ("x = 2\n", False)):
        (tmp_path / "two.py").write_text(text)
        making.revisions.forget()
        assert (making.plumbing_noted() == making.plumbing()) == same


def test_runs_that_are_the_same_again_are_noted(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making.keep(results / "edge-attacks.json", [RUN])
    altered(results, source="0")
    for wrong in (0.6, float("nan")):
        monkeypatch.setattr("edge_attacks.again", lambda run, wrong=wrong: {**run, "accuracy": wrong})
        assert not making.confirm("edge-attacks", 1, jobs=1)
        assert making.stale("edge-attacks")
    monkeypatch.setattr("edge_attacks.again", lambda run: run)
    assert making.confirm("edge-attacks", 1, jobs=1)
    assert not making.stale("edge-attacks")


def test_runs_of_some_methods_confirm_no_others(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making.keep(results / "edge-attacks.json", [RUN, {**RUN, "method": "mlp"}])
    altered(results, source="0")
    monkeypatch.setattr("edge_attacks.again", lambda run: run)
    assert not making.confirm("edge-attacks", 5, jobs=1, where="method=mlp")
    assert making.stale("edge-attacks")
    assert making.confirm("edge-attacks", 2, jobs=1)


def test_what_was_edited_by_hand_is_not_confirmed(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making.keep(results / "edge-attacks.json", [RUN])
    (results / "edge-attacks.json").write_text(json.dumps([{**RUN, "accuracy": 0.9}]))
    monkeypatch.setattr("edge_attacks.again", lambda run: run)
    with pytest.raises(SystemExit, match="not what was noted"):
        making.confirm("edge-attacks", 1, jobs=1)


def test_a_file_without_runs_of_its_own_is_not_confirmed() -> None:
    with pytest.raises(SystemExit, match="heterpoisson-audit has no runs"):
        making.confirm("heterpoisson-audit", 1, jobs=1)


@pytest.mark.parametrize("words", ["--quick", "--datasets cora"])
def test_a_part_is_not_noted_as_the_whole(results: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    script, *told = making.MADE["edge-attacks"].command.removeprefix("python ").split()
    monkeypatch.setattr(sys, "argv", [str(making.REPOSITORY / script), *told, *words.split()])
    making.keep(results / "edge-attacks.json", [RUN])
    assert making.stale("edge-attacks")
    monkeypatch.setattr(sys, "argv", [str(making.REPOSITORY / script), *told[2:], "--jobs", "7"])
    making.keep(results / "edge-attacks.json", [RUN])
    assert not making.stale("edge-attacks")


def test_what_was_edited_while_it_ran_is_not_noted(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, *told = making.MADE["edge-attacks"].command.removeprefix("python ").split()
    monkeypatch.setattr(sys, "argv", [str(making.REPOSITORY / script), *told])
    monkeypatch.setattr(making, "_STARTED", 0.0)
    making.keep(results / "edge-attacks.json", [RUN])
    assert making.stale("edge-attacks")


def test_neither_is_what_was_made_while_a_method_was_edited(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, *told = making.MADE["edge-attacks"].command.removeprefix("python ").split()
    monkeypatch.setattr(sys, "argv", [str(making.REPOSITORY / script), *told])
    monkeypatch.setattr(making.revisions, "edited", lambda name: "lpgnet.py" if name == "lpgnet" else "")
    making.keep(results / "edge-attacks.json", [RUN])
    assert making.stale("edge-attacks")


def test_what_a_court_hears_and_what_hands_it_on_runs_too() -> None:
    run = {file.name for file in making._run_by(making.MADE["court-power"])}
    assert {"court_power.py", "gap.py", "hearsay.py", "runner.py"} <= run


def test_a_court_hears_all_code_of_a_method_and_of_methods_among_its_settings() -> None:
    (best,) = (case for case in court.cases() if case.name == "best-node")
    found = {file.name for file in making._files_of(making._modules(best))}
    assert {"best.py", "dpsgd.py", "gaussian.py"} <= found
    (stream,) = (case for case in court.cases() if case.name == "stream-edge")
    assert "hearsay.py" in {file.name for file in making._files_of(making._modules(stream))}
    judges = {file.name for file in making.sources(making.MADE["court"])}
    assert {
        "accounting.py",
        "session.py",
        "journal.py",
        "period.py",
        "finding.py",
        "stronger.py",
        "gap_one_row.py",
    } <= judges


def test_where_no_method_is_run_all_code_counts_that_is_imported() -> None:
    assert {"auditor.py", "bounds.py", "gaussian.py", "accounting.py"} <= {
        file.name for file in making.sources(making.MADE["auditor"])
    }


@pytest.fixture
def table(results: Path) -> Path:
    """The kept table of gap, and the lists of history."""
    kept = making.REPOSITORY / "results"
    for name in ("gap", "history/confirmed", "history/earlier"):
        (results / f"{name}.json").write_bytes((kept / f"{name}.json").read_bytes())
    return results / "gap.json"


@pytest.mark.parametrize(
    ("word", "part"), [("test", "scores"), ("made_by", "scores"), ("audited", "audits"), ("played_by", "audits")]
)
def test_scores_and_audits_of_a_table_are_noted_apart(table: Path, word: str, part: str) -> None:
    before = making.tables_now()["gap"]
    held = json.loads(table.read_text())
    held[0][word] = "another"
    table.write_text(json.dumps(held))
    now = making.tables_now()["gap"]
    assert {name for name in now if now[name] != before[name]} == {part}


@pytest.mark.usefixtures("table")
def test_another_grid_is_another_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = spec.load("gap")
    before = making.tables_now()["gap"]
    monkeypatch.setattr(spec, "load", lambda _: asked.model_copy(update={"seeds": (0,)}))
    now = making.tables_now()["gap"]
    assert {name for name in now if now[name] != before[name]} == {"experiment"}


def test_what_is_noted_of_tables_is_what_they_hold(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "TABLES", table.parent / "history" / "tables.json")
    monkeypatch.setattr(sys, "argv", ["making.py", "tables"])
    making.main()
    assert making.tables_noted() == making.tables_now()
    assert set(making.tables_noted()) == {"gap", "history/confirmed", "history/earlier"}
