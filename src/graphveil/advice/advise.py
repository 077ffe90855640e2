"""Which method and which epsilon, from public facts alone: methods are tried on graphs that are made up."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from html import escape
from typing import Any

import numpy as np

from graphveil.advice.stand_in import Assumed, adjusted_homophily, public_facts, stand_in
from graphveil.checks import parse, quoted, require_delta, require_positive
from graphveil.codec import plain
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import GraphveilError, InvalidInput, Unsupported
from graphveil.methods import flagship
from graphveil.methods.baseline.best import Best
from graphveil.methods.baseline.gcn import Gcn
from graphveil.methods.baseline.mlp import Mlp
from graphveil.methods.method import METHODS, Method
from graphveil.planning import Terms, cautions, default_delta, plan_of, planned
from graphveil.release.statement import even_odds
from graphveil.run import train
from graphveil.runtime.compute import Compute
from graphveil.runtime.progress import QUIET, Progress
from graphveil.vocabulary import Adjacency, Reading, Unit

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
LIMIT = 2000
"""Nodes of a stand-in at most."""

RIVALS = 2
"""Methods that are tried at every epsilon beside the flagship of the unit."""

WORTHWHILE = 0.01
"""Gain over what is free above which a method is recommended."""

_KEPT = 0.75
"""Share of a method's gain that the recommended epsilon keeps."""

_UNCHARGED = "reads nothing that is private here, or protects nobody: mlp and gcn stand for such methods"


class Metric(StrEnum):
    """The score that methods are compared by. AUTO: accuracy, or AUC where the largest class has most of the nodes."""

    AUTO = "auto"
    ACCURACY = "accuracy"
    AUC = "auc"
    BALANCED = "balanced_accuracy"

    @property
    def words(self) -> str:
        """For people."""
        return {"auc": "AUC", "balanced_accuracy": "balanced accuracy"}.get(self.value, self.value)

    def lazy(self, largest: float, classes: int) -> float:
        """The score of always naming the largest class."""
        return {"accuracy": largest, "auc": 0.5}.get(self.value, 1 / classes)


_UNEQUAL = 0.8
"""Share of the largest class above which accuracy hardly distinguishes methods."""

_LOWER = 0.5
"""Share of the assumed homophily in the second try."""


@dataclass(frozen=True)
class Expected:
    """Test scores of a method on stand-ins, the means over seeds; lowest, highest: of the score that is compared.

    noise: the multiplier that the graph itself would get for this epsilon.
    """

    epsilon: float
    noise: float
    accuracy: float
    auc: float
    balanced_accuracy: float
    f1: float
    lowest: float
    highest: float

    def score(self, metric: Metric) -> float:
        """The one that is compared."""
        found: float = getattr(self, metric.value)
        return found


@dataclass(frozen=True)
class Forecast:
    """Expected scores of a method, by epsilon, and what its guarantee would assume."""

    method: str
    expected: tuple[Expected, ...]
    assumes: tuple[str, ...] = ()

    def mean(self, metric: Metric) -> float:
        """Over all epsilons: methods are ranked by it."""
        return float(np.mean([point.score(metric) for point in self.expected]))


