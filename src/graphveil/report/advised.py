"""The picture of an advice: expected scores against epsilon, as an SVG file that stands alone."""

from __future__ import annotations

from graphveil.advice.advise import Advice, Expected, Metric
from graphveil.report.charts import BOTTOM, HEIGHT, TOP, WIDTH, Level, Point, Series, curves, epsilons, key, shares
from graphveil.report.templates import render


def advice_picture(advice: Advice) -> str:
    """Lines of methods with the range over seeds; levels of the references and of the largest class."""
    series = [
        Series(one.method, place, tuple(_point(one.method, point, advice.metric) for point in one.expected))
        for place, one in enumerate(advice.methods)
    ]
    known = [(one.method, one.expected[0].score(advice.metric)) for one in advice.references]
    levels = [
        Level(name, len(series) + place, score, f"{name}: {score:.1%}") for place, (name, score) in enumerate(known)
    ]
    levels.append(Level("largest class", None, advice.lazy, f"largest class: {advice.lazy:.1%}"))
    values = [value for item in series for point in item.points for value in (point.low, point.high)]
    y = shares([*values, *(level.y for level in levels)], HEIGHT - BOTTOM, TOP)
    title = f"Expected on a stand-in, {advice.unit.value} level"
    names = ("epsilon", f"test {advice.metric.words}, %")
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


def _point(method: str, point: Expected, metric: Metric) -> Point:
    score = point.score(metric)
    said = f"{method} at epsilon {point.epsilon:g}: {score:.1%} ({point.lowest:.1%} to {point.highest:.1%})"
    return Point(point.epsilon, score, point.lowest, point.highest, said)
