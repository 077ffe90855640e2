"""Kept lines are run again: the same ones take the new source over, another one raises the revision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import confirm
from graphveil.bench import revisions, runner, spec, table
from graphveil.runtime.compute import Compute

SPEC = """
title = "t"
datasets = ["chain-s"]
unit = "node"
delta = 1e-5
epsilons = [2]
seeds = [0, 1]
[[method]]
name = "dpsgd"
params = {steps = 3}
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of one line, in a checkout of its own."""
    (tmp_path / "small.toml").write_text(SPEC)
    monkeypatch.setattr(spec, "_home", lambda: tmp_path)
    monkeypatch.setattr(confirm, "RESULTS", tmp_path)
    monkeypatch.setattr(revisions, "FILE", tmp_path / "revisions.json")
    (tmp_path / "revisions.json").write_text(Path(revisions.__file__).with_name("revisions.json").read_text())
    made = spec.load("small")
    table.write(table.summarise(made, runner.run(made, out=tmp_path / "records")), tmp_path / "small.json")
    yield tmp_path
    forget()


def forget() -> None:
    revisions.forget()
    confirm._tables_of.cache_clear()


def edit(kept: Path, **changes: Any) -> None:
    """Change the kept line."""
    [line] = json.loads((kept / "small.json").read_text())
    (kept / "small.json").write_text(json.dumps([line | changes]))


def forget_source(kept: Path) -> None:
    """As if dpsgd had another source when its lines were made."""
    held = json.loads((kept / "revisions.json").read_text())
    held["dpsgd"]["source"] = "0" * 64
    (kept / "revisions.json").write_text(json.dumps(held))
    forget()


def again(kept: Path) -> list[dict[str, Any]]:
    found = confirm.samples("small", 1, 60.0)
    verdicts = confirm.judged(found, kept / "again", Compute(jobs=1))
    confirm.keep(verdicts)
    confirm.settle(found, verdicts)
    return verdicts


def line(kept: Path) -> dict[str, Any]:
    return dict(json.loads((kept / "small.json").read_text())[0])


@pytest.mark.usefixtures("kept")
def test_lines_of_unchanged_code_are_only_run_again_if_one_says_so() -> None:
    assert confirm.samples("small", 1, 60.0) == []
    [found] = confirm.samples("small", 1, 60.0, anyway=True)
    assert found.method == "dpsgd"


def test_the_same_result_keeps_the_revision_and_takes_the_source_over(kept: Path) -> None:
    before = line(kept)["made_by"]
    forget_source(kept)
    assert revisions.stale(before)
    assert [said["same"] for said in again(kept)] == [True]
    assert revisions.made_by("dpsgd") == before == line(kept)["made_by"]
    assert json.loads((kept / "history" / "confirmed.json").read_text())[0]["kept"] == line(kept)["test"]


def test_another_result_raises_the_revision_and_the_line_is_stale(kept: Path) -> None:
    before = revisions.known()["dpsgd"].revision
    edit(kept, test=1.0, std=0.0, interval=0.0)
    forget_source(kept)
    assert [said["same"] for said in again(kept)] == [False]
    assert revisions.made_by("dpsgd") == f"dpsgd {before + 1}"
    assert revisions.stale(line(kept)["made_by"])


@pytest.mark.parametrize(("changes", "known"), [({}, True), ({"test": 1.0, "std": 0.0, "interval": 0.0}, False)])
def test_lines_that_do_not_know_what_made_them(kept: Path, changes: dict[str, Any], known: bool) -> None:
    edit(kept, made_by="", data="", **changes)
    again(kept)
    assert line(kept)["made_by"] == (revisions.made_by("dpsgd") if known else "")
    assert bool(line(kept)["data"]) == known
