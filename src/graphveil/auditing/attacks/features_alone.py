"""The floor without the attacked model: what is told by features, labels and edges that the attacker has anyway."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from graphveil.auditing.attacks.parts.membership import AttackContext, Floor, answers, confidence
from graphveil.data.graph import induced
from graphveil.data.splits import Split
from graphveil.methods.baseline.mlp import Mlp
from graphveil.run import train
from graphveil.vocabulary import Floats, Unit


@dataclass(frozen=True)
class FeaturesAlone(Floor):
    """A perceptron learns the classes of the spare nodes; the score is its confidence in a node's true class.

    It knows nothing of the attacked model. Away from 1/2 its AUC says that members are other kinds of nodes.
    """

    def guesses(self, scene: AttackContext) -> Floats:
        own = induced(scene.graph, Split(scene.spare, how="spare nodes"), scene.graph.name)
        model = train(
            own, Mlp(hidden=64, epochs=100), noise=0.0, unit=Unit.EDGE, seed=scene.seed, compute=scene.target.compute
        )
        rows = torch.from_numpy(scene.scored)
        return confidence(answers(model, scene.graph, scene.seed)[rows], scene.graph.y[rows])
