"""Attacks on trained models: AUC against epsilon beside the floors, accuracy against AUC, and all of it as a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from graphveil.report import charts
from graphveil.report.charts import Level, Point, Series
from graphveil.report.tables import Column, Table, TableCell, epsilon, percent
from graphveil_lab.report.measured import Sign
from graphveil_lab.report.records import Attacked


@dataclass(frozen=True)
class AttackFigures:
    """The figures of one dataset in one part of one file."""

    file: str
    part: str
    dataset: str
    figures: tuple[tuple[str, Markup], ...]
    signs: tuple[Sign, ...]


def places(title: str, items: Sequence[Attacked]) -> list[AttackFigures]:
    """Curves where epsilon varies, else a line of marks per model."""
    groups: dict[tuple[str, str], list[Attacked]] = {}
    for item in items:
        groups.setdefault((item.part, item.dataset), []).append(item)
    return [_place(title, group) for group in groups.values()]


def rows(files: Mapping[str, Sequence[Attacked]]) -> Table:
    """Every attack on every model."""
    columns = (
        Column("method"),
        Column("dataset"),
        Column("ε", number=True),
        Column("attack"),
        Column("AUC", number=True),
        Column("TPR % at FPR 1 %", number=True),
        Column("accuracy %", number=True),
        Column("provable ε", number=True),
        Column("seeds", number=True),
        Column("part"),
        Column("file"),
    )
    made = [
        (
            TableCell(item.method),
            TableCell(item.dataset),
            TableCell(epsilon(item.epsilon)),
            TableCell(item.attack, "floor" if item.floor else ""),
            TableCell(f"{item.auc:.3f}", "" if item.half_width is None else f"± {item.half_width:.3f}"),
            TableCell(percent(item.tpr)),
            TableCell(percent(item.accuracy)),
            TableCell(epsilon(item.sound_epsilon) if (item.sound_epsilon or 0.0) < 1e6 else "∞"),
            TableCell(str(item.seeds)),
            TableCell(item.part),
            TableCell(title),
        )
        for title, items in files.items()
        for item in items
    ]
    return Table("attacks", "All attacks; the headings sort", columns, tuple(made)).used()


def _place(title: str, items: Sequence[Attacked]) -> AttackFigures:
    names = list(dict.fromkeys(item.attack for item in items if not item.floor))
    spread = [name for name in names if _varies([item for item in items if item.attack == name])]
    if not spread:
        return _marks(title, items)
    methods = dict.fromkeys(item.method for item in items)
    styles = {label: index for index, label in enumerate(methods)}
    figures: list[tuple[str, Markup]] = []
    for name in spread:
        mine = [item for item in items if item.attack == name]
        figures.append((f"{name}: how well the attack does at each ε.", _aucs(name, mine, items, styles)))
        if any(item.accuracy is not None for item in mine):
            caption = f"{name}: what accuracy costs in AUC. Best is above, and near 50, which is chance."
            figures.append((caption, _trade(name, mine, styles)))
    signs = [Sign(label, charts.key(style)) for label, style in styles.items()]
    signs.append(Sign("dotted grey: floors, and chance at 50", charts.key(None, "dotted")))
    return AttackFigures(title, items[0].part, items[0].dataset, tuple(figures), tuple(signs))


def _varies(items: Sequence[Attacked]) -> bool:
    """Whether some method was attacked at two finite epsilons."""
    seen = {(item.method, item.epsilon) for item in items if _finite(item)}
    return len(seen) > len({method for method, _ in seen})


def _finite(item: Attacked) -> bool:
    return item.epsilon is not None and 0 < item.epsilon < math.inf


def _aucs(name: str, mine: Sequence[Attacked], items: Sequence[Attacked], styles: Mapping[str, int]) -> Markup:
    levels = [Level("chance", None, 0.5, "50")]
    for floor in dict.fromkeys(item.attack for item in items if item.floor):
        mean = statistics.fmean(item.auc for item in items if item.attack == floor)
        levels.append(Level(floor, None, mean, percent(mean)))
    priced = {item.method for item in mine if _finite(item)}
    across = [item for item in mine if item.method not in priced]
    levels += [Level(item.method, styles[item.method], item.auc, _brief(item)) for item in across]
    series = [
        Series(label, styles[label], tuple(_point(item) for item in mine if item.method == label))
        for label in styles
        if label in priced
    ]
    heights = [item.auc for item in mine] + [level.y for level in levels]
    return charts.curves(
        series,
        levels,
        charts.epsilons([item.epsilon for item in mine if item.method in priced and item.epsilon is not None]),
        charts.shares(heights, charts.HEIGHT - charts.BOTTOM, charts.TOP),
        ("claimed ε (log scale)", "AUC of the attack, %"),
        f"AUC of {name} against epsilon on {items[0].dataset}; the table has the numbers",
    )


def _point(item: Attacked) -> Point:
    width = item.half_width or 0.0
    return Point(item.epsilon or 0.0, item.auc, item.auc - width, item.auc + width, _brief(item))


def _brief(item: Attacked) -> str:
    """After the name of the method."""
    return f"{'' if item.epsilon is None else f'ε {charts.short(item.epsilon)}: '}AUC {item.auc:.3f}"


def _said(item: Attacked) -> str:
    cost = "" if item.epsilon is None else f" at ε {charts.short(item.epsilon)}"
    return f"{item.method}{cost}, {item.attack}: AUC {item.auc:.3f}"


def _trade(name: str, mine: Sequence[Attacked], styles: Mapping[str, int]) -> Markup:
    """Accuracy against AUC; a line joins the epsilons of a method."""
    series = []
    for label in styles:
        points = [
            Point(
                item.auc,
                item.accuracy,
                item.accuracy,
                item.accuracy,
                f"{_brief(item)}, accuracy {percent(item.accuracy)} %",
            )
            for item in sorted((item for item in mine if item.method == label), key=lambda item: item.epsilon or 0.0)
            if item.accuracy is not None
        ]
        series.append(Series(label, styles[label], tuple(points)))
    known = [point for item in series for point in item.points]
    return charts.curves(
        series,
        [],
        charts.shares([point.x for point in known], charts.LEFT, charts.WIDTH - charts.RIGHT),
        charts.shares([point.y for point in known], charts.HEIGHT - charts.BOTTOM, charts.TOP),
        ("AUC of the attack, %", "test accuracy, %"),
        f"Accuracy against the AUC of {name} on {mine[0].dataset}; the table has the numbers",
        dodge=False,
    )


def _marks(title: str, items: Sequence[Attacked]) -> AttackFigures:
    """One line per model, one mark per attacker; an attacker keeps its mark."""
    styles = {name: index for index, name in enumerate(sorted({item.attack for item in items}))}
    models = dict.fromkeys((item.method, item.epsilon) for item in items)
    lines = []
    for method, spent in models:
        cost = "" if spent is None else f", ε = {epsilon(spent)}"
        mine = [item for item in items if (item.method, item.epsilon) == (method, spent)]
        marks = [(styles[item.attack], replace(_point(item), x=item.auc, text=_said(item))) for item in mine]
        lines.append((f"{method}{cost}", marks))
    axis = charts.shares([0.5, *(item.auc for item in items)], 8.0, charts.WIDTH - charts.RIGHT)
    drawn = charts.dots(lines, axis, "AUC of the attack, % (50: chance)", f"AUC of attacks on {items[0].dataset}")
    floors = {item.attack for item in items if item.floor}
    signs = [
        Sign(f"{name} (floor)" if name in floors else name, charts.key(style, "mark")) for name, style in styles.items()
    ]
    caption = "One line per model: how well each attacker does, with 95 % intervals over seeds."
    return AttackFigures(title, items[0].part, items[0].dataset, ((caption, drawn),), tuple(signs))
