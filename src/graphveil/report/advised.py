"""The picture of an advice: expected accuracy against epsilon, as an SVG file that stands alone."""

from __future__ import annotations

from graphveil.advice.advise import Advice, Expected
from graphveil.report.charts import BOTTOM, HEIGHT, TOP, WIDTH, Level, Point, Series, curves, epsilons, key, shares
from graphveil.report.templates import render


def advice_picture(advice: Advice) -> str:
    """Lines of methods with the range over seeds; levels of the references and of the largest class."""
    series = [
        Series(one.method, place, tuple(_point(one.method, point) for point in one.expected))
        for place, one in enumerate(advice.methods)
    ]
    levels = [
        Level(
            one.method, len(series) + place, one.expected[0].accuracy, f"{one.method}: {one.expected[0].accuracy:.1%}"
        )
        for place, one in enumerate(advice.references)
    ]
    levels.append(Level("largest class", None, advice.largest_class, f"largest class: {advice.largest_class:.1%}"))
    values = [value for item in series for point in item.points for value in (point.low, point.high)]
    y = shares([*values, *(level.y for level in levels)], HEIGHT - BOTTOM, TOP)
    title = f"Expected on a stand-in, {advice.unit.value} level"
    names = ("epsilon", "test accuracy, %")
    return render(
        "advice.svg",
        title=title,
        chart=curves(series, levels, epsilons(advice.epsilons), y, names, title),
        signs=[
            *((key(item.style), item.label) for item in series),
            *((key(level.style, "dotted"), level.label) for level in levels),
        ],
        width=round(WIDTH),
        tall=round(HEIGHT),
        height=round(HEIGHT) + 44 + 20 * ((len(series) + len(levels) + 1) // 2),
    )


def _point(method: str, point: Expected) -> Point:
    said = f"{method} at epsilon {point.epsilon:g}: {point.accuracy:.1%} ({point.lowest:.1%} to {point.highest:.1%})"
    return Point(point.epsilon, point.accuracy, point.lowest, point.highest, said)
