"""Node classification: a score per class, of which the largest wins."""

from __future__ import annotations

from torch import Tensor

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
    ) -> dict[str, float]:
        return accuracy_and_f1(self.predictions(scores, threshold), targets, self.width(sizes))


def accuracy_and_f1(predicted: Tensor, truth: Tensor, num_classes: int) -> dict[str, float]:
    """Accuracy and macro F1, over the classes that occur, of predicted classes, both int64 [n]."""
    hits = predicted == truth
    f1 = [class_f1(predicted, truth, label) for label in range(num_classes) if bool((truth == label).any())]
    return {"accuracy": float(hits.double().mean()), "f1": sum(f1) / len(f1)}


def class_f1(predicted: Tensor, truth: Tensor, label: int) -> float:
    """F1 of one class against the rest, both int64 [n]; 0 if nobody has the class or is said to."""
    said, is_ = predicted == label, truth == label
    return 2 * float((said & is_).sum()) / max(float(said.sum() + is_.sum()), 1.0)
