"""The floor without shadow models (Yeom et al. 2018): whoever is labelled confidently was a member."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from graphveil.auditing.attacks.parts.membership import AttackContext, Floor, confidence
from graphveil.vocabulary import Floats


@dataclass(frozen=True)
class Confidence(Floor):
    """The score is the attacked model's confidence in a node's true class: a threshold on the loss."""

    def guesses(self, scene: AttackContext) -> Floats:
        rows = torch.from_numpy(scene.scored)
        return confidence(scene.posteriors[rows], scene.graph.y[rows])
