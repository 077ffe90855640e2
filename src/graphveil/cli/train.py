"""Commands that plan, train and predict."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphveil.cli.graphs import graph_of, node_table, private_graph, public_graph
from graphveil.cli.hyperparameters import HYPER, MethodCommand, UnitCommand, build_method, import_methods
from graphveil.cli.options import (
    App,
    AsJson,
    BudgetOptions,
    DeviceOptions,
    Directed,
    EdgesGraphOptions,
    FlagshipName,
    Force,
    GraphOptions,
    InferBudgetOptions,
    InferGraphOptions,
    InferSpendingOptions,
    MethodName,
    OwnMethods,
    Quiet,
    Reading,
    SpendingOptions,
    Threshold,
    Unit,
    grouped,
    parse_epsilons,
)
from graphveil.cli.output import (
    json_text,
    print_json,
    print_table,
    require_files,
    require_outside,
    require_release,
    require_space,
    require_vacant,
    say,
)
from graphveil.cli.scores import ONE_CLASS, by_class, in_one_line

if TYPE_CHECKING:
    from graphveil.data.graph import Graph
    from graphveil.planning import Planned
    from graphveil.release.predictions import Predictions
    from graphveil.release.release import Release

app = App()

WHICH = (
    "Which verb: `train`, a graph and no model (--journal if it will grow); `extend`, the same graph later, at no "
    "further cost; `infer --epsilon`, another graph, from a budget of its own; `infer`, the nodes of the training, "
    "free; `train` again, the same graph by another method or with a larger epsilon: epsilons add up."
)


@app.command(cls=UnitCommand, epilog=HYPER)
@grouped
def account(
    context: typer.Context,
    method: FlagshipName,
    unit: Unit,
    *,
    budget: BudgetOptions,
    epsilons: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Several epsilons at once instead of one: 0.5,1,2.")
    ] = None,
    reading: Reading = "sound",
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 10_000,
    features: Annotated[int, typer.Option(help="Number of features.")] = 128,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    train: Annotated[int | None, typer.Option(help="Number of training nodes; default 75 %.")] = None,
    directed: Directed = False,
    as_json: AsJson = False,
) -> None:
    """Plan a budget without any data: the noise for an epsilon or for several, or the epsilon of a noise."""
    from graphveil.data.sealing import Public
    from graphveil.errors import InvalidInput
    from graphveil.planning import Terms, planned

    made = build_method(method, context.obj)
    sizes = Public.blank(nodes, features, classes, not directed, train)
    if epsilons is not None and (budget.epsilon is not None or budget.noise is not None):
        raise InvalidInput("give one of --epsilon, --epsilons and --noise")
    budgets = [budget] if epsilons is None else [replace(budget, epsilon=one) for one in parse_epsilons(epsilons)]
    plans = [planned(made, sizes, Terms(unit, reading=reading, **vars(one))) for one in budgets]
    if as_json:
        found = [_account(one) for one in plans]
        print_json(found[0] if epsilons is None else found)
    elif epsilons is None:
        _print_account(plans[0])
    else:
        _print_accounts(plans)


def _account(found: Planned) -> dict[str, Any]:
    """What a plan spends, asks and assumes."""
    from graphveil.planning import cautions, unproven
    from graphveil.release.statement import even_odds

    plan = found.plan
    return {
        "method": found.method.name(),
        "unit": plan.adjacency.unit.value,
        "protects": str(plan.adjacency),
        "reading": plan.reading.value,
        "epsilon": found.epsilon,
        "even_odds": even_odds(found.sound_epsilon, found.delta),
        "delta": found.delta,
        "noise": found.noise,
        "steps": [step.describe() for step in plan.steps],
        "refuted": list(plan.refuted),
        "assumes": list(plan.assumes),
        "warnings": [
            *([unproven(found.others)] if found.others else []),
            *(cautions(found.epsilon, found.delta, found.public.num_nodes) if plan.steps else []),
        ],
    }


def _print_account(found: Planned) -> None:
    answer = _account(found)
    for key in ("method", "protects", "reading", "epsilon", "delta", "noise"):
        say(f"{key:<10} {answer[key]}")
    for step in found.plan.steps:
        say(f"step       {step.name} x {step.times}: {step.act} charged as {step.claim}")
    _print_notes([answer])


def _print_accounts(found: list[Planned]) -> None:
    """A line for every epsilon, and what they have in common once."""
    answers = [_account(one) for one in found]
    for key in ("method", "protects", "reading", "delta"):
        say(f"{key:<10} {answers[0][key]}")
    print_table(
        [
            {"epsilon": f"{one['epsilon']:.6g}", "noise": f"{one['noise']:.6g}", "even odds become": one["even_odds"]}
            for one in answers
        ]
    )
    _print_notes(answers)


def _print_notes(answers: list[dict[str, Any]]) -> None:
    for word, key in (("assumes", "assumes"), ("REFUTED", "refuted"), ("WARNING", "warnings")):
        for item in dict.fromkeys(said for one in answers for said in one[key]):
            say(f"{word:<10} {item}")


@app.command(cls=UnitCommand, epilog=HYPER)
@grouped
def train(
    context: typer.Context,
    method: FlagshipName,
    unit: Unit,
    *,
    budget: BudgetOptions,
    reading: Reading = "sound",
    source: GraphOptions,
    spending: SpendingOptions,
    journal: Annotated[
        Path | None,
        typer.Option(help="For a graph that will grow (see `extend`): new folder, private as the edges themselves."),
    ] = None,
    threshold: Threshold = None,
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Keep the ids in the release: whoever gets it sees them.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the release.")] = None,
    force: Force = False,
    record: Annotated[Path | None, typer.Option(help="File for the run's JSON record (scores included).")] = None,
    summary: Annotated[
        Path | None, typer.Option(help="File for a page of the run (scores included): not into the release's folder.")
    ] = None,
    workers: DeviceOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a private model, print its certificate, and save the release. Under torchrun, in several processes.

    The same graph, grown: `extend`. Another graph: `infer --epsilon`. `extend --help` has the table.
    """
    import graphveil as gv
    from graphveil.planning import cautions, default_delta
    from graphveil.release.interrupted import accountable
    from graphveil.release.record import Stopwatch, record_of
    from graphveil.release.serving import later
    from graphveil.runtime.distributed import joined
    from graphveil.runtime.folders import write_file

    made, chosen = build_method(method, context.obj), parse_threshold(threshold)
    if keep_ids and not made.reads.stored:
        raise gv.InvalidInput(f"{method} needs no --keep-ids: its predictions read the node table, which has the ids")
    with accountable() as so_far:
        with joined() as processes:
            silent, first = quiet or not processes.first, processes.first
            if first:
                require_release(out, force)
                require_files(out, record, summary, spending.ledger)
                require_outside(journal, out)
            graph = graph_of(source, in_parts=workers.in_parts, quiet=silent)
            if first:
                require_space(out, graph)
            require_known_class(chosen, graph)
            if keep_ids and graph.ids is None:
                raise gv.InvalidInput("--keep-ids is for a graph from tables; this one has no ids but its rows")
            if first and not as_json:
                say(f"later: {later(made)}")
                delta = default_delta(graph.num_nodes) if budget.delta is None else budget.delta
                for caution in cautions(budget.epsilon, delta, graph.num_nodes):
                    say(f"WARNING: {caution}")
            compute = replace(workers.compute(silent), workers=processes)
            means = {**spending.arguments(counted=first), "compute": compute}
            with Stopwatch() as watch:
                release = gv.train(graph, made, unit=unit, reading=reading, journal=journal, **vars(budget), **means)
        if not first:
            return
        so_far.spend(release.certificate)
        release = release if chosen is None else release.with_threshold(*chosen)
        release = release.with_ids() if keep_ids else release
        # First of all: scoring can fail for want of memory, and the budget is spent.
        if out is not None:
            so_far.keep(release.save, out)
        entry = record_of(release, graph, watch)
        if record is not None:
            write_file(record, (json_text(entry) + "\n").encode(), private=True)
        if summary is not None:
            write_file(summary, _summary(release, entry, graph).encode(), private=True)
    if as_json:
        print_json(entry)
    else:
        _print_release(release, entry, out)


