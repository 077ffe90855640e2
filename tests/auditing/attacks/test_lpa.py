"""Link stealing from posteriors, on features that tell nothing: the model tells, or nobody does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import distance as reference

from graphveil import methods
from graphveil.auditing.attacks.lpa import Distance, Lpa, distances
from graphveil.errors import InvalidInput
from joined import attacked


@pytest.mark.parametrize("distance", ["correlation", "cosine", "euclidean"])
def test_it_wins_against_a_network_without_privacy(distance: str) -> None:
    assert Lpa(sample=200, distance=distance).scores(attacked(methods.Gcn()), 0).auc() > 0.75


def test_it_is_at_chance_where_no_edge_is_read() -> None:
    scores = Lpa(sample=300).scores(attacked(methods.Mlp(epochs=40)), 0)
    # Three standard deviations of the AUC of 300 against 300.
    assert abs(scores.auc() - 0.5) < 3 * (601 / (12 * 300 * 300)) ** 0.5


@pytest.mark.parametrize("distance", Distance)
def test_distances_are_those_of_scipy(distance: Distance) -> None:
    rng = np.random.default_rng(0)
    rows, pairs = rng.dirichlet(np.ones(5), 20), rng.integers(0, 20, (40, 2))
    found = distances(torch.from_numpy(rows), pairs, distance)
    measure = getattr(reference, distance.value)
    np.testing.assert_allclose(found, [measure(rows[a], rows[b]) for a, b in pairs], atol=1e-12)


@pytest.mark.parametrize("distance", Distance)
def test_rows_of_zeros_say_nothing(distance: Distance) -> None:
    found = distances(torch.zeros(2, 3), np.array([[0, 1]]), distance)
    assert found.tolist() == [1.0 if distance in (Distance.COSINE, Distance.CORRELATION) else 0.0]


def test_an_unknown_distance_is_refused() -> None:
    with pytest.raises(InvalidInput, match="distance"):
        Lpa(distance="manhattan")
