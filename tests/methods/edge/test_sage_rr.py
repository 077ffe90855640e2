"""SAGE on a flipped graph: what it spends, what the authors charge for the same acts, what it reads and serves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from neighbours import Probe, Sketch, neighbour

import graphveil as gv
from communities import communities
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.flipped_edges import Asked, FlippedEdges, counted
from graphveil.mechanisms.laplace import Laplace
from graphveil.methods.edge.sage_rr import SageRr
from graphveil.methods.method import METHODS
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit

QUICK = SageRr(hidden=8, epochs=5)


def blocks(nodes: int, seed: int) -> Graph:
    return communities(nodes, seed).random_split(seed=seed)


def plan_of(method: SageRr, noise: float, reading: Reading = Reading.SOUND, undirected: bool = True) -> Plan:
    public = Public.blank(50, 5, 3, undirected)
    return method.plan(public, Adjacency.of("edge", undirected), reading, noise)


@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0, 3.0])
def test_the_whole_budget_is_one_over_the_noise(noise: float) -> None:
    count, flips = plan_of(QUICK, noise).steps
    assert isinstance(count.act, Laplace)
    assert isinstance(flips.act, FlippedEdges)
    assert 1 / count.act.scale + flips.act.epsilon == pytest.approx(1 / noise)
    assert accounting.epsilon(plan_of(QUICK, noise), 1e-9) <= 1 / noise * (1 + 1e-3)
    assert accounting.epsilon(plan_of(QUICK, noise), 1e-9) >= 1 / noise * 0.98


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
def test_calibration_meets_epsilon_from_below(epsilon: float) -> None:
    found = accounting.calibrate(partial(plan_of, QUICK), epsilon, 1e-5)
    assert epsilon * 0.999 <= found.epsilon <= epsilon


def test_without_noise_nothing_is_protected_and_nothing_is_flipped() -> None:
    plan = plan_of(QUICK, 0.0)
    assert accounting.epsilon(plan, 1e-5) == math.inf
    graph = blocks(40, seed=1)
    public, sealed = graph.seal(Adjacency.of("edge"))
    out = QUICK.arcs(Session(public, sealed, plan, Seeded(0)))
    assert out.indptr.tolist() == graph.adj.indptr.tolist()
    assert out.indices.tolist() == graph.adj.indices.tolist()


# --- What the authors charge. ---


def test_published_charges_half_where_both_arcs_answer() -> None:
    arcs = replace(QUICK, answers="arcs")
    published, sound = plan_of(arcs, 1.0, Reading.PUBLISHED), plan_of(arcs, 1.0)
    assert published.refuted
    assert accounting.epsilon(sound, 1e-9) == pytest.approx(2 * accounting.epsilon(published, 1e-9), rel=0.01)
    # An arc of a directed graph is one entry, and one coin for an edge is what they charge: both are right.
    for undirected in (False, True):
        same = plan_of(QUICK, 1.0, Reading.PUBLISHED, undirected)
        assert not same.refuted
        assert [step.claim for step in same.steps] == [
            step.claim for step in plan_of(QUICK, 1.0, undirected=undirected).steps
        ]
    with pytest.raises(Unsupported, match="without an undirected graph"):
        plan_of(arcs, 1.0, undirected=False)


# --- What is read. ---


@dataclass(frozen=True)
class _PrivateDensity(SageRr):
    """The mutation: the share of kept yeses comes from the private graph itself."""

    def arcs(self, session: Session) -> Csr:
        act = session.plan.step("flips").act
        assert isinstance(act, FlippedEdges)
        session.release("count", partial(counted, undirected=act.undirected))
        nodes = session.public.num_nodes

        def peeking(sealed: Sealed) -> Asked:
            edges = sealed.adj.num_arcs / 2
            return Asked(sealed.adj, act.share(nodes * (nodes - 1) // 2, edges, edges))

        session.release("flips", peeking)
        return Csr.empty(nodes)


@pytest.mark.parametrize("method", [QUICK, _PrivateDensity(hidden=4, epochs=1)], ids=["released", "private"])
def test_the_share_depends_on_the_released_count_alone(method: SageRr) -> None:
    rng = np.random.default_rng(5)
    sketch = replace(Sketch.random(rng, undirected=True, nodes=9), links=np.zeros((9, 9), dtype=bool)).toggled(2, 6)
    public, sealed = sketch.graph().seal(Adjacency.of("edge"))
    plan = method.plan(public, Adjacency.of("edge"), Reading.SOUND, 1.0)
    near = neighbour(sketch, Unit.EDGE, rng)
    probe = Probe(Session(public, sealed, plan, Seeded(1)), sketch.sealed(public), near.sealed(public))
    method.arcs(probe)
    assert probe.worst == (math.inf if isinstance(method, _PrivateDensity) else pytest.approx(1.0))


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("growth", [1.0, 3.0])
def test_the_flipped_graph_has_the_expected_size_and_is_valid(undirected: bool, growth: float) -> None:
    graph = blocks(300, seed=2)
    if not undirected:
        graph = replace(graph, undirected=False)
    adjacency = Adjacency.of("edge", undirected)
    public, sealed = graph.seal(adjacency)
    method = replace(QUICK, growth=growth)
    sizes = []
    for seed in range(10):
        session = Session(public, sealed, method.plan(public, adjacency, Reading.SOUND, 0.5), Seeded(seed))
        out = method.arcs(session)
        assert not out.has_loops()
        assert out.is_symmetric() == undirected
        sizes.append(out.num_arcs)
    assert np.mean(sizes) / graph.adj.num_arcs == pytest.approx(growth, rel=0.1)


def test_a_count_below_zero_gives_an_empty_graph() -> None:
    sketch = Sketch.random(np.random.default_rng(0), undirected=True, nodes=9)
    empty = replace(sketch, links=np.zeros_like(sketch.links))
    public, sealed = empty.graph().seal(Adjacency.of("edge"))
    sizes = set()
    for seed in range(8):
        plan = QUICK.plan(public, Adjacency.of("edge"), Reading.SOUND, 1.0)
        sizes.add(QUICK.arcs(Session(public, sealed, plan, Seeded(seed))).num_arcs)
    assert 0 in sizes
    assert max(sizes) > 0


# --- Training and serving. ---


def test_it_learns_from_edges_when_the_budget_allows() -> None:
    graph = blocks(400, seed=3)
    method = SageRr(hidden=16, epochs=60)
    reached = {
        epsilon: gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit="edge", seed=0).evaluate("test")["accuracy"]
        for epsilon in (0.1, 8.0)
    }
    assert reached[8.0] > reached[0.1] + 0.1


def test_another_graph_spends_its_own_budget() -> None:
    graph, other = blocks(60, seed=4), replace(blocks(90, seed=5), name="other")
    release = gv.train(graph, QUICK, epsilon=2.0, delta=1e-5, unit="edge", seed=0)
    with pytest.raises(Unsupported):
        release.predict(other)
    served = gv.infer(release, other, epsilon=1.0, delta=1e-5, seed=0)
    assert len(served.predict()) == 90
    assert [step.name for step in served.certificate.plan.steps] == ["count", "flips"]
    assert served.certificate.epsilon <= 1.0


def test_the_name_on_the_command_line() -> None:
    assert METHODS.find("sage_rr") is SageRr
    assert gv.methods.SageRr is SageRr


@pytest.mark.parametrize(
    "wrong",
    [{"growth": 0.0}, {"growth": math.inf}, {"count_share": 0.0}, {"count_share": 1.0}, {"answers": "both"}],
)
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SageRr(**wrong)


@pytest.mark.parametrize("unit", ["node", "features", "label"])
def test_other_units_are_refused(unit: str) -> None:
    with pytest.raises(Unsupported, match="it supports: edge"):
        gv.train(blocks(30, seed=6), QUICK, epsilon=1.0, unit=unit, seed=0)
