"""PATE: one node turns one voter, and elections are counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.noisy_votes import NoisyVotes, TwoLaplaceCurve
from graphveil.methods.public_graph.pate import Pate
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Query, Reading
from two_graphs import NODE, SIZES, pair

SMALL = Pate(queries=30, voters=6, width=8, hidden=8, epochs=15)


class Listening(Session):
    """Keeps the votes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.votes = Tensor()

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        def noted(sealed: Sealed) -> Tensor:
            self.votes = query(sealed)
            return self.votes

        return super().release(name, noted, uses)


def votes(graph: Graph, method: Pate, gone: list[int]) -> Tensor:
    public, _ = graph.seal(NODE)
    links = graph.adj.edge_index().numpy()
    kept = ~torch.isin(torch.from_numpy(links), torch.tensor(gone)).any(dim=0).numpy()
    x, y = graph.x.clone(), graph.y.clone()
    x[gone], y[gone] = 0.0, -1
    sealed = Sealed(x, y, Csr.from_edge_index(*links[:, kept], graph.num_nodes), public)  # type: ignore[call-arg]
    session = Listening(public, sealed, method.plan(public, NODE, Reading.SOUND, 1.0), Seeded(0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        method.fit(session)
    return session.votes


@pytest.mark.parametrize("method", [SMALL, replace(SMALL, teacher="gnn")], ids=str)
def test_a_node_turns_one_voter(method: Pate) -> None:
    graph = pair()
    everyone = votes(graph, method, [])
    assert everyone.shape == (30, 6)
    turned = set()
    for node in range(0, 120, 10):
        changed = (votes(graph, method, [node]) != everyone).any(dim=0).nonzero().flatten().tolist()
        assert len(changed) <= 1
        turned.update(changed)
    assert len(turned) > 1, "nobody was ever turned: the test sees nothing"


def test_voters_without_nodes_still_vote() -> None:
    graph = pair()
    assert votes(graph, SMALL, list(range(120))).shape == (30, 6)
    assert votes(graph, SMALL, list(range(1, 120))).shape == (30, 6)
    assert votes(graph, replace(SMALL, voters=500, teacher="gnn", epochs=1), []).shape == (30, 500)


def test_what_is_charged() -> None:
    laplace = replace(SMALL, aggregate="lnmax", queries=1000)
    step = laplace.plan(SIZES, NODE, Reading.SOUND, 10.0).steps[0]
    assert isinstance(step.act, NoisyVotes)
    assert isinstance(step.claim, TwoLaplaceCurve)
    assert step.times == 1000
    published = laplace.plan(SIZES, NODE, Reading.PUBLISHED, 10.0)
    assert not published.refuted, "Papernot et al.'s bound is sound"
    assert accounting.epsilon(published, 1e-4) > accounting.epsilon(
        laplace.plan(SIZES, NODE, Reading.SOUND, 10.0), 1e-4
    )
    gaussian = Pate(queries=1000).plan(SIZES, NODE, Reading.SOUND, 10.0)
    assert gaussian.steps[0].claim.gdp() == pytest.approx(2**0.5 / 10, rel=1e-5)
    for method in (laplace, SMALL):
        for reading in Reading:
            assert method.plan(SIZES, NODE, reading, 0.0).steps[0].claim.infinite


def test_students_learn_what_voters_know() -> None:
    method = replace(SMALL, queries=80, epochs=60)
    release = gv.train(pair(), method, noise=0.1, delta=1e-4, unit="node", seed=1)
    assert release.evaluate("test")["accuracy"] > 0.6


@pytest.mark.parametrize("wrong", [{"voters": 0}, {"teacher": "svm"}, {"aggregate": "mean"}, {"queries": 0}])
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Pate(**wrong)
