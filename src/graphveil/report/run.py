"""The one-page summary of a single run, and the demonstration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphveil.core import Unit, rounded
from graphveil.release.release import Release
from graphveil.report.charts import bars as drawn
from graphveil.report.templates import render
from graphveil.runtime.folders import write_file
from graphveil.runtime.progress import track


@dataclass(frozen=True)
class Bar:
    """One bar of the accuracy chart: who, how accurate on test nodes, at which epsilon."""

    label: str
    accuracy: float
    epsilon: float


def summary(release: Release, bars: Sequence[Bar], scores_are_private: bool | None = None) -> str:
    """The page of one release: guarantee, accuracy beside the baselines, what was asked of the data.

    `scores_are_private`: whether the bars tell of private labels; by default they do unless only edges are protected.
    """
    certificate = release.certificate
    private = certificate.plan.adjacency.unit is not Unit.EDGE if scores_are_private is None else scores_are_private
    return render(
        "summary.html",
        release=release,
        certificate=certificate,
        plan=certificate.plan,
        provenance=certificate.provenance,
        epsilon=_shown(certificate.epsilon),
        sound_epsilon=_shown(certificate.sound_epsilon),
        others=[(one, _shown(one.sound_epsilon)) for one in certificate.guarantees[1:]],
        bars=[{"label": bar.label, "accuracy": f"{bar.accuracy:.1%}", "epsilon": _shown(bar.epsilon)} for bar in bars],
        chart=drawn([(bar.label, bar.accuracy) for bar in bars], "Test accuracy of each method"),
        scores_are_private=private,
    )


def demonstrate(out: Path) -> str:
    """Train hearsay at epsilon 2 on the embedded graph beside its baselines; write the release and its page."""
    import graphveil as gv
    from graphveil.bench.record import Stopwatch

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
        spent = _shown(release.certificate.epsilon)
        lines.append(f"{label:<24} test accuracy {accuracy:.1%}   epsilon {spent:<9} {watch.seconds:5.1f} s")
    folder = release.save(out / "release")
    page = out / "summary.html"
    write_file(page, summary(release, bars).encode())
    return "\n".join([*lines, "", release.certificate.card(), "", f"release  {folder}", f"summary  {page}"])


def _shown(epsilon: float) -> str:
    return rounded(epsilon, infinite="infinite")
