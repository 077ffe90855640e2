"""Three mistakes that were once accepted, charged and wrong. Each of these tests failed before names were kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import graphveil as gv
from bank import accounts, payments, written

COUNT = 300


def month(folder: Path, seed: int, columns: list[str], rename: dict[str, str] | None = None) -> gv.Graph:
    """The bank's tables as files, with the columns in this order and classes under these names."""
    table = accounts(seed, COUNT)
    table["label"] = np.array([(rename or {}).get(each, each) for each in table["label"]])
    nodes, edges = folder / f"accounts{seed}.csv", folder / f"payments{seed}.csv"
    nodes.write_text(written(table, columns))
    edges.write_text(written(payments(seed, COUNT)))
    return gv.Graph.from_edges(edges, nodes, name=f"month {seed}").random_split(seed=0)


def right(release: gv.Release, seed: int, names: tuple[str, ...]) -> float:
    """The share of labelled accounts that are given their class, by its name."""
    truth = accounts(seed, COUNT)["label"]
    named = np.array(names)[release.predict().numpy()]
    return float(np.mean((named == truth)[truth != ""]))


def test_columns_in_another_order_are_taken_by_name(tmp_path: Path) -> None:
    march = month(tmp_path, 0, ["id", "label", "balance", "age"])
    release = gv.train(march, gv.methods.Hearsay(), epsilon=8, delta=1e-6, unit="edge", seed=0)
    april = month(tmp_path, 1, ["id", "label", "age", "balance"])
    assert right(gv.infer(release, april, epsilon=8, delta=1e-6, seed=1), 1, ("fraud", "ok")) > 0.9


def test_classes_of_other_names_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """Classes have numbers in the order of their names: `ok` and `zfraud` are `fraud` and `ok` exchanged."""
    march = month(tmp_path, 0, ["id", "label", "balance", "age"])
    release = gv.train(march, gv.methods.Hearsay(), epsilon=8, delta=1e-6, unit="edge", seed=0)
    april = month(tmp_path, 1, ["id", "label", "balance", "age"], {"fraud": "zfraud"})
    book = gv.Ledger(tmp_path / "book.db")
    book.open(april, "edge", epsilon=8, delta=1e-6)
    with pytest.raises(gv.InvalidInput, match="zfraud"):
        gv.infer(release, april, epsilon=8, delta=1e-6, seed=1, ledger=book)
    assert book.entries() == []


@pytest.mark.parametrize("kind", ["NaN", "None", "NA"])
def test_missing_labels_of_pandas_are_no_class(kind: str) -> None:
    missing: Any = {"NaN": float("nan"), "None": None, "NA": pd.NA}[kind]
    table = accounts(0, COUNT)
    frame = pd.DataFrame({**table, "label": [each or missing for each in table["label"]]})
    columns = {name: frame[name].to_numpy() for name in frame}
    if kind == "NaN":
        columns["label"] = columns["label"].astype(str)
    graph = gv.Graph.from_edges(payments(0, COUNT), columns)
    assert graph.num_classes == 2
    assert int((graph.y < 0).sum()) == COUNT // 5


def test_verify_refuses_another_graph(tmp_path: Path) -> None:
    march = month(tmp_path, 0, ["id", "label", "balance", "age"])
    gv.train(march, gv.methods.Hearsay(), epsilon=8, delta=1e-6, unit="edge", seed=0).save(tmp_path / "model")
    gv.verify(tmp_path / "model", march)
    small = {name: column[:48] for name, column in accounts(0, COUNT).items()}
    chain = {"source": small["id"][:-1], "target": small["id"][1:]}
    other = gv.Graph.from_edges(chain, small, name="month 0").random_split(seed=0)
    with pytest.raises(gv.GraphveilError, match="is not the graph of this release"):
        gv.verify(tmp_path / "model", other)
