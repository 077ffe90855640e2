"""Cells as people have them become numbers: declared, or read off the cells where features are public."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import graphveil as gv
from bank import accounts, payments
from graphveil.data.encoding import declared_column, encoded_columns, feature_columns, suggested_column
from graphveil.data.graph import Graph
from graphveil.data.schema import FeatureColumn, Kind
from graphveil.data.tables import read_table
from graphveil.errors import InvalidInput, Unsupported


def column(values: Any) -> Any:
    return read_table({"a": values}, "nodes", dates=True)["a"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2.5"], FeatureColumn("a")),
        (["1", "", "2.5"], FeatureColumn("a", blanks=True)),
        (np.array([1.0, np.nan]), FeatureColumn("a", blanks=True)),
        (pa.array([1, None]), FeatureColumn("a", blanks=True)),
        (["True", "false"], FeatureColumn("a", Kind.TRUTH)),
        (np.array([True, False]), FeatureColumn("a", Kind.TRUTH)),
        (pa.array([True, None]), FeatureColumn("a", Kind.TRUTH, blanks=True)),
        (["2024-03-31", "", "2024-04-01T10:00:00"], FeatureColumn("a", Kind.DATE, blanks=True)),
        (np.array(["2024-03-31", "NaT"], dtype="datetime64[ns]"), FeatureColumn("a", Kind.DATE, blanks=True)),
        (["b", "a", "b", ""], FeatureColumn("a", Kind.CATEGORY, categories=("a", "b"))),
        (["yes", "no"], FeatureColumn("a", Kind.CATEGORY, categories=("no", "yes"))),
        (np.ones((2, 3)), FeatureColumn("a", size=3)),
    ],
)
def test_what_cells_look_like(values: Any, expected: FeatureColumn) -> None:
    assert suggested_column("a", column(values)) == expected


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"text {k}" for k in range(300)] * 3, "300 different texts.*an id or free text"),
        ([f"text {k}" for k in range(30)], "30 different texts.*an id or free text"),
        (["", ""], "is empty; drop it"),
        (["1,5", "2,25"], "decimal commas, such as 1,5; write points"),
    ],
)
def test_what_is_no_feature_is_refused(values: list[str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        suggested_column("a", column(values))


@pytest.mark.parametrize(
    ("values", "said", "expected"),
    [
        (["1", "", "2.5"], "number?", [[1, 1], [0, 0], [2.5, 1]]),
        (pa.array([1, None]), "number?", [[1, 1], [0, 0]]),
        (["true", "FALSE", "1"], "truth", [[1], [0], [1]]),
        (["b", "", "a"], ["a", "b"], [[0, 1], [0, 0], [1, 0]]),
        ([3, 1], ["1", "2", "3"], [[0, 0, 1], [1, 0, 0]]),
        (["2000-01-01", "2001-01-01"], "date", [[0], [366 / 365.2425]]),
        ([datetime.date(2000, 1, 1), None], "date?", [[0, 1], [0, 0]]),
        (["2000-01-01T12:00:00Z"], "date", [[0.5 / 365.2425]]),
    ],
)
def test_cells_become_numbers(values: Any, said: Any, expected: list[list[float]]) -> None:
    found = feature_columns({"a": column(values)}, len(expected), [declared_column("a", said)])
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float32), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "said", "words"),
    [
        (["1", ""], "truth", "nodes row 1: feature 'a' is empty; fill it, or declare truth?"),
        (["1", "maybe"], "truth", "nodes row 1: feature 'a' is 'maybe', not true or false"),
        (["1", "x"], "number?", "nodes row 1: feature 'a' is x, not a number"),
        (["a", "c"], ["a", "b"], "nodes row 1: feature 'a' is 'c', which is none of its categories: a, b"),
        (["2024-03-31", "31.3.2024"], "date", "nodes row 1: feature 'a' is '31.3.2024', not a date"),
        ([1.5, 2.5], "date", "holds numbers, not dates"),
    ],
)
def test_cells_that_are_not_what_was_declared_are_refused(values: Any, said: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        feature_columns({"a": column(values)}, len(values), [declared_column("a", said)])


def test_declarations_are_checked() -> None:
    for said in ("categories", "category", [], ["a", "a"], ["", "b"], [1, 2], 7):
        with pytest.raises(InvalidInput):
            declared_column("a", said)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="declares 'b', and the node table has no such feature"):
        encoded_columns({"a": column([1])}, {"b": "number"}, auto=False)


class TestTraining:
    """The bank's table: a branch, a date with blanks, a flag and an income that is not always known."""

    @staticmethod
    def messy(seed: int = 0) -> dict[str, Any]:
        count = 60
        rng = np.random.default_rng(seed)
        return accounts(seed) | {
            "branch": rng.choice(["Basel", "Bern", ""], count),
            "opened": rng.choice(["2019-05-01", "2021-07-31", ""], count),
            "active": rng.choice(["true", "false"], count),
            "income": rng.choice(["1000", "2000.5", ""], count),
        }

    declared = {  # noqa: RUF012
        "branch": ["Basel", "Bern"],
        "opened": "date?",
        "active": "truth",
        "income": "number?",
    }

    def test_without_encoding_it_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"feature 'branch' is .*, not a number; encode or drop"):
            Graph.from_edges(payments(), self.messy())

    def test_the_encoder_travels_with_the_release(self, tmp_path: Path) -> None:
        here = Graph.from_edges(payments(), self.messy(), encode="auto").random_split(seed=0)
        assert here.num_features == 2 + 2 + 2 + 1 + 2
        release = gv.load(gv.train(here, gv.methods.Mlp(), epsilon=1, unit="edge").save(tmp_path / "model"))
        assert release.schema == here.schema
        # Next month nobody has a blank, and one branch is not there: read alone, its columns would be others.
        table = self.messy(1)
        table |= {"branch": ["Bern"] * 60, "income": ["1"] * 60}
        del table["label"]
        there = Graph.from_edges(payments(1), table, schema=release.schema)
        assert there.x[:, 2:4].tolist() == [[0, 1]] * 60
        assert len(release.predict(there)) == 60
        with pytest.raises(InvalidInput, match=r"encodes .*'branch'.* otherwise than the model's training did"):
            release.predict(Graph.from_edges(payments(1), table | {"label": ["ok"] * 60}, encode="auto"))
        with pytest.raises(InvalidInput, match="'Chur', which is none of its categories: Basel, Bern"):
            Graph.from_edges(payments(1), table | {"branch": ["Chur"] * 60}, schema=release.schema)

    @pytest.mark.parametrize("unit", ["node", "features"])
    def test_statistics_of_private_features_are_refused_before_anything_is_reserved(
        self, unit: str, tmp_path: Path
    ) -> None:
        here = Graph.from_edges(payments(), self.messy(), encode="auto").random_split(seed=0)
        book = gv.Ledger(tmp_path / "ledger.db")
        book.open(here, unit, epsilon=2, delta=1e-5)
        with pytest.raises(Unsupported, match=r"the encoding of 'branch', .* was read off the features"):
            gv.train(here, gv.methods.DpSgd(steps=2), epsilon=1, delta=1e-5, unit=unit, ledger=book)
        assert book.entries() == []

    def test_declared_columns_are_for_every_unit(self, tmp_path: Path) -> None:
        path = tmp_path / "categories.json"
        path.write_text(json.dumps(self.declared))
        graphs = [
            Graph.from_edges(payments(), self.messy(), categories=said).random_split(seed=0)
            for said in (self.declared, path)
        ]
        assert graphs[0].schema == graphs[1].schema
        release = gv.train(graphs[0], gv.methods.DpSgd(steps=2), epsilon=1, unit="node", seed=0)
        assert release.schema is not None
        assert release.schema.fitted == ()

    def test_an_id_without_a_record_is_a_row_of_zeros(self) -> None:
        """As the fixed population of unit NODE has it: whether somebody is there is one step, not two."""
        table = self.messy() | {"balance": [""] * 60, "age": [""] * 60}
        table |= {name: ["", *table[name][1:]] for name in ("label", "branch", "opened", "active", "income")}
        declared = self.declared | {"active": "truth?", "balance": "number?", "age": "number?"}
        graph = Graph.from_edges(None, table, categories=declared)
        assert not graph.x[0].any()
        assert graph.x[1:].any(dim=1).all()

    def test_a_schema_says_all(self) -> None:
        schema = Graph.from_edges(payments(), accounts()).schema
        with pytest.raises(InvalidInput, match="leave encode, categories and classes out"):
            Graph.from_edges(payments(), accounts(), schema=schema, encode="auto")
        with pytest.raises(InvalidInput, match="unknown encode='all'"):
            Graph.from_edges(payments(), accounts(), encode="all")
