"""Commands that write pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphveil.cli.hyperparameters import import_methods
from graphveil.cli.options import App, AsJson, OwnMethods, Quiet
from graphveil.cli.output import print_json, progress, require_files, say

app = App()


@app.command()
def report(
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORDS...", help="Results as JSON: tables, attacks, a court, or folders.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    spec: Annotated[
        str | None, typer.Option(help="Folders hold records of `bench run` of this experiment (a file or a name).")
    ] = None,
    own: OwnMethods = None,
    as_json: AsJson = False,
) -> None:
    """Write one page of curves, brackets, attacks, tables and method cards. It opens offline, alone."""
    from graphveil.core import InvalidInput
    from graphveil.report import report as page
    from graphveil.report.records import read
    from graphveil.runtime.folders import write_file

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
        say(f"{out}: {len(made) / 1e6:.1f} MB")


@app.command()
def card(
    release: Annotated[Path, typer.Argument(help="Folder, as written by `train --out` or `release-graph --out`.")],
    format: Annotated[
        str,
        typer.Option(help="text, html (a page), registry (JSON, for a registry), huggingface (README.md) or markdown."),
    ] = "text",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: print it.")] = None,
    own: OwnMethods = None,
) -> None:
    """Show what a release promises, as officers file it. It is checked first; what only you know is left blank."""
    import graphveil as gv
    from graphveil.core import parse
    from graphveil.report.filings import Filing, filed
    from graphveil.runtime.folders import write_file

    form = parse(Filing, format, "format")
    require_files(release, out)
    import_methods(own)
    made = filed(gv.verify(release), form)
    if out is None:
        say(made)
    else:
        write_file(out, f"{made}\n".encode())
        say(f"written to {out}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the release and the summary.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Train hearsay at epsilon 2 on the embedded graph, beside the non-private GCN and the graph-free MLP."""
    from graphveil.report import demonstrate
    from graphveil.runtime.folders import require_folder

    require_folder(out, out)
    with progress(quiet):
        say(demonstrate(out))
