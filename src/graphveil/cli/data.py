"""Commands on the user's data on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from graphveil.cli import options
from graphveil.cli.graphs import PackGraph, graph_of
from graphveil.cli.output import echo, print_json

app = options.App(no_args_is_help=True, help="Data on disk: pack a graph that memory cannot hold, download a dataset.")


@app.command("get")
def data_get(
    dataset: Annotated[str, Argument(help="Name of a dataset; `graphveil datasets` lists them.")],
    into: Annotated[Path | None, Option(help="Root of raw files; default: GRAPHVEIL_DATA, else a cache.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Download a public dataset by PyTorch Geometric's own classes. The only command that uses a network.

    Without a network it says what to run elsewhere, and where to put the files.
    """
    from graphveil.data.datasets import get

    found = get(dataset, into)
    if as_json:
        print_json({"dataset": dataset.lower(), "folder": None if found is None else str(found)})
    elif found is None:
        echo(f"{dataset} is made on the spot and needs no files; use it by its name")
    else:
        echo(f"{dataset}: {found}" + ("" if into is None else f"; use it with GRAPHVEIL_DATA={into}"))


@app.command("pack")
@options.grouped
def data_pack(
    out: Annotated[Path, Option(help="Folder to write. It holds the private data: keep it as safe as those.")],
    source: PackGraph,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a graph, its split and what you state of it as a folder that `--packed` reads from disk as it is needed.

    The folder holds the private data themselves, readable by its owner alone; packing releases nothing.
    """
    from graphveil.data import packed
    from graphveil.runtime.folders import require_room

    packed.require_replaceable(out)
    require_room(out)
    graph = graph_of(source, quiet=quiet)
    folder = packed.pack(graph, out, quiet=quiet)
    size = sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        print_json({"folder": str(folder), "dataset": graph.name, "split": graph.split, **sizes, "bytes": size})
    else:
        echo(f"{graph}\n{folder}: {size / 1e6:.1f} MB, holds the private data; use it with --packed {folder}")
