"""Probe: what it asks and when, whose labels and features it reads, and what it reaches."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import OUTSIDE_UNPROTECTED, Public
from graphveil.errors import InvalidInput, PrivateAccess
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.prior_response import PriorResponse
from graphveil.methods.label.probe import Probe, _class_sums, _Known
from graphveil.nn.coordinates import Frame
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Query, Reading, Unit

UNITS = ("label", "features")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=600).random_split(seed=0)


class Listening(Session):
    """Keeps what was released, by step."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.heard: dict[str, Tensor] = {}

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        self.heard[name] = super().release(name, query, uses)
        return self.heard[name]


def listened(graph: Graph, method: Probe, unit: str, noise: float) -> tuple[dict[str, Tensor], Tensor]:
    """What was released and the scores that were made of it."""
    public, sealed = graph.seal(Adjacency.of(unit))
    plan = method.plan(public, Adjacency.of(unit), Reading.SOUND, noise)
    session = Listening(public, sealed, plan, Seeded(0))
    torch.manual_seed(0)
    return session.heard, method.fit(session)["logits"]


def changed_node(graph: Graph, node: int, row: Tensor) -> Graph:
    x = graph.x.clone()
    x[node] = row
    return replace(graph, x=x)


# --- What it reaches ---


@pytest.mark.parametrize(("unit", "beyond"), [("label", 0.5), ("features", 0.3)])
def test_it_is_far_better_than_the_largest_class_at_epsilon_one(unit: str, beyond: float) -> None:
    graph = gv.datasets.load("social", split="random", seed=0)
    release = gv.train(graph, Probe(), epsilon=1, unit=unit, seed=0)
    assert release.certificate.epsilon <= 1
    largest = float(torch.bincount(graph.y[graph.test]).max() / graph.test.sum())
    assert release.evaluate("test")["accuracy"] > largest + beyond


@pytest.mark.parametrize("unit", UNITS)
def test_answers_of_many_help(unit: str) -> None:
    graph = social(num_nodes=1500, homophily=0.5).random_split(seed=0)
    reached = [
        gv.train(graph, Probe(worth=worth), epsilon=6, delta=1e-5, unit=unit, seed=0).evaluate("test")["accuracy"]
        for worth in (1e9, 50.0)
    ]
    assert reached[1] > reached[0]


@pytest.mark.parametrize("unit", UNITS)
def test_groups_are_found_where_features_say_nothing(unit: str) -> None:
    graph = social(num_nodes=2000, num_classes=2, homophily=0.9, seed=1).random_split(seed=0)
    torch.manual_seed(0)
    blind = replace(graph, x=torch.randn(graph.x.shape))
    assert gv.train(blind, Probe(), epsilon=2, delta=1e-5, unit=unit, seed=0).evaluate("test")["accuracy"] > 0.7


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("worth", [0.0, 50.0])
def test_everybody_is_scored_and_the_same_seed_scores_the_same(graph: Graph, unit: str, worth: float) -> None:
    first, again, other = (
        gv.train(one, Probe(worth=worth), noise=0.7, delta=1e-5, unit=unit, seed=seed)
        for one, seed in ((graph, 3), (replace(graph), 3), (graph, 4))
    )
    scores = first.state["logits"]
    assert scores.shape == (600, 4)
    assert torch.allclose(scores.exp().sum(dim=1), torch.ones(600), atol=1e-5)
    assert bool((first.predict().bincount(minlength=4) > 0).all())
    assert torch.equal(scores, again.state["logits"])
    assert not torch.equal(scores, other.state["logits"])


# --- What it asks, and what that costs ---


