"""The command that writes one page from many results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from graphveil.cli import options
from graphveil.cli.hyperparameters import import_methods
from graphveil.cli.output import echo, print_json, require_files
from graphveil.errors import InvalidInput

app = options.App()


@app.command()
def report(
    records: Annotated[
        list[Path], Argument(metavar="RECORDS...", help="Results as JSON: tables, attacks, a court, or folders.")
    ],
    out: Annotated[Path, Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    spec: Annotated[
        str | None, Option(help="Folders hold records of `bench run` of this experiment (a file or a name).")
    ] = None,
    own: options.OwnMethods = None,
    as_json: options.AsJson = False,
) -> None:
    """Write one page of curves, brackets, attacks, tables and method cards. It opens offline, alone."""
    from graphveil.runtime.folders import write_file
    from graphveil_lab.report.page import report as page
    from graphveil_lab.report.records import read

    if out.suffix != ".html":
        raise InvalidInput(f"{out} must end in .html, so that no file of results is overwritten")
    import_methods(own)
    found = read(records, spec)
    made = page(found).encode()
    require_files(None, out)
    write_file(out, made)
    if as_json:
        print_json({"file": str(out), "bytes": len(made), "records": found.titles()})
    else:
        echo(f"{out}: {len(made) / 1e6:.1f} MB")
