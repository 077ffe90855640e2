"""The pages of a single run and of its card, and the demonstration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphveil.codec import rounded
from graphveil.data.graph import Graph
from graphveil.release.certificate import Certificate
from graphveil.release.edges import ReleasedEdges
from graphveil.release.release import Release
from graphveil.release.statement import power, shares
from graphveil.report import charts
from graphveil.report.templates import amount, render, short_epsilon
from graphveil.runtime.compute import Compute
from graphveil.runtime.folders import write_file
from graphveil.runtime.progress import Progress
from graphveil.vocabulary import Unit

_TYPICAL = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Epsilons that a release's own is shown among."""

_UNEQUAL = 0.8
"""Share of the largest class from which on bars show balanced accuracy: naming that class would be the longest bar."""


@dataclass(frozen=True)
class Bar:
    """One bar of the chart: who, how good on test nodes, at which epsilon; None: not known."""

    label: str
    accuracy: float
    epsilon: float
    balanced_accuracy: float | None = None
    auc: float | None = None

    @classmethod
    def of(cls, label: str, scores: Mapping[str, Any], epsilon: float) -> Bar:
        """From what `Release.evaluate` gives."""
        return cls(label, scores["accuracy"], epsilon, scores["balanced_accuracy"], scores["auc"])

    @classmethod
    def lazy(cls, scores: Mapping[str, Any]) -> Bar:
        """Naming the largest class always."""
        there = sum(one["nodes"] > 0 for one in scores["classes"])
        return cls("the largest class, always", scores["largest_class"], 0.0, 1 / there, 0.5 if there > 1 else None)


def summary(
    release: Release,
    bars: Sequence[Bar],
    scores_are_private: bool | None = None,
    scores: Mapping[str, Any] | None = None,
) -> str:
    """The page of one release: promise, accuracy beside the baselines, scores by class, what the attacker can reach.

    scores: what `Release.evaluate` gives for the test nodes. `scores_are_private`: whether they tell of private labels;
    by default they do unless only edges are protected.
    """
    certificate = release.certificate
    private = certificate.plan.adjacency.unit is not Unit.EDGE if scores_are_private is None else scores_are_private
    shown = [*bars, *([] if scores is None else [Bar.lazy(scores)])]
    unequal = scores is not None and scores["largest_class"] >= _UNEQUAL
    lengths = [(bar.label, bar.balanced_accuracy if unequal else bar.accuracy) for bar in shown]
    return render(
        "summary.html",
        **_certified(release),
        bars=[(bar, amount(bar.epsilon)) for bar in shown],
        unequal=unequal,
        lengths=[(label, share) for label, share in lengths if share is not None],
        scores_are_private=private,
        scores=scores,
        classes=[] if scores is None else _named(release.classes, scores["classes"]),
    )


def card_page(found: Release | ReleasedEdges) -> str:
    """The card as a page: what can be signed, who is protected, what an attacker can reach, what was done."""
    return render("card.html", **_certified(found))


def _certified(found: Release | ReleasedEdges) -> dict[str, Any]:
    """What both pages show of the certificate."""
    certificate = found.certificate
    worst = certificate.statements[0]
    epsilon, delta = worst.epsilon, worst.delta
    return {
        "title": f"{found.method.name()} on {certificate.provenance.dataset}",
        "certificate": certificate,
        "picture": charts.reach(power(epsilon, delta), f"What an attacker can reach at epsilon {amount(epsilon)}"),
        "meanings": meanings(epsilon, delta),
        "facts": _facts(found, certificate),
    }


def _facts(found: Release | ReleasedEdges, certificate: Certificate) -> list[tuple[str, str]]:
    origin = certificate.provenance
    facts = [
        ("method", str(found.method)),
        ("data", origin.dataset),
        ("split", f"{origin.split} {origin.split_hash[:12]}".rstrip()),
        ("noise", f"{origin.source}, multiplier {origin.noise:.6g}"),
        ("ledger", origin.ledger_entry or "not entered: nobody counts further releases"),
    ]
    if isinstance(found, ReleasedEdges):
        return [*facts, ("released", f"{found.num_nodes:,} nodes, {found.edges.shape[1]:,} edges")]
    audit = [] if found.audit is None else [("audit", str(found.audit))]
    return [*facts, ("predictions", found.prediction_cost), *audit]


