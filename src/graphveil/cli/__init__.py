"""The command line. Heavy imports wait until a command runs, so that `--help` answers at once."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import MISSING, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
import typer.core

if TYPE_CHECKING:
    from graphveil.evidence.bounds import Scores
    from graphveil.evidence.game import Inference
    from graphveil.graph.graph import Graph
    from graphveil.methods.bases.method import Method
    from graphveil.release.release import Release

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # What an error leaves in local variables may be private data.
    pretty_exceptions_show_locals=False,
    help="Private graph learning with proofs.",
)
ledger_app = typer.Typer(no_args_is_help=True, help="Budgets per dataset: open one, see what is spent.")
data_app = typer.Typer(no_args_is_help=True, help="Your data on disk: pack a graph that memory cannot hold.")
bench_app = typer.Typer(no_args_is_help=True, help="Experiments: run a spec (resumable), show its table.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"graphveil {version('graphveil')}")
        raise typer.Exit


@app.callback()
def _options(
    show: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.add_typer(data_app, name="data")
app.add_typer(ledger_app, name="ledger")
app.add_typer(bench_app, name="bench")

_BYTES, _WIDTH = 8, 1024
"""What a release takes for a score or a weight, and weights for every feature: generous, to see a full disk early."""

_HYPER = "Hyper-parameters are flags too: --hops 2 --learning-rate 0.1. `graphveil methods METHOD` lists them."


class MethodCommand(typer.core.TyperCommand):
    """A command whose first argument is a method; that method's hyper-parameters are flags of the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--flag value` and `--flag=value` of the method out before the ordinary options are read."""
        if not {"--help"} & set(args):
            args, ctx.obj = _split_flags(args, {name for param in self.params for name in param.opts})
        return super().parse_args(ctx, args)


