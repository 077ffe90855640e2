"""Scores as lines of text, beside what naming the largest class would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ONE_CLASS = (
    "the model names one class only on these nodes, and its accuracy is that class's share: look at balanced accuracy "
    "and AUC, spend more epsilon, train with --class-weight balanced where the method has it, or name a class earlier "
    "with --threshold CLASS=CHANCE"
)

_CLASSES = 12
"""Classes that a terminal lists; the record and the page have all."""

_CROSSED = 6
"""Classes whose confusion matrix fits a terminal."""


def in_one_line(found: dict[str, Any]) -> str:
    """The scores of all classes together."""
    said = (
        f"accuracy {found['accuracy']:.4f} (largest class {found['largest_class']:.4f})",
        f"balanced {_share(found['balanced_accuracy'])}",
        f"macro F1 {_share(found['f1'])}",
        f"AUC {_share(found['auc'])}",
        f"average precision {_share(found['average_precision'])}",
    )
    return ", ".join(said)


def by_class(names: Sequence[str], found: dict[str, Any]) -> list[str]:
    """A table of the classes, the rarest first, and the confusion matrix where it fits."""
    order = sorted(range(len(names)), key=lambda place: found["classes"][place]["nodes"])
    shown = order[:_CLASSES]
    width = max(5, *(len(names[place]) for place in shown))
    lines = [f"{'class':<{width}}  precision  recall     F1    AUC  average precision  nodes"]
    for place in shown:
        one = found["classes"][place]
        cells = [_share(one[score]) for score in ("precision", "recall", "f1", "auc", "average_precision")]
        lines.append(
            f"{names[place]:<{width}}  {cells[0]:>9}  {cells[1]:>6} {cells[2]:>6} {cells[3]:>6}  {cells[4]:>17}  "
            f"{one['nodes']:>5}"
        )
    if len(order) > len(shown):
        lines.append(f"and {len(order) - len(shown)} larger classes: --record FILE and --summary FILE have all")
    return lines + (_crossed(names, found["confusion"]) if len(names) <= _CROSSED else [])


def _crossed(names: Sequence[str], confusion: Sequence[Sequence[int]]) -> list[str]:
    """Nodes by their class (rows) and by the class that they were given (columns)."""
    first = max(len("is / named"), *map(len, names))
    widths = [max(len(name), 5) for name in names]
    head = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"{'is / named':<{first}}  {head}"]
    for name, row in zip(names, confusion, strict=True):
        lines.append(f"{name:<{first}}  " + "  ".join(f"{n:>{width}}" for n, width in zip(row, widths, strict=True)))
    return lines


def _share(value: float | None) -> str:
    """Four digits, or a dash where there is no such number."""
    return "-" if value is None else f"{value:.4f}"
