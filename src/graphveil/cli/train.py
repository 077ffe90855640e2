"""Commands that release a model or a graph from private data."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.graphs import EdgesGraph, GraphOptions, graph_of
from graphveil.cli.hyperparameters import FLAGSHIP, HYPER, MethodCommand, build_method
from graphveil.cli.output import echo, json_text, print_json, require_release, require_space
from graphveil.cli.scores import print_release
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.data.graph import Graph
    from graphveil.methods.method import Method

app = options.App()


@app.command(cls=MethodCommand, epilog=FLAGSHIP + HYPER)
@options.grouped
def train(
    context: Context,
    method: options.MethodName = "",
    *,
    unit: options.Unit,
    budget: options.Budget,
    reading: options.Reading = "sound",
    source: GraphOptions,
    spending: options.SpendingOptions,
    journal: Annotated[Path | None, Option(help="New private folder, for a graph that will grow (`extend`).")] = None,
    threshold: options.Threshold = None,
    keep_ids: options.KeepIds = False,
    out: Annotated[Path | None, Option(help="Folder for the release.")] = None,
    force: options.Force = False,
    record: Annotated[Path | None, Option(help="File for the run's JSON record (scores included).")] = None,
    summary: Annotated[Path | None, Option(help="File for a page of the run, scores included.")] = None,
    workers: options.Resources,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a private model, print its certificate, and save the release. Under torchrun, in several processes.

    The same graph, grown: `extend`. Another graph: `infer --epsilon`. `extend --help` has the table.
    """
    from graphveil.release.interrupted import accountable
    from graphveil.release.record import Stopwatch, record_of
    from graphveil.runtime.distributed import joined
    from graphveil.runtime.folders import write_file

    made, chosen = build_method(context, method, unit), options.parse_threshold(threshold)
    if keep_ids and not made.reads.stored:
        raise InvalidInput(f"{made.name()} needs no --keep-ids: its predictions read the node table, with its ids")
    with accountable() as so_far:
        with joined() as processes:
            first, compute = processes.first, workers.compute(quiet or not processes.first)
            if first:
                require_release(out, force, record, summary, spending.ledger, journal=journal)
            graph = graph_of(source, in_parts=workers.in_parts, quiet=compute.quiet)
            _require_known(graph, chosen, keep_ids)
            if first:
                require_space(out, graph)
                if not as_json:
                    _print_beforehand(made, budget, graph)
            means = spending.arguments(replace(compute, workers=processes))
            with Stopwatch() as watch:
                release = gv.train(graph, made, unit=unit, reading=reading, journal=journal, **vars(budget), **means)
        if not first:
            return
        so_far.spend(release.certificate)
        release = release if chosen is None else release.with_threshold(*chosen)
        release = release.with_ids() if keep_ids else release
        # Saved first: scoring can fail for want of memory, and the budget is spent.
        if out is not None:
            so_far.keep(release.save, out)
        entry = record_of(release, graph, watch)
        if record is not None:
            write_file(record, (json_text(entry) + "\n").encode(), private=True)
        if summary is not None:
            from graphveil.report import run_page

            write_file(summary, run_page(release, entry, graph).encode(), private=True)
    if as_json:
        print_json(entry)
    else:
        print_release(release, entry, out)


def _require_known(graph: Graph, chosen: tuple[str, float] | None, keep_ids: bool) -> None:
    """Refuse, before anything is spent, a threshold of an unknown class, and keeping ids that are not there."""
    known = tuple(map(str, range(graph.num_classes))) if graph.schema is None else graph.schema.classes
    if chosen is not None and chosen[0] not in known:
        raise InvalidInput(f"--threshold: {chosen[0]!r} is none of the classes {', '.join(known)}")
    if keep_ids and graph.ids is None:
        raise InvalidInput("--keep-ids is for a graph from tables; this one has no ids but its rows")


def _print_beforehand(method: Method, budget: options.Budget, graph: Graph) -> None:
    """What is trained, what its predictions will need, and cautions about the budget."""
    from graphveil.planning import cautions, default_delta
    from graphveil.release.serving import later

    echo(f"method: {method.title()}\nlater: {later(method)}")
    delta = default_delta(graph.num_nodes) if budget.delta is None else budget.delta
    for caution in cautions(budget.epsilon, delta, graph.num_nodes):
        echo(f"WARNING: {caution}")


@app.command(cls=MethodCommand, epilog=HYPER)
@options.grouped
def release_graph(
    context: Context,
    method: options.MethodName,
    out: Annotated[Path, Option(help="Folder for the edge list and its certificate.")],
    *,
    unit: options.Unit = "edge",
    budget: options.Budget,
    reading: options.Reading = "sound",
    source: EdgesGraph,
    spending: options.SpendingOptions,
    format: Annotated[str, Option(help="Of the edge list: parquet or csv.")] = "parquet",
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a perturbed graph, with its certificate, for use in any tool. No model is trained.

    The columns source and target hold positions 0, 1, ... of the nodes: rows of the node table in their order. An
    undirected edge is listed once. graph.json, and the Parquet file's metadata, give the number of nodes.
    """
    from graphveil.checks import parse
    from graphveil.release.edges import Format, require_writable
    from graphveil.release.interrupted import accountable

    made, kind = build_method(context, method), parse(Format, format, "format")
    require_release(out, force, spending.ledger, replaceable=partial(require_writable, format=kind))
    with accountable() as so_far:
        graph = graph_of(source, quiet=quiet)
        require_space(out, graph)
        means = spending.arguments(gv.Compute(quiet=quiet))
        released = gv.release_graph(graph, made, unit=unit, reading=reading, **vars(budget), **means)
        so_far.spend(released.certificate)
        so_far.keep(partial(released.save, format=kind), out)
    if as_json:
        sizes = {"nodes": released.num_nodes, "edges": released.edges.shape[1], "undirected": released.undirected}
        print_json({"folder": str(out), "file": kind.file, **sizes, "certificate": released.certificate.describe()})
    else:
        echo(f"{released.card()}\n  saved       {out / kind.file}")
