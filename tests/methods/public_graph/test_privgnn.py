"""PrivGNN: what a query reads, how its budget is spent, and what of the labels depends on what."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Overspent
from graphveil.mechanisms.dominating_pair import DominatingPair
from graphveil.mechanisms.noisy_max import LaplaceMax, NoisyMax
from graphveil.mechanisms.poisson import Poisson, PoissonCurve, SampledOnce
from graphveil.methods.public_graph import privgnn
from graphveil.methods.public_graph.privgnn import PrivGnn
from graphveil.privacy import accounting
from graphveil.privacy.noise import Secure, Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Query, Reading
from two_graphs import NODE, SIZES, pair

PAPER = PrivGnn(
    spend="noise", argmax="laplace", sharp=False, teacher="sage", student="sage", queries=12, hidden=8, epochs=5
)


class Listening(Session):
    """Keeps the rows of every query, and the batches they were asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rows: list[Tensor] = []
        self.batches: list[Tensor] = []

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        def noted(sealed: Sealed, batches: list[Tensor]) -> Tensor:
            rows = query(sealed, batches=batches)
            self.rows.append(rows)
            self.batches += batches
            return rows

        return super().release(name, noted, uses)


def without(graph: Graph, node: int) -> Sealed:
    """The sealed graph with a private node blanked."""
    links = graph.adj.edge_index().numpy()
    kept = (links != node).all(axis=0)
    x, y = graph.x.clone(), graph.y.clone()
    x[node], y[node] = 0.0, -1
    return Sealed(x, y, Csr.from_edge_index(*links[:, kept], graph.num_nodes), graph.seal(NODE)[0])  # type: ignore[call-arg]


def heard(graph: Graph, method: PrivGnn, noise: float, node: int | None) -> tuple[Tensor, list[Tensor]]:
    """All rows of a fit, with a private node blanked if one is given."""
    public, sealed = graph.seal(NODE)
    if node is not None:
        sealed = without(graph, node)
    session = Listening(public, sealed, method.plan(public, NODE, Reading.SOUND, noise), Seeded(3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        method.fit(session)
    return torch.cat(session.rows), session.batches


@pytest.mark.parametrize("method", [PrivGnn(queries=60, width=8), PAPER, replace(PAPER, neighbours=10)], ids=str)
def test_a_node_moves_the_rows_it_was_sampled_for_and_no_other_bit(method: PrivGnn) -> None:
    graph = pair()
    here, batches = heard(graph, method, 1.5, None)
    for node in (0, 57, 119):
        there, again = heard(graph, method, 1.5, node)
        assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True)), "coins depend on private data"
        sampled = torch.tensor([node in batch for batch in batches])
        assert sampled.any()
        assert torch.equal(here[~sampled], there[~sampled])


class Alone(Session):
    """Asks every query again without `node` in its samples, and keeps both answers."""

    def __init__(self, node: int, *args: Any) -> None:
        super().__init__(*args)
        self.node = node
        self.pairs: list[tuple[Tensor, Tensor]] = []

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        def noted(sealed: Sealed, batches: list[Tensor]) -> Tensor:
            rows = query(sealed, batches=batches)
            self.pairs.append((rows, query(sealed, batches=[batch[batch != self.node] for batch in batches])))
            assert any(bool((batch == self.node).any()) for batch in batches)
            return rows

        return super().release(name, noted, uses)


