"""LPGNN: which bits are told, whose features set the range, and what it reaches."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import OUTSIDE_UNPROTECTED, Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.one_bit import OneBit
from graphveil.mechanisms.prior_response import PriorResponse
from graphveil.methods.label.lpgnn import Lpgnn, Span
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Query, Reading

FEATURES = Adjacency.of("features")
SMALL = Lpgnn(hidden=8, epochs=20, feature_hops=2)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=600).random_split(seed=0)


class Listening(Session):
    """Keeps what each release was asked, by step."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.asked: dict[str, list[Any]] = {"bits": [], "labels": []}

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        def noted(sealed: Any) -> Any:
            self.asked[name].append(query(sealed))
            return self.asked[name][-1]

        return super().release(name, noted, uses)


def session_of(graph: Graph, method: Lpgnn, noise: float, seed: int = 0) -> Listening:
    public, sealed = graph.seal(FEATURES)
    torch.manual_seed(seed)
    return Listening(public, sealed, method.plan(public, FEATURES, Reading.SOUND, noise), Seeded(seed))


def listened(graph: Graph, method: Lpgnn, noise: float) -> Listening:
    session = session_of(graph, method, noise)
    method.fit(session)
    return session


# --- What it asks, and what that costs ---


@pytest.mark.parametrize("reading", list(Reading))
@pytest.mark.parametrize(("whole", "bits"), [(0.5, 1), (4.3, 1), (4.4, 2), (30.0, 9), (1e9, 9)])
def test_bits_follow_from_the_budget_of_the_features(whole: float, bits: int, reading: Reading) -> None:
    label_share = 1 / 1024
    plan = Lpgnn(label_share=label_share).plan(Public.blank(100, 9, 4), FEATURES, reading, 1 / whole)
    step = plan.step("bits")
    assert step.times == bits
    assert plan.act("bits", OneBit).epsilon == pytest.approx((1 - label_share) * whole / bits)
    assert step.claim == step.act.curve(1)
    assert plan.act("labels", PriorResponse).epsilon == pytest.approx(label_share * whole)
    assert plan.step("labels").times == 1
    assert OUTSIDE_UNPROTECTED in plan.assumes


@pytest.mark.parametrize("method", [Lpgnn(), Lpgnn(bits=5, label_share=0.3)])
def test_a_budget_is_planned_without_data_and_kept(method: Lpgnn) -> None:
    plans = partial(method.plan, Public.blank(100, 9, 4), FEATURES, Reading.SOUND)
    for epsilon in (0.2, 1.0, 4.0, 12.0):
        found = accounting.calibrate(plans, epsilon, 1e-5)
        assert 0.98 * epsilon < accounting.epsilon(found.plan, 1e-5) <= epsilon
        # Pure composition is an upper bound.
        acts = found.plan.act("bits", OneBit), found.plan.act("labels", PriorResponse)
        assert acts[0].epsilon * found.plan.step("bits").times + acts[1].epsilon >= epsilon * 0.98


