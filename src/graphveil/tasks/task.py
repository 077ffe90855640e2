"""What a task is: what a node's scores stand for, how they become predictions, and how those are judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Threshold:
    """The answer of this number is given where its chance is at least so much, and else the likeliest of the others."""

    answer: int
    chance: float


class Task(ABC):
    """Between a method, which scores nodes, and a release, which predicts: knows what the numbers mean.

    scores: float [n, width], as `Method.logits` gives them; targets: y [n], as the graph has them.
    """

    name: str
    """In words, for messages."""

    @abstractmethod
    def width(self, sizes: tuple[int, ...]) -> int:
        """How many scores a node has, in a graph of so many nodes, features and classes."""

    @abstractmethod
    def probabilities(self, scores: Tensor) -> Tensor:
        """The chances of the answers, [n, width], or `Unsupported` where there are none."""

    @abstractmethod
    def predictions(self, scores: Tensor, threshold: Threshold | None = None) -> Tensor:
        """The answers, [n]; threshold: where one answer is given earlier than by itself."""

    @abstractmethod
    def judge(
        self, scores: Tensor, targets: Tensor, sizes: tuple[int, ...], threshold: Threshold | None = None
    ) -> dict[str, Any]:
        """How good the answers are, by the names of the measures."""
