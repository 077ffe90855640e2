"""The verbs `train`, `extend`, `infer` and `release_graph`: everything else is wired here and only here."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from graphveil.checks import parse
from graphveil.codec import plain
from graphveil.data.graph import Graph
from graphveil.data.identity import ids_digest, public_digest, public_graph_digest
from graphveil.data.parts import ScatteredArcs
from graphveil.data.schema import listed
from graphveil.data.tensors import is_pyg
from graphveil.data.transfer import to_host
from graphveil.errors import GraphveilError, InvalidInput, Tampered, Unsupported
from graphveil.mechanisms.described import rebuild_plan
from graphveil.methods import flagship
from graphveil.methods.edge.parts.released_graph import ReleasedGraph
from graphveil.methods.method import METHODS, Method
from graphveil.planning import Planned, Terms, planned
from graphveil.privacy.ledger import Ledger
from graphveil.privacy.noise import Secure, Seeded, Stream, common
from graphveil.privacy.session import Session
from graphveil.release.certificate import Certificate, described_method
from graphveil.release.edges import ReleasedEdges
from graphveil.release.provenance import Provenance
from graphveil.release.release import Release, nonfinite
from graphveil.release.serving import matched
from graphveil.runtime.compute import USUAL, Compute, Run
from graphveil.runtime.distributed import Workers
from graphveil.runtime.memory import report_oom, require_room
from graphveil.runtime.safe_json import MAX_TEXT
from graphveil.streams.journal import Journal, StreamTerms
from graphveil.streams.period import Period, PeriodSession, refreshed
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Unit

if TYPE_CHECKING:
    from torch_geometric.data import Data

T = TypeVar("T")
_Say = Callable[[Ledger, str, Graph, Sequence[str]], None]
"""What a ledger is told of a stream: its entry, the graph, and the tokens of its journal."""

_MAX_NAMES = MAX_TEXT // 4
"""Bytes of names that a release may keep: its file takes them twice as long, beside the rest."""


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
    method = _method_of(method, unit)
    graph = _split_graph(graph)
    _require_kinds(graph, method, ledger)
    _require_code(method)
    terms, means = Terms(unit, epsilon, noise, delta, reading), _Means(seed, secure, ledger, compute)
    if journal is None:
        state, certificate = _run(graph, method, method.fit, terms, means)
    else:
        _require_stream(graph, method, terms, compute)
        with Journal.held(journal, fresh=True) as book:
            state, certificate = _run(graph, method, method.fit, terms, means, stream=_Stream(book, "all"))
    return _released(method, _kept(state), certificate, graph)


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
    origin, plan = release.certificate.provenance, release.certificate.plan
    _require_kinds(graph, release.method, ledger)
    _require_code(release.method)
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
    known = matched(release.certificate, graph)
    _require_same_shape(release, known)
    terms = Terms(plan.adjacency.unit, None, origin.noise, release.certificate.delta, plan.reading)
    means = _Means(seed, secure, ledger, compute)
    _require_stream(known, release.method, terms, compute)
    with Journal.held(journal, fresh=False) as book:
        said = StreamTerms.of(
            origin.run, plan, release.certificate.delta, known.num_classes, means.source().secure, origin.ledger_entry
        )
        book.require(said, origin.period, origin.period_token)
        stream = _Stream(book, refresh)
        state, certificate = _run(known, release.method, release.method.fit, terms, means, counted=graph, stream=stream)
    made = _released(release.method, _kept(state), certificate, known)
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
    _require_kinds(graph, method, ledger)
    _require_code(method)
    if type(method).serve is Method.serve:
        raise Unsupported(
            f"{method.name()} predicts from {method.reads.value}: call release.predict(graph), or `graphveil infer` "
            "without --epsilon and --noise, which is free"
        )
    known = matched(release.certificate, graph)
    _require_same_shape(release, known)
    terms = Terms(plan.adjacency.unit, epsilon, noise, delta, plan.reading)

    def serve(session: Session) -> State:
        where = session.public.train.device
        return method.serve(session, {name: part.to(where) for name, part in kept.items()})

    means = _Means(seed, secure, ledger, compute)
    # The ledger knows the graph as it was given to it, in whatever order its columns stand.
    state, certificate = _run(known, method, serve, terms, means, (release.certificate,), counted=graph)
    return replace(_released(method, _kept(state), certificate, known), threshold=release.threshold)


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
    _require_kinds(graph, method, ledger)
    if not isinstance(method, ReleasedGraph):
        known = sorted(name for name, kind in METHODS.ours().items() if issubclass(kind, ReleasedGraph))
        raise Unsupported(f"{method.name()} releases no graph; these methods do: {', '.join(known)}")
    method.require_graph()
    terms = Terms(unit, epsilon, noise, delta, reading)
    found, certificate = _run(graph, method, method.arcs, terms, _Means(seed, secure, ledger, compute))
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


@dataclass(frozen=True)
class _Means:
    """How a run is carried out. A seed fixes everything; without one, or if `secure`, noise is cryptographic."""

    seed: int | None
    secure: bool | None
    ledger: Ledger | None
    compute: Compute | None

    def source(self, period: int = 1) -> Stream:
        hidden = (self.seed is None) if self.secure is None else self.secure
        if self.seed is not None or not hidden:
            _require_seed(self.seed)
        return Secure() if hidden else Seeded(_require_seed(self.seed), period)


@dataclass(frozen=True, eq=False)
class _Stream:
    """The journal of a growing graph, open, and whose rows the coming period refreshes."""

    journal: Journal
    refresh: str | Iterable[str | int]

    @property
    def number(self) -> int:
        """Of the coming period, from 1 on."""
        return self.journal.period + 1

    def noted(self, origin: Provenance) -> Provenance:
        """Where a release of the coming period comes from: all periods are one run."""
        run = self.journal.terms.run if self.journal.period else origin.run
        entry = self.journal.terms.entry if self.journal.period else ""
        token = secrets.token_hex(16)
        return replace(origin, run=run, ledger_entry=entry, period=self.number, period_token=token)

    def session(
        self, graph: Graph, made: Planned, source: Stream, origin: Provenance, tell: Callable[[_Say], None], run: Run
    ) -> Session:
        """One that counts for the coming period; `tell` has the ledger note the graph and then the period."""
        assert made.sealed is not None
        ids = None if graph.ids is None else graph.ids.to_pylist()
        places, names = self.journal.places(ids, graph.num_nodes)
        if self.journal.period:
            known, new, gone = self.journal.turnover(places)
            run.progress.note(
                f"period {self.number}: {known:,} nodes are known, {new:,} are new, {gone:,} known ones are gone"
            )
        rows = refreshed(self.refresh, graph, self.journal, places)
        terms = StreamTerms.of(origin.run, made.plan, made.delta, graph.num_classes, source.secure, origin.ledger_entry)
        if self.journal.period and terms != self.journal.terms:
            raise Tampered("this graph leads to another plan than the stream's: the release was altered")
        announced, noted = (lambda: tell(Ledger.note_grown)), (lambda: tell(Ledger.note_period))
        period = Period(self.journal, terms, origin.period_token, places, names, rows, announced, noted)
        return PeriodSession(made.public, made.sealed, made.plan, source, period, run)


def _run(
    graph: Graph,
    method: Method,
    work: Callable[[Session], T],
    terms: Terms,
    means: _Means,
    weights: tuple[Certificate, ...] = (),
    counted: Graph | None = None,
    stream: _Stream | None = None,
) -> tuple[T, Certificate]:
    """What `work` makes of one metered session, in this machine's memory, and the certificate of that session.

    weights: the certificate of the release whose weights are part of the result; counted: the graph as the ledger knows
    it, if that is another form of `graph`; stream: of a growing graph, whose later periods the ledger has reserved.
    """
    with (means.compute or USUAL).opened(graph.device, method.on_gpu) as run:
        require_declared(graph, Adjacency.of(terms.unit, graph.undirected))
        parents = (*_graph_parents(graph, Adjacency.of(terms.unit, graph.undirected)), *weights)
        _require_alike(graph, run.workers)
        here = _placed_graph(graph, method, run)
        _require_countable(here, method, means.ledger)
        made = planned(method, here, terms, learns=not weights, workers=run.workers)
        if stream is not None and made.others:
            raise Unsupported("a journal is kept for methods of graphveil's own; this one is not part of it")
        require_room(run.device, method.room(made.public, run.block), graph.num_nodes)
        source = means.source() if stream is None else means.source(stream.number)
        origin = _provenance(graph, made, source, means.seed)
        origin = origin if stream is None else stream.noted(origin)
        certificate = Certificate(made.plan, made.delta, origin, made.sound, parents)
        _require_storable(certificate)
        # Edges that a release has told are paid for.
        ledger = None if origin.released else means.ledger
        goes_on, data = origin.period > 1, counted or graph

        def tell(say: _Say) -> None:
            if stream is not None and goes_on and ledger is not None:
                say(ledger, origin.ledger_entry, data, stream.journal.tokens)

        tell(Ledger.require_stream)
        entry = origin.ledger_entry if goes_on else _reserved(ledger, data, certificate, method, run.workers)
        origin = replace(origin, ledger_entry=entry)
        certificate = replace(certificate, provenance=origin)
        assert made.sealed is not None
        session = (
            Session(made.public, made.sealed, _as_read(made), common(source, run.workers), bool(made.others), run)
            if stream is None
            else stream.session(graph, made, source, origin, tell, run)
        )
        spent = f"ledger entry {entry} counts as spent" if entry else "no ledger was given, so nothing was reserved"
        if stream is not None:
            spent += (
                "; what the journal has counted stays counted, and the next extend tells it"
                if goes_on
                else "; a first period that is stopped cannot be resumed: begin another stream in an empty folder"
            )
        with _noted(f"{spent}; nothing was released"), torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.workers.agreed(lambda: secrets.randbits(63)) if means.seed is None else means.seed)
            with report_oom(run.block), _current(run.device):
                found = work(session)
            run.workers.agreed(lambda: None if ledger is None or goes_on else _note_commit(ledger, entry))
    return found, certificate


def _require_stream(graph: Graph, method: Method, terms: Terms, compute: Compute | None) -> None:
    """What a growing graph needs, said before anything is read or reserved."""
    if not method.counts_once():
        raise Unsupported(
            f"{method.name()} with these settings reads edges otherwise than by counting each once, so that later "
            "periods would cost again: use hearsay (channel=counts, hops=1) for a graph that grows"
        )
    if (
        parse(Unit, terms.unit, "unit") is not Unit.EDGE
        or parse(Reading, terms.reading, "reading") is not Reading.SOUND
    ):
        raise Unsupported("a journal is kept at unit edge and under the sound reading")
    if graph.lineage is not None or graph.public_graph is not None or graph.edge_parts is not None:
        raise Unsupported(
            "a journal is kept of a private graph that is read as a whole, without released edges and without a public "
            "graph beside it"
        )
    if compute is not None and compute.workers.size > 1:
        raise Unsupported("a journal is kept by one process: leave torchrun out")


def _placed_graph(graph: Graph, method: Method, run: Run) -> Graph:
    """The graph where the run is, its edges in parts read by the run's workers."""
    if isinstance(graph.adj, ScatteredArcs) and graph.adj.parts.engine != run.engine:
        graph = replace(graph, adj=graph.adj.read_by(run.engine))
    return graph.to(run.device, graph.x.dtype if method.reads_short else torch.float32)


