"""Ten builds broken on purpose. Each is refuted by the auditor, or by the check that every method must pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import test_methods
import torch
from neighbours import telling
from torch import Tensor

import graphveil as gv
from graphveil.auditing.bounds import finding
from graphveil.auditing.game import Game, Pair
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.noisy_votes import NoisyVotes
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil.methods.edge.parts.edge_method import messages
from graphveil.methods.method import Method
from graphveil.nn.clipping import ExampleGradients
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded, Stream
from graphveil.privacy.session import Session
from graphveil.release.audit_result import AuditResult
from graphveil.vocabulary import Adjacency, Floats, Plan, Query, Reading, State, Step, Unit

DELTA = 1e-5


def star(nodes: int = 10) -> Graph:
    """Node 0 and its neighbours, which have no others; all train, and the hub is of another class."""
    leaves = np.arange(1, nodes)
    sources = np.concatenate([np.zeros_like(leaves), leaves])
    adj = Csr.from_edge_index(sources, np.roll(sources, nodes - 1), nodes)
    x = torch.zeros(nodes, 4)
    x[0] = torch.tensor([3.0, -1.0, 2.0, 0.5])
    y = torch.ones(nodes, dtype=torch.int64)
    y[0] = 0
    train = torch.ones(nodes, dtype=torch.bool)
    return Graph(x, adj, y, 2, True, train, ~train, ~train, "star", "all train", every_id_present=True)


def audited(pair: Pair, method: gv.Method, plan: Plan, runs: int = 400, law: str = "") -> AuditResult:
    """What the auditor finds; one noisy Gaussian sum has normal evidence, unless another law is given."""
    spent = accounting.epsilon(plan, DELTA)
    once = sum(step.times for step in plan.steps) == 1 and type(plan.steps[0].act) is Gaussian
    law = law or ("gaussian" if once else "any")
    return finding("mutant", Game(pair, method, plan).play(runs, 0), spent, DELTA, law=law)


def planned(method: gv.Method, pair: Pair, unit: str, noise: float) -> Plan:
    adjacency = Adjacency.of(unit)
    return method.plan(pair.worlds(adjacency)[0], adjacency, Reading.SOUND, noise)


@pytest.mark.parametrize("broken", [False, True])
def test_noise_halved(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    def quieter(self: Gaussian, sealed: Sealed, query: Query, source: Stream) -> Tensor:
        return source.add_gaussian(self.bounded(sealed, query), self.std * self.clip / 2, unit=self.clip)

    pair = Pair.without_edge(star(), 0, 1)
    method = gv.methods.Gap(hidden=4, head=4, epochs=2, hops=1)
    plan = planned(method, pair, "edge", noise=2.0)
    if broken:
        monkeypatch.setattr(Gaussian, "apply", quieter)
    assert audited(pair, method, plan).verdict == ("refuted" if broken else "consistent")


@pytest.mark.parametrize("broken", [False, True])
def test_clipping_removed(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    whole = ExampleGradients.clipped_sum
    pair = Pair.without_node(star(), 0)
    method = gv.methods.DpSgd(steps=1, learning_rate=64.0)
    plan = planned(method, pair, "node", noise=2.0)
    if broken:
        monkeypatch.setattr(ExampleGradients, "clipped_sum", lambda self, clip: whole(self, clip=1e6))  # noqa: ARG005
    assert audited(pair, method, plan).verdict == ("refuted" if broken else "consistent")


@pytest.mark.parametrize("broken", [False, True])
def test_neighbour_sampling_not_charged(broken: bool) -> None:
    """A node is charged for its own subgraph alone, as Poisson sampling of records would be, and for no other's."""
    pair = Pair.without_node(star(40), 0)
    method = gv.methods.HeterPoisson(network="sage", hidden=4, batch=20, epochs=0.5, multiplier=40.0)
    plan = planned(method, pair, "node", noise=2.0)
    (step,) = plan.steps
    if broken:
        claim = PoissonCurve(GaussianCurve(1 / (2 * 2.0)), method.rate(pair.worlds(plan.adjacency)[0]))
        plan = replace(plan, steps=(replace(step, claim=claim),))
    assert audited(pair, method, plan, runs=100).verdict == ("refuted" if broken else "consistent")


