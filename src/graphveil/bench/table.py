"""From records to the table: tune on validation, report on test, set the published figure beside ours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from typing import Any

from graphveil.bench.runner import Elsewhere, Record, Result, write_whole
from graphveil.bench.spec import Cell, Metric, Published, Spec

Runs = dict[int, Result]
"""The results of one grid point, by seed."""


@dataclass(frozen=True)
class Row:
    """One line: ours over the seeds, and what was published. Scores are fractions; `None` is unknown.

    `dataset` reads "a -> b" where a model of a is tested on all of b; the epsilons are then those of b.
    `validation` (on a), `test` and all that follows from them are in `metric`.
    `params` are all hyper-parameters of the chosen grid point, `tuned` those that the grid searched.
    `stderr` is std / sqrt(seeds); `best` is the luckiest seed's test score, which some papers print.
    The epsilons are the largest over the seeds; `failed` counts runs of the line that gave no result.
    """

    dataset: str
    method: str
    unit: str
    reading: str
    epsilon: float
    delta: float
    selection: str
    params: dict[str, Any]
    tuned: dict[str, Any]
    seeds: int
    metric: str
    validation: float | None
    test: float | None
    std: float | None
    stderr: float | None
    best: float | None
    best_seed: int | None
    certificate_epsilon: float | None
    sound_epsilon: float | None
    published: float | None
    source: str
    difference: float | None
    failed: int
    failure: str


def summarise(spec: Spec, records: Iterable[Record]) -> list[Row]:
    """One row per line of the table for which there are records; each at its best grid point on validation."""
    known = {record.task.key(): record for record in records}
    figures = {item.place: item for item in spec.published}
    rows = (_row(spec, cell, known, figures.get(cell.place)) for cell in spec.cells())
    return [row for row in rows if row.seeds or row.failed]


def show(rows: Sequence[Row], json: bool = False) -> str:
    """The rows as an aligned table in plain text, scores in percent, or as JSON."""
    if json:
        return dumps(_plain(rows), indent=1, sort_keys=True, allow_nan=False)
    lines = [_line(row) for row in rows]
    widths = {title: max(len(title), *(len(line[title]) for line in lines)) for title in _used(lines)}
    head, rule = {title: title for title in widths}, {title: "-" * width for title, width in widths.items()}
    return "\n".join(_aligned(line, widths) for line in (head, rule, *lines)) if lines else "no records"


def markdown(paths: Sequence[Path]) -> str:
    """Kept results (see `write`) as one Markdown table: a line per dataset and method, a column per epsilon."""
    rows = [row for path in paths for row in loads(path.read_text(encoding="utf-8"))]
    epsilons = sorted({float(row["epsilon"]) for row in rows})
    lines: dict[tuple[str, ...], dict[float, str]] = {}
    for row in rows:
        place = (row["dataset"], row["method"], row["unit"], row["reading"])
        spread = "" if row["std"] is None else f" ± {100 * row['std']:.1f}"
        lines.setdefault(place, {})[float(row["epsilon"])] = f"{100 * row['test']:.1f}{spread}"
    head = ["dataset", "method", "unit", "reading", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    body = [[*place, *(cells.get(epsilon, "") for epsilon in epsilons)] for place, cells in lines.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


def write(rows: Sequence[Row], path: Path) -> None:
    """The rows as JSON with sorted keys, for keeping as evidence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _plain(rows))