@pytest.mark.parametrize("unit", UNITS)
def test_a_budget_is_planned_without_data_and_kept(unit: str) -> None:
    adjacency, asked = Adjacency.of(unit), set()
    for num_train, epsilon in ((100, 1.0), (4500, 0.5), (4500, 0.95), (4500, 1.05), (4500, 4.0), (10**6, 0.1)):
        plans = partial(Probe().plan, Public.blank(2 * num_train, 9, 4, num_train=num_train), adjacency, Reading.SOUND)
        found = accounting.calibrate(plans, epsilon, 1e-5)
        assert 0.99 * epsilon < accounting.epsilon(found.plan, 1e-5) <= epsilon
        asked.add(len(found.plan.steps))
    assert asked == {1, 2}


@pytest.mark.parametrize("reading", list(Reading))
@pytest.mark.parametrize(("unit", "share"), [("label", 0.8), ("features", 0.65)])
@pytest.mark.parametrize(("classes", "noise"), [(2, 0.2), (2, 3.0), (4, 1.0), (20, 0.2), (20, 2.0)])
def test_nodes_are_asked_where_their_answers_are_worth_enough_clean_labels(
    unit: str, share: float, classes: int, noise: float, reading: Reading
) -> None:
    grown = math.exp(share / noise)
    enough = math.ceil(50 * classes * ((grown + classes - 1) / (grown - 1)) ** 2)
    for num_train in (enough - 1, enough):
        public = Public.blank(enough + 9, 5, classes, num_train=num_train)
        plan = Probe().plan(public, Adjacency.of(unit), reading, noise)
        assert (OUTSIDE_UNPROTECTED in plan.assumes) is (unit == "features")
        sums = plan.act("sums", Gaussian)
        if num_train < enough:
            assert [step.name for step in plan.steps] == ["sums"]
            assert sums.std == pytest.approx(5.5 * noise)
        else:
            assert [step.name for step in plan.steps] == ["sums", "answers"]
            assert sums.std == pytest.approx(5.5 / (1 - share) * noise)
            assert plan.act("answers", PriorResponse) == PriorResponse(share / noise, classes)
        assert plan.step("sums").claim.gdp() == pytest.approx(math.sqrt(2) / sums.std)
        assert all(step.times == 1 for step in plan.steps)


def test_worth_decides_who_is_asked() -> None:
    public = Public.blank(100, 5, 10, num_train=1)
    for worth, steps in ((0.0, 2), (1e-9, 2), (50.0, 1), (1e300, 1)):
        assert len(Probe(worth=worth).plan(public, Adjacency.of("label"), Reading.SOUND, 5.0).steps) == steps


@pytest.mark.parametrize(
    "wrong", [{"width": -1}, {"width": 2.5}, {"width": True}, {"worth": -1.0}, {"worth": math.nan}, {"worth": math.inf}]
)
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Probe(**wrong)


def test_other_units_are_refused(graph: Graph) -> None:
    for unit in ("edge", "node"):
        with pytest.raises(gv.Unsupported):
            gv.train(graph, Probe(), epsilon=1, unit=unit, seed=0)


# --- Whom it reads ---


@pytest.mark.parametrize("unit", UNITS)
def test_nearly_without_noise_every_training_node_says_its_own_label(graph: Graph, unit: str) -> None:
    heard, scores = listened(graph, Probe(), unit, 0.025)
    assert torch.equal(heard["answers"], graph.y[graph.train])
    assert torch.equal(scores.argmax(dim=1)[graph.train], graph.y[graph.train])


def test_nearly_without_noise_the_sums_are_those_of_the_classes(graph: Graph) -> None:
    heard, _ = listened(graph, Probe(width=5, worth=1e9), "label", 1e-6)
    torch.manual_seed(0)
    around = _Known.of(graph.seal(Adjacency.of("label"))[0], Unit.LABEL).around
    rows = Frame.of(around[graph.train], 5)(around)[graph.train]
    wanted = rows.T @ torch.nn.functional.one_hot(graph.y[graph.train], 4).double()
    assert torch.allclose(heard["sums"].double().reshape(6, 4), wanted, atol=1e-3)


