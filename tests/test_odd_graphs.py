"""Every method on odd graphs: a release or a refusal in words, before the private data is reached."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphveil as gv
from fuzz import graphs
from fuzz.graphs import BAD, GRAPHS, Case, Ending, ending, every, graph_of, some
from graphveil.errors import InvalidInput
from graphveil.methods.method import METHODS, Method
from graphveil.privacy.session import Session
from graphveil.vocabulary import Unit

TELLING = [
    "one node",
    "two nodes alone",
    "one class of three",
    "all ids are blank",
    "nobody who trains has a label",
    "features to 3.4e38",
]
"""Those on which most methods have failed, or nearly."""


@pytest.mark.parametrize("name", METHODS.ours())
def test_odd_graphs_end_in_a_release_or_in_words(name: str) -> None:
    """Two graphs for every method and unit, other ones for every method."""
    kind = METHODS.ours()[name]
    for turn, unit in enumerate(sorted(kind.units)):
        for step in range(2):
            place = 3 * turn + step + len(name)
            graph = TELLING[place % len(TELLING)] + (" beside usual" if kind.needs_public else "")
            case = Case(graph, kind.specimens()[step % len(kind.specimens())], unit, {"noise": 1.0}, place)
            found = ending(case)
            assert found.kind not in BAD, f"{case}: {found}"


@pytest.mark.parametrize(
    ("graph", "method", "unit"),
    [
        ("one node", gv.methods.Gin(hidden=4, epochs=2), Unit.EDGE),
        ("one node", gv.methods.LapGraph(network="gin", hidden=4, epochs=2), Unit.EDGE),
        ("complete beside one node", gv.methods.Pate.specimens()[1], Unit.NODE),
    ],
)
def test_batch_normalisation_takes_one_node(graph: str, method: Method, unit: Unit) -> None:
    assert ending(Case(graph, method, unit, {"epsilon": float("inf")}, 0)).kind == "released"


def test_next_to_no_noise_is_no_overflow() -> None:
    method = gv.methods.PrivGnn.specimens()[0]
    assert ending(Case("complete beside usual", method, Unit.NODE, {"noise": 1e-9}, 0)).kind == "released"


def test_all_cases_are_many_and_some_meet_every_method() -> None:
    cases = list(every())
    assert len(cases) >= 588
    assert {case.graph for case in cases} >= set(GRAPHS)
    assert {case.method.name() for case in some(588, 0)} == set(METHODS.ours())
    assert [str(case) for case in some(9, 3)] == [str(case) for case in some(9, 3)]


def test_graphs_are_what_their_names_say() -> None:
    assert graph_of("complete").num_edges == 24 * 23 // 2
    assert not graph_of("directed").undirected
    assert graph_of("60 classes").num_classes == 60
    assert not (graph_of("all ids are blank").y >= 0).any()
    assert graph_of("features to 1e-44").x.abs().max() < torch.finfo(torch.float32).tiny


class TestEndings:
    """The script tells apart what it counts."""

    CASE = Case("star", gv.methods.Mlp(hidden=4, epochs=2), Unit.EDGE, {"noise": 1.0}, 0)

    def met(self, monkeypatch: pytest.MonkeyPatch, fit: Callable[..., Any]) -> Ending:
        monkeypatch.setattr(gv.methods.Mlp, "fit", fit)
        return ending(self.CASE)

    def test_a_release(self) -> None:
        assert ending(self.CASE).kind == "released"

    def test_another_exception(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = self.met(monkeypatch, lambda *_: 1 / 0)
        assert found.kind == "raw"
        assert "ZeroDivisionError" in found.said

    def test_a_refusal_after_the_data_was_reached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fit(*_: object) -> None:
            raise InvalidInput("too late")

        assert self.met(monkeypatch, fit).kind == "late"
        assert ending(Case("star", gv.methods.Gap(), Unit.NODE, {"noise": 1.0}, 0)).kind == "refused"

    def test_numbers_that_are_not_finite(self, monkeypatch: pytest.MonkeyPatch) -> None:
        own = gv.methods.Mlp.fit

        def fit(method: Any, session: Session) -> Any:
            return {name: part * torch.nan for name, part in own(method, session).items()}

        assert self.met(monkeypatch, fit).kind == "warned"
        monkeypatch.setattr(warnings, "warn", lambda *_, **__: None)
        assert ending(self.CASE).kind == "silent"

    def test_a_run_that_does_not_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fit(_: Method, session: Session) -> None:
            while session:
                pass

        monkeypatch.setattr(graphs, "LIMIT", 1)
        assert self.met(monkeypatch, fit).kind == "slow"
