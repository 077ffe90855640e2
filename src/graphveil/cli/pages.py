"""Commands that write a release in other forms: a card, a file for other tools, the pages of a demonstration."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.hyperparameters import import_methods
from graphveil.cli.output import echo, require_files
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.release.edges import ReleasedEdges

app = options.App()


@app.command()
def card(
    release: options.ReleaseFolder,
    format: Annotated[str, Option(help="text, html, registry (JSON), huggingface (README.md), markdown.")] = "text",
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
def export(
    release: options.ReleaseFolder,
    to: Annotated[str, Option(help="torch (.pt2) or onnx, of a model; pyg (.pt), of a released graph.")],
    out: Annotated[Path, Option("--out", "-o", help="File to write.")],
    nodes: Annotated[Path | None, Option(help="With --to pyg: the node table of the run, for its ids.")] = None,
    id: Annotated[str, Option(help="Column of that table with the ids.")] = "id",
    own: options.OwnMethods = None,
) -> None:
    """Write a model, or a released graph, as a file that torch, ONNX or PyG reads without graphveil.

    The certificate travels inside. Predictions that read a graph cannot leave this way, and are refused.
    """
    from graphveil.runtime.folders import settled

    require_files(release, out)
    import_methods(own)
    holds_graph = (settled(release) / "graph.json").exists()
    if to not in ("torch", "onnx", "pyg"):
        raise InvalidInput(f"--to is torch, onnx or pyg, got {to!r}")
    if to == "pyg" and not holds_graph:
        raise InvalidInput(f"{release} holds no released graph (`graphveil release-graph` writes one)")
    if to != "pyg" and nodes is not None:
        raise InvalidInput("--nodes is for --to pyg; a model keeps ids if it was trained with --keep-ids")
    if to != "pyg" and holds_graph:
        raise InvalidInput(f"{release} holds a released graph and no model; write it with --to pyg")
    if to == "pyg":
        _write_pyg(gv.ReleasedEdges.load(release), nodes, id, out)
    else:
        gv.load(release).export(to, out)
    echo(f"written to {out}")


def _write_pyg(released: ReleasedEdges, nodes: Path | None, id: str, out: Path) -> None:
    """The data as a dict of tensors and text, which torch loads without running anything."""
    import torch

    from graphveil.data.columns import node_ids
    from graphveil.data.tables import read_table
    from graphveil.runtime.folders import write_file

    if out.suffix != ".pt":
        raise InvalidInput(f"{out} must end in .pt")
    ids = None
    if nodes is not None:
        table = read_table(nodes, "nodes")
        if id not in table:
            raise InvalidInput(f"{nodes} has no column {id!r}; name the one with the ids, --id")
        ids = node_ids(table[id]).to_pylist()
    body = io.BytesIO()
    torch.save(released.to_pyg(ids).to_dict(), body)
    write_file(out, body.getvalue())


@app.command()
def demo(
    out: Annotated[Path, Option(help="Folder for the release and the summary.")] = Path("demo"),
    quiet: options.Quiet = False,
) -> None:
    """Train hearsay (noisy counts of neighbours' classes) at epsilon 2, beside a non-private GCN and an MLP."""
    from graphveil.report import demonstrate
    from graphveil.runtime.folders import require_folder

    require_folder(out, out)
    echo(demonstrate(out, quiet=quiet))
