"""The command that plans a budget without data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from graphveil.cli import options
from graphveil.cli.hyperparameters import FLAGSHIP, HYPER, MethodCommand, build_method
from graphveil.cli.output import echo, print_json, print_table
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.planning import Planned

app = options.App()


@app.command(cls=MethodCommand, epilog=FLAGSHIP + HYPER)
@options.grouped
def account(
    context: Context,
    *,
    method: options.MethodName = "",
    unit: options.Unit,
    budget: options.Budget,
    epsilons: Annotated[str | None, Option(metavar="NUMBERS", help="Several epsilons at once: 0.5,1,2.")] = None,
    reading: options.Reading = "sound",
    nodes: Annotated[int, Option(help="Number of nodes.")] = 10_000,
    features: Annotated[int, Option(help="Number of features.")] = 128,
    classes: Annotated[int, Option(help="Number of classes.")] = 10,
    train: Annotated[int | None, Option(help="Number of training nodes; default 75 %.")] = None,
    directed: options.Directed = False,
    as_json: options.AsJson = False,
) -> None:
    """Plan a budget without any data: the noise for an epsilon or for several, or the epsilon of a noise."""
    from graphveil.data.sealing import Public
    from graphveil.planning import Terms, planned

    made = build_method(context, method, unit)
    sizes = Public.blank(nodes, features, classes, not directed, train)
    if epsilons is not None and (budget.epsilon is not None or budget.noise is not None):
        raise InvalidInput("give one of --epsilon, --epsilons and --noise")
    targets = [budget.epsilon] if epsilons is None else options.parse_epsilons(epsilons)
    budgets = [vars(replace(budget, epsilon=target)) for target in targets]
    plans = [planned(made, sizes, Terms(unit, reading=reading, **one)) for one in budgets]
    answers = [_described(one) for one in plans]
    if as_json:
        print_json(answers[0] if epsilons is None else answers)
        return
    shared = ("protects", "reading", "delta") if epsilons else ("protects", "reading", "epsilon", "delta", "noise")
    echo(f"method     {made.title()}")
    for key in shared:
        echo(f"{key:<10} {answers[0][key]}")
    if epsilons is None:
        for step in plans[0].plan.steps:
            echo(f"step       {step.name} x {step.times}: {step.act} charged as {step.claim}")
    else:
        columns = [(f"{one['epsilon']:.6g}", f"{one['noise']:.6g}", one["even_odds"]) for one in answers]
        print_table([dict(zip(("epsilon", "noise", "even odds become"), row, strict=True)) for row in columns])
    for word, key in (("assumes", "assumes"), ("REFUTED", "refuted"), ("WARNING", "warnings")):
        for item in dict.fromkeys(item for one in answers for item in one[key]):
            echo(f"{word:<10} {item}")


def _described(found: Planned) -> dict[str, Any]:
    """The costs, steps and assumptions of a plan."""
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
