"""Class beliefs that no node's own label has touched: a cross-fitted ensemble of perceptrons on public features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from graphveil.data.sealing import Public
from graphveil.nn.fit import MANY, VAST, ClassWeight, Sweeps, fit_in_batches
from graphveil.nn.mlp import Dropout, with_prefix
from graphveil.nn.rows import WHOLE, Rows, in_blocks
from graphveil.runtime.compute import HERE, Run
from graphveil.runtime.counter_rng import CounterRng
from graphveil.vocabulary import State


class MlpEnsemble(nn.Module):
    """`count` perceptrons with one hidden layer each, trained side by side as one: sizes are (d, hidden, c)."""

    def __init__(self, count: int, sizes: tuple[int, int, int], dropout: float = 0.0, input_dropout: float = 0.0):
        super().__init__()
        features, hidden, classes = sizes
        self.inner, self.inner_bias = _uniform(count, features, hidden)
        self.outer, self.outer_bias = _uniform(count, hidden, classes)
        self.dropout, self.input_dropout = Dropout(dropout), Dropout(input_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [b, count, c] of x [b, count, d]. Input dropout silences whole columns: see `Perceptron`."""
        inner = self.inner
        if self.input_dropout.silenced:
            inner = inner * self.input_dropout(inner.new_ones(*inner.shape[:2], 1))
        h = torch.baddbmm(self.inner_bias, x.transpose(0, 1), inner)
        return torch.baddbmm(self.outer_bias, self.dropout.of_relu(h), self.outer).transpose(0, 1)

    def log_posteriors(self, x: Tensor) -> Tensor:
        """What every perceptron says of every row, [count, n, c], for x [n, d]."""
        with torch.no_grad():
            parts = zip(self.inner, self.inner_bias, self.outer, self.outer_bias, strict=True)
            scores = [torch.relu(x @ inner + bias) @ outer + last for inner, bias, outer, last in parts]
        return torch.stack(scores).log_softmax(dim=2)


def _uniform(count: int, width: int, out: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights [count, width, out] and biases [count, 1, out], drawn as torch's own linear layers are."""
    bound = 1 / math.sqrt(width)
    weights = torch.empty(count, width, out, device="cpu")
    biases = torch.empty(count, 1, out, device="cpu")
    return nn.Parameter(weights.uniform_(-bound, bound)), nn.Parameter(biases.uniform_(-bound, bound))


@dataclass(frozen=True)
class _Habit:
    """One way to regularise: bags of words want much of it, a few dense columns hardly any."""

    dropout: float
    input_dropout: float
    passes: int


_HABITS = (_Habit(0.5, 0.2, 10), _Habit(0.2, 0.0, 20))


_TRIED = 512
"""Steps that compare habits among many rows."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Networks of which each left one part of the training nodes out; parts: int64 [n], -1 outside training."""

    ensembles: tuple[MlpEnsemble, ...]
    parts: Tensor

    @classmethod
    def fit(
        cls, x: Rows, public: Public, folds: int, hidden: int, class_weight: str = "equal", run: Run = HERE
    ) -> Self:
        """Train on scaled features x [n, d]; the habit is the one with the least loss on the first part left out."""
        train, y = public.train.nonzero().ravel(), public.labels()
        folds = min(folds, len(train))
        parts = torch.full((x.shape[0],), -1, device=train.device)
        parts[train] = _dealt(len(train), folds, train.device)

        # Among many rows a short training tells which habit is the better one.
        tried = _TRIED if len(train) * (folds - 1) // max(folds, 1) > MANY else None

        def ensemble(left_out: range, habit: _Habit, most: int | None = None) -> MlpEnsemble:
            made = MlpEnsemble(
                len(left_out), (x.shape[1], hidden, public.num_classes), habit.dropout, habit.input_dropout
            ).to(train.device)
            # A single training node leaves nothing to learn from but itself.
            seen = [train[parts[train] != part] if folds > 1 else train for part in left_out]
            least = min(len(rows) for rows in seen)
            rows = torch.stack([_some(rows, least) for rows in seen], dim=1)
            sweeps = Sweeps(habit.passes, class_weight=class_weight)
            fit_in_batches(made, x, y, rows, sweeps if most is None else replace(sweeps, most=most), run.progress)
            return made

        def loss(candidate: MlpEnsemble) -> float:
            # So many are enough to compare two habits.
            out = (parts == 0).nonzero().ravel()[:WHOLE]
            said, counts = candidate.log_posteriors(x[out])[0], ClassWeight(class_weight).of(y[out])
            return float(
                nll_loss(said, y[out]) if counts is None else nll_loss(said, y[out], reduction="none") @ counts
            )

        first = {habit: ensemble(range(1), habit, tried) for habit in _HABITS}
        best = min(first, key=lambda habit: loss(first[habit]))
        if tried is not None:
            return cls((ensemble(range(folds), best),), parts)
        rest = (ensemble(range(1, folds), best),) if folds > 1 else ()
        return cls((first[best], *rest), parts)

    def log_beliefs(self, x: Rows, block: int | None = None) -> Tensor:
        """Log posteriors [n, c]: a training node asks the network that left it out, every other node asks all."""
        return in_blocks(x.shape[0], lambda part: self._beliefs_of(x[part], self.parts[part]), block)

    def _beliefs_of(self, x: Tensor, parts: Tensor) -> Tensor:
        """Those of a block of nodes, [b, c]; parts: int64 [b]."""
        scores = torch.cat([ensemble.log_posteriors(x) for ensemble in self.ensembles])
        own = scores[parts.clamp(min=0), torch.arange(len(x), device=x.device)]
        return torch.where(parts[:, None] < 0, scores.mean(dim=0), own).log_softmax(dim=1)

    def state(self) -> State:
        """Weights by name."""
        named = [ensemble.state_dict() for ensemble in self.ensembles]
        return with_prefix("encoder.", {name: torch.cat([part[name] for part in named]) for name in named[0]})

    @classmethod
    def restore(cls, state: State, public: Public) -> Self:
        """The same networks for another graph, of which they have seen no node."""
        count, features, hidden = state["encoder.inner"].shape
        ensemble = MlpEnsemble(count, (features, hidden, public.num_classes))
        ensemble.load_state_dict({name: state[f"encoder.{name}"] for name in ensemble.state_dict()})
        where = public.train.device
        return cls((ensemble.eval().to(where),), torch.full((public.num_nodes,), -1, device=where))


def _dealt(count: int, folds: int, device: torch.device) -> Tensor:
    """A part for each of `count` nodes, int64 [count]: as many of every one, or each by itself if they are vast."""
    if count <= VAST:
        return torch.randperm(count).to(device) % folds
    return CounterRng.drawn(device).below(count, folds)


def _some(rows: Tensor, least: int) -> Tensor:
    """`least` of the rows, in any order where the order tells something: of a vast number batches are drawn anyway."""
    return rows[torch.randperm(len(rows))[:least].to(rows.device)] if len(rows) <= VAST else rows[:least]


def cross_fitted(
    x: Rows,
    public: Public,
    scale: str,
    folds: int = 5,
    hidden: int = 128,
    class_weight: str = "equal",
    run: Run = HERE,
) -> Folds:
    """`Folds.fit` on features x [n, d], scaled in the way `scale`, made once for all runs on this graph."""
    name = f"folds {folds} {hidden} {scale} {class_weight}"
    return public.cache_public(name, lambda: Folds.fit(x, public, folds, hidden, class_weight, run))
