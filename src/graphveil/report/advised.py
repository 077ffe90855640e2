"""The picture of an advice: expected scores against epsilon, as an SVG file that stands alone."""

from __future__ import annotations

from graphveil.advice.advise import Advice, Expected, Metric
from graphveil.report import charts
from graphveil.report.charts import HEIGHT, WIDTH, Level, Point, Series
from graphveil.report.templates import render


def advice_picture(advice: Advice) -> str:
    """Lines of methods with the range over seeds; levels of the references and of the largest class."""
    series = [
        Series(one.method, place, tuple(_point(point, advice.metric) for point in one.expected))
        for place, one in enumerate(advice.methods)
    ]
    known = [(one.method, one.expected[0].score(advice.metric)) for one in advice.references]
    levels = [Level(name, len(series) + place, score, f"{score:.1%}") for place, (name, score) in enumerate(known)]
    levels.append(Level("largest class", None, advice.lazy, f"{advice.lazy:.1%}"))
    values = [value for item in series for point in item.points for value in (point.low, point.high)]
    y = charts.shares([*values, *(level.y for level in levels)], HEIGHT - charts.BOTTOM, charts.TOP)
    title = f"Expected on a stand-in, {advice.unit.value} level"
    names = ("epsilon", f"test {advice.metric.words}, %")
    return render(
        "advice.svg",
        title=title,
        definitions=charts.definitions(len(series) + len(levels)),
        chart=charts.curves(series, levels, charts.epsilons(advice.epsilons), y, names, title),
        signs=[
            *((charts.key(item.style), item.label) for item in series),
            *((charts.key(level.style, "dotted"), level.label) for level in levels),
        ],
        width=round(WIDTH),
        tall=round(HEIGHT),
        height=round(HEIGHT) + 44 + 20 * ((len(series) + len(levels) + 1) // 2),
    )


def _point(point: Expected, metric: Metric) -> Point:
    score = point.score(metric)
    said = f"epsilon {point.epsilon:g}: {score:.1%} ({point.lowest:.1%} to {point.highest:.1%})"
    return Point(point.epsilon, score, point.lowest, point.highest, said)
