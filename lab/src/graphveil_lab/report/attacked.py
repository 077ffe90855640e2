"""Attacks on trained models: AUC against epsilon beside the floors, accuracy against AUC, and all of it as a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from graphveil.report import charts
from graphveil.report.charts import Point, Series
from graphveil.report.templates import percent, short_epsilon
from graphveil_lab.report.parts import FigureGroup, LegendEntry, Table, TableCell, grouped
from graphveil_lab.report.records import Attacked


def figures(title: str, items: Sequence[Attacked]) -> list[FigureGroup]:
    """Per part and dataset of a file: curves where epsilon varies, else a row of marks per model."""
    made = []
    for (part, dataset), group in grouped(items, lambda item: (item.part, item.dataset)).items():
        drawn, legend = _curves(group) or _rows(group)
        menus = {"file": title, "part": part, "dataset": dataset}
        made.append(FigureGroup(f"{dataset}, {part}", title, menus, (*drawn,), (*legend,)))
    return made


def rows(files: Mapping[str, Sequence[Attacked]]) -> Table:
    """Every attack on every model."""
    made = [_cells(title, item) for title, items in files.items() for item in items]
    return Table.of("attacks", "All attacks; the headings sort", made)


def _cells(title: str, item: Attacked) -> dict[str, str | TableCell]:
    return {
        "method": item.method,
        "dataset": item.dataset,
        "ε": short_epsilon(item.epsilon),
        "attack": TableCell(item.attack, "floor" if item.floor else ""),
        "AUC": TableCell(f"{item.auc:.3f}", "" if item.half_width is None else f"± {item.half_width:.3f}"),
        "TPR % at FPR 1 %": percent(item.tpr),
        "accuracy %": percent(item.accuracy),
        "provable ε": short_epsilon(item.sound_epsilon) if (item.sound_epsilon or 0.0) < 1e6 else "∞",
        "seeds": str(item.seeds),
        "part": item.part,
        "file": title,
    }


_Drawn = tuple[list[tuple[str, Markup]], list[LegendEntry]]
"""Captions and drawings, and their legend."""


def _curves(items: Sequence[Attacked]) -> _Drawn | None:
    """Two figures for each attack on models of several epsilons; nothing where there is none."""
    attacks = grouped((item for item in items if not item.floor), lambda item: item.attack)
    varied = {name: mine for name, mine in attacks.items() if _varies(mine)}
    if not varied:
        return None
    styles = {label: place for place, label in enumerate(dict.fromkeys(item.method for item in items))}
    drawn: list[tuple[str, Markup]] = []
    for name, mine in varied.items():
        drawn.append((f"{name}: how well the attack does at each ε.", _aucs(name, mine, items, styles)))
        if any(item.accuracy is not None for item in mine):
            caption = f"{name}: what accuracy costs in AUC. Best is above, and near 50, which is chance."
            drawn.append((caption, _trade(name, mine, styles)))
    legend = [LegendEntry(label, charts.key(style, "line")) for label, style in styles.items()]
    return drawn, [*legend, LegendEntry("dotted grey: floors, and chance at 50", charts.key(None, "level"))]


def _varies(items: Sequence[Attacked]) -> bool:
    """Whether some method was attacked at two finite epsilons."""
    seen = {(item.method, item.epsilon) for item in items if _finite(item)}
    return len(seen) > len({method for method, _ in seen})


def _finite(item: Attacked) -> bool:
    return item.epsilon is not None and 0 < item.epsilon < math.inf


def _aucs(name: str, mine: Sequence[Attacked], items: Sequence[Attacked], styles: Mapping[str, int]) -> Markup:
    levels = [Series.level("chance", None, 0.5, "50")]
    for floor, found in grouped((item for item in items if item.floor), lambda item: item.attack).items():
        mean = statistics.fmean(item.auc for item in found)
        levels.append(Series.level(floor, None, mean, percent(mean)))
    paid = {item.method for item in mine if _finite(item)}
    levels += [
        Series.level(item.method, styles[item.method], item.auc, _text(item))
        for item in mine
        if item.method not in paid
    ]
    series = [
        Series(label, style, tuple(_point(item) for item in mine if item.method == label))
        for label, style in styles.items()
        if label in paid
    ]
    alt = f"AUC of {name} against epsilon on {items[0].dataset}; the table has the numbers"
    return charts.against_epsilon([*levels, *series], "claimed ε (log scale)", "AUC of the attack, %", alt)


def _point(item: Attacked) -> Point:
    width = item.half_width or 0.0
    return Point(item.epsilon or 0.0, item.auc, item.auc - width, item.auc + width, _text(item))


def _text(item: Attacked) -> str:
    """After the name of the method."""
    return f"{'' if item.epsilon is None else f'ε {charts.short(item.epsilon)}: '}AUC {item.auc:.3f}"


def _trade(name: str, mine: Sequence[Attacked], styles: Mapping[str, int]) -> Markup:
    """Accuracy against AUC; a line joins the epsilons of a method."""
    series = []
    for label, style in styles.items():
        known = [(item, item.accuracy) for item in mine if item.method == label and item.accuracy is not None]
        points = [
            Point(item.auc, share, share, share, f"{_text(item)}, accuracy {percent(share)} %")
            for item, share in sorted(known, key=lambda each: each[0].epsilon or 0.0)
        ]
        series.append(Series(label, style, tuple(points)))
    everywhere = [point for one in series for point in one.points]
    return charts.chart(
        series,
        charts.shares("AUC of the attack, %", [point.x for point in everywhere], charts.LEFT, charts.RIGHT),
        charts.shares("test accuracy, %", [point.y for point in everywhere]),
        f"Accuracy against the AUC of {name} on {mine[0].dataset}; the table has the numbers",
        spread=0.0,
    )


def _rows(items: Sequence[Attacked]) -> _Drawn:
    """One row per model, one mark per attacker; an attacker keeps its mark."""
    models = list(grouped(items, lambda item: (item.method, item.epsilon)))
    labels = [method if spent is None else f"{method}, ε = {short_epsilon(spent)}" for method, spent in models]
    attackers = sorted(grouped(items, lambda item: f"{item.attack} (floor)" if item.floor else item.attack).items())
    series = []
    for style, (name, mine) in enumerate(attackers):
        points = [(_point(item), models.index((item.method, item.epsilon))) for item in mine]
        drawn = [Point(at.y, row, at.low, at.high, f"{labels[row]}: AUC {at.y:.3f}") for at, row in points]
        series.append(Series(name, style, tuple(drawn), stroke="mark"))
    axis = charts.shares("AUC of the attack, % (50: chance)", [0.5, *(item.auc for item in items)], 8, charts.RIGHT)
    caption = "One line per model: how well each attacker does, with 95 % intervals over seeds."
    chart = charts.rows(labels, series, axis, f"AUC of attacks on {items[0].dataset}")
    return [(caption, chart)], [LegendEntry(each.label, each.key) for each in series]
