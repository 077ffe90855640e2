"""NDP: subgraphs in which a node occurs a bounded number of times (Daigavane et al. 2021), node and feature level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from torch import Tensor

from graphveil.checks import require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.occurrences import occurrence_curve
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.methods.node.parts.subgraph_method import SubgraphMethod, Weights, arcs_between
from graphveil.nn.sampling.bounded import cap_out_arcs, most_occurrences, neighbourhoods, silence_hubs
from graphveil.privacy.session import Session
from graphveil.runtime.distributed import ALONE, Workers
from graphveil.vocabulary import Adjacency, Contributions, Plan, Query, Reading, State, Step, Unit


@dataclass(frozen=True)
class Ndp(SubgraphMethod):
    """A training node with its `layers`-hop in-neighbourhood, where no node sends to more than `cap` training nodes.

    w <- Adam(w, (sum_s clip(g_s) + noise * clip * N(0, I)) / (clip * m)) over m of the n training nodes' subgraphs,
    drawn without replacement. One node can change 1 + cap + ... + cap^layers of the n.
    Under FEATURES arcs are public and each node keeps `cap` of them (FDP of Ayle et al.); under NODE those that have
    more in the public population send nothing. Messages go to training nodes only.
    """

    subtitle = "noisy gradients on subgraphs with bounded occurrences"
    units = frozenset({Unit.NODE, Unit.FEATURES})

    steps: int = 200
    """Noisy gradient steps, at least 1."""
    transductive: bool = True
    """Whether nodes that do not train send messages to those that do."""
    cap: int = 2
    """Training nodes that a node sends to, at most; at least 1."""
    arc_seed: int = 0
    """Seed that chooses which arcs are kept under unit FEATURES, at least 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "steps", "cap", "arc_seed")
        if min(self.steps, self.cap) < 1 or self.arc_seed < 0:
            raise InvalidInput("ndp needs steps and cap of at least 1 and arc_seed of at least 0")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        if adjacency.unit is Unit.NODE:
            self.require_smooth()
            self.require_default("arc_seed", unless="unit=features, where arcs are chosen", error=Unsupported)
        degrees = (public.degrees_assumed(),) if adjacency.unit is Unit.NODE else ()
        population = int(public.train.sum())
        affected = min(most_occurrences(self.cap, self.layers), population)
        noisy = Gaussian(std=noise, clip=self.clip)
        act = FixedSize(noisy, min(self.batch, population), population)
        # In a subgraph that changes one clipped gradient leaves and another one enters.
        claim = occurrence_curve(population, affected, act.size, noisy.curve(2.0).mu)
        step = Step(
            "gradient",
            act,
            RenyiCurve(claim) if reading is Reading.PUBLISHED else claim,
            self.steps,
            why="docs/methods/ndp.md",
            assumes=(*degrees, *self.admit(public)),
        )
        return Plan(adjacency, reading, (step,))

    def fit(self, session: Session) -> State:
        public = session.public
        if public.adj is None:
            public.out_degrees()  # Refuses here what would fail only inside a release.

        def query_of(turn: int, weights: Weights) -> Query:  # noqa: ARG001  # the graph is the same in every step
            return partial(self._query, weights=weights, workers=session.run.workers)

        return self.descend(session, min(self.batch, int(public.train.sum())), query_of)

    def _query(self, sealed: Sealed, batch: Tensor, weights: Weights, workers: Workers = ALONE) -> Contributions:
        arcs = sealed.derived("capped arcs", self._capped)
        centres = sealed.public.train.nonzero().flatten()[batch]
        return self.gradients(sealed, neighbourhoods(arcs, centres.cpu().numpy(), self.layers), weights, workers)

    def _capped(self, sealed: Sealed) -> Csr:
        """Arcs into training nodes, at most `cap` of every node, by a rule that is stable under the unit."""
        public = sealed.public
        train = public.train.cpu().numpy()
        arcs = arcs_between(sealed.adj, train | self.transductive, train)
        if public.adj is not None:
            return cap_out_arcs(arcs, self.cap, self.arc_seed)
        return silence_hubs(arcs, public.out_degrees(), self.cap)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=3, steps=3, batch=2, cap=2)
        return (
            small,
            replace(small, network="sage", layers=2, activation="elu", cap=1),
            replace(small, network="gin", transductive=False),
        )
