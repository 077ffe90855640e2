"""The contract of every method. A new file in methods/ is found here without editing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Probe, Sketch, adjacencies, neighbour, public_graph, telling
from torch import Tensor

import graphveil as gv
import own_modules
from graphveil import plugins
from graphveil.auditing.game import AllTold
from graphveil.data.graph import Graph
from graphveil.data.sealing import OUTSIDE_UNPROTECTED, PUBLIC_DEGREES, Public, Sealed
from graphveil.errors import PrivateAccess, Unsupported
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.methods.method import METHODS, Method, PredictionReads
from graphveil.nn import rows
from graphveil.nn.own_network import NETWORKS
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.release.record import Stopwatch, record_of
from graphveil.vocabulary import Adjacency, Plan, Query, Reading, State, Unit

REPOSITORY = Path(__file__).parents[2]
OWN: list[Method] = [
    gv.methods.HeterPoisson(network=gv.OwnNetwork.of(own_modules.PooledGcn, hidden=2), batch=3, epochs=1.0),
    gv.methods.Ndp(network=gv.OwnNetwork.of(own_modules.SageAttention, hidden=2), layers=2, steps=3, batch=2, cap=1),
    gv.methods.Drw(network=gv.OwnNetwork.of(own_modules.Mixer, hidden=2), steps=3, batch=2),
    gv.methods.Probe(network=gv.OwnNetwork.of(own_modules.Gat, hidden=2)),
    gv.methods.LapGraph(network=gv.OwnNetwork.of(own_modules.Gat, hidden=2), epochs=2),
    gv.methods.Hearsay(network=gv.OwnNetwork.of(own_modules.RowsOnly), folds=2, hidden=4, hops=2),
]
"""Methods with a module of somebody's own."""
SPECIMENS: list[Method] = [one for kind in METHODS.ours().values() for one in kind.specimens()] + OWN


def refusal(method: Method, adjacency: Adjacency) -> str:
    """Why the method has no plan for this adjacency; empty if it has one."""
    try:
        method.plan(Public.blank(9, 4, 3, adjacency.undirected), adjacency, Reading.SOUND, 1.0)
    except Unsupported as reason:
        return str(reason)
    return ""


PAIRS = [(method, adjacency) for method in SPECIMENS for adjacency in adjacencies(method.units)]


def always_on(method: Method, adjacency: Adjacency) -> bool:
    """The first specimen of a kind meets directed and undirected graphs, every other one of the two in turn."""
    place = METHODS.ours()[method.name()].specimens().index(method) if method not in OWN else 2
    directions = [each for each in (True, False) if not refusal(method, Adjacency.of(adjacency.unit, each))]
    return place == 0 or adjacency.undirected == directions[place % len(directions)]


CASES = [
    pytest.param(
        method,
        adjacency,
        id=f"{number}-{method.name()}-{adjacency.unit}-{adjacency.undirected}",
        marks=[] if always_on(method, adjacency) else [pytest.mark.slow],
    )
    for number, (method, adjacency) in enumerate(PAIRS)
    if not refusal(method, adjacency)
]
SERVING = [case for case in CASES if type(case.values[0]).serve is not Method.serve]  # type: ignore[attr-defined]
Work = Callable[[Session], State]
"""What a method does with a session: its fit, or `serving`."""


def sketched(adjacency: Adjacency, seed: int = 0) -> tuple[Sketch, Public, Sealed]:
    sketch = Sketch.random(np.random.default_rng(seed), adjacency.undirected, nodes=9)
    public, sealed = sketch.beside_public().seal(adjacency)
    return sketch, public, sealed


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of `OWN` are registered as an installed distribution's would be, so that loading finds them."""
    known = [one.network.name for one in OWN if isinstance(one.network, gv.OwnNetwork)]  # type: ignore[attr-defined]
    entries = [plugins.Registered(name.partition(":")[2], name, "tests 0") for name in known]
    before = plugins.registered
    monkeypatch.setattr(plugins, "registered", lambda group: entries if group == NETWORKS else before(group))


def test_methods_are_found() -> None:
    assert {"gap", "mlp", "dpsgd", "gcn", "sage", "gin"} <= set(METHODS.ours())


