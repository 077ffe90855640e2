"""What moved on the leaderboard is read from git, and the kept list says just that."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

import earlier


def line(method: str, test: float | None, seeds: int = 5, epsilon: float = 1.0) -> dict[str, Any]:
    told = {"dataset": "cora", "unit": "node", "split": "random", "reading": "sound", "epsilon": epsilon}
    return {**told, "method": method, "seeds": seeds, "test": test}


def test_lines_count_from_when_they_had_all_seeds_and_moved_if_the_printed_digit_did() -> None:
    tables = [
        ("2026-01-01", [line("gap", 0.1, seeds=1), line("heterpoisson", 0.2)]),
        ("2026-01-02", [line("gap", 0.5), line("gap", 0.5, epsilon=2.0), line("dpsgd", None)]),
        ("2026-01-03", [line("gap", 0.9), line("paircounts", 0.9)]),
    ]
    now = [line("gap", 0.6), line("gap", 0.5004, epsilon=2.0), line("paircounts", 0.3), line("dpsgd", 0.1)]
    told = [(found["method"], found["kept"], found["test"]) for found in earlier.moved(tables, now)]
    assert told == [("gap", "2026-01-02", 0.5), ("paircounts", "2026-01-01", 0.2)]


def test_the_kept_list_is_what_git_says() -> None:
    asked = ["git", "rev-parse", "--is-shallow-repository"]
    shallow = subprocess.run(asked, cwd=earlier.REPOSITORY, capture_output=True, text=True, check=False)
    if shallow.stdout.strip() != "false":
        pytest.skip("needs the history of the repository: git fetch --unshallow")
    kept = json.loads(earlier.FILE.read_text())
    if not {line["kept"] for line in kept} <= {day for day, _ in earlier.history()}:
        pytest.skip("this history has not all versions of the leaderboard: commits were joined, or it begins later")
    assert kept == earlier.made(), "run python benchmarks/earlier.py"
