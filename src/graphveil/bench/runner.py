"""Runs an experiment: one record per task, on disk as soon as it is known, never computed twice."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numba
import torch
from joblib import Parallel, delayed
from pydantic import ValidationError, model_validator

from graphveil import datasets, discover, train
from graphveil.bench.spec import SCHEMA, Model, Number, Spec, Task
from graphveil.certificate import Release
from graphveil.core import GraphveilError, InvalidInput
from graphveil.graph import Graph
from graphveil.progress import quiet, track
from graphveil.record import peak_mb, versions


class Scores(Model):
    """How well a release predicts one part of the split."""

    accuracy: float
    f1: float


class Result(Model):
    """What a training run gave: the certificate's numbers and the scores."""

    epsilon: Number
    sound_epsilon: Number
    delta: float
    noise: float
    val: Scores
    test: Scores


class Record(Model):
    """A finished task: its result, or why there is none."""

    schema_version: int
    task: Task
    result: Result | None
    failure: str = ""
    seconds: float
    """Time of training, calibration included, loading and scoring excluded; an encoder of an earlier task is reused."""
    peak_mb: float
    """Largest memory of the process so far, earlier tasks included."""
    versions: dict[str, str]

    @model_validator(mode="after")
    def _decided(self) -> Self:
        if (self.result is None) == (self.failure == ""):
            raise ValueError("a record has either a result or a failure")
        return self


def run(spec: Spec, *, out: Path, jobs: int = 1, quick: bool = False, progress: bool = True) -> list[Record]:
    """Run every task of `spec` that has no good record in `out` yet, in `jobs` processes; give all records.

    `quick` runs the first seed, each method's first epsilon and at most two grid points.
    """
    if jobs < 1:
        raise InvalidInput(f"jobs must be at least 1, got {jobs}")
    out.mkdir(parents=True, exist_ok=True)
    tasks = spec.tasks(quick)
    records = {record.task.key(): record for record in finished(spec, out=out, quick=quick) if record.result}
    pending = [task for task in tasks if task.key() not in records]
    with nullcontext() if progress else quiet(), closing(_perform(pending, out, jobs)) as stream:
        for _ in track(range(len(pending)), spec.title):
            record = next(stream)
            records[record.task.key()] = record
    return [records[task.key()] for task in tasks]


def finished(spec: Spec, *, out: Path, quick: bool = False) -> list[Record]:
    """The records of `spec` that are in `out` already, failures included."""
    return [record for task in spec.tasks(quick) if (record := _read(out, task)) is not None]


def _read(out: Path, task: Task) -> Record | None:
    """The record of `task`, unless it is missing, damaged, or of another schema."""
    try:
        record = Record.model_validate_json(_place(out, task).read_bytes())
    except (OSError, ValidationError):
        return None
    return record if record.schema_version == SCHEMA and record.task == task else None


def write_whole(path: Path, content: Any) -> None:
    """JSON with sorted keys that is there completely or not at all, even if we are killed meanwhile."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, sort_keys=True, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def _perform(tasks: list[Task], out: Path, jobs: int) -> Generator[Record]:
    """Records as they get done; closing it early cancels what has not begun."""
    if jobs == 1 or len(tasks) < 2:
        return (_finish(task, out) for task in tasks)
    # Should we be killed, the workers finish the tasks they hold; the timeout then sends them home.
    pool = Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered", idle_worker_timeout=20)
    stream: Generator[Record] = pool(delayed(_finish)(task, out) for task in tasks)
    return stream


def _finish(task: Task, out: Path) -> Record:
    """Do one task and write its record; the worker writes, so that losing the parent loses nothing."""
    with _one_thread(), quiet():
        result, failure, seconds = _attempt(task)
    record = Record(
        schema_version=SCHEMA,
        task=task,
        result=result,
        failure=failure,
        seconds=seconds,
        peak_mb=peak_mb(),
        versions=versions(),
    )
    write_whole(_place(out, task), record.model_dump(mode="json"))
    return record


def _attempt(task: Task) -> tuple[Result | None, str, float]:
    """The result or the reason of the failure, and the seconds it took."""
    start = time.perf_counter()
    try:
        graph = _graph(task.dataset, task.split, task.seed)
        start = time.perf_counter()
        release = _train(graph, task)
        seconds = time.perf_counter() - start
        return _result(release), "", seconds
    except GraphveilError as error:
        return None, f"{type(error).__name__}: {error}", time.perf_counter() - start


def _train(graph: Graph, task: Task) -> Release:
    kind = discover.method(task.method).__name__
    return train(
        graph,
        discover.rebuild_method({"kind": kind, **task.params}),
        epsilon=task.epsilon,
        delta=task.delta,
        unit=task.unit,
        reading=task.reading,
        seed=task.seed,
    )


def _result(release: Release) -> Result:
    certificate = release.certificate
    return Result(
        epsilon=certificate.epsilon,
        sound_epsilon=certificate.sound_epsilon,
        delta=certificate.delta,
        noise=certificate.provenance.noise,
        val=Scores(**release.evaluate("val")),
        test=Scores(**release.evaluate("test")),
    )


@lru_cache(maxsize=2)
def _graph(name: str, split: str, seed: int) -> Graph:
    """Tasks come sorted by dataset and seed, so the last graph is nearly always the next one."""
    return datasets.load(name, split=split, seed=seed)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order, whatever the number of workers: the same records from one process and from many."""
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


def _place(out: Path, task: Task) -> Path:
    return out / f"{task.key()}.json"
