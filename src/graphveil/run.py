"""The verbs `train`, `extend`, `infer` and `release_graph`: everything else is wired here and only here.

A run is planned and certified from what is public, reserved in the ledger, carried out, and committed.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import torch

from graphveil.admission import (
    require_alike,
    require_countable,
    require_declared,
    require_kinds,
    require_stream,
    split_graph,
)
from graphveil.checks import parse
from graphveil.codec import plain
from graphveil.data.graph import Graph
from graphveil.data.parts import ScatteredArcs
from graphveil.data.transfer import to_host
from graphveil.errors import GraphveilError, InvalidInput, Unsupported
from graphveil.mechanisms.described import rebuild_plan
from graphveil.methods import flagship
from graphveil.methods.edge.parts.released_graph import ReleasedGraph
from graphveil.methods.method import METHODS, Method
from graphveil.planning import Planned, Terms, planned
from graphveil.privacy.ledger import Ledger
from graphveil.privacy.noise import Secure, Seeded, Stream, common
from graphveil.privacy.session import Session
from graphveil.release.certificate import Certificate
from graphveil.release.certify import certify
from graphveil.release.edges import ReleasedEdges
from graphveil.release.release import Release, nonfinite
from graphveil.release.serving import matched
from graphveil.runtime.compute import USUAL, Compute, Run
from graphveil.runtime.distributed import Workers
from graphveil.runtime.memory import report_oom, require_room
from graphveil.streams.growth import Growth
from graphveil.streams.journal import Journal, StreamTerms
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Unit

if TYPE_CHECKING:
    from torch_geometric.data import Data

T = TypeVar("T")


def train(
    graph: Graph | Data,
    method: Method | str | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: Unit | str,
    reading: Reading | str = Reading.SOUND,
    seed: int | None = None,
    secure: bool | None = None,
    noise: float | None = None,
    ledger: Ledger | None = None,
    compute: Compute | None = None,
    journal: str | os.PathLike[str] | None = None,
) -> Release:
    """Train `method`, or the flagship of the unit, on `graph` so that the result is (epsilon, delta)-DP for `unit`.

    Give `epsilon` (the noise is calibrated, one-sided) or `noise` (the epsilon follows). `delta` defaults
    to a tenth of one over the public number of nodes, rounded down to a power of ten, at most 1e-5.
    `seed` fixes everything; without it the noise is cryptographic. `secure=True` with a seed keeps the
    noise cryptographic and fixes the rest. `compute` says where and how it runs.

    graph: also a PyG `Data`, read by `Graph.from_pyg`; its masks are the split, and are taken for drawn without a look
    at labels. method: also a name, "hearsay", for the method with its defaults.
    journal: a new folder that will be as private as the edges, for a graph that grows: see `extend`.
    """
    method, graph = _method_of(method, unit), split_graph(graph)
    asked = _Asked(graph, method, Terms(unit, epsilon, noise, delta, reading), seed, secure, ledger, compute or USUAL)
    require_kinds(graph, method, ledger)
    if journal is None:
        return _released(asked, *_run(asked, method.fit))
    require_stream(graph, method, asked.terms, asked.compute)
    with Journal.held(journal, fresh=True) as book:
        return _released(asked, *_grow(asked, Growth(book, "all", ledger, graph)))


def extend(
    release: Release,
    graph: Graph,
    *,
    journal: str | os.PathLike[str],
    refresh: str | Iterable[str | int] = "doubling",
    seed: int | None = None,
    secure: bool | None = None,
    ledger: Ledger | None = None,
    compute: Compute | None = None,
) -> Release:
    """Go on with a graph that has grown since `train(..., journal=...)`: what was never counted is counted, once.

    One edge's whole life costs the epsilon of the first release, however many periods follow (docs/streams.md). Labels
    and features may have changed, and are public. `graph` holds all edges, or those that are new.

    refresh: whose rows are counted anew, each with noise of its own: "all"; "new", those that never were; "doubling",
    those and whoever is in its 1st, 2nd, 4th, 8th, ... period; "none"; or the ids of nodes asked about (rows of a graph
    without ids). It is public: do not choose it by looking at edges.
    Noise is seeded in all periods, or in none; periods under one seed draw apart. A stream that a ledger counts goes on
    with it.
    """
    method, spent = release.method, release.certificate
    require_kinds(graph, method, ledger)
    _require_extendable(release, ledger)
    known = _matched(release, graph)
    terms = Terms(spent.plan.adjacency.unit, None, spent.provenance.noise, spent.delta, spent.plan.reading)
    asked = _Asked(known, method, terms, seed, secure, ledger, compute or USUAL)
    require_stream(known, method, terms, asked.compute)
    with Journal.held(journal, fresh=False) as book:
        last = spent.provenance
        book.require(_stream_terms(spent, known, asked.source()), last.period, last.period_token)
        made = _released(asked, *_grow(asked, Growth(book, refresh, ledger, graph)))
    return replace(made, threshold=release.threshold)


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
    compute: Compute | None = None,
) -> Release:
    """Predict on another private graph with released weights, spending that graph's own budget.

    A seed that trained the release would give both graphs the same noise: take another.
    Returns a release whose predictions are for `graph`. It still holds the weights, so its certificate speaks of
    `graph` and of the data they were trained on; if those are the same, what both runs spent adds up.
    """
    plan = release.certificate.plan
    method, kept = release.method.chosen(release.state)
    require_kinds(graph, method, ledger)
    if type(method).serve is Method.serve:
        raise Unsupported(
            f"{method.name()} predicts from {method.reads.value}: call release.predict(graph), or `graphveil infer` "
            "without --epsilon and --noise, which is free"
        )
    terms = Terms(plan.adjacency.unit, epsilon, noise, delta, plan.reading)
    asked = _Asked(_matched(release, graph), method, terms, seed, secure, ledger, compute or USUAL, graph)

    def serve(session: Session) -> State:
        return method.serve(session, {name: part.to(session.run.device) for name, part in kept.items()})

    made = _released(asked, *_run(asked, serve, (release.certificate,)))
    return replace(made, threshold=release.threshold)


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
    compute: Compute | None = None,
) -> ReleasedEdges:
    """The perturbed graph of `method` itself, for use in any tool: no network is trained. Options as in `train`."""
    require_kinds(graph, method, ledger)
    if not isinstance(method, ReleasedGraph):
        known = sorted(name for name, kind in METHODS.ours().items() if issubclass(kind, ReleasedGraph))
        raise Unsupported(f"{method.name()} releases no graph; these methods do: {', '.join(known)}")
    method.require_graph()
    asked = _Asked(graph, method, Terms(unit, epsilon, noise, delta, reading), seed, secure, ledger, compute or USUAL)
    found, certificate = _run(asked, method.arcs)
    return ReleasedEdges.of(method, found, certificate)


@dataclass(frozen=True, eq=False)
class _Asked:
    """A run: of which method, on which graph, on what terms, and how. `counted`: the graph as the ledger knows it.

    A seed fixes everything; without one, or if `secure`, noise is cryptographic.
    """

    graph: Graph
    method: Method
    terms: Terms
    seed: int | None
    secure: bool | None
    ledger: Ledger | None
    compute: Compute
    counted: Graph | None = None

    def source(self, period: int = 1) -> Stream:
        """Where noise comes from; periods of a growing graph draw apart."""
        hidden = (self.seed is None) if self.secure is None else self.secure
        if self.seed is not None or not hidden:
            _require_seed(self.seed)
        return Secure() if hidden else Seeded(_require_seed(self.seed), period)


def _run(asked: _Asked, work: Callable[[Session], T], weights: tuple[Certificate, ...] = ()) -> tuple[T, Certificate]:
    """What `work` makes of one metered session, and the certificate of that session.

    weights: the certificate of the release whose weights are part of the result.
    """
    with asked.compute.opened(asked.graph.device, asked.method.on_gpu) as run:
        made, source = _planned(asked, run, learns=not weights), asked.source()
        certificate = certify(made, asked.graph, source, asked.seed, weights)
        ticket = _Ticket.reserved(asked, certificate, run.workers)
        assert made.sealed is not None
        source, closed = common(source, run.workers), bool(made.others)
        session = Session(made.public, made.sealed, _as_read(made), source, closed, run)
        with ticket.spending():
            found = _executed(work, session, asked.seed)
    return found, ticket.certificate


def _grow(asked: _Asked, growth: Growth) -> tuple[State, Certificate]:
    """The same for a period of a growing graph: the first one's reservation pays for all of them."""
    with asked.compute.opened(asked.graph.device, asked.method.on_gpu) as run:
        made, source = _planned(asked, run), asked.source(growth.period)
        if made.others:
            raise Unsupported("a journal is kept for methods of graphveil's own; this one is not part of it")
        certificate = certify(made, asked.graph, source, asked.seed)
        certificate = replace(certificate, provenance=replace(certificate.provenance, **growth.origin()))
        growth.tell(Ledger.require_stream)
        ticket = (
            _Ticket(certificate, None, run.workers)
            if growth.goes_on
            else _Ticket.reserved(asked, certificate, run.workers)
        )
        assert made.sealed is not None
        terms, token = _stream_terms(ticket.certificate, asked.graph, source), certificate.provenance.period_token
        session = growth.session(asked.graph, made.public, made.sealed, made.plan, source, terms, token, run)
        with ticket.spending(growth.stopped):
            found = _executed(asked.method.fit, session, asked.seed)
    return found, ticket.certificate


