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

_PATIENCE = 2.0
_busy: ContextVar[bool] = ContextVar("busy", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars inside this block."""
    token = _busy.set(True)
    try:
        yield
    finally:
        _busy.reset(token)


def track(items: Sequence[T], label: str) -> Iterator[T]:
    """Yield `items`; from the third second on show a bar on a terminal. Only the outermost bar is shown."""
    if _busy.get() or os.environ.get("CI") or not sys.stderr.isatty():
        yield from items
        return
    _busy.set(True)
    try:
        yield from _shown(items, label)
    finally:
        _busy.set(False)


def _shown(items: Sequence[T], label: str) -> Iterator[T]:
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
        task = bar.add_task(label, total=len(items), visible=False)
        for item in items:
            yield item
            bar.update(task, advance=1, visible=time.monotonic() - start > _PATIENCE)
