"""Class weights find rare classes, cost nothing, and are refused where they would read private labels."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import graphveil as gv
from graphveil.cli import app
from graphveil.errors import Unsupported
from graphveil.methods.method import METHODS, Method
from graphveil.sklearn import PrivateGraphClassifier
from graphveil.vocabulary import Unit

WEIGHTED = {name: kind for name, kind in METHODS.ours().items() if "class_weight" in {f.name for f in fields(kind)}}


def bank(seed: int, nodes: int = 2000) -> gv.Graph:
    """One account in twenty is a fraud; frauds pay one another and look a little different."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(nodes) < 0.05
    x = rng.normal(size=(nodes, 6)) + np.outer(fraud, [1, 1, 1, 0, 0, 0])
    ring = rng.choice(np.flatnonzero(fraud), size=(2 * int(fraud.sum()), 2))
    pairs = np.sort(np.concatenate([rng.integers(nodes, size=(3 * nodes, 2)), ring]), axis=1)
    edges = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    accounts = {"id": np.arange(nodes), "label": np.where(fraud, "fraud", "ok"), "x": x.astype(np.float32)}
    return gv.Graph.from_edges(edges, accounts, name="bank").random_split(seed=seed)


@pytest.mark.parametrize("method", [gv.methods.Hearsay(), gv.methods.Mlp()], ids=["hearsay", "mlp"])
def test_frauds_are_found_and_ranks_stay_good(method: Method) -> None:
    plain, weighted = [], []
    for seed in range(2):
        graph = bank(seed)
        for word, found in (("equal", plain), ("balanced", weighted)):
            made = replace(method, **{"class_weight": word})
            release = gv.train(graph, made, epsilon=2, delta=1e-5, unit="edge", seed=seed)
            scores = release.evaluate("test")
            found.append((scores["classes"][0]["recall"], scores["auc"], release.certificate.epsilon))
    (recall, auc, spent), (more, as_good, same) = np.mean(plain, axis=0), np.mean(weighted, axis=0)
    assert more > recall + 0.3
    assert as_good > auc - 0.02
    assert same == spent, "labels are public here, so what is counted in them is free"


def test_all_methods_that_protect_edges_alone_have_them() -> None:
    """Their labels are public. `best` chooses among methods that have their own."""
    edges_only = {name for name, kind in METHODS.ours().items() if kind.units == frozenset({Unit.EDGE})}
    assert edges_only <= set(WEIGHTED)


def test_a_release_says_that_it_was_weighted(tmp_path: Path) -> None:
    method = gv.methods.Mlp(epochs=2, class_weight="balanced")
    release = gv.train(gv.datasets.load("chain-s"), method, epsilon=1, unit="edge", seed=0)
    loaded = gv.load(release.save(tmp_path / "model"))
    assert loaded.method == method
    assert loaded.method.describe()["class_weight"] == "balanced"
    assert "class_weight" not in replace(method, class_weight="equal").describe()


@pytest.mark.parametrize("method", ["whisper", "probe", "dpsgd"])
def test_private_labels_are_not_counted(method: str) -> None:
    line = f"train {method} chain-s --unit label --epsilon 1 --class-weight balanced"
    done = CliRunner().invoke(app, line.split())
    assert isinstance(done.exception, gv.InvalidInput)
    assert "counting classes would read them once more" in str(done.exception)
    assert "--threshold CLASS=CHANCE" in str(done.exception)


def test_the_classifier_takes_scikit_learns_word() -> None:
    rng = np.random.default_rng(0)
    y = np.array(["fraud" if k % 10 == 0 else "ok" for k in range(200)])
    X = rng.normal(size=(200, 3)) + 0.7 * (y == "fraud")[:, None]
    plain = PrivateGraphClassifier("mlp", seed=0).fit(X, y)
    weighted = PrivateGraphClassifier("mlp", class_weight="balanced", seed=0).fit(X, y)
    assert (weighted.predict(X) == "fraud").sum() > (plain.predict(X) == "fraud").sum()
    with pytest.raises(Unsupported, match="dpsgd has no class weights"):
        PrivateGraphClassifier(unit="node", class_weight="balanced").fit(X, y)
    with pytest.raises(gv.InvalidInput, match="class_weight"):
        PrivateGraphClassifier("mlp", class_weight="balance").fit(X, y)
