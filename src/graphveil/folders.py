"""Folders that appear complete or not at all, and replace nothing but their own kind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from graphveil.core import InvalidInput


def require_only(path: Path, files: Collection[str], what: str) -> None:
    """`path` is free, an empty folder, or holds exactly `files`: writing `what` there loses nothing else."""
    if not path.exists():
        return
    if not path.is_dir() or {item.name for item in path.iterdir()} not in (set(), set(files)):
        raise InvalidInput(f"{path} exists and is not {what}; choose another path")


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A fresh folder, readable by its owner alone, that takes the place of `target` when the block ends well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".writing-") as scratch:
        fresh = Path(scratch) / target.name
        fresh.mkdir(mode=0o700)
        yield fresh
        if target.exists():
            shutil.move(target, Path(scratch) / f"{target.name}.old")
        fresh.rename(target)
