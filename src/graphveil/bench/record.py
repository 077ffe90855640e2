"""Records of runs: what was run, what it cost, how good it was, how long it took.

`record_of` is what a single training prints and keeps, `Record` what an experiment keeps of a task.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from importlib.metadata import version
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from graphveil.bench.spec import SCHEMA, BenchTask, Model, Number
from graphveil.core import InvalidInput, Unit
from graphveil.graph.graph import Graph
from graphveil.release.certificate import Certificate
from graphveil.release.release import Release
from graphveil.release.serving import scoring_graph
from graphveil.tasks.class_scores import judged


class Stopwatch:
    """Wall seconds of a `with` block, and the largest memory of the process in it (see `forget_peak`)."""

    seconds: float = 0.0
    peak_mb: float = 0.0
    gpu_peak_mb: float = 0.0
    """Largest memory of tensors on the GPU; 0 where none was used."""

    def __enter__(self) -> Self:
        forget_peak()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.peak_mb = peak_mb()
        self.gpu_peak_mb = torch.cuda.max_memory_allocated() / 1e6 if used_gpu() else 0.0


def used_gpu() -> bool:
    """Whether a GPU was used by this process; asking starts none."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch does not type it


def peak_mb() -> float:
    """Largest memory of this process since `forget_peak`, in 10^6 bytes."""
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def forget_peak() -> None:
    """Let `peak_mb` count from here on. Only Linux can; elsewhere it goes on from the start of the process."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    if used_gpu():
        torch.cuda.reset_peak_memory_stats()


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


def versions() -> dict[str, str]:
    """What computed a result."""
    return {name: version(name) for name in ("graphveil", "torch")}


def validating(subject: Graph, graph: Graph) -> str:
    """The part of `subject` that validates a release trained on `graph`.

    A public graph without validation nodes lends those that may be asked about: no method reads their labels.
    """
    return "train" if subject is not graph and not bool(subject.labelled("val").any()) else "val"


def scores(release: Release, graph: Graph) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Validation and test scores; `None` where there are no such nodes with a label."""
    subject = scoring_graph(release.method, graph)
    parts = (validating(subject, graph), "test")
    val, test = (release.evaluate(part, subject) if bool(subject.labelled(part).any()) else None for part in parts)
    return val, test


def result_of(release: Release, graph: Graph, elsewhere: dict[str, Elsewhere]) -> Result:
    """What a training on `graph` gave; `elsewhere` is what it gave on other graphs."""
    subject = scoring_graph(release.method, graph)
    winner, _ = release.method.chosen(release.state)
    there = None if subject is graph else subject
    predicted, chances = release.predict(there), release.predict_proba(there)
    return Result(
        **_spent(release.certificate),
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


def record_of(release: Release, graph: Graph, watch: Stopwatch) -> dict[str, Any]:
    """Plain values for JSON. The scores may be statistics of private labels; the record says so."""
    certificate = release.certificate
    plan, origin = certificate.plan, certificate.provenance
    val, test = scores(release, graph)
    return {
        "schema": SCHEMA,
        "method": release.method.describe(),
        "dataset": origin.dataset,
        "split": origin.split,
        "unit": plan.adjacency.unit.value,
        "reading": plan.reading.value,
        **_spent(certificate),
        "seed": origin.seed,
        "secure": origin.secure,
        "classes": list(release.classes),
        "val": val,
        "test": test,
        "scores_are_private": plan.adjacency.unit is not Unit.EDGE and scoring_graph(release.method, graph) is graph,
        "seconds": watch.seconds,
        "peak_mb": watch.peak_mb,
        "gpu_peak_mb": watch.gpu_peak_mb,
        "versions": versions(),
    }


def _spent(certificate: Certificate) -> dict[str, float]:
    """The certificate's numbers, as every record has them."""
    return {
        "epsilon": certificate.epsilon,
        "sound_epsilon": certificate.sound_epsilon,
        "delta": certificate.delta,
        "noise": certificate.provenance.noise,
    }
