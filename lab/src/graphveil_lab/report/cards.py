"""Method cards: what a method protects, what it asks of the data, and whether its published proof holds."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from graphveil.codec import always_described
from graphveil.data.sealing import Public
from graphveil.errors import GraphveilError
from graphveil.methods.baseline.best import Best
from graphveil.methods.method import METHODS, Method
from graphveil.planning import plan_of
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit
from graphveil_lab.bench.kept import KeptLine


@dataclass(frozen=True)
class Card:
    """What a reader of a table wants to know of a method."""

    name: str
    about: str
    queries: tuple[tuple[str, str], ...]
    """Per unit, what the defaults ask of the private data, in the sound reading."""
    refuses: tuple[tuple[str, str], ...]
    refuted: tuple[str, ...]
    reads: str
    defaults: tuple[tuple[str, str], ...]


def cards(lines: Iterable[KeptLine], others: Iterable[str]) -> list[Card]:
    """Cards of the methods behind these lines and labels, by name."""
    kinds = METHODS.ours()
    names = {name for line in lines if (name := _named(line.method, line.params, kinds))}
    names |= {name for label in others if (name := _named(label, {}, kinds))}
    # What a choice protects and releases is what its candidates do: it has no card of its own.
    names.discard(Best.name())
    return [_card(kinds[name]) for name in sorted(names)]


def _named(label: str, params: dict[str, Any], kinds: dict[str, type[Any]]) -> str | None:
    """The method that a label speaks of: by its first word, else by its hyper-parameters."""
    word = label.lower().replace(",", " ").split(" ")[0]
    if word in kinds:
        return word
    fitting = [name for name, kind in kinds.items() if params and always_described(kind) == set(params)]
    return fitting[0] if len(fitting) == 1 else None


def _card(kind: type[Method]) -> Card:
    module, units = inspect.getmodule(kind), sorted(kind.units)
    published = [_plan(made, unit, Reading.PUBLISHED) for made in (kind(), *kind.specimens()) for unit in units]
    return Card(
        name=kind.name(),
        about=((module and module.__doc__) or "").strip().partition("\n")[0],
        queries=tuple((unit.value, _queries(_plan(kind(), unit, Reading.SOUND))) for unit in units),
        refuses=tuple((unit.value, why) for unit, why in sorted(kind.refuses.items())),
        refuted=tuple(dict.fromkeys(reason for plan in published if plan for reason in plan.refuted)),
        reads=kind.reads.value,
        defaults=tuple((item.name, str(item.default)) for item in fields(kind)),
    )


def _plan(made: Method, unit: Unit, reading: Reading) -> Plan | None:
    """The plan for a graph of 10,000 nodes, of which nothing else is known; `None` where there is none."""
    try:
        return plan_of(made, Public.blank(10_000, 128, 10, True, None), Adjacency.of(unit, True), reading, 1.0)
    except GraphveilError:
        return None


def _queries(plan: Plan | None) -> str:
    if plan is None:
        return "no sound claim"
    return "; ".join(f"{step.times} x {step.name}: {type(step.act).__name__}" for step in plan.steps) or "nothing"
