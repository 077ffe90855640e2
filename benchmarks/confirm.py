"""Are the kept results still what today's code gives? `python benchmarks/confirm.py [NAME ...] [--jobs 2]`.

A kept line says which revision of its method made it (src/graphveil/bench/revisions.py). Once the source of a method
has changed, nobody knows whether its lines still hold, and they are not shown. This command runs some of them again,
with all their seeds: of every method, unit and reading in every table the `--samples` that took longest among those
within `--seconds` a run. A line is the same if its mean differs by at most half of the half-width of its interval, or
by `SAME`, and both of its epsilons are what they were. Where all lines of a method are the same, revisions.json takes
over the new source and nothing else changes. Where one is not, the revision is raised, and all of its lines are stale
until `graphveil bench run NAME --results results/NAME.json` makes them again. A change that is meant to move some lines
may miss those that are sampled: raise the revision by hand then. Lines of which it is not known what made
them take the present revision if the sampled ones of their table, method, unit and reading are the same, and stay stale
otherwise.

What was run again, and what it gave, is kept in results/history/confirmed.json. Interrupted, it goes on where it was
(`--out`). With `--anyway` lines are run again whose method is as it was, after a change of what hands results on
(`making.plumbing`); then `--out` must be an empty folder, or records count that are there.

It is no module of the package: it writes files of the checkout, which an installed package does not have.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from graphveil import discover
from graphveil.bench import revisions, runner, spec, table
from graphveil.bench.kept import LINES, KeptLine, half_width
from graphveil.bench.spec import BenchTask, Cell, Place, Spec
from graphveil.core import plain
from graphveil.runtime.compute import Compute
from graphveil.runtime.folders import write_whole

RESULTS = Path(__file__).resolve().parents[1] / "results"
SAME = 0.005
"""Half a point: another processor rounds otherwise, and a few nodes at the border change sides."""


@dataclass(frozen=True)
class Sample:
    """A kept line, and the tasks that make it again."""

    table: str
    spec: Spec
    cell: Cell
    line: KeptLine
    method: str
    tasks: tuple[BenchTask, ...]

    @property
    def group(self) -> tuple[str, ...]:
        """The lines that it stands for."""
        return self.table, self.line.method, self.line.unit, self.line.reading, self.method


def samples(name: str, count: int, seconds: float, anyway: bool = False) -> list[Sample]:
    """The lines of a table that are run again; `anyway`: also where the method is as it was."""
    made = spec.load(name)
    lines = {line.place: line for line in LINES.validate_json((RESULTS / f"{name}.json").read_bytes())}
    groups: dict[tuple[str, ...], list[Sample]] = defaultdict(list)
    for cell in made.cells():
        line = lines.get(cell.place)
        if line is not None and line.test is not None and (found := _sample(name, made, cell, line, anyway)):
            groups[found.group].append(found)
    return [sample for group in groups.values() for sample in _chosen(group, count, seconds)]


def _sample(name: str, made: Spec, cell: Cell, line: KeptLine, anyway: bool) -> Sample | None:
    """The tasks of a line at the grid point that it kept; None if its method is as it was, but for `anyway`."""
    method = cell.points()[0].name()
    held = revisions.known().get(method)
    # A line of an older revision, or of code that is only here, says nothing of the revision that is kept.
    ours = held is not None and line.made_by.split(", ")[0] == f"{method} {held.revision}"
    if line.made_by and not (ours and (anyway or line.stale)):
        return None
    tuned = {key: line.params.get(key) for key in cell.entry.grid} if not cell.charged else {}
    points = [point for point in cell.points() if plain({key: getattr(point, key) for key in tuned}) == tuned]
    return (
        Sample(
            name, made, cell, line, method, tuple(made.task(cell, points[0], seed) for seed in made.seeds[: line.seeds])
        )
        if points
        else None
    )


def _chosen(group: Sequence[Sample], count: int, seconds: float) -> list[Sample]:
    """Those that took longest within the limit; the fastest if all are beyond it."""
    ranked = sorted(group, key=lambda sample: (sample.line.seconds or 0.0, sample.line.place))
    within = [sample for sample in ranked if (sample.line.seconds or 0.0) <= seconds]
    return within[-count:] or ranked[:1]


def compared(sample: Sample, rows: dict[Place, table.Row]) -> dict[str, Any]:
    """A line then and now."""
    line, row = sample.line, rows.get(sample.line.place)
    again = None if row is None else row.test
    width = line.interval if line.interval is not None else half_width(line.std, line.seeds)
    allowed = max(SAME, (width or 0.0) / 2)
    whole = row is not None and row.seeds == line.seeds and not row.failed
    # A claim or a proof that changed moves no score where the noise is as before.
    spent = row is not None and all(
        math.isclose(getattr(row, name) or 0.0, getattr(line, name) or 0.0, rel_tol=1e-6)
        for name in ("certificate_epsilon", "sound_epsilon")
    )
    return {
        "table": sample.table,
        "dataset": line.dataset,
        "line": line.method,
        "unit": line.unit,
        "reading": line.reading,
        "epsilon": line.epsilon,
        "seeds": line.seeds,
        "kept": line.test,
        "again": again,
        "allowed": allowed,
        "same": again is not None and line.test is not None and abs(again - line.test) <= allowed and whole and spent,
        "made_by": "" if row is None else row.made_by,
    }


def judged(found: Sequence[Sample], out: Path, compute: Compute) -> list[dict[str, Any]]:
    """Run the samples again and compare."""
    tasks = {task.key(): task for sample in found for task in sample.tasks}
    records = runner.run_tasks(list(tasks.values()), out=out, compute=compute, label="kept lines")
    rows = {
        name: {row.place: row for row in table.summarise(sample.spec, records)}
        for name, sample in {sample.table: sample for sample in found}.items()
    }
    return [compared(sample, rows[sample.table]) for sample in found]


def settle(found: Sequence[Sample], verdicts: Sequence[dict[str, Any]]) -> None:
    """Take over the sources, or raise revisions, and say in the tables what made their lines."""
    differs = {
        sample.method for sample, said in zip(found, verdicts, strict=True) if sample.line.made_by and not said["same"]
    }
    groups = defaultdict(list)
    for sample, said in zip(found, verdicts, strict=True):
        groups[sample.group].append(said["same"])
    asked = {sample.table for sample in found}
    fully = {sample.method for sample in found if _tables_of(sample.method) <= asked}
    _note_sources(fully | {name for name in discover.methods() if not _tables_of(name)}, differs)
    for name in sorted({sample.table for sample in found}):
        _adopt(name, {group for group, same in groups.items() if all(same)})


@cache
def _tables_of(method: str) -> frozenset[str]:
    """The tables that keep a line of a method; nothing hangs on a method of none."""
    found = set()
    for name in (name for name in spec.names() if (RESULTS / f"{name}.json").exists()):
        kept = {line.place for line in LINES.validate_json((RESULTS / f"{name}.json").read_bytes())}
        if any(cell.place in kept and cell.points()[0].name() == method for cell in spec.load(name).cells()):
            found.add(name)
    return frozenset(found)


def _note_sources(compared: Collection[str], raised: Collection[str]) -> None:
    """revisions.json for the sources of what was compared, or is kept nowhere; the revision of `raised` goes up."""
    now = {name: held.model_dump() for name, held in revisions.known().items() if name in discover.methods()}
    for name in discover.methods():
        if name in compared or name not in now:
            revision = now[name]["revision"] + (name in raised) if name in now else 1
            now[name] = {"revision": revision, "source": revisions.source_of(name)}
    write_whole(revisions.FILE, dict(sorted(now.items())))
    revisions.forget()


def _adopt(name: str, same: set[tuple[str, ...]]) -> None:
    """Lines of which nobody knew what made them take the present revision where their samples are the same."""
    file = RESULTS / f"{name}.json"
    lines, made = json.loads(file.read_text(encoding="utf-8")), spec.load(name)
    cells = {cell.place: cell for cell in made.cells()}
    for line, told in zip(lines, LINES.validate_python(lines), strict=True):
        if told.made_by or (cell := cells.get(told.place)) is None:
            continue
        task = made.task(cell, cell.points()[0], made.seeds[0])
        if (name, told.method, told.unit, told.reading, task.method) in same:
            line["made_by"] = revisions.made_by(task.method, line["params"])
            line["data"] = told.data or runner.fingerprint(task)
    write_whole(file, lines)


def keep(verdicts: Sequence[dict[str, Any]]) -> None:
    """Add the comparisons to results/history/confirmed.json; a line that was compared before is replaced."""
    file = RESULTS / "history" / "confirmed.json"
    file.parent.mkdir(exist_ok=True)
    held = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    names = ("table", "dataset", "line", "unit", "reading", "epsilon")
    known = {tuple(str(row[name]) for name in names): row for row in (*held, *plain(list(verdicts)))}
    write_whole(file, list(known.values()))


def said_of(verdicts: Sequence[dict[str, Any]]) -> str:
    """How many lines are the same, and how far apart they are."""
    steps = [abs(said["again"] - said["kept"]) for said in verdicts if said["again"] is not None]
    same, close = sum(said["same"] for said in verdicts), sum(step <= SAME for step in steps)
    return (
        f"{same:,} of {len(verdicts):,} lines are the same, {steps.count(0.0):,} of them to the last digit, {close:,} "
        f"within {SAME:g}; the largest difference is {max(steps, default=0.0):.4f}"
    )


def main() -> None:
    """Run lines again, say what differs, and write what follows."""
    parser = argparse.ArgumentParser(description="Run kept lines again and say whether they still hold.")
    parser.add_argument("names", nargs="*", help="tables; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--samples", type=int, default=1, help="lines of every method, unit and reading of a table")
    parser.add_argument("--seconds", type=float, default=20.0, help="leave out lines that take longer a run")
    parser.add_argument("--out", type=Path, default=Path(".bench"), help="folder of the records")
    parser.add_argument("--anyway", action="store_true", help="also lines whose method is as it was")
    parser.add_argument("--list", action="store_true", help="say what would be run, and how long it took when it was")
    parser.add_argument("--only-run", action="store_true", help="make the records and write nothing else")
    asked = parser.parse_args()
    names = asked.names or [name for name in spec.names() if (RESULTS / f"{name}.json").exists()]
    found = [sample for name in names for sample in samples(name, asked.samples, asked.seconds, asked.anyway)]
    hours = sum((sample.line.seconds or 0.0) * len(sample.tasks) for sample in found) / 3600
    runs = sum(len(sample.tasks) for sample in found)
    print(f"{len(found):,} lines, {runs:,} runs, about {hours:.2f} hours of one core")
    if asked.list:
        return
    verdicts = judged(found, asked.out, Compute(jobs=asked.jobs))
    for said in verdicts:
        if not said["same"]:
            print("DIFFERS", json.dumps(plain(said), sort_keys=True))
    print(said_of(verdicts))
    if not asked.only_run:
        keep(verdicts)
        settle(found, verdicts)


if __name__ == "__main__":
    main()
