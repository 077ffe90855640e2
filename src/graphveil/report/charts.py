"""Charts as inline SVG: small enough to hold hundreds on a page, coloured by its style sheet, read without colour.

A series is known by its colour and by the shape of its marks: six colours and seven shapes, so that 42 series differ.
Colours are classes (s0 to s5) and shapes are symbols (m0 to m6) of the page; text comes escaped from `Markup.format`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

COLOURS, SHAPES = 6, 7
WIDTH, HEIGHT = 400, 300
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 42
DODGE = 26.0
"""Room for the marks at infinity, which is no place on the axis."""


@dataclass(frozen=True)
class Point:
    """A mark with its interval `low` to `high`, and what is said of it after the name of its series."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Series:
    """One method: its points are joined; `hollow` are figures of others beside them."""

    label: str
    style: int
    points: tuple[Point, ...]
    hollow: tuple[Point, ...] = ()
    stroke: str = ""
    """Nothing for a solid line, "dashed" or "dotted"."""


@dataclass(frozen=True)
class Level:
    """A horizontal line: what needs no epsilon, such as a floor or a model without privacy."""

    label: str
    style: int | None
    y: float
    text: str


@dataclass(frozen=True)
class Axis:
    """Values to pixels, through log2 or log2(1 + x) if so asked, and the ticks to print."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    curve: str = "linear"
    infinity: float | None = None
    """Where infinity is drawn, beyond the axis."""

    def __call__(self, value: float) -> float:
        if value == math.inf and self.infinity is not None:
            return self.infinity
        low, high, at = (self._bent(item) for item in (self.low, self.high, min(max(value, self.low), self.high)))
        return _p(self.start + (at - low) / (high - low) * (self.end - self.start))

    def _bent(self, value: float) -> float:
        if self.curve == "log":
            return math.log2(value)
        return math.log2(1 + value) if self.curve == "log1p" else value


def look(style: int) -> tuple[str, str]:
    """Class of the colour and symbol of the shape of a series."""
    return f"s{style % COLOURS}", f"m{style % SHAPES}"


def key(style: int | None, stroke: str = "", line: bool = True) -> Markup:
    """The sign of a series in a legend."""
    colour, shape = ("s", "") if style is None else look(style)
    drawn = Markup('<path class="{}" d="M0 8H28"/>').format(f"line {stroke}".rstrip()) if line else Markup("")
    mark = _mark(shape, 14, 8) if shape else Markup("")
    return Markup('<svg class="sign {}" aria-hidden="true">{}{}</svg>').format(colour, drawn, mark)


def hollow() -> Markup:
    """The sign of figures that others printed."""
    return Markup('<svg class="sign s hollow" aria-hidden="true"><use href="#m0" x="14" y="8"/></svg>')


def epsilons(values: Sequence[float]) -> Axis:
    """A log axis over the epsilons that occur, infinity apart; labels that would touch are left out."""
    known = sorted({value for value in values if 0 < value < math.inf}) or [1.0]
    # A little room on both sides, for the marks are spread.
    low, high = known[0] / 1.35, known[-1] * 1.35
    end: float = WIDTH - RIGHT
    infinity = end - DODGE / 2 if math.inf in values else None
    end -= 0.0 if infinity is None else 1.6 * DODGE
    axis = Axis(low, high, LEFT, end, (), "log", infinity)
    ticks: list[tuple[float, str]] = []
    for value in known:
        if not ticks or axis(value) - axis(ticks[-1][0]) >= 26:
            ticks.append((value, short(value)))
    ticks += [] if infinity is None else [(math.inf, "∞")]
    return replace(axis, ticks=tuple(ticks))


def shares(values: Sequence[float], start: float, end: float) -> Axis:
    """A linear axis in percent around the values; at least four points wide."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = max(0.06 * (high - low), (0.04 - (high - low)) / 2)
    low, high = max(low - pad, 0.0), min(high + pad, 1.0)
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (high - low) / step <= 6.5)
    first = math.ceil(low / step - 1e-9)
    ticks = [round(index * step, 4) for index in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(low, high, start, end, tuple((tick, f"{100 * tick:.0f}") for tick in ticks))


def amounts(values: Sequence[float], start: float, end: float) -> Axis:
    """An axis for epsilons that may be 0: log2(1 + epsilon)."""
    high = 1.08 * max([value for value in values if value < math.inf], default=1.0)
    ticks = [(0.0, "0"), *((2.0**power, short(2.0**power)) for power in range(-1, 40) if 2.0**power <= high)]
    while len(ticks) > 8:
        ticks = [ticks[0], *ticks[2::2]]
    return Axis(0.0, max(high, 0.5), start, end, tuple(ticks), "log1p")


def short(value: float) -> str:
    """A number for an axis."""
    return "∞" if value == math.inf else f"{value:g}"


def curves(
    series: Sequence[Series],
    levels: Sequence[Level],
    x: Axis,
    y: Axis,
    names: tuple[str, str],
    alt: str,
    dodge: bool = True,
) -> Markup:
    """Lines of points with intervals over `x`, and levels across; `names` are those of the axes."""
    body = [_level(level, y) for level in levels]
    step = min(5.0, _room(x, 0.4) / max(len(series), 1)) if dodge else 0.0
    for index, item in enumerate(series):
        body.append(_series(item, x, y, (index - (len(series) - 1) / 2) * step))
    return _frame(Markup("").join(body), x, y, names, alt)


def brackets(series: Sequence[Series], x: Axis, y: Axis, names: tuple[str, str], alt: str) -> Markup:
    """Per point a bracket: from what an attacker certified (the mark, `low`) up to what is claimed (the bar, `y`)."""
    body = []
    step = min(9.0, _room(x, 0.75) / max(len(series), 1))
    for index, item in enumerate(series):
        aside = (index - (len(series) - 1) / 2) * step
        colour, shape = look(item.style)
        places = [(_p(x(point.x) + aside), y(point.low), y(point.y)) for point in item.points]
        drawn = [
            Markup("<title>{}</title>").format(_said(item)),
            Markup('<path class="whisker" d="{}"/>').format(
                "".join(f"M{at} {low}V{up}m-4 0h8" for at, low, up in places)
            ),
            *(_mark(shape, at, low) for at, low, _ in places),
        ]
        body.append(Markup('<g class="{}" data-line="{}">{}</g>').format(colour, item.label, Markup("").join(drawn)))
    return _frame(Markup("").join(body), x, y, names, alt)


def _room(x: Axis, share: float) -> float:
    """Width over which the marks at one place are spread, so that their intervals can be told apart."""
    places = [x(tick) for tick, _ in x.ticks]
    return share * min((after - before for before, after in pairwise(places)), default=2 * DODGE)


def strip(lower: float, claimed: float, axis: Axis, refuted: bool) -> Markup:
    """One bracket lying down, for a cell of a table: the dot is certified, the bar is claimed."""
    return Markup(
        '<svg class="strip{}" viewBox="0 0 200 16" aria-hidden="true"><path class="rule" d="M{} 8H{}"/>'
        '<path class="whisker" d="M{} 8H{}"/><path class="bar" d="M{} 2V14"/><circle cx="{}" cy="8" r="4"/></svg>'
    ).format(" bad" if refuted else "", axis.start, axis.end, axis(lower), axis(claimed), axis(claimed), axis(lower))


def strip_axis(axis: Axis) -> Markup:
    """The axis above the strips of a column."""
    ticks = [
        Markup('<text class="under" x="{}" y="12">{}</text><path class="grid" d="M{} 14V20"/>').format(
            axis(tick), text, axis(tick)
        )
        for tick, text in axis.ticks
    ]
    return Markup('<svg class="strip" viewBox="0 0 200 20" aria-hidden="true">{}</svg>').format(Markup("").join(ticks))


def dots(rows: Sequence[tuple[str, Sequence[tuple[int, Point]]]], x: Axis, name: str, alt: str) -> Markup:
    """A line of marks per row: `x` of each point, its interval, its style."""
    top, height = 8.0, 34.0
    bottom = top + height * len(rows)
    parts = [Markup('<path class="grid" d="{}"/>').format(_verticals(x, top, bottom)), _under(x, bottom)]
    if x.low <= 0.5 <= x.high:
        parts.append(Markup('<path class="line dotted s" d="M{0} {1}V{2}"/>').format(x(0.5), top, bottom))
    for index, (label, points) in enumerate(rows):
        middle = top + height * (index + 0.5)
        parts.append(Markup('<text x="2" y="{}">{}</text>').format(_p(middle - 5), label))
        parts.append(Markup('<path class="grid" d="M{} {}H{}"/>').format(x.start, _p(middle + 7), x.end))
        for style, point in points:
            colour, shape = look(style)
            parts.append(
                Markup(
                    '<g class="{}"><title>{}</title><path class="whisker" d="M{} {}H{}"/>'
                    '<use href="#{}" x="{}" y="{}"/></g>'
                ).format(
                    colour, point.text, x(point.low), _p(middle + 7), x(point.high), shape, x(point.x), _p(middle + 7)
                )
            )
    parts.append(Markup('<text class="name" x="{}" y="{}">{}</text>').format(WIDTH / 2, _p(bottom + 32), name))
    return _svg(Markup("").join(parts), alt, bottom + 38)


def bars(items: Sequence[tuple[str, float]], alt: str) -> Markup:
    """Horizontal bars with their label above and their share beside; one hue."""
    parts = []
    for index, (label, share) in enumerate(items):
        top, long = 44.0 * index, 320 * min(max(share, 0.0), 1.0)
        parts.append(
            Markup(
                '<text x="0" y="{}">{}</text><rect class="beam" x="0" y="{}" width="{}" height="16"/>'
                '<text x="{}" y="{}">{:.1f} %</text>'
            ).format(top + 14, label, top + 20, _p(long), _p(long + 8), top + 33, 100 * share)
        )
    return _svg(Markup("").join(parts), alt, 44.0 * len(items))


def reach(corners: Sequence[tuple[float, float]], alt: str) -> Markup:
    """What a test can reach, as an area of (FPR, TPR) below its corners, and a guess as a dotted line."""
    ticks = tuple((tick / 4, f"{25 * tick}") for tick in range(5))
    x, y = Axis(0, 1, LEFT, WIDTH - RIGHT, ticks), Axis(0, 1, HEIGHT - BOTTOM, TOP, ticks)
    line = "L".join(f"{x(fpr)} {y(tpr)}" for fpr, tpr in corners)
    body = Markup(
        '<path class="area" d="M{0} {1}L{2}V{1}Z"/><path class="line s0" d="M{2}"/>'
        '<path class="line dotted s" d="M{0} {1}L{3} {4}"/>'
    ).format(x(0), y(0), line, x(1), y(1))
    return _frame(body, x, y, ("wrongly accused, %", "rightly accused, %"), alt)


def _series(item: Series, x: Axis, y: Axis, aside: float) -> Markup:
    colour, shape = look(item.style)
    places = [(_p(x(point.x) + aside), y(point.y)) for point in item.points]
    finite = [place for point, place in zip(item.points, places, strict=True) if point.x < math.inf]
    joined = "M" + "L".join(f"{across} {up}" for across, up in finite) if len(finite) > 1 else ""
    parts = [Markup("<title>{}</title>").format(_said(item))]
    parts += (
        [Markup('<path class="line{}" d="{}"/>').format(f" {item.stroke}" if item.stroke else "", joined)]
        if joined
        else []
    )
    whiskers = "".join(
        f"M{across} {y(point.low)}V{y(point.high)}"
        for point, (across, _) in zip(item.points, places, strict=True)
        if point.low < point.high
    )
    parts += [Markup('<path class="whisker" d="{}"/>').format(whiskers)] if whiskers else []
    parts += [_mark(shape, *place) for place in places]
    if item.hollow:
        beside = [_mark(shape, _p(x(point.x) + aside), y(point.y)) for point in item.hollow]
        printed = "; ".join(point.text for point in item.hollow)
        parts.append(Markup('<g class="hollow"><title>{}</title>{}</g>').format(printed, Markup("").join(beside)))
    return Markup('<g class="{}" data-line="{}">{}</g>').format(colour, item.label, Markup("").join(parts))


def _mark(shape: str, x: float, y: float) -> Markup:
    return Markup('<use href="#{}" x="{}" y="{}"/>').format(shape, x, y)


def _said(item: Series) -> str:
    """What a pointer over any mark of a series reads: its name once, then every point."""
    return f"{item.label}: {'; '.join(point.text for point in item.points)}"


def _level(level: Level, y: Axis) -> Markup:
    colour, shape = ("s", "") if level.style is None else look(level.style)
    line = Markup('<path class="line dotted" d="M{} {}H{}"/>').format(LEFT, y(level.y), WIDTH - RIGHT)
    # A mark at the right end tells levels apart that lie close.
    at = WIDTH - RIGHT - 5 - 9 * ((level.style or 0) % 4)
    mark = Markup('<use href="#{}" x="{}" y="{}"/>').format(shape, at, y(level.y)) if shape else Markup("")
    return Markup('<g class="{}" data-line="{}"><title>{}</title>{}{}</g>').format(
        colour, level.label, level.text, line, mark
    )


def _frame(body: Markup, x: Axis, y: Axis, names: tuple[str, str], alt: str) -> Markup:
    across = "".join(f"M{LEFT} {y(tick)}H{WIDTH - RIGHT}" for tick, _ in y.ticks)
    parts = [Markup('<path class="grid" d="{}{}"/>').format(across, _verticals(x, TOP, HEIGHT - BOTTOM))]
    numbers = [
        Markup('<text x="{}" y="{}">{}</text>').format(LEFT - 6, _p(y(tick) + 4), text) for tick, text in y.ticks
    ]
    parts += [Markup('<g class="up">{}</g>').format(Markup("").join(numbers)), _under(x, HEIGHT - BOTTOM)]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(Markup('<text class="name" x="{}" y="{}">{}</text>').format(middle, HEIGHT - 6, names[0]))
    turned = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        Markup('<text class="name" transform="translate(11 {}) rotate(-90)">{}</text>').format(turned, names[1])
    )
    return _svg(Markup("").join([*parts, body]), alt, HEIGHT)


def _verticals(x: Axis, top: float, bottom: float) -> str:
    """The lines of the grid that stand."""
    return "".join(f"M{x(tick)} {_p(top)}V{_p(bottom)}" for tick, _ in x.ticks)


def _under(x: Axis, bottom: float) -> Markup:
    """The numbers below the grid."""
    numbers = [Markup('<text x="{}" y="{}">{}</text>').format(x(tick), _p(bottom + 16), text) for tick, text in x.ticks]
    return Markup('<g class="under">{}</g>').format(Markup("").join(numbers))


def _svg(body: Markup, alt: str, height: float) -> Markup:
    return Markup('<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}">{}</svg>').format(
        alt, WIDTH, height, body
    )


def _p(value: float) -> int:
    """Whole pixels of 400: finer ones cannot be seen, and thousands of marks take less room."""
    return round(value)