@pytest.mark.parametrize(
    "method", [PrivGnn(queries=40, width=8, sharp=False, neighbours=20), replace(PAPER, neighbours=20)], ids=str
)
def test_a_sampled_node_that_is_absent_moves_no_bit(method: PrivGnn) -> None:
    """Amplification compares a node that is not sampled with one that is not there: to teachers they are one."""
    graph, node = pair(), 57
    public, _ = graph.seal(NODE)
    session = Alone(node, public, without(graph, node), method.plan(public, NODE, Reading.SOUND, 1.0), Seeded(3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        method.fit(session)
    assert all(torch.equal(sampled, not_sampled) for sampled, not_sampled in session.pairs)


def test_labels_do_not_depend_on_how_queries_share_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, states = pair(), []
    for turn in (100, 7, 1):
        monkeypatch.setattr(privgnn, "_TURN", turn)
        states.append(gv.train(graph, PrivGnn(queries=20, width=8), noise=1.0, delta=1e-4, unit="node", seed=2).state)
    for other in states[1:]:
        assert all(torch.equal(states[0][name], other[name]) for name in other)


@pytest.mark.parametrize("method", [PrivGnn(queries=40), PAPER, replace(PAPER, neighbours=0, single=True)], ids=str)
def test_exactly_the_planned_queries_are_asked(method: PrivGnn) -> None:
    graph = pair()
    public, sealed = graph.seal(NODE)
    plan = method.plan(public, NODE, Reading.SOUND, 2.0)
    session = Session(public, sealed, plan, Secure())
    method.fit(session)
    assert session.left("label") == 0
    with pytest.raises(Overspent):
        session.release("label", lambda *_, **__: pytest.fail("private data were read"), 1)


def test_no_more_queries_than_public_nodes() -> None:
    public, _ = pair().seal(NODE)
    assert PrivGnn(queries=1000, spend="noise").plan(public, NODE, Reading.SOUND, 1.0).steps[0].times == 80


def test_torch_s_stream_does_not_feel_private_sizes() -> None:
    """What a teacher draws must not move what is drawn after it."""
    graph = pair()
    small = replace(graph, train=graph.train & (torch.arange(graph.num_nodes) < 40))
    after = []
    for each in (graph, small):
        public, sealed = each.seal(NODE)
        for method in (PAPER, replace(PAPER, neighbours=0, single=True)):
            method = replace(method, student="ridge")
            torch.manual_seed(9)
            method.fit(Session(public, sealed, method.plan(public, NODE, Reading.SOUND, 1.0), Seeded(0)))
            after.append(torch.rand(1).item())
    assert len(set(after)) == 1


# --- How a budget is spent. ---


def test_no_part_of_the_rule_grows_with_the_noise() -> None:
    for sizes in (SIZES, Public.blank(60, 5, 2, num_train=50), Public.blank(10**6, 100, 47, num_train=10**6)):
        spent = [PrivGnn().spending(sizes, noise) for noise in np.geomspace(0.01, 1e5, 200)]
        for a, b in pairwise(spent):
            assert a.queries >= b.queries
            assert a.rate >= b.rate * (1 - 1e-12)
            assert a.strength >= b.strength * (1 - 1e-12)
        assert spent[-1].queries >= 1
        assert all(0 < each.rate <= 0.3 for each in spent)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("method", [PrivGnn(), PrivGnn(argmax="laplace"), PrivGnn(spend="noise", rate=0.05)], ids=str)
def test_budgets_are_met(method: PrivGnn, epsilon: float) -> None:
    found = accounting.calibrate(lambda noise: method.plan(SIZES, NODE, Reading.SOUND, noise), epsilon, 1e-4)
    assert 0.97 * epsilon <= found.epsilon <= epsilon


def test_the_rule_spends_in_turn() -> None:
    rule = PrivGnn()
    plenty, some, little, least = (rule.spending(SIZES, noise) for noise in (0.5, 10.0, 60.0, 5000.0))
    assert (plenty.queries, plenty.rate) == (1000, 0.3)
    assert plenty.strength == pytest.approx(2 * np.log(22))
    assert (some.queries, some.strength) == (1000, pytest.approx(np.log(22)))
    assert some.rate == pytest.approx(0.03)
    assert little.rate * 2500 == pytest.approx(20)
    assert 100 < little.queries < 1000
    assert (least.queries, least.rate * 2500) == (100, pytest.approx(20))
    assert least.strength < np.log(22)


def test_no_noise_is_no_protection() -> None:
    for method in (PrivGnn(), PAPER):
        assert method.plan(SIZES, NODE, Reading.SOUND, 0.0).steps[0].claim.infinite
        assert method.plan(SIZES, NODE, Reading.PUBLISHED, 0.0).steps[0].claim.infinite


# --- What is charged. ---


def test_one_sample_for_all_is_charged_without_amplification() -> None:
    single = replace(PAPER, queries=500, neighbours=0, single=True)
    step = single.plan(SIZES, NODE, Reading.SOUND, 2.0).steps[0]
    assert isinstance(step.act, SampledOnce)
    assert isinstance(step.claim, DominatingPair)
    published = single.plan(SIZES, NODE, Reading.PUBLISHED, 2.0)
    assert "one sample" in published.refuted[0]
    assert accounting.epsilon(published, 1e-4) < 0.5 * accounting.epsilon(
        single.plan(SIZES, NODE, Reading.SOUND, 2.0), 1e-4
    )


def test_every_query_is_charged_by_its_sample() -> None:
    step = PrivGnn(queries=500, spend="noise").plan(SIZES, NODE, Reading.SOUND, 1.0).steps[0]
    assert isinstance(step.act, Poisson)
    assert step.act.population == 2500
    assert isinstance(step.claim, PoissonCurve)
    assert (step.claim.rate, step.times) == (0.3, 500)


@pytest.mark.parametrize("method", [PrivGnn(), PAPER], ids=["rule", "noise"])
@pytest.mark.parametrize("noise", [0.5, 4.0, 300.0])
def test_labels_are_told_with_the_strength_that_the_noise_is_spent_on(method: PrivGnn, noise: float) -> None:
    act = method.plan(SIZES, NODE, Reading.SOUND, noise).steps[0].act
    assert isinstance(act, Poisson)
    assert isinstance(act.inner, NoisyMax | LaplaceMax)
    assert act.inner.scale == 1 / method.spending(SIZES, noise).strength


# --- The method at work. ---


@pytest.mark.parametrize("method", [PrivGnn(width=8), replace(PAPER, queries=60, epochs=40)], ids=str)
def test_students_learn_what_teachers_know(method: PrivGnn) -> None:
    release = gv.train(pair(), method, noise=0.05, delta=1e-4, unit="node", seed=1)
    assert release.evaluate("test")["accuracy"] > 0.6


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0.0},
        {"rate": 1.5},
        {"queries": 0},
        {"neighbours": -1},
        {"spend": "all"},
        {"argmax": "max"},
        {"teacher": "nobody"},
        {"student": "nobody"},
        {"temperature": 0.0},
        {"least": 0},
        {"single": True},
        {"scale": "upside down"},
        {"ridge": -1.0},
        {"epochs": 0},
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        PrivGnn(**wrong)


def test_a_public_graph_is_asked_for() -> None:
    with pytest.raises(InvalidInput, match="public graph"):
        gv.train(gv.datasets.load("chain-s"), PrivGnn(), epsilon=1.0, unit="node", seed=0)
