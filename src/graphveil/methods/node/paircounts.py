"""Softmax regression and one noisy count of linked classes, on HeterPoisson's samples, at node level. Ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self

import numpy as np
import torch
from torch import Tensor

from graphveil.checks import require_positive
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.methods.method import Method, PredictionReads
from graphveil.methods.node.dpsgd import DpSgd
from graphveil.nn.beliefs import propagate
from graphveil.nn.features import RECORD_WISE, by_record
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit

_WHY = "docs/methods/paircounts.md"
_PAIR_NOISE = 0.3
"""Noise of the pair counts as a share of a gradient's: they get a few per cent of the budget, and need no more."""
_MIN_PAIR_NOISE = 2.0
"""Counts run into the thousands. Less noise would cost more than it tells, since several arcs may be drawn at once."""
_PAIR_RATE = 0.5
_PAIR_CLIP = math.sqrt(2)
"""A centre adds one to its own class and a vector of length at most one to the counts of its neighbours' classes."""
_ROUNDS = 3


@dataclass(frozen=True)
class PairCounts(Method):
    """Belief propagation from P(y_u | x_u) of `dpsgd` and from noisy counts of (y_u, y_v) over arcs v -> u.

    `dpsgd` gets nearly all of the budget. ONE release counts the labels at both ends of arcs that HeterPoisson samples:
    training ids are central with probability 1/2, and in-neighbour j stays with min(p_max, multiplier / degree_j). Then
    beliefs are propagated among the nodes outside training.
    """

    subtitle = "noisy gradients and counts of linked class pairs"
    units = frozenset({Unit.NODE})
    reads = PredictionReads.HELD_OUT

    learning_rate: float = 64.0
    """The step of `dpsgd` on own features."""
    multiplier: float = 1.0
    """M: an in-neighbour of degree D is counted with probability M / D."""
    p_max: float = 1.0
    """The largest probability with which an in-neighbour is counted, in (0, 1]."""
    scale: Annotated[str, RECORD_WISE] = "centred"
    """How features are scaled, one record at a time."""

    def __post_init__(self) -> None:
        require_positive(self.learning_rate, "learning_rate")
        require_positive(self.multiplier, "multiplier")
        if not 0 < self.p_max <= 1:
            raise InvalidInput(f"p_max must lie in (0, 1], got {self.p_max}")
        by_record(torch.zeros(1, 1), self.scale)  # refuses here what would fail only after the budget is charged

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        own = self._own().plan(public, adjacency, reading, noise).steps
        counting = max(_PAIR_NOISE * noise, _MIN_PAIR_NOISE) if noise else 0.0
        population = max(int(public.train.sum()), 1)
        inner = Gaussian(2 * counting, _PAIR_CLIP)
        act = HeterPoissonSampling(inner, _PAIR_RATE, float(self.multiplier), float(self.p_max), population)
        pairs = Step("pairs", act, act.curve(2), 1, why=_WHY, assumes=(public.degrees_assumed(),))
        return Plan(adjacency, reading, (*own, pairs))

    def _own(self) -> DpSgd:
        return DpSgd(learning_rate=self.learning_rate, scale=self.scale)

    def fit(self, session: Session) -> State:
        own = self._own().fit(session)
        counts = session.release("pairs", partial(_pairs, classes=session.public.num_classes))
        act = session.plan.act("pairs", HeterPoissonSampling)
        table = counts.reshape(session.public.num_classes, -1)
        pairs = table[:, 1:]
        if session.public.undirected:
            # An undirected edge has no direction: both orders are averaged.
            pairs = (pairs + pairs.T) / 2
        noise = torch.tensor(act.inner.std * act.inner.clip)
        return {**own, "pairs.classes": table[:, 0].clone(), "pairs.counts": pairs.clone(), "pairs.noise": noise}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        own = self._own().logits({"weights.0": state["weights.0"]}, x, visible_arcs).log_softmax(dim=1).double()
        # What lies below the noise, or below one pair, is raised to it.
        least = max(float(state["pairs.noise"]), 1.0)
        joint, shares = (np.maximum(state[f"pairs.{part}"].double().numpy(), least) for part in ("counts", "classes"))
        beliefs = propagate(own.numpy(), visible_arcs, joint / joint.sum(), shares / shares.sum(), _ROUNDS)
        return torch.from_numpy(beliefs).float()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(),)


@dataclass(frozen=True, eq=False)
class _Counts:
    """Centre s with label a adds rows[s] to row a: labels int64 [k], -1 where absent; rows float64 [k, c + 1]."""

    labels: Tensor
    rows: Tensor

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum of the one-row matrices, flat [c * (c + 1)]; absent centres add nothing."""
        lengths = torch.linalg.vector_norm(self.rows, dim=1, keepdim=True)
        bounded = self.rows * (clip / lengths.clamp(min=clip))
        present = self.labels >= 0
        total = torch.zeros(self.rows.shape[1] - 1, self.rows.shape[1], dtype=torch.float64)
        return total.index_add_(0, self.labels[present], bounded[present]).flatten()


def _pairs(sealed: Sealed, batch: Subgraphs, classes: int) -> _Counts:
    """One for the centre, and the label counts of its neighbours, shortened to length one."""
    labels = sealed.y[torch.from_numpy(batch.nodes)]
    subgraph = torch.from_numpy(np.repeat(np.arange(batch.count), np.diff(batch.ptr)))
    labelled = labels >= 0
    labelled[torch.from_numpy(batch.ptr[:-1])] = False
    counts = torch.zeros(batch.count, classes, dtype=torch.float64)
    counts.index_put_((subgraph[labelled], labels[labelled]), torch.ones((), dtype=torch.float64), accumulate=True)
    counts /= torch.linalg.vector_norm(counts, dim=1, keepdim=True).clamp(min=1)
    rows = torch.cat([torch.ones(batch.count, 1, dtype=torch.float64), counts], dim=1)
    return _Counts(sealed.y[torch.from_numpy(batch.centres)], rows)
