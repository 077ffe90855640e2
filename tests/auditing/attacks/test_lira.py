"""LiRA on small graphs: its score is the ratio it claims to be, and it wins where there is something to win."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from graphveil.auditing.attacks.lira import Lira, likelihood_ratio
from graphveil.auditing.attacks.parts.membership import AttackContext
from graphveil.errors import InvalidInput
from graphveil.runtime.compute import Compute
from memorised import heart, never_seen


def test_wins_against_a_model_that_learnt_by_heart() -> None:
    assert Lira(4).scores(heart(), 0).auc() > 0.65


def test_is_at_chance_against_a_model_that_never_saw_the_nodes() -> None:
    scene = never_seen(AttackContext.of(heart(), 0))
    count = len(scene.present)
    assert abs(Lira(4).on(scene).auc() - 0.5) < 4 * ((2 * count + 1) / (12 * count**2)) ** 0.5


def test_every_scored_node_is_in_half_of_the_shadows_and_sizes_are_the_target_s() -> None:
    scene = AttackContext.of(heart(), 0)
    drawn = Lira(6)._halves(scene)
    assert (drawn.sum(axis=0) == 3).all()
    assert (drawn.sum(axis=1) == len(scene.present)).all()


@pytest.mark.slow
def test_any_number_of_workers_finds_the_same() -> None:
    scene = AttackContext.of(heart(), 0)
    alone = Lira(2).guesses(scene)
    two = replace(scene, target=replace(scene.target, compute=Compute(jobs=2)))
    assert (Lira(2).guesses(two) == alone).all()


def test_the_score_is_the_log_likelihood_ratio() -> None:
    rng = np.random.default_rng(0)
    inside = np.array([[True, False], [False, True], [True, True], [False, False], [True, False], [False, True]])
    said, seen = rng.normal(size=(6, 2)), rng.normal(size=2)
    expected = np.zeros(2)
    for sign, chosen in ((1, inside), (-1, ~inside)):
        means = np.array([said[chosen[:, node], node].mean() for node in range(2)])
        gaps = [said[chosen[:, node], node] - means[node] for node in range(2)]
        deviation = np.sqrt(sum((gap**2).sum() for gap in gaps) / (6 - 2))
        expected += sign * norm.logpdf(seen, means, deviation)
    assert np.allclose(likelihood_ratio(seen, said, inside), expected)


@pytest.mark.parametrize("shadows", [0, 1, 3])
def test_shadows_come_in_pairs(shadows: int) -> None:
    with pytest.raises(InvalidInput, match="even"):
        Lira(shadows)
