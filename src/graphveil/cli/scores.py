"""The card and the scores of a release, as `train` and `extend` print them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphveil.cli.output import echo, print_table

if TYPE_CHECKING:
    from graphveil.release.release import Release

ONE_CLASS = (
    "the model names one class only on these nodes, and its accuracy is that class's share: look at balanced accuracy "
    "and AUC, spend more epsilon, train with --class-weight balanced where the method has it, or name a class earlier "
    "with --threshold CLASS=CHANCE"
)

MAX_CLASSES = 12
"""Classes that a terminal lists; the record and the page have all."""

MAX_CONFUSED = 6
"""Classes whose confusion matrix fits a terminal."""


def print_release(release: Release, entry: dict[str, Any], out: Path | None) -> None:
    """Print the card, the scores in a run's record, and what a prediction costs."""
    test = entry["test"]
    echo(release.card())
    for part in ("val", "test"):
        if entry[part] is not None:
            echo(f"  {part:<11} {in_one_line(entry[part])}")
    if test is not None:
        print_classes(entry["classes"], test)
        if test["names_one_class"]:
            echo(f"  WARNING     {ONE_CLASS}")
    if entry["scores_are_private"]:
        echo("  note        these scores are statistics of private labels; no certificate covers them")
    echo(f"  predict     {release.prediction_cost}")
    if out is not None:
        echo(f"  saved       {out}")


def in_one_line(scores: dict[str, Any]) -> str:
    """The scores of all classes together, beside the accuracy of always naming the largest class."""
    rest = {"balanced": "balanced_accuracy", "macro F1": "f1", "AUC": "auc", "average precision": "average_precision"}
    return ", ".join(
        [
            f"accuracy {scores['accuracy']:.4f} (largest class {scores['largest_class']:.4f})",
            *(f"{words} {_digits(scores[key])}" for words, key in rest.items()),
        ]
    )


def print_classes(names: Sequence[str], scores: dict[str, Any]) -> None:
    """Print a table of the classes, the rarest first, and the confusion matrix where it fits."""
    columns = {"precision": "precision", "recall": "recall", "F1": "f1", "AUC": "auc"}
    columns["average precision"] = "average_precision"
    rows = [
        {"class": name, **{words: _digits(one[key]) for words, key in columns.items()}, "nodes": one["nodes"]}
        for name, one in sorted(zip(names, scores["classes"], strict=True), key=lambda pair: pair[1]["nodes"])
    ]
    print_table(rows[:MAX_CLASSES])
    if len(rows) > MAX_CLASSES:
        echo(f"and {len(rows) - MAX_CLASSES} larger classes: --record FILE and --summary FILE have all")
    if len(names) <= MAX_CONFUSED:
        matrix = zip(names, scores["confusion"], strict=True)
        print_table([{"is / named": name, **dict(zip(names, row, strict=True))} for name, row in matrix])


def _digits(value: float | None) -> str:
    """Four digits, or a dash where there is no such number."""
    return "-" if value is None else f"{value:.4f}"
