"""The verbs `train`, `infer` and `release_graph`: everything else is wired here and only here."""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TypeVar

import torch

from graphveil import discover
from graphveil.core import (
    Adjacency,
    GraphveilError,
    InvalidInput,
    Plan,
    Reading,
    State,
    Unit,
    Unsupported,
    is_number,
    parse,
    require_delta,
    require_positive,
)
from graphveil.graph.graph import Graph
from graphveil.graph.sealing import Public
from graphveil.methods.bases.method import Method
from graphveil.methods.bases.released_graph import ReleasedGraph
from graphveil.privacy import accounting
from graphveil.privacy.ledger import Ledger
from graphveil.privacy.noise import Secure, Seeded, Stream, common
from graphveil.privacy.session import Session
from graphveil.release.certificate import Certificate, Provenance, Release, described_method, nonfinite
from graphveil.release.edges import ReleasedEdges
from graphveil.runtime.distributed import agreed, require_alike

T = TypeVar("T")

_MOST_NOISE = 1e9
"""More would not fit into the grid that noise is added on, which a mechanism sees only when the budget is spent."""


def train(
    graph: Graph,
    method: Method,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: Unit | str,
    reading: Reading | str = Reading.SOUND,
    seed: int | None = None,
    secure: bool | None = None,
    noise: float | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Train `method` on `graph` so that the result is (epsilon, delta)-DP for `unit`.

    Give `epsilon` (the noise is calibrated, one-sided) or `noise` (the epsilon follows). `delta` defaults
    to a tenth of one over the public number of nodes, rounded down to a power of ten, at most 1e-5.
    `seed` fixes everything; without it the noise is cryptographic. `secure=True` with a seed keeps the
    noise cryptographic and fixes the rest.
    """
    _require_kinds(graph, method, ledger)
    state, certificate = _run(graph, method, method.fit, epsilon, delta, unit, reading, seed, secure, noise, ledger)
    return _released(method, state, certificate, graph)


def infer(
    release: Release,
    graph: Graph,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int | None = None,
    secure: bool | None = None,
    noise: float | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Predict on another private graph with released weights, spending that graph's own budget.

    A seed that trained the release would give both graphs the same noise: take another.
    Returns a release whose predictions are for `graph`. It still holds the weights, so its certificate speaks of
    `graph` and of the data they were trained on; if those are the same, what both runs spent adds up.
    """
    plan = release.certificate.plan
    method, kept = release.method.chosen(release.state)
    _require_kinds(graph, method, ledger)
    if type(method).serve is Method.serve:
        raise Unsupported(
            f"{method.name()} predicts from {method.reads.value}: call release.predict(graph), which is free"
        )
    _require_same_shape(release, graph)
    unit, reading = plan.adjacency.unit, plan.reading

    def serve(session: Session) -> State:
        return method.serve(session, kept)

    state, certificate = _run(
        graph, method, serve, epsilon, delta, unit, reading, seed, secure, noise, ledger, (release.certificate,)
    )
    return _released(method, state, certificate, graph)


def release_graph(
    graph: Graph,
    method: Method,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: Unit | str = Unit.EDGE,
    reading: Reading | str = Reading.SOUND,
    seed: int | None = None,
    secure: bool | None = None,
    noise: float | None = None,
    ledger: Ledger | None = None,
) -> ReleasedEdges:
    """The perturbed graph of `method` itself, for use in any tool: no network is trained. Options as in `train`."""
    _require_kinds(graph, method, ledger)
    if not isinstance(method, ReleasedGraph):
        known = sorted(name for name, kind in discover.methods().items() if issubclass(kind, ReleasedGraph))
        raise Unsupported(f"{method.name()} releases no graph; these methods do: {', '.join(known)}")
    method.require_graph()
    found, certificate = _run(graph, method, method.arcs, epsilon, delta, unit, reading, seed, secure, noise, ledger)
    return ReleasedEdges.of(method, found, certificate)


def _require_same_shape(release: Release, graph: Graph) -> None:
    """Released weights fit one number of features and classes, and directed or undirected graphs.

    Said before the graph's budget is touched.
    """
    if graph.undirected != release.certificate.plan.adjacency.undirected:
        kind = "a directed graph" if graph.undirected else "an undirected graph"
        raise InvalidInput(f"the release was trained on {kind}, and {graph.name!r} is not one; train on it instead")
    trained = (release.state["scaling.shift"].shape[0], release.state["logits"].shape[1])
    if (graph.num_features, graph.num_classes) != trained:
        raise InvalidInput(
            f"the release was trained with {trained[0]} features and {trained[1]} classes; {graph.name!r} has "
            f"{graph.num_features} and {graph.num_classes}"
        )


def default_delta(num_nodes: int) -> float:
    """The largest power of ten that is at most 1/(10 n) and at most 1e-5."""
    return 10.0 ** min(math.floor(math.log10(1 / (10 * num_nodes))), -5)


def plan_of(method: Method, public: Public, adjacency: Adjacency, reading: Reading) -> Callable[[float], Plan]:
    """The method's plan as a function of the noise alone; refuses units the method does not support."""
    if adjacency.unit not in method.units:
        known = ", ".join(sorted(unit.value for unit in method.units))
        why = method.refuses.get(adjacency.unit, "")
        said = f"{method.name()} does not protect {adjacency.unit.value!r}; it supports: {known}"
        raise Unsupported(f"{said}. {why}" if why else said)

    def plan(noise: float) -> Plan:
        made = method.plan(public, adjacency, reading, noise)
        if (made.adjacency, made.reading) != (adjacency, reading):
            raise Unsupported(f"{method.name()} planned for {made.adjacency}, not for {adjacency}")
        return made

    return plan


def _run(
    graph: Graph,
    method: Method,
    work: Callable[[Session], T],
    epsilon: float | None,
    delta: float | None,
    unit: Unit | str,
    reading: Reading | str,
    seed: int | None,
    secure: bool | None,
    noise: float | None,
    ledger: Ledger | None,
    weights: tuple[Certificate, ...] = (),
) -> tuple[T, Certificate]:
    """What `work` makes of one metered session, and the certificate of that session.

    weights: the certificate of the release whose weights are part of the result.
    """
    adjacency = Adjacency.of(unit, graph.undirected)
    charged = parse(Reading, reading, "reading")
    parents = (*_graph_parents(graph, adjacency), *weights)
    require_alike(graph.fingerprint, "graphs")
    require_alike(graph.split_hash, "splits")
    require_alike(lambda: "" if graph.public_graph is None else graph.public_graph.fingerprint(), "public graphs")
    public, sealed = graph.seal(adjacency)
    if not bool(public.train.any()):
        known = "" if public.y is None else " with a label"
        raise InvalidInput(f"{graph.name!r} has no training nodes{known}; split it first, e.g. graph.random_split()")
    if method.needs_public:
        public.require_public_graph()
    spend = default_delta(graph.num_nodes) if delta is None else require_delta(delta)
    plans = plan_of(method, public, adjacency, charged)
    chosen = agreed(lambda: choose_noise(plans, epsilon, noise, spend))
    hidden = (seed is None) if secure is None else secure
    if seed is not None or not hidden:
        _require_seed(seed)
    source: Stream = Secure() if hidden else Seeded(_require_seed(seed))
    certificate = Certificate(
        plan=plans(chosen),
        delta=spend,
        provenance=_provenance(graph, method, adjacency, chosen, source, seed),
        sound=None if charged is Reading.SOUND else plan_of(method, public, adjacency, Reading.SOUND)(chosen),
        parents=parents,
    )
    # The ledger never believes a published proof: it charges what we can prove for the same acts.
    charge = certificate.sound or certificate.plan
    # Edges that a release has told are paid for.
    ledger = None if certificate.provenance.released else ledger
    with _noted("a reservation was under way: `graphveil ledger show --entries` tells whether it counts", Exception):
        entry = agreed(lambda: "" if ledger is None else ledger.reserve(graph, charge, method.name()))
    certificate = replace(certificate, provenance=replace(certificate.provenance, ledger_entry=entry))
    session = Session(public, sealed, certificate.plan, common(source))
    spent = f"ledger entry {entry} counts as spent" if entry else "no ledger was given, so nothing was reserved"
    with _noted(f"{spent}; nothing was released"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(agreed(lambda: secrets.randbits(63)) if seed is None else seed)
        made = work(session)
        agreed(lambda: None if ledger is None else _note_commit(ledger, entry))
    return made, certificate


@contextmanager
def _noted(words: str, told: type[BaseException] | tuple[()] = ()) -> Iterator[None]:
    """What ends the block early says what was spent, unless it is an error that is `told` anyway."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, told):
            error.add_note(words)
        raise


def _graph_parents(graph: Graph, adjacency: Adjacency) -> list[Certificate]:
    """The certificates of the releases that told the graph's edges, or those of the public graph beside it."""
    lines = [each.lineage for each in (graph, graph.public_graph) if each is not None and each.lineage is not None]
    parents = [Certificate.from_json(line.certificate) for line in lines]
    if graph.lineage is not None and parents[0].plan.adjacency != adjacency:
        raise Unsupported(
            f"the edges of {graph.name!r} were released under another protection ({parents[0].plan.adjacency}) than "
            f"this one ({adjacency}): guarantees under different adjacencies do not add up. Take the same unit"
        )
    return parents


def _released(method: Method, state: State, certificate: Certificate, graph: Graph) -> Release:
    """The release, with a warning if it is none: what was spent is spent, and the caller may want to look."""
    if broken := nonfinite(state):
        warnings.warn(
            f"{method.name()} ended in numbers that are not finite ({', '.join(broken)}), so this is no model and "
            "cannot be saved; take a smaller learning rate or less noise, or scale the features",
            stacklevel=3,
        )
    return Release(method, state, certificate, graph)


def _require_kinds(graph: Graph, method: Method, ledger: Ledger | None) -> None:
    if not isinstance(graph, Graph) or not isinstance(method, Method):
        raise InvalidInput("give a graphveil Graph and a method, e.g. gv.methods.Gap()")
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise InvalidInput(f"ledger must be a ledger: gv.Ledger({ledger!r})")


def _note_commit(ledger: Ledger, entry: str) -> None:
    """The reservation already counts; a ledger that cannot be written now must not cost the model."""
    try:
        ledger.commit(entry)
    except GraphveilError as error:
        warnings.warn(f"{entry} stays uncommitted in {ledger.path} (it is counted as spent): {error}", stacklevel=2)


def choose_noise(plans: Callable[[float], Plan], epsilon: float | None, noise: float | None, delta: float) -> float:
    """The noise that was asked for, or the least that meets epsilon; checks both before anything is read."""
    if (epsilon is None) == (noise is None):
        raise InvalidInput("give exactly one of epsilon (the noise is calibrated) and noise (the epsilon follows)")
    if noise is not None:
        return _require_drawable(0.0 if is_number(noise) and noise == 0 else require_positive(noise, "noise"))
    assert epsilon is not None
    if epsilon != math.inf:
        require_positive(epsilon, "epsilon")
    return _require_drawable(accounting.calibrate(plans, epsilon, delta).noise)


def _require_drawable(noise: float) -> float:
    if noise > _MOST_NOISE:
        raise InvalidInput(f"a noise of {noise:.3g} is more than can be drawn, {_MOST_NOISE:g}; ask for less")
    return noise


def _require_seed(seed: int | None) -> int:
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise InvalidInput(f"a seed must be a whole number in 0..2^63 - 1, got {seed!r}; noise needs one if not secure")
    return seed


def _provenance(
    graph: Graph, method: Method, adjacency: Adjacency, noise: float, source: Stream, seed: int | None
) -> Provenance:
    return Provenance(
        dataset=graph.name,
        split=graph.split,
        split_hash="" if graph.split_reads_labels and "y" in adjacency.private else graph.split_hash(),
        noise=noise,
        source=source.label,
        secure=source.secure,
        seed=seed,
        version=version("graphveil"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        public=""
        if graph.public_graph is None
        else f"{graph.public_graph.name}, {graph.public_graph.num_nodes:,} nodes",
        public_graph_digest=graph.public_graph_digest(),
        run=secrets.token_hex(16),
        method=described_method(method),
        sizes=graph.sizes,
        public_digest=graph.public_digest(adjacency),
        descends=graph.lineage is not None,
        released=graph.arcs_were_released(),
        split_reads_labels=graph.split_reads_labels,
    )