def _current(device: torch.device) -> AbstractContextManager[Any]:
    """Kernels inside run on `device`, if it is a GPU: it need not be the first one."""
    return nullcontext() if device.type == "cpu" else torch.cuda.device(device)


def _kept(state: State) -> State:
    """What was released, in this machine's memory."""
    return {name: to_host(part) for name, part in state.items()}


def _as_read(made: Planned) -> Plan:
    """The plan; for a method that is not ours as a file would give it back, with nothing put into its parts beside."""
    return rebuild_plan(plain(made.plan.describe())) if made.others else made.plan


def _reserved(ledger: Ledger | None, graph: Graph, certificate: Certificate, method: Method, workers: Workers) -> str:
    """The ledger's entry for a run that is about to begin; empty without a ledger."""
    # The ledger never believes a published proof: it charges what we can prove for the same acts.
    charge = certificate.sound or certificate.plan
    with _noted("a reservation was under way: `graphveil ledger show --entries` tells whether it counts", Exception):
        return workers.agreed(lambda: "" if ledger is None else ledger.reserve(graph, charge, method.name()))


def require_declared(graph: Graph, adjacency: Adjacency) -> None:
    """Where features are private, how they are encoded was declared: a list of categories tells what cells hold.

    An encoding that a release brought along is public already.
    """
    read = graph.schema.fitted if graph.schema is not None and "x" in adjacency.private else ()
    if read:
        raise Unsupported(
            f"the encoding of {listed(read)} was read off the features, which unit {adjacency.unit.value} protects: "
            "declare what these columns hold (--categories FILE, categories=), from what anybody may know"
        )


