"""The floor of every attack on edges: how well public features alone tell who is joined."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from graphveil.auditing.attacks.lpa import Distance, distances
from graphveil.auditing.attacks.parts.pairs import EdgeInference
from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Inference, Target
from graphveil.checks import parse
from graphveil.methods.baseline.mlp import Mlp


class ComparedRows(StrEnum):
    """What is compared: the features, or what an edge-free perceptron makes of public features and labels."""

    FEATURES = "features"
    POSTERIORS = "posteriors"


@dataclass(frozen=True)
class FeatureSimilarity(EdgeInference):
    """score(u, v) = -distance(r_u, r_v) for public rows r: features and labels are public at edge level.

    It never sees the attacked model. Whatever it achieves, no protection of edges can prevent.
    """

    distance: str = "cosine"
    rows: str = "features"

    def __post_init__(self) -> None:
        super().__post_init__()
        parse(Distance, self.distance, "distance")
        parse(ComparedRows, self.rows, "rows")

    def scores(self, target: Target, seed: int) -> Scores:
        pairs = self.pairs(target.graph, seed)
        if self.rows == ComparedRows.FEATURES:
            rows = target.graph.x
        else:
            plain = replace(target, method=Mlp(), epsilon=math.inf, noise=None)
            rows = plain.release().predict_proba()
        return pairs.scores(-distances(rows, pairs.nodes, self.distance))

    def floors(self) -> dict[str, Inference]:
        return {}

    @classmethod
    def name(cls) -> str:
        return "feature_similarity"