def test_refusals_explain_themselves() -> None:
    """A method may refuse some settings of a unit it supports, but never all of them, and never silently."""
    for kind in METHODS.ours().values():
        for adjacency in adjacencies(kind.units):
            reasons = [refusal(method, adjacency) for method in kind.specimens()]
            assert not all(reasons), f"{kind.__name__} claims {adjacency.unit} but refuses it"
            assert all(len(reason) > 20 for reason in reasons if reason)


@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_plan_is_pure(method: Method, adjacency: Adjacency) -> None:
    """The same plan twice, and the same plan for a neighbouring graph: it cannot depend on private data."""
    sketch, public, _ = sketched(adjacency)
    other, _ = neighbour_public(sketch, adjacency)
    first = method.plan(public, adjacency, Reading.SOUND, 2.0)
    assert first == method.plan(public, adjacency, Reading.SOUND, 2.0)
    assert first == method.plan(other, adjacency, Reading.SOUND, 2.0)


def neighbour_public(sketch: Sketch, adjacency: Adjacency) -> tuple[Public, Sealed]:
    """The public view of a graph with other private parts and the same public ones."""
    return with_other_private_parts(sketch, adjacency).beside_public().seal(adjacency)


def with_other_private_parts(sketch: Sketch, adjacency: Adjacency) -> Sketch:
    """A sketch with the same public parts, and nothing else in common."""
    other = Sketch.random(np.random.default_rng(99), adjacency.undirected, nodes=len(sketch.y))
    private = adjacency.private
    return Sketch(
        other.links if "edges" in private else sketch.links,
        other.x if "x" in private else sketch.x,
        other.y if "y" in private else sketch.y,
        sketch.undirected,
    )


@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_epsilon_falls_as_noise_grows(method: Method, adjacency: Adjacency) -> None:
    _, public, _ = sketched(adjacency)
    # Noise 3 is what other tests of the contract cost too: the accountant keeps it for them.
    plans = [method.plan(public, adjacency, Reading.SOUND, noise) for noise in (1.0, 3.0)]
    little, much = (accounting.epsilon(plan, 1e-5) for plan in plans)
    assert little > much or (little == much and little in (0.0, float("inf")))


@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_both_readings_run_the_same_acts(method: Method, adjacency: Adjacency) -> None:
    _, public, _ = sketched(adjacency)
    sound = method.plan(public, adjacency, Reading.SOUND, 3.0)
    published = method.plan(public, adjacency, Reading.PUBLISHED, 3.0)
    assert [(s.name, s.act, s.times) for s in sound.steps] == [(s.name, s.act, s.times) for s in published.steps]
    assert not sound.refuted
    if not any(isinstance(step.claim, RenyiCurve) for step in published.steps):
        # A Renyi accountant is sound and dearer; any other published claim above ours would mean that ours is too low.
        assert accounting.epsilon(published, 1e-5) <= accounting.epsilon(sound, 1e-5) * (1 + 1e-9)
    if accounting.epsilon(published, 1e-5) < accounting.epsilon(sound, 1e-5) * (1 - 1e-2):
        assert published.refuted, "a published claim below the sound one must say why it is false"


@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_every_step_points_at_its_proof(method: Method, adjacency: Adjacency) -> None:
    _, public, _ = sketched(adjacency)
    for step in method.plan(public, adjacency, Reading.SOUND, 3.0).steps:
        assert (REPOSITORY / step.why).is_file(), f"{step.why} is missing"
    assert (REPOSITORY / "docs" / "methods" / f"{method.name()}.md").is_file()


# --- The tripwire: fit and serve are functions of public data and released outputs, and of nothing else. ---


