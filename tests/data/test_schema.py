"""Names of columns and classes: kept by graphs from tables, matched by name, refused where they cannot be told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import graphveil as gv
from bank import accounts, payments
from graphveil.data.graph import Graph
from graphveil.data.identity import public_digest
from graphveil.data.matching import matched
from graphveil.data.schema import FeatureColumn, Kind, Schema
from graphveil.errors import InvalidInput, Tampered


def graph(**changes: Any) -> Graph:
    return Graph.from_edges(payments(), accounts() | changes)


def test_a_graph_from_tables_knows_its_names() -> None:
    schema = graph().schema
    assert schema is not None
    assert (schema.classes, schema.names, schema.id, schema.label) == (
        ("fraud", "ok"),
        ("balance", "age"),
        "id",
        "label",
    )
    assert graph().ids.to_pylist()[:2] == ["acc0-0", "acc0-1"]


def test_columns_and_classes_are_put_in_order_by_name() -> None:
    here, table = graph(), accounts()
    backwards = Graph.from_edges(payments(), {name: table[name] for name in reversed(table)})
    assert not torch.equal(backwards.x, here.x)
    found = matched(backwards, here.schema)  # type: ignore[arg-type]  # from tables
    assert torch.equal(found.x, here.x)
    assert torch.equal(found.y, here.y)
    assert public_digest(found, gv.Adjacency.of("edge")) == public_digest(here, gv.Adjacency.of("edge"))


def test_a_table_that_shows_one_class_still_calls_it_by_its_name() -> None:
    labels = accounts()["label"]
    ok = graph(label=np.where(labels == "fraud", "", labels))
    assert set(ok.y.tolist()) == {-1, 0}
    found = matched(ok, graph().schema)  # type: ignore[arg-type]
    assert set(found.y.tolist()) == {-1, 1}
    assert found.num_classes == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"balance": None}, "no column 'balance'"),
        ({"income": np.ones(60)}, "was not trained with: 'income'; drop"),
        ({"label": np.array(["good", "bad"] * 30)}, "the classes 'bad', 'good', which the model does not know"),
    ],
)
def test_what_cannot_be_matched_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    table = {name: column for name, column in (accounts() | changes).items() if column is not None}
    with pytest.raises(InvalidInput, match=words):
        matched(Graph.from_edges(payments(), table), graph().schema)  # type: ignore[arg-type]


def test_tables_are_read_by_the_names_of_a_schema_and_need_no_labels() -> None:
    here, table = graph(), accounts()
    shuffled = {name: table[name] for name in ("age", "id", "balance")}
    found = Graph.from_edges(payments(), shuffled, schema=here.schema)
    assert torch.equal(found.x, here.x)
    assert set(found.y.tolist()) == {-1}
    assert found.schema == here.schema
    with pytest.raises(InvalidInput, match="the label good is not among the classes: fraud, ok"):
        Graph.from_edges(payments(), table | {"label": ["good"] * 60}, schema=here.schema)


def test_a_graph_without_names_is_not_taken_by_position() -> None:
    schema = graph().schema
    assert schema is not None
    nameless = Graph.from_pyg(graph(label=["fraud", "ok"] * 30).to_pyg())
    with pytest.raises(InvalidInput, match="has no names of columns and classes"):
        matched(nameless, schema)
    assert matched(nameless.with_schema(schema), schema).num_classes == 2
    with pytest.raises(InvalidInput, match="the schema names 2 features and 1 classes"):
        nameless.with_schema(replace(schema, classes=("a",)))


def test_classes_of_networkx_have_names() -> None:
    made = nx.path_graph(4)
    for node in made:
        made.nodes[node].update(x=[1.0, node], y="ba"[node % 2])
    schema = Graph.from_networkx(made).schema
    assert schema is not None
    assert schema.classes == ("a", "b")
    assert schema.width == 2


def test_names_are_packed_with_the_graph(tmp_path: Path) -> None:
    assert gv.open_packed(gv.pack(graph(), tmp_path / "packed")).schema == graph().schema


def test_columns_are_chosen_by_name() -> None:
    table, pays = accounts(), payments()
    renamed = {"account": table["id"], "kind": table["label"], "note": ["x"] * 60, "age": table["age"]}
    ends = {"amount": np.ones(len(pays["source"])), "from": pays["source"], "to": pays["target"]}
    chosen = {"id": "account", "label": "kind", "drop": ["note"], "source": "from", "target": "to"}
    found = Graph.from_edges(ends, renamed, **chosen)
    assert torch.equal(found.y, graph().y)
    assert found.num_edges == graph().num_edges
    with pytest.raises(InvalidInput, match="no column 'nota' to drop"):
        Graph.from_edges(ends, renamed, **{**chosen, "drop": ["nota"]})
    with pytest.raises(InvalidInput, match="the columns from and too are needed"):
        Graph.from_edges(ends, renamed, **{**chosen, "target": "too"})


@pytest.mark.parametrize(
    "other",
    [
        FeatureColumn("a", Kind.CATEGORY, categories=("y", "x")),
        FeatureColumn("a", Kind.CATEGORY, categories=("x", "z")),
        FeatureColumn("a", size=2),
        FeatureColumn("a", Kind.DATE, blanks=True),
    ],
)
def test_another_encoding_of_the_same_width_is_another(other: FeatureColumn) -> None:
    ours = Schema((), (FeatureColumn("a", Kind.CATEGORY, categories=("x", "y"), fitted=True),))
    with pytest.raises(InvalidInput, match="the graph encodes 'a' otherwise than the model's training did"):
        ours.order_of(Schema((), (other,)), "the graph")
    declared = Schema((), (FeatureColumn("a", Kind.CATEGORY, categories=("x", "y")),))
    assert ours.order_of(declared, "the graph").tolist() == [0, 1]


def test_a_schema_survives_its_text() -> None:
    schema = Schema(
        ("a", "ü"),
        (
            FeatureColumn("x", size=3),
            FeatureColumn("city", Kind.CATEGORY, categories=("Basel", "Bern"), fitted=True),
            FeatureColumn("since", Kind.DATE, blanks=True),
        ),
        "account",
        "fraud",
    )
    assert Schema.from_text(schema.to_text()) == schema
    assert Schema.from_text(schema.to_text()).fitted == ("city",)
    assert schema.width == 3 + 2 + 2


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ["a", "a"]},
        {"classes": "ab"},
        {"classes": ["a\u202e"]},
        {"columns": [{"name": "x", "size": True}]},
        {"columns": [{"name": "x", "size": 0}]},
        {"columns": [{"name": "x", "more": 1}]},
        {"columns": [{"name": "x", "kind": "category"}]},
        {"columns": [{"name": "x", "blanks": False}]},
        {"extra": 1},
    ],
)
def test_altered_texts_are_refused(change: dict[str, Any]) -> None:
    said = Schema(("a", "b"), (FeatureColumn("x"),)).describe()
    with pytest.raises(Tampered):
        Schema.from_text(json.dumps(said | change, sort_keys=True))
