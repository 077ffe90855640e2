"""Records of the runs of an experiment: what was run, what it cost, how good it was, how long it took."""

from __future__ import annotations

from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from graphveil.release.record import spent, validating
from graphveil.release.release import Release
from graphveil.release.serving import scoring_graph
from graphveil.tasks.class_scores import judged
from graphveil_lab.bench.spec import BenchTask, Model, Number


class Quality(Model):
    """How well a release predicts some nodes: accuracy, macro F1, F1 of the graph's rarest class, weighted precision;
    balanced accuracy, AUC and average precision as means over the classes (`judged`).

    Records from before a score was kept have none.
    """

    accuracy: float
    f1: float
    rare_f1: float | None = None
    precision: float | None = None
    balanced_accuracy: float | None = None
    auc: float | None = None
    average_precision: float | None = None


class Elsewhere(Model):
    """How well a release predicts all labelled nodes of another graph, and what that cost this other graph."""

    epsilon: Number
    sound_epsilon: Number
    scores: Quality


class Result(Model):
    """What a training run gave: the certificate's numbers and the scores."""

    epsilon: Number
    sound_epsilon: Number
    delta: float
    noise: float
    val: Quality
    test: Quality
    elsewhere: dict[str, Elsewhere] = Field(default_factory=dict)
    """By the names of the task's `test_on`."""
    chosen: dict[str, Any] = Field(default_factory=dict)
    """The method that a charged choice kept; empty where nothing was chosen."""


class Record(Model):
    """A finished task: its result, or why there is none."""

    schema_version: int
    task: BenchTask
    result: Result | None
    failure: str = ""
    seconds: float
    """Time of training, calibration included, loading and scoring excluded; what an earlier task of the same process
    calibrated, and an encoder that it trained, is reused."""
    peak_mb: float
    """Largest memory of the process while it did this task; in older records, and not on Linux, since its start."""
    versions: dict[str, str]
    made_by: str = ""
    """The method and its revision (bench/revisions.py); older records do not say, and do not count."""
    data: str = ""
    """SHA-256 of the dataset (`Graph.fingerprint` of the whole of it), and of those of `test_on` with it where there
    are any; empty where one could not be loaded."""

    @model_validator(mode="after")
    def _decided(self) -> Self:
        if (self.result is None) == (self.failure == ""):
            raise ValueError("a record has either a result or a failure")
        return self


def result_of(release: Release, graph: Graph, elsewhere: dict[str, Elsewhere]) -> Result:
    """What a training on `graph` gave; `elsewhere` is what it gave on other graphs."""
    subject = scoring_graph(release.method, graph)
    winner, _ = release.method.chosen(release.state)
    there = None if subject is graph else subject
    predicted, chances = release.predict(there), release.predict_proba(there)
    return Result(
        **spent(release.certificate),
        val=quality_of(predicted, subject, subject.labelled(validating(subject, graph)), chances),
        test=quality_of(predicted, subject, subject.labelled("test"), chances),
        elsewhere=elsewhere,
        chosen={} if winner is release.method else winner.describe(),
    )


def quality_of(predicted: Tensor, graph: Graph, part: Tensor, chances: Tensor | None = None) -> Quality:
    """How good predictions are. predicted: int64 [n]; part: the nodes that count, bool [n]; chances: [n, c]."""
    if not bool(part.any()):
        raise InvalidInput(f"{graph.name!r} has no nodes to score; choose another split")
    found = judged(predicted[part], graph.y[part], graph.num_classes, None if chances is None else chances[part])
    rarest = int(torch.bincount(graph.y[graph.y >= 0]).argmin())
    shown = ("accuracy", "f1", "balanced_accuracy", "auc", "average_precision")
    return Quality(
        **{score: found[score] for score in shown},
        rare_f1=found["classes"][rarest]["f1"] or 0.0,
        precision=found["weighted_precision"],
    )
