"""How good named classes are: by class, and in all. Nodes of unequal classes need more than accuracy.

All of it follows from the confusion matrix, and AUC and average precision from the ranks of the chances.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from graphveil.core import Floats

ClassScores = dict[str, Any]
"""Of one class against the rest, by the names of `class_scores`; `None` where a quotient has no meaning."""


def judged(predicted: Tensor, truth: Tensor, num_classes: int, chances: Tensor | None = None) -> dict[str, Any]:
    """Every score of predicted classes against the true ones, both int64 [n]; chances: those of all classes, [n, c].

    largest_class: the share of the class that most of these nodes have, which is the accuracy of naming it always.
    f1, balanced_accuracy (recall), auc, average_precision: means over the classes that occur, each against the rest.
    weighted_precision: sum_c Pr[truth = c] Pr[truth = c | named = c], where a class that is never named counts as 0.
    confusion: [c, c], rows by truth and columns by what was named.
    """
    # A release may know classes that this graph does not show.
    matrix = confusion(predicted, truth, max(num_classes, 0 if chances is None else chances.shape[1]))
    classes = class_scores(matrix, truth, chances)
    having, total = matrix.sum(dim=1), int(matrix.sum())
    return {
        "accuracy": int(matrix.trace()) / total,
        "f1": _mean(classes, "f1"),
        "largest_class": int(having.max()) / total,
        "balanced_accuracy": _mean(classes, "recall"),
        "auc": _mean(classes, "auc"),
        "average_precision": _mean(classes, "average_precision"),
        "weighted_precision": sum(each["nodes"] * (each["precision"] or 0.0) for each in classes) / total,
        "names_one_class": int((matrix.sum(dim=0) > 0).sum()) == 1 < int((having > 0).sum()),
        "classes": classes,
        "confusion": matrix.tolist(),
    }


def confusion(predicted: Tensor, truth: Tensor, num_classes: int) -> Tensor:
    """How many nodes of every class (row) were given every class (column), int64 [c, c]."""
    return torch.bincount(truth * num_classes + predicted, minlength=num_classes**2).view(num_classes, num_classes)


def class_scores(matrix: Tensor, truth: Tensor, chances: Tensor | None) -> list[ClassScores]:
    """Of every class: nodes that have it and that were given it, precision, recall, F1, AUC, average precision."""
    found = []
    for label in range(len(matrix)):
        hits, nodes, named = (int(each) for each in (matrix[label, label], matrix[label].sum(), matrix[:, label].sum()))
        counted = {
            "nodes": nodes,
            "named": named,
            "precision": hits / named if named else None,
            "recall": hits / nodes if nodes else None,
            "f1": 2 * hits / (nodes + named) if nodes else None,
        }
        found.append({**counted, **_ranked(label, truth, chances)})
    return found


def _ranked(label: int, truth: Tensor, chances: Tensor | None) -> ClassScores:
    """What the order of the chances of one class tells; a class that has no chances is ranked by nothing."""
    if chances is None or label >= chances.shape[1]:
        return {"auc": None, "average_precision": None}
    ranks, members = rankdata(chances[:, label].double().numpy()), (truth == label).numpy()
    return {"auc": auc(ranks, members), "average_precision": average_precision(ranks, members)}


def auc(ranks: Floats, members: np.ndarray[Any, Any]) -> float | None:
    """The chance that a member is ranked above another node, ties counted half (Mann and Whitney's U / (m (n - m))).

    ranks: [n], mean ranks of ties; members: bool [n].
    """
    inside = int(members.sum())
    outside = len(members) - inside
    if not inside or not outside:
        return None
    return float((ranks[members].sum() - inside * (inside + 1) / 2) / (inside * outside))


def average_precision(ranks: Floats, members: np.ndarray[Any, Any]) -> float | None:
    """sum_k (R_k - R_{k-1}) P_k: precision P and recall R of all nodes from the k-th highest rank upwards.

    Nodes of equal rank enter together, so that their order does not matter. ranks: [n]; members: bool [n].
    """
    if not members.any():
        return None
    _, place = np.unique(-ranks, return_inverse=True)
    nodes, hits = np.bincount(place).cumsum(), np.bincount(place, weights=members).cumsum()
    return float((np.diff(hits, prepend=0.0) / hits[-1] * (hits / nodes)).sum())


def _mean(classes: list[ClassScores], score: str) -> float | None:
    """Over the classes that occur; `None` if there is no such number."""
    known = [each[score] for each in classes if each["nodes"] and each[score] is not None]
    return sum(known) / len(known) if known else None
