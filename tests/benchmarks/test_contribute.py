"""Adding a method is one file and one page: all else is rewritten by one command."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import contribute
import making
from graphveil.evidence import court

REPOSITORY = Path(__file__).parents[2]
METHOD = '''
"""A method that somebody adds."""

from dataclasses import dataclass

from graphveil.methods.gap import Gap


@dataclass(frozen=True)
class Newcomer(Gap):
    """As GAP."""
'''
PAGE = """# newcomer

As [gap](gap.md).

| in short | |
|---|---|
| family | Edge level |
| unit | edge |
| what it is | noisy neighbour sums |
| needs | nothing |
| claim | Gaussian, sqrt(2) a hop |
| published proof | none, our own |

## Claim and proof

That of gap.

## Deviations

None.

## Measured

Nothing yet.
"""
CARD = contribute.card("newcomer", PAGE)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files of this checkout that the command and the checks read."""
    for name in ("src", "docs", "results", "benchmarks", "tests"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in REPOSITORY.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, tmp_path / path.name)
    return tmp_path


def digests(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def ran(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A Python process that finds the copy's package first."""
    found = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *words], cwd=root, env=found, capture_output=True, text=True, check=False)


def test_a_method_is_one_file_and_one_page(copy: Path) -> None:
    before = digests(copy)
    (copy / "src/graphveil/methods/newcomer.py").write_text(METHOD)
    (copy / "docs/methods/newcomer.md").write_text(PAGE)
    by_hand = digests(copy)
    assert len(by_hand.keys() - before.keys()) == 2

    done = ran(copy, "benchmarks/contribute.py", "--without-court")
    assert done.returncode == 0, done.stdout + done.stderr
    after = digests(copy)
    assert {name for name in after if after[name] != by_hand.get(name)} == {"docs/methods/index.md", "mkdocs.yml"}
    assert "court: to hear again: " in done.stdout, "of the court it says what it did not do"

    checks = "navigation or units or links or named or has_a_page or measured_tables"
    tested = ran(copy, "-m", "pytest", "tests/test_docs.py", "-p", "no:cacheprovider", "-k", checks)
    assert tested.returncode == 0, tested.stdout
    assert digests(copy) == after


@pytest.mark.parametrize("name", contribute.COURTS)
def test_the_checkout_needs_no_rewriting_of_the_court(name: str) -> None:
    assert contribute.unheard(name) == []


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the kept courts and of what made them."""
    for name in (*(f"{each}.json" for each in contribute.COURTS), "history/made_by.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / "results" / name, tmp_path / name)
    monkeypatch.setattr(making, "RESULTS", tmp_path)
    monkeypatch.setattr(making, "NOTES", tmp_path / "history" / "made_by.json")
    return tmp_path


def test_a_court_that_lacks_a_case_is_heard_again_whole(kept: Path) -> None:
    held = json.loads((kept / "court.json").read_text())
    rulings = [*held["rulings"][1:], {"name": "of-a-method-that-left"}]
    (kept / "court.json").write_text(json.dumps({**held, "rulings": rulings}))
    assert contribute.unheard("court") == [case.name for case in court.cases()]
    (kept / "court-1.json").unlink()
    assert len(contribute.unheard("court-1")) == len(court.cases())


@pytest.mark.parametrize("name", contribute.COURTS)
def test_of_a_method_with_other_code_the_cases_are_heard_again(kept: Path, name: str) -> None:
    notes = json.loads((kept / "history" / "made_by.json").read_text())
    notes[name]["heard"]["gap"] = "0"
    (kept / "history" / "made_by.json").write_text(json.dumps(notes))
    assert contribute.unheard(name) == [f"gap-edge{place}" for place in ("", "-2", "-3", "-4")]
    assert making.stale(name) == ["heard: other code of gap"]


def test_what_is_heard_again_takes_the_place_of_what_was_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], **_: Any) -> None:
        where, only = Path(words[words.index("--json") + 1]), words[words.index("--only") + 1]
        held = json.loads((REPOSITORY / "results" / "court-1.json").read_text())
        heard = [{**each, "claim": "heard again"} for each in held["rulings"] if each["name"] in only.split(",")]
        where.write_text(json.dumps({**held, "rulings": heard}))

    monkeypatch.setattr(subprocess, "run", run)
    (kept / "court-1.json").write_bytes((REPOSITORY / "results" / "court-1.json").read_bytes())
    contribute.hear("court-1", ["gap-edge", "gap-edge-2"])
    before, after = (json.loads((place / "court-1.json").read_text()) for place in (REPOSITORY / "results", kept))
    assert [each["name"] for each in after["rulings"]] == [each["name"] for each in before["rulings"]]
    changed = [each["name"] for each in after["rulings"] if each["claim"] == "heard again"]
    assert changed == ["gap-edge", "gap-edge-2"]
    assert making.stale("court-1") == []


@pytest.mark.parametrize("lost", ["family", "claim"])
def test_a_page_that_does_not_say_it_in_short_is_told_how(lost: str) -> None:
    page = "\n".join(line for line in PAGE.splitlines() if not line.startswith(f"| {lost} |")) + "\n"
    with pytest.raises(SystemExit, match=rf"docs/methods/newcomer.md needs this table[^§]*\| {lost} \|"):
        contribute.card("newcomer", page)


def test_an_unknown_family_is_answered_with_the_known_ones() -> None:
    index = "<!-- methods: Edge level -->\n<!-- /methods -->\n"
    with pytest.raises(SystemExit, match="no family 'Edgy'; there are: Edge level"):
        contribute.families(index, {"newcomer": {**CARD, "family": "Edgy"}})


def test_a_method_without_a_page_is_told_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"write docs/methods/\w+.md"):
        contribute.cards(tmp_path)
