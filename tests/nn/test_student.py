"""Students learn through noise whose law is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from graphveil.data.arcs import Ids
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from graphveil.nn.public_embedding import PublicEmbedding
from graphveil.nn.student import RidgeStudent, SageStudent, kept_of, ridge_logits, sage_logits

CLASSES = 3


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(600, CLASSES, 12, 8.0)


def noisy(graph: Graph, count: int, kept: float, seed: int = 0) -> tuple[Ids, Tensor]:
    """Some nodes and their labels through the exponential mechanism."""
    rng = np.random.default_rng(seed)
    asked = rng.permutation(graph.num_nodes)[:count]
    true, random = graph.y[torch.from_numpy(asked)], torch.from_numpy(rng.integers(CLASSES, size=count))
    return asked, torch.where(torch.from_numpy(rng.random(count) < kept), true, random)


def accuracy(graph: Graph, logits: Tensor) -> float:
    return float((logits.argmax(dim=1) == graph.y).double().mean())


def test_kept_is_the_law_of_the_exponential_mechanism() -> None:
    for strength in (0.1, 2.2):
        truth = math.exp(strength) / (math.exp(strength) + CLASSES - 1)
        kept = kept_of(strength, CLASSES)
        assert kept + (1 - kept) / CLASSES == pytest.approx(truth)
    assert kept_of(math.inf, CLASSES) == kept_of(1e9, CLASSES) == kept_of(700.0, CLASSES) == 1


def test_ridge_is_the_least_squares_fit() -> None:
    rng = np.random.default_rng(0)
    rows, asked = torch.from_numpy(rng.normal(size=(50, 4)).astype(np.float32)), np.arange(30)
    answers = torch.from_numpy(rng.integers(CLASSES, size=30))
    weights = RidgeStudent(ridge=1e-6).fit(rows, asked, answers, CLASSES)
    inputs = np.c_[rows.numpy()[:30], np.ones(30)]
    wanted = np.linalg.lstsq(inputs, np.eye(CLASSES)[answers.numpy()], rcond=None)[0]
    assert np.allclose(weights.numpy(), wanted, atol=1e-4)
    assert np.allclose(ridge_logits(weights, rows).numpy()[:30], inputs @ wanted, atol=1e-4)


def test_ridge_needs_no_correction_for_the_noise(graph: Graph) -> None:
    rows = PublicEmbedding.of(graph.x, graph.adj, 8).context(graph.x, graph.adj)
    clean, told = (noisy(graph, 500, kept) for kept in (1.0, 0.4))
    right = [accuracy(graph, ridge_logits(RidgeStudent().fit(rows, *part, CLASSES), rows)) for part in (clean, told)]
    assert right[0] > 0.6
    assert right[1] > right[0] - 0.1


@pytest.mark.parametrize("student", [SageStudent(epochs=60), SageStudent(epochs=60, kept=0.7, pretraining=20)])
def test_a_network_learns_the_answers(graph: Graph, student: SageStudent) -> None:
    torch.manual_seed(0)
    asked, answers = noisy(graph, 300, 0.7 if student.kept < 1 else 1.0)
    state = student.fit(graph.x, graph.adj, asked, answers, CLASSES)
    assert accuracy(graph, sage_logits(student, state, graph.x, graph.adj)) > 0.5


def test_the_corrected_loss_is_that_of_the_noisy_answer(graph: Graph) -> None:
    """With kept = 1 both are the plain likelihood: one step from the same start is the same."""
    asked, answers = noisy(graph, 50, 1.0)
    states = []
    for kept in (1.0, 1.0 - 1e-9):
        torch.manual_seed(1)
        states.append(SageStudent(hidden=4, epochs=1, kept=kept).fit(graph.x, graph.adj, asked, answers, CLASSES))
    assert all(torch.allclose(states[0][name].float(), states[1][name].float(), atol=1e-5) for name in states[0])


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"kept": 0.0}, {"dropout": 1.0}, {"pretraining": -1}])
def test_a_student_that_cannot_learn_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        SageStudent(**bad)