MethodName = Annotated[str, typer.Argument(metavar="METHOD", help="Name of a method; `graphveil methods` lists them.")]
Data = Annotated[
    str | None,
    typer.Argument(metavar="[DATASET]", help="Name of a dataset, unless --edges or --packed is given."),
]
Edges = Annotated[Path | None, typer.Option(help="Your own graph: edge table (.csv, .parquet), source and target.")]
Nodes = Annotated[Path | None, typer.Option(help="Your own graph: node table with id, label, features, maybe split.")]
Packed = Annotated[Path | None, typer.Option(help="Your own graph: folder written by `graphveil data pack`.")]
PublicEdges = Annotated[Path | None, typer.Option(help="Edge table of a public graph: not protected.")]
PublicNodes = Annotated[Path | None, typer.Option(help="Node table of the public graph; labels may be missing.")]
Directed = Annotated[bool, typer.Option("--directed", help="Edges have a direction.")]
Clean = Annotated[bool, typer.Option("--clean", help="Drop self-loops and duplicates instead of refusing them.")]
Split = Annotated[str, typer.Option(help="random (75/10/15), public or per_class; your own graph's split comes first.")]
InferSplit = Annotated[
    str,
    typer.Option(
        help="As in training; none: your own graph, on which the model was not trained. Your graph's split comes first."
    ),
]
TrainSplit = Annotated[
    str | None,
    typer.Option(
        help="random (75/10/15), public, per_class or, for a private graph beside a public one, two_graphs; your own "
        "graph's split comes first. Default: random; all nodes train where --public-nodes is given."
    ),
]
SplitSeed = Annotated[int, typer.Option(help="Seed of the split.")]
SplitReadsLabels = Annotated[
    bool, typer.Option("--split-reads-labels", help="Your graph's own split was drawn by looking at labels.")
]
EveryIdPresent = Annotated[
    bool, typer.Option("--every-id-present", help="You state that no id is blank: then its degrees may be counted.")
]
PopulationDegrees = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|TABLE",
        help="You state how many training ids each id points to at most, whoever is present: one number for all, or a "
        "table with the columns id and degree (a packed graph's or a dataset's ids are 0, 1, ...).",
    ),
]
Unit = Annotated[str, typer.Option(help="Who is protected: edge, node, features or label.")]
Reading = Annotated[str, typer.Option(help="Whose proof is charged: sound or published.")]
Epsilon = Annotated[float | None, typer.Option(help="Target epsilon; the noise is calibrated to it.")]
Noise = Annotated[float | None, typer.Option(help="Noise multiplier instead of a target epsilon.")]
Delta = Annotated[float | None, typer.Option(help="Delta; default: a power of ten below 1/(10 nodes).")]
Seed = Annotated[int | None, typer.Option(help="Fixes everything, noise included: not for release.")]
Secure = Annotated[bool, typer.Option("--secure", help="With --seed: keep the noise cryptographic.")]
LedgerFile = Annotated[Path | None, typer.Option(help="Ledger file that counts this spending.")]
EngineName = Annotated[str, typer.Option("--engine", help="local, ray (started here), or ray=ADDRESS of a cluster.")]
Jobs = Annotated[int, typer.Option(help="Worker processes of the local engine.", min=1)]
SpecName = Annotated[str, typer.Argument(metavar="SPEC", help="A spec file, or a name from `bench list`.")]
RecordFolder = Annotated[Path, typer.Option("--out", help="Folder of the records; what is interrupted goes on there.")]
KeptFiles = Annotated[
    list[Path], typer.Argument(metavar="RESULTS...", help="Files written by `bench run --results`.", dir_okay=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[METHOD]", help="Show one method in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or the hyper-parameters of one."""
    from graphveil import discover

    kinds = [discover.method(name)] if name else list(discover.methods().values())
    rows = [_method_row(kind) for kind in kinds]
    if as_json:
        _print_json(rows[0] if name else rows)
    elif name:
        _say(f"{rows[0]['name']}: {rows[0]['about']}\nprotects: {', '.join(rows[0]['units'])}\n")
        _print_table([{"flag": f"--{k.replace('_', '-')}", "default": v} for k, v in rows[0]["parameters"].items()])
    else:
        _print_table([{"method": r["name"], "protects": ", ".join(r["units"]), "about": r["about"]} for r in rows])


@app.command()
def datasets(as_json: AsJson = False) -> None:
    """List the datasets and whether their files are here."""
    from graphveil.datasets import describe

    _print_rows(describe(), as_json)


@app.command(cls=MethodCommand, epilog=_HYPER)
def account(
    context: typer.Context,
    method: MethodName,
    unit: Unit,
    epsilon: Epsilon = None,
    noise: Noise = None,
    delta: Delta = None,
    reading: Reading = "sound",
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 10_000,
    features: Annotated[int, typer.Option(help="Number of features.")] = 128,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    train: Annotated[int | None, typer.Option(help="Number of training nodes; default 75 %.")] = None,
    directed: Directed = False,
    as_json: AsJson = False,
) -> None:
    """Plan a budget without any data: the noise for an epsilon, or the epsilon of a noise."""
    from graphveil.graph.sealing import Public
    from graphveil.planning import Terms, planned

    made = _build(method, context.obj)
    sizes = Public.blank(nodes, features, classes, not directed, train)
    found = planned(made, sizes, Terms(unit, epsilon, noise, delta, reading))
    plan = found.plan
    answer = {
        "method": made.name(),
        "unit": plan.adjacency.unit.value,
        "protects": str(plan.adjacency),
        "reading": plan.reading.value,
        "epsilon": found.epsilon,
        "delta": found.delta,
        "noise": found.noise,
        "steps": [_step_row(step) for step in plan.steps],
        "refuted": list(plan.refuted),
        "assumes": list(plan.assumes),
    }
    if as_json:
        _print_json(answer)
        return
    for key in ("method", "protects", "reading", "epsilon", "delta", "noise"):
        _say(f"{key:<10} {answer[key]}")
    for step in plan.steps:
        _say(f"step       {step.name} x {step.times}: {step.act} charged as {step.claim}")
    for item in plan.assumes:
        _say(f"assumes    {item}")
    for reason in plan.refuted:
        _say(f"REFUTED    {reason}")


@app.command(cls=MethodCommand, epilog=_HYPER)
def train(
    context: typer.Context,
    method: MethodName,
    unit: Unit,
    dataset: Data = None,
    epsilon: Epsilon = None,
    noise: Noise = None,
    delta: Delta = None,
    reading: Reading = "sound",
    edges: Edges = None,
    nodes: Nodes = None,
    packed: Packed = None,
    public_edges: PublicEdges = None,
    public_nodes: PublicNodes = None,
    directed: Directed = False,
    clean: Clean = False,
    split: TrainSplit = None,
    split_seed: SplitSeed = 0,
    split_reads_labels: SplitReadsLabels = False,
    every_id_present: EveryIdPresent = False,
    population_degrees: PopulationDegrees = None,
    seed: Seed = None,
    secure: Secure = False,
    ledger: LedgerFile = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the release.")] = None,
    record: Annotated[Path | None, typer.Option(help="File for the run's JSON record (scores included).")] = None,
    summary: Annotated[
        Path | None, typer.Option(help="File for a page of the run (scores included): not into the release's folder.")
    ] = None,
    engine: EngineName = "local",
    jobs: Jobs = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a private model, print its certificate, and save the release. Under torchrun, in several processes."""
    import graphveil as gv
    from graphveil.bench.record import Stopwatch, record_of
    from graphveil.release.keeping import accountable
    from graphveil.runtime.compute import Compute
    from graphveil.runtime.distributed import joined
    from graphveil.runtime.folders import write_file

    made = _build(method, context.obj)
    with accountable() as so_far:
        with joined() as crew, _progress(quiet or not crew.first), Compute(engine=engine, jobs=jobs).used():
            if crew.first:
                _require_release(out)
                _require_files(out, record, summary, ledger)
            graph = _graph_beside(
                dataset, edges, nodes, packed, public_edges, public_nodes, directed, clean, split, split_seed
            )
            graph = _stated(graph, nodes, every_id_present, population_degrees, split_reads_labels)
            if crew.first:
                _require_space(out, graph)
            book = gv.Ledger(ledger) if ledger is not None and crew.first else None
            with Stopwatch() as watch:
                release = gv.train(
                    graph,
                    made,
                    epsilon=epsilon,
                    noise=noise,
                    delta=delta,
                    unit=unit,
                    reading=reading,
                    seed=seed,
                    secure=True if secure else None,
                    ledger=book,
                )
        if not crew.first:
            return
        so_far.spend(release.certificate)
        # First of all: scoring can fail for want of memory, and the budget is spent.
        if out is not None:
            so_far.keep(release.save, out)
        entry = record_of(release, graph, watch)
        if record is not None:
            write_file(record, (_json(entry) + "\n").encode(), private=True)
        if summary is not None:
            write_file(summary, _summary(release, entry).encode(), private=True)
    if as_json:
        _print_json(entry)
    else:
        _print_release(release, entry, out)


@app.command(cls=MethodCommand, epilog=_HYPER)
def release_graph(
    context: typer.Context,
    method: MethodName,
    out: Annotated[Path, typer.Option(help="Folder for the edge list and its certificate.")],
    dataset: Data = None,
    unit: Unit = "edge",
    epsilon: Epsilon = None,
    noise: Noise = None,
    delta: Delta = None,
    reading: Reading = "sound",
    edges: Edges = None,
    nodes: Nodes = None,
    packed: Packed = None,
    directed: Directed = False,
    clean: Clean = False,
    split: Split = "random",
    split_seed: SplitSeed = 0,
    seed: Seed = None,
    secure: Secure = False,
    ledger: LedgerFile = None,
    format: Annotated[str, typer.Option(help="Of the edge list: parquet or csv.")] = "parquet",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a perturbed graph, with its certificate, for use in any tool. No model is trained.

    The columns source and target hold positions 0, 1, ... of the nodes: rows of the node table in their order. An
    undirected edge is listed once. graph.json, and the Parquet file's metadata, give the number of nodes.
    """
    import graphveil as gv
    from graphveil.core import parse
    from graphveil.release.edges import Format, require_writable
    from graphveil.release.keeping import accountable
    from graphveil.runtime.folders import require_room

    made, kind = _build(method, context.obj), parse(Format, format, "format")
    require_writable(out, kind)
    require_room(out)
    _require_files(out, ledger)
    with accountable() as so_far:
        with _progress(quiet):
            graph = _graph(dataset, edges, nodes, packed, directed, clean, split, split_seed)
            _require_space(out, graph)
            released = gv.release_graph(
                graph,
                made,
                epsilon=epsilon,
                noise=noise,
                delta=delta,
                unit=unit,
                reading=reading,
                seed=seed,
                secure=True if secure else None,
                ledger=None if ledger is None else gv.Ledger(ledger),
            )
        so_far.spend(released.certificate)
        so_far.keep(partial(released.save, format=kind), out)
    if as_json:
        sizes = {"nodes": released.num_nodes, "edges": released.edges.shape[1], "undirected": released.undirected}
        _print_json({"folder": str(out), "file": kind.file, **sizes, "certificate": released.certificate.describe()})
    else:
        _say(f"{released.card()}\n  saved       {out / kind.file}")


@app.command()
def infer(
    release: Annotated[Path, typer.Argument(help="Release folder, as written by `train --out`.")],
    dataset: Data = None,
    edges: Edges = None,
    nodes: Nodes = None,
    packed: Packed = None,
    public_edges: PublicEdges = None,
    public_nodes: PublicNodes = None,
    directed: Directed = False,
    clean: Clean = False,
    split: InferSplit = "random",
    split_seed: SplitSeed = 0,
    epsilon: Annotated[float | None, typer.Option(help="Spend this on the given graph's own edges or nodes.")] = None,
    noise: Noise = None,
    delta: Delta = None,
    seed: Seed = None,
    ledger: LedgerFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file for node, class and probabilities; ids that start like a formula (=1) get a leading '."
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict with a release: free from released state; with --epsilon, on another private graph at a cost."""
    import graphveil as gv
    from graphveil.core import rounded
    from graphveil.release.keeping import accountable
    from graphveil.release.serving import remarks

    _require_files(None, out, ledger)
    if nodes is not None and edges is None:
        raise gv.InvalidInput("--nodes needs --edges: a graph of your own is two tables")
    loaded = gv.load(release)
    graph = None
    if public_edges is not None or public_nodes is not None:
        if any(given is not None for given in (dataset, edges, nodes, packed, epsilon, noise)):
            raise gv.InvalidInput(
                "a public graph is labelled alone and for free: give --public-edges and --public-nodes"
            )
        graph = _public_graph(public_edges, public_nodes, directed, clean, None, 0)
    elif loaded.method.reads.public_nodes and (edges is not None or packed is not None):
        raise gv.InvalidInput("this release labels public nodes: give --public-edges and --public-nodes")
    elif dataset is not None or edges is not None or packed is not None:
        with _progress(quiet):
            graph = _graph(dataset, edges, nodes, packed, directed, clean, split, split_seed)
    with accountable() as so_far:
        cost = loaded.prediction_cost
        if epsilon is not None or noise is not None:
            if graph is None:
                raise gv.InvalidInput(
                    "--epsilon and --noise spend budget on a graph: name a dataset or give --edges or --packed"
                )
            book = None if ledger is None else gv.Ledger(ledger)
            with _progress(quiet):
                loaded = gv.infer(loaded, graph, epsilon=epsilon, noise=noise, delta=delta, seed=seed, ledger=book)
            spent = loaded.certificate
            so_far.spend(spent)
            cost = f"epsilon {rounded(spent.plan_epsilon, places=4)} at delta {spent.delta:g} of {graph.name!r}"
            if spent.guarantees[0].releases > 1:
                cost += f"; with the releases before it on the same data, epsilon {rounded(spent.epsilon, places=4)}"
        elif graph is not None:
            cost += remarks(loaded.method, graph)
        probabilities = loaded.predict_proba(graph)
        labels = probabilities.argmax(dim=1)
        if out is not None:
            so_far.keep(
                partial(_write_predictions, nodes or public_nodes, labels.tolist(), probabilities.tolist()), out
            )
    if as_json:
        certificate = loaded.certificate.describe()
        _print_json({"cost": cost, "certificate": certificate, "predictions": labels.tolist()})
    else:
        _say(loaded.card())
        _say(f"{len(labels)} predictions; cost: {cost}")
        _say(f"written to {out}" if out else f"first ten: {labels[:10].tolist()}; --out FILE writes all")


@app.command()
def verify(
    release: Annotated[Path, typer.Argument(help="Folder, as written by `train --out` or `release-graph --out`.")],
    dataset: Data = None,
    edges: Edges = None,
    nodes: Nodes = None,
    packed: Packed = None,
    public_edges: PublicEdges = None,
    public_nodes: PublicNodes = None,
    directed: Directed = False,
    clean: Clean = False,
    split: TrainSplit = None,
    split_seed: SplitSeed = 0,
    every_id_present: EveryIdPresent = False,
    population_degrees: PopulationDegrees = None,
) -> None:
    """Check a release: its hashes, card and arithmetic; with the graph, that its plan is the method's own.

    Exit code 2, and a sentence, if something is wrong. Nothing is spent.
    """
    import graphveil as gv

    given = any(each is not None for each in (dataset, edges, nodes, packed, public_edges, public_nodes))
    graph = None
    if given:
        graph = _graph_beside(
            dataset, edges, nodes, packed, public_edges, public_nodes, directed, clean, split, split_seed
        )
        graph = _stated(graph, nodes, every_id_present, population_degrees)
    found = gv.verify(release, graph)
    _say(found.card())
    _say(
        "verified: hashes, card, arithmetic and plan agree"
        if given
        else "verified: hashes, card and arithmetic agree; name the graph of the training to check the plan too"
    )
    for parent in found.certificate.ancestry[1:]:
        if graph is not None and parent.differences(graph):
            _say(f"not made again: the plan on {parent.provenance.dataset!r}, which it descends from")


@app.command(cls=MethodCommand, epilog=_HYPER)
def audit(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(metavar="SUBJECT", help="Name of a method, or a release folder, whose card gets the finding."),
    ],
    dataset: Data = None,
    epsilon: Epsilon = None,
    noise: Noise = None,
    delta: Delta = None,
    unit: Annotated[str | None, typer.Option(help="Who is protected: edge, node, features or label.")] = None,
    reading: Reading = "sound",
    runs: Annotated[int, typer.Option(help="Runs on both graphs together.", min=2)] = 1000,
    attack: Annotated[str | None, typer.Option(help="One attack, such as canary_edge; default: the strongest.")] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of the audit.")] = 0,
    edges: Edges = None,
    nodes: Nodes = None,
    packed: Packed = None,
    public_edges: PublicEdges = None,
    public_nodes: PublicNodes = None,
    directed: Directed = False,
    clean: Clean = False,
    split: TrainSplit = None,
    split_seed: SplitSeed = 0,
    every_id_present: EveryIdPresent = False,
    population_degrees: PopulationDegrees = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keep what was played here, as private as the graph: an audit can be resumed.")
    ] = None,
    engine: EngineName = "local",
    jobs: Annotated[int | None, typer.Option(help="Worker processes; default: all cores.", min=1)] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Attack a method, or a release's plan, and certify what that shows. Exit code 3 if the claim is refuted.

    The most telling pair of neighbouring graphs is found in a pilot; fresh runs then give a lower bound on epsilon. A
    release is audited with its own settings, on a stand-in made of the public parts of its graph and split.
    """
    import graphveil as gv
    from graphveil import discover
    from graphveil.runtime.compute import Compute
    from graphveil.runtime.folders import settled

    named = subject.lower() in discover.methods()
    if not named and not settled(Path(subject)).is_dir():
        raise gv.InvalidInput(f"{subject!r} is neither a release folder nor a method; `graphveil methods` lists those")
    with _progress(quiet):
        graph = _graph_beside(
            dataset, edges, nodes, packed, public_edges, public_nodes, directed, clean, split, split_seed
        )
        graph = _stated(graph, nodes, every_id_present, population_degrees)
        found = gv.audit(
            _build(subject, context.obj) if named else Path(subject),
            graph,
            epsilon=epsilon,
            noise=noise,
            delta=delta,
            unit=unit,
            reading=reading,
            runs=runs,
            attack=attack,
            confidence=confidence,
            seed=seed,
            folder=folder,
            compute=Compute(engine=engine, jobs=jobs or os.cpu_count() or 1),
        )
    if as_json:
        _print_json(found.describe())
    else:
        _say(str(found) if named else gv.load(subject).card())
    if found.verdict == "refuted":
        raise typer.Exit(3)


@app.command(cls=MethodCommand, epilog=_HYPER)
def attack(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An attack on a trained model, such as lpa or lira.")],
    method: MethodName,
    dataset: Data = None,
    epsilon: Epsilon = None,
    noise: Noise = None,
    delta: Delta = None,
    unit: Unit = "edge",
    reading: Reading = "sound",
    sample: Annotated[int | None, typer.Option(help="How many targets are drawn, for attacks that draw them.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the attacker: --set distance=cosine. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes the model, its noise and the attacker's draws.")] = 0,
    edges: Edges = None,
    nodes: Nodes = None,
    packed: Packed = None,
    public_edges: PublicEdges = None,
    public_nodes: PublicNodes = None,
    directed: Directed = False,
    clean: Clean = False,
    split: TrainSplit = None,
    split_seed: SplitSeed = 0,
    every_id_present: EveryIdPresent = False,
    population_degrees: PopulationDegrees = None,
    engine: EngineName = "local",
    jobs: Jobs = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a model, attack it as published attacks do, and say how well that went, beside the floor.

    What comes out are statistics of the private graph, for the data holder's eyes. For a bound use `graphveil audit`.
    """
    from graphveil import core
    from graphveil.evidence.game import Target
    from graphveil.runtime.compute import Compute

    drawn = [] if sample is None else [f"sample={sample}"]
    attacker, target_unit = _attacker(name, [*drawn, *(settings or [])]), core.parse(core.Unit, unit, "unit")
    if target_unit not in attacker.units:
        known = ", ".join(sorted(attacker.units))
        raise core.Unsupported(f"{attacker.name()} attacks models that protect: {known}; got {unit!r}")
    made, charged = _build(method, context.obj), core.parse(core.Reading, reading, "reading")
    with _progress(quiet), Compute(engine=engine, jobs=jobs).used():
        graph = _graph_beside(
            dataset, edges, nodes, packed, public_edges, public_nodes, directed, clean, split, split_seed
        )
        graph = _stated(graph, nodes, every_id_present, population_degrees)
        target = Target(graph, made, target_unit, epsilon, noise, delta, charged, seed)
        rows = [
            {"attacker": said, **_score_row(one.scores(target, seed))}
            for said, one in {attacker.name(): attacker, **attacker.floors()}.items()
        ]
    if as_json:
        told = {"attack": attacker.describe(), "method": made.describe(), "dataset": graph.name, "unit": unit}
        _print_json({**told, "epsilon": epsilon, "noise": noise, "seed": seed, "result": rows[0], "floors": rows[1:]})
    else:
        _print_table(rows)
        _say("these are statistics of the private graph; no certificate covers them")


@app.command()
def court(
    seed: Annotated[int, typer.Option(help="Seed of all runs.", min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs, and one case per method and unit.")] = False,
    only: Annotated[str | None, typer.Option(help="Cases of this name, or whose names begin with it: gap.")] = None,
    engine: EngineName = "local",
    jobs: Jobs = 1,
    html: Annotated[Path | None, typer.Option(help="Also write the table as a page.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write everything as JSON.")] = None,
    quiet: Quiet = False,
) -> None:
    """Refute every claim that is known to be false, attack every sound one. Exit code 1 if a verdict is unexpected."""
    from graphveil.evidence.court import hold
    from graphveil.report.court import court_page
    from graphveil.runtime.compute import Compute
    from graphveil.runtime.folders import write_file

    _require_files(None, html, json_file)
    with _progress(quiet), Compute(engine=engine, jobs=jobs).used():
        held = hold(seed, quick, only)
    if html is not None:
        write_file(html, court_page(held).encode())
    if json_file is not None:
        write_file(json_file, (json.dumps(held.describe(), indent=2) + "\n").encode())
    _print_table([ruling.row() for ruling in held.rulings])
    _say(held.footer())
    if not held.as_expected:
        raise typer.Exit(1)


@app.command()
def report(
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORDS...", help="Results as JSON: tables, attacks, a court, or folders.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    spec: Annotated[
        str | None, typer.Option(help="Folders hold records of `bench run` of this experiment (a file or a name).")
    ] = None,
) -> None:
    """Write one page of curves, brackets, attacks, tables and method cards. It opens offline, alone."""
    from graphveil.core import InvalidInput
    from graphveil.report import report as page
    from graphveil.report.records import read
    from graphveil.runtime.folders import write_file

    if out.suffix != ".html":
        raise InvalidInput(f"{out} must end in .html, so that no file of results is overwritten")
    made = page(read(records, spec))
    _require_files(None, out)
    write_file(out, made.encode())
    _say(f"{out}: {len(made.encode()) / 1e6:.1f} MB")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the release and the summary.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Train hearsay at epsilon 2 on the embedded graph, beside the non-private GCN and the graph-free MLP."""
    from graphveil.report import demonstrate
    from graphveil.runtime.folders import require_folder

    require_folder(out, out)
    with _progress(quiet):
        _say(demonstrate(out))


@data_app.command("pack")
def data_pack(
    out: Annotated[Path, typer.Option(help="Folder to write. It holds the private data: keep it as safe as those.")],
    dataset: Annotated[
        str | None, typer.Argument(metavar="[DATASET]", help="Name of a dataset, unless --edges is given.")
    ] = None,
    edges: Edges = None,
    nodes: Nodes = None,
    directed: Directed = False,
    clean: Clean = False,
    split: Split = "random",
    split_seed: SplitSeed = 0,
    split_reads_labels: SplitReadsLabels = False,
    every_id_present: EveryIdPresent = False,
    population_degrees: PopulationDegrees = None,
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
    with _progress(quiet):
        graph = _graph(dataset, edges, nodes, None, directed, clean, split, split_seed)
        graph = _stated(graph, nodes, every_id_present, population_degrees, split_reads_labels)
        folder = packed.pack(graph, out)
    size = sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        _print_json({"folder": str(folder), "dataset": graph.name, "split": graph.split, **sizes, "bytes": size})
    else:
        _say(f"{graph}\n{folder}: {size / 1e6:.1f} MB, holds the private data; use it with --packed {folder}")


@ledger_app.command("open")
def ledger_open(
    path: Annotated[Path, typer.Argument(help="Ledger file; created if needed.")],
    unit: Unit,
    epsilon: Annotated[float, typer.Option(help="Budget for all releases together.")],
    delta: Annotated[float, typer.Option(help="Delta of the budget.")],
    dataset: Data = None,
    edges: Edges = None,
    nodes: Nodes = None,
    packed: Packed = None,
    directed: Directed = False,
    clean: Clean = False,
) -> None:
    """Give a dataset its budget, once."""
    import graphveil as gv

    _require_files(None, path)
    graph = _graph(dataset, edges, nodes, packed, directed, clean, None, 0)
    gv.Ledger(path).open(graph, unit, epsilon=epsilon, delta=delta)
    _say(f"{graph.name}: epsilon {epsilon:g} at delta {delta:g}, unit {unit}")


@ledger_app.command("show")
def ledger_show(
    path: Annotated[Path, typer.Argument(help="Ledger file; it need not be writable.")],
    entries: Annotated[bool, typer.Option("--entries", help="List every reservation instead of the totals.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show budgets and what is spent of them by all plans together."""
    import graphveil as gv

    book = gv.Ledger(path)
    rows = book.entries() if entries else [_account_row(item) for item in book.accounts()]
    _print_rows(rows, as_json)


@bench_app.command("run")
def bench_run(
    specs: Annotated[
        list[str], typer.Argument(metavar="SPEC...", help="Spec files, or names from `bench list`; all: every one.")
    ],
    out: RecordFolder = Path(".bench"),
    engine: EngineName = "local",
    jobs: Jobs = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small part: small datasets, one seed, one epsilon, two grid points.")
    ] = False,
    datasets: Annotated[str | None, typer.Option(help="Only these of the datasets: NAME,NAME,...")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Also write the table as JSON to this file; of several specs, to this folder.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run experiments. What was finished before, and what they share, is not run again.

    Exit code 1 if a task failed; the table says why, and the same command tries it again.
    """
    from graphveil.bench import audits, runner, table
    from graphveil.bench.spec import load_many
    from graphveil.runtime.compute import Compute

    wanted = load_many(specs, datasets=None if datasets is None else [name.strip() for name in datasets.split(",")])
    # As given: --datasets may leave one of several, and the folder stays a folder.
    several = len(set(specs)) > 1 or "all" in specs
    files = {name: results / f"{name}.json" if several and results is not None else results for name in wanted}
    workers = Compute(engine=engine, jobs=jobs)
    for name, file in files.items():
        _require_files(None, file)
        if (quick or datasets is not None) and file is not None and file.exists():
            table.require_no_loss(wanted[name], file, quick)
    with _resumable(out), _progress(quiet):
        found = runner.run_many(list(wanted.values()), out=out, compute=workers, quick=quick)
    tables = {}
    for (name, spec), records in zip(wanted.items(), found, strict=True):
        tables[name] = table.summarise(spec, records, audits.by_claim(audits.finished(spec, out=out)))
        if (file := files[name]) is not None:
            table.write(tables[name], file)
    if as_json and several:
        _print_json({name: json.loads(table.show(rows, json=True)) for name, rows in tables.items()})
    else:
        for name, rows in tables.items():
            heading = f"{name}: {wanted[name].title}\n" if several else ""
            _say(f"{heading}{table.show(rows, json=as_json)}" + ("\n" if heading else ""))
    if failures := [record.failure for records in found for record in records if record.failure]:
        _say(f"{len(failures):,} of the tasks failed, the first with: {failures[0]}", err=True)
        raise typer.Exit(1)


@bench_app.command("list")
def bench_list(
    out: RecordFolder = Path(".bench"),
    as_json: AsJson = False,
) -> None:
    """List the experiments that ship with graphveil, and how much of each is done."""
    from graphveil.bench import runner
    from graphveil.bench.spec import load, names

    rows = [{"name": name, **runner.progress_of(load(name), out=out)} for name in names()]
    _print_rows(rows, as_json)


@bench_app.command("audit")
def bench_audit(
    spec: SpecName,
    out: RecordFolder = Path(".bench"),
    runs: Annotated[int, typer.Option(min=2, help="Runs of each claim, on both graphs together.")] = 400,
    engine: EngineName = "local",
    jobs: Jobs = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Attack every claim of an experiment on small graphs; its table then shows certified lower bounds.

    Exit code 3 if a claim is refuted.
    """
    from graphveil.bench import audits
    from graphveil.bench.spec import load
    from graphveil.runtime.compute import Compute

    wanted, workers = load(spec), Compute(engine=engine, jobs=jobs)
    with _resumable(out), _progress(quiet):
        rows = [audit.row() for audit in audits.run(wanted, out=out, compute=workers, runs=runs)]
    _print_rows(rows, as_json)
    if any(row["verdict"] == "refuted" for row in rows):
        raise typer.Exit(3)


@bench_app.command("show")
def bench_show(
    spec: SpecName,
    out: RecordFolder = Path(".bench"),
    as_json: AsJson = False,
) -> None:
    """Show an experiment's table: mean, spread, and the published figure beside ours."""
    from graphveil.bench import table

    _, rows = table.recorded(spec, out)
    _say(table.show(rows, json=as_json))


@bench_app.command("markdown")
def bench_markdown(
    results: KeptFiles,
) -> None:
    """Print kept results as one Markdown table, as in the README."""
    from graphveil.bench.table import markdown

    _say(markdown(results))


@bench_app.command("board")
def bench_board(
    results: KeptFiles,
    epsilon: Annotated[float, typer.Option(help="The epsilon at which methods are compared.")] = 4.0,
) -> None:
    """Print kept results as a leaderboard: per unit and split, methods against datasets."""
    from graphveil.bench.table import board

    _say(board(results, epsilon))


def main() -> None:
    """Run the command line; errors of ours are one sentence on stderr and exit code 2."""
    from graphveil.core import GraphveilError, escaped
    from graphveil.release.keeping import notes

    try:
        app(standalone_mode=True)
    except (GraphveilError, MemoryError) as error:
        # Under torchrun several processes speak.
        rank = f" (rank {os.environ['RANK']})" if _under_torchrun() else ""
        said = "; ".join(filter(None, (str(error) or "out of memory", notes(error))))
        typer.secho(escaped(f"error{rank}: {said}"), err=True, fg="red")
        _leave(2)
    except SystemExit as done:
        _leave(done.code)


def _leave(code: int | str | None) -> NoReturn:
    """End the process; under torchrun at once, without winding up the interpreter.

    Threads of PyTorch now and then abort one that winds up, and torchrun would then end the other processes, of which
    the first may still be scoring.
    """
    if _under_torchrun() and not isinstance(code, str):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


def _under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _split_flags(args: list[str], options: set[str]) -> tuple[list[str], dict[str, str]]:
    """Arguments without the hyper-parameters of the method they name, and those hyper-parameters."""
    from graphveil import core, discover

    name = next((word for word in args if word.lower() in discover.methods()), None)
    known = {} if name is None else {f"--{f.name.replace('_', '-')}": f.name for f in fields(discover.method(name))}
    rest: list[str] = []
    given: dict[str, str] = {}
    words = iter(args)
    for word in words:
        flag, _, value = word.partition("=")
        if flag not in known or flag in options:
            if flag.startswith("--") and flag not in options and name is not None:
                raise core.InvalidInput(f"no option {flag}; hyper-parameters of {name}: {', '.join(known)}")
            rest.append(word)
        else:
            given[known[flag]] = value or next(words, "")
    return rest, given


def _build(name: str, given: dict[str, str]) -> Method:
    """The method with the hyper-parameters that were given as flags."""
    from graphveil import discover

    kind = discover.method(name)
    defaults = {item.name: item.default for item in fields(kind)}
    made: Method = kind(**{key: _converted(text, type(defaults[key]), key) for key, text in given.items()})
    return made


def _converted(text: str, wanted: type, key: str) -> Any:
    from graphveil.core import InvalidInput

    try:
        if wanted is bool:
            return {"true": True, "false": False}[text.lower()]
        return wanted(text)
    except (KeyError, ValueError):
        raise InvalidInput(f"--{key.replace('_', '-')} takes a value of type {wanted.__name__}, got {text!r}") from None


def _attacker(name: str, given: list[str]) -> Inference:
    """The attack on trained models called `name`, with settings KEY=VALUE."""
    from graphveil import core, discover
    from graphveil.evidence.game import Inference

    known = {key: item for key, item in discover.attacks().items() if issubclass(item, Inference)}
    if name.lower() not in known:
        raise core.InvalidInput(f"unknown attack {name!r} on trained models; use one of: {', '.join(sorted(known))}")
    kind = known[name.lower()]
    defaults = {item.name: item.default for item in fields(kind)}
    wanted = {}
    for word in given:
        key, _, text = word.partition("=")
        if key not in defaults:
            raise core.InvalidInput(f"{name} has no setting {key!r}; its settings: {', '.join(defaults) or 'none'}")
        wanted[key] = _converted(text, type(defaults[key]), key)
    made: Inference = kind(**wanted)
    return made


def _score_row(scores: Scores) -> dict[str, Any]:
    """How well an attacker did: AUC, also by degree, and TPR at small FPR."""
    groups = {} if scores.present_degrees is None else scores.by_degree()
    by_degree = {f"auc {key} degree": round(groups[key].auc(), 4) if key in groups else None for key in ("low", "high")}
    rates = {f"tpr at {100 * rate:g} %": round(scores.tpr_at(rate), 4) for rate in (0.001, 0.01)}
    return {"auc": round(scores.auc(), 4), **by_degree, **rates, "targets": scores.runs}


def _graph(
    dataset: str | None,
    edges: Path | None,
    nodes: Path | None,
    packed: Path | None,
    directed: bool,
    clean: bool,
    split: str | None,
    seed: int,
) -> Graph:
    """A named dataset, or the user's own tables or packed graph (split as asked unless they say how)."""
    import graphveil as gv
    from graphveil.datasets.source import drawn

    if sum(given is not None for given in (dataset, edges, packed)) != 1:
        raise gv.InvalidInput("name one dataset, or give your own graph with --edges and --nodes, or with --packed")
    if dataset is not None:
        return gv.datasets.load(dataset, split=split or "random", seed=seed)
    graph = _own_graph(edges, nodes, packed, directed, clean)
    if graph.split != "none" or split in (None, "none"):
        return graph
    return drawn(graph, split, seed)


def _graph_beside(
    dataset: str | None,
    edges: Path | None,
    nodes: Path | None,
    packed: Path | None,
    public_edges: Path | None,
    public_nodes: Path | None,
    directed: bool,
    clean: bool,
    split: str | None,
    seed: int,
) -> Graph:
    """`_graph`, with the user's public graph beside it if there is one."""
    alone = public_edges is None and public_nodes is None
    graph = _graph(dataset, edges, nodes, packed, directed, clean, split or ("random" if alone else None), seed)
    if alone:
        return graph
    return graph.with_public(_public_graph(public_edges, public_nodes, directed, clean, nodes, graph.num_classes))


def _stated(
    graph: Graph, nodes: Path | None, every_id_present: bool, degrees: str | None, split_reads_labels: bool = False
) -> Graph:
    """The graph with what the user states of it beside its tables; `nodes` gives the ids."""
    from graphveil.core import InvalidInput

    if every_id_present and degrees is not None:
        raise InvalidInput("give --every-id-present or --population-degrees: with every id present degrees are counted")
    if split_reads_labels:
        if graph.split != "given":
            raise InvalidInput("--split-reads-labels is about the split column of your own graph, and it has none")
        graph = graph.with_split(graph.train, graph.val, graph.test, graph.split, reads_labels=True)
    if every_id_present:
        graph = graph.with_every_id_present()
    return graph if degrees is None else graph.with_degrees(_degrees(degrees, nodes, graph.num_nodes))


def _degrees(given: str, nodes: Path | None, count: int) -> int | list[int]:
    """One number for all, or the column `degree` of a table, in the order of the graph's `count` ids."""
    from graphveil.core import InvalidInput
    from graphveil.graph.tables import read_table

    if given.isascii() and given.isdigit():
        return int(given)
    table = read_table(Path(given), "population degrees")
    if not {"id", "degree"} <= set(table):
        raise InvalidInput(f"{given}: the columns id and degree are needed; got {', '.join(table)}")
    order = list(map(str, range(count) if nodes is None else read_table(nodes, "nodes")["id"].tolist()))
    told = dict(zip(map(str, table["id"].tolist()), map(str, table["degree"].tolist()), strict=True))
    if len(told) != len(table["id"]) or told.keys() != set(order):
        raise InvalidInput(f"{given} must have one row for every id of the graph, present or blank, and no others")
    try:
        return [int(told[node]) for node in order]
    except ValueError as error:
        raise InvalidInput(f"{given}: a degree is a whole number: {error}") from None


def _own_graph(edges: Path | None, nodes: Path | None, packed: Path | None, directed: bool, clean: bool) -> Graph:
    """The user's packed graph, or the one of both tables."""
    import graphveil as gv

    if packed is not None:
        if nodes is not None or directed or clean:
            raise gv.InvalidInput("--nodes, --directed and --clean are for tables; a packed graph is ready as it is")
        return gv.open_packed(packed)
    if edges is None or nodes is None:
        raise gv.InvalidInput("--edges needs --nodes, a table with the columns id, label and the features")
    return gv.Graph.from_edges(edges, nodes, undirected=not directed, clean=clean, name=edges.stem)


def _public_graph(
    edges: Path | None, nodes: Path | None, directed: bool, clean: bool, private: Path | None, classes: int
) -> Graph:
    """The user's public graph. Labels mean what they do in the private node table; without one they are numbers."""
    import graphveil as gv
    from graphveil.graph.columns import class_names
    from graphveil.graph.tables import read_table

    if edges is None or nodes is None:
        raise gv.InvalidInput("--public-edges and --public-nodes go together: the two tables of one graph")
    table = read_table(nodes, "public nodes")
    names: list[int] | list[str] = list(range(classes))
    if private is not None:
        known = read_table(private, "nodes")
        names = class_names(known["label"])
        columns = [[key for key in each if key not in ("id", "label", "split")] for each in (known, table)]
        if columns[0] != columns[1]:
            raise gv.InvalidInput(f"the feature columns of {private} and {nodes} must be the same, in the same order")
    # Without classes to compare them with, labels are of no use.
    table = table if names else {key: column for key, column in table.items() if key not in ("label", "split")}
    return gv.Graph.from_edges(edges, table, undirected=not directed, clean=clean, name=edges.stem, classes=names)


def _require_release(folder: Path | None) -> None:
    """Refuse an unusable folder for a release, if one is named, before any budget is spent."""
    from graphveil.release.release import require_replaceable
    from graphveil.runtime.folders import require_room

    if folder is not None:
        require_replaceable(folder)
        require_room(folder)


def _require_files(release: Path | None, *files: Path | None) -> None:
    """Refuse an unusable output file, if one is named, before any budget is spent.

    Files may tell what no certificate covers: none may lie in a release's folder, which may be given away.
    """
    from graphveil.runtime.folders import require_file

    for file in filter(None, files):
        require_file(file, release)


def _require_space(out: Path | None, graph: Graph) -> None:
    """Refuse a disk that is too full for a release of this graph, which is at most about so large."""
    from graphveil.runtime.folders import require_room

    if out is not None:
        require_room(out, _BYTES * (graph.num_nodes * graph.num_classes + _WIDTH * graph.num_features))


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Work whose records go into `out` as they come; an interrupt says how to go on."""
    from graphveil.runtime.folders import require_folder

    require_folder(out, out)
    try:
        yield
    except KeyboardInterrupt:
        _say(f"stopped; what is finished is kept in {out}: the same command goes on from there", err=True)
        raise typer.Exit(130) from None


def _progress(silent: bool) -> AbstractContextManager[None]:
    from graphveil.runtime.progress import quiet

    return quiet() if silent else nullcontext()


def _write_predictions(nodes: Path | None, labels: list[int], probabilities: list[list[float]], path: Path) -> None:
    """One line for every node, by the ids of the table `nodes`, else by its row in the graph."""
    from graphveil.core import InvalidInput
    from graphveil.graph.tables import read_table
    from graphveil.runtime.folders import write_file

    ids = range(len(labels)) if nodes is None else read_table(nodes, "nodes", lambda _: ["id"])["id"].to_pylist()
    if len(ids) != len(labels):
        raise InvalidInput(f"{nodes} has {len(ids)} rows, but {len(labels)} nodes were predicted; was it changed?")
    file = io.StringIO(newline="")
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["node", "class", *(f"p{label}" for label in range(len(probabilities[0])))])
    for node, label, row in zip(ids, labels, probabilities, strict=True):
        rows.writerow([_inert(str(node)), label, *(f"{value:.6f}" for value in row)])
    write_file(path, file.getvalue().encode(), private=True)


def _inert(text: str) -> str:
    """An apostrophe before what a spreadsheet would run as a formula; whole numbers such as -5 stay."""
    # Spreadsheets take full-width signs for the plain ones.
    first = unicodedata.normalize("NFKC", text[:1])
    formula = first in ("=", "+", "-", "@", "\t", "\r", "\n")
    return f"'{text}" if formula and not re.fullmatch(r"-[0-9]+", text, re.ASCII) else text


def _summary(release: Release, entry: dict[str, Any]) -> str:
    """The page of one run; it says so where the scores tell of private labels."""
    from graphveil.report import Bar, summary

    test = entry["test"]
    bars = [] if test is None else [Bar(release.method.name(), test["accuracy"], release.certificate.epsilon)]
    return summary(release, bars, entry["scores_are_private"])


def _print_release(release: Release, entry: dict[str, Any], out: Path | None) -> None:
    _say(release.card())
    for part in ("val", "test"):
        if entry[part] is not None:
            _say(f"  {part:<11} accuracy {entry[part]['accuracy']:.4f}, macro F1 {entry[part]['f1']:.4f}")
    if entry["scores_are_private"]:
        _say("  note        these scores are statistics of private labels; no certificate covers them")
    _say(f"  predict     {release.prediction_cost}")
    if out is not None:
        _say(f"  saved       {out}")


def _method_row(kind: type[Method]) -> dict[str, Any]:
    module = sys.modules[kind.__module__]
    parameters = {item.name: item.default for item in fields(kind) if item.default is not MISSING}
    about = (module.__doc__ or "").strip().partition("\n")[0]
    return {"name": kind.name(), "about": about, "units": sorted(kind.units), "parameters": parameters}


def _step_row(step: Any) -> dict[str, Any]:
    return {
        "name": step.name,
        "times": step.times,
        "act": step.act.describe(),
        "claim": step.claim.describe(),
        "why": step.why,
    }


def _account_row(item: Any) -> dict[str, Any]:
    return {
        "dataset": item.dataset,
        "fingerprint": item.fingerprint[:12],
        "protects": str(item.adjacency),
        "budget": item.epsilon,
        "delta": item.delta,
        "spent": math.ceil(item.spent * 1e6) / 1e6 if math.isfinite(item.spent) else math.inf,
        "entries": item.entries,
        "uncommitted": item.open,
    }


def _json(value: Any) -> str:
    from graphveil.core import plain

    return json.dumps(plain(value), indent=2)


def _say(text: str, err: bool = False) -> None:
    """Print lines; what does not print in a name, a path or a cell is shown escaped, so that it acts on no terminal."""
    from graphveil.core import escaped

    typer.echo("\n".join(map(escaped, text.split("\n"))), err=err)


def _print_json(value: Any) -> None:
    _say(_json(value))


def _print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        _print_json(rows)
    else:
        _print_table(rows)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        _say("nothing yet")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text: brackets in what errors say are no markup.
        table.add_row(*[Text("" if value is None else _cell(value)) for value in row.values()])
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _cell(value: Any) -> str:
    from graphveil.core import escaped

    return escaped(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
