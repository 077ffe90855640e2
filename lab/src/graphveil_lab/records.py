"""Trains a sample of kept lines again: `make records`, or `python -m graphveil_lab.records`.

    python -m graphveil_lab.records [--count 12] [--seed 0] [--all METHOD] [--results lab/results]

Of each line the seed that was best is trained, whose score the table holds. Lines are drawn at random, one of each
dataset, the smallest first, and of other methods where there are any; `--all` trains every line of one method. What
moved by more than the line's 95 % interval (`LEAST` at least) makes the exit code 1. Lines of an earlier revision are
named, and wait to be run again.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from graphveil_lab import kept_files
from graphveil_lab.bench import runner, table
from graphveil_lab.bench.spec import BenchTask, Cell, Spec, load, names
from graphveil_lab.bench.table import Row
from graphveil_lab.court.court import cases

LEAST = 0.005
"""Rounding on another machine may change a few predictions."""
Verdict = Literal["same", "moved", "failed", "other data"]


@dataclass(frozen=True)
class Entry:
    """A kept line, and its line of the experiment as that is today, if it has one."""

    name: str
    spec: Spec
    cell: Cell | None
    line: Row

    @property
    def label(self) -> str:
        """The line in words."""
        line = self.line
        return f"{self.name}: {line.dataset}, {line.method}, {line.unit}, {line.reading}, epsilon {line.epsilon:g}"

    @property
    def method(self) -> str:
        """The name of the method that made the line."""
        return self.line.made_by.partition(" ")[0]

    @property
    def dataset(self) -> str:
        """The graph of the training."""
        return self.line.dataset.partition(" -> ")[0]

    @property
    def width(self) -> float:
        """How far a score may move: half of the 95 % interval over the line's seeds."""
        return max(self.line.half_width or 0.0, LEAST)

    def task(self) -> BenchTask | None:
        """The best run of the line; None if it has none, or the experiment no longer has its settings."""
        point = None if self.cell is None else table.point_of(self.cell, self.line)
        if self.cell is None or point is None or self.line.best_seed is None:
            return None
        return self.spec.task(self.cell, point, self.line.best_seed)


@dataclass(frozen=True)
class Outcome:
    """What training a line again gave."""

    entry: Entry
    now: float | None
    verdict: Verdict
    why: str = ""

    def row(self) -> str:
        """A line of the table, scores in per cent."""
        kept = self.entry.line.best or 0.0
        now = "" if self.now is None else f"{100 * self.now:8.2f} {100 * (self.now - kept):+8.2f}"
        figures = f"{100 * kept:8.2f} {now:17} {100 * self.entry.width:8.2f}"
        return f"{figures}  {self.verdict:10} {self.entry.label} {self.why}".rstrip()


def entries(results: Path) -> Iterator[Entry]:
    """Every line of the tables in a folder whose experiment comes with the package."""
    for name in names():
        if (file := results / f"{name}.json").exists():
            spec = load(name)
            cells = {cell.place: cell for cell in spec.cells()}
            for line in TypeAdapter(list[Row]).validate_python(kept_files.read(file).content):
                yield Entry(name, spec, cells.get(line.place), line)


def drawn(known: Sequence[Entry], seed: int) -> Iterator[Entry]:
    """Lines at random: one of each dataset in turn, the smallest first, of a method not drawn yet if there is one."""
    sizes = {entry.dataset: entry.spec.num_nodes(entry.dataset) for entry in known}
    shuffled, seen = random.Random(seed).sample(known, len(known)), set[str]()
    turns = [[entry for entry in shuffled if entry.dataset == name] for name in sorted(sizes, key=sizes.__getitem__)]
    while turns := [mine for mine in turns if mine]:
        for mine in turns:
            entry = next((one for one in mine if one.method not in seen), mine[0])
            mine.remove(entry)
            seen.add(entry.method)
            yield entry


def again(entry: Entry, task: BenchTask) -> Outcome:
    """Train the best run of a line."""
    if runner.fingerprint(task) not in ("", entry.line.data):
        return Outcome(entry, None, "other data", "what is here is not what was read")
    result, failure, _ = runner.attempt(task)
    if result is None or entry.cell is None:
        return Outcome(entry, None, "failed", failure)
    now = float(getattr(table.tested(result, entry.cell.test_on).scores, entry.spec.metric))
    moved = abs(now - (entry.line.best or 0.0)) > entry.width
    return Outcome(entry, now, "moved" if moved else "same")


def outcomes(wanted: Iterator[Entry], count: int | None) -> Iterator[Outcome]:
    """What `count` of the lines give, or all: those whose datasets are here."""
    for entry in wanted:
        if count == 0:
            return
        task = entry.task()
        if task is None:
            yield Outcome(entry, None, "failed", "the experiment no longer has its settings")
        elif not runner.fingerprint(task):
            continue
        else:
            yield again(entry, task)
        count = None if count is None else count - 1


def unheard(court: Path) -> list[str]:
    """Cases that the kept court has not heard, such as those of a new method."""
    held = {ruling["name"] for ruling in kept_files.read(court).content["rulings"]} if court.exists() else set()
    return [case.name for case in cases() if case.name not in held] if held else []


def main(words: Sequence[str]) -> int:
    """Print a line for every run, then what is stale; 1 if a line moved or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=12, help="lines that are trained (default 12)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--all", metavar="METHOD", help="every line of this method instead")
    parser.add_argument("--results", type=Path, default=kept_files.kept_file("edge").parent, help="folder of tables")
    asked = parser.parse_args(words)
    known = list(entries(asked.results))
    stale = [entry for entry in known if entry.line.stale]
    current = [entry for entry in known if not entry.line.stale and entry.line.best_seed is not None]
    if asked.all is None:
        found = outcomes(drawn(current, asked.seed), asked.count)
    else:
        found = outcomes((entry for entry in current if entry.method == asked.all), None)
    print(f"{'kept':>8} {'now':>8} {'moved':>8} {'interval':>8}  {'verdict':10} line")
    verdicts = []
    for outcome in found:
        print(outcome.row(), flush=True)
        verdicts.append(outcome.verdict)
    moved = len(verdicts) - verdicts.count("same")
    print(f"{moved} of {len(verdicts)} lines moved; {len(stale)} of {len(known)} are stale")
    for entry in stale:
        print(f"  stale: {entry.label}: made by {entry.line.made_by or 'nobody knows what'}")
    for case in unheard(asked.results / "court.json"):
        print(f"  not heard by the kept court yet: {case}")
    return int(moved > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
