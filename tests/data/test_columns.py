"""What columns mean: ids and labels by their exact text, numbers only where they are written as numbers."""

from __future__ import annotations

import math
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphveil.data.columns import class_names, classes_of
from graphveil.data.encoding import feature_columns
from graphveil.data.graph import Graph
from graphveil.data.tables import read_table
from graphveil.errors import InvalidInput

PAIR = np.array([[0, 1]])


def column(values: Any) -> Any:
    return read_table({"a": values}, "nodes")["a"]


def graph(labels: Any, **more: Any) -> Graph:
    count = len(labels)
    return Graph.from_edges(PAIR, {"id": np.arange(count), "label": labels, "f": np.ones(count)} | more)


# Labels


@pytest.mark.parametrize("other", ["01", "+1", "\uff11", "1.0", "1e0", "\u0661", "0_1"])
def test_one_number_in_two_spellings_is_not_one_class(other: str) -> None:
    """They were one class without a word."""
    with pytest.raises(InvalidInput, match=r"the labels 1 and .* are one number in two spellings"):
        graph(np.array(["1", other, "2"]))
    with pytest.raises(InvalidInput, match="not among the classes"):
        classes_of(column([other, "0"]), "nodes row", [0, 1])


def test_labels_are_numbers_only_if_all_are_written_as_numbers() -> None:
    assert class_names(column(["10", "9", "", "-1"])) == [9, 10]
    assert class_names(column(["10", "9", "x"])) == ["10", "9", "x"]
    assert class_names(column(["010", "9"])) == ["010", "9"]
    assert class_names(column(["1_0", "9"])) == ["1_0", "9"]
    assert graph(np.array(["010", "9", "-1"])).y.tolist() == [0, 1, -1]


@pytest.mark.parametrize("minus", ["-1.0", "-01", "-1e0", "-\uff11"])
def test_another_spelling_of_minus_one_is_no_class(minus: str) -> None:
    """-1 means that there is no label; who writes it otherwise means it too."""
    with pytest.raises(InvalidInput, match=r"the labels -1 and .* are one number"):
        graph(np.array([minus, "0", "2"]))


@pytest.mark.parametrize("labels", [["-1", "1"], ["-1", "+1"], ["-1.0", "1.0"], [-1, 1]])
def test_minus_one_and_one_are_two_classes_of_somebody_else(labels: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="name the classes 0 and 1"):
        graph(labels)


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan")])
def test_a_missing_label_is_no_class_called_nan(missing: Any) -> None:
    for labels in (np.array(["red", missing, "blue"], dtype=object), ["red", missing, "blue"]):
        assert graph(labels).y.tolist() == [1, -1, 0]
    assert graph(np.array([1, missing, 0], dtype=object)).y.tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["fraud", math.nan, "ok"]),
        ["fraud", math.nan, "ok"],
        np.array(["fraud", "<NA>", "ok"]),
        np.array(["fraud", "NaT", "ok"]),
        pa.array(["fraud", None, "ok"]),
    ],
)
def test_nan_is_no_class(labels: Any) -> None:
    """numpy writes a NaN among texts as the text nan, which was a class that was trained on."""
    found = graph(labels)
    assert found.num_classes == 2
    assert found.y.tolist() == [0, -1, 1]
    assert found.schema is not None
    assert found.schema.classes == ("fraud", "ok")


@pytest.mark.parametrize("word", ["None", "NULL", "NA", "N/A"])
def test_a_word_that_may_mean_no_label_is_refused(word: str) -> None:
    with pytest.raises(InvalidInput, match=f"nodes row 1: the label {word} may mean that there is none"):
        graph(["a", word])
    declared = Graph.from_edges(PAIR, {"id": [0, 1], "label": ["a", word], "f": [1, 2]}, classes=["a", word])
    assert declared.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1.0, math.nan, 0.0]),
        pa.array([1.0, None, 0.0]),
        np.array(["1.0", "", "0.0"]),
        np.array(["1.0", "nan", "0.0"]),
        np.array([1.0, -1.0, 0.0]),
    ],
)
def test_whole_numbers_in_floats_are_labels(labels: Any) -> None:
    """pandas makes floats of whole numbers beside missing ones."""
    assert graph(labels).y.tolist() == [1, -1, 0]
    assert classes_of(column(labels), "nodes row", [0, 1, 2]).tolist() == [1, -1, 0]