class Recorder(Session):
    """Keeps every released output."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.outputs: list[Tensor] = []

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        self.outputs.append(super().release(name, query, uses))
        return self.outputs[-1].clone()


class Replayer(Session):
    """Runs every query on its own private data, then answers with what another session had released."""

    def __init__(self, public: Public, sealed: Sealed, plan: Plan, source: Seeded, outputs: list[Tensor]) -> None:
        super().__init__(public, sealed, plan, source)
        self._outputs = iter(outputs)

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        super().release(name, query, uses)
        return next(self._outputs).clone()


def interference(method: Method, adjacency: Adjacency, work: Work) -> bool:
    """Whether the result of the work changes with the private data although every released output is the same.

    Each run starts without what others kept of public data: private data kept there would be the same for both.
    """
    sketch, public, _ = sketched(adjacency)
    plan = method.plan(public, adjacency, Reading.SOUND, 3.0)
    another = with_other_private_parts(sketch, adjacency)
    beside, _ = another.beside_public().seal(adjacency)
    first_view, second_view, other_view = (replace(view, _cached={}) for view in (public, public, beside))
    recorder = Recorder(first_view, sketch.sealed(first_view), plan, Seeded(0))
    first = seeded(work, recorder)
    second = seeded(work, Replayer(second_view, another.sealed(other_view), plan, Seeded(0), recorder.outputs))
    return any(not torch.equal(first[name], second[name]) for name in first)


def seeded(work: Work, session: Session) -> State:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return work(session)


def serving(method: Method, adjacency: Adjacency) -> Work:
    """The method's serve, with what a fit on another sketch released."""
    _, public, sealed = sketched(adjacency, seed=1)
    plan = method.plan(public, adjacency, Reading.SOUND, 3.0)
    return partial(method.serve, state=seeded(method.fit, Session(public, sealed, plan, Seeded(5))))


@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_tripwire(method: Method, adjacency: Adjacency) -> None:
    assert not interference(method, adjacency, method.fit)


@pytest.mark.parametrize(("method", "adjacency"), SERVING)
def test_tripwire_of_serving(method: Method, adjacency: Adjacency) -> None:
    assert not interference(method, adjacency, serving(method, adjacency))


@dataclass(frozen=True)
class _Leaky(Method):
    """Releases a noisy number, and uses private data behind the session's back in one of three ways."""

    units = frozenset({Unit.EDGE, Unit.NODE})
    how: str = "seal"

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        act = Gaussian(noise)
        return Plan(adjacency, reading, (gv.Step("sum", act, act.curve(1), 1, why=""),))

    def fit(self, session: Session) -> State:
        loot: list[Any] = []
        session.release("sum", partial(_steal, loot=loot))
        if self.how == "seal":
            return {"stolen": torch.tensor(loot[0].adj.num_arcs)}
        if self.how == "tensor":
            return {"stolen": loot[0].public.train.double() * loot[1].double().sum()}
        return {"stolen": torch.tensor(session._sealed.adj.num_arcs)}


@dataclass(frozen=True)
class _LeakyServe(_Leaky):
    """Leaks only when it serves."""

    def fit(self, session: Session) -> State:
        return {"sum": session.release("sum", partial(_steal, loot=[]))}

    def serve(self, session: Session, state: State) -> State:
        return {**state, **super().fit(session)}


class _Zero:
    def clipped_sum(self, clip: float) -> Tensor:  # noqa: ARG002
        return torch.zeros(1)


def _steal(sealed: Sealed, loot: list[Any]) -> _Zero:
    loot += [sealed, sealed.x.clone() if sealed.public.x is None else torch.tensor(sealed.adj.num_arcs)]
    return _Zero()


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_tripwire_fires_on_a_seal_kept_from_a_release(unit: str) -> None:
    with pytest.raises(PrivateAccess, match=r"outside Session\.release"):
        interference(_Leaky("seal"), Adjacency.of(unit), _Leaky("seal").fit)


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_tripwire_fires_on_the_session_s_own_seal(unit: str) -> None:
    with pytest.raises(PrivateAccess, match=r"outside Session\.release"):
        interference(_Leaky("session"), Adjacency.of(unit), _Leaky("session").fit)


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_tripwire_sees_a_smuggled_tensor(unit: str) -> None:
    assert interference(_Leaky("tensor"), Adjacency.of(unit), _Leaky("tensor").fit)


