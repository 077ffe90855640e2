"""Printing, and checks of the files and folders that a command will write, made before any budget is spent."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.data.graph import Graph

_BYTES, _WIDTH = 8, 1024
"""Bytes of a score or a weight in a release, and weights of every feature: generous, to find a full disk early."""


def echo(text: str, err: bool = False) -> None:
    """Print lines, with unprintable characters of names, paths and cells escaped, so that none controls a terminal."""
    from graphveil.checks import escaped

    typer.echo("\n".join(map(escaped, text.split("\n"))), err=err)


def json_text(value: Any) -> str:
    from graphveil.codec import plain

    return json.dumps(plain(value), indent=2)


def print_json(value: Any) -> None:
    echo(json_text(value))


def print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


def print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from graphveil.checks import escaped

    if not rows:
        echo("nothing yet")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = [one if isinstance(one, list | tuple) else [] if one is None else [one] for one in row.values()]
        # Text: brackets in messages are no markup.
        table.add_row(*[Text(escaped(", ".join(map(str, cell)))) for cell in cells])
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def require_release(
    out: Path | None,
    force: bool,
    *files: Path | None,
    journal: Path | None = None,
    replaceable: Callable[[Path], object] | None = None,
) -> None:
    """Refuse, before any budget is spent, unusable places for a release, its journal and files beside it.

    replaceable: refuses a folder that holds anything but a release, which has been paid for and needs --force.
    """
    from graphveil.release import release
    from graphveil.runtime.folders import require_apart, require_room

    if out is not None:
        (replaceable or release.require_replaceable)(out)
        if not force and out.is_dir() and any(out.iterdir()):
            raise InvalidInput(f"{out} holds a release already, which was paid for; choose another folder, or --force")
        require_room(out)
    require_files(out, *files)
    if journal is not None:
        require_apart(journal, out)


def require_files(release: Path | None, *files: Path | None) -> None:
    """Refuse unusable output files, and files in a release's folder: it may be given away, and they are not covered."""
    from graphveil.runtime.folders import require_file

    for file in filter(None, files):
        require_file(file, release)


def require_space(out: Path | None, graph: Graph) -> None:
    """Refuse a disk that is too full for a release of this graph, which is at most about so large."""
    from graphveil.runtime.folders import require_room

    if out is not None:
        require_room(out, _BYTES * (graph.num_nodes * graph.num_classes + _WIDTH * graph.num_features))
