"""From what is asked for to a calibrated plan: the one place that seals, plans and calibrates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from graphveil.checks import is_number, parse, require_delta, require_positive, require_printable
from graphveil.codec import Serializable, plain
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.mechanisms.described import rebuild_plan
from graphveil.methods.described import foreign, source_of
from graphveil.methods.method import Method
from graphveil.privacy import accounting
from graphveil.runtime.distributed import ALONE, Workers
from graphveil.vocabulary import Adjacency, Plan, Reading, Step, Unit

_MAX_NOISE = 1e9
"""More would not fit into the grid that noise is added on, which a mechanism sees only when the budget is spent."""


WEAK_EPSILON = 10.0
"""Above it a guarantee is given and hardly protects: the odds may change by more than 22,000."""

_READABLE_EPSILON = 20.0
"""Up to it the odds are written out."""


@dataclass(frozen=True)
class Terms:
    """What is asked for: who is protected, how well, and by whose proof. Epsilon or noise, never both."""

    unit: Unit | str
    epsilon: float | None = None
    noise: float | None = None
    delta: float | None = None
    reading: Reading | str = Reading.SOUND


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan of `method` that meets the terms, and what it was made from.

    `sound` is the plan we can prove for the same acts, where `plan` charges a published proof. `sealed` is None where
    there is no graph yet, but sizes alone.
    """

    method: Method
    public: Public
    sealed: Sealed | None
    plan: Plan
    sound: Plan | None
    noise: float
    delta: float
    others: str = ""
    """The code that is not ours: classes of the method and its plan, and what was installed; empty if all is ours."""

    @cached_property
    def epsilon(self) -> float:
        """What the plan spends at `delta`."""
        return accounting.epsilon(self.plan, self.delta)

    @cached_property
    def sound_epsilon(self) -> float:
        """What can be proven for the same acts."""
        return self.epsilon if self.sound is None else accounting.epsilon(self.sound, self.delta)


def planned(
    method: Method, facts: Graph | Public, terms: Terms, *, learns: bool = True, workers: Workers = ALONE
) -> Planned:
    """What `method` will ask of the graph, with the noise that was given or the least that meets epsilon.

    Plans of sizes alone, without a graph, for budgets that are planned ahead. Everything is checked before private data
    is read, and a run in several processes calibrates once. learns: it is trained there, so somebody must have a label.
    """
    adjacency = Adjacency.of(terms.unit, facts.undirected)
    reading = parse(Reading, terms.reading, "reading")
    public, sealed = _sealed(method, facts, adjacency, learns) if isinstance(facts, Graph) else (facts, None)
    delta = default_delta(facts.num_nodes) if terms.delta is None else require_delta(terms.delta)
    noise = workers.agreed(lambda: _noise(method, public, adjacency, reading, terms, delta))
    sound = None if reading is Reading.SOUND else plan_of(method, public, adjacency, Reading.SOUND, noise)
    plan = plan_of(method, public, adjacency, reading, noise)
    _require_tellable(plan, sound)
    strange = foreign((method, *_parts(plan), *_parts(sound)))
    if strange:
        _require_readable(plan)
        _require_charged(sound or plan, delta)
    return Planned(method, public, sealed, plan, sound, noise, delta, ", ".join(map(source_of, strange)))


