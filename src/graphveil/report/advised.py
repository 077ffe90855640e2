"""The picture of an advice: expected scores against epsilon, as an SVG file that stands alone."""

from __future__ import annotations

from graphveil.advice.advise import Advice, Expected, Metric
from graphveil.report import charts
from graphveil.report.charts import Point, Series


def advice_picture(advice: Advice) -> str:
    """Lines of methods with the range over seeds; levels of the references and of the largest class."""
    metric = advice.metric
    series = [
        Series(one.method, style, tuple(_point(point, metric) for point in one.expected))
        for style, one in enumerate(advice.methods)
    ]
    for style, one in enumerate(advice.references, len(series)):
        score = one.expected[0].score(metric)
        series.append(Series.level(one.method, style, score, f"{score:.1%}"))
    series.append(Series.level("largest class", None, advice.lazy, f"{advice.lazy:.1%}"))
    title = f"Expected on a stand-in, {advice.unit.value} level"
    ranges = [edge for one in series for point in one.points for edge in (point.low, point.high)]
    chart = charts.against_epsilon(series, "epsilon", f"test {metric.words}, %", title, heights=ranges)
    return charts.picture(title, [(title, chart, series)])


def _point(point: Expected, metric: Metric) -> Point:
    score = point.score(metric)
    text = f"epsilon {point.epsilon:g}: {score:.1%} ({point.lowest:.1%} to {point.highest:.1%})"
    return Point(point.epsilon, score, point.lowest, point.highest, text)
