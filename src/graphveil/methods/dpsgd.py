"""DP gradient descent without a graph (Abadi et al. 2016): the node-level floor every graph method must beat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self

import torch
from torch import Tensor

from graphveil.core import (
    Adjacency,
    InvalidInput,
    Mechanism,
    Plan,
    Reading,
    Relation,
    State,
    Step,
    Unit,
    Unsupported,
    require_positive,
    require_whole,
)
from graphveil.graph.arcs import Csr
from graphveil.graph.sealing import Public, Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.poisson import Poisson
from graphveil.methods.bases.method import Method, PredictionReads
from graphveil.nn.clipping import (
    ExampleGradients,
    dense_gradients,
    dense_logits,
    flat,
    lengths_of,
    start_weights,
    unflat,
    with_bias,
)
from graphveil.nn.features import RECORD_WISE, by_record
from graphveil.privacy.session import Session
from graphveil.runtime.progress import track


@dataclass(frozen=True)
class DpSgd(Method):
    """Softmax regression or a one-hidden-layer perceptron on each node's own features.

    w <- w - learning_rate * (sum_i clip(g_i) + noise * clip * N(0, I)) / (clip * expected batch size).
    The denominator is public: the sampling rate times the number of training ids.
    """

    units = frozenset({Unit.NODE, Unit.FEATURES, Unit.LABEL})
    reads = PredictionReads.OWN_FEATURES

    hidden: int = 0
    """Width of the hidden layer; 0 is softmax regression."""
    steps: int = 100
    """Noisy gradient steps, at least 1."""
    clip: float = 0.1
    """Length that a node's gradient is clipped to, above 0."""
    learning_rate: float = 64.0
    """How far a step goes, above 0."""
    momentum: float = 0.0
    """Weight of earlier steps in a step, in [0, 1)."""
    sampling_rate: float = 1.0
    """Chance in (0, 1] that a training node joins a step, by a coin of its own (Poisson); 1 takes all of them."""
    average: float = 0.0
    """Share of the steps, counted from the last, whose weights are averaged, in [0, 1]; 0 keeps the last."""
    scale: Annotated[str, RECORD_WISE] = "centred"
    """How features are scaled, one record at a time."""

    def __post_init__(self) -> None:
        if self.hidden < 0 or self.steps < 1 or not 0 <= self.average <= 1:
            raise InvalidInput("dpsgd needs hidden >= 0, steps >= 1 and average in [0, 1]")
        require_whole(self, "hidden", "steps")
        require_positive(self.clip, "clip")
        require_positive(self.learning_rate, "learning_rate")
        if not 0 <= self.momentum < 1:
            raise InvalidInput(f"momentum must lie in [0, 1), got {self.momentum}")
        by_record(torch.zeros(1, 1), self.scale)  # refuses here what would fail only after the budget is charged

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        replace = adjacency.relation is Relation.REPLACE
        act: Mechanism = Gaussian(std=noise, clip=self.clip)
        if self.sampling_rate != 1.0:
            if replace:
                raise Unsupported("Poisson sampling is proven for adding or removing a node; use sampling_rate=1")
            act = Poisson(act, self.sampling_rate, int(public.train.sum()))
        # Replacing a record takes one clipped gradient away and adds another.
        claim = act.curve(2.0 if replace else 1.0)
        step = Step("gradient", act, claim, self.steps, why="docs/methods/dpsgd.md")
        return Plan(adjacency, reading, (step,))

    def fit(self, session: Session) -> State:
        public = session.public
        sizes = (public.num_features + 1, *[self.hidden] * (self.hidden > 0), public.num_classes)
        shapes = start_weights(sizes)
        weights = flat(shapes)
        velocity, kept = torch.zeros_like(weights), torch.zeros_like(weights)
        expected = self.sampling_rate * int(public.train.sum())
        first_kept = min(int(self.steps * (1 - self.average)), self.steps - 1)
        for turn in track(range(self.steps), "private gradient steps"):
            query = partial(_gradients, weights=unflat(weights, shapes), scale=self.scale)
            total = session.release("gradient", query)
            velocity = self.momentum * velocity + (1 - self.momentum) * total / (self.clip * expected)
            weights = weights - self.learning_rate * velocity
            kept += weights if turn >= first_kept else 0.0
        layers = unflat(kept / (self.steps - first_kept), shapes)
        return {f"weights.{depth}": layer.clone() for depth, layer in enumerate(layers)}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:  # noqa: ARG002
        weights = [state[f"weights.{depth}"] for depth in range(len(state))]
        return dense_logits(weights, with_bias(x, self.scale))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(steps=3), cls(hidden=4, steps=3, sampling_rate=0.5, average=0.5)


def _gradients(sealed: Sealed, weights: list[Tensor], scale: str, batch: Tensor | None = None) -> ExampleGradients:
    """Gradients of the training nodes, or of those in `batch` (positions among the training ids)."""
    x, y, lengths = sealed.derived("dpsgd training records", partial(_training_records, scale=scale))
    if batch is None:
        return dense_gradients(weights, x, y, lengths)
    return dense_gradients(weights, x[batch], y[batch], lengths[batch])


def _training_records(sealed: Sealed, scale: str) -> tuple[Tensor, Tensor, Tensor]:
    """Features float64 [m, d + 1], labels [m] and the features' lengths [m]: what every step needs again."""
    x = with_bias(sealed.x[sealed.public.train], scale).double()
    return x, sealed.y[sealed.public.train], lengths_of(x)
