"""Runs an experiment: one record per task, on disk as soon as it is known, never computed twice."""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from graphveil.data import datasets
from graphveil.data.datasets.source import SplitName
from graphveil.data.graph import Graph
from graphveil.errors import GraphveilError
from graphveil.methods.described import rebuild_method
from graphveil.methods.method import METHODS, Method
from graphveil.release.record import forget_peak, peak_mb, versions
from graphveil.release.release import Release
from graphveil.run import infer, train
from graphveil.runtime.compute import USUAL, Compute
from graphveil.runtime.folders import write_whole
from graphveil.runtime.progress import Progress
from graphveil_lab.bench.own_tables import OwnTables
from graphveil_lab.bench.record import Elsewhere, Record, Result, quality_of, result_of
from graphveil_lab.bench.revisions import made_by
from graphveil_lab.bench.spec import SCHEMA, BenchTask, Claimed, Metric, Spec, digest


def run(
    spec: Spec, *, out: Path, compute: Compute | None = None, quick: bool = False, progress: bool = True
) -> list[Record]:
    """Run every task of `spec` that has no good record in `out` yet, as `compute` says; give all records.

    `quick` runs the smallest datasets, the first seed, each method's first epsilon and at most two grid points.
    """
    return run_many([spec], out=out, compute=compute, quick=quick, progress=progress)[0]


def run_many(
    specs: Sequence[Spec], *, out: Path, compute: Compute | None = None, quick: bool = False, progress: bool = True
) -> list[list[Record]]:
    """`run` for several experiments, the records of each; a task that they share is run once."""
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    listed = [_by_key(spec, quick) for spec in specs]
    held = [_held(tasks, spec.metric, out) for spec, tasks in zip(specs, listed, strict=True)]
    pending = {
        key: task
        for tasks, known in zip(listed, held, strict=True)
        for key, task in tasks.items()
        if key not in known or not known[key].result
    }
    total = len({key for tasks in listed for key in tasks})
    label = specs[0].title if len(specs) == 1 else f"{len(specs)} experiments"
    records = {key: record for known in held for key, record in known.items()}
    means = compute or Compute()
    means = means if progress else replace(means, quiet=True)
    done = total - len(pending)
    Progress(not means.quiet).note(f"{label}: {total:,} tasks, {done:,} done before, {len(pending):,} to run")
    order = sorted(pending.values(), key=lambda task: (task.dataset, task.seed))
    for record in _stream(order, out, means, label):
        records[record.task.key()] = record
    return [[records[key] for key in tasks] for tasks in listed]


def run_tasks(tasks: Sequence[BenchTask], *, out: Path, compute: Compute | None = None, label: str) -> list[Record]:
    """The records of these tasks; those that have a good one in `out` are not run again."""
    held = {task.key(): _read(out, task) for task in tasks}
    pending = [task for task in tasks if not ((known := held[task.key()]) and known.result)]
    order = sorted(pending, key=lambda task: (task.dataset, task.seed))
    made = {record.task.key(): record for record in _stream(order, out, compute, label)}
    return [record for task in tasks if (record := made.get(task.key()) or held[task.key()])]


def _stream(pending: Sequence[BenchTask], out: Path, compute: Compute | None, label: str) -> Iterator[Record]:
    """The records of all tasks, as they get done."""
    means = compute or Compute()
    shared = out, methods_of(pending), Compute(means.device, means.block, quiet=True)
    with means.opened() as run, closing(run.engine.stream(_finish, shared, pending)) as done:
        for _ in run.progress.track(range(len(pending)), label):
            try:
                _, record = next(done)
            except BrokenProcessPool:
                raise GraphveilError(
                    "a worker process was lost, perhaps for want of memory; what is finished is kept: give the same "
                    "command again, with fewer --jobs"
                ) from None
            # A worker of another machine wrote it there; what lies here may be older.
            if _read(out, record.task) != record:
                _write(out, record)
            yield record


def methods_of(claims: Iterable[Claimed]) -> tuple[type[Method], ...]:
    """The classes that are trained: with them a worker imports what the user named here."""
    return tuple(METHODS.written(name) for name in sorted({claim.method for claim in claims}))


def finished(spec: Spec, *, out: Path) -> list[Record]:
    """The records of `spec` that are in `out` already, failures included."""
    return list(_held(_by_key(spec), spec.metric, out).values())


def progress_of(spec: Spec, *, out: Path) -> dict[str, Any]:
    """How many tasks there are, are done, or failed and will be tried again, and the hours of training they took."""
    tasks = _by_key(spec)
    records = _held(tasks, spec.metric, out).values()
    done = sum(record.result is not None for record in records)
    hours = round(sum(record.seconds for record in records) / 3600, 2)
    return {"title": spec.title, "tasks": len(tasks), "done": done, "failed": len(records) - done, "hours": hours}


def _by_key(spec: Spec, quick: bool = False) -> dict[str, BenchTask]:
    return {task.key(): task for task in spec.tasks(quick)}


def _held(tasks: Mapping[str, BenchTask], metric: Metric, out: Path) -> dict[str, Record]:
    known = {key: _read(out, task) for key, task in tasks.items()}
    return {key: record for key, record in known.items() if record is not None and _measured(record, metric)}


def _measured(record: Record, metric: Metric) -> bool:
    """Whether the record holds what the table shows; one from before the metric was kept must be made again."""
    return record.result is None or getattr(record.result.test, metric) is not None


def _read(out: Path, task: BenchTask) -> Record | None:
    """The record of `task`, unless it is missing, damaged, of another schema, or made by another revision or data."""
    try:
        record = Record.model_validate_json(_place(out, task).read_bytes())
    except (OSError, ValidationError):
        return None
    current = record.schema_version == SCHEMA and record.made_by == made_by(task.method, task.params)
    same = current and record.task == task and fingerprint(task) in ("", record.data)
    return record if same else None


