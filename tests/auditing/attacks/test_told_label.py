"""Labels that are told move releases as far as is claimed, and audits of the methods that tell them see it."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

import graphveil as gv
from graphveil.auditing.attacks.told_label import ToldLabel
from graphveil.auditing.game import Game
from graphveil.data.graph import Graph
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.vocabulary import Adjacency, Mechanism, Query, Reading


@pytest.fixture(scope="module")
def graph() -> Graph:
    return gv.datasets.load("chain-s", split="random", seed=0)


def information(act: Mechanism, here: Sealed, there: Sealed, query: Query, answer: Tensor, uses: int | None) -> float:  # noqa: ARG001
    """Square of how far a sum moves, in standard deviations of its noise; of answers nothing."""
    if not isinstance(act, Gaussian):
        return 0.0
    moved = act.bounded(here, query) - act.bounded(there, query)
    return float(moved.square().sum()) / (act.std * act.clip) ** 2


@pytest.mark.parametrize(
    ("method", "unit", "share"),
    [
        pytest.param(gv.methods.Probe(), "features", 1.0, id="probe"),
        pytest.param(gv.methods.Probe(worth=0.0), "features", 1.0, id="probe-asks"),
        # One of its sums asks whether the regression serves the node better, and may not move: 6 % of the budget, and
        # as votes are whole on this graph, and no Gaussian sum, 6 of what is left of 100 without the 30 of votes.
        pytest.param(gv.methods.Whisper(steps=5), "node", 1 - 6 / 70, id="whisper"),
    ],
)
def test_every_sum_moves_as_far_as_it_may(graph: Graph, method: gv.Method, unit: str, share: float) -> None:
    adjacency = Adjacency.of(unit)
    for pair in ToldLabel().pairs(graph, adjacency, 0):
        plan = method.plan(pair.worlds(adjacency)[0], adjacency, Reading.SOUND, 2.0)
        claimed = sum(step.times * step.claim.gdp() ** 2 for step in plan.steps if step.claim.gdp() is not None)
        told = Game(pair, method, plan, weigh=information).log_ratios(True, range(8))
        assert (told >= share * claimed * (1 - 1e-6)).all(), pair.what
        assert (told <= claimed * (1 + 1e-6)).all(), pair.what


AUDITS: list[Any] = [
    pytest.param(gv.methods.Probe(), "label", 1000, "star_hub", id="probe-label"),
    pytest.param(gv.methods.Probe(), "features", 1000, "told_label", id="probe-features"),
]


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
@pytest.mark.parametrize(("method", "unit", "runs", "attack"), AUDITS)
def test_an_audit_reaches_half_of_a_claim(
    graph: Graph, method: gv.Method, unit: str, runs: int, attack: str, epsilon: float
) -> None:
    given: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "unit": unit, "runs": runs, "attack": attack}
    found = gv.audit(method, graph, compute=gv.Compute(jobs=1), **given)
    assert epsilon / 2 <= found.lower <= found.claimed


@pytest.mark.slow  # sums of probe are heard above
def test_labels_that_are_whispered_are_heard_by_an_audit(graph: Graph) -> None:
    """One gradient step, for the sake of time: how many there are changes neither the claim nor what all of them tell.

    chain-s has few links, so that the plan has a tally beside its Gaussian sums, and no law is known.
    """
    given: dict[str, Any] = {"noise": 0.985, "delta": 1e-5, "unit": "node", "runs": 800, "attack": "told_label"}
    found = gv.audit(gv.methods.Whisper(steps=1), graph, compute=gv.Compute(jobs=1), **given)
    assert found.law == "any"
    assert found.claimed == pytest.approx(4.0, rel=0.01)
    assert found.claimed / 2 <= found.lower <= found.claimed


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2.0, 4.0])
@pytest.mark.parametrize(
    ("method", "unit", "attack"),
    [
        pytest.param(gv.methods.Whisper(), "node", "told_label", id="whisper"),
        pytest.param(gv.methods.Probe(worth=0.0), "label", "star_hub", id="probe-label-asks"),
        pytest.param(gv.methods.Probe(worth=0.0), "features", "told_label", id="probe-features-asks"),
    ],
)
def test_an_audit_of_all_steps_reaches_half_of_a_claim(
    graph: Graph, method: gv.Method, unit: str, attack: str, epsilon: float
) -> None:
    found = gv.audit(method, graph, epsilon=epsilon, delta=1e-5, unit=unit, runs=2000, attack=attack)
    assert epsilon / 2 <= found.lower <= found.claimed


def test_noise_that_is_halved_is_noticed_over_several_sums(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a claim of mu-GDP; no bound that knows no law would see it in so few runs.

    Under so much noise nobody votes, and all that is released is Gaussian. Certified is half more than is claimed.
    """
    given: dict[str, Any] = {"noise": 2.8, "delta": 1e-5, "unit": "node", "runs": 1200, "attack": "told_label"}
    whole = Gaussian.apply
    monkeypatch.setattr(Gaussian, "apply", lambda self, *rest: whole(Gaussian(self.std / 2, self.clip), *rest))
    found = gv.audit(gv.methods.Whisper(steps=2), graph, compute=gv.Compute(jobs=1), **given)
    assert found.verdict == "refuted"
    assert found.bounds["rank_test"] < found.claimed


@pytest.mark.parametrize("unit", ["node", "features"])
def test_without_anybody_outside_there_is_nobody_to_tell(graph: Graph, unit: str) -> None:
    everybody = graph.train | ~graph.train
    inside = graph.with_split(everybody, ~everybody, ~everybody, "all train")
    assert ToldLabel().pairs(inside, Adjacency.of(unit), 0) == []
