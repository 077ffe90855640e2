"""HeterPoisson (Xiang, Wang & Wang, S&P 2024): subgraphs drawn by degree-aware Poisson sampling, at node level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor

from graphveil.core import (
    Adjacency,
    InvalidInput,
    Plan,
    Query,
    Reading,
    State,
    Step,
    Unit,
    require_positive,
    require_whole,
)
from graphveil.graph.arcs import Csr
from graphveil.graph.sealing import Public, Sealed
from graphveil.mechanisms import heterpoisson as mechanism
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.sml import Sml
from graphveil.mechanisms.theorem_two import TheoremTwo
from graphveil.methods.bases.subgraph_method import SubgraphMethod
from graphveil.methods.dpsgd import DpSgd
from graphveil.nn.beliefs import propagate
from graphveil.privacy.session import Session
from graphveil.sampling.subgraphs import Subgraphs

_WHY = "docs/methods/heterpoisson.md"
_PAIRS = "pairs"
_PAIR_NOISE = 0.3
"""Noise of the pair counts as a share of a gradient's: they get a few per cent of the budget, and need no more."""
_LEAST_PAIR_NOISE = 2.0
"""Counts run into the thousands. Less noise would cost more than it tells, since several arcs may be drawn at once."""
_PAIR_RATE = 0.5
_PAIR_CLIP = math.sqrt(2)
"""A centre adds one to its own class and a vector of length at most one to the counts of its neighbours' classes."""
_ROUNDS = 3
_LARGEST_RATE = 0.5
"""Nodes that are central hear no central node: with a larger rate hardly anybody is visible_arcs."""


