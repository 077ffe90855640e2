"""A part of the fuzzing and killing of saved releases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FUZZ = Path(__file__).parent


def told(*words: str) -> dict[str, Any]:
    """What a script prints. They start processes of their own, which the one that runs the tests cannot."""
    done = subprocess.run([sys.executable, *words], cwd=FUZZ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow  # files of every kind are damaged one by one in runtime/test_folders.py and release/
def test_150_damaged_folders_are_refused_or_consistent() -> None:
    found = told("releases.py", "--count", "150", "--seed", "20")
    assert (found["raw"], found["silent"], found["hang"], found["bad"]) == (0, 0, 0, [])
    assert found["refused"] > 120


@pytest.mark.slow  # a save is killed at every step in runtime/test_folders.py, a training in privacy/test_ledger.py
def test_saves_and_trainings_that_are_killed() -> None:
    found = told("kill_saves.py", "--saves", "15", "--trains", "2")
    assert (found["saves"]["killed"], found["trains"]["killed"]) == (15, 2)
    for part in found.values():
        assert [part[wrong] for wrong in ("half", "lost", "litter", "overspent")] == [0, 0, 0, 0]
