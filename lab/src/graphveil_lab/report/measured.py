"""Bench tables: an overview per experiment and unit, curves and brackets per dataset, and all lines as a table."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from markupsafe import Markup

from graphveil.report import charts
from graphveil.report.charts import Level, Point, Series
from graphveil.report.tables import Column, Table, TableCell, epsilon, percent
from graphveil_lab.bench.kept import KeptLine

METRICS = {
    "accuracy": "test accuracy, %",
    "f1": "macro F1, %",
    "rare_f1": "F1 of the rarest class, %",
    "precision": "precision weighted by class size, %",
    "balanced_accuracy": "balanced accuracy, %",
    "auc": "AUC, mean over classes, %",
    "average_precision": "average precision, mean over classes, %",
}

_SHOWN = 2.0
"""The epsilon at which a page opens: below 1 little is learnt from most graphs, and 8 promises next to nothing."""

_LIT = 3
"""Lines of a figure that are set apart at first: more than a handful cannot be told apart."""


@dataclass(frozen=True)
class Sign:
    """An entry of a legend, and what is doubtful about it."""

    label: str
    drawn: Markup
    doubt: str = ""
    lit: bool = False
    """Whether the page opens with this line set apart."""


@dataclass(frozen=True)
class DatasetFigures:
    """The figures of one dataset and unit, with one legend for all."""

    experiment: str
    dataset: str
    unit: str
    split: str
    figures: tuple[tuple[str, Markup], ...]
    """Caption and drawing."""
    signs: tuple[Sign, ...]


@dataclass(frozen=True)
class Scored:
    """A row of an overview: a method, what is doubtful about it, and its scores by dataset."""

    label: str
    doubt: str
    uncharged: bool
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class Block:
    """The rows of an overview at one epsilon; the last block holds what has no epsilon."""

    epsilon: str
    title: str
    rows: tuple[Scored, ...]


@dataclass(frozen=True)
class Overview:
    """Methods by datasets, at one epsilon after the other."""

    id: str
    experiment: str
    unit: str
    metric: str
    datasets: tuple[str, ...]
    blocks: tuple[Block, ...]
    shown: str
    """The block that is shown first."""
    brackets: Markup | None
    """Claims and what was certified against them; audits run on graphs of their own, so datasets share them."""
    signs: tuple[Sign, ...]
    """The legend of the brackets."""


@dataclass(frozen=True)
class Experiment:
    """One file, as figures."""

    title: str
    overviews: tuple[Overview, ...]
    places: tuple[DatasetFigures, ...]

    @classmethod
    def of(cls, index: int, title: str, lines: Sequence[KeptLine]) -> Experiment:
        """All its figures; a method looks alike in all of them."""
        styles = {label: index for index, label in enumerate(dict.fromkeys(line.method for line in lines))}
        kinds = dict.fromkeys((line.unit, line.metric) for line in lines)
        overviews = tuple(
            _overview(f"overview-{index}-{place}", title, lines, kind, styles) for place, kind in enumerate(kinds)
        )
        groups: dict[tuple[str, ...], list[KeptLine]] = {}
        for line in lines:
            groups.setdefault((line.unit, line.dataset, line.split, line.metric), []).append(line)
        return cls(title, overviews, tuple(_place(title, group, styles) for group in groups.values()))


def rows(tables: Mapping[str, Sequence[KeptLine]]) -> Table:
    """Every line of every experiment."""
    columns = (
        Column("method"),
        Column("dataset"),
        Column("ε", number=True),
        Column("test %", number=True),
        Column("seeds", number=True),
        Column("published %", number=True),
        Column("difference", number=True),
        Column("reading"),
        Column("claimed ε", number=True),
        Column("provable ε", number=True),
        Column("audited ε above", number=True),
        Column("soundness"),
        Column("how audited"),
        Column("δ", number=True),
        Column("seconds", number=True),
        Column("peak MB", number=True),
        Column("unit"),
        Column("split"),
        Column("experiment"),
        Column("metric"),
        Column("hyper-parameters"),
        Column("chosen"),
        Column("source of the published figure"),
        Column("failed"),
    )
    made = tuple(_cells(title, line) for title, lines in tables.items() for line in lines)
    return Table("rows", "All results; the headings sort", columns, made).used()


def _cells(title: str, line: KeptLine) -> tuple[TableCell, ...]:
    gap = None if line.test is None or line.published is None else line.test - line.published
    claimed, provable = line.certificate_epsilon, line.sound_epsilon
    weaker = claimed is not None and provable is not None and provable > claimed * (1 + 1e-6)
    return (
        TableCell(line.method),
        TableCell(line.dataset),
        TableCell(epsilon(line.epsilon)),
        TableCell(percent(line.test, 2), _within(line.half_width)),
        TableCell(str(line.seeds)),
        TableCell(percent(line.published, 2)),
        TableCell("" if gap is None else f"{100 * gap:+.2f}"),
        TableCell(line.reading),
        TableCell(epsilon(claimed)),
        TableCell(epsilon(provable), bad=weaker),
        TableCell(epsilon(line.audited, up=False), bad=line.refuted),
        TableCell(line.soundness, bad=not line.proven),
        TableCell(line.audit, bad=line.refuted),
        TableCell(f"{line.delta:.3g}"),
        TableCell("" if line.seconds is None else f"{line.seconds:.1f}"),
        TableCell("" if line.peak_mb is None else f"{line.peak_mb:.0f}"),
        TableCell(line.unit),
        TableCell(line.split),
        TableCell(title),
        TableCell("" if line.metric == "accuracy" else line.metric),
        TableCell(" ".join(f"{key}={value}" for key, value in line.tuned.items())),
        TableCell(line.selection),
        TableCell(line.source),
        TableCell(f"{line.failed}: {line.failure}" if line.failed else "", bad=True),
    )


def _within(width: float | None) -> str:
    return "" if width is None else f"± {100 * width:.1f}"


def _levels(lines: Sequence[KeptLine]) -> list[KeptLine]:
    """Lines that are drawn across: free ones of methods that have no other."""
    priced = {line.label for line in lines if not line.free}
    return [line for line in lines if line.free and line.label not in priced]


def _stroke(line: KeptLine) -> str:
    """Solid where the claim is proven, dashed where it is only published."""
    return "solid" if line.reading == "sound" else "dashed"


def _overview(
    id: str, title: str, lines: Sequence[KeptLine], kind: tuple[str, str], styles: Mapping[str, int]
) -> Overview:
    unit, metric = kind
    mine = [line for line in lines if (line.unit, line.metric) == (unit, metric)]
    datasets = tuple(dict.fromkeys(line.dataset for line in mine))
    paid = [line for line in mine if not line.free]
    blocks = []
    for at in sorted({line.epsilon for line in paid}):
        name = charts.short(at)
        blocks.append(_block(f"ε = {name}", name, datasets, [line for line in paid if line.epsilon == at]))
    free = [line for line in mine if line.free]
    if free:
        blocks.append(_block("Without privacy, or without private data", "", datasets, free))
    shown, audited = _first_shown(paid), _audited(mine)
    return Overview(
        id=id,
        experiment=title,
        unit=unit,
        metric=METRICS.get(metric, metric),
        datasets=datasets,
        blocks=tuple(blocks),
        shown="" if shown is None else charts.short(shown),
        brackets=_brackets(audited, styles) if audited else None,
        signs=tuple(
            Sign(label, charts.key(styles[each[0].method], "mark"), max(map(_doubt, each)))
            for label, each in _by_label(audited).items()
        ),
    )


def _audited(lines: Sequence[KeptLine]) -> list[KeptLine]:
    """Of every method and epsilon the line, of whatever dataset, against which most was certified."""
    worst: dict[tuple[str, float], KeptLine] = {}
    for line in lines:
        place = (line.label, line.epsilon)
        if line.audited is not None and not line.free:
            worst[place] = max(worst.get(place, line), line, key=lambda each: each.audited or 0.0)
    return list(worst.values())


def _first_shown(paid: Sequence[KeptLine]) -> float | None:
    """Epsilon 2 where there is one, else that of the most lines, the largest of several."""
    often = Counter(line.epsilon for line in paid)
    return max(often, key=lambda at: (at == _SHOWN, often[at], at), default=None)


def _best(lines: Sequence[KeptLine]) -> set[str]:
    """The labels of the best proven methods of a place, at the epsilon that is shown first."""
    proven = [line for line in lines if not line.free and line.proven and not line.uncharged]
    at = _first_shown(proven)
    ranked = sorted((line for line in proven if line.epsilon == at), key=lambda line: -(line.test or 0.0))
    return {line.label for line in ranked[:_LIT]}


def _block(title: str, at: str, datasets: Sequence[str], lines: Sequence[KeptLine]) -> Block:
    """Cells are means; the best one that is proven is set apart. Better methods come first."""
    splits = {line.split for line in lines}
    groups: dict[str, list[KeptLine]] = {}
    for line in lines:
        groups.setdefault(line.full_label + (f" ({line.split})" if len(splits) > 1 else ""), []).append(line)
    ordered = sorted(groups, key=lambda name: -_lead(groups[name], lines))
    return Block(at, title, tuple(_scored(name, groups[name], datasets, lines) for name in ordered))


def _scored(name: str, mine: Sequence[KeptLine], datasets: Sequence[str], lines: Sequence[KeptLine]) -> Scored:
    cells = {line.dataset: _score(line, _rivals(line, lines)) for line in mine}
    doubts = [doubt for line in mine if (doubt := _doubt(line))]
    uncharged = any(line.uncharged and not line.free for line in mine)
    return Scored(name, max(doubts, default=""), uncharged, tuple(cells.get(key, TableCell()) for key in datasets))


def _score(line: KeptLine, rivals: Sequence[KeptLine]) -> TableCell:
    """The mean; a star where the whole epsilon is proven, tuning included, and none of those is better."""
    if line.test is None:
        return TableCell("failed", bad=True)
    entitled = [rival.test or 0.0 for rival in rivals if rival.proven and not rival.uncharged]
    best = not line.free and line.proven and not line.uncharged and line.test == max(entitled)
    return TableCell(percent(line.test), _within(line.half_width), drawn=Markup("★") if best else None)


def _rivals(line: KeptLine, lines: Sequence[KeptLine]) -> list[KeptLine]:
    """The lines, this one among them, that it compares with."""
    return [other for other in lines if (other.dataset, other.split) == (line.dataset, line.split)]


def _lead(mine: Sequence[KeptLine], lines: Sequence[KeptLine]) -> float:
    """Not every method has every dataset: what counts is the mean lead over the others where it has a score."""
    leads = [
        line.test - statistics.fmean(other.test for other in _rivals(line, lines) if other.test is not None)
        for line in mine
        if line.test is not None
    ]
    return statistics.fmean(leads) if leads else -math.inf


def _doubt(line: KeptLine) -> str:
    """Why the epsilon of a line is not to be believed; of several the last of the alphabet is told, the graver one."""
    if line.test is None or line.proven:
        return ""
    return "refuted" if line.refuted else "not proven"


def _place(title: str, lines: Sequence[KeptLine], styles: Mapping[str, int]) -> DatasetFigures:
    first = lines[0]
    scored = [line for line in lines if line.test is not None]
    figures = []
    if scored:
        caption = "Utility at each claimed ε, with 95 % intervals over seeds (Student's t)."
        figures.append((caption, _curves(scored, styles)))
    # In the order in which the curves end, from above.
    levels = _levels(scored)
    ends = {line.label: line for line in sorted(scored, key=lambda line: (not line.free, line.epsilon))}
    ordered = sorted(ends.values(), key=lambda line: -(line.test or 0.0))
    best = _best(scored)
    signs = [
        Sign(
            line.full_label,
            charts.key(styles[line.method], "dotted" if line in levels else _stroke(line)),
            max(_doubt(other) for other in scored if other.label == line.label),
            lit=line.label in best and len(ends) > _LIT,
        )
        for line in ordered
    ]
    if any(line.published is not None for line in scored):
        signs.append(Sign("hollow: the published figure", charts.hollow()))
    return DatasetFigures(title, first.dataset, first.unit, first.split, tuple(figures), tuple(signs))


def _curves(lines: Sequence[KeptLine], styles: Mapping[str, int]) -> Markup:
    across = _levels(lines)
    priced = [line for line in lines if line not in across]
    levels = [Level(line.full_label, styles[line.method], line.test or 0.0, _said(line, line.test)) for line in across]
    heights = [value for line in lines for value in (line.test, line.published) if value is not None]
    series = []
    for label, mine in _by_label(priced).items():
        hollow = _printed([line for line in mine if line.published is not None])
        points = tuple(_point(line) for line in mine)
        series.append(Series(label, styles[mine[0].method], points, hollow, _stroke(mine[0])))
    metric, dataset = METRICS.get(lines[0].metric, lines[0].metric), lines[0].dataset
    return charts.curves(
        series,
        levels,
        charts.epsilons([line.epsilon for line in priced]),
        charts.shares(heights, charts.HEIGHT - charts.BOTTOM, charts.TOP),
        ("claimed ε (log scale)", metric),
        f"{metric} against epsilon on {dataset}, {len(series)} methods; the table has the numbers",
    )


def _by_label(lines: Sequence[KeptLine]) -> dict[str, list[KeptLine]]:
    """What is joined by a line, by rising epsilon."""
    found: dict[str, list[KeptLine]] = {}
    for line in lines:
        found.setdefault(line.label, []).append(line)
    return {label: sorted(mine, key=lambda line: line.epsilon) for label, mine in found.items()}


def _point(line: KeptLine) -> Point:
    mean, width = line.test or 0.0, line.half_width or 0.0
    return Point(line.epsilon, mean, mean - width, mean + width, _said(line, line.test))


def _printed(lines: Sequence[KeptLine]) -> tuple[Point, ...]:
    """The published figures; where several in a row have one source, the last of them says it."""
    made = []
    for line, after in zip_longest(lines, lines[1:]):
        figure, source = line.published or 0.0, f" ({line.source})"
        said = _said(line, figure) + ("" if after is not None and after.source == line.source else source)
        made.append(Point(line.epsilon, figure, figure, figure, said))
    return tuple(made)


def _said(line: KeptLine, share: float | None) -> str:
    """In percent, as the axis."""
    return percent(share) if line.free else f"ε {charts.short(line.epsilon)}: {percent(share)}"


def _brackets(lines: Sequence[KeptLine], styles: Mapping[str, int]) -> Markup:
    series = [
        Series(label, styles[mine[0].method], tuple(_bracket(line) for line in mine))
        for label, mine in _by_label(lines).items()
    ]
    values = [value for item in series for point in item.points for value in (point.y, point.low)]
    return charts.brackets(
        series,
        charts.epsilons([line.epsilon for line in lines]),
        charts.amounts(values, charts.HEIGHT - charts.BOTTOM, charts.TOP),
        ("target ε (log scale)", "ε, log2(1 + ε) scale"),
        f"Claimed and audited epsilon, {len(series)} methods; the table has the numbers",
    )


def _bracket(line: KeptLine) -> Point:
    claimed, low = line.certificate_epsilon or 0.0, line.audited or 0.0
    said = f"claimed {epsilon(claimed)}, certified above {epsilon(low, up=False)}"
    return Point(line.epsilon, claimed, low, claimed, said)
