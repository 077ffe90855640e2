"""LP-2ST: who is asked when, among what, and what it reaches."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.staged_response import StagedResponse, Stages
from graphveil.methods.label.lp2st import Lp2st, likely_right
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Query, Reading

LABEL = Adjacency.of("label")
SMALL = Lp2st(hidden=16, epochs=20, learning_rate=0.02)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=600).random_split(seed=0)


class Listening(Session):
    """Keeps what was asked and what was released."""

    asked: Stages
    told: Tensor

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        def noted(sealed: Any) -> Stages:
            self.asked = query(sealed)
            return self.asked

        self.told = super().release(name, noted, uses)
        return self.told


def listened(graph: Graph, method: Lp2st, noise: float) -> Listening:
    public, sealed = graph.seal(LABEL)
    session = Listening(public, sealed, method.plan(public, LABEL, Reading.SOUND, noise), Seeded(0))
    torch.manual_seed(0)
    method.fit(session)
    return session


def test_every_training_node_is_asked_once_and_some_of_them_first(graph: Graph) -> None:
    session = listened(graph, replace(SMALL, first=0.3), 0.3)
    assert torch.equal(session.asked.truths, graph.y[graph.train])
    assert session.asked.stage.bincount().tolist() == [135, 315]
    sizes = session.told[:, 1:].sum(dim=1)
    assert bool((sizes[session.asked.stage == 0] == 4).all())
    assert bool((sizes[session.asked.stage == 1] < 4).any()), "the prior rules nothing out"


def test_without_a_prior_all_are_asked_at_once(graph: Graph) -> None:
    session = listened(graph, replace(SMALL, first=1.0), 0.5)
    assert bool((session.asked.stage == 0).all())
    assert bool((session.told[:, 1:] == 1).all())


def test_with_a_prior_more_answers_are_right(graph: Graph) -> None:
    session = listened(graph, SMALL, 0.5)
    right = (session.told[:, 0] == session.asked.truths).double()
    first, second = (float(right[session.asked.stage == stage].mean()) for stage in (0, 1))
    assert first == pytest.approx(math.exp(2) / (math.exp(2) + 3), abs=0.1)
    assert second > first + 0.05


def test_candidates_follow_from_what_was_said_alone(graph: Graph) -> None:
    """Another torch stream, or truths that are others, lead to the same candidates."""
    session = listened(graph, SMALL, 0.5)
    said = torch.where(session.asked.stage == 0, session.told[:, 0], -1)
    later = session.asked.stage == 1
    torch.manual_seed(99)
    assert torch.equal(session.asked.candidates(said)[later].long(), session.told[later, 1:])
    other = listened(replace(graph, y=(graph.y + 1) % 4), SMALL, 0.5)
    assert torch.equal(other.asked.candidates(said), session.asked.candidates(said))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_as_many_candidates_as_make_an_answer_right_most_often(epsilon: float) -> None:
    torch.manual_seed(0)
    prior = (3 * torch.randn(50, 5)).softmax(dim=1)
    chosen = likely_right(prior, epsilon)
    for row, among in zip(prior, chosen, strict=True):
        ranked = row.sort(descending=True)
        right = [math.exp(epsilon) / (math.exp(epsilon) + k - 1) * float(ranked.values[:k].sum()) for k in range(1, 6)]
        best = 1 + max(range(5), key=right.__getitem__)
        assert sorted(among.nonzero().ravel().tolist()) == sorted(ranked.indices[:best].tolist())
    assert bool(likely_right(torch.full((1, 5), 0.2), epsilon).all())


@pytest.mark.parametrize("reading", list(Reading))
def test_one_pure_epsilon_for_both_stages(reading: Reading) -> None:
    plan = Lp2st().plan(Public.blank(100, 5, 4), LABEL, reading, 0.5)
    (step,) = plan.steps
    assert step.times == 1
    assert step.act == StagedResponse(2.0, 4)
    assert isinstance(step.claim, PureCurve)
    assert step.claim.epsilon == pytest.approx(2.0)
    assert accounting.epsilon(plan, 1e-5) <= step.claim.epsilon


def test_a_budget_is_planned_without_data_and_kept() -> None:
    plans = partial(Lp2st().plan, Public.blank(100, 5, 4), LABEL, Reading.SOUND)
    for epsilon in (0.1, 1.0, 8.0):
        found = accounting.calibrate(plans, epsilon, 1e-5)
        assert 0.99 * epsilon < accounting.epsilon(found.plan, 1e-5) <= epsilon


def test_it_learns_at_epsilon_two_and_the_graph_helps() -> None:
    graph = social(num_nodes=1500).random_split(seed=0)
    reached = [
        gv.train(graph, Lp2st(hops=hops), epsilon=2, delta=1e-5, unit="label", seed=0).evaluate("test")["accuracy"]
        for hops in (0, 2)
    ]
    largest = float(torch.bincount(graph.y[graph.test]).max() / graph.test.sum())
    assert reached[1] > max(reached[0], largest + 0.2)


def test_labels_outside_training_are_never_read(graph: Graph) -> None:
    hidden = replace(graph, y=torch.where(graph.train, graph.y, (graph.y + 1) % 4))
    first, second = (
        gv.train(one, SMALL, noise=0.5, delta=1e-5, unit="label", seed=0).state["logits"] for one in (graph, hidden)
    )
    assert torch.equal(first, second)


def test_nobody_and_one_node_may_train(graph: Graph) -> None:
    none = torch.zeros(600, dtype=torch.bool)
    one = none.clone()
    one[3] = True
    for train in (none, one):
        session = listened(graph.with_split(train, none, none, "odd"), SMALL, 1.0)
        assert len(session.told) == int(train.sum())


@pytest.mark.parametrize("wrong", [{"hops": -1}, {"hops": 1.5}, {"first": 0.0}, {"first": 1.1}, {"first": math.nan}])
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Lp2st(**wrong)