def meanings(epsilon: float, delta: float) -> list[dict[str, Any]]:
    """What epsilons mean, this one among them: the odds, and who is found if 1 in 100 is accused wrongly."""
    listed = sorted({epsilon, *(one for one in _TYPICAL if short_epsilon(one) != short_epsilon(epsilon))})
    return [
        {
            "epsilon": short_epsilon(one) or "0",
            "odds": "certainty" if one == math.inf else " : ".join(shares(one, delta)),
            "found": f"{rounded(100 * _found(one, delta), places=1)} %",
            "own": one == epsilon,
        }
        for one in listed
    ]


def _found(epsilon: float, delta: float) -> float:
    """The largest TPR of a test whose FPR is 1 %."""
    (x0, y0), (x1, y1), (x2, y2), _ = power(epsilon, delta)
    if x1 <= 0.01:
        return y1 + (0.01 - x1) / (x2 - x1) * (y2 - y1)
    return y0 + (0.01 - x0) / (x1 - x0) * (y1 - y0)


def _named(names: Sequence[str], classes: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Scores with the names of their classes; a class that the release does not know has its number."""
    return [(names[place] if place < len(names) else str(place), one) for place, one in enumerate(classes)]


def run_page(release: Release, entry: Mapping[str, Any], graph: Graph) -> str:
    """The page of a run, from its record, beside its baselines; it marks scores that depend on private labels."""
    import graphveil as gv

    test, certificate = entry["test"], release.certificate
    bars = [] if test is None else [Bar.of(release.method.name(), test, certificate.epsilon)]
    if bars and certificate.plan.adjacency.unit is Unit.EDGE and release.method.name() != "mlp":
        # Features and labels are public at edge level, so this costs nothing. It weighs classes as the release does.
        mlp = gv.methods.Mlp(class_weight=getattr(release.method, "class_weight", "equal"))
        baseline = gv.train(graph, mlp, epsilon=1, unit="edge", seed=0, compute=Compute(quiet=True))
        bars.append(Bar.of("mlp, reads no edge", baseline.evaluate("test"), 0.0))
    return summary(release, bars, entry["scores_are_private"], test)


def demonstrate(out: Path, *, quiet: bool = False) -> str:
    """Train hearsay at epsilon 2 on the embedded graph beside its baselines; write the release and its page."""
    import graphveil as gv
    from graphveil.release.record import Stopwatch

    graph = gv.datasets.load("social")
    runs: list[tuple[str, Any, float]] = [
        ("GCN, not private", gv.methods.Gcn(), math.inf),
        ("MLP, no edges", gv.methods.Mlp(), 1.0),
        ("hearsay, private edges", gv.methods.Hearsay(), 2.0),
    ]
    bars, lines, silent = [], [f"{graph}", ""], Compute(quiet=True)
    for label, method, epsilon in Progress(not quiet).track(runs, "training three models", patience=0):
        with Stopwatch() as watch:
            release = gv.train(
                graph, method, epsilon=epsilon, delta=1e-5, unit="edge", secure=True, seed=0, compute=silent
            )
        scores = release.evaluate("test")
        bars.append(Bar.of(label, scores, release.certificate.epsilon))
        spent = amount(release.certificate.epsilon)
        lines.append(f"{label:<24} test accuracy {scores['accuracy']:.1%}   epsilon {spent:<9} {watch.seconds:5.1f} s")
    folder = release.save(out / "release")
    page = out / "summary.html"
    write_file(page, summary(release, bars, scores=scores).encode())
    return "\n".join([*lines, "", release.certificate.card(), "", f"release  {folder}", f"summary  {page}"])