@pytest.mark.parametrize("unit", ["edge", "node"])
@pytest.mark.parametrize("how", ["seal", "session"])
def test_tripwire_fires_on_a_serve_that_opens_a_seal(unit: str, how: str) -> None:
    method, adjacency = _LeakyServe(how), Adjacency.of(unit)
    work = serving(method, adjacency)
    with pytest.raises(PrivateAccess, match=r"outside Session\.release"):
        interference(method, adjacency, work)


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_tripwire_sees_a_tensor_smuggled_by_serve_alone(unit: str) -> None:
    method, adjacency = _LeakyServe("tensor"), Adjacency.of(unit)
    assert not interference(method, adjacency, method.fit)
    assert interference(method, adjacency, serving(method, adjacency))


# --- Sensitivity: no neighbour moves a bounded query further than its claim says. ---


def protected(method: Method, adjacency: Adjacency, sketch: Sketch, near: Sketch) -> bool:
    """Whether the claim is about these neighbours: it leaves out nodes outside training where a step says so."""
    public, _ = sketch.beside_public().seal(adjacency)
    if OUTSIDE_UNPROTECTED not in method.plan(public, adjacency, Reading.SOUND, 3.0).assumes:
        return True
    changed = (sketch.y != near.y) | (sketch.x != near.x).any(dim=1)
    return not bool((changed & ~public.train).any())


def worst_move(
    method: Method, adjacency: Adjacency, reading: Reading, work: Work, sketch: Sketch, near: Sketch
) -> float:
    """Largest move over all releases of the work, as a share of what the claim allows."""
    public, sealed = sketch.beside_public().seal(adjacency)
    plan = method.plan(public, adjacency, reading, 3.0)
    if any(step.claim.infinite for step in plan.steps) or not plan.steps:
        return 0.0
    if not protected(method, adjacency, sketch, near):
        return 0.0
    session = Session(public, sealed, plan, Seeded(1))
    probe = Probe(session, sketch.sealed(public), near.sealed(public), stop=True)
    with suppress(AllTold):
        seeded(work, probe)
    assert probe.releases == sum(step.times for step in plan.steps)
    return probe.worst


def search(
    method: Method, adjacency: Adjacency, reading: Reading, tries: int, climbs: int, work: Work | None = None
) -> float:
    """Telling pairs, then random ones, then hill-climbing from the worst: change the graph, keep what moves more.

    The work is a fit unless another is given.
    """
    return max(moves(method, adjacency, reading, tries, climbs, work))


def moves(
    method: Method, adjacency: Adjacency, reading: Reading, tries: int, climbs: int, work: Work | None = None
) -> Iterator[float]:
    """How far each pair of the search moves."""
    rng = np.random.default_rng(7)
    ask = partial(worst_move, method, adjacency, reading, work or method.fit)
    best, worst = -1.0, None
    known = [(sketch, near) for _, sketch, near in telling(adjacency)]
    for turn in range(len(known) + tries + climbs):
        if turn < len(known):
            sketch, near = known[turn]
        else:
            climbs_now = turn >= len(known) + tries and worst is not None
            sketch = mutated(worst, rng) if climbs_now else Sketch.random(rng, adjacency.undirected)
            near = neighbour(sketch, adjacency.unit, rng)
        moved = ask(sketch, near)
        if moved > best:
            best, worst = moved, sketch
        yield moved


def mutated(sketch: Sketch, rng: np.random.Generator) -> Sketch:
    """One edge toggled and one node's features stretched."""
    u, v = rng.choice(len(sketch.y), size=2, replace=False)
    stretched = sketch.toggled(int(u), int(v))
    row = stretched.x[int(u)] * float(10 ** rng.uniform(-1, 2))
    return stretched.replaced(int(u), row, int(stretched.y[int(u)]))


SEARCHES = [pytest.param(0, id="quick"), pytest.param(25, id="long", marks=pytest.mark.slow)]
"""Random pairs and climbs after the telling pairs, which alone find all of tests/conformance/test_telling_graphs.py."""


@pytest.mark.parametrize("tries", SEARCHES)
@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_sound_sensitivity_holds(method: Method, adjacency: Adjacency, tries: int) -> None:
    assert search(method, adjacency, Reading.SOUND, tries, climbs=tries) <= 1 + 1e-6