@pytest.mark.parametrize("number", [0.5, math.inf, 1e300])
def test_labels_that_are_no_whole_numbers_are_refused(number: float) -> None:
    with pytest.raises(InvalidInput, match=r"nodes row 1: the label .* is no whole number"):
        graph(np.array([0.0, number]))


def test_labels_of_many_types() -> None:
    assert graph(np.array([True, False])).y.tolist() == [1, 0]
    assert class_names(column(np.array([True, False]))) == [0, 1]
    assert graph(pa.array([3, None, 5], pa.uint8())).y.tolist() == [0, -1, 1]
    assert graph(np.array([2**64 - 1, 0], np.uint64)).y.tolist() == [1, 0], "it would wrap round to -1"
    assert graph(["9" * 30, "1"]).y.tolist() == [1, 0]
    unused = pa.DictionaryArray.from_arrays(pa.array([1, 1, 2]), pa.array(["never", "x", "y"]))
    assert graph(unused).num_classes == 2
    assert graph(["Stra\u00dfe", "STRASSE"]).num_classes == 2


def test_class_names_that_were_given_are_distinct() -> None:
    for classes in (["a", "a"], [1, "1"], ["a", ""], ["a", "-1"]):
        with pytest.raises(InvalidInput, match="classes must be distinct"):
            classes_of(column(["a"]), "nodes row", classes)


def test_errors_name_the_first_row_of_a_strange_label() -> None:
    with pytest.raises(InvalidInput, match="nodes row 2: the label -7; whole numbers start at 0"):
        graph([0, 1, -7, 2])
    with pytest.raises(InvalidInput, match="nodes row 1: the label z is not among"):
        classes_of(column(["a", "z", "z"]), "nodes row", ["a"])


# Ids


def test_ids_are_compared_as_text() -> None:
    nodes = {"id": np.array(["1", "01", "\uff11"]), "label": np.array(["a", "b", "a"]), "f": np.ones(3)}
    assert Graph.from_edges(np.array([["1", "01"], ["01", "\uff11"]]), nodes).num_edges == 2
    assert Graph.from_edges(np.array([[1, 1]]), nodes, clean=True).num_edges == 0
    numbered = nodes | {"id": np.arange(3)}
    assert Graph.from_edges(np.array([["0", "2"]]), numbered).num_edges == 1
    assert Graph.from_edges(np.array([[0, 2]], np.uint8), numbered).num_edges == 1
    for stranger in ("00", "+1", "1.0", "\uff11"):
        with pytest.raises(InvalidInput, match=r"edges row 0: column 1 .* is not in the node table"):
            Graph.from_edges(np.array([["0", stranger]]), numbered)


def test_one_letter_in_two_encodings_is_two_ids() -> None:
    composed, decomposed = "na\u00efve", unicodedata.normalize("NFD", "na\u00efve")
    nodes = {"id": [composed, decomposed], "label": ["a", "b"], "f": np.ones(2)}
    assert Graph.from_edges(np.array([[composed, decomposed]]), nodes).num_edges == 1


def test_large_ids_are_not_rounded() -> None:
    ids = np.array([2**64 - 1, 2**64 - 2, 2**53 + 1], np.uint64)
    made = Graph.from_edges({"a": ids[:1], "b": ids[2:]}, {"id": ids, "label": [0, 1, 0], "f": np.ones(3)})
    assert made.adj.edge_index().tolist() == [[2, 0], [0, 2]]


@pytest.mark.parametrize("missing", [None, math.nan, ""])
def test_a_missing_id_or_end_is_an_error(missing: Any) -> None:
    with pytest.raises(InvalidInput, match="nodes row 1: the id is empty"):
        graph(["x", "y"], id=np.array(["a", missing], dtype=object))
    edges = {"source": np.array([0, 1], dtype=object), "target": np.array([1, missing], dtype=object)}
    with pytest.raises(InvalidInput, match="edges row 1: target is empty"):
        Graph.from_edges(edges, {"id": np.arange(2), "label": [0, 1], "f": np.ones(2)})


@pytest.mark.parametrize("ids", [np.array([0.0, 1.0]), np.array([True, False]), np.ones((2, 2))])
def test_ids_are_whole_numbers_or_text(ids: Any) -> None:
    with pytest.raises(InvalidInput, match="nodes: ids must be integers or strings"):
        graph(["x", "y"], id=ids)