def _finish(shared: tuple[Path, tuple[type[Method], ...], Compute], task: BenchTask) -> Record:
    """Do one task and write its record; the worker writes, so that losing the parent loses nothing."""
    out, _, compute = shared
    forget_peak()
    result, failure, seconds = attempt(task, compute)
    record = Record(
        schema_version=SCHEMA,
        task=task,
        result=result,
        failure=failure,
        seconds=seconds,
        peak_mb=peak_mb(),
        versions=versions(),
        made_by=made_by(task.method, task.params),
        data=fingerprint(task),
    )
    _write(out, record)
    return record


def _write(out: Path, record: Record) -> None:
    """Keep a record; a failure never replaces a result, which may lack no more than a newer metric."""
    if record.failure and (kept := _read(out, record.task)) and kept.result:
        return
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Its scores are made of all labels, and a failure may say more: for the owner alone.
    write_whole(_place(out, record.task), record.model_dump(mode="json"), private=True)


def attempt(task: BenchTask, compute: Compute = USUAL) -> tuple[Result | None, str, float]:
    """The result or the reason of the failure, and the seconds it took."""
    start = time.perf_counter()
    try:
        graph = _graph(task.dataset, task.tables.get(task.dataset), task.split, task.seed)
        start = time.perf_counter()
        release = _train(graph, task, compute)
        seconds = time.perf_counter() - start
        elsewhere = {
            name: _elsewhere(release, _other_graph(name, task.tables.get(name)), task, compute) for name in task.test_on
        }
        return result_of(release, graph, elsewhere), "", seconds
    except Exception as error:  # Whatever it is, it must not cost the other tasks.
        return None, _said(error), time.perf_counter() - start


def _said(error: Exception) -> str:
    """What went wrong; where it did, if it is no error of ours that speaks for itself."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, GraphveilError):
        return said
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{said} ({Path(last.filename).name}, line {last.lineno})"


def _train(graph: Graph, task: BenchTask, compute: Compute) -> Release:
    kind = METHODS.written(task.method).__name__
    return train(
        graph,
        rebuild_method({"kind": kind, **task.params}),
        epsilon=task.epsilon,
        delta=task.delta,
        unit=task.unit,
        reading=task.reading,
        seed=task.seed,
        compute=compute,
    )


def _elsewhere(release: Release, graph: Graph, task: BenchTask, compute: Compute) -> Elsewhere:
    """All labelled nodes of another graph. What reads more of it than a node's own features spends its budget."""
    if release.method.reads.stored:
        seed = seed_for(graph, task)
        there = infer(release, graph, epsilon=task.epsilon, delta=task.delta, seed=seed, compute=compute)
        spent, sound = there.certificate.epsilon, there.certificate.sound_epsilon
        predicted, chances = there.predict(), there.predict_proba()
    else:
        # A prediction from private features protects nobody there.
        spent = sound = math.inf if "x" in release.certificate.plan.adjacency.private else 0.0
        predicted, chances = release.predict(graph), release.predict_proba(graph)
    return Elsewhere(epsilon=spent, sound_epsilon=sound, scores=quality_of(predicted, graph, graph.y >= 0, chances))


def seed_for(graph: Graph, task: BenchTask) -> int:
    """A seed of its own for another graph: the noise of training must not come again there."""
    return int.from_bytes(hashlib.sha256(f"{task.seed} {graph.name}".encode()).digest()[:7])


@lru_cache(maxsize=2)
def _graph(name: str, tables: OwnTables | None, split: SplitName, seed: int) -> Graph:
    """Tasks come sorted by dataset and seed, so the last graph is nearly always the next one."""
    return _loaded(name, tables, split, seed)


@lru_cache(maxsize=8)
def _other_graph(name: str, tables: OwnTables | None) -> Graph:
    """A graph that is only predicted, for all tasks alike: serving reads no split, and there must be one."""
    return _loaded(name, tables)


def _loaded(name: str, tables: OwnTables | None, split: SplitName = "random", seed: int = 0) -> Graph:
    return datasets.load(name, split=split, seed=seed) if tables is None else tables.load(name, split, seed)


def fingerprint(task: BenchTask) -> str:
    """SHA-256 of the dataset that a task trains on as it is split, and of the graphs of `test_on`.

    Empty where one of them cannot be loaded.
    """
    found = [split_of(task.dataset, task.tables.get(task.dataset), task.split)]
    found += [fingerprint_of(name, task.tables.get(name)) for name in task.test_on]
    if not all(found):
        return ""
    return digest(found) if task.test_on else found[0]


@cache
def split_of(name: str, tables: OwnTables | None, split: SplitName) -> str:
    """SHA-256 of what a dataset is under a split: the graphs of two seeds, public ones too, and who trains there.

    Own tables may be large, and are drawn once.
    """
    try:
        return digest([_contents(_loaded(name, tables, split, seed)) for seed in range(2 if tables is None else 1)])
    except Exception:  # The task itself fails with the reason, and must not cost the others.
        return ""


def _contents(graph: Graph) -> list[str]:
    parts = [part for part in (graph, graph.public_graph) if part is not None]
    return [said for part in parts for said in (part.fingerprint(), part.split_hash())]


@cache
def fingerprint_of(name: str, tables: OwnTables | None = None) -> str:
    """SHA-256 of the whole of a dataset, which is not held for it; empty where it cannot be loaded."""
    try:
        return _loaded(name, tables).fingerprint()
    except Exception:  # The task itself fails with the reason, and must not cost the others.
        return ""


def _place(out: Path, task: BenchTask) -> Path:
    return out / f"{task.key()}.json"