def plan_of(method: Method, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
    """What `method` plans for what is public, with this noise; refuses units that the method does not protect."""
    _require_unit(method, adjacency)
    made = method.plan(public, adjacency, reading, noise)
    if (made.adjacency, made.reading) != (adjacency, reading):
        raise Unsupported(f"{method.name()} planned for {made.adjacency}, not for {adjacency}")
    return made


def default_delta(num_nodes: int) -> float:
    """The largest power of ten that is at most 1/(10 n) and at most 1e-5."""
    return 10.0 ** min(math.floor(math.log10(1 / (10 * num_nodes))), -5)


def cautions(epsilon: float | None, delta: float, nodes: int | None) -> list[str]:
    """What numbers that are allowed, and protect hardly anybody, mean in words."""
    found = []
    if epsilon is not None and WEAK_EPSILON < epsilon < math.inf:
        found.append(
            f"epsilon {epsilon:.4g} is hardly a protection: it lets even odds about one unit become "
            f"{_odds(epsilon)} : 1; below 1 is strong, and above {WEAK_EPSILON:g} a name more than a guarantee"
        )
    if nodes is not None and delta > 1 / nodes:
        found.append(
            f"delta {delta:.3g} is above 1/n = {1 / nodes:.3g}: to publish somebody's whole record at random would "
            f"meet it; take at most {default_delta(nodes):g}"
        )
    return found


def unproven(others: str) -> str:
    """What is said of code that is not part of this library."""
    return (
        f"{others} is not part of graphveil: that one unit moves each step no further than is charged, and that "
        "nothing private leaves beside the steps, is its author's claim and not proven here"
    )


def _parts(plan: Plan | None) -> list[Serializable]:
    return [] if plan is None else [part for step in plan.steps for part in (step.act, step.claim)]


def _require_readable(plan: Plan) -> None:
    """The plan comes back from a file: a release that nobody can load must not be paid for."""
    try:
        same = rebuild_plan(plain(plan.describe())) == plan
    except Tampered as error:
        raise InvalidInput(f"no file could hold this plan, {error}; register it as a graphveil.mechanisms") from None
    if not same:
        raise InvalidInput("a file would hold another plan than this one: give its mechanisms fields of plain values")


def _require_charged(plan: Plan, delta: float) -> None:
    """No step of a method that is not ours, nor all of them together, charge less than the mechanisms cost at least.

    A mechanism whose least cost nobody knows (`least_moved`) is taken at its claim.
    """
    least = [step if step.act.least_moved is None else _least(step) for step in plan.steps]
    pairs = [
        (replace(plan, steps=(step,)), replace(plan, steps=(low,))) for step, low in zip(plan.steps, least, strict=True)
    ]
    for charged, costs in (*pairs, (plan, replace(plan, steps=tuple(least)))):
        claimed, cost = (accounting.epsilon(one, delta) for one in (charged, costs))
        if claimed < cost * (1 - 1e-9):
            step = charged.steps[0]
            raise InvalidInput(
                f"step {step.name!r} charges epsilon {claimed:.4g} in all, and {step.act} costs {cost:.4g} at least; "
                "charge act.curve(sensitivity), the sensitivity in units of its bound"
            )


def _least(step: Step) -> Step:
    """The step with the claim of what its mechanism costs where least moves."""
    assert step.act.least_moved is not None
    return replace(step, claim=step.act.curve(step.act.least_moved))


def _require_tellable(*plans: Plan | None) -> None:
    """Plans and steps are what they are said to be, in words that a card can hold."""
    for plan in filter(None, plans):
        if type(plan) is not Plan or any(type(step) is not Step for step in plan.steps):
            raise InvalidInput("a plan must be a Plan of Steps, and of no classes derived from them")
        for step in plan.steps:
            for words in (step.name, step.why, step.refuted, *step.assumes):
                require_printable(words, f"what step {step.name!r} says")


def _odds(epsilon: float) -> str:
    """e^epsilon, in full where that can be read."""
    return f"{math.exp(epsilon):,.0f}" if epsilon < _READABLE_EPSILON else f"e^{epsilon:.4g}"


def _sealed(method: Method, graph: Graph, adjacency: Adjacency, learns: bool) -> tuple[Public, Sealed]:
    """Both sides of the graph, if there is somebody to learn from and what the method needs beside."""
    public, sealed = graph.seal(adjacency)
    if learns and not bool(public.train.any()):
        known = "" if public.y is None else " with a label"
        raise InvalidInput(f"{graph.name!r} has no training nodes{known}; split it first, e.g. graph.random_split()")
    if method.needs_public:
        public.require_public_graph()
    return public, sealed


def _require_unit(method: Method, adjacency: Adjacency) -> None:
    if adjacency.unit not in method.units:
        known = ", ".join(sorted(unit.value for unit in method.units))
        why = method.refuses.get(adjacency.unit, "")
        said = f"{method.name()} does not protect {adjacency.unit.value!r}; it supports: {known}"
        raise Unsupported(f"{said}. {why}" if why else said)


def _noise(method: Method, public: Public, adjacency: Adjacency, reading: Reading, terms: Terms, delta: float) -> float:
    """The noise that was asked for, or the least that meets epsilon."""
    _require_unit(method, adjacency)
    epsilon, noise = terms.epsilon, terms.noise
    if (epsilon is None) == (noise is None):
        raise InvalidInput("give exactly one of epsilon (the noise is calibrated) and noise (the epsilon follows)")
    if noise is not None:
        return _require_drawable(0.0 if is_number(noise) and noise == 0 else require_positive(noise, "noise"))
    assert epsilon is not None
    if epsilon != math.inf:
        require_positive(epsilon, "epsilon")
    found = accounting.calibrate(lambda tried: plan_of(method, public, adjacency, reading, tried), epsilon, delta)
    return _require_drawable(found.noise)


def _require_drawable(noise: float) -> float:
    if noise > _MAX_NOISE:
        raise InvalidInput(f"a noise of {noise:.3g} is more than can be drawn, {_MAX_NOISE:g}; ask for less")
    return noise
