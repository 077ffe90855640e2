"""Charts as inline SVG: small enough to hold hundreds on a page, coloured by its style sheet, read without colour.

A series is known by its colour and by the shape of its marks: six colours and seven shapes, so that 42 series differ.
Both come with one class (p0 to p41): colours are those of the page (--s0 to --s5), and marks are markers on the corners
of a path, so that a point is written once. `definitions` has what drawings refer to; text comes escaped from
`Markup.format`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

COLOURS = 6
SHAPES = (
    '<circle id="m0" r="3.8"/>',
    '<rect id="m1" x="-3.5" y="-3.5" width="7" height="7"/>',
    '<path id="m2" d="M0-4.8 4.6 3.4H-4.6Z"/>',
    '<path id="m3" d="M0-5 5 0 0 5-5 0Z"/>',
    '<path id="m4" d="M0 4.8 4.6-3.4H-4.6Z"/>',
    '<path id="m5" d="M-1.4-4.6H1.4V-1.4H4.6V1.4H1.4V4.6H-1.4V1.4H-4.6V-1.4H-1.4Z"/>',
    '<path id="m6" d="M-5-2.4H5V2.4H-5Z"/>',
)
STYLES = COLOURS * len(SHAPES)
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
    """One method: its points are joined; `hollow` are figures that others printed."""

    label: str
    style: int
    points: tuple[Point, ...]
    hollow: tuple[Point, ...] = ()
    stroke: str = "solid"
    """Or "dashed"."""


@dataclass(frozen=True)
class Level:
    """A horizontal line: what needs no epsilon, such as a floor or a model without privacy; `text` as of a point."""

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


def definitions(styles: int = STYLES) -> Markup:
    """What drawings with so many styles refer to: the shapes, a marker for every style, and the lines of a legend."""
    drawn = [*SHAPES, *(_legend_line(name) for name in ("solid", "dashed", "dotted", "mark"))]
    rules = []
    for style in range(min(styles, STYLES)):
        colour, shape = style % COLOURS, style % len(SHAPES)
        rules.append(f".p{style}{{color:var(--s{colour});marker:url(#k{style})}}")
        shown = f'markerUnits="userSpaceOnUse"><use href="#m{shape}"/></marker>'
        drawn.append(f'<marker id="k{style}" class="s{colour}" {shown}')
    return Markup("<style>{}</style>{}").format(Markup("".join(rules)), Markup("".join(drawn)))


def _legend_line(name: str) -> str:
    """With a mark in its middle only."""
    return f'<path id="{name}" class="{"mark" if name == "mark" else f"line {name}"} across" d="M0 8h14h14"/>'


def shared(page: str) -> str:
    """The page with what its charts repeat written once: an axis that many have, and the label of a line.

    The label is the first line of a title, where the script of the page finds it.
    """
    page = _LABEL.sub("", page)
    often = Counter(_BELOW.findall(page))
    names = {axis: f"x{place}" for place, axis in enumerate(axis for axis, count in often.items() if count > 1)}
    if not names:
        return page
    held = "".join(axis.replace("<g", f'<g id="{name}"', 1) for axis, name in names.items())
    short = _BELOW.sub(lambda found: f'<use href="#{names[found[0]]}"/>' if found[0] in names else found[0], page)
    return short.replace("</defs>", f"{held}</defs>", 1)


_BELOW = re.compile(r'<g class="below">.*?</g></g>', re.DOTALL)
_LABEL = re.compile(r' data-line="[^"]*"(?=><title>)')


def look(style: int | None) -> str:
    """Class of a series; grey, and without marks, if it has none."""
    return "s" if style is None else f"p{style % STYLES}"


def key(style: int | None, stroke: str = "solid") -> Markup:
    """The sign of a series in a legend: a line that is "solid", "dashed" or "dotted", or the "mark" alone."""
    return Markup('<svg class="{}" aria-hidden="true"><use href="#{}"/></svg>').format(look(style), stroke)


def hollow() -> Markup:
    """The sign of figures that others printed."""
    return Markup('<svg class="s hollow" aria-hidden="true"><use href="#m0" x="14" y="8"/></svg>')


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
        places = [(_p(x(point.x) + aside), y(point.low), y(point.y)) for point in item.points]
        drawn = [
            Markup('<path class="whisker" d="{}"/>').format(
                "".join(f"M{at} {low}V{up}m-4 0h8" for at, low, up in places)
            ),
            Markup('<path class="mark" d="{}"/>').format(_corners([(at, low) for at, low, _ in places])),
        ]
        body.append(_group(item, _said(item.points), drawn))
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
            whisker = f"M{x(point.low)} {_p(middle + 7)}H{x(point.high)}"
            parts.append(
                Markup(
                    '<g class="{}"><title>{}</title><path class="whisker" d="{}"/><path class="mark" d="{}"/></g>'
                ).format(look(style), point.text, whisker, _corners([(x(point.x), _p(middle + 7))]))
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
    places = [(_p(x(point.x) + aside), y(point.y)) for point in item.points]
    finite = [place for point, place in zip(item.points, places, strict=True) if point.x < math.inf]
    apart = [place for point, place in zip(item.points, places, strict=True) if point.x == math.inf]
    joined = _corners(finite) + "".join(_corners([place]) for place in apart)
    stroke = "line" if item.stroke == "solid" else f"line {item.stroke}"
    parts = [Markup('<path class="{}" d="{}"/>').format(stroke, joined)]
    whiskers = "".join(
        f"M{across} {y(point.low)}V{y(point.high)}"
        for point, (across, _) in zip(item.points, places, strict=True)
        if point.low < point.high
    )
    parts += [Markup('<path class="whisker" d="{}"/>').format(whiskers)] if whiskers else []
    if item.hollow:
        shape = f"m{item.style % len(SHAPES)}"
        beside = [
            Markup('<use href="#{}" x="{}" y="{}"/>').format(shape, _p(x(point.x) + aside), y(point.y))
            for point in item.hollow
        ]
        printed = Markup("<title>{}, published\n{}</title>").format(item.label, _said(item.hollow))
        parts.append(Markup('<g class="hollow">{}{}</g>').format(printed, Markup("").join(beside)))
    return _group(item, _said(item.points), parts)


def _corners(places: Sequence[tuple[float, float]]) -> str:
    """A path over these places, with a mark on each; a single one needs a step, if of no length, to be drawn."""
    drawn = "L".join(f"{across} {up}" for across, up in places)
    return "" if not places else f"M{drawn}" if len(places) > 1 else f"M{drawn}h0"


def _group(item: Series | Level, said: str, parts: Sequence[Markup]) -> Markup:
    """A line of a chart, by the label that its legend has. A pointer over any mark reads that label, then the rest."""
    return Markup('<g class="{}" data-line="{}"><title>{}\n{}</title>{}</g>').format(
        look(item.style), item.label, item.label, said, Markup("").join(parts)
    )


def _said(points: Sequence[Point]) -> str:
    return "; ".join(point.text for point in points)


def _level(level: Level, y: Axis) -> Markup:
    # A mark at the right end tells levels apart that lie close.
    end = WIDTH - RIGHT
    drawn = f"M{LEFT} {y(level.y)}H{end - 5 - 9 * ((level.style or 0) % 4)}H{end}"
    return _group(level, level.text, [Markup('<path class="line dotted across" d="{}"/>').format(drawn)])


def _frame(body: Markup, x: Axis, y: Axis, names: tuple[str, str], alt: str) -> Markup:
    across = "".join(f"M{LEFT} {y(tick)}H{WIDTH - RIGHT}" for tick, _ in y.ticks)
    numbers = [Markup('<text y="{}">{}</text>').format(_p(y(tick) + 4), text) for tick, text in y.ticks]
    parts = [
        Markup('<path class="grid" d="{}"/>').format(across),
        Markup('<g class="up" transform="translate({})">{}</g>').format(LEFT - 6, Markup("").join(numbers)),
        _below(x, names),
    ]
    return _svg(Markup("").join([*parts, body]), alt, HEIGHT)


def _below(x: Axis, names: tuple[str, str]) -> Markup:
    """What charts over the same axis share: its grid and numbers, and the names of both axes."""
    middle, turned = (LEFT + WIDTH - RIGHT) // 2, (TOP + HEIGHT - BOTTOM) // 2
    parts = [
        Markup('<path class="grid" d="{}"/>').format(_verticals(x, TOP, HEIGHT - BOTTOM)),
        Markup('<text class="name" x="{}" y="{}">{}</text>').format(middle, HEIGHT - 6, names[0]),
        Markup('<text class="name" transform="translate(11 {}) rotate(-90)">{}</text>').format(turned, names[1]),
        _under(x, HEIGHT - BOTTOM),
    ]
    return Markup('<g class="below">{}</g>').format(Markup("").join(parts))


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