@pytest.mark.parametrize("tries", SEARCHES)
@pytest.mark.parametrize(("method", "adjacency"), SERVING)
def test_sound_sensitivity_of_serving_holds(method: Method, adjacency: Adjacency, tries: int) -> None:
    assert search(method, adjacency, Reading.SOUND, tries, climbs=tries, work=serving(method, adjacency)) <= 1 + 1e-6


IN_BLOCKS = [case for case in CASES if case.values[0].name() in ("hearsay", "probe", "whisper")]


@pytest.fixture
def in_twos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every matrix counts as large, and is read two rows at a time."""
    monkeypatch.setattr(rows, "WHOLE", 2)
    monkeypatch.setattr(rows, "BLOCK", 2)


@pytest.mark.usefixtures("in_twos")
@pytest.mark.parametrize(("method", "adjacency"), IN_BLOCKS)
def test_sound_sensitivity_holds_in_blocks(method: Method, adjacency: Adjacency) -> None:
    assert search(method, adjacency, Reading.SOUND, 0, climbs=0) <= 1 + 1e-6


@pytest.mark.usefixtures("in_twos")
@pytest.mark.parametrize(("method", "adjacency"), IN_BLOCKS)
def test_tripwire_in_blocks(method: Method, adjacency: Adjacency) -> None:
    assert not interference(method, adjacency, method.fit)


SUMS = [
    pytest.param(one, id=str(one), marks=[pytest.mark.slow] * (number > 0))
    for name in ("gap", "progap", "dpdgc")
    for number, one in enumerate(METHODS.find(name).specimens())
]


@pytest.mark.parametrize("method", SUMS)
def test_search_finds_that_published_sums_forget_a_row(method: Method) -> None:
    """Sajadmanesh et al. and Chien et al. charge one row; an undirected edge moves two. Found, not told."""
    assert search(method, Adjacency.of("edge"), Reading.PUBLISHED, 0, 0) == pytest.approx(2**0.5, rel=1e-6)
    assert search(method, Adjacency.of("edge"), Reading.SOUND, 0, 0) == pytest.approx(1.0, rel=1e-6)
    assert search(method, Adjacency.of("edge", undirected=False), Reading.PUBLISHED, 0, 0) <= 1 + 1e-6


@pytest.mark.parametrize("unit", ["node", "features", "label"])
def test_search_would_notice_a_sensitivity_ten_percent_too_small(unit: str) -> None:
    """The search reaches at least 90 % of dpsgd's claim, so the bound is tight and the search is strong."""
    method = gv.methods.DpSgd(steps=2, clip=1e-3, learning_rate=64.0)
    assert search(method, Adjacency.of(unit), Reading.SOUND, 40, 20) > 0.9


@pytest.mark.parametrize("unit", ["features", "label"])
def test_search_would_notice_class_sums_charged_ten_percent_too_little(unit: str) -> None:
    assert search(gv.methods.Probe(width=3), Adjacency.of(unit), Reading.SOUND, 40, 20) > 0.9


# --- Degrees are public by assumption alone: whoever reads them must say so. ---


def fits_without_degrees(method: Method, adjacency: Adjacency) -> None:
    sketch, public, _ = sketched(adjacency)
    bare = replace(public, degrees=None)
    plan = method.plan(bare, adjacency, Reading.SOUND, 3.0)
    seeded(method.fit, Session(bare, sketch.sealed(bare), plan, Seeded(0)))


@pytest.mark.parametrize(("method", "adjacency"), [case for case in CASES if case.values[1].unit is Unit.NODE])
def test_out_degrees_are_read_only_where_the_plan_says_so(method: Method, adjacency: Adjacency) -> None:
    _, public, _ = sketched(adjacency)
    if any(item.startswith(PUBLIC_DEGREES) for item in method.plan(public, adjacency, Reading.SOUND, 3.0).assumes):
        with pytest.raises(PrivateAccess, match="out-degrees"):
            fits_without_degrees(method, adjacency)
    else:
        fits_without_degrees(method, adjacency)


