"""Progress with an estimate of the time left: a bar on a terminal, and now and then a line in a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds of work before a bar is worth showing."""

INTERVAL = 30.0
"""Seconds between two lines of a log."""


class Progress:
    """Shows how far work is, on stderr; of work inside work only the outermost is shown."""

    def __init__(self, shown: bool = True) -> None:
        self._shown = shown

    def track(self, items: Sequence[T], label: str, patience: float = PATIENCE, rows: int = 0) -> Iterator[T]:
        """Yield `items`; a bar on a terminal after `patience` seconds, elsewhere a line every `INTERVAL` seconds.

        rows: that every item reads, for a line that tells how many a second are read.
        """
        if not self._shown:
            yield from items
            return
        self._shown = False
        try:
            yield from _shown(items, label, patience) if _watched() else _logged(items, label, rows)
        finally:
            self._shown = True

    def note(self, text: str) -> None:
        """A line about the work to come, on stderr, unless it is to be quiet."""
        if self._shown:
            print(text, file=sys.stderr, flush=True)


QUIET = Progress(shown=False)
"""Shows nothing."""


def _watched() -> bool:
    """Whether somebody looks at a terminal."""
    return sys.stderr.isatty() and not os.environ.get("CI")


def _logged(items: Sequence[T], label: str, rows: int) -> Iterator[T]:
    start = told = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - told >= INTERVAL and done < len(items):
            told, spent = now, now - start
            left = _duration(spent / done * (len(items) - done))
            rate = f"{rows * done / spent:,.0f} rows/s, " if rows else ""
            line = f"{label}: {done:,} of {len(items):,}, {rate}{_duration(spent)} so far, about {left} left"
            print(line, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    """As h:mm:ss."""
    return str(timedelta(seconds=round(seconds)))


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
