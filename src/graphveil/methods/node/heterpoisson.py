"""HeterPoisson (Xiang, Wang & Wang, S&P 2024): subgraphs drawn by degree-aware Poisson sampling, at node level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self

import numpy as np
from torch import Tensor

from graphveil.checks import require_positive, require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.mechanisms.sml import Sml
from graphveil.mechanisms.theorem_two import TheoremTwo
from graphveil.methods.node.parts.subgraph_method import SubgraphMethod, Weights
from graphveil.nn.sampling.heterpoisson import sample
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy.session import Session
from graphveil.runtime.memory import MemoryEstimate
from graphveil.vocabulary import Adjacency, Plan, Query, Reading, State, Step, Unit

_WHY = "docs/methods/heterpoisson.md"
_LARGEST_RATE = 0.5
"""Nodes that are central hear no central node: with a larger rate hardly anybody is heard."""


@dataclass(frozen=True)
class HeterPoisson(SubgraphMethod):
    """Training ids are central with probability q; each in-neighbour j stays with min(p_max, multiplier / degree_j).

    Noisy sums of clipped per-subgraph gradients, each followed by Adam, with q = batch / nodes (at most 1/2) and
    ceil(epochs / q) of them. `noise_law` sml is the paper's noise, whose proof is false.
    """

    subtitle = "noisy gradients on subgraphs sampled by degree"
    units = frozenset({Unit.NODE})

    hidden: int = 128
    activation: str = "elu"
    batch: int = 4096
    clip: float = 0.5
    learning_rate: float = 0.01
    multiplier: float = 1.0
    """M: an in-neighbour of degree D stays with probability M / D."""
    p_max: float = 1.0
    """The largest probability with which an in-neighbour stays, in (0, 1]."""
    epochs: float = 9.0
    """How often a training id is central on average: there are ceil(epochs / q) steps."""
    row_length: float = 12.0
    """What rows are stretched to after scaling, since Adam's step is fixed."""
    noise_law: Annotated[str, ("gaussian", "sml")] = "gaussian"
    """The law of the noise; sml is the paper's, whose published proof is false."""
    exact_term: bool = False
    """Published accounting of sml: the term that the authors drop is kept."""
    overlap: bool = False
    """Whether a central node stays in the subgraphs of others."""
    test_neighbours: int = 13
    """How many in-neighbours of a node are read in prediction; 0 for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "test_neighbours")
        for name in ("multiplier", "epochs", "row_length"):
            require_positive(getattr(self, name), name)
        if self.test_neighbours < 0 or not 0 < self.p_max <= 1:
            raise InvalidInput("heterpoisson needs test_neighbours of at least 0 and p_max in (0, 1]")
        if self.noise_law not in ("gaussian", "sml"):
            raise InvalidInput(f"noise_law is gaussian or sml, got {self.noise_law!r}")
        if self.exact_term and self.noise_law != "sml":
            raise InvalidInput("exact_term is about the published accounting of noise_law=sml")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        self.require_smooth()
        assumes = (public.degrees_assumed(), *self.admit(public))
        rate = self.rate(public)
        law = Sml if self.noise_law == "sml" else Gaussian
        act = self._act(public, law(2 * noise, self.clip), rate)
        claim, refuted = act.curve(2), ""
        if reading is Reading.PUBLISHED and self.noise_law == "sml":
            claim = TheoremTwo(noise, rate, self.multiplier, act.population, self.exact_term, self.overlap)
            refuted = f"Lemma 1 holds in one dimension only: the length of SML noise reveals its scale [{_WHY}]"
        times = math.ceil(self.epochs / rate - 1e-9)
        step = Step("gradient", act, claim, times, why=_WHY, assumes=assumes, refuted=refuted)
        return Plan(adjacency, reading, (step,))

    def rate(self, public: Public) -> float:
        """q: the chance that a training id is central in a step."""
        return min(self.batch / public.num_nodes, _LARGEST_RATE)

    def _act(self, public: Public, inner: Gaussian | Sml, rate: float) -> HeterPoissonSampling:
        population = max(int(public.train.sum()), 1)
        multiplier, cap = float(self.multiplier), float(self.p_max)
        return HeterPoissonSampling(inner, rate, multiplier, cap, population, self.overlap, self.layers > 1)

    def room(self, public: Public, block: int | None = None) -> MemoryEstimate:  # noqa: ARG002  # a batch
        """The subgraphs of a step, in which M neighbours of a node stay, or all: features, as they are and scaled."""
        degree = math.inf if public.degrees is None else float(public.degrees.mean())
        around = sum(min(float(self.multiplier), degree) ** hop for hop in range(self.layers + 1))
        rows = math.ceil(self.rate(public) * int(public.train.sum()) * around)
        a_row = 4 * (3 * public.num_features + 4 * self.layers * self.hidden)
        return MemoryEstimate(0, rows, a_row, "batch") if rows else MemoryEstimate()

    def fit(self, session: Session) -> State:
        def query_of(turn: int, weights: Weights) -> Query:  # noqa: ARG001  # every step draws anew
            return partial(self.gradients, weights=weights, workers=session.run.workers)

        return self.descend(session, self.rate(session.public) * int(session.public.train.sum()), query_of)

    def scaled(self, x: Tensor) -> Tensor:
        return super().scaled(x) * self.row_length

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        return super().logits(state, x, _thinned(visible_arcs, self.test_neighbours))

    def around(self, visible_arcs: Csr) -> Subgraphs:
        """As a step draws them, with all in-neighbours that are left."""
        everybody = np.arange(visible_arcs.num_nodes)
        keep, draws = np.ones(len(everybody)), np.zeros(visible_arcs.num_arcs)
        return sample(visible_arcs, everybody, keep, draws, drop_centres=False, induced=self.layers > 1)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(network="sage", hidden=4, batch=3, epochs=1.0)
        return small, cls(network="gin", layers=2, hidden=3, batch=3, epochs=1.0, noise_law="sml")


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