def _require_storable(certificate: Certificate) -> None:
    """The names fit into the file that will hold them: a release that nobody can load must not be paid for."""
    size = sum(len(one.provenance.schema) for one in certificate.ancestry)
    if size > _MAX_NAMES:
        raise InvalidInput(
            f"the names of columns, classes and categories take {size:,} bytes, and a release keeps {_MAX_NAMES:,}; "
            "give many features as one two-dimensional column, or drop some"
        )


def _require_alike(graph: Graph, workers: Workers) -> None:
    """All processes of a run hold the same graphs."""
    workers.require_alike(graph.fingerprint, "graphs")
    workers.require_alike(graph.split_hash, "splits")
    workers.require_alike(
        lambda: "" if graph.public_graph is None else graph.public_graph.fingerprint(), "public graphs"
    )


def _require_countable(graph: Graph, method: Method, ledger: Ledger | None) -> None:
    """Edges in parts are ones that `method` can have counted there, each listed once; said before anything is spent."""
    if graph.edge_parts is None:
        return
    if not method.counts_in_parts():
        raise Unsupported(
            f"{method.name()} with these settings reads the arcs themselves, and the edges of {graph.name!r} lie in "
            "parts: use hearsay (channel counts or sums), gap or lpgnet, or read the graph as a whole (--engine local)"
        )
    if ledger is not None:
        raise Unsupported(
            "a ledger knows a graph by its edges, and no single process reads these: leave the ledger out and write "
            "down what is spent, or read the graph as a whole (--engine local)"
        )
    graph.edge_parts.require_clean()


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


