"""Commands that use a release: on the same graph when it has grown, and for predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.graphs import EdgesGraph, GraphOptions, InferGraph, node_table, private_graph, public_graph
from graphveil.cli.hyperparameters import import_methods
from graphveil.cli.output import echo, print_json, require_files, require_release, require_space
from graphveil.cli.scores import print_release
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.data.graph import Graph
    from graphveil.release.release import Release

app = options.App()

WHICH = (
    "Which verb: `train`, a graph and no model (--journal if it will grow); `extend`, the same graph later, at no "
    "further cost; `infer --epsilon`, another graph, from a budget of its own; `infer`, the nodes of the training, "
    "free; `train` again, the same graph by another method or with a larger epsilon: epsilons add up."
)


@app.command(epilog=WHICH)
@options.grouped
def extend(
    release: Annotated[Path, Argument(help="Release folder of the stream, as written by `train --journal`.")],
    *,
    journal: Annotated[Path, Option(help="The stream's private folder, as begun by `train --journal`.")],
    source: EdgesGraph,
    refresh: Annotated[
        str,
        Option(
            help="Whose rows are counted anew, each with more noise: doubling (new nodes, and others in their 2nd, "
            "4th, 8th, ... period), all, new, none."
        ),
    ] = "doubling",
    ask: Annotated[Path | None, Option(help="Instead of --refresh: text file with ids of nodes, one a line.")] = None,
    spending: options.SpendingOptions,
    keep_ids: options.KeepIds = False,
    out: Annotated[Path | None, Option(help="Folder for the release of this period.")] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on with a graph that has grown: edges that were never counted are counted, at no further cost.

    The tables hold the graph as it is now, or only the edges that are new. Who is who goes by the ids of the nodes.
    """
    from graphveil.release.interrupted import accountable
    from graphveil.release.record import Stopwatch, record_of

    loaded = gv.load(release)
    require_release(out, force, spending.ledger, journal=journal)
    if ask is not None and refresh != "doubling":
        raise InvalidInput("give --refresh or --ask")
    with accountable() as so_far:
        graph = private_graph(source, source.split or "random", loaded.schema, labels_are_public=True, quiet=quiet)
        if keep_ids and graph.ids is None:
            raise InvalidInput("--keep-ids is for a graph from tables; this one has no ids but its rows")
        require_space(out, graph)
        rows = refresh if ask is None else _asked(ask, graph)
        with Stopwatch() as watch:
            means = spending.arguments(gv.Compute(quiet=quiet))
            made = gv.extend(loaded, graph, journal=journal, refresh=rows, **means)
        so_far.spend(made.certificate)
        made = made.with_ids() if keep_ids else made
        if out is not None:
            so_far.keep(made.save, out)
        entry = record_of(made, graph, watch)
    if as_json:
        print_json(entry)
    else:
        print_release(made, entry, out)


def _asked(path: Path, graph: Graph) -> list[str | int]:
    """Ids of nodes, one a line; rows of a graph without ids."""
    try:
        lines = path.read_text().splitlines()
        return [line if graph.ids is not None else int(line) for line in lines if line]
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--ask: {path} has no ids, one a line: {error}") from None


@app.command()
@options.grouped
def infer(
    release: Annotated[Path, Argument(help="Release folder, as written by `train --out`.")],
    *,
    source: InferGraph,
    budget: options.Budget,
    spending: Annotated[options.SpendingOptions, {"secure"}],
    threshold: options.Threshold = None,
    out: Annotated[
        Path | None,
        Option(help="CSV file for id, label and probabilities; an id like a formula (=1) gets a leading '."),
    ] = None,
    own: options.OwnMethods = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict with a release: free from released state; with --epsilon, on another private graph at a cost.

    Free predictions need the node table at most (--nodes alone): for ids, or for the features that they read. The
    same graph, grown: `extend`, whose help has the table.
    """
    from graphveil.release.interrupted import accountable
    from graphveil.release.serving import remarks
    from graphveil.runtime.folders import write_file

    require_files(None, out, spending.ledger)
    import_methods(own)
    loaded, chosen = gv.load(release), options.parse_threshold(threshold)
    loaded = loaded if chosen is None else loaded.with_threshold(*chosen)
    spends = budget.epsilon is not None or budget.noise is not None
    subject = _subject(loaded, source, spends, quiet)
    graph = subject if isinstance(subject, gv.Graph) else None
    with accountable() as so_far:
        cost = loaded.prediction_cost
        if spends:
            if graph is None:
                raise InvalidInput("--epsilon and --noise are for a graph: name a dataset or give --edges or --packed")
            loaded = gv.infer(loaded, graph, **vars(budget), **spending.arguments(gv.Compute(quiet=quiet)))
            so_far.spend(loaded.certificate)
            cost = _spent(loaded, graph)
            found = loaded.predictions()
        else:
            cost += "" if graph is None else remarks(loaded.method, graph)
            found = loaded.predictions(subject)
        if out is not None:
            so_far.keep(lambda path: write_file(path, found.to_csv().encode(), private=True), out)
    if as_json:
        certificate = loaded.certificate.describe()
        numbers = [loaded.classes.index(label) for label in found.labels]
        print_json({"cost": cost, "certificate": certificate, "predictions": numbers, "nodes": found.rows()})
    else:
        echo(f"{loaded.card()}\n{len(found)} predictions; cost: {cost}")
        echo(f"written to {out}" if out else f"first ten: {', '.join(found.labels[:10])}; --out FILE writes all")


def _subject(loaded: Release, source: GraphOptions, spends: bool, quiet: bool) -> Any:
    """Whose nodes get predictions: a graph, a node table alone, or nobody but those of the training."""
    if source.names_public:
        if spends or source.names_private:
            raise InvalidInput("a public graph is labelled alone and for free: give --public-edges and --public-nodes")
        return public_graph(source, loaded.schema, 0)
    if loaded.method.reads.public_nodes and (source.edges is not None or source.packed is not None):
        raise InvalidInput("this release labels public nodes: give --public-edges and --public-nodes")
    if source.nodes is not None and source.edges is None and not spends:
        return node_table(source, loaded.schema)
    if not source.names_private:
        return None
    labels_are_public = "y" not in loaded.certificate.plan.adjacency.private
    return private_graph(source, source.split or "random", loaded.schema, labels_are_public, quiet=quiet)


def _spent(release: Release, graph: Graph) -> str:
    """What predictions on this graph have cost it."""
    from graphveil.codec import rounded

    spent = release.certificate
    cost = f"epsilon {rounded(spent.plan_epsilon, places=4)} at delta {spent.delta:g} of {graph.name!r}"
    if spent.guarantees[0].releases > 1:
        cost += f"; with the releases before it on the same data, epsilon {rounded(spent.epsilon, places=4)}"
    return cost
