"""Naming the largest class: counted openly, so free where labels are public and infinite elsewhere."""

from __future__ import annotations

import math

import pytest
import torch

import graphveil as gv


@pytest.fixture(scope="module")
def graph() -> gv.Graph:
    return gv.datasets.load("unequal")


def test_it_names_the_class_that_most_training_nodes_have(graph: gv.Graph) -> None:
    release = gv.train(graph, "majority", epsilon=1, delta=1e-5, unit="edge")
    assert release.certificate.epsilon == 0
    assert release.predict().unique().tolist() == [0]
    assert release.evaluate("test")["accuracy"] == pytest.approx(float((graph.y[graph.test] == 0).double().mean()))


def test_chances_are_the_shares_among_training_nodes(graph: gv.Graph) -> None:
    release = gv.train(graph, "majority", epsilon=1, delta=1e-5, unit="edge")
    shares = graph.y[graph.train].bincount().double() / int(graph.train.sum())
    assert torch.allclose(release.predict_proba()[0].double(), shares, atol=1e-3)


@pytest.mark.parametrize("unit", ["node", "features", "label"])
def test_where_labels_are_private_it_protects_nobody(graph: gv.Graph, unit: str) -> None:
    with pytest.raises(gv.GraphveilError):
        gv.train(graph, "majority", epsilon=8, delta=1e-5, unit=unit)
    release = gv.train(graph, "majority", epsilon=math.inf, delta=1e-5, unit=unit)
    assert release.certificate.epsilon == math.inf


def test_a_class_that_nobody_has_keeps_a_chance() -> None:
    small = gv.datasets.load("chain-s")
    one = small.with_split(small.train & (small.y == 0), small.val, small.test, "one class")
    chances = gv.train(one, "majority", epsilon=1, delta=1e-5, unit="edge").predict_proba()
    assert float(chances[:, 1].min()) == pytest.approx(1 / (int(one.train.sum()) + 2))
