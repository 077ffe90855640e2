"""G-MIA (Olatunji et al. 2021; He et al. 2021): a shadow model shows what posteriors of members look like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from graphveil.auditing.attacks.parts.membership import AttackContext, NodeInference, answers, part, shadow_judge
from graphveil.checks import require_whole
from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Floats


@dataclass(frozen=True)
class Gmia(NodeInference):
    """A shadow model, made as the attacked one was, of spare nodes; its posteriors train a classifier (`hidden` units).

    The shadow learns from half of the spare nodes, at most as many as the attacked model, and is asked about them and
    about as many others in the full graph.
    """

    hidden: int = 16

    def __post_init__(self) -> None:
        require_whole(self, "hidden")
        if self.hidden < 1:
            raise InvalidInput(f"gmia needs hidden of at least 1, got {self.hidden}")

    def guesses(self, scene: AttackContext) -> Floats:
        inside, checked, outside = shadow_parts(scene)
        shadow = scene.target.on(part(scene.graph, inside, checked), scene.seed + 1).release()
        posteriors = answers(shadow, scene.graph, scene.seed + 1)
        known, unknown, scored = (torch.from_numpy(ids) for ids in (inside, outside, scene.scored))
        return shadow_judge(posteriors[known], posteriors[unknown], scene.posteriors[scored], scene.seed, self.hidden)


def shadow_parts(scene: AttackContext) -> tuple[Ids, Ids, Ids]:
    """Spare nodes that train the shadow, that choose its epoch if the attacked model had such, and that are others."""
    graph = scene.graph
    train, val = int(graph.train.sum()), int(graph.val.sum())
    size = min(train + val, len(scene.spare) // 2)
    checked = round(size * val / (train + val))
    inside, choose, outside, _ = np.split(scene.spare, [size - checked, size, 2 * size])
    return inside, choose, outside
