"""The floor: it finds what public features tell, and never looks at the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from communities import communities
from graphveil import methods
from graphveil.auditing.attacks.feature_similarity import FeatureSimilarity
from graphveil.auditing.game import Target
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Unit
from joined import attacked

CHANCE = 3 * (601 / (12 * 300 * 300)) ** 0.5
"""Three standard deviations of the AUC of 300 against 300."""


@pytest.mark.parametrize(("rows", "far"), [("features", 0.0), ("posteriors", 0.1)])
def test_features_that_tell_nothing_leave_it_at_chance(rows: str, far: float) -> None:
    scores = FeatureSimilarity(sample=300, rows=rows).scores(attacked(methods.Gcn()), 0)
    # Edges made the labels, and posteriors are trained on those: what labels tell is public too.
    assert abs(scores.auc() - 0.5) < CHANCE + far


@pytest.mark.parametrize("rows", ["features", "posteriors"])
def test_homophily_gives_edges_away_before_any_model(rows: str) -> None:
    graph = communities(200, 0, lift=5.0).random_split()
    target = Target(graph, methods.Gcn(), Unit.EDGE, epsilon=float("inf"))
    assert FeatureSimilarity(sample=300, rows=rows).scores(target, 0).auc() > 0.65


def test_it_does_not_depend_on_the_model() -> None:
    target = attacked(methods.Gcn(), epsilon=float("inf"))
    other = replace(target, method=methods.Gap(), epsilon=1.0)
    for rows in ("features", "posteriors"):
        floor = FeatureSimilarity(sample=50, rows=rows)
        assert (floor.scores(target, 0).present == floor.scores(other, 0).present).all()


def test_settings_are_checked() -> None:
    for wrong in ({"rows": "labels"}, {"distance": "far"}):
        with pytest.raises(InvalidInput):
            FeatureSimilarity(**wrong)
    assert FeatureSimilarity().floors() == {}
    assert FeatureSimilarity.name() == "feature_similarity"
