"""From records to the table: tune on validation, report on test, set the published figure beside ours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from json import dumps
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import ConfigDict

from graphveil.codec import plain, rounded
from graphveil.errors import InvalidInput
from graphveil.methods.method import Method
from graphveil.release.audit_result import AuditResult
from graphveil.vocabulary import Reading
from graphveil_lab import kept_files
from graphveil_lab.bench import audits, kept, revisions, runner
from graphveil_lab.bench.audits import CONFIDENCE, LineClaim
from graphveil_lab.bench.kept import REFUTED, KeptLine
from graphveil_lab.bench.record import Elsewhere, Record, Result
from graphveil_lab.bench.spec import Cell, Metric, Place, Published, Spec, load

NOTHING: Mapping[str, AuditResult] = MappingProxyType({})
_AUDITED = (
    "Audited ε: an attack on the same claim, on graphs of a dozen nodes, certified that ε is larger than this. Each "
    f"bound holds with {CONFIDENCE:.0%} confidence on its own: of a hundred, one may be too high."
)
Runs = dict[int, Result]
"""The results of one grid point, by seed."""


class Row(KeptLine):
    """One line in full: ours over the seeds, and what was published. Scores are fractions; `None` is unknown.

    `dataset` reads "a -> b" where a model of a is tested on all of b; the epsilons are then those of b.
    `validation` (on a), `test` and all that follows from them are in `metric`.
    `params` are all hyper-parameters of the chosen grid point, `tuned` those that the grid searched.
    `stderr` is std / sqrt(seeds), and test +- `interval` holds the mean with 95 % confidence if seeds are normal.
    `best` is the luckiest seed's test score, which some papers print. The epsilons are the largest over the seeds.
    `audited` is a lower bound on the claim, certified on small graphs (bench/audits.py), `audit` how it was found.
    `made_by` is the revision of the method, `data` the SHA-256 of what its runs read (`runner.fingerprint`).
    `seconds` and `peak_mb` are the least over the seeds: other work on the machine only adds to them. A calibration or
    an encoder that an earlier run of the same process left behind is not in `seconds`. `failed` counts runs of the line
    without a result.
    """

    model_config = ConfigDict(extra="forbid")

    validation: float | None
    stderr: float | None
    best: float | None
    best_seed: int | None
    difference: float | None


def summarise(spec: Spec, records: Iterable[Record], findings: Mapping[str, AuditResult] = NOTHING) -> list[Row]:
    """One row per line of the table for which there are records; each at its best grid point on validation.

    `findings`: of the experiment's audits, by claim (`audits.by_claim`).
    """
    known = {record.task.key(): record for record in records}
    figures = {item.place: item for item in spec.published}
    rows = (_row(spec, cell, known, figures.get(cell.place), findings) for cell in spec.cells())
    return [row for row in rows if row.seeds or row.failed]


def recorded(name: str, out: Path) -> tuple[Spec, list[Row]]:
    """An experiment, by its file or name, and its table as far as there are records in `out`."""
    spec = load(name)
    rows = summarise(spec, runner.finished(spec, out=out), audits.by_claim(audits.finished(spec, out=out)))
    if not rows:
        raise InvalidInput(f"{out} holds no record of the experiment {name}; `graphveil bench run {name}` makes them")
    return spec, rows


def show(rows: Sequence[Row], json: bool = False) -> str:
    """The rows as an aligned table in plain text, scores in percent, or as JSON."""
    if json:
        return dumps(plain([row.model_dump() for row in rows]), indent=1, sort_keys=True, allow_nan=False)
    lines = [_line(row) for row in rows]
    widths = {title: max(len(title), *(len(line[title]) for line in lines)) for title in _used(lines)}
    head, rule = {title: title for title in widths}, {title: "-" * width for title, width in widths.items()}
    return "\n".join(_aligned(line, widths) for line in (head, rule, *lines)) if lines else "no records"


def markdown(paths: Sequence[Path]) -> str:
    """Kept results (see `write`) as one Markdown table: a line per dataset and method, a column per epsilon.

    A cell is the mean and the standard deviation over seeds, in per cent.
    """
    found = [line for path in paths for line in kept.load(path)]
    return by_epsilon(found, ("dataset", "method", "unit", "reading"), "std")


def by_epsilon(lines: Sequence[KeptLine], shown: Sequence[str], spread: Literal["std", "half_width"]) -> str:
    """Lines in Markdown: a row for what they are in the columns `shown`, a column per epsilon."""
    epsilons = sorted({line.epsilon for line in lines})
    cells: dict[tuple[str, ...], dict[float, str]] = {}
    for line in lines:
        place = tuple(str(getattr(line, key)) for key in shown)
        cells.setdefault(place, {})[line.epsilon] = in_percent(line, getattr(line, spread))
    head = [*shown, *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    return lined(head, [[*place, *(mine.get(epsilon, "") for epsilon in epsilons)] for place, mine in cells.items()])


def board(paths: Sequence[Path], epsilon: float) -> str:
    """Kept results at one epsilon in Markdown: a table per unit, split and metric, methods against datasets."""
    shown = board_lines(paths, epsilon)
    groups: dict[str, list[KeptLine]] = {}
    for line in shown:
        split = f", split {line.split}" if line.split else ""
        metric = "" if line.metric == "accuracy" else f", {line.metric}"
        groups.setdefault(f"**{line.unit} level{split}, ε = {epsilon:g}{metric}**", []).append(line)
    tables = [f"{title}\n\n{_matrix(mine)}" for title, mine in groups.items()]
    return "\n\n".join([*tables, _AUDITED] if any(line.audited is not None for line in shown) else tables)


def board_lines(paths: Sequence[Path], epsilon: float) -> list[KeptLine]:
    """The lines that a leaderboard at one epsilon shows.

    What was run at one epsilon only, because it spends nothing or protects nothing, is shown at every one, with its
    own.
    """
    found = [line for path in paths for line in kept.load(path)]
    run_at: dict[str, set[float]] = {}
    for line in found:
        run_at.setdefault(line.method, set()).add(line.epsilon)
    shown = [line for line in found if line.epsilon == epsilon or (line.free and len(run_at[line.method]) == 1)]
    if all(line.free for line in shown):
        known = ", ".join(f"{value:g}" for value in sorted({line.epsilon for line in found if not line.free}))
        raise InvalidInput(f"no result at epsilon {epsilon:g}; there are results at: {known or 'none that spends any'}")
    return shown


def _matrix(lines: Sequence[KeptLine]) -> str:
    """Mean and 95 % half-width in per cent by method and dataset; what audits certified stands beside the method."""
    names = list(dict.fromkeys(line.dataset for line in lines))
    methods: dict[str, list[KeptLine]] = {}
    for line in lines:
        methods.setdefault(line.full_label, []).append(line)
    body = []
    for label, mine in methods.items():
        cells = {line.dataset: in_percent(line, line.half_width) for line in mine}
        body.append([label, _certified(mine), *(cells.get(name, "") for name in names)])
    return lined(["method", "audited ε", *names], body)


def _certified(lines: Sequence[KeptLine]) -> str:
    """What stands for all datasets of a method: a refutation, else the least bound, which holds for each."""
    audited = [line for line in lines if line.audited is not None]
    told = min(audited, key=lambda line: (not line.refuted, line.audited), default=None)
    return "" if told is None else _audited(told.audited, told.audit)


def in_percent(line: KeptLine, spread: float | None) -> str:
    """A line's mean test score and its spread."""
    if line.test is None:
        return "stale" if line.stale else "failed"
    return f"{100 * line.test:.1f}" + ("" if spread is None else f" ± {100 * spread:.1f}")


