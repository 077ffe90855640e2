"""Progress with an estimate of the time left, on anything that takes longer than two seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds of work before a bar is worth showing."""

_busy: ContextVar[bool] = ContextVar("busy", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars inside this block."""
    token = _busy.set(True)
    try:
        yield
    finally:
        _busy.reset(token)


def track(items: Sequence[T], label: str, patience: float = PATIENCE) -> Iterator[T]:
    """Yield `items`; after `patience` seconds show a bar on a terminal. Only the outermost bar is shown."""
    if _busy.get() or os.environ.get("CI") or not sys.stderr.isatty():
        yield from items
        return
    _busy.set(True)
    try:
        yield from _shown(items, label, patience)
    finally:
        _busy.set(False)


def _shown(items: Sequence[T], label: str, patience: float) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    start = time.monotonic()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=len(items), visible=patience == 0)
        for item in items:
            yield item
            bar.update(task, advance=1, visible=time.monotonic() - start >= patience)
