"""Kept results: an overview and brackets per experiment and unit, curves per dataset, and all lines as a table."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from markupsafe import Markup

from graphveil.report import charts
from graphveil.report.charts import Point, Series
from graphveil.report.templates import percent, short_epsilon
from graphveil_lab.bench.kept import KeptLine
from graphveil_lab.report.parts import FigureGroup, LegendEntry, Table, TableCell, grouped

METRICS = {
    "accuracy": "test accuracy, %",
    "f1": "macro F1, %",
    "rare_f1": "F1 of the rarest class, %",
    "precision": "precision weighted by class size, %",
    "balanced_accuracy": "balanced accuracy, %",
    "auc": "AUC, mean over classes, %",
    "average_precision": "average precision, mean over classes, %",
}

_FIRST_EPSILON = 2.0
"""The epsilon at which a page opens: below 1 little is learnt from most graphs, and 8 promises next to nothing."""
_HIGHLIGHTED = 3
"""Lines of a figure that are highlighted at first: more than a handful cannot be told apart."""


@dataclass(frozen=True)
class OverviewRow:
    """The scores of a method by dataset, and why its epsilon is not proven."""

    label: str
    caveat: str
    uncharged: bool
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class OverviewBlock:
    """The rows at one epsilon; the last block holds what has no epsilon."""

    epsilon: str
    title: str
    rows: tuple[OverviewRow, ...]


@dataclass(frozen=True)
class Overview:
    """Methods by datasets, a block per epsilon, of which `first_shown` is shown first; then claims beside audits."""

    id: str
    experiment: str
    unit: str
    metric: str
    datasets: tuple[str, ...]
    blocks: tuple[OverviewBlock, ...]
    first_shown: str
    brackets: FigureGroup | None


@dataclass(frozen=True)
class Experiment:
    """The figures of one file."""

    overviews: tuple[Overview, ...]
    curves: tuple[FigureGroup, ...]

    @classmethod
    def of(cls, index: int, title: str, lines: Sequence[KeptLine]) -> Experiment:
        """A method looks the same in all figures."""
        styles = {label: place for place, label in enumerate(dict.fromkeys(line.method for line in lines))}
        tables = grouped(lines, lambda line: (line.unit, line.metric)).values()
        places = grouped(lines, lambda line: (line.unit, line.dataset, line.split, line.metric)).values()
        return cls(
            tuple(_overview(f"overview-{index}-{place}", title, mine, styles) for place, mine in enumerate(tables)),
            tuple(_curves(title, mine, styles) for mine in places),
        )


def rows(tables: Mapping[str, Sequence[KeptLine]]) -> Table:
    """Every line of every experiment."""
    made = [_cells(title, line) for title, lines in tables.items() for line in lines]
    return Table.of("rows", "All results; the headings sort", made)


def _cells(title: str, line: KeptLine) -> dict[str, str | TableCell]:
    gap = None if line.test is None or line.published is None else line.test - line.published
    claimed, provable = line.certificate_epsilon, line.sound_epsilon
    weaker = claimed is not None and provable is not None and provable > claimed * (1 + 1e-6)
    return {
        "method": line.method,
        "dataset": line.dataset,
        "ε": short_epsilon(line.epsilon),
        "test %": TableCell(percent(line.test, 2), _interval(line)),
        "seeds": str(line.seeds),
        "published %": percent(line.published, 2),
        "difference": "" if gap is None else f"{100 * gap:+.2f}",
        "reading": line.reading,
        "claimed ε": short_epsilon(claimed),
        "provable ε": TableCell(short_epsilon(provable), bad=weaker),
        "audited ε above": TableCell(short_epsilon(line.audited, up=False), bad=line.refuted),
        "soundness": TableCell(line.soundness, bad=not line.proven),
        "how audited": TableCell(line.audit, bad=line.refuted),
        "δ": f"{line.delta:.3g}",
        "seconds": "" if line.seconds is None else f"{line.seconds:.1f}",
        "peak MB": "" if line.peak_mb is None else f"{line.peak_mb:.0f}",
        "unit": line.unit,
        "split": line.split,
        "experiment": title,
        "metric": "" if line.metric == "accuracy" else line.metric,
        "hyper-parameters": " ".join(f"{key}={value}" for key, value in line.tuned.items()),
        "chosen": line.selection,
        "source of the published figure": line.source,
        "failed": TableCell(f"{line.failed}: {line.failure}" if line.failed else "", bad=True),
    }


def _interval(line: KeptLine) -> str:
    return "" if line.half_width is None else f"± {100 * line.half_width:.1f}"


def _caveat(line: KeptLine) -> str:
    """Why the epsilon of a line is not to be believed; the graver caveat comes last in the alphabet."""
    if line.test is None or line.proven:
        return ""
    return "refuted" if line.refuted else "not proven"


# The overview


def _overview(id: str, title: str, lines: Sequence[KeptLine], styles: Mapping[str, int]) -> Overview:
    first = lines[0]
    datasets = tuple(dict.fromkeys(line.dataset for line in lines))
    paid, free = [line for line in lines if not line.free], [line for line in lines if line.free]
    by_epsilon = sorted(grouped(paid, lambda line: line.epsilon).items())
    blocks = [_block(f"ε = {charts.short(at)}", charts.short(at), datasets, mine) for at, mine in by_epsilon]
    blocks += [_block("Without privacy, or without private data", "", datasets, free)] if free else []
    shown = _first_shown(paid)
    return Overview(
        id=id,
        experiment=title,
        unit=first.unit,
        metric=METRICS.get(first.metric, first.metric),
        datasets=datasets,
        blocks=tuple(blocks),
        first_shown="" if shown is None else charts.short(shown),
        brackets=_brackets(title, first.unit, paid, styles),
    )


def _first_shown(paid: Sequence[KeptLine]) -> float | None:
    """Epsilon 2 where there is one, else that of the most lines, the largest of several."""
    often = Counter(line.epsilon for line in paid)
    return max(often, key=lambda at: (at == _FIRST_EPSILON, often[at], at), default=None)


def _block(title: str, at: str, datasets: Sequence[str], lines: Sequence[KeptLine]) -> OverviewBlock:
    """Cells are means; the best one that is proven is starred. Better methods come first."""
    several = len({line.split for line in lines}) > 1
    methods = grouped(lines, lambda line: f"{line.full_label} ({line.split})" if several else line.full_label)
    rivals = grouped(lines, lambda line: (line.dataset, line.split))
    ordered = sorted(methods.items(), key=lambda item: -_lead(item[1], rivals))
    return OverviewBlock(at, title, tuple(_row(label, mine, datasets, rivals) for label, mine in ordered))


_Rivals = Mapping[tuple[str, str], Sequence[KeptLine]]
"""The lines that are compared: those of one dataset and split."""


def _lead(mine: Sequence[KeptLine], rivals: _Rivals) -> float:
    """The mean lead over the others where the method has a score: not every method has every dataset."""
    leads = [
        line.test - statistics.fmean(other.test for other in rivals[line.dataset, line.split] if other.test is not None)
        for line in mine
        if line.test is not None
    ]
    return statistics.fmean(leads) if leads else -math.inf


def _row(label: str, mine: Sequence[KeptLine], datasets: Sequence[str], rivals: _Rivals) -> OverviewRow:
    cells = {line.dataset: _score(line, rivals[line.dataset, line.split]) for line in mine}
    uncharged = any(line.uncharged and not line.free for line in mine)
    return OverviewRow(
        label, max(map(_caveat, mine)), uncharged, tuple(cells.get(key, TableCell()) for key in datasets)
    )


def _score(line: KeptLine, rivals: Sequence[KeptLine]) -> TableCell:
    """The mean; a star where the whole epsilon is proven, tuning included, and none of those is better."""
    if line.test is None:
        return TableCell("failed", bad=True)
    entitled = [rival.test or 0.0 for rival in rivals if rival.proven and not rival.uncharged]
    best = not line.free and line.proven and not line.uncharged and line.test == max(entitled)
    return TableCell(percent(line.test), _interval(line), drawn=Markup("★") if best else None)


def _brackets(title: str, unit: str, paid: Sequence[KeptLine], styles: Mapping[str, int]) -> FigureGroup | None:
    """Claims and the largest audited bounds; audits run on graphs of their own, so all datasets share them."""
    places = grouped((line for line in paid if line.audited is not None), lambda line: (line.label, line.epsilon))
    audited = [max(mine, key=lambda line: line.audited or 0.0) for mine in places.values()]
    if not audited:
        return None
    labels = _by_label(audited)
    series = [
        Series(label, styles[mine[0].method], tuple(map(_bracket, mine)), stroke="mark")
        for label, mine in labels.items()
    ]
    values = [value for one in series for point in one.points for value in (point.low, point.high)]
    drawn = charts.chart(
        series,
        charts.epsilons("target ε (log scale)", [line.epsilon for line in audited]),
        charts.amounts("ε, log2(1 + ε) scale", values),
        f"Claimed and audited epsilon, {len(series)} methods; the table has the numbers",
        spread=0.75,
    )
    legend = [LegendEntry(one.label, one.key, max(map(_caveat, labels[one.label]))) for one in series]
    caption = (
        "Brackets: the bar is claimed, the mark is the most that an attacker certified, on small graphs made for it: "
        "all datasets share them."
    )
    return FigureGroup("Claims, and what attackers certified", f"{title}, {unit}", {}, ((caption, drawn),), (*legend,))


def _bracket(line: KeptLine) -> Point:
    claimed, low = line.certificate_epsilon or 0.0, line.audited or 0.0
    text = f"claimed {short_epsilon(claimed)}, certified above {short_epsilon(low, up=False)}"
    return Point(line.epsilon, low, low, claimed, text)


def _by_label(lines: Sequence[KeptLine]) -> dict[str, list[KeptLine]]:
    """What is joined by a line, by rising epsilon."""
    labels = grouped(lines, lambda line: line.label)
    return {label: sorted(mine, key=lambda line: line.epsilon) for label, mine in labels.items()}


# Curves


def _curves(title: str, lines: Sequence[KeptLine], styles: Mapping[str, int]) -> FigureGroup:
    """The legend is in the order in which the curves end, from above; the best proven lines are highlighted."""
    first, scored = lines[0], [line for line in lines if line.test is not None]
    drawn = [(one, mine) for mine in _by_label(scored).values() for one in _series(mine, styles)]
    best = _best(scored) if len(drawn) > _HIGHLIGHTED else set()
    legend = [
        LegendEntry(one.label, one.key, max(map(_caveat, mine)), one.label in best)
        for one, mine in sorted(drawn, key=lambda each: -each[0].points[-1].y)
    ]
    if any(line.published is not None for line in scored):
        legend.append(LegendEntry("hollow: the published figure", charts.key(None, "hollow")))
    metric = METRICS.get(first.metric, first.metric)
    methods = sum(one.stroke != "level" for one, _ in drawn)
    alt = f"{metric} against epsilon on {first.dataset}, {methods} methods; the table has the numbers"
    chart = charts.against_epsilon([one for one, _ in drawn], "claimed ε (log scale)", metric, alt)
    caption = "Utility at each claimed ε, with 95 % intervals over seeds (Student's t)."
    return FigureGroup(
        f"{first.dataset}, protects {first.unit}" + (f", split {first.split}" if first.split else ""),
        title,
        {"experiment": title, "dataset": first.dataset, "unit": first.unit},
        ((caption, chart),) if scored else (),
        tuple(legend),
    )


def _series(mine: Sequence[KeptLine], styles: Mapping[str, int]) -> list[Series]:
    """The lines of one label as a curve, dashed where the claim is only published, or as levels where all are free."""
    first, style = mine[0], styles[mine[0].method]
    if all(line.free for line in mine):
        return [Series.level(line.full_label, style, line.test or 0.0, _text(line, line.test)) for line in mine]
    stroke = "line" if first.reading == "sound" else "dashed"
    return [Series(first.label, style, tuple(map(_point, mine)), _published(mine), stroke)]


def _best(lines: Sequence[KeptLine]) -> set[str]:
    """The labels of the best proven methods, at the epsilon that is shown first."""
    proven = [line for line in lines if not line.free and line.proven and not line.uncharged]
    at = _first_shown(proven)
    ranked = sorted((line for line in proven if line.epsilon == at), key=lambda line: -(line.test or 0.0))
    return {line.label for line in ranked[:_HIGHLIGHTED]}


def _point(line: KeptLine) -> Point:
    mean, width = line.test or 0.0, line.half_width or 0.0
    return Point(line.epsilon, mean, mean - width, mean + width, _text(line, line.test))


def _published(lines: Sequence[KeptLine]) -> tuple[Point, ...]:
    """The published figures; where several in a row have one source, the last of them names it."""
    made = []
    printed = [line for line in lines if line.published is not None]
    for line, after in zip_longest(printed, printed[1:]):
        figure, source = line.published or 0.0, f" ({line.source})"
        text = _text(line, figure) + ("" if after is not None and after.source == line.source else source)
        made.append(Point(line.epsilon, figure, figure, figure, text))
    return tuple(made)


def _text(line: KeptLine, share: float | None) -> str:
    """In percent, as the axis."""
    return percent(share) if line.free else f"ε {charts.short(line.epsilon)}: {percent(share)}"