@dataclass(frozen=True)
class _Counts(_Leaky):
    """Reads the out-degrees and keeps quiet about it."""

    def fit(self, session: Session) -> State:
        return {"counts": torch.from_numpy(session.public.out_degrees())}


def test_unspoken_use_of_out_degrees_is_found() -> None:
    with pytest.raises(PrivateAccess, match="out-degrees"):
        fits_without_degrees(_Counts(), Adjacency.of("node"))


# --- Nodes outside training are open by assumption alone, too. ---


@pytest.mark.parametrize(("method", "adjacency"), [case for case in CASES if "x" in case.values[1].private])
def test_nodes_outside_training_are_read_only_where_the_plan_says_so(method: Method, adjacency: Adjacency) -> None:
    sketch, public, _ = sketched(adjacency)
    shut = replace(public, outside=None, _cached={})
    plan = method.plan(shut, adjacency, Reading.SOUND, 3.0)
    session = Session(shut, sketch.sealed(shut), plan, Seeded(0))
    if OUTSIDE_UNPROTECTED in plan.assumes:
        with pytest.raises(PrivateAccess, match="outside training"):
            seeded(method.fit, session)
    else:
        seeded(method.fit, session)


# --- Prediction: nodes outside training hear one another and no training node. ---


@pytest.mark.parametrize(
    ("method", "adjacency"), [case for case in CASES if case.values[0].reads is PredictionReads.HELD_OUT]
)
def test_predictions_outside_training_read_no_training_node(method: Method, adjacency: Adjacency) -> None:
    """Features, labels and every arc of the training nodes are others: nobody else's probabilities move."""
    rng = np.random.default_rng(3)
    sketch = Sketch.random(rng, adjacency.undirected, nodes=15)
    links = sketch.links | (rng.random((15, 15)) < 0.3) & ~np.eye(15, dtype=bool)
    sketch = replace(sketch, links=links | links.T if adjacency.undirected else links)
    graph = sketch.beside_public()
    release = gv.train(graph, method, noise=3.0, delta=1e-5, unit=adjacency.unit, seed=0)
    told = release.predict_proba(graph)
    train = graph.train.numpy()
    for _ in range(3):
        other = Sketch.random(rng, adjacency.undirected, nodes=15)
        outside = np.outer(~train, ~train)
        mixed = Sketch(
            np.where(outside, sketch.links, other.links),
            torch.where(graph.train[:, None], other.x, sketch.x),
            torch.where(graph.train, other.y, sketch.y),
            sketch.undirected,
        )
        assert torch.equal(release.predict_proba(mixed.beside_public())[~graph.train], told[~graph.train])
    # A training node is scored from its own features alone.
    alone = Sketch(
        sketch.links & False, torch.where(graph.train[:, None], sketch.x, other.x), sketch.y, graph.undirected
    )
    assert torch.equal(release.predict_proba(alone.beside_public())[graph.train], told[graph.train])


# --- The certificate and the release travel together. ---


@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_release_round_trips(method: Method, adjacency: Adjacency, tmp_path: Path) -> None:
    sketch, _, _ = sketched(adjacency)
    graph = sketch.beside_public()
    release = gv.train(graph, method, noise=3.0, delta=1e-5, unit=adjacency.unit, seed=0)
    certificate = release.certificate
    assert gv.Certificate.from_json(certificate.to_json()) == certificate
    again = gv.verify(release.save(tmp_path / "release"), graph)
    assert isinstance(again, gv.Release)
    assert again.certificate == certificate
    assert again.method == method
    assert torch.equal(again.predict(graph), release.predict())
    assert again.evaluate("test", graph) == release.evaluate("test")


# --- The ordinary path: nothing that is public tells whose record is blank. ---


def dealt(sketch: Sketch, adjacency: Adjacency) -> Graph:
    """As a user makes it: tables without a split, dealt out at random, and what is known of the population."""
    none = torch.zeros(len(sketch.y), dtype=torch.bool)
    bare = Graph(sketch.x, sketch.adj(), sketch.y, 3, sketch.undirected, none, none, none, "mine", "none")
    split = bare.random_split(0.6, 0.2, 0.2, seed=1).with_public(public_graph(sketch.undirected))
    return split.with_degrees(len(sketch.y)) if adjacency.unit is Unit.NODE else split


