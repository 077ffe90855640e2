"""The picture of an advice: expected scores against epsilon, as an SVG file that stands alone."""

from __future__ import annotations

from graphveil.advice.advise import Advice
from graphveil.report import charts
from graphveil.report.charts import Level, Point, Series


def advice_picture(advice: Advice) -> str:
    """Lines of methods with the range over seeds; levels of the references and of the largest class."""
    series = [
        Series(
            one.method,
            place,
            tuple(
                Point(at.epsilon, score := at.score(advice.metric), at.lowest, at.highest,
                      f"epsilon {at.epsilon:g}: {score:.1%} ({at.lowest:.1%} to {at.highest:.1%})")
                for at in one.expected
            ),
        )
        for place, one in enumerate(advice.methods)
    ]  # fmt: skip
    known = [(one.method, one.expected[0].score(advice.metric)) for one in advice.references]
    levels = [Level(name, len(series) + place, score, f"{score:.1%}") for place, (name, score) in enumerate(known)]
    levels.append(Level("largest class", None, advice.lazy, f"{advice.lazy:.1%}"))
    title = f"Expected on a stand-in, {advice.unit.value} level"
    ranges = [edge for one in series for point in one.points for edge in (point.low, point.high)]
    drawn = charts.against_epsilon(series, levels, "epsilon", f"test {advice.metric.words}, %", title, heights=ranges)
    legend = [(charts.key(one.style), one.label) for one in series]
    legend += [(charts.key(one.style, "dotted"), one.label) for one in levels]
    return charts.picture(title, [(title, drawn, legend)])
