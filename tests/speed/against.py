"""A benchmark with this checkout's package and with another's, in turns: times of both and their ratios.

    python tests/speed/against.py [--rounds 2] OTHER/src tests/speed/step.py [its options]

For scripts that print JSON: engine.py, step.py, gap_speed.py, growth.py. Each run is a fresh process of this checkout's
script. Prints JSON: for every time in the report (its name ends in `_s`, or it lies under `seconds`) the shortest of
the other package, of this one, and how many times faster this one is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2] / "src"


def times(report: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """All times of a report by where they stand in it."""
    if isinstance(report, dict | list):
        for key, value in report.items() if isinstance(report, dict) else enumerate(report):
            yield from times(value, (*path, str(key)))
    elif isinstance(report, int | float) and (path[-1].endswith("_s") or any("seconds" in key for key in path)):
        yield " / ".join(path), float(report)


def run(source: Path, words: list[str]) -> dict[str, float]:
    """The times of one run with the package in `source`."""
    env = {**os.environ, "PYTHONPATH": str(source.resolve())}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SystemExit(f"with {source}: {done.stderr}")
    return dict(times(json.loads(done.stdout)))


def main() -> None:
    """Run both in turns and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the folder that holds the other package")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("words", nargs=argparse.REMAINDER, help="script and options")
    given = parser.parse_args()
    if not (given.other / "graphveil").is_dir():
        raise SystemExit(f"{given.other} holds no package graphveil")
    best: list[dict[str, float]] = [{}, {}]
    for turn in range(2 * given.rounds):
        for name, took in run((given.other, HERE)[turn % 2], given.words).items():
            best[turn % 2][name] = min(best[turn % 2].get(name, took), took)
    report = {
        name: {"other": best[0][name], "here": took, "times_faster": round(best[0][name] / took, 2)}
        for name, took in best[1].items()
        if name in best[0] and took
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
