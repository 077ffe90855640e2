"""The record of a run: what was run, what it cost, how good it was, how long it took."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from importlib.metadata import version
from typing import Any, Self

import torch

from graphveil.data.graph import Graph
from graphveil.release.certificate import Certificate
from graphveil.release.release import Release
from graphveil.release.serving import scoring_graph
from graphveil.vocabulary import Unit

SCHEMA = 1
"""Version of a record."""


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
        **spent(certificate),
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


def spent(certificate: Certificate) -> dict[str, float]:
    """The certificate's numbers, as every record has them."""
    return {
        "epsilon": certificate.epsilon,
        "sound_epsilon": certificate.sound_epsilon,
        "delta": certificate.delta,
        "noise": certificate.provenance.noise,
    }