@dataclass(frozen=True)
class HeterPoisson(SubgraphMethod):
    """Training ids are central with probability q; each in-neighbour j stays with min(p_max, multiplier / degree_j).

    `network` gcn, gin, sage: the paper's. Noisy sums of clipped per-subgraph gradients, each followed by Adam, with
    q = batch / nodes (at most 1/2) and ceil(epochs / q) of them. `network` pairs: softmax regression on a node's own
    features (`dpsgd`, nearly all of the budget) and ONE noisy count of the labels at both ends of sampled arcs;
    beliefs are propagated among the nodes outside training. `noise_law` sml is the paper's noise, whose proof is false.
    `row_length`: networks read features scaled by record and then stretched to this length, since Adam's step is fixed.
    `test_neighbours`: how many neighbours a network hears in prediction, 0 for all.
    """

    units = frozenset({Unit.NODE})

    network: str = _PAIRS
    hidden: int = 128
    activation: str = "elu"
    batch: int = 4096
    clip: float = 0.5
    learning_rate: float = 0.01
    multiplier: float = 1.0
    p_max: float = 1.0
    epochs: float = 9.0
    row_length: float = 12.0
    noise_law: str = "gaussian"
    exact_term: bool = False
    overlap: bool = False
    test_neighbours: int = 13
    own_rate: float = 64.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "test_neighbours")
        for name in ("multiplier", "epochs", "row_length", "own_rate"):
            require_positive(getattr(self, name), name)
        if self.test_neighbours < 0 or not 0 < self.p_max <= 1:
            raise InvalidInput("heterpoisson needs test_neighbours of at least 0 and p_max in (0, 1]")
        if self.noise_law not in ("gaussian", "sml"):
            raise InvalidInput(f"noise_law is gaussian or sml, got {self.noise_law!r}")
        if self.network == _PAIRS and (self.noise_law, self.overlap) != ("gaussian", False):
            raise InvalidInput("network=pairs goes with noise_law=gaussian and overlap=False")
        if self.exact_term and self.noise_law != "sml":
            raise InvalidInput("exact_term is about the published accounting of noise_law=sml")

    def require_network(self) -> None:
        if self.network != _PAIRS:
            super().require_network()

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        if self.network == _PAIRS:
            own = self._own().plan(public, adjacency, reading, noise).steps
            counting = max(_PAIR_NOISE * noise, _LEAST_PAIR_NOISE) if noise else 0.0
            act = self._act(public, Gaussian(2 * counting, _PAIR_CLIP), _PAIR_RATE)
            pairs = Step("pairs", act, act.curve(2), 1, why=_WHY, assumes=(public.degrees_assumed(),))
            return Plan(adjacency, reading, (*own, pairs))
        self.require_smooth()
        rate = self.rate(public)
        law = Sml if self.noise_law == "sml" else Gaussian
        act = self._act(public, law(2 * noise, self.clip), rate)
        claim, refuted = act.curve(2), ""
        if reading is Reading.PUBLISHED and self.noise_law == "sml":
            claim = TheoremTwo(noise, rate, self.multiplier, act.population, self.exact_term, self.overlap)
            refuted = f"Lemma 1 holds in one dimension only: the length of SML noise reveals its scale [{_WHY}]"
        times = math.ceil(self.epochs / rate - 1e-9)
        step = Step("gradient", act, claim, times, why=_WHY, assumes=(public.degrees_assumed(),), refuted=refuted)
        return Plan(adjacency, reading, (step,))

    def rate(self, public: Public) -> float:
        """q: the chance that a training id is central in a step."""
        return min(self.batch / public.num_nodes, _LARGEST_RATE)

    def _act(self, public: Public, inner: Gaussian | Sml, rate: float) -> mechanism.HeterPoisson:
        population = max(int(public.train.sum()), 1)
        multiplier, cap = float(self.multiplier), float(self.p_max)
        return mechanism.HeterPoisson(inner, rate, multiplier, cap, population, self.overlap, self.layers > 1)

    def _own(self) -> DpSgd:
        return DpSgd(learning_rate=self.own_rate, scale=self.scale)

    def fit(self, session: Session) -> State:
        return self._fit_pairs(session) if self.network == _PAIRS else self._fit_network(session)

    def _fit_pairs(self, session: Session) -> State:
        own = self._own().fit(session)
        counts = session.release("pairs", partial(_pairs, classes=session.public.num_classes))
        act = cast(mechanism.HeterPoisson, session.plan.step("pairs").act)
        table = counts.reshape(session.public.num_classes, -1)
        pairs = table[:, 1:]
        if session.public.undirected:
            # An undirected edge has no direction: both orders are averaged.
            pairs = (pairs + pairs.T) / 2
        noise = torch.tensor(act.inner.std * act.inner.clip)
        return {**own, "pairs.classes": table[:, 0].clone(), "pairs.counts": pairs.clone(), "pairs.noise": noise}

    def _fit_network(self, session: Session) -> State:
        def query_of(turn: int, weights: list[Tensor]) -> Query:  # noqa: ARG001  # every step draws anew
            return partial(self.gradients, weights=weights)

        return self.descend(session, self.rate(session.public) * int(session.public.train.sum()), query_of)

    def scaled(self, x: Tensor) -> Tensor:
        return super().scaled(x) * self.row_length

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        if self.network == _PAIRS:
            return self._beliefs(state, x, visible_arcs)
        return super().logits(state, x, _thinned(visible_arcs, self.test_neighbours))

    def _beliefs(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        own = self._own().logits({"weights.0": state["weights.0"]}, x, visible_arcs).log_softmax(dim=1).double()
        # What lies below the noise, or below one pair, is raised to it.
        least = max(float(state["pairs.noise"]), 1.0)
        joint, shares = (np.maximum(state[f"pairs.{part}"].double().numpy(), least) for part in ("counts", "classes"))
        beliefs = propagate(own.numpy(), visible_arcs, joint / joint.sum(), shares / shares.sum(), _ROUNDS)
        return torch.from_numpy(beliefs).float()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(network="sage", hidden=4, batch=3, epochs=1.0)
        return small, cls(network="gin", layers=2, hidden=3, batch=3, epochs=1.0, noise_law="sml"), cls()


@dataclass(frozen=True, eq=False)
class _PairCounts:
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


def _pairs(sealed: Sealed, batch: Subgraphs, classes: int) -> _PairCounts:
    """One for the centre, and the label counts of its neighbours, shortened to length one."""
    labels = sealed.y[torch.from_numpy(batch.nodes)]
    subgraph = torch.from_numpy(np.repeat(np.arange(batch.count), np.diff(batch.ptr)))
    labelled = labels >= 0
    labelled[torch.from_numpy(batch.ptr[:-1])] = False
    counts = torch.zeros(batch.count, classes, dtype=torch.float64)
    counts.index_put_((subgraph[labelled], labels[labelled]), torch.ones((), dtype=torch.float64), accumulate=True)
    counts /= torch.linalg.vector_norm(counts, dim=1, keepdim=True).clamp(min=1)
    rows = torch.cat([torch.ones(batch.count, 1, dtype=torch.float64), counts], dim=1)
    return _PairCounts(sealed.y[torch.from_numpy(batch.centres)], rows)


def _thinned(visible_arcs: Csr, most: int) -> Csr:
    """At most `most` random in-neighbours of every node (0: all), the same ones every time (section 4.4)."""
    degrees = np.diff(visible_arcs.indptr)
    if most == 0 or not (degrees > most).any():
        return visible_arcs
    keys = np.random.default_rng(0).random(visible_arcs.num_arcs)
    order = np.lexsort((keys, visible_arcs.targets()))
    rank = np.empty(visible_arcs.num_arcs, np.int64)
    rank[order] = np.arange(visible_arcs.num_arcs) - np.repeat(visible_arcs.indptr[:-1], degrees)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(degrees, most))])
    return Csr(indptr, visible_arcs.indices[rank < most])