def lined(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


def require_no_loss(spec: Spec, path: Path, quick: bool) -> None:
    """A part of an experiment may replace a table of its own lines and seeds, but none that holds others or more."""
    held, places = kept.load(path), {cell.place for cell in spec.cells(quick)}
    others = {line.place for line in held} - places
    if others or max(line.seeds for line in held) > len(spec.seeds[: 1 if quick else None]):
        raise InvalidInput(
            f"{path} holds more lines or seeds than this part of the experiment; write to another file, or add --merge"
        )


def write(rows: Sequence[Row], path: Path) -> None:
    """The rows as a kept file, for evidence."""
    kept_files.write(path, [row.model_dump() for row in rows], "lines")


def write_into(rows: Sequence[Row], path: Path, spec: Spec) -> None:
    """As `write`, but lines of the file that `rows` has not stay; in the order of the whole experiment `spec`."""
    # Damage is named before anything is written, and what was read stays as it was.
    held = {line.place: said for line, said in zip(kept.load(path), kept_files.read(path).content, strict=True)}
    made = {row.place: plain(row.model_dump()) for row in rows}
    for place in held.keys() & made.keys():
        if made[place]["seeds"] < held[place]["seeds"] and not revisions.stale(held[place].get("made_by", "")):
            raise InvalidInput(f"{path} has more seeds of {', '.join(map(str, place))}; run them too")
    _require_same_data(made, held, path)
    held |= made
    order = {cell.place: index for index, cell in enumerate(spec.cells())}
    ordered = sorted(held, key=lambda place: order.get(place, len(order)))
    kept_files.write(path, [held[place] for place in ordered], "lines")


def _require_same_data(made: Mapping[Place, Any], held: Mapping[Place, Any], path: Path) -> None:
    """Lines of one graph and split that read other contents are no table."""
    new = {(row["dataset"], row["split"]): row["data"] for row in made.values() if row["data"]}
    for place in held.keys() - made.keys():
        row = held[place]
        if row.get("data") and new.get((row["dataset"], row.get("split")), row["data"]) != row["data"]:
            raise InvalidInput(
                f"{path} has lines of {row['dataset']} that read other data than what is there now; run all of its "
                "lines again, or write another file"
            )


def write_findings(findings: Mapping[str, AuditResult], path: Path, spec: Spec) -> None:
    """Put what audits certified beside the kept lines whose claims they attacked; all else in the file stays."""
    lines, file = kept.load(path), kept_files.read(path)
    cells = {cell.place: cell for cell in spec.cells()}
    for line, held in zip(lines, file.content, strict=True):
        cell = cells.get(line.place)
        if cell is not None and not line.stale and (found := findings.get(_claim_of(spec, cell, line))) is not None:
            held |= {"audited": found.lower, "audit": _audit(found)}
    kept_files.write(path, file.content, "lines", by=file.made)


def _claim_of(spec: Spec, cell: Cell, line: KeptLine) -> str:
    """The key of what a kept line claims; none if the experiment no longer has its settings."""
    point = point_of(cell, line)
    return "" if point is None else LineClaim.of(spec.task(cell, point, spec.seeds[0])).key()


def point_of(cell: Cell, line: KeptLine) -> Method | None:
    """The grid point that a kept line is about; None if the experiment no longer has its settings."""
    wanted = plain(line.params)
    for point in cell.points():
        if {name: value for name, value in plain(point.describe()).items() if name != "kind"} == wanted:
            return point
    return None


def _row(
    spec: Spec, cell: Cell, known: Mapping[str, Record], figure: Published | None, findings: Mapping[str, AuditResult]
) -> Row:
    points = cell.points()
    held = [
        {seed: record for seed in spec.seeds if (record := known.get(spec.task(cell, point, seed).key()))}
        for point in points
    ]
    results = [{seed: record.result for seed, record in runs.items() if record.result} for runs in held]
    failures = [record.failure for runs in held for record in runs.values() if record.failure]
    chosen = _choose(results, spec.metric)
    runs, good = results[chosen], [record for record in held[chosen].values() if record.result]
    found = {seed: tested(result, cell.test_on) for seed, result in runs.items()}
    spent = max((item.epsilon for item in found.values()), default=None)
    sound = max((item.sound_epsilon for item in found.values()), default=None)
    finding = findings.get(LineClaim.of(spec.task(cell, points[chosen], spec.seeds[0])).key())
    scores = _spread({seed: float(getattr(item.scores, spec.metric)) for seed, item in found.items()})
    printed = figure.score if figure else None
    described = points[chosen].describe()
    described.pop("kind")
    maker = _shared(cell, "revisions", {record.made_by for record in good})
    return Row(
        dataset=cell.graphs,
        split=spec.split_of(cell),
        method=cell.entry.label,
        unit=cell.unit.value,
        reading=cell.reading.value,
        epsilon=cell.epsilon,
        delta=spec.delta_on(cell.dataset),
        selection="charged" if cell.charged else _selection(len(points), runs.values()),
        params=described,
        # A charged choice differs from seed to seed: what it chose from.
        tuned={key: list(values) if cell.charged else described[key] for key, values in cell.entry.grid.items()},
        seeds=len(runs),
        metric=spec.metric,
        validation=_validation(runs, spec.metric) if runs else None,
        **scores,
        certificate_epsilon=spent,
        sound_epsilon=sound,
        soundness=_soundness(cell.reading, spent, sound),
        audited=None if finding is None else finding.lower,
        audit="" if finding is None else _audit(finding),
        published=printed,
        source=figure.source if figure else "",
        difference=None if printed is None or scores["test"] is None else scores["test"] - printed,
        seconds=min((record.seconds for record in good), default=None),
        peak_mb=min((record.peak_mb for record in good), default=None),
        failed=len(failures),
        failure=failures[0] if failures else "",
        made_by=maker,
        data=_shared(cell, "data", {record.data for record in good}),
    )


def _shared(cell: Cell, what: str, found: set[str]) -> str:
    """What all runs of a line have in common."""
    if len(found) > 1:
        raise InvalidInput(f"records of {cell.graphs} are of different {what}; run the experiment again")
    return found.pop() if found else ""


def _spread(tests: Mapping[int, float]) -> dict[str, Any]:
    """Mean and spread of the test scores by seed, and the luckiest: the fields of a row that follow from them alone."""
    std = statistics.stdev(tests.values()) if len(tests) > 1 else None
    return {
        "test": statistics.fmean(tests.values()) if tests else None,
        "std": std,
        "stderr": None if std is None else std / math.sqrt(len(tests)),
        "interval": kept.half_width(std, len(tests)),
        "best": max(tests.values(), default=None),
        "best_seed": max(tests, key=tests.__getitem__, default=None),
    }


def tested(result: Result, test_on: str | None) -> Elsewhere:
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


def _soundness(reading: Reading, claimed: float | None, provable: float | None) -> str:
    """Whether what is claimed can be proven, and else what can."""
    if claimed is None or provable is None:
        return ""
    if reading is Reading.SOUND or provable <= claimed:
        return "proven"
    return f"not proven; provable: {rounded(provable)}"


def _audit(finding: AuditResult) -> str:
    """How a lower bound was found; one above the claim comes first."""
    how = f"{finding.attack} ({finding.counts}, {finding.runs} runs, {finding.confidence:.0%} confidence)"
    return f"{REFUTED}: {how}" if finding.verdict == "refuted" else how


def _audited(lower: float | None, audit: str) -> str:
    """A lower bound in a few characters; one that refutes its claim says so."""
    if lower is None:
        return ""
    return f"> {rounded(lower, up=False)}" + (f" {REFUTED}" if audit.startswith(REFUTED) else "")


def _selection(points: int, results: Iterable[Result]) -> str:
    """How the hyper-parameters were found, and whether that cost privacy nobody charged."""
    if points == 1:
        return "fixed"
    spent = max((result.epsilon for result in results), default=math.inf)
    # Even with public labels each grid point is a release of its own: comparing k of them spends k times.
    return "tuned on validation (free)" if spent == 0 else "tuned on validation, cost not charged"


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
        "certified": _spent(row.certificate_epsilon),
        "provable": _spent(row.sound_epsilon),
        "audited": _audited(row.audited, row.audit),
        "seeds": str(row.seeds),
        "metric": "" if row.metric == "accuracy" else row.metric,
        "val": _percent(row.validation),
        "test": _percent(row.test),
        "std": spread,
        "best": lucky,
        "published": _percent(row.published),
        "difference": "" if row.difference is None else f"{100 * row.difference:+.2f}",
        "source": row.source,
        "seconds": "" if row.seconds is None else f"{row.seconds:.1f}",
        "MB": "" if row.peak_mb is None else f"{row.peak_mb:.0f}",
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


def _spent(epsilon: float | None) -> str:
    return "" if epsilon is None else rounded(epsilon)
