"""Algorithm 5 of HeterPoisson: a projection on the canary cannot see what the whole vector tells."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphveil as gv
from gradient_canary import Insertion, accuracy, audited
from graphveil.auditing.bounds import Scores
from graphveil.data.sealing import Public
from graphveil.mechanisms.sml import Sml
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Adjacency, Reading

NODE = Adjacency.of("node")


def test_the_published_claim_of_sml_noise_is_refuted_by_the_vector_and_not_by_the_projection() -> None:
    """The same trainings under Theorem 2: 4 steps, half of the nodes central, noise 4."""
    method = gv.methods.HeterPoisson(network="gcn", batch=50, epochs=2.0, noise_law="sml", exact_term=True)
    plan = method.plan(Public.blank(100, 50, 3), NODE, Reading.PUBLISHED, 4.0)
    assert plan.refuted
    claimed = accounting.epsilon(plan, 1e-2)
    for seed in range(2):
        found = audited(Insertion.of(plan, 5000), claimed, 1e-2, 20_000, seed)
        assert found["vector"]["verdict"] == "refuted"
        assert found["projection"]["verdict"] == "consistent"
        assert found["projection"]["lower"] < found["vector"]["lower"] / 2


def test_gaussian_noise_keeps_its_promise_under_both() -> None:
    method = gv.methods.HeterPoisson(network="gcn", batch=2, epochs=0.5)
    plan = method.plan(Public.blank(4, 50, 3), NODE, Reading.SOUND, 1.0)
    found = audited(Insertion.of(plan, 5000), accounting.epsilon(plan, 1e-2), 1e-2, 5_000, seed=0)
    assert found["vector"] == found["projection"]
    assert found["vector"]["verdict"] == "consistent"


def test_what_is_drawn_is_the_noise_of_the_act() -> None:
    """Length and first coordinate of Sml's noise have the law of `observed`, and its evidence is that of `told`."""
    size, runs = 400, 1500
    act, game = Sml(std=2 * 3.0), Insertion(3.0, (0.5, 1.0), (0.5, 0.25), 1, size, sml=True)
    zeros = lambda _: _Nothing(size)  # noqa: E731
    drawn = torch.stack([act.apply(None, zeros, Seeded(seed)) for seed in range(runs)]).double().numpy() / 2
    first, rest = game.observed(False, runs, np.random.default_rng(0))
    for ours, theirs in ((first[:, 0], drawn[:, 0]), (rest[:, 0], (drawn[:, 1:] ** 2).sum(axis=1))):
        assert np.quantile(ours, [0.1, 0.5, 0.9]) == pytest.approx(
            np.quantile(theirs, [0.1, 0.5, 0.9]), abs=0.4, rel=0.2
        )
    for row in drawn[:20]:
        move = torch.zeros(size, dtype=torch.float64)
        move[0] = 2.0
        exact = act.log_ratio(torch.from_numpy(2 * row), move)
        said = game._by_vector(row[:1], (row[1:] ** 2).sum(keepdims=True), 1.0)
        assert said[0] == pytest.approx(exact, abs=1e-6, rel=1e-4)


class _Nothing:
    def __init__(self, size: int) -> None:
        self.size = size

    def clipped_sum(self, clip: float) -> torch.Tensor:  # noqa: ARG002
        return torch.zeros(self.size, dtype=torch.float64)


def test_accuracy_is_that_of_the_best_threshold() -> None:
    assert accuracy(Scores(np.array([2.0, 3.0]), np.array([0.0, 1.0]))) == 1.0
    assert accuracy(Scores(np.array([0.0, 1.0]), np.array([0.0, 1.0]))) == 0.5
    assert accuracy(Scores(np.array([0.0, 2.0]), np.array([0.0, 1.0]))) == 0.75