def without_record(sketch: Sketch, node: int, adjacency: Adjacency) -> Sketch:
    """The neighbour in which a node has none of what is private: not even a label."""
    if adjacency.unit is Unit.NODE:
        return sketch.blanked(node)
    return sketch.replaced(node, torch.zeros_like(sketch.x[node]) if adjacency.unit is Unit.FEATURES else None, -1)


def shown(public: Public, outsiders: bool) -> dict[str, Any]:
    """All that a public view holds, as plain values; `outsiders`: with the nodes outside training, if they are open."""
    parts = {**vars(public), "adj": None if public.adj is None else public.adj.edge_index()}
    parts["rows"] = None if public.rows is None else public.rows.x
    beside = public.require_public_graph()
    parts |= {"public_graph": [beside.x, beside.adj.edge_index(), beside.queryable], "_cached": None, "outside": None}
    if outsiders and public.outside is not None:
        outside = public.outside_training()
        parts["outside"] = [outside.nodes, outside.x, outside.adj.edge_index()]
    return {name: _plain(part) for name, part in parts.items()}


def _plain(part: Any) -> Any:
    if isinstance(part, list):
        return [_plain(one) for one in part]
    return part.tolist() if isinstance(part, Tensor | np.ndarray) else part


PRIVATE_LABELS = [case for case in CASES if "y" in case.values[1].private]


@pytest.mark.parametrize(("method", "adjacency"), PRIVATE_LABELS)
def test_no_plan_and_nothing_public_tells_of_a_record(method: Method, adjacency: Adjacency) -> None:
    """For every id, of whatever part: the same masks, hash, view and plan whether or not it has a record."""
    sketch = Sketch.random(np.random.default_rng(6), adjacency.undirected, nodes=10)
    here = dealt(sketch, adjacency)
    assert {bool(mask.any()) for mask in (here.train, here.val, here.test)} == {True}
    known, _ = here.seal(adjacency)
    plan = method.plan(known, adjacency, Reading.SOUND, 2.0)
    for node in range(10):
        there = dealt(without_record(sketch, node, adjacency), adjacency)
        assert (there.split, there.split_hash()) == (here.split, here.split_hash())
        assert there.split_reads_labels == here.split_reads_labels
        public, _ = there.seal(adjacency)
        # Nodes outside training are public by assumption: only a change of a training id must leave them as they are.
        outsiders = bool(here.train[node])
        assert shown(public, outsiders) == shown(known, outsiders)
        # A plan may look at them too where it says that it assumes so.
        if outsiders or OUTSIDE_UNPROTECTED not in plan.assumes:
            assert method.plan(public, adjacency, Reading.SOUND, 2.0) == plan


@pytest.mark.parametrize(("method", "adjacency"), PRIVATE_LABELS)
def test_methods_learn_although_ids_are_blank(method: Method, adjacency: Adjacency) -> None:
    """Blank ids in every part: training ends, and says the same on its card as if they were not blank.

    Where nodes outside training are open by assumption, only blank training ids must leave the card as it is.
    """
    sketch = Sketch.random(np.random.default_rng(6), adjacency.undirected, nodes=10)
    here, fewer = dealt(sketch, adjacency), sketch
    graphs = [here]
    for part in (here.train, here.val, here.test):
        fewer = without_record(fewer, int(part.nonzero()[0]), adjacency)
        graphs.append(dealt(fewer, adjacency))
    cards = []
    for graph in (here, graphs[1], graphs[3]):
        release = gv.train(graph, method, noise=3.0, delta=1e-5, unit=adjacency.unit, seed=0)
        assert all(bool(part.isfinite().all()) for part in release.state.values())
        cards.append([line for line in release.card().splitlines() if "  made  " not in line])
        record = record_of(release, graph, Stopwatch())
        assert record["test"] is None or 0 <= record["test"]["accuracy"] <= 1
    assert cards[0] == cards[1]
    if OUTSIDE_UNPROTECTED not in release.certificate.plan.assumes:
        assert cards[0] == cards[2]
