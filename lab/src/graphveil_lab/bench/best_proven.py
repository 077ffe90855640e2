"""The best proven line per unit, split and graph, with what it lacks to no privacy and gains on the largest class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from graphveil.errors import InvalidInput
from graphveil_lab.bench import kept
from graphveil_lab.bench.kept import KeptLine
from graphveil_lab.bench.table import lined

LARGEST = "largest class"
"""Begins the label of lines that name the largest class (`methods/majority.py`)."""
_READ = (
    "A cell: the proven line of the highest mean, its test score in per cent, and in brackets how far that is from the "
    "best line without privacy and from naming the largest class, which is counted openly: it is a yardstick and no "
    "release. A line that spends nothing stands at every ε. Of several lines the best is a little lucky."
)
Place = tuple[str, str, str]
"""Split, metric and graph: what scores must share to be compared."""


def best_proven(paths: Sequence[Path]) -> str:
    """Kept results in Markdown: a table per unit, split and metric, graphs against epsilons."""
    held = [line for path in paths for line in kept.load(path)]
    old = ", ".join(sorted({line.method for line in held if line.stale}))
    lines = [line for line in held if line.test is not None and not line.failed]
    epsilons = sorted({line.epsilon for line in lines if not line.free})
    if not epsilons:
        raise InvalidInput("no line of these results spends a finite epsilon, so none is the best of them")
    groups: dict[tuple[str, str, str], list[KeptLine]] = {}
    for line in lines:
        groups.setdefault((line.unit, line.split, line.metric), []).append(line)
    tables = [
        f"{_title(*group)}\n\n{_table(mine, lines, epsilons)}"
        for group, mine in groups.items()
        if any(_candidate(line) for line in mine)
    ]
    return "\n\n".join([*tables, *([f"Left out, because they are stale: {old}."] if old else []), _READ])


def _title(unit: str, split: str, metric: str) -> str:
    told = (f"{unit} level", f"split {split}" if split else "", "" if metric == "accuracy" else metric)
    return f"**{', '.join(part for part in told if part)}**"


def _table(mine: Sequence[KeptLine], lines: Sequence[KeptLine], epsilons: Sequence[float]) -> str:
    """A row per graph: the largest class, the best line without privacy, the best proven one at every epsilon."""
    body = []
    for place in dict.fromkeys(_place(line) for line in mine if _candidate(line)):
        beside = [line for line in lines if _place(line) == place]
        floor = _first([line for line in beside if line.method.startswith(LARGEST)])
        top = _first([line for line in beside if line.epsilon == math.inf and not line.method.startswith(LARGEST)])
        here = [line for line in mine if _place(line) == place and _candidate(line)]
        cells = [
            _cell(_first([line for line in here if line.free or line.epsilon == epsilon]), top, floor)
            for epsilon in epsilons
        ]
        body.append([place[2], _score(floor), "" if top is None else f"{top.method} {_score(top)}", *cells])
    return lined(["graph", LARGEST, "not private", *(f"ε = {epsilon:g}" for epsilon in epsilons)], body)


def _place(line: KeptLine) -> Place:
    return line.split, line.metric, line.dataset


def _candidate(line: KeptLine) -> bool:
    """Whether a line may be the best: proven, by a plan that is sound, with nothing left uncharged."""
    return line.epsilon < math.inf and line.reading == "sound" and line.proven and not line.uncharged


def _first(lines: Sequence[KeptLine]) -> KeptLine | None:
    """The line of the highest mean; None of none."""
    return max(lines, key=lambda line: line.test or 0.0, default=None)


def _cell(best: KeptLine | None, top: KeptLine | None, floor: KeptLine | None) -> str:
    return "" if best is None else f"{best.method} {_score(best)} ({_gap(best, top)}, {_gap(best, floor)})"


def _score(line: KeptLine | None) -> str:
    return "" if line is None or line.test is None else f"{100 * line.test:.1f}"


def _gap(line: KeptLine, other: KeptLine | None) -> str:
    """Points above the other line, below it if negative; unknown without one."""
    return "?" if other is None or other.test is None or line.test is None else f"{100 * (line.test - other.test):+.1f}"
