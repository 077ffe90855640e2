"""The command that estimates accuracy before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.graphs import AdviseGraph, GraphOptions, advised_graph
from graphveil.cli.hyperparameters import import_method
from graphveil.cli.output import echo, print_json, print_table, require_files
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.advice.advise import Advice
    from graphveil.data.graph import Graph
    from graphveil.data.sealing import Public

app = options.App()


@dataclass(frozen=True)
class Sizes:
    """Sizes instead of a graph."""

    num_nodes: Annotated[int | None, Option(help="Without data: the number of nodes.")] = None
    num_features: Annotated[int | None, Option(help="Without data: the number of features.")] = None
    num_classes: Annotated[int | None, Option(help="Without data: the number of classes.")] = None
    num_train: Annotated[int | None, Option(help="Without data: training nodes; default 75 %.")] = None


@app.command()
@options.grouped
def advise(
    *,
    unit: options.Unit,
    source: AdviseGraph,
    sizes: Sizes,
    epsilons: Annotated[str, Option(metavar="NUMBERS", help="With commas between them.")] = "0.5,1,2,4,8",
    delta: Annotated[float | None, Option(help="Delta; default: a power of ten below 1/(10 nodes).")] = None,
    method: Annotated[list[str] | None, Option(help="Default: the flagship and its best rivals. Repeatable.")] = None,
    homophily: Annotated[float, Option(help="Assumed: 0, edges at random, to 1, all within classes.")] = 0.5,
    mean_degree: Annotated[float | None, Option(help="Assumed edges of a node; default 10. Never counted.")] = None,
    largest_class: Annotated[float | None, Option(help="Assumed share of the largest class; default: equal.")] = None,
    spread: Annotated[float | None, Option(help="Assumed spread of features in a class; default 0.66.")] = None,
    limit: Annotated[int, Option(help="Nodes of a stand-in at most; more take longer.")] = 2000,
    seeds: Annotated[int, Option(help="Stand-ins that every figure is the mean of.")] = 2,
    metric: Annotated[str, Option(help="accuracy, auc, balanced_accuracy or auto, chosen by the classes.")] = "auto",
    plot: Annotated[Path | None, Option(help="Also draw it: a file that ends in .svg.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate the accuracy of methods at several epsilons before anything is spent. Free: nothing private is read.

    Methods are tried on made-up graphs that have the public parts of yours, or the sizes you state. What is made up is
    printed, and what weaker edges would change. A table of private edges is not opened: others get the same advice.
    """
    from graphveil.report import advice_picture
    from graphveil.runtime.folders import write_file

    if plot is not None and plot.suffix != ".svg":
        raise InvalidInput(f"--plot draws an SVG file: {plot} must end in .svg")
    require_files(None, plot)
    found = gv.advise(
        _facts(source, sizes, unit, quiet),
        unit=unit,
        epsilons=options.parse_epsilons(epsilons),
        delta=delta,
        methods=[import_method(name).name() for name in method or ()] or None,
        limit=limit,
        seeds=seeds,
        metric=metric,
        homophily=homophily,
        mean_degree=mean_degree,
        largest_class=largest_class,
        spread=spread,
        quiet=quiet,
    )
    if plot is not None:
        write_file(plot, advice_picture(found).encode())
    following = _next(found, source)
    if as_json:
        print_json({**found.describe(), "next": following})
    else:
        _print(found, following, plot)


def _facts(source: GraphOptions, sizes: Sizes, unit: str, quiet: bool) -> Graph | Public:
    """The user's graph, or sizes alone."""
    if all(value is None for value in vars(sizes).values()):
        return advised_graph(source, "edges" in gv.Adjacency.of(unit).private, quiet)
    if source.names_private:
        raise InvalidInput("give a graph, or its sizes with --num-nodes, --num-features and --num-classes; not both")
    nodes, features, classes = sizes.num_nodes, sizes.num_features, sizes.num_classes
    if nodes is None or features is None or classes is None:
        raise InvalidInput("without data give all of --num-nodes, --num-features and --num-classes")
    return gv.Public.blank(nodes, features, classes, undirected=not source.directed, num_train=sizes.num_train)


def _next(found: Advice, source: GraphOptions) -> str | None:
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
    """Print the tables, then a line for every assumption, caution and result."""
    level = f"{found.unit.value} level (mean over stand-ins: {found.seeds})"
    echo(f"expected test {found.metric.words} in per cent, {level}:")
    print_table(found.table)
    for one in found.methods:
        echo(f"  {import_method(one.method).title()}")
    echo(f"\nwhat a release costs, at delta {found.delta:g}: {found.protects}")
    print_table(found.prices)
    lines = [("assumes", item) for item in found.assumes] + [("what if", found.what_if)]
    lines += [(one.method, f"would assume that {item}") for one in found.methods for item in one.assumes]
    lines += [("left out", f"{name}: {why}") for name, why in found.left_out]
    lines += [("WARNING", caution) for caution in found.warnings]
    lines += [] if plot is None else [("drawn", str(plot))]
    echo("\n" + "\n".join(f"{word:<10} {item}" for word, item in [*lines, ("advice", found.why)]))
    if following is not None:
        echo(f"next: {following}")
