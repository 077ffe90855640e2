"""A part of the fuzzing and killing that benchmarks/ does in full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def told(*words: str) -> dict[str, Any]:
    """What a script prints. They start processes of their own, which the one that runs the tests cannot."""
    done = subprocess.run([sys.executable, *words], cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("count", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_damaged_folders_are_refused_or_consistent(count: int) -> None:
    found = told("fuzz_releases.py", "--count", str(count), "--seed", "20")
    assert (found["raw"], found["silent"], found["hang"], found["bad"]) == (0, 0, 0, [])
    assert found["refused"] > 0.8 * count


@pytest.mark.parametrize(("saves", "trains"), [(5, 1), pytest.param(15, 2, marks=pytest.mark.slow)])
def test_saves_and_trainings_that_are_killed(saves: int, trains: int) -> None:
    found = told("kill_saves.py", "--saves", str(saves), "--trains", str(trains))
    assert (found["saves"]["killed"], found["trains"]["killed"]) == (saves, trains)
    for part in found.values():
        assert [part[wrong] for wrong in ("half", "lost", "litter", "overspent")] == [0, 0, 0, 0]
