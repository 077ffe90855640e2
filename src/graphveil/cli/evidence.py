"""Commands that check and attack the claims of releases and methods."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Exit, Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.graphs import EvidenceGraph, graph_of
from graphveil.cli.hyperparameters import HYPER, MethodCommand, build_method, converted, import_methods, is_release
from graphveil.cli.output import echo, print_json, print_table

if TYPE_CHECKING:
    from graphveil.auditing.bounds import Scores
    from graphveil.auditing.game import Inference

app = options.App()


@app.command()
@options.grouped
def verify(
    release: options.ReleaseFolder,
    *,
    source: EvidenceGraph,
    own: options.OwnMethods = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a release: its hashes, card and arithmetic; with the graph, that its plan is the method's own.

    Exit code 2, and a sentence, if something is wrong. Nothing is spent.
    """
    import_methods(own)
    given = source.names_private or source.names_public
    graph = graph_of(source) if given else None
    found = gv.verify(release, graph)
    certificate, checked = found.certificate, ["hashes", "card", "arithmetic", *(["plan"] if given else [])]
    elsewhere = [
        one.provenance.dataset for one in certificate.ancestry[1:] if graph is not None and one.differences(graph)
    ]
    if as_json:
        rest = {"not_made_again": elsewhere, "warnings": certificate.warnings()}
        print_json({"verified": checked, **rest, "certificate": certificate.describe()})
        return
    more = "" if given else "; name the graph of the training to check the plan too"
    echo(f"{found.card()}\nverified: {', '.join(checked[:-1])} and {checked[-1]} agree{more}")
    for dataset in elsewhere:
        echo(f"not made again: the plan on {dataset!r}, which it descends from")


@app.command(cls=MethodCommand, epilog=HYPER)
@options.grouped
def audit(
    context: Context,
    subject: Annotated[str, Argument(metavar="SUBJECT", help="A method, or a release folder, which gets the result.")],
    *,
    budget: options.Budget,
    unit: Annotated[str | None, Option(help="What is protected: edge, node, features or label.")] = None,
    reading: options.Reading = "sound",
    runs: Annotated[int, Option(help="Runs on both graphs together.", min=2)] = 1000,
    attack: Annotated[str | None, Option(help="One attack, such as canary_edge; default: the strongest.")] = None,
    confidence: Annotated[float, Option(help="Confidence of the lower bound.")] = 0.99,
    seed: Annotated[int, Option(help="Seed of the audit.")] = 0,
    source: EvidenceGraph,
    folder: Annotated[Path | None, Option(help="Keep runs here, private as the graph, to resume.")] = None,
    workers: options.Jobs,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack a method, or a release's plan, for a lower bound on epsilon. Exit code 3 if the claim is refuted.

    A pilot finds the pair of neighbouring graphs that is easiest to tell apart; fresh runs then give the bound. A
    release is audited with its own settings, on a stand-in made of the public parts of its graph and split.
    """
    folder_given = is_release(subject)
    if folder_given and context.obj:
        raise gv.InvalidInput(f"no option {next(iter(context.obj))}: a release is audited with its own settings")
    graph = graph_of(source, quiet=quiet)
    found = gv.audit(
        Path(subject) if folder_given else build_method(context, subject),
        graph,
        **vars(budget),
        unit=unit,
        reading=reading,
        runs=runs,
        attack=attack,
        confidence=confidence,
        seed=seed,
        folder=folder,
        compute=workers.compute(quiet, os.cpu_count() or 1),
    )
    if as_json:
        print_json(found.describe())
    else:
        echo(gv.load(subject).card() if folder_given else str(found))
    if found.verdict == "refuted":
        raise Exit(3)


@app.command(cls=MethodCommand, epilog=HYPER)
@options.grouped
def attack(
    context: Context,
    name: Annotated[str, Argument(metavar="NAME", help="An attack on a trained model, such as lpa or lira.")],
    method: options.MethodName,
    *,
    budget: options.Budget,
    unit: options.Unit = "edge",
    reading: options.Reading = "sound",
    sample: Annotated[int | None, Option(help="How many targets are drawn, for attacks that draw them.")] = None,
    settings: Annotated[list[str] | None, Option("--set", help="--set distance=cosine, say. Repeatable.")] = None,
    seed: Annotated[int, Option(help="Fixes the model, its noise and the attacker's draws.")] = 0,
    source: EvidenceGraph,
    workers: options.Jobs,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a model, run a published attack on it, and print its success beside that of guessing from public data.

    The results are statistics of the private graph, for the data holder alone. For a bound use `graphveil audit`.
    """
    from graphveil import checks, vocabulary
    from graphveil.auditing.game import Target

    drawn = [] if sample is None else [f"sample={sample}"]
    attacker, target_unit = _attacker(name, [*drawn, *(settings or [])]), checks.parse(vocabulary.Unit, unit, "unit")
    if target_unit not in attacker.units:
        known = ", ".join(sorted(attacker.units))
        raise gv.Unsupported(f"{attacker.name()} attacks models that protect: {known}; got {unit!r}")
    made, charged = build_method(context, method), checks.parse(vocabulary.Reading, reading, "reading")
    graph, compute = graph_of(source, in_parts=workers.in_parts, quiet=quiet), workers.compute(quiet)
    target = Target(graph, made, target_unit, **vars(budget), reading=charged, seed=seed, compute=compute)
    rows = [
        {"attacker": label, **_score_row(one.scores(target, seed))}
        for label, one in {attacker.name(): attacker, **attacker.floors()}.items()
    ]
    if as_json:
        run = {"attack": attacker.describe(), "method": made.describe(), "dataset": graph.name, "unit": unit}
        terms = {"epsilon": budget.epsilon, "noise": budget.noise, "seed": seed}
        print_json({**run, **terms, "result": rows[0], "floors": rows[1:]})
    else:
        print_table(rows)
        echo("these are statistics of the private graph; no certificate covers them")


def _attacker(name: str, given: list[str]) -> Inference:
    """The attack on trained models called `name`, with settings KEY=VALUE."""
    from graphveil.auditing.game import ATTACKS, Inference

    known = {key: item for key, item in ATTACKS.ours().items() if issubclass(item, Inference)}
    if name.lower() not in known:
        raise gv.InvalidInput(f"unknown attack {name!r} on trained models; use one of: {', '.join(sorted(known))}")
    kind, settings = known[name.lower()], dict(word.partition("=")[::2] for word in given)
    defaults = {item.name: item.default for item in fields(kind)}
    if unknown := [key for key in settings if key not in defaults]:
        raise gv.InvalidInput(f"{name} has no setting {unknown[0]!r}; its settings: {', '.join(defaults) or 'none'}")
    made: Inference = kind(**{key: converted(text, type(defaults[key]), f"--{key}") for key, text in settings.items()})
    return made


def _score_row(scores: Scores) -> dict[str, Any]:
    """The scores of an attacker: AUC, also by degree, and TPR at small FPR."""
    groups = {} if scores.present_degrees is None else scores.by_degree()
    by_degree = {f"auc {key} degree": round(groups[key].auc(), 4) if key in groups else None for key in ("low", "high")}
    rates = {f"tpr at {100 * rate:g} %": round(scores.tpr_at(rate), 4) for rate in (0.001, 0.01)}
    return {"auc": round(scores.auc(), 4), **by_degree, **rates, "targets": scores.runs}
