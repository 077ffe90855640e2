"""Kept files of scripts: a list of runs, or a table, that one command makes again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphveil.runtime.folders import write_whole

RESULTS = Path(__file__).resolve().parents[1] / "results"


def keep(path: Path, held: Any) -> None:
    """Write a file whole."""
    write_whole(path, held)


def runs_of(name: str) -> list[dict[str, Any]]:
    """The runs of a kept list."""
    file = RESULTS / f"{name}.json"
    held: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return held


def folder_of(name: str) -> Path:
    """Where a script leaves its runs until they are kept."""
    return Path(".bench") / name
