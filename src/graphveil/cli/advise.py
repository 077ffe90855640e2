"""The command that says what to expect before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphveil.cli.graphs import advised_graph
from graphveil.cli.hyperparameters import import_method
from graphveil.cli.options import (
    AdviseGraphOptions,
    App,
    AsJson,
    AssumedOptions,
    Epsilons,
    Quiet,
    SizeOptions,
    Unit,
    grouped,
    parse_epsilons,
)
from graphveil.cli.output import print_json, print_table, require_files, say

if TYPE_CHECKING:
    from graphveil.advice.advise import Advice
    from graphveil.data.graph import Graph
    from graphveil.data.sealing import Public

app = App()


@app.command()
@grouped
def advise(
    *,
    unit: Unit,
    source: AdviseGraphOptions,
    sizes: SizeOptions,
    epsilons: Epsilons = "0.5,1,2,4,8",
    delta: Annotated[float | None, typer.Option(help="Delta; default: a power of ten below 1/(10 nodes).")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Try this one; default: the flagship and its best rivals. Repeatable.")
    ] = None,
    assumed: AssumedOptions,
    limit: Annotated[int, typer.Option(help="Nodes of a stand-in at most; more take longer.")] = 2000,
    seeds: Annotated[int, typer.Option(help="Stand-ins that every figure is the mean of.")] = 2,
    metric: Annotated[
        str, typer.Option(help="What is compared: accuracy, auc or balanced_accuracy; auto looks at the classes.")
    ] = "auto",
    plot: Annotated[Path | None, typer.Option(help="Also draw it: a file that ends in .svg.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say which method and which epsilon to expect what of, before anything is spent. Free: nothing private is read.

    Methods are tried on made-up graphs that have the public parts of yours, or the sizes you state. What is made up,
    and what would change if edges told less, is printed. Other private data would get the same advice.
    """
    import graphveil as gv
    from graphveil.runtime.folders import write_file

    if plot is not None and plot.suffix != ".svg":
        raise gv.InvalidInput(f"--plot draws an SVG file: {plot} must end in .svg")
    require_files(None, plot)
    found = gv.advise(
        _facts(source, sizes, unit, quiet),
        unit=unit,
        epsilons=parse_epsilons(epsilons),
        delta=delta,
        methods=[import_method(name).name() for name in method or ()] or None,
        limit=limit,
        seeds=seeds,
        metric=metric,
        quiet=quiet,
        **vars(assumed),
    )
    if plot is not None:
        from graphveil.report import advice_picture

        write_file(plot, advice_picture(found).encode())
    following = _next(found, source)
    if as_json:
        print_json({**found.describe(), "next": following})
    else:
        _print(found, following, plot)


def _facts(source: AdviseGraphOptions, sizes: SizeOptions, unit: str, quiet: bool) -> Graph | Public:
    """The user's graph, or sizes alone."""
    import graphveil as gv

    private = gv.Adjacency.of(unit).private
    if not sizes.given:
        return advised_graph(source, "edges" in private, quiet)
    if source.names_private:
        raise gv.InvalidInput("give a graph, or its sizes with --num-nodes, --num-features and --num-classes; not both")
    if sizes.num_nodes is None or sizes.num_features is None or sizes.num_classes is None:
        raise gv.InvalidInput("without data give all of --num-nodes, --num-features and --num-classes")
    known = (sizes.num_nodes, sizes.num_features, sizes.num_classes)
    return gv.Public.blank(*known, undirected=not source.directed, num_train=sizes.num_train)


def _next(found: Advice, source: AdviseGraphOptions) -> str | None:
    """The training that is recommended, as it is typed."""
    if found.recommended is None:
        return None
    words = source.typed()
    if source.dataset is None and source.packed is None:
        words += [f"--{table} {table}.csv" for table in ("edges", "nodes") if getattr(source, table) is None]
    words += ["--class-weight balanced"] if found.balanced else []
    terms = f"--unit {found.unit.value} --epsilon {found.epsilon:g} --delta {found.delta:g} --out model"
    return f"graphveil train {found.recommended} {' '.join(words)} {terms}"


def _print(found: Advice, following: str | None, plot: Path | None) -> None:
    seen = f"{found.unit.value} level (mean over stand-ins: {found.seeds})"
    say(f"expected test {found.metric.words} in per cent, {seen}:")
    print_table(found.table)
    say(f"\nwhat a release costs, at delta {found.delta:g}: {found.protects}")
    print_table(found.prices)
    say("")
    for item in found.assumes:
        say(f"assumes    {item}")
    say(f"what if    {found.what_if}")
    for one in found.methods:
        for item in one.assumes:
            say(f"{one.method:<10} would assume that {item}")
    for name, why in found.left_out:
        say(f"left out   {name}: {why}")
    for caution in found.warnings:
        say(f"WARNING    {caution}")
    if plot is not None:
        say(f"drawn      {plot}")
    say(f"advice     {found.why}")
    if following is not None:
        say(f"next: {following}")
