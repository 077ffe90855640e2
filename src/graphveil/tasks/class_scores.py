"""How good named classes are: by class, and in all. Nodes of unequal classes need more than accuracy.

The mathematics is scikit-learn's. What is said here is which classes count, and that a quotient without a meaning is
no number. It is imported where scores are asked for: training and predictions do without it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

ClassScores = dict[str, Any]
"""Of one class against the rest, by the names of `class_scores`; `None` where a quotient has no meaning."""


def judged(predicted: Tensor, truth: Tensor, num_classes: int, chances: Tensor | None = None) -> dict[str, Any]:
    """Every score of predicted classes against the true ones, both int64 [n]; chances: those of all classes, [n, c].

    largest_class: the share of the class that most of these nodes have, which is the accuracy of naming it always.
    f1, balanced_accuracy (recall), auc, average_precision: means over the classes that occur, each against the rest.
    weighted_precision: sum_c Pr[truth = c] Pr[truth = c | named = c], where a class that is never named counts as 0.
    confusion: [c, c], rows by truth and columns by what was named.
    """
    from sklearn import metrics

    # A release may know classes that this graph does not show.
    names = range(max(num_classes, 0 if chances is None else chances.shape[1]))
    named, there = predicted.numpy(), truth.numpy()
    matrix = metrics.confusion_matrix(there, named, labels=names)
    classes = class_scores(there, named, len(names), None if chances is None else chances.double().numpy())
    having = matrix.sum(axis=1)
    return {
        "accuracy": float(metrics.accuracy_score(there, named)),
        "f1": _mean(classes, "f1"),
        "largest_class": float(having.max() / having.sum()),
        "balanced_accuracy": _mean(classes, "recall"),
        "auc": _mean(classes, "auc"),
        "average_precision": _mean(classes, "average_precision"),
        "weighted_precision": float(metrics.precision_score(there, named, average="weighted", zero_division=0)),
        "names_one_class": bool((matrix.sum(axis=0) > 0).sum() == 1 < (having > 0).sum()),
        "classes": classes,
        "confusion": matrix.tolist(),
    }


def class_scores(
    truth: np.ndarray[Any, Any], named: np.ndarray[Any, Any], count: int, chances: np.ndarray[Any, Any] | None
) -> list[ClassScores]:
    """Of every class: nodes that have it and that were given it, precision, recall, F1, AUC, average precision."""
    from sklearn.metrics import precision_recall_fscore_support

    counted = precision_recall_fscore_support(truth, named, labels=range(count), zero_division=np.nan)
    given = np.bincount(named, minlength=count)
    found = []
    for label, (precision, recall, f1, nodes) in enumerate(zip(*counted, strict=True)):
        scores = {
            "nodes": int(nodes),
            "named": int(given[label]),
            "precision": _number(precision),
            "recall": _number(recall),
            "f1": _number(f1) if nodes else None,
        }
        ranks = None if chances is None or label >= chances.shape[1] else chances[:, label]
        found.append({**scores, **_ranked(truth == label, ranks)})
    return found


def _ranked(members: np.ndarray[Any, Any], chances: np.ndarray[Any, Any] | None) -> ClassScores:
    """What the order of one class's chances tells: AUC, and average precision; members: bool [n], chances: [n].

    Nothing where there are no chances, or none that can be ordered, and nothing of a class that nobody has.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    if chances is None or not members.any() or not np.isfinite(chances).all():
        return {"auc": None, "average_precision": None}
    return {
        "auc": None if members.all() else float(roc_auc_score(members, chances)),
        "average_precision": float(average_precision_score(members, chances)),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _mean(classes: list[ClassScores], score: str) -> float | None:
    """Over the classes that occur; `None` if there is no such number."""
    known = [each[score] for each in classes if each["nodes"] and each[score] is not None]
    return sum(known) / len(known) if known else None
