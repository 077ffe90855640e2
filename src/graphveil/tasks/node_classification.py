"""Node classification: a score per class, of which the largest wins."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphveil.tasks.class_scores import judged
from graphveil.tasks.task import Task, Threshold


class NodeClassification(Task):
    """y: class ids in 0 .. c - 1, or -1 where unlabelled; a node's scores are the logits of its c classes."""

    name = "node classification"

    def width(self, sizes: tuple[int, ...]) -> int:
        return sizes[2]

    def probabilities(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=1)

    def predictions(self, scores: Tensor, threshold: Threshold | None = None) -> Tensor:
        # Of the probabilities, not of the scores: rounding may tie two classes, and the first of them wins.
        chances = self.probabilities(scores)
        if threshold is None:
            return chances.argmax(dim=1)
        named = chances[:, threshold.answer] >= threshold.chance
        others = chances.clone()
        others[:, threshold.answer] = -1
        return others.argmax(dim=1).where(~named, threshold.answer)

    def judge(
        self, scores: Tensor, targets: Tensor, sizes: tuple[int, ...], threshold: Threshold | None = None
    ) -> dict[str, Any]:
        return judged(self.predictions(scores, threshold), targets, self.width(sizes), self.probabilities(scores))
