"""Malformed input gives a typed error before any private data is read or any budget is spent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphveil as gv
from graphveil.data.arcs import Csr
from malformed import malformed_graphs


@pytest.fixture(scope="module")
def good() -> gv.Graph:
    return gv.datasets.load("chain-s")


@pytest.fixture(scope="module")
def ledger(good: gv.Graph, tmp_path_factory: pytest.TempPathFactory) -> gv.Ledger:
    book = gv.Ledger(tmp_path_factory.mktemp("ledger") / "ledger.db")
    book.open(good, "edge", epsilon=3, delta=1e-5)
    gv.train(good, gv.methods.Gap(epochs=1), epsilon=1, delta=1e-5, unit="edge", ledger=book)
    return book


def contents(book: gv.Ledger) -> Any:
    return book.accounts(), book.entries()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attempt=malformed_graphs())
def test_200_malformed_graphs_leave_the_ledger_alone(attempt: Any, ledger: gv.Ledger) -> None:
    before = contents(ledger)
    _, build = attempt
    with pytest.raises(gv.InvalidInput):
        gv.train(build(), gv.methods.Gap(epochs=1), epsilon=1, delta=1e-5, unit="edge", ledger=ledger)
    assert contents(ledger) == before


BAD_NUMBERS = st.sampled_from([0, -1, -0.5, math.nan, -math.inf, "1", None, [1]])
BAD_ARGUMENTS = st.one_of(
    st.fixed_dictionaries({"epsilon": BAD_NUMBERS}),
    st.fixed_dictionaries({"delta": st.sampled_from([0, 1, -1e-5, 2, math.nan, math.inf, "1e-5"])}),
    st.fixed_dictionaries({"unit": st.text(max_size=6).filter(lambda word: word not in set(gv.Unit))}),
    st.fixed_dictionaries({"unit": st.sampled_from(["node", "features", "label"])}),  # gap protects edges only
    st.fixed_dictionaries({"reading": st.text(max_size=6).filter(lambda word: word not in set(gv.Reading))}),
    st.fixed_dictionaries({"seed": st.sampled_from([-1, 1.5, "0", True])}),
    st.fixed_dictionaries({"noise": st.sampled_from([1.0, -1.0, math.nan])}),
    st.fixed_dictionaries({"epsilon": st.none(), "noise": st.sampled_from([-1.0, math.nan, math.inf])}),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wrong=BAD_ARGUMENTS)
def test_200_malformed_arguments_leave_the_ledger_alone(wrong: Any, good: gv.Graph, ledger: gv.Ledger) -> None:
    before = contents(ledger)
    arguments = {"epsilon": 1, "delta": 1e-5, "unit": "edge", **wrong}
    with pytest.raises(gv.GraphveilError):
        gv.train(good, gv.methods.Gap(epochs=1), ledger=ledger, **arguments)
    assert contents(ledger) == before


def test_a_graph_without_split_is_refused(good: gv.Graph, ledger: gv.Ledger) -> None:
    none = torch.zeros(good.num_nodes, dtype=torch.bool)
    with pytest.raises(gv.InvalidInput, match="split"):
        gv.train(good.with_split(none, none, none, "none"), gv.methods.Mlp(), epsilon=1, unit="edge", ledger=ledger)


def test_a_graph_with_a_test_set_and_nothing_to_train_on_is_refused(good: gv.Graph, ledger: gv.Ledger) -> None:
    none = torch.zeros(good.num_nodes, dtype=torch.bool)
    with pytest.raises(gv.InvalidInput, match="no training nodes"):
        gv.train(
            good.with_split(none, none, good.test, "bare"), gv.methods.Mlp(), epsilon=1, unit="edge", ledger=ledger
        )


def test_a_graph_that_is_no_graph_is_refused(ledger: gv.Ledger) -> None:
    wrong: Any = Csr.from_edge_index(torch.zeros(0).long().numpy(), torch.zeros(0).long().numpy(), 1)
    with pytest.raises(gv.InvalidInput, match="Graph"):
        gv.train(wrong, gv.methods.Mlp(), epsilon=1, unit="edge", ledger=ledger)


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 400])
def test_a_corrupted_ledger_is_refused_and_kept(good: gv.Graph, tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(damage)
    for attempt in (lambda: gv.Ledger(path), lambda: train_with(path, good)):
        with pytest.raises(gv.InvalidInput, match="not a usable ledger"):
            attempt()
    assert path.read_bytes() == damage


def train_with(path: Path, graph: gv.Graph) -> None:
    gv.train(graph, gv.methods.Mlp(), epsilon=1, unit="edge", ledger=gv.Ledger(path))


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        ("Gap", {"scale": "zzz"}),
        ("Gap", {"learning_rate": -1.0}),
        ("Gap", {"hops": 1.5}),
        ("DpSgd", {"steps": 2.5}),
        ("DpSgd", {"momentum": 5.0}),
        ("DpSgd", {"learning_rate": math.nan}),
        ("DpSgd", {"scale": "shifted"}),
        ("Mlp", {"layers": 0}),
        ("Mlp", {"dropout": 2.0}),
        ("Gcn", {"epochs": 0}),
    ],
)
def test_impossible_hyper_parameters_are_refused_at_once(method: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(gv.InvalidInput):
        getattr(gv.methods, method)(**wrong)


def test_a_release_serves_only_graphs_of_its_shape(good: gv.Graph, ledger: gv.Ledger) -> None:
    release = gv.train(good, gv.methods.Gap(epochs=1), epsilon=1, delta=1e-5, unit="edge", seed=0)
    before = contents(ledger)
    with pytest.raises(gv.InvalidInput, match="5 features and 2 classes"):
        gv.infer(release, gv.datasets.load("social"), epsilon=1, delta=1e-5, ledger=ledger)
    assert contents(ledger) == before


def test_edge_columns_go_by_name(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,f\n1,a,0.5\n2,b,1.5\n3,a,2.5\n")
    (tmp_path / "edges.csv").write_text("weight,source,target\n3,1,2\n1,2,3\n")
    graph = gv.Graph.from_edges(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    assert graph.adj.edge_index().tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    (tmp_path / "edges.csv").write_text("weight,from,to\n3,1,2\n")
    with pytest.raises(gv.InvalidInput, match="source and target"):
        gv.Graph.from_edges(tmp_path / "edges.csv", tmp_path / "nodes.csv")
