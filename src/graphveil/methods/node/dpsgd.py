"""DP gradient descent without a graph (Abadi et al. 2016): the node-level floor every graph method must beat."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Self

import torch
from torch import Tensor

from graphveil.checks import require_positive, require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.poisson import Poisson
from graphveil.methods.method import Method, PredictionReads
from graphveil.methods.node.parts.prior import Gains, class_counts, log_shares
from graphveil.nn.clipping import (
    DenseScorer,
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
from graphveil.vocabulary import Adjacency, Mechanism, Plan, Reading, Relation, State, Step, Unit

_WHY = "docs/methods/dpsgd.md"
_SHARES = {"counts": 0.04, "gradient": 0.9, "check": 0.06}
"""Of the budget where the learning rate is left open, as 1 / variance in units of what one release would have."""
_LARGEST_RATE = 64.0
_NOISE_OF_WEIGHTS = 1.3
"""Standard deviation of the noise that steps add up to in a weight; rates are chosen for it."""
_EARLY = 1 / 3
"""Share of the steps after which weights are a candidate too: some graphs are overfitted by all of them."""
_CHECK_CLIP = math.sqrt(2)
"""Two candidates, each of which a node may gain or lose by one."""
_CHANCE = 0.25
"""Variance of what one more node gains: it is not known, and about this where a quarter of the nodes gain or lose."""
_UNDONE = 0.15
"""How fast others undo a node's own push, in units of steps of rate 1 per feature; chosen on validation nodes."""


@dataclass(frozen=True)
class DpSgd(Method):
    """Softmax regression or a one-hidden-layer perceptron on each node's own features.

    w <- w - learning_rate * (sum_i clip(g_i) + noise * clip * N(0, I)) / (clip * expected batch size).
    The denominator is public: the sampling rate times the number of training ids. With learning_rate=0 the logits
    start from noisy log shares of the classes, and one more release asks training nodes whether what was learnt
    serves them better than naming the largest class; if not, the shares alone are the model.
    """

    on_gpu = True

    subtitle = "noisy clipped gradients, without a graph"
    units = frozenset({Unit.NODE, Unit.FEATURES, Unit.LABEL})
    reads = PredictionReads.OWN_FEATURES

    hidden: int = 0
    """Width of the hidden layer; 0 is softmax regression."""
    steps: int = 100
    """Noisy gradient steps, at least 1."""
    clip: float = 0.1
    """Length that a node's gradient is clipped to, above 0."""
    learning_rate: float = 0.0
    """How far a step goes; 0 goes as far as the noise allows, and falls back to the largest class if that is better."""
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
        if self.learning_rate != 0:
            require_positive(self.learning_rate, "learning_rate")
        if not 0 <= self.momentum < 1:
            raise InvalidInput(f"momentum must lie in [0, 1), got {self.momentum}")
        by_record(torch.zeros(1, 1), self.scale)  # refuses here what would fail only after the budget is charged

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        replaced = adjacency.relation is Relation.REPLACE
        act: Mechanism = Gaussian(std=noise, clip=self.clip)
        if self.sampling_rate != 1.0:
            if replaced:
                raise Unsupported("Poisson sampling is proven for adding or removing a node; use sampling_rate=1")
            act = Poisson(act, self.sampling_rate, int(public.train.sum()))
        # Replacing a record takes one clipped contribution away and adds another.
        moved = 2.0 if replaced else 1.0
        step = Step("gradient", act, act.curve(moved), self.steps, why=_WHY)
        if self.learning_rate:
            return Plan(adjacency, reading, (step,))
        counts, check = self._once("counts", noise, 1.0, moved), self._once("check", noise, _CHECK_CLIP, moved)
        return Plan(adjacency, reading, (counts, step, check))

    def _once(self, name: str, noise: float, clip: float, moved: float) -> Step:
        """A release beside the gradients, which cost about as much as one with noise / (sampling_rate steps^(1/2))."""
        alone = noise / (self.sampling_rate * math.sqrt(self.steps))
        act = Gaussian(alone * math.sqrt(_SHARES["gradient"] / _SHARES[name]), clip)
        return Step(name, act, act.curve(moved), 1, why=_WHY)

    def fit(self, session: Session) -> State:
        if self.learning_rate:
            (weights,) = self._descended(session, self.learning_rate, (self.steps,))
            return _named(weights)
        counting, size = session.plan.act("counts", Gaussian), _size(session.public)
        prior = log_shares(session.release("counts", class_counts), counting.std)
        rate, stops = self._rate(session), (math.ceil(_EARLY * self.steps), self.steps)
        found = self._descended(session, rate, stops, prior)
        # Of its own push a node still feels what the others do not undo: all at first, a leverage of d / m at last.
        width = session.public.num_features + 1
        own = [-width / (_UNDONE * size) * math.expm1(-_UNDONE * rate * stop / width) for stop in stops]
        query = partial(_gains, models=found, own=own, prior=prior, scale=self.scale)
        gains, checking = session.release("check", query), session.plan.act("check", Gaussian)
        best = int(gains.argmax())
        # Better by a deviation of the noise and of who happened to train.
        if not float(gains[best]) > math.sqrt((checking.std * checking.clip) ** 2 + _CHANCE * size):
            return {**_named([torch.zeros_like(layer) for layer in found[best]]), "prior": prior}
        return {**_named(found[best]), "prior": prior}

    def _rate(self, session: Session) -> float:
        """The step whose noise adds up to `_NOISE_OF_WEIGHTS` in a weight, or the largest that is of use."""
        act = session.plan.step("gradient").act
        act = act.inner if isinstance(act, Poisson) else act
        spread = act.std * math.sqrt(self.steps) if isinstance(act, Gaussian) else math.inf
        quiet = _NOISE_OF_WEIGHTS * self.sampling_rate * _size(session.public) / spread if spread else math.inf
        return min(_LARGEST_RATE * 100 / self.steps, quiet)

    def _descended(
        self, session: Session, rate: float, stops: tuple[int, ...], prior: Tensor | None = None
    ) -> list[list[Tensor]]:
        """Weights after so many noisy steps as each of the `stops` says, the last share `average` of them averaged."""
        public = session.public
        sizes = (public.num_features + 1, *[self.hidden] * (self.hidden > 0), public.num_classes)
        shapes = [part.to(public.train.device) for part in start_weights(sizes)]
        weights = flat(shapes)
        velocity, kept = torch.zeros_like(weights), [torch.zeros_like(weights) for _ in stops]
        expected = self.sampling_rate * int(public.train.sum())
        firsts = [min(int(stop * (1 - self.average)), stop - 1) for stop in stops]
        for turn in session.run.progress.track(range(self.steps), "private gradient steps"):
            query = partial(_gradients, weights=unflat(weights, shapes), scale=self.scale, prior=prior)
            total = session.release("gradient", query)
            velocity = self.momentum * velocity + (1 - self.momentum) * total / (self.clip * expected)
            weights = weights - rate * velocity
            for total_kept, first, stop in zip(kept, firsts, stops, strict=True):
                total_kept += weights if first <= turn < stop else 0.0
        means = [total / (stop - first) for total, first, stop in zip(kept, firsts, stops, strict=True)]
        return [unflat(mean, shapes) for mean in means]

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:  # noqa: ARG002
        scores: Tensor = self.scorer(state)(x)
        return scores

    def scorer(self, state: State) -> DenseScorer:
        weights = [state[f"weights.{depth}"] for depth in range(len(state) - ("prior" in state))]
        return DenseScorer(weights, state.get("prior"), self.scale)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        sampled = cls(hidden=4, steps=4, sampling_rate=0.5, average=0.5)
        return cls(steps=4), sampled, replace(sampled, learning_rate=64.0), cls(steps=3, learning_rate=64.0)


