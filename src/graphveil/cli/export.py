"""The command that takes a release elsewhere."""

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
def export(
    release: options.ReleaseFolder,
    to: Annotated[str, Option(help="torch (.pt2) or onnx, of a model; pyg (.pt), of a released graph.")],
    out: Annotated[Path, Option("--out", "-o", help="File to write.")],
    nodes: Annotated[
        Path | None, Option(help="With --to pyg: the node table of the run, whose ids then go with the graph.")
    ] = None,
    id: Annotated[str, Option(help="Column of that table with the ids.")] = "id",
    own: options.OwnMethods = None,
) -> None:
    """Write a model, or a released graph, as a file that torch, ONNX or PyG reads without graphveil.

    The certificate travels inside. Predictions that read a graph cannot leave this way, and are refused.
    """
    require_files(release, out)
    import_methods(own)
    if to not in ("torch", "onnx", "pyg"):
        raise gv.InvalidInput(f"--to is torch, onnx or pyg, got {to!r}")
    if to != "pyg":
        if nodes is not None:
            raise gv.InvalidInput("--nodes is for --to pyg; a model keeps ids if it was trained with --keep-ids")
        if _holds_graph(release):
            raise gv.InvalidInput(f"{release} holds a released graph and no model; write it with --to pyg")
        gv.load(release).export(to, out)
    else:
        if not _holds_graph(release):
            raise gv.InvalidInput(f"{release} holds no released graph (`graphveil release-graph` writes one)")
        _write_pyg(gv.ReleasedEdges.load(release), nodes, id, out)
    echo(f"written to {out}")


def _holds_graph(folder: Path) -> bool:
    from graphveil.runtime.folders import settled

    return (settled(folder) / "graph.json").exists()


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
