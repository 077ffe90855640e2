"""What commands print, and checks of what they are to write: before any budget is spent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from graphveil.data.graph import Graph

_BYTES, _WIDTH = 8, 1024
"""What a release takes for a score or a weight, and weights for every feature: generous, to see a full disk early."""


def say(text: str, err: bool = False) -> None:
    """Print lines; what does not print in a name, a path or a cell is shown escaped, so that it acts on no terminal."""
    from graphveil.checks import escaped

    typer.echo("\n".join(map(escaped, text.split("\n"))), err=err)


def json_text(value: Any) -> str:
    from graphveil.codec import plain

    return json.dumps(plain(value), indent=2)


def print_json(value: Any) -> None:
    say(json_text(value))


def print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


def print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        say("nothing yet")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text: brackets in what errors say are no markup.
        table.add_row(*[Text("" if value is None else _cell(value)) for value in row.values()])
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _cell(value: Any) -> str:
    from graphveil.checks import escaped

    return escaped(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def require_release(folder: Path | None, force: bool) -> None:
    """Refuse an unusable folder for a release, if one is named, before any budget is spent."""
    from graphveil.release.release import require_replaceable
    from graphveil.runtime.folders import require_room

    if folder is not None:
        require_replaceable(folder)
        require_vacant(folder, force)
        require_room(folder)


def require_vacant(folder: Path, force: bool) -> None:
    """Nothing is in the folder, or may be replaced: a model was paid for and cannot be had again for free."""
    from graphveil.errors import InvalidInput

    if not force and folder.is_dir() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} holds a release already, which was paid for; choose another folder, or --force")


def require_files(release: Path | None, *files: Path | None) -> None:
    """Refuse an unusable output file, if one is named, before any budget is spent.

    Files may tell what no certificate covers: none may lie in a release's folder, which may be given away.
    """
    from graphveil.runtime.folders import require_file

    for file in filter(None, files):
        require_file(file, release)


def require_outside(journal: Path | None, release: Path | None) -> None:
    """Refuse a journal in a folder that may be given away, be it one that is about to be written."""
    from graphveil.runtime.folders import require_apart

    if journal is not None:
        require_apart(journal, release)


def require_space(out: Path | None, graph: Graph) -> None:
    """Refuse a disk that is too full for a release of this graph, which is at most about so large."""
    from graphveil.runtime.folders import require_room

    if out is not None:
        require_room(out, _BYTES * (graph.num_nodes * graph.num_classes + _WIDTH * graph.num_features))


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Work whose records go into `out` as they come; an interrupt says how to go on."""
    from graphveil.runtime.folders import require_folder

    require_folder(out, out)
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped; what is finished is kept in {out}: the same command goes on from there", err=True)
        raise typer.Exit(130) from None
