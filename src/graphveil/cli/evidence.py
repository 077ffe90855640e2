"""Commands that check and attack what is claimed."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphveil.cli.graphs import graph_of
from graphveil.cli.hyperparameters import (
    HYPER,
    MethodCommand,
    SubjectCommand,
    build_method,
    converted,
    import_methods,
    is_method,
)
from graphveil.cli.options import (
    App,
    AsJson,
    BudgetOptions,
    ComputeOptions,
    EvidenceGraphOptions,
    MethodName,
    OneJobOptions,
    OwnMethods,
    Quiet,
    Reading,
    Unit,
    grouped,
)
from graphveil.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from graphveil.auditing.bounds import Scores
    from graphveil.auditing.game import Inference

app = App()


@app.command()
@grouped
def verify(
    release: Annotated[Path, typer.Argument(help="Folder, as written by `train --out` or `release-graph --out`.")],
    *,
    source: EvidenceGraphOptions,
    own: OwnMethods = None,
    as_json: AsJson = False,
) -> None:
    """Check a release: its hashes, card and arithmetic; with the graph, that its plan is the method's own.

    Exit code 2, and a sentence, if something is wrong. Nothing is spent.
    """
    import graphveil as gv

    import_methods(own)
    given = source.names_private or source.names_public
    graph = graph_of(source) if given else None
    found = gv.verify(release, graph)
    certificate = found.certificate
    others = () if graph is None else certificate.ancestry[1:]
    elsewhere = [one.provenance.dataset for one in others if graph is not None and one.differences(graph)]
    if as_json:
        checked = ["hashes", "card", "arithmetic", *(["plan"] if given else [])]
        said = {"verified": checked, "not_made_again": elsewhere, "warnings": certificate.warnings()}
        print_json({**said, "certificate": certificate.describe()})
        return
    say(found.card())
    say(
        "verified: hashes, card, arithmetic and plan agree"
        if given
        else "verified: hashes, card and arithmetic agree; name the graph of the training to check the plan too"
    )
    for dataset in elsewhere:
        say(f"not made again: the plan on {dataset!r}, which it descends from")


@app.command(cls=SubjectCommand, epilog=HYPER)
@grouped
def audit(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(metavar="SUBJECT", help="Name of a method, or a release folder, whose card gets the finding."),
    ],
    *,
    budget: BudgetOptions,
    unit: Annotated[str | None, typer.Option(help="Who is protected: edge, node, features or label.")] = None,
    reading: Reading = "sound",
    runs: Annotated[int, typer.Option(help="Runs on both graphs together.", min=2)] = 1000,
    attack: Annotated[str | None, typer.Option(help="One attack, such as canary_edge; default: the strongest.")] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of the audit.")] = 0,
    source: EvidenceGraphOptions,
    folder: Annotated[
        Path | None, typer.Option(help="Keep what was played here, as private as the graph: an audit can be resumed.")
    ] = None,
    workers: ComputeOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Attack a method, or a release's plan, and certify what that shows. Exit code 3 if the claim is refuted.

    The most telling pair of neighbouring graphs is found in a pilot; fresh runs then give a lower bound on epsilon. A
    release is audited with its own settings, on a stand-in made of the public parts of its graph and split.
    """
    import graphveil as gv
    from graphveil.runtime.folders import settled

    named = is_method(subject)
    if not named and not settled(Path(subject)).is_dir():
        raise gv.InvalidInput(f"{subject!r} is neither a release folder nor a method; `graphveil methods` lists those")
    graph = graph_of(source, quiet=quiet)
    found = gv.audit(
        build_method(subject, context.obj) if named else Path(subject),
        graph,
        **vars(budget),
        unit=unit,
        reading=reading,
        runs=runs,
        attack=attack,
        confidence=confidence,
        seed=seed,
        folder=folder,
        compute=workers.compute(quiet),
    )
    if as_json:
        print_json(found.describe())
    else:
        say(str(found) if named else gv.load(subject).card())
    if found.verdict == "refuted":
        raise typer.Exit(3)


@app.command(cls=MethodCommand, epilog=HYPER)
@grouped
def attack(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An attack on a trained model, such as lpa or lira.")],
    method: MethodName,
    *,
    budget: BudgetOptions,
    unit: Unit = "edge",
    reading: Reading = "sound",
    sample: Annotated[int | None, typer.Option(help="How many targets are drawn, for attacks that draw them.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the attacker: --set distance=cosine. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes the model, its noise and the attacker's draws.")] = 0,
    source: EvidenceGraphOptions,
    workers: OneJobOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a model, attack it as published attacks do, and say how well that went, beside the floor.

    What comes out are statistics of the private graph, for the data holder's eyes. For a bound use `graphveil audit`.
    """
    from graphveil import checks, errors, vocabulary
    from graphveil.auditing.game import Target

    drawn = [] if sample is None else [f"sample={sample}"]
    attacker, target_unit = _attacker(name, [*drawn, *(settings or [])]), checks.parse(vocabulary.Unit, unit, "unit")
    if target_unit not in attacker.units:
        known = ", ".join(sorted(attacker.units))
        raise errors.Unsupported(f"{attacker.name()} attacks models that protect: {known}; got {unit!r}")
    made, charged = build_method(method, context.obj), checks.parse(vocabulary.Reading, reading, "reading")
    graph, compute = graph_of(source, in_parts=workers.in_parts, quiet=quiet), workers.compute(quiet)
    target = Target(graph, made, target_unit, **vars(budget), reading=charged, seed=seed, compute=compute)
    rows = [
        {"attacker": said, **_score_row(one.scores(target, seed))}
        for said, one in {attacker.name(): attacker, **attacker.floors()}.items()
    ]
    if as_json:
        told = {"attack": attacker.describe(), "method": made.describe(), "dataset": graph.name, "unit": unit}
        spent = {"epsilon": budget.epsilon, "noise": budget.noise, "seed": seed}
        print_json({**told, **spent, "result": rows[0], "floors": rows[1:]})
    else:
        print_table(rows)
        say("these are statistics of the private graph; no certificate covers them")


def _attacker(name: str, given: list[str]) -> Inference:
    """The attack on trained models called `name`, with settings KEY=VALUE."""
    from graphveil import errors
    from graphveil.auditing.game import ATTACKS, Inference

    known = {key: item for key, item in ATTACKS.ours().items() if issubclass(item, Inference)}
    if name.lower() not in known:
        raise errors.InvalidInput(f"unknown attack {name!r} on trained models; use one of: {', '.join(sorted(known))}")
    kind = known[name.lower()]
    defaults = {item.name: item.default for item in fields(kind)}
    wanted = {}
    for word in given:
        key, _, text = word.partition("=")
        if key not in defaults:
            raise errors.InvalidInput(f"{name} has no setting {key!r}; its settings: {', '.join(defaults) or 'none'}")
        wanted[key] = converted(text, type(defaults[key]), key)
    made: Inference = kind(**wanted)
    return made


def _score_row(scores: Scores) -> dict[str, Any]:
    """How well an attacker did: AUC, also by degree, and TPR at small FPR."""
    groups = {} if scores.present_degrees is None else scores.by_degree()
    by_degree = {f"auc {key} degree": round(groups[key].auc(), 4) if key in groups else None for key in ("low", "high")}
    rates = {f"tpr at {100 * rate:g} %": round(scores.tpr_at(rate), 4) for rate in (0.001, 0.01)}
    return {"auc": round(scores.auc(), 4), **by_degree, **rates, "targets": scores.runs}