def _planned(asked: _Asked, run: Run, *, learns: bool = True) -> Planned:
    """The plan, on the run's device, of a run that may begin: whatever can be refused is refused before it is paid."""
    graph, method = asked.graph, asked.method
    require_declared(graph, Adjacency.of(asked.terms.unit, graph.undirected))
    require_alike(graph, run.workers)
    if isinstance(graph.adj, ScatteredArcs) and graph.adj.parts.engine != run.engine:
        graph = replace(graph, adj=graph.adj.read_by(run.engine))
    require_countable(graph, method, asked.ledger)
    here = graph.to(run.device, graph.x.dtype if method.reads_short else torch.float32)
    made = planned(method, here, asked.terms, learns=learns, workers=run.workers)
    require_room(run.device, method.room(made.public, run.block), graph.num_nodes)
    return made


def _executed(work: Callable[[Session], T], session: Session, seed: int | None) -> T:
    """What `work` makes of the session, with public chance from the seed."""
    run = session.run
    on_gpu = run.device.type != "cpu"
    with torch.random.fork_rng(devices=[run.device] if on_gpu else []), report_oom(run.block):
        torch.manual_seed(run.workers.agreed(lambda: secrets.randbits(63)) if seed is None else seed)
        # Kernels run on the current GPU, which need not be the first one.
        with torch.cuda.device(run.device) if on_gpu else nullcontext():
            return work(session)


