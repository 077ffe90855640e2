"""Self-contained HTML: the one-page summary of a run. Opens offline; no scripts, no remote files."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from graphveil.certificate import Release
from graphveil.core import Unit
from graphveil.progress import track


@dataclass(frozen=True)
class Bar:
    """One bar of the accuracy chart: who, how accurate on test nodes, at which epsilon."""

    label: str
    accuracy: float
    epsilon: float


def summary(release: Release, bars: list[Bar]) -> str:
    """The page of one release: guarantee, accuracy beside the baselines, what was asked of the data."""
    environment = Environment(
        loader=PackageLoader("graphveil", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    certificate = release.certificate
    page: str = environment.get_template("summary.html").render(
        release=release,
        certificate=certificate,
        plan=certificate.plan,
        provenance=certificate.provenance,
        epsilon=shown(certificate.epsilon),
        sound_epsilon=shown(certificate.sound_epsilon),
        bars=[{"label": bar.label, "accuracy": f"{bar.accuracy:.1%}", "epsilon": shown(bar.epsilon)} for bar in bars],
        chart=_chart(bars),
        scores_are_private=certificate.plan.adjacency.unit is not Unit.EDGE,
    )
    return page


def demonstrate(out: Path) -> str:
    """Train hearsay at epsilon 2 on the embedded graph beside its baselines; write the release and its page."""
    import graphveil as gv
    from graphveil.record import Stopwatch

    graph = gv.datasets.load("social")
    runs: list[tuple[str, Any, float]] = [
        ("GCN, not private", gv.methods.Gcn(), math.inf),
        ("MLP, no edges", gv.methods.Mlp(), 1.0),
        ("hearsay, private edges", gv.methods.Hearsay(), 2.0),
    ]
    bars, lines = [], [f"{graph}", ""]
    for label, method, epsilon in track(runs, "training three models", patience=0):
        with Stopwatch() as watch:
            release = gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit="edge", secure=True, seed=0)
        accuracy = release.evaluate("test")["accuracy"]
        bars.append(Bar(label, accuracy, release.certificate.epsilon))
        spent = shown(release.certificate.epsilon)
        lines.append(f"{label:<24} test accuracy {accuracy:.1%}   epsilon {spent:<9} {watch.seconds:5.1f} s")
    folder = release.save(out / "release")
    page = out / "summary.html"
    page.write_text(summary(release, bars))
    return "\n".join([*lines, "", release.certificate.card(), "", f"release  {folder}", f"summary  {page}"])


def shown(epsilon: float) -> str:
    """Epsilon for people, rounded up."""
    return "infinite" if epsilon == math.inf else f"{math.ceil(epsilon * 1e3 - 1e-9) / 1e3:.3f}"


def _chart(bars: list[Bar]) -> str:
    """Horizontal bars as inline SVG; one hue, so that it reads in print and without colour."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.5 + 0.45 * len(bars)), layout="constrained")
    axes = figure.subplots()
    heights = [bar.accuracy for bar in bars]
    places = axes.barh([bar.label for bar in bars], heights, color="#33658a")
    axes.bar_label(places, [f"{height:.1%}" for height in heights], padding=4)
    axes.set_xlim(0, 1.12)
    axes.invert_yaxis()
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]