def _row(spec: Spec, cell: Cell, known: Mapping[str, Record], figure: Published | None) -> Row:
    points = cell.entry.points()
    held = [
        {seed: record for seed in spec.seeds if (record := known.get(spec.task(cell, point, seed).key()))}
        for point in points
    ]
    results = [{seed: record.result for seed, record in runs.items() if record.result} for runs in held]
    failures = [record.failure for runs in held for record in runs.values() if record.failure]
    chosen = _choose(results, spec.metric)
    runs = results[chosen]
    found = {seed: _tested(result, cell.test_on) for seed, result in runs.items()}
    tests = {seed: float(getattr(item.scores, spec.metric)) for seed, item in found.items()}
    spent = [item.epsilon for item in found.values()]
    printed = getattr(figure, spec.metric) if figure else None
    mean = statistics.fmean(tests.values()) if tests else None
    std = statistics.stdev(tests.values()) if len(tests) > 1 else None
    described = points[chosen].describe()
    described.pop("kind")
    return Row(
        dataset=cell.graphs,
        method=cell.entry.label,
        unit=cell.unit.value,
        reading=cell.reading.value,
        epsilon=cell.epsilon,
        delta=spec.delta_on(cell.dataset),
        selection=_selection(len(points), max((result.epsilon for result in runs.values()), default=math.inf)),
        params=described,
        tuned={key: described[key] for key in cell.entry.grid},
        seeds=len(runs),
        metric=spec.metric,
        validation=_validation(runs, spec.metric) if runs else None,
        test=mean,
        std=std,
        stderr=None if std is None else std / math.sqrt(len(tests)),
        best=max(tests.values(), default=None),
        best_seed=max(tests, key=tests.__getitem__, default=None),
        certificate_epsilon=max(spent, default=None),
        sound_epsilon=max((item.sound_epsilon for item in found.values()), default=None),
        published=printed,
        source=figure.source if figure else "",
        difference=None if printed is None or mean is None else mean - printed,
        failed=len(failures),
        failure=failures[0] if failures else "",
    )


def _tested(result: Result, test_on: str | None) -> Elsewhere:
    """What is known of the graph that a line is about."""
    if test_on is not None:
        return result.elsewhere[test_on]
    return Elsewhere(epsilon=result.epsilon, sound_epsilon=result.sound_epsilon, scores=result.test)


def _choose(results: Sequence[Runs], metric: Metric) -> int:
    """The grid point of the highest mean validation score, the first on a tie.

    Means over different seeds do not compare, so the points must have the same seeds as the fullest one.
    """
    fullest = max(results, key=len)
    complete = [index for index, runs in enumerate(results) if runs.keys() == fullest.keys()]
    return max(complete, key=lambda index: _validation(results[index], metric)) if fullest else 0


def _validation(runs: Runs, metric: Metric) -> float:
    return statistics.fmean(getattr(result.val, metric) for result in runs.values())


def _selection(points: int, spent: float) -> str:
    """How the hyper-parameters were found, and whether that cost privacy nobody charged."""
    if points == 1:
        return "fixed"
    # Even with public labels each grid point is a release of its own: comparing k of them spends k times.
    return "tuned on validation (free)" if spent == 0 else "tuned on validation, cost not charged"


def _plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{key: "inf" if value == math.inf else value for key, value in asdict(row).items()} for row in rows]


def _line(row: Row) -> dict[str, str]:
    """A row in words, by column title."""
    spread = "" if row.std is None or row.stderr is None else f"{_percent(row.std)} (se {_percent(row.stderr)})"
    lucky = "" if row.best_seed is None else f"{_percent(row.best)} (seed {row.best_seed})"
    return {
        "dataset": row.dataset,
        "method": row.method,
        "unit": row.unit,
        "reading": row.reading,
        "epsilon": f"{row.epsilon:g}",
        "certified": _rounded_up(row.certificate_epsilon),
        "provable": _rounded_up(row.sound_epsilon),
        "seeds": str(row.seeds),
        "metric": "" if row.metric == "accuracy" else row.metric,
        "val": _percent(row.validation),
        "test": _percent(row.test),
        "std": spread,
        "best": lucky,
        "published": _percent(row.published),
        "difference": "" if row.difference is None else f"{100 * row.difference:+.2f}",
        "source": row.source,
        "hyper-parameters": " ".join(f"{key}={value}" for key, value in row.tuned.items()),
        "selection": row.selection,
        "failed": f"{row.failed}: {row.failure}" if row.failed else "",
    }


def _used(lines: Sequence[Mapping[str, str]]) -> list[str]:
    """The columns that say something in at least one line."""
    return [title for title in (lines[0] if lines else ()) if any(line[title] for line in lines)]


def _aligned(line: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return "  ".join(line[title].ljust(width) for title, width in widths.items()).rstrip()


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _rounded_up(epsilon: float | None) -> str:
    """Three decimals, against our favour."""
    if epsilon is None or epsilon == math.inf:
        return "" if epsilon is None else "inf"
    return f"{math.ceil(epsilon * 1e3 - 1e-9) / 1e3:.3f}"
