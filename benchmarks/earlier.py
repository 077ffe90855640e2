"""Lines of the leaderboard that moved since they were first kept with all seeds: results/history/earlier.json.

    python benchmarks/earlier.py

What lines said first is read from the history of results/leaderboard.json in git, so a shallow clone does not do. A
line moved if its mean is another one in the digit that tables print.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from graphveil.runtime.folders import write_whole

REPOSITORY = Path(__file__).resolve().parents[1]
TABLE = "results/leaderboard.json"
FILE = REPOSITORY / "results" / "history" / "earlier.json"
RENAMED = {"heterpoisson": "paircounts"}
"""Lines that have another name since they were first kept, and its new one."""
SEEDS = 5
PRINTED = 5e-4
"""Half of the last digit that tables print."""
_PLACE = ("dataset", "method", "unit", "split", "reading", "epsilon")


def place(line: dict[str, Any]) -> tuple[str, ...]:
    """What tells a line from the others, by its present name."""
    now = {**line, "method": RENAMED.get(line["method"], line["method"]), "epsilon": float(line["epsilon"])}
    return tuple(str(now[name]) for name in _PLACE)


def first(tables: Iterable[tuple[str, list[dict[str, Any]]]]) -> dict[tuple[str, ...], dict[str, Any]]:
    """The first entry of every line that has all seeds, with the day of its table; tables are days and lines."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for day, lines in tables:
        for line in lines:
            if line["seeds"] >= SEEDS and line["test"] is not None:
                found.setdefault(place(line), {**line, "kept": day})
    return found


def moved(tables: Iterable[tuple[str, list[dict[str, Any]]]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What lines said first that say something else now, in the order of `now`."""
    was = first(tables)
    pairs = ((was.get(place(line)), line) for line in now)
    return [
        {**{name: old[name] for name in (*_PLACE, "kept", "seeds", "test")}, "method": line["method"]}
        for old, line in pairs
        if old and (line["test"] is None or abs(line["test"] - old["test"]) > PRINTED)
    ]


def history() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The day and the lines of every version of the leaderboard, the oldest first."""
    for version in _git("log", "--reverse", "--format=%H %as", "--", TABLE).splitlines():
        commit, day = version.split()
        yield day, json.loads(_git("show", f"{commit}:{TABLE}"))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


def made() -> list[dict[str, Any]]:
    """What the file should hold."""
    return moved(history(), json.loads((REPOSITORY / TABLE).read_text(encoding="utf-8")))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write_whole(FILE, made())
