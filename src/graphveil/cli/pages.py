"""Commands that write pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.hyperparameters import import_methods
from graphveil.cli.output import echo, require_files

app = options.App()


@app.command()
def card(
    release: options.ReleaseFolder,
    format: Annotated[
        str,
        Option(help="text, html (a page), registry (JSON, for a registry), huggingface (README.md) or markdown."),
    ] = "text",
    out: Annotated[Path | None, Option("--out", "-o", help="File to write; default: print it.")] = None,
    own: options.OwnMethods = None,
) -> None:
    """Show what a release promises, as officers file it. It is checked first; what only you know is left blank."""
    from graphveil.checks import parse
    from graphveil.report.filings import Filing, filed
    from graphveil.runtime.folders import write_file

    form = parse(Filing, format, "format")
    require_files(release, out)
    import_methods(own)
    made = filed(gv.verify(release), form)
    if out is None:
        echo(made)
    else:
        write_file(out, f"{made}\n".encode())
        echo(f"written to {out}")


@app.command()
def demo(
    out: Annotated[Path, Option(help="Folder for the release and the summary.")] = Path("demo"),
    quiet: options.Quiet = False,
) -> None:
    """Train hearsay at epsilon 2 on the embedded graph, beside the non-private GCN and the graph-free MLP."""
    from graphveil.report import demonstrate
    from graphveil.runtime.folders import require_folder

    require_folder(out, out)
    echo(demonstrate(out, quiet=quiet))