@dataclass(frozen=True)
class Lower:
    """Scores by method at one epsilon, on a stand-in with less homophily."""

    homophily: float
    epsilon: float
    scores: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Advice:
    """Expected scores of each method at each epsilon, and the assumptions behind them.

    methods: best first; references: `mlp`, which reads no edge, and `gcn`, which protects nobody; left_out: methods of
    the unit that were not tried at every epsilon, and why. metric: what is compared; lazy: what naming the largest
    class always reaches of it. recommended and epsilon are None where nothing is worth its price; balanced: the best
    method was trained with balanced class weights.
    """

    unit: Unit
    protects: str
    delta: float
    epsilons: tuple[float, ...]
    nodes: int
    tried_on: int
    seeds: int
    metric: Metric
    largest_class: float
    lazy: float
    methods: tuple[Forecast, ...]
    references: tuple[Forecast, ...]
    lower: Lower
    assumes: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    recommended: str | None
    epsilon: float | None
    balanced: bool
    why: str

    @property
    def odds(self) -> tuple[str, ...]:
        """What even odds about one unit can become, for every epsilon."""
        return tuple(even_odds(epsilon, self.delta) for epsilon in self.epsilons)

    @property
    def table(self) -> list[dict[str, str]]:
        """The score in per cent: a row for every method, a column for every epsilon."""
        rows = [
            {"method": one.method, **{_at(point.epsilon): _percent(point.score(self.metric)) for point in one.expected}}
            for one in self.methods
        ]
        known = [(_reference_label(one), one.expected[0].score(self.metric)) for one in self.references]
        for label, score in [*known, ("largest class", self.lazy)]:
            rows.append({"method": label, **{_at(epsilon): _percent(score) for epsilon in self.epsilons}})
        return rows

    @property
    def prices(self) -> list[dict[str, str]]:
        """A row for every epsilon: the attacker's odds, and the noise that each method would get."""
        return [
            {"epsilon": f"{epsilon:g}", "even odds become": odds}
            | {f"noise of {one.method}": f"{one.expected[place].noise:.3g}" for one in self.methods}
            for place, (epsilon, odds) in enumerate(zip(self.epsilons, self.odds, strict=True))
        ]

    @property
    def what_if(self) -> str:
        """The scores with less homophily, in words."""
        scores = ", ".join(f"{name} {_percent(score)}" for name, score in self.lower.scores)
        return f"with homophily {self.lower.homophily:g}, at epsilon {self.lower.epsilon:g}: {scores}"

    @property
    def warnings(self) -> list[str]:
        """Cautions about an epsilon or delta that hardly protects anybody."""
        return cautions(max(self.epsilons), self.delta, self.nodes)

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        fields: dict[str, Any] = plain(asdict(self))
        return {**fields, "odds": list(self.odds)}

    def to_json(self) -> str:
        """All of it."""
        return json.dumps(self.describe(), indent=2)

    def _repr_html_(self) -> str:
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.values())}</tr>" for row in self.table)
        head = "".join(f"<th>{escape(name)}</th>" for name in self.table[0])
        notes = "".join(f"<li>{escape(remark)}</li>" for remark in (*self.assumes, self.what_if, *self.warnings))
        return f"<table><tr>{head}</tr>{body}</table><p>{escape(self.why)}</p><ul>{notes}</ul>"


def advise(
    facts: Graph | Public,
    *,
    unit: Unit | str,
    epsilons: Sequence[float] = EPSILONS,
    delta: float | None = None,
    methods: Sequence[str | Method] | None = None,
    homophily: float = Assumed.homophily,
    mean_degree: float | None = None,
    largest_class: float | None = None,
    spread: float | None = None,
    limit: int = LIMIT,
    seeds: int = 2,
    metric: str = "auto",
    quiet: bool = False,
) -> Advice:
    """What to expect before anything is spent: methods of the unit, tried on stand-ins for the graph.

    `facts`: a graph, of which only what the unit leaves public is read, or sizes, `gv.Public.blank(...)`. Private parts
    are made up as assumed: see `graphveil.advice.stand_in.Assumed`. Costs nothing, and tells nothing about the graph:
    other private data gets the same advice. `methods`: names or methods; by default the flagship and the two others
    that do best in a first try at the middle epsilon. `limit`: nodes of a stand-in at most. `metric`: accuracy, auc or
    balanced_accuracy; auto takes auc, and balanced class weights, where the largest class has four fifths of the nodes.
    `quiet`: no progress is shown.
    """
    request = _Request.of(facts, unit, epsilons, delta, limit, seeds, parse(Metric, metric, "metric"))
    request = replace(request, progress=Progress(not quiet))
    assumed = Assumed(homophily, mean_degree, largest_class, spread)
    assumed.require_needed(request.facts)
    if methods is not None:
        request.named(methods)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that is not finite shows in its accuracy
        stand_ins = [stand_in(request.facts, assumed, limit, seed) for seed in range(seeds)]
        largest = float(np.mean([_largest_class(graph) for graph in stand_ins]))
        request = request.settled(largest)
        chosen, left_out = (request.named(methods), []) if methods is not None else request.screened(stand_ins[0])
        ranked = sorted(request.forecasts(chosen, stand_ins), key=lambda one: -one.mean(request.metric))
        references = tuple(request.reference(one, stand_ins) for one in (request.made(Mlp), request.made(Gcn)))
        best = next(one for one in chosen if one.name() == ranked[0].method)
        lower = request.lower(best, replace(assumed, homophily=_LOWER * homophily), limit)
    lazy = request.metric.lazy(largest, request.facts.num_classes)
    return Advice(
        unit=request.adjacency.unit,
        protects=str(request.adjacency),
        delta=request.delta,
        epsilons=request.epsilons,
        nodes=request.facts.num_nodes,
        tried_on=stand_ins[0].num_nodes,
        seeds=seeds,
        metric=request.metric,
        largest_class=largest,
        lazy=lazy,
        methods=tuple(ranked),
        references=references,
        lower=lower,
        assumes=(*request.compared(largest), *_sentences(request.facts, assumed, stand_ins[0])),
        left_out=tuple(left_out),
        balanced=getattr(best, "class_weight", "equal") != "equal",
        **_recommended(ranked[0], references[0], lazy, request.metric),
    )


