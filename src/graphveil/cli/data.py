"""Commands on the user's data on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphveil.cli.graphs import graph_of
from graphveil.cli.options import App, AsJson, PackGraphOptions, Quiet, grouped
from graphveil.cli.output import print_json, progress, say

app = App(no_args_is_help=True, help="Your data on disk: pack a graph that memory cannot hold.")


@app.command("pack")
@grouped
def data_pack(
    out: Annotated[Path, typer.Option(help="Folder to write. It holds the private data: keep it as safe as those.")],
    source: PackGraphOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a graph, its split and what you state of it as a folder that `--packed` reads from disk as it is needed.

    The folder holds the private data themselves, readable by its owner alone; packing releases nothing.
    """
    from graphveil.graph import packed
    from graphveil.runtime.folders import require_room

    packed.require_replaceable(out)
    require_room(out)
    with progress(quiet):
        graph = graph_of(source)
        folder = packed.pack(graph, out)
    size = sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        print_json({"folder": str(folder), "dataset": graph.name, "split": graph.split, **sizes, "bytes": size})
    else:
        say(f"{graph}\n{folder}: {size / 1e6:.1f} MB, holds the private data; use it with --packed {folder}")