class Stuck(Seeded):
    """The same noise at every release."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed

    def normal(self, count: int) -> Floats:
        return Seeded(self._seed).normal(count)


@pytest.mark.parametrize("broken", [False, True])
def test_noise_reused_across_steps(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    pair = Pair.without_node(star(), 0)
    method = gv.methods.DpSgd(steps=2, learning_rate=64.0)
    plan = planned(method, pair, "node", noise=6.0)
    if broken:
        monkeypatch.setattr("graphveil.auditing.game.Seeded", Stuck)
    assert audited(pair, method, plan, runs=100).verdict == ("refuted" if broken else "consistent")


@pytest.mark.parametrize("broken", [False, True])
def test_private_degree_used_in_plan(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    """The public view leaks degrees at edge level, and a plan makes less noise where they are large."""
    seal, plan = Graph.seal, gv.methods.Gap.plan

    def leaky(self: Graph, adjacency: Adjacency) -> tuple[Public, Sealed]:
        public, sealed = seal(self, adjacency)
        return replace(public, degrees=self.adj.in_degrees()), sealed

    def greedy(self: gv.Method, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        most = 1 if public.degrees is None else int(public.degrees.max())
        return plan(self, public, adjacency, reading, noise / max(most, 1))

    method, adjacency = gv.methods.Gap(hidden=4, head=4, epochs=2), Adjacency.of("edge")
    check: Any = test_methods.test_plan_is_pure
    if not broken:
        check(method, adjacency)
        return
    monkeypatch.setattr(Graph, "seal", leaky)
    monkeypatch.setattr(gv.methods.Gap, "plan", greedy)
    with pytest.raises(AssertionError):
        check(method, adjacency)


@pytest.mark.parametrize("broken", [False, True])
def test_noise_scaled_by_the_data(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    """As wide as the sums themselves are, not as the clip: a graph without edges has none."""

    def fitting(self: Gaussian, sealed: Sealed, query: Query, source: Stream) -> Tensor:
        sums = self.bounded(sealed, query)
        return source.add_gaussian(sums, self.std * max(float(sums.std()), 1e-9), unit=self.clip)

    pair = Pair.without_edge(star(2), 0, 1)
    method = gv.methods.Gap(hidden=4, head=4, epochs=2, hops=1)
    plan = planned(method, pair, "edge", noise=2.0)
    if broken:
        monkeypatch.setattr(Gaussian, "apply", fitting)
    assert audited(pair, method, plan, law="any").verdict == ("refuted" if broken else "consistent")


@pytest.mark.parametrize("broken", [False, True])
def test_a_step_released_twice_under_one_use(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    """The mean of two answers has less noise than was charged."""

    def twice(self: Gaussian, sealed: Sealed, query: Query, source: Stream) -> Tensor:
        return (once(self, sealed, query, source) + once(self, sealed, query, source)) / 2

    once = Gaussian.apply
    pair = Pair.without_edge(star(), 0, 1)
    method = gv.methods.Gap(hidden=4, head=4, epochs=2, hops=1)
    plan = planned(method, pair, "edge", noise=1.0)
    if broken:
        monkeypatch.setattr(Gaussian, "apply", twice)
    assert audited(pair, method, plan, runs=1000).verdict == ("refuted" if broken else "consistent")


@dataclass(frozen=True)
class InTwos(Method):
    """Asks for two labels at a time while two are left."""

    units = frozenset({Unit.NODE})

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        act = NoisyVotes(noise, public.num_classes)
        return Plan(adjacency, reading, (Step("label", act, act.curve(1), 4, why="test"),))

    def fit(self, session: Session) -> State:
        told = []
        while session.left("label") >= 2:
            told.append(session.release("label", lambda sealed: sealed.y[sealed.public.train].expand(2, -1), uses=2))
        return {"told": torch.cat(told)}


@pytest.mark.parametrize("broken", [False, True])
def test_a_counter_that_forgets_many_uses(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    """Every call counts as one use: the search sees more answers than were planned."""

    def forgetful(self: Session, name: str, query: Query, uses: int | None = None) -> Tensor:
        answer = whole(self, name, query, uses)
        self._used[name] -= (uses or 1) - 1
        return answer

    whole, adjacency = Session.release, Adjacency.of("node")
    method, (_, sketch, near) = InTwos(), telling(adjacency)[0]
    check = partial(test_methods.worst_move, method, adjacency, Reading.SOUND, method.fit, sketch, near)
    if not broken:
        assert check() <= 1
        return
    monkeypatch.setattr(Session, "release", forgetful)
    with pytest.raises(AssertionError):
        check()


@dataclass(frozen=True)
class Prior(gv.methods.DpSgd):
    """Publishes how many validation nodes have each label, which a query brings along."""

    def fit(self, session: Session) -> State:
        seen: list[Tensor] = []
        return {**super().fit(Peeking(session, seen)), "prior": torch.bincount(seen[0] + 1, minlength=4)}


class Peeking(Session):
    """Hands on what is asked, and keeps the labels of validation nodes for later."""

    def __init__(self, session: Session, seen: list[Tensor]) -> None:
        self.public, self.run, self._whole, self._seen = session.public, session.run, session, seen

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        def peek(sealed: Sealed, **given: Any) -> Any:
            self._seen.append(sealed.y[sealed.public.val].clone())
            return query(sealed, **given)

        return self._whole.release(name, peek, uses)


def test_labels_of_validation_nodes_read_at_node_level() -> None:
    honest, broken, adjacency = (
        gv.methods.DpSgd(steps=2, learning_rate=64.0),
        Prior(steps=2, learning_rate=64.0),
        Adjacency.of("node"),
    )
    assert not test_methods.interference(honest, adjacency, honest.fit)
    assert test_methods.interference(broken, adjacency, broken.fit)


@dataclass(frozen=True)
class Hoarder(gv.methods.Gap):
    """Keeps private arcs where what was made of public data is kept, and finds them there in the next session."""

    def fit(self, session: Session) -> State:
        def hoard(sealed: Sealed) -> Any:
            session.public.cache_public("arcs", lambda: torch.tensor(sealed.adj.num_arcs))
            return messages(sealed, rows=torch.zeros(sealed.public.num_nodes, 1))

        state = {"hop": session.release("hop", hoard)}
        return {**state, "arcs": session.public.cache_public("arcs", lambda: torch.tensor(0))}


@pytest.mark.parametrize("undirected", [False, True])
def test_private_arcs_kept_across_sessions(undirected: bool) -> None:
    honest, broken = (kind(hidden=4, head=4, epochs=2, hops=1) for kind in (gv.methods.Gap, Hoarder))
    adjacency = Adjacency.of("edge", undirected)
    assert not test_methods.interference(honest, adjacency, honest.fit)
    assert test_methods.interference(broken, adjacency, broken.fit)