@dataclass(frozen=True, eq=False)
class _Request:
    """What `advise` was given, checked, with the public facts that advice may depend on."""

    facts: Public
    adjacency: Adjacency
    epsilons: tuple[float, ...]
    delta: float
    metric: Metric
    unequal: bool = False
    progress: Progress = QUIET

    @classmethod
    def of(
        cls,
        facts: Graph | Public,
        unit: Unit | str,
        epsilons: Sequence[float],
        delta: float | None,
        limit: int,
        seeds: int,
        metric: Metric,
    ) -> _Request:
        for what, value, least in (("limit", limit, 20), ("seeds", seeds, 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(f"{what} must be a whole number of at least {least}, got {quoted(value)}")
        known_epsilons = require_epsilons(epsilons)
        if not isinstance(facts, Graph | Public):
            raise InvalidInput(
                "give a graphveil Graph, or sizes: gv.Public.blank(num_nodes, num_features, num_classes)"
            )
        adjacency = Adjacency.of(unit, facts.undirected)
        known = public_facts(facts, adjacency)
        paid = default_delta(known.num_nodes) if delta is None else require_delta(delta)
        return cls(known, adjacency, known_epsilons, paid, metric)

    def settled(self, largest: float) -> _Request:
        """With the score that is compared, once the share of the largest class is known."""
        unequal = largest >= _UNEQUAL
        if self.metric is not Metric.AUTO:
            return replace(self, unequal=unequal)
        return replace(self, unequal=unequal, metric=Metric.AUC if unequal else Metric.ACCURACY)

    def compared(self, largest: float) -> list[str]:
        """What follows from unequal classes, in words."""
        if not self.unequal:
            return []
        return [
            f"naming the largest class is right in {_percent(largest)} per cent: {self.metric.words} is compared "
            "(--metric), and methods that have class weights are trained with balanced ones"
        ]

    def made(self, kind: type[Method]) -> Method:
        """The method with its defaults; where classes are unequal, with weights that are not, if it has any."""
        weighted = self.unequal and "class_weight" in {item.name for item in fields(kind)}
        return kind(**{"class_weight": "balanced"} if weighted else {})

    def named(self, methods: Sequence[str | Method]) -> list[Method]:
        """The given methods, each of which has a plan here."""
        listed = [] if isinstance(methods, str) else methods
        made = [self.made(METHODS.find(one)) if isinstance(one, str) else one for one in listed]
        if not made or not all(isinstance(one, Method) for one in made):
            raise InvalidInput("methods must be a list of names or methods, such as ['hearsay', 'gap']")
        if len({one.name() for one in made}) < len(made):
            raise InvalidInput("a method is named twice; name each once")
        for one in made:
            if why := self.refusal(one):
                raise Unsupported(f"{one.name()} cannot be tried: {why}")
        return made

    def refusal(self, method: Method) -> str:
        """Why the method is not tried here; empty if it can be."""
        if method.needs_public:
            return "learns from a public graph beside the private one, of which there is no stand-in"
        try:
            plan = plan_of(method, self.facts, self.adjacency, Reading.SOUND, 1.0)
        except GraphveilError as error:
            return str(error)
        return _UNCHARGED if not plan.steps or any(step.claim.infinite for step in plan.steps) else ""

    def screened(self, graph: Graph) -> tuple[list[Method], list[tuple[str, str]]]:
        """The flagship and the rivals that do best in a first try, and the others of the unit with the reason."""
        unit, epsilon = self.adjacency.unit, self.epsilons[len(self.epsilons) // 2]
        found: dict[Method, float] = {}
        left_out: list[tuple[str, str]] = []
        # `Best` chooses among other methods, which are tried by themselves.
        kinds = [kind for kind in METHODS.ours().values() if unit in kind.units and kind is not Best]
        for one in self.progress.track([self.made(kind) for kind in kinds], "a first try of every method of the unit"):
            why = self.refusal(one)
            try:
                if not why:
                    found[one] = self.score(one, graph, epsilon)
            except GraphveilError as error:
                why = str(error)
            left_out += [(one.name(), why)] if why not in ("", _UNCHARGED) else []
        leader = flagship(unit)
        ordered = sorted(found, key=lambda one: (not isinstance(one, leader), -found[one]))
        words = f"did worse in a first try at epsilon {epsilon:g}"
        left_out += [(one.name(), f"{words}, {_percent(found[one])} per cent") for one in ordered[RIVALS + 1 :]]
        return ordered[: RIVALS + 1], left_out

    def scores(self, method: Method, graph: Graph, epsilon: float, seed: int) -> dict[str, float]:
        """How well the method does on a stand-in, with noise for this epsilon."""
        unit, quiet = self.adjacency.unit, Compute(quiet=True)
        made = train(graph, method, epsilon=epsilon, delta=self.delta, unit=unit, seed=seed, compute=quiet)
        found = made.evaluate("test")
        # Scores that are not finite, or nodes of a single class, have no AUC.
        return {**found, "auc": 0.5 if found["auc"] is None else found["auc"]}

    def score(self, method: Method, graph: Graph, epsilon: float) -> float:
        """The score that is compared, of one try."""
        return self.scores(method, graph, epsilon, seed=0)[self.metric.value]

    def forecasts(self, methods: Sequence[Method], stand_ins: Sequence[Graph]) -> list[Forecast]:
        """Every method at every epsilon."""
        runs = [(one, epsilon) for one in methods for epsilon in self.epsilons]
        tracked = self.progress.track(runs, "trying methods on stand-ins")
        points = [self.expected(one, epsilon, stand_ins) for one, epsilon in tracked]
        width = len(self.epsilons)
        return [
            Forecast(one.name(), tuple(points[place * width : (place + 1) * width]), self.plan_assumes(one))
            for place, one in enumerate(methods)
        ]

    def expected(self, method: Method, epsilon: float, stand_ins: Sequence[Graph]) -> Expected:
        """Over all stand-ins, a seed each; the noise is that of the graph itself."""
        noise = planned(method, self.facts, Terms(self.adjacency.unit, epsilon, delta=self.delta)).noise
        found = [self.scores(method, graph, epsilon, seed) for seed, graph in enumerate(stand_ins)]
        names = ("accuracy", "auc", "balanced_accuracy", "f1")
        means = {name: float(np.mean([scores[name] for scores in found])) for name in names}
        compared = [scores[self.metric.value] for scores in found]
        return Expected(epsilon, noise, **means, lowest=min(compared), highest=max(compared))

    def plan_assumes(self, method: Method) -> tuple[str, ...]:
        """What a certificate of the method would assume."""
        return plan_of(method, self.facts, self.adjacency, Reading.SOUND, 1.0).assumes

    def reference(self, method: Method, stand_ins: Sequence[Graph]) -> Forecast:
        """A method without noise, which reads nothing private or protects nobody."""
        free = not plan_of(method, self.facts, self.adjacency, Reading.SOUND, 0.0).steps
        point = self.expected(method, math.inf, stand_ins)
        return Forecast(method.name(), (replace(point, epsilon=0.0 if free else math.inf),))

    def lower(self, method: Method, assumed: Assumed, limit: int) -> Lower:
        """The best method and the references at the middle epsilon, with less homophily."""
        graph, epsilon = stand_in(self.facts, assumed, limit, 0), self.epsilons[len(self.epsilons) // 2]
        runs = ((method, epsilon), (self.made(Mlp), math.inf), (self.made(Gcn), math.inf))
        found = tuple((one.name(), self.score(one, graph, spent)) for one, spent in runs)
        return Lower(assumed.homophily, epsilon, found)


def require_epsilons(epsilons: Sequence[float]) -> tuple[float, ...]:
    """Different finite numbers above 0, in rising order, or a clear error."""
    if not isinstance(epsilons, Sequence):
        raise InvalidInput(f"epsilons must be a list of numbers, such as [0.5, 1, 2]; got {quoted(epsilons)}")
    known = tuple(sorted(require_positive(epsilon, "each of epsilons") for epsilon in epsilons))
    if not known or len(set(known)) < len(known):
        raise InvalidInput(f"epsilons must be different numbers, such as 0.5, 1 and 2; got {quoted(list(epsilons))}")
    return known


def _recommended(best: Forecast, mlp: Forecast, lazy: float, metric: Metric) -> dict[str, Any]:
    """The smallest epsilon that keeps most of what the best method gains over what needs no budget, and why."""
    free = {"naming the largest class": lazy}
    if mlp.expected[0].epsilon == 0:
        free["mlp, which reads no edge"] = mlp.expected[0].score(metric)
    floor = max(free, key=lambda name: free[name])
    top = max(point.score(metric) for point in best.expected)
    gain = top - free[floor]
    if gain < WORTHWHILE:
        why = f"spend nothing yet: no method here is expected to do better than {floor}, and that costs no budget"
        return {"recommended": None, "epsilon": None, "why": why}
    least = next(point for point in best.expected if point.score(metric) >= free[floor] + _KEPT * gain)
    why = (
        f"{best.method} at epsilon {least.epsilon:g}: the smallest given that keeps at least {_KEPT:.0%} of what "
        f"it gains over {floor} ({_percent(free[floor])} per cent)"
    )
    return {"recommended": best.method, "epsilon": least.epsilon, "why": why}


def _sentences(facts: Public, assumed: Assumed, graph: Graph) -> tuple[str, ...]:
    """What was made up, what was taken as it is, and what a smaller stand-in does to the figures."""
    taken = [
        word for word, part in (("features", facts.x), ("labels", facts.y), ("edges", facts.adj)) if part is not None
    ]
    sentences = [f"taken as they are, because they are public: {', '.join(['sizes', 'classes', *taken])}"]
    if facts.y is None:
        most = _percent(assumed.shares(facts.num_classes)[0])
        sentences.append(f"labels are made up: everybody has one, the largest class {most} per cent (--largest-class)")
        if facts.adj is not None:
            sentences.append(
                "labels follow communities of the public edges, which favours methods that find communities"
            )
    if facts.x is None:
        sentences.append(
            f"features are made up: normal, spread {assumed.width:g} around a centre for each class (--spread); "
            "mlp shows how well they predict classes"
        )
    if facts.adj is None:
        counted = "as stated" if assumed.mean_degree is not None else "a default, --mean-degree states yours"
        sentences.append(
            f"edges are made up, and yours were not counted: {assumed.degree(graph.num_nodes):g} a node ({counted}), "
            "with heavy-tailed degrees; none follows features beyond classes"
        )
    near = adjusted_homophily(graph.adj, graph.y.numpy())
    sentences.append(
        f"homophily, adjusted for chance, is assumed to be {assumed.homophily:g} (--homophily), and {near:.2f} in the "
        "stand-in: 0 is chance, 1 means that no edge leaves its class"
    )
    if graph.num_nodes < facts.num_nodes:
        sentences.append(
            f"tried on {graph.num_nodes:,} of {facts.num_nodes:,} nodes (--limit): with fewer nodes "
            "models learn less and noise weighs more on sums, so the full graph is likely to do better; the noise "
            "shown is that of the full graph"
        )
    return (*sentences, "expectations, and no guarantee: where the graph differs from the stand-in, so will scores")


def _largest_class(graph: Graph) -> float:
    """Its share among the test nodes, by the labels of the training nodes."""
    taught, tested = (graph.y[graph.labelled(part)] for part in ("train", "test"))
    return float((tested == taught.bincount().argmax()).float().mean())


def _reference_label(reference: Forecast) -> str:
    """What a reference costs."""
    free = reference.expected[0].epsilon == 0
    return f"{reference.method} ({'no budget' if free else 'not private'})"


def _at(epsilon: float) -> str:
    return f"ε = {epsilon:g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
