"""The classifier in the manner of scikit-learn: its contract, and that every fit is paid for."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

import graphveil as gv
from graphveil.errors import GraphveilError, InvalidInput, Overspent, Unsupported
from graphveil.sklearn import PrivateGraphClassifier

COUNT = 60
QUICK, HEARSAY = gv.methods.Mlp(epochs=5), gv.methods.Hearsay(folds=2, hidden=8, head=8)
SMALL = gv.methods.Mlp(hidden=16, epochs=60)


def tables() -> tuple[Any, Any, Any]:
    """Two classes that stick together, as X, y and edges."""
    rng, y = np.random.default_rng(0), np.arange(COUNT) % 2
    pairs = {(a, (a + step) % COUNT) for a in range(COUNT) for step in (2, 4)}
    edges = np.array(sorted({(min(pair), max(pair)) for pair in pairs}))
    return rng.normal(size=(COUNT, 3)) + y[:, None], np.array(["ok", "fraud"])[y], edges


def test_it_fits_predicts_and_scores() -> None:
    X, y, edges = tables()
    made = PrivateGraphClassifier("hearsay", epsilon=4, seed=0).fit(X, y, edges)
    assert made.classes_.tolist() == ["fraud", "ok"]
    chances = made.predict_proba(X)
    assert chances.shape == (COUNT, 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.array_equal(made.predict(X), made.classes_[chances.argmax(axis=1)])
    assert np.array_equal(made.predict(), made.predict(X))
    assert made.score(X, y) > 0.8
    certificate = made.release_.certificate
    assert certificate.epsilon <= 4
    assert certificate.plan.adjacency.unit is gv.Unit.EDGE


@pytest.mark.parametrize("missing", [None, float("nan"), -1])
def test_nodes_without_a_label_are_no_class(missing: Any) -> None:
    X, _, edges = tables()
    y = np.array([missing if k % 3 == 0 else k % 2 for k in range(COUNT)], dtype=object)
    y = y if missing is None else y.astype(float)
    made = PrivateGraphClassifier(QUICK, seed=0)
    graph = made.graph(X, y, edges)
    assert (graph.y < 0).tolist() == [k % 3 == 0 for k in range(COUNT)]
    assert bool(graph.train.all()), "who has a label must not show in the split"
    assert made.fit(X, y, edges).classes_.tolist() == [0, 1]


def test_columns_go_by_their_names() -> None:
    """A frame whose columns stand in another order was taken by position, and predicted something else."""
    X, y, edges = tables()
    frame = pd.DataFrame(X, columns=["balance", "age", "payments"])
    for method in (QUICK, HEARSAY):
        made = PrivateGraphClassifier(method, seed=0).fit(frame, pd.Series(y), edges)
        assert made.feature_names_in_.tolist() == ["balance", "age", "payments"]
        assert np.array_equal(made.predict(frame), made.predict())
        for other in (frame[["age", "balance", "payments"]], frame.rename(columns={"age": "years"})):
            with pytest.raises(InvalidInput, match="feature names should match"):
                made.predict(other)
        with pytest.raises(InvalidInput, match="feature names should match"):
            made.predict(frame.assign(more=1.0))


@pytest.mark.parametrize("kind", ["object", "str", "string", "category"])
def test_missing_labels_of_pandas_are_no_class(kind: str) -> None:
    X, y, edges = tables()
    labels = pd.Series(y, dtype=object)
    labels[::3] = pd.NA
    made = PrivateGraphClassifier(QUICK, seed=0).fit(X, labels.astype(kind), edges)
    assert made.classes_.tolist() == ["fraud", "ok"]
    assert made.score(X, labels.astype(kind)) >= 0.5


def test_a_second_fit_says_that_it_spends_again() -> None:
    X, y, edges = tables()
    made = PrivateGraphClassifier(QUICK, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.fit(X, y, edges)
    with pytest.warns(UserWarning, match="fit number 2 of this estimator: every fit is a release"):
        made.fit(X, y, edges)
    with pytest.warns(UserWarning, match="fit number 3"):
        made.fit(X, y)


def test_a_ledger_counts_every_fit_and_refuses_one_beyond_its_budget(tmp_path: Path) -> None:
    X, y, edges = tables()
    made = PrivateGraphClassifier(HEARSAY, epsilon=1, delta=1e-6, seed=0, ledger=tmp_path / "book")
    book = gv.Ledger(tmp_path / "book")
    book.open(made.graph(X, y, edges), "edge", epsilon=1.5, delta=1e-6)
    first = made.fit(X, y, edges).release_
    copy = PrivateGraphClassifier(**made.get_params())
    with pytest.raises(Overspent):
        copy.fit(X, y, edges)
    with pytest.raises(Overspent), pytest.warns(UserWarning, match="the ledger counts it"):
        made.fit(X, y, edges)
    assert made.release_ is first
    assert len(book.entries()) == 1


def test_private_data_are_no_parameters() -> None:
    X, y, edges = tables()
    made = PrivateGraphClassifier(QUICK, seed=0).fit(X, y, edges)
    assert set(made.get_params()) == {
        "method",
        "unit",
        "epsilon",
        "delta",
        "noise",
        "directed",
        "class_weight",
        "ledger",
        "seed",
    }
    assert "".join(repr(made).split()) == f"PrivateGraphClassifier(method={QUICK!r},seed=0)".replace(" ", "")
    assert made.set_params(epsilon=2.0).get_params()["epsilon"] == 2.0
    with pytest.raises(ValueError, match="Invalid parameter 'edges'"):
        made.set_params(edges=edges)
    assert pickle.loads(pickle.dumps(made)).release_._graph is None
    hidden = PrivateGraphClassifier(gv.methods.DpSgd(steps=2), unit="node", noise=1.0, seed=0).fit(X, y)
    assert [value for value in vars(hidden).values() if isinstance(value, str) and len(value) == 64] == []
    assert [len(value) for name, value in vars(made).items() if name == "_rows"] == [64]


def test_at_node_level_rows_that_train_are_told_apart() -> None:
    X, y, edges = tables()
    made = PrivateGraphClassifier(unit="node", epsilon=8.0, seed=0).fit(X, y, edges)
    assert len(np.unique(made.predict(X))) > 1
    assert made.release_.certificate.plan.adjacency.unit is gv.Unit.NODE


def test_released_predictions_are_for_the_rows_of_the_training() -> None:
    X, y, edges = tables()
    made = PrivateGraphClassifier(HEARSAY, seed=0).fit(X, y, edges)
    for other in (X[::-1], X[:10], X + 1):
        with pytest.raises(Unsupported, match="for the rows of the training"):
            made.predict(other)
    free = PrivateGraphClassifier(QUICK, seed=0).fit(X, y, edges)
    assert np.array_equal(free.predict(X[:10]), free.predict(X)[:10])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"edges": np.array([[0, 1, 2], [1, 2, 3]])}, "give the transpose"),
        ({"edges": [[0, COUNT]]}, "not in the node table"),
        ({"edges": [[0, 0]]}, "self-loop"),
        ({"X": np.full((COUNT, 2), np.nan)}, "Input X contains NaN"),
        ({"y": ["a"] * COUNT}, "at least 2 classes"),
        ({"y": np.arange(3)}, "they must agree"),
        ({"y": np.linspace(0, 1, COUNT)}, "Unknown label type"),
        ({"method": "heterpoisson", "unit": "node"}, "use gv.train"),
        ({"method": "hearsay", "unit": "node"}, "does not protect"),
        ({"method": "whisper", "unit": "node"}, "every row of X trains"),
        ({"method": "hearsey"}, "did you mean: hearsay"),
        ({"epsilon": 0.0}, "epsilon must be"),
    ],
)
def test_mistakes_cost_nothing(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    X, y, edges = tables()
    data = {"X": X, "y": y, "edges": edges, **{key: given[key] for key in given if key in ("X", "y", "edges")}}
    settings = {key: value for key, value in given.items() if key not in data}
    book = gv.Ledger(tmp_path / "book")
    book.open(PrivateGraphClassifier().graph(X, y, edges), "edge", epsilon=9, delta=1e-6)
    with pytest.raises(GraphveilError, match=said):
        PrivateGraphClassifier(**settings, delta=1e-6, ledger=book.path).fit(**data)
    assert book.entries() == []
    with pytest.raises(Exception, match="not fitted"):
        PrivateGraphClassifier().predict(X)


def test_scikit_learn_finds_nothing_else_to_complain_about() -> None:
    excused = {
        "check_dtype_object": "bad cells get our typed error, a ValueError, and no TypeError",
        "check_class_weight_classifiers": "a method balances classes or does not; it takes no weights by name",
        "check_classifiers_classes": "the labels -1 and 1 are refused: -1 means no label",
        "check_methods_subset_invariance": "chances have single precision; 1e-7 between one row and many is asked for",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(
            PrivateGraphClassifier(SMALL, seed=0), expected_failed_checks=excused, on_fail=None, on_skip=None
        )
    assert not [f"{each['check_name']}: {each['exception']}" for each in found if each["status"] == "failed"]
