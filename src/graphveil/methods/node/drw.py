"""Disjoint random walks: DRW, DRW-R and DRW-D (Ayle et al., TSRML 2022), feature level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Self

import numpy as np
from torch import Tensor

from graphveil.checks import require_whole
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.fixed_size import FixedSize, FixedSizeCurve
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.methods.node.parts.subgraph_method import SubgraphMethod, Weights, arcs_between
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.sampling.walks import least_subgraphs, partition
from graphveil.privacy.session import Session
from graphveil.runtime.distributed import ALONE, Workers
from graphveil.vocabulary import Adjacency, Contributions, Curve, Plan, Query, Reading, State, Step, Unit


@dataclass(frozen=True)
class Drw(SubgraphMethod):
    """Every node lies in one subgraph: a training node and what random walks from it reach.

    w <- Adam(w, (sum_s clip(g_s) + noise * clip * N(0, I)) / (clip * m)) over m of the M subgraphs with a training
    root; the loss is read at the root (section 4.1, Algorithm 1).
    """

    subtitle = "noisy gradients on disjoint random walks"
    units = frozenset({Unit.FEATURES})

    steps: int = 200
    """Noisy gradient steps, at least 1."""
    transductive: bool = True
    """Whether training reads the features of nodes that do not train, wherever subgraphs hold them."""
    length: int = 1
    """Steps of a walk, at least 1."""
    restarts: int = 1
    """Walks from a root, at least 1; more than one is DRW-R."""
    resample: int = 0
    """Steps after which nodes are dealt out anew, which is DRW-D; 0 never does."""
    walk_seed: int = 0
    """Seed of the walks, public as the arcs they follow, at least 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "steps", "length", "restarts", "resample", "walk_seed")
        if min(self.steps, self.length, self.restarts) < 1 or min(self.resample, self.walk_seed) < 0:
            raise InvalidInput(
                "drw needs steps, length and restarts of at least 1, resample and walk_seed of at least 0"
            )

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        least = least_subgraphs(int(public.train.sum()), self.length, self.restarts)
        # Where there is no graph, as when a budget is planned from sizes alone, charge the least of any graph.
        population = least if public.adj is None else _fewest(self, public)
        act = FixedSize(Gaussian(std=noise, clip=self.clip), min(self.batch, population), population)
        # One subgraph's clipped gradient leaves and another one enters.
        claim: Curve = act.curve(2.0)
        if reading is Reading.PUBLISHED:
            claim = RenyiCurve(FixedSizeCurve(act.inner.curve(2.0), min(act.size / least, 1.0)))
        step = Step("gradient", act, claim, self.steps, why="docs/methods/drw.md", assumes=self.admit(public))
        return Plan(adjacency, reading, (step,))

    def fit(self, session: Session) -> State:
        public = session.public
        block = self.subgraphs(public, 0)

        def query_of(turn: int, weights: Weights) -> Query:
            nonlocal block
            if self.resample and turn and turn % self.resample == 0:
                block = self.subgraphs(public, turn // self.resample)
            return partial(self._query, block=block, weights=weights, workers=session.run.workers)

        return self.descend(session, min(self.batch, _fewest(self, public)), query_of)

    def _query(
        self, sealed: Sealed, batch: Tensor, block: Subgraphs, weights: Weights, workers: Workers = ALONE
    ) -> Contributions:
        return self.gradients(sealed, block.take(batch.cpu().numpy()), weights, workers)

    def subgraphs(self, public: Public, number: int) -> Subgraphs:
        """The subgraphs of partition `number` that have a training root."""
        train = public.train.cpu().numpy()
        arcs = public.arcs() if self.transductive else arcs_between(public.arcs(), train, train)
        block = partition(arcs, self.length, self.restarts, seed=self.walk_seed + number, roots=train)
        # Training nodes become roots first, so theirs are the first subgraphs.
        return block.take(np.arange(int(train[block.centres].sum())))

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=3, steps=3, batch=2)
        restarting = replace(small, network="sage", layers=2, length=2, restarts=2, transductive=False)
        return small, restarting, replace(small, network="gin", resample=2)


@lru_cache(maxsize=1)
def _fewest(method: Drw, public: Public) -> int:
    """The smallest M of all partitions that the method will use; calibration asks for it many times.

    Every step draws from the first that many subgraphs of its partition, so that one act and one claim serve them all.
    """
    partitions = 1 + (method.steps - 1) // method.resample if method.resample else 1
    return min(method.subgraphs(public, number).count for number in range(partitions))
