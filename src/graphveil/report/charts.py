"""Charts as SVG from one template: 2 kB and 0.5 ms each, where matplotlib's take 18 kB and 60 ms and add a dependency.

A page of results has 340 of them: 1.9 MB in 2 s, against 7 MB in 20 s. They follow the page's colours on dark screens
and on paper, and show a title under the pointer. A series has one of 42 classes, p0 to p41: six colours of the page
(--s0 to --s5) times seven shapes of marks. Marks are SVG markers on the corners of a path, so that each point is
written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from graphveil.report.templates import environment, render

STYLES = 6 * 7
WIDTH, HEIGHT = 400, 300
LEFT, RIGHT, TOP, BOTTOM = 44, WIDTH - 12, 12, HEIGHT - 42
"""Edges of the plotted area, in pixels."""
_INFINITY = 26
"""Width beside the axis for the marks at epsilon infinity."""


@dataclass(frozen=True)
class Point:
    """A mark with its interval `low` to `high`, on the y axis or, if rows are drawn, on the x axis, and its title."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Series:
    """The points of one method, grey without a style; `published` are drawn hollow."""

    label: str
    style: int | None
    points: tuple[Point, ...]
    published: tuple[Point, ...] = ()
    stroke: str = "line"
    """"line", "dashed", "mark" for points that are not joined, with capped intervals, or "level"."""

    @classmethod
    def level(cls, label: str, style: int | None, y: float, text: str) -> Series:
        """A dotted line across, for a score that does not depend on epsilon."""
        return cls(label, style, (Point(math.inf, y, y, y, text),), stroke="level")

    @property
    def key(self) -> Markup:
        """The sample in a legend."""
        return key(self.style, self.stroke)


@dataclass(frozen=True)
class Axis:
    """Maps `low` to `high`, on a scale, to pixels from `start` to `end`."""

    name: str
    low: float
    high: float
    start: int
    end: int
    ticks: tuple[tuple[float, str], ...] = ()
    scale: Callable[[float], float] = float
    infinity: int | None = None
    """The pixel of infinity, beyond the axis."""

    def __call__(self, value: float) -> int:
        if value == math.inf and self.infinity is not None:
            return self.infinity
        low, high, at = map(self.scale, (self.low, self.high, min(max(value, self.low), self.high)))
        return round(self.start + (at - low) / (high - low) * (self.end - self.start))