def _method_of(given: Method | str | None, unit: Unit | str) -> Method:
    """A method, the one of that name with its defaults, or the flagship of the unit."""
    if given is None:
        given = flagship(parse(Unit, unit, "unit"))()
    made: Method = METHODS.find(given)() if isinstance(given, str) else given
    return made


def _split_graph(given: Graph | Data) -> Graph:
    """A graph as it is; PyG's with its masks as the split, which must be there: who trains is for the user to say."""
    if not is_pyg(given):
        return given
    made = Graph.from_pyg(given)
    if made.split == "none":
        raise InvalidInput(
            "the PyG data has no train_mask with anybody in it; add masks, or train on "
            "gv.Graph.from_pyg(data).random_split()"
        )
    return made


def _require_kinds(graph: Graph, method: Method, ledger: Ledger | None) -> None:
    if not isinstance(graph, Graph) or not isinstance(method, Method):
        raise InvalidInput("give a graphveil Graph and a method, e.g. gv.methods.Gap(); train also takes PyG's Data")
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise InvalidInput(f"ledger must be a ledger: gv.Ledger({ledger!r})")


def _require_code(method: Method) -> None:
    """Own networks that a file named and nobody gave are told of before anything is charged."""
    for own in method.networks():
        own.known_make()


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


def _provenance(graph: Graph, made: Planned, source: Stream, seed: int | None) -> Provenance:
    adjacency = made.plan.adjacency
    return Provenance(
        dataset=graph.name,
        split=graph.split,
        split_hash="" if graph.split_reads_labels and "y" in adjacency.private else graph.split_hash(),
        noise=made.noise,
        source=source.label,
        secure=source.secure,
        seed=seed,
        version=version("graphveil"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        public=""
        if graph.public_graph is None
        else f"{graph.public_graph.name}, {graph.public_graph.num_nodes:,} nodes",
        public_graph_digest=public_graph_digest(graph),
        run=secrets.token_hex(16),
        method=described_method(made.method),
        sizes=graph.sizes,
        public_digest=public_digest(graph, adjacency),
        descends=graph.lineage is not None,
        released=graph.adj.origin is not None,
        split_reads_labels=graph.split_reads_labels,
        schema="" if graph.schema is None else graph.schema.to_text(),
        ids_digest=ids_digest(graph),
        others=made.others,
    )
