"""The court's command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from graphveil.cli import options
from graphveil.cli.output import echo, print_table, require_files

app = options.App()


@app.command()
@options.grouped
def court(
    *,
    seed: Annotated[int, Option(help="Seed of all runs.", min=0)] = 0,
    quick: Annotated[bool, Option("--quick", help="Fewer runs, and one case per method and unit.")] = False,
    only: Annotated[
        str | None, Option(help="Cases of these names, or whose names begin with them: NAME,NAME,...")
    ] = None,
    workers: options.Jobs,
    html: Annotated[Path | None, Option(help="Also write the table as a page.")] = None,
    json_file: Annotated[Path | None, Option("--json", help="Also write everything as JSON.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Refute every claim that is known to be false, attack every sound one. Exit code 1 if a verdict is unexpected."""
    from graphveil.runtime.folders import write_file
    from graphveil_lab import kept_files
    from graphveil_lab.court.court import hold
    from graphveil_lab.report.page import court_page

    require_files(None, html, json_file)
    held = hold(seed, quick, only, workers.compute(quiet))
    if html is not None:
        write_file(html, court_page(held).encode())
    if json_file is not None:
        kept_files.write(json_file, held.describe())
    print_table([ruling.row() for ruling in held.rulings])
    echo(held.footer())
    if not held.as_expected:
        raise typer.Exit(1)