def test_the_columns_of_edges_are_found_by_name_or_number(tmp_path: Path) -> None:
    nodes = {"id": ["a", "b"], "label": [0, 1], "f": [1.0, 2.0]}
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"when": pa.array([[1]]), "target": ["a"], "source": ["b"]}), path)
    assert Graph.from_edges(path, nodes, undirected=False).adj.edge_index().tolist() == [[1], [0]]
    pq.write_table(pa.table({"when": pa.array([[1]]), "target": ["a"]}), path)
    with pytest.raises(InvalidInput, match="column 'when' must be numeric or text"):
        Graph.from_edges(path, nodes)
    (tmp_path / "edges.csv").write_text("a,b,7\nb,a,1\n")
    with pytest.raises(InvalidInput, match="the first line a,b is an edge"):
        Graph.from_edges(tmp_path / "edges.csv", nodes)


# Weights


def weighted(weights: Any, **more: Any) -> Graph:
    pairs = {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "amount": weights}
    return Graph.from_edges(pairs, {"id": ["a", "b", "c"], "label": [0, 1, 0], "f": [1, 2, 3]}, weight="amount", **more)


def test_a_weight_of_zero_is_no_edge_and_others_are_not_read() -> None:
    assert weighted([1, 0, 1]).num_edges == 2
    assert weighted(["1", "0", "1.0"]).num_edges == 2
    assert weighted([0.5, 0, 99], clean=True).num_edges == 2
    with pytest.raises(InvalidInput, match=r"edges row 0: the weight 0\.5; edges carry no weights here"):
        weighted([0.5, 0, 99])
    with pytest.raises(InvalidInput, match="edges row 2: the weight is missing"):
        weighted([1, 1, math.nan])
    with pytest.raises(InvalidInput, match="must hold weights, which are numbers"):
        weighted(["1", "two", "3"])
    with pytest.raises(InvalidInput, match="no column 'sum' with weights"):
        Graph.from_edges(PAIR, {"id": [0, 1], "label": [0, 1], "f": [1, 2]}, weight="sum")


# Features


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64) | st.integers(-(10**20), 10**20), min_size=1)
)
def test_features_in_text_are_pythons_floats(values: list[float]) -> None:
    kept = [value for value in values if abs(value) < 3.4e38] or [0.0]
    found = feature_columns({"a": column([repr(value) for value in kept])}, len(kept))
    assert found.numpy().tolist() == [[value] for value in np.array(kept, np.float64).astype(np.float32).tolist()]


@pytest.mark.parametrize("word", ["red", "", "1_0", "\uff11", "0x10", "1,5", "--1", "1e", "true"])
def test_a_word_is_no_feature(word: str) -> None:
    cells = ["1"] * 50 + [word] + ["2"] * 20 + ["blue"]
    said = f"nodes row 50: feature 'a' is {word or 'empty'}, not a number"
    for held in (column(cells), column(pa.array(cells).dictionary_encode())):
        with pytest.raises(InvalidInput) as caught:
            feature_columns({"a": held}, len(cells))
        assert said in str(caught.value)


@pytest.mark.parametrize("number", ["inf", "-Infinity", "nan", "1e400", "1e39"])
def test_features_are_finite(number: str) -> None:
    with pytest.raises(InvalidInput, match=r"nodes row 1: feature 'a' is .*; features must be finite"):
        feature_columns({"a": column(["1", number])}, 2)


def test_features_of_many_types() -> None:
    held: dict[str, Any] = {
        "a": np.array([1, 2], np.uint8),
        "b": np.array([True, False]),
        "c": np.array([[1.0, 2.0], [3.0, 4.0]], ">f4"),
        "d": pa.array(["5", "5"]).dictionary_encode(),
        "e": np.array([0.5, 1.5], np.float16),
    }
    found = feature_columns(read_table(held, "nodes"), 2)
    assert found.tolist() == [[1, 1, 1, 2, 5, 0.5], [2, 0, 3, 4, 5, 1.5]]
    for missing in (pa.array([1, None]), pa.array([True, None]), pa.array([1.0, None])):
        with pytest.raises(InvalidInput, match="nodes row 1: feature 'a' is nan"):
            feature_columns({"a": missing}, 2)
    with pytest.raises(InvalidInput, match="nodes row 1: feature 'c' is nan"):
        feature_columns({"c": column(np.array([[1.0, 2.0], [3.0, math.nan]]))}, 2)
