"""Mistakes are planted once, taken back, and named where they no longer fit the source."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mutants import mutants
from mutants.mutants import Mutant, copied, planted

LAW = Mutant("less noise", "room/law.py", "draw(std)", "draw(0.9 * std)", ("test_law.py::test_it",))


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two packages and one test."""
    files = {"src/graphveil/room/law.py": "draw(std)\n", "lab/src/graphveil_lab/case.py": "", "tests/test_law.py": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return tmp_path


def test_a_mistake_is_planted_in_a_copy_and_taken_back(root: Path) -> None:
    copy = copied(root / "copy")
    file = copy / LAW.source
    times = os.stat(file).st_mtime_ns
    with planted(LAW, copy):
        assert file.read_text() == "draw(0.9 * std)\n"
    assert (file.read_text(), os.stat(file).st_mtime_ns) == ("draw(std)\n", times)
    assert (copy / "graphveil_lab" / "case.py").exists()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"old": "sample(std)"}, "its text stands 0 times in room/law.py, not once"),
        ({"file": "room/gone.py"}, "there is no room/gone.py"),
        ({"tests": ("test_gone.py::test_x",)}, "there is no tests/test_gone.py"),
    ],
)
def test_what_no_longer_fits_is_named(changed: dict[str, str], why: str) -> None:
    assert replace(LAW, **changed).stale() == why  # type: ignore[arg-type]  # fields by name