@pytest.mark.parametrize("unit", UNITS)
def test_labels_outside_training_are_never_read(graph: Graph, unit: str) -> None:
    hidden = replace(graph, y=torch.where(graph.train, graph.y, (graph.y + 1) % 4))
    first, second = (
        gv.train(one, Probe(worth=0.0), noise=0.5, delta=1e-5, unit=unit, seed=0).state["logits"]
        for one in (graph, hidden)
    )
    assert torch.equal(first, second)


def test_features_of_a_training_node_are_in_the_sums_alone(graph: Graph) -> None:
    adjacency = Adjacency.of("features")
    public, sealed = graph.seal(adjacency)
    known = _Known.of(public, Unit.FEATURES)
    frame = Frame.of(known.own, 20)
    rows = Frame.of(known.around[graph.train], 20)(known.around)[graph.train]
    query = partial(_class_sums, rows=rows, frame=frame, scaling=known.scaling, block=None)
    with sealed.opened():
        whole = query(sealed).clipped_sum(1.0)
    moves = []
    for node in graph.train.nonzero().ravel()[::150].tolist():
        for row in (-1e30 * graph.x[node], 0 * graph.x[node]):
            other = changed_node(graph, node, row)
            seen, shut = other.seal(adjacency)
            same = _Known.of(seen, Unit.FEATURES)
            assert same is not known
            assert torch.equal(same.around, known.around)
            assert torch.equal(same.own, known.own)
            with shut.opened():
                moves.append(float((query(shut).clipped_sum(1.0) - whole).norm()))
            relabelled = other.y.clone()
            relabelled[node] = (relabelled[node] + 1) % 4
            _, shut = replace(other, y=relabelled).seal(adjacency)
            with shut.opened():
                moves.append(float((query(shut).clipped_sum(1.0) - whole).norm()))
    assert 0.5 < max(moves) <= math.sqrt(2)


def test_features_of_a_training_node_move_no_candidate_and_no_score_but_through_the_sums(graph: Graph) -> None:
    """With sums that say nothing, two graphs that differ in a training node's features are told the same."""
    node = int(graph.train.nonzero()[5])
    other = changed_node(graph, node, -30 * graph.x[node])
    scores = []
    for one in (graph, other):
        public, sealed = one.seal(Adjacency.of("features"))
        plan = Probe(worth=0.0).plan(public, Adjacency.of("features"), Reading.SOUND, 0.3)
        session = _Deaf(public, sealed, plan, Seeded(0))
        torch.manual_seed(0)
        scores.append(Probe(worth=0.0).fit(session)["logits"])
    assert torch.equal(scores[0], scores[1])


class _Deaf(Session):
    """Nothing is heard of the sums."""

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        told = super().release(name, query, uses)
        return torch.zeros_like(told) if name == "sums" else told


def test_at_label_level_nodes_outside_training_are_not_asked_for(graph: Graph) -> None:
    public, _ = graph.seal(Adjacency.of("label"))
    with pytest.raises(PrivateAccess):
        public.outside_training()
    assert _Known.of(public, Unit.LABEL).own.shape[0] == graph.num_nodes


@pytest.mark.parametrize("unit", UNITS)
def test_everybody_may_train_and_few_may(graph: Graph, unit: str) -> None:
    none = torch.zeros(600, dtype=torch.bool)
    first = none.clone()
    first[:2] = True
    for train in (none | True, first, none):
        split = graph.with_split(train, none, none, "odd")
        _, scores = listened(split, Probe(worth=0.0), unit, 1.0)
        assert bool(scores.isfinite().all())


def test_directed_graphs_are_read_both_ways(graph: Graph) -> None:
    sources, targets = graph.adj.edge_index().numpy()
    once = Csr.from_edge_index(sources[sources < targets], targets[sources < targets], 600)
    directed = replace(graph, adj=once, undirected=False)
    for unit in UNITS:
        first, second = (listened(one, Probe(), unit, 0.5)[1] for one in (graph, directed))
        assert torch.equal(first, second)