@dataclass(frozen=True, eq=False)
class _Ticket:
    """A reservation, and the certificate that names it; without a ledger there is nothing to commit."""

    certificate: Certificate
    ledger: Ledger | None
    workers: Workers

    @classmethod
    def reserved(cls, asked: _Asked, certificate: Certificate, workers: Workers) -> _Ticket:
        """Reserve what the run will spend."""
        # Edges that a release has told are paid for.
        ledger = None if certificate.provenance.released else asked.ledger
        # The ledger never believes a published proof: it charges what we can prove for the same acts.
        charge, data = certificate.sound or certificate.plan, asked.counted or asked.graph

        def entry() -> str:
            return "" if ledger is None else ledger.reserve(data, charge, asked.method.name())

        words = "a reservation was under way: `graphveil ledger show --entries` tells whether it counts"
        with _noted(words, Exception):
            found = workers.agreed(entry)
        origin = replace(certificate.provenance, ledger_entry=found)
        return cls(replace(certificate, provenance=origin), ledger, workers)

    @contextmanager
    def spending(self, stopped: str = "") -> Iterator[None]:
        """What ends the block early says what was spent; after it the reservation is committed."""
        entry = self.certificate.provenance.ledger_entry
        spent = f"ledger entry {entry} counts as spent" if entry else "no ledger was given, so nothing was reserved"
        with _noted(f"{spent}{stopped}; nothing was released"):
            yield
            self.workers.agreed(lambda: None if self.ledger is None else _note_commit(self.ledger, entry))