@pytest.mark.parametrize(
    "wrong",
    [
        {"bits": -1},
        {"bits": 1.5},
        {"label_share": 0.0},
        {"label_share": 1.0},
        {"label_share": math.nan},
        {"feature_hops": -1},
        {"label_hops": -1},
        {"hidden": 0},
        {"epochs": 0},
        {"dropout": 1.0},
        {"learning_rate": 0.0},
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Lpgnn(**wrong)


def test_more_bits_than_features_are_refused_before_anything_is_read(graph: Graph) -> None:
    with pytest.raises(InvalidInput, match="use at most"):
        gv.train(graph, Lpgnn(bits=graph.num_features + 1), epsilon=1, unit="features", seed=0)


# --- What is told ---


def test_what_is_told_of_features_is_right_on_average(graph: Graph) -> None:
    few = replace(graph, x=graph.x[:, :6].contiguous())
    method = replace(SMALL, bits=4, label_share=0.5)
    span = Span.of(few.x[~few.train])
    wanted = span(few.x, slice(None))
    found = np.mean([method._features(session_of(few, method, 0.05, seed)).numpy() for seed in range(100)], axis=0)
    assert found[~few.train.numpy()] == pytest.approx(wanted[~few.train].numpy(), abs=1e-4)
    # One entry is 0 or +- 6 / (4 mean), so that 100 of them have a deviation of at most sqrt(6/4) / (10 mean).
    error = np.abs(found - wanted.numpy())[few.train.numpy()]
    assert error.max() < 6 * math.sqrt(6 / 4) / (10 * math.tanh(20 * 0.5 / 8))


def test_a_node_is_asked_for_different_features_each_equally_often(graph: Graph) -> None:
    """Told without lies, features of 1 or -1 show which ones were asked."""
    signs = replace(graph, x=torch.where(graph.x > 0, 1.0, -1.0)[:, :5].contiguous())
    session = session_of(signs, replace(SMALL, bits=3), 1e-3)
    told = SMALL._features(session)[signs.train]
    assert bool(((told != 0).sum(dim=1) == 3).all())
    assert bool((told.sign() == signs.x[signs.train])[told != 0].all())
    assert bool(((told != 0).double().mean(dim=0) - 0.6).abs().max() < 0.12)


def test_ranges_come_from_nodes_outside_training_and_bound_the_others(graph: Graph) -> None:
    node = int(graph.train.nonzero()[7])
    first = listened(graph, replace(SMALL, bits=2), 0.5)
    for value in (1e30, -1e30):
        x = graph.x.clone()
        x[node] = value
        other = listened(replace(graph, x=x), replace(SMALL, bits=2), 0.5)
        for here, there in zip(first.asked["bits"], other.asked["bits"], strict=True):
            assert float(there.abs().max()) <= 1
            assert (here != there).nonzero().ravel().tolist() == [7]


def test_a_range_without_nodes_or_width() -> None:
    assert Span.of(torch.zeros(0, 2))(torch.tensor([[0.5, 3.0]]), slice(None)).tolist() == [[0.5, 1.0]]
    assert Span.of(torch.full((4, 1), 2.0))(torch.tensor([[2.0], [9.0]]), slice(None)).tolist() == [[0.0], [0.0]]
    assert Span.of(torch.tensor([[0.0], [4.0]]))(torch.tensor([[1.0], [9.0]]), slice(None)).tolist() == [[-0.5], [1.0]]


def test_nearly_without_noise_every_training_node_says_its_own_label(graph: Graph) -> None:
    session = session_of(graph, SMALL, 0.01)
    said, flips = SMALL._labels(session)
    assert torch.equal(said[graph.train], graph.y[graph.train])
    assert torch.allclose(flips, torch.eye(4), atol=1e-5)


def test_chances_of_a_lie_are_those_of_the_mechanism(graph: Graph) -> None:
    method = replace(SMALL, label_share=0.5)
    _, flips = method._labels(session_of(graph, method, 0.5))
    lie = 1 / (math.e + 3)
    assert flips.tolist() == [
        pytest.approx([math.e * lie if said == truth else lie for said in range(4)]) for truth in range(4)
    ]


def test_labels_outside_training_are_never_read(graph: Graph) -> None:
    hidden = replace(graph, y=torch.where(graph.train, graph.y, (graph.y + 1) % 4))
    first, second = (
        gv.train(one, SMALL, noise=0.5, delta=1e-5, unit="features", seed=0).state["logits"] for one in (graph, hidden)
    )
    assert torch.equal(first, second)


# --- What it reaches ---


def test_it_is_better_than_the_largest_class_at_epsilon_four() -> None:
    graph = social(num_nodes=1500).random_split(seed=0)
    release = gv.train(graph, Lpgnn(epochs=100), epsilon=4, delta=1e-5, unit="features", seed=0)
    assert release.certificate.epsilon <= 4
    largest = float(torch.bincount(graph.y[graph.test]).max() / graph.test.sum())
    assert release.evaluate("test")["accuracy"] > largest + 0.2


def test_everybody_may_train_and_few_may(graph: Graph) -> None:
    none = torch.zeros(600, dtype=torch.bool)
    first = none.clone()
    first[:2] = True
    for train in (none | True, first, none):
        session = session_of(graph.with_split(train, none, none, "odd"), SMALL, 1.0)
        assert bool(SMALL.fit(session)["logits"].isfinite().all())