@app.command(cls=MethodCommand, epilog=HYPER)
@grouped
def release_graph(
    context: typer.Context,
    method: MethodName,
    out: Annotated[Path, typer.Option(help="Folder for the edge list and its certificate.")],
    *,
    unit: Unit = "edge",
    budget: BudgetOptions,
    reading: Reading = "sound",
    source: EdgesGraphOptions,
    spending: SpendingOptions,
    format: Annotated[str, typer.Option(help="Of the edge list: parquet or csv.")] = "parquet",
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a perturbed graph, with its certificate, for use in any tool. No model is trained.

    The columns source and target hold positions 0, 1, ... of the nodes: rows of the node table in their order. An
    undirected edge is listed once. graph.json, and the Parquet file's metadata, give the number of nodes.
    """
    import graphveil as gv
    from graphveil.checks import parse
    from graphveil.release.edges import Format, require_writable
    from graphveil.release.interrupted import accountable
    from graphveil.runtime.folders import require_room

    made, kind = build_method(method, context.obj), parse(Format, format, "format")
    require_writable(out, kind)
    require_vacant(out, force)
    require_room(out)
    require_files(out, spending.ledger)
    with accountable() as so_far:
        graph = graph_of(source, quiet=quiet)
        require_space(out, graph)
        means = {**spending.arguments(), "compute": gv.Compute(quiet=quiet)}
        released = gv.release_graph(graph, made, unit=unit, reading=reading, **vars(budget), **means)
        so_far.spend(released.certificate)
        so_far.keep(partial(released.save, format=kind), out)
    if as_json:
        sizes = {"nodes": released.num_nodes, "edges": released.edges.shape[1], "undirected": released.undirected}
        print_json({"folder": str(out), "file": kind.file, **sizes, "certificate": released.certificate.describe()})
    else:
        say(f"{released.card()}\n  saved       {out / kind.file}")


@app.command(epilog=WHICH)
@grouped
def extend(
    release: Annotated[Path, typer.Argument(help="Release folder of the stream, as written by `train --journal`.")],
    *,
    journal: Annotated[Path, typer.Option(help="The stream's private folder, as begun by `train --journal`.")],
    source: EdgesGraphOptions,
    refresh: Annotated[
        str,
        typer.Option(
            help="Whose rows are counted anew, each with more noise: doubling (new nodes, and others in their 2nd, "
            "4th, 8th, ... period), all, new, none."
        ),
    ] = "doubling",
    ask: Annotated[
        Path | None, typer.Option(help="Instead of --refresh: text file with the ids of nodes asked about, one a line.")
    ] = None,
    spending: SpendingOptions,
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Keep the ids in the release: whoever gets it sees them.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the release of this period.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a graph that has grown: edges that were never counted are counted, at no further cost.

    The tables hold the graph as it is now, or only the edges that are new. Who is who goes by the ids of the nodes.
    """
    import graphveil as gv
    from graphveil.release.interrupted import accountable
    from graphveil.release.record import Stopwatch, record_of

    loaded = gv.load(release)
    require_release(out, force)
    require_files(out, spending.ledger)
    require_outside(journal, out)
    if ask is not None and refresh != "doubling":
        raise gv.InvalidInput("give --refresh or --ask")
    with accountable() as so_far:
        graph = private_graph(source, source.split, loaded.schema, labels_are_public=True, quiet=quiet)
        if keep_ids and graph.ids is None:
            raise gv.InvalidInput("--keep-ids is for a graph from tables; this one has no ids but its rows")
        require_space(out, graph)
        rows = refresh if ask is None else _asked(ask, graph)
        with Stopwatch() as watch:
            means = {**spending.arguments(), "compute": gv.Compute(quiet=quiet)}
            made = gv.extend(loaded, graph, journal=journal, refresh=rows, **means)
        so_far.spend(made.certificate)
        made = made.with_ids() if keep_ids else made
        if out is not None:
            so_far.keep(made.save, out)
        entry = record_of(made, graph, watch)
    if as_json:
        print_json(entry)
    else:
        _print_release(made, entry, out)


def _asked(path: Path, graph: Graph) -> list[str | int]:
    """Ids of nodes, one a line; rows of a graph without ids."""
    from graphveil.errors import InvalidInput

    try:
        lines = path.read_text().splitlines()
        return [line if graph.ids is not None else int(line) for line in lines if line]
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--ask: {path} has no ids, one a line: {error}") from None


@app.command()
@grouped
def infer(
    release: Annotated[Path, typer.Argument(help="Release folder, as written by `train --out`.")],
    *,
    source: InferGraphOptions,
    budget: InferBudgetOptions,
    spending: InferSpendingOptions,
    threshold: Threshold = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file for id, label and probabilities; ids that start like a formula (=1) get a leading '."
        ),
    ] = None,
    own: OwnMethods = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict with a release: free from released state; with --epsilon, on another private graph at a cost.

    Free predictions need the node table at most (--nodes alone): for ids, or for the features that they read. The
    same graph, grown: `extend`, whose help has the table.
    """
    import graphveil as gv
    from graphveil.release.interrupted import accountable
    from graphveil.release.serving import remarks

    require_files(None, out, spending.ledger)
    import_methods(own)
    loaded, chosen = gv.load(release), parse_threshold(threshold)
    loaded = loaded if chosen is None else loaded.with_threshold(*chosen)
    spends = budget.epsilon is not None or budget.noise is not None
    subject = _subject(loaded, source, spends, quiet)
    graph = subject if isinstance(subject, gv.Graph) else None
    with accountable() as so_far:
        cost = loaded.prediction_cost
        if spends:
            if graph is None:
                raise gv.InvalidInput(
                    "--epsilon and --noise spend budget on a graph: name a dataset or give --edges or --packed"
                )
            means = {**spending.arguments(), "compute": gv.Compute(quiet=quiet)}
            loaded = gv.infer(loaded, graph, **vars(budget), **means)
            so_far.spend(loaded.certificate)
            cost = _spent(loaded, graph)
            found = loaded.predictions()
        else:
            cost += "" if graph is None else remarks(loaded.method, graph)
            found = loaded.predictions(subject)
        if out is not None:
            so_far.keep(partial(_write_predictions, found), out)
    if as_json:
        certificate = loaded.certificate.describe()
        numbers = [loaded.classes.index(label) for label in found.labels]
        print_json({"cost": cost, "certificate": certificate, "predictions": numbers, "nodes": found.rows()})
    else:
        say(loaded.card())
        say(f"{len(found)} predictions; cost: {cost}")
        say(f"written to {out}" if out else f"first ten: {', '.join(found.labels[:10])}; --out FILE writes all")


def _subject(loaded: Release, source: InferGraphOptions, spends: bool, quiet: bool) -> Any:
    """Whose nodes get predictions: a graph, a node table alone, or nobody but those of the training."""
    import graphveil as gv

    if source.names_public:
        if spends or source.names_private:
            raise gv.InvalidInput(
                "a public graph is labelled alone and for free: give --public-edges and --public-nodes"
            )
        return public_graph(source, loaded.schema, 0)
    if loaded.method.reads.public_nodes and (source.edges is not None or source.packed is not None):
        raise gv.InvalidInput("this release labels public nodes: give --public-edges and --public-nodes")
    if source.nodes is not None and source.edges is None and not spends:
        return node_table(source, loaded.schema)
    if not source.names_private:
        return None
    labels_are_public = "y" not in loaded.certificate.plan.adjacency.private
    return private_graph(source, source.split, loaded.schema, labels_are_public, quiet=quiet)


def _spent(release: Release, graph: Graph) -> str:
    """What predictions on this graph have cost it."""
    from graphveil.codec import rounded

    spent = release.certificate
    cost = f"epsilon {rounded(spent.plan_epsilon, places=4)} at delta {spent.delta:g} of {graph.name!r}"
    if spent.guarantees[0].releases > 1:
        cost += f"; with the releases before it on the same data, epsilon {rounded(spent.epsilon, places=4)}"
    return cost


def parse_threshold(text: str | None) -> tuple[str, float] | None:
    """A class and a chance, from fraud=0.2."""
    from graphveil.errors import InvalidInput

    if text is None:
        return None
    label, _, chance = text.rpartition("=")
    try:
        found = float(chance)
    except ValueError:
        found = 0.0
    if not label or not 0 < found <= 1:
        raise InvalidInput(f"--threshold takes a class and a chance above 0 and at most 1: fraud=0.2; got {text!r}")
    return label, found


def require_known_class(chosen: tuple[str, float] | None, graph: Graph) -> None:
    """The class of a threshold is one of the graph's, said before anything is spent."""
    from graphveil.errors import InvalidInput

    known = tuple(map(str, range(graph.num_classes))) if graph.schema is None else graph.schema.classes
    if chosen is not None and chosen[0] not in known:
        raise InvalidInput(f"--threshold: {chosen[0]!r} is none of the classes {', '.join(known)}")