def epsilons(name: str, values: Sequence[float]) -> Axis:
    """A log axis with ticks at these epsilons, infinity apart; ticks less than 26 pixels from the last are left out."""
    finite = sorted({value for value in values if 0 < value < math.inf}) or [1.0]
    infinite = math.inf in values
    end = RIGHT - round(1.6 * _INFINITY) * infinite
    axis = Axis(name, finite[0] / 1.35, finite[-1] * 1.35, LEFT, end, (), math.log2)
    ticks: list[tuple[float, str]] = []
    for value in finite:
        if not ticks or axis(value) - axis(ticks[-1][0]) >= 26:
            ticks.append((value, short(value)))
    if not infinite:
        return replace(axis, ticks=tuple(ticks))
    return replace(axis, ticks=(*ticks, (math.inf, "∞")), infinity=RIGHT - _INFINITY // 2)


def shares(name: str, values: Sequence[float], start: int = BOTTOM, end: int = TOP) -> Axis:
    """A linear axis in percent around the values, at least four points wide."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = max(0.06 * (high - low), (0.04 - (high - low)) / 2)
    low, high = max(low - pad, 0.0), min(high + pad, 1.0)
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (high - low) / step <= 6.5)
    multiples = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return Axis(name, low, high, start, end, tuple((step * each, f"{100 * step * each:.0f}") for each in multiples))


def amounts(name: str, values: Sequence[float], start: int = BOTTOM, end: int = TOP) -> Axis:
    """An axis for epsilons that may be 0: log2(1 + epsilon)."""
    high = 1.08 * max([value for value in values if value < math.inf], default=1.0)
    ticks = [0.0, *(2.0**power for power in range(-1, 40) if 2.0**power <= high)]
    while len(ticks) > 8:
        ticks = [ticks[0], *ticks[2::2]]
    marked = tuple((tick, short(tick)) for tick in ticks)
    return Axis(name, 0.0, max(high, 0.5), start, end, marked, lambda value: math.log2(1 + value))


def short(value: float) -> str:
    """A number for an axis."""
    return "∞" if value == math.inf else f"{value:g}"


def chart(series: Sequence[Series], x: Axis, y: Axis, alt: str, spread: float = 0.4) -> Markup:
    """Levels across, then lines of points with their intervals.

    The points of different series at one x are set side by side, over the share `spread` of the distance of two ticks.
    """
    levels, lines = ([one for one in series if (one.stroke == "level") is level] for level in (True, False))
    gap = min((after - before for before, after in pairwise(x(tick) for tick, _ in x.ticks)), default=2 * _INFINITY)
    step = spread * min(12.0, gap / max(len(lines), 1))
    drawn = [_paths(one, x, y, 0.0) for one in levels]
    drawn += [_paths(one, x, y, (place - (len(lines) - 1) / 2) * step) for place, one in enumerate(lines)]
    return _draw("chart", drawn, x, y, alt)


def against_epsilon(
    series: Sequence[Series], x_name: str, y_name: str, alt: str, spread: float = 0.4, heights: Sequence[float] = ()
) -> Markup:
    """Shares against epsilon; the y axis has room for all marks and for `heights`."""
    points = [(one, point) for one in series for point in (*one.points, *one.published)]
    x = epsilons(x_name, [point.x for one, point in points if one.stroke != "level"])
    return chart(series, x, shares(y_name, [*heights, *(point.y for _, point in points)]), alt, spread)


def rows(labels: Sequence[str], series: Sequence[Series], x: Axis, alt: str) -> Markup:
    """A horizontal line for each label; the y of a point is the place of its label."""
    bottom = 8 + 34 * len(labels)
    y = Axis("", 0, len(labels), 8, bottom, tuple((place + 0.65, label) for place, label in enumerate(labels)))
    moved = [replace(each, points=tuple(replace(one, y=one.y + 0.65) for one in each.points)) for each in series]
    return _draw("rows", [_paths(each, x, y, 0.0, upright=False) for each in moved], x, y, alt)


def reach(corners: Sequence[tuple[float, float]], alt: str) -> Markup:
    """The (FPR, TPR) that a test can reach, as the area below its corners, and a guess as a dotted line."""
    ticks = tuple((tick / 4, f"{25 * tick}") for tick in range(5))
    x = Axis("wrongly accused, %", 0, 1, LEFT, RIGHT, ticks)
    y = Axis("rightly accused, %", 0, 1, BOTTOM, TOP, ticks)
    return _draw("reach", _joined([(x(fpr), y(tpr)) for fpr, tpr in corners]), x, y, alt)


def picture(title: str, panels: Sequence[tuple[str, Markup, Sequence[Series]]], columns: int = 1) -> str:
    """An SVG file that stands alone: panels of a heading, a chart and a legend of its series."""
    return render("picture.svg", title=title, panels=panels, columns=columns, definitions=definitions())


def definitions() -> Markup:
    """What charts refer to."""
    return _draw("definitions", STYLES)


def key(style: int | None, sample: str) -> Markup:
    """The sample of a series in a legend: its stroke, or "hollow"."""
    return _draw("key", _look(style), sample)


def _look(style: int | None) -> str:
    """The class of a style; grey, and without marks, if there is none."""
    return "s" if style is None else f"p{style % STYLES}"


def _draw(macro: str, *values: Any) -> Markup:
    made: Markup = getattr(_macros(), macro)(*values)
    return made


@cache
def _macros() -> Any:
    made = environment()
    made.globals |= {"look": _look, "left": LEFT, "right": RIGHT, "width": WIDTH}
    return made.get_template("charts.html").module


def _paths(one: Series, x: Axis, y: Axis, aside: float, upright: bool = True) -> dict[str, Any]:
    """A series in pixels."""
    at = [(round(x(point.x) + aside), y(point.y)) for point in one.points]
    finite = [place for point, place in zip(one.points, at, strict=True) if point.x < math.inf]
    apart = [place for point, place in zip(one.points, at, strict=True) if point.x == math.inf]
    cap = "m-4 0h8" if one.stroke == "mark" and upright else ""
    intervals = "".join(
        f"M{across} {y(point.low)}V{y(point.high)}{cap}" if upright else f"M{x(point.low)} {up}H{x(point.high)}"
        for point, (across, up) in zip(one.points, at, strict=True)
        if point.low != point.high
    )
    path = _joined(finite) + "".join(_joined([place]) for place in apart)
    if one.stroke == "level":
        # Its mark is at one of four places at the right end, so that levels that lie close differ.
        path = f"M{LEFT} {at[0][1]}H{RIGHT - 5 - 9 * ((one.style or 0) % 4)}H{RIGHT}"
    return {
        "series": one,
        "path": path,
        "intervals": intervals,
        "published": [(round(x(point.x) + aside), y(point.y)) for point in one.published],
    }


def _joined(places: Sequence[tuple[int, int]]) -> str:
    """A path with a mark on each corner; a single one needs a step, of length zero, to be drawn."""
    return "M" + "L".join(f"{across} {up}" for across, up in places) + "h0" * (len(places) == 1) if places else ""