def _size(public: Public) -> int:
    """How many ids train, or 1."""
    return max(int(public.train.sum()), 1)


def _named(weights: list[Tensor]) -> State:
    return {f"weights.{depth}": layer.clone() for depth, layer in enumerate(weights)}


def _gradients(
    sealed: Sealed, weights: list[Tensor], scale: str, prior: Tensor | None, batch: Tensor | None = None
) -> ExampleGradients:
    """Gradients of the training nodes, or of those in `batch` (positions among the training ids)."""
    x, y, lengths = sealed.derived("dpsgd training records", partial(_training_records, scale=scale))
    if batch is None:
        return dense_gradients(weights, x, y, lengths, prior)
    return dense_gradients(weights, x[batch], y[batch], lengths[batch], prior)


def _gains(sealed: Sealed, models: list[list[Tensor]], own: list[float], prior: Tensor, scale: str) -> Gains:
    """Query: what training nodes gain from each model, had they not taught it. own: a node's push of its logits."""
    x, y, lengths = sealed.derived("dpsgd training records", partial(_training_records, scale=scale))
    named = []
    for weights, push in zip(models, own, strict=True):
        gradients = dense_gradients(weights, x, y, lengths, prior)
        signals = gradients.signals[-1]
        # A step along -g / |g| moves a node's logits by |g| / |s| along -s / |s|, with s = softmax - one-hot label.
        back = push * gradients.norms() / lengths_of(signals).square().clamp(min=1e-12)
        logits = dense_logits([layer.double() for layer in weights], x) + prior
        named.append((logits + back[:, None] * signals).argmax(dim=1))
    return Gains(torch.stack(named, dim=1), prior.argmax(), y)


def _training_records(sealed: Sealed, scale: str) -> tuple[Tensor, Tensor, Tensor]:
    """Features float64 [m, d + 1], labels [m] and the features' lengths [m]: what every step needs again."""
    x = with_bias(sealed.x[sealed.public.train], scale).double()
    return x, sealed.y[sealed.public.train], lengths_of(x)