def _print_release(release: Release, entry: dict[str, Any], out: Path | None) -> None:
    say(release.card())
    for part in ("val", "test"):
        if entry[part] is not None:
            say(f"  {part:<11} {in_one_line(entry[part])}")
    if entry["test"] is not None:
        for line in by_class(entry["classes"], entry["test"]):
            say(f"              {line}")
        if entry["test"]["names_one_class"]:
            say(f"  WARNING     {ONE_CLASS}")
    if entry["scores_are_private"]:
        say("  note        these scores are statistics of private labels; no certificate covers them")
    say(f"  predict     {release.prediction_cost}")
    if out is not None:
        say(f"  saved       {out}")


def _summary(release: Release, entry: dict[str, Any], graph: Graph) -> str:
    """The page of one run beside its baselines; it says so where the scores tell of private labels."""
    from graphveil.report import Bar, summary

    test = entry["test"]
    bars = [] if test is None else [Bar.of(release.method.name(), test, release.certificate.epsilon)]
    if test is not None and release.certificate.plan.adjacency.unit.value == "edge" and release.method.name() != "mlp":
        bars.append(Bar.of("mlp, reads no edge", _without_edges(graph, release), 0.0))
    return summary(release, bars, entry["scores_are_private"], test)


def _without_edges(graph: Graph, release: Release) -> dict[str, Any]:
    """Test scores of a perceptron on features and labels, which are public at edge level: it costs nothing.

    It weighs classes as the release does, which would look good or bad beside it for that alone.
    """
    import graphveil as gv

    method = gv.methods.Mlp(class_weight=getattr(release.method, "class_weight", "equal"))
    return gv.train(graph, method, epsilon=1, unit="edge", seed=0).evaluate("test")


def _write_predictions(found: Predictions, path: Path) -> None:
    from graphveil.runtime.folders import write_file

    write_file(path, found.to_csv().encode(), private=True)