def _as_read(made: Planned) -> Plan:
    """The plan; for a method that is not ours as a file would give it back, with nothing put into its parts beside."""
    return rebuild_plan(plain(made.plan.describe())) if made.others else made.plan


def _method_of(given: Method | str | None, unit: Unit | str) -> Method:
    """A method, the one of that name with its defaults, or the flagship of the unit."""
    if given is None:
        given = flagship(parse(Unit, unit, "unit"))()
    made: Method = METHODS.find(given)() if isinstance(given, str) else given
    return made


def _note_commit(ledger: Ledger, entry: str) -> None:
    """The reservation already counts; a ledger that cannot be written now must not cost the model."""
    try:
        ledger.commit(entry)
    except GraphveilError as error:
        warnings.warn(f"{entry} stays uncommitted in {ledger.path} (it is counted as spent): {error}", stacklevel=2)


def _require_seed(seed: int | None) -> int:
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise InvalidInput(f"a seed must be a whole number in 0..2^63 - 1, got {seed!r}; noise needs one if not secure")
    return seed


@contextmanager
def _noted(words: str, told: type[BaseException] | tuple[()] = ()) -> Iterator[None]:
    """What ends the block early says what was spent, unless it is an error that is `told` anyway."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, told):
            error.add_note(words)
        raise


def _released(asked: _Asked, state: State, certificate: Certificate) -> Release:
    """The release, in this machine's memory, with a warning if it is none: what was spent is spent."""
    state = {name: to_host(part) for name, part in state.items()}
    if broken := nonfinite(state):
        warnings.warn(
            f"{asked.method.name()} ended in numbers that are not finite ({', '.join(broken)}), so this is no model "
            "and cannot be saved; take a smaller learning rate or less noise, or scale the features",
            stacklevel=3,
        )
    return Release(asked.method, state, certificate, asked.graph)


def _stream_terms(certificate: Certificate, graph: Graph, source: Stream) -> StreamTerms:
    """What all periods of the certificate's stream have in common."""
    origin = certificate.provenance
    plan, classes = certificate.plan, graph.num_classes
    return StreamTerms.of(origin.run, plan, certificate.delta, classes, source.secure, origin.ledger_entry)


def _require_extendable(release: Release, ledger: Ledger | None) -> None:
    """The release is a period of a stream, and the stream's ledger is given if it has one."""
    origin = release.certificate.provenance
    if not origin.period:
        raise Unsupported(
            "this release keeps no journal of the edges that it counted, so that it cannot be extended: begin with "
            "train(..., journal=FOLDER) (--journal)"
        )
    if (ledger is None) != (not origin.ledger_entry):
        raise InvalidInput(
            f"a ledger counts this stream, entry {origin.ledger_entry}: give it (--ledger)"
            if origin.ledger_entry
            else "no ledger counts this stream from its beginning, so that none can count it now; leave it out"
        )


def _matched(release: Release, graph: Graph) -> Graph:
    """The graph with the columns and classes of the release, whose weights fit it.

    Released weights fit one number of features and classes, and directed or undirected graphs.
    """
    known = matched(release.certificate, graph)
    if known.undirected != release.certificate.plan.adjacency.undirected:
        kind = "a directed graph" if known.undirected else "an undirected graph"
        raise InvalidInput(f"the release was trained on {kind}, and {known.name!r} is not one; train on it instead")
    trained = (release.state["scaling.shift"].shape[0], release.state["logits"].shape[1])
    if (known.num_features, known.num_classes) != trained:
        raise InvalidInput(
            f"the release was trained with {trained[0]} features and {trained[1]} classes; {known.name!r} has "
            f"{known.num_features} and {known.num_classes}"
        )
    return known
