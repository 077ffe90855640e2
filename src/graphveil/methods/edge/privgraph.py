"""PrivGraph (Yuan, Zhang, Du, Chen, Cheng & Sun, USENIX Security 2023): a graph drawn from communities, edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Self

import numpy as np
import torch

from graphveil.checks import parse, require_whole
from graphveil.data.arcs import Csr, Ids
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.community_assignment import Settling, Unsettled
from graphveil.mechanisms.geometric_count import Marks, Tally, ends
from graphveil.methods.edge.parts.released_graph import ReleasedGraph, graph_of
from graphveil.nn.cross_fit import Folds, cross_fitted
from graphveil.nn.features import Scaling
from graphveil.nn.louvain import louvain
from graphveil.nn.mlp import restore
from graphveil.nn.own_network import OwnNetwork
from graphveil.nn.sampling.community_graph import CommunityGraph, norm_sub
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Floats, Plan, Reading, State, Step

_WHY = "docs/methods/privgraph.md"

_LARGEST = 1e12
"""Noisy counts are read as at most this, so that double precision holds their sums."""

_SUPER_NODES = 2048
"""Super-nodes at most: their weights are a dense matrix."""


class Communities(StrEnum):
    """Where communities start."""

    PUBLIC = "public"
    LOUVAIN = "louvain"


@dataclass(frozen=True, eq=False)
class FirstCommunities:
    """Communities before nodes move: home: int64 [n], in 0..k-1; lean: log weights of every node's choices [n, k]."""

    home: Ids
    lean: Floats


@dataclass(frozen=True)
class PrivGraph(ReleasedGraph):
    """Nodes settle in communities; noisy degrees inside and edge counts between them give a graph, which is trained on.

    The whole budget is 1 / noise: shares of it let nodes move and, with LOUVAIN, pay for the graph of super-nodes; the
    rest is for degrees and counts.
    """

    subtitle = "synthetic graph drawn from noisy communities"
    on_gpu = False

    network: str | OwnNetwork = "sage"
    communities: Annotated[str, Communities] = "public"
    """Where communities start. public: what perceptrons make of the features; louvain: a noisy graph of super-nodes."""
    move_share: float = 0.5
    """Of the budget, what nodes may move for, strictly between 0 and 1."""
    start_share: float = 1 / 3
    """Of the budget, what communities=louvain pays for the graph of super-nodes, strictly between 0 and 1."""
    lean: float = 4.0
    """Weight of public log posteriors when nodes move from communities=public, at least 0."""
    group: int = 20
    """Nodes of a super-node of communities=louvain, at least 1."""
    most: int = 2_000_000
    """Edges that are expected at most, at least 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse(Communities, self.communities, "communities")
        require_whole(self, "group", "most")
        if min(self.group, self.most) < 1:
            raise InvalidInput(f"privgraph needs group and most of at least 1, got {self.group} and {self.most}")
        if not (0 < self.move_share < 1 and 0 < self.start_share < 1):
            raise InvalidInput("move_share and start_share must lie strictly between 0 and 1")
        if not self._start() + self.move_share < 1:
            raise InvalidInput(f"move_share + start_share must leave a rest, got {self.move_share + self.start_share}")
        if not 0 <= self.lean < math.inf:
            raise InvalidInput(f"lean must be a finite number of at least 0, got {self.lean}")
        if self.communities == Communities.LOUVAIN:
            self.require_default("lean", unless="communities=public")
        else:
            self.require_default("start_share", "group", unless="communities=louvain")

    def _start(self) -> float:
        return self.start_share if self.communities == Communities.LOUVAIN else 0.0

    # --- What is asked. ---

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        self.admit(public)
        hear = 2 if adjacency.undirected else 1
        move = Settling(hear * noise / self.move_share)
        extract = Tally(2 * noise / (1 - self._start() - self.move_share), marks=2)
        steps = [Step("move", move, move.curve(hear), 1, why=_WHY), Step("extract", extract, extract.curve(1), 1, _WHY)]
        if self._start():
            start = Tally(noise / self.start_share)
            steps.insert(0, Step("start", start, start.curve(1), 1, why=_WHY))
        return Plan(adjacency, reading, tuple(steps))

    # --- What runs. ---

    def arcs(self, session: Session) -> Csr:
        """The arcs of a graph drawn from what was released."""
        if self.communities == Communities.LOUVAIN:
            return self._drawn(session, self._found(session))
        public = session.public
        return self._drawn(
            session, self._told(public, self._folds(session), Scaling.fit(public.features(), self.scale))
        )

    def fit(self, session: Session) -> State:
        state = super().fit(session)
        folds = self._folds(session).state() if self.communities == Communities.PUBLIC else {}
        return {**state, **folds}

    def serve(self, session: Session, state: State) -> State:
        if self.communities == Communities.LOUVAIN:
            return super().serve(session, state)
        # On another graph communities come from the networks of the first: its own labels may be what is asked for.
        public, scaling = session.public, Scaling.restore(state, self.scale)
        arcs = self._drawn(session, self._told(public, Folds.restore(state, public), scaling))
        stack = restore(self.network_of(public.num_features, public.num_classes), state, "net.")
        with torch.no_grad():
            return {**state, "logits": self.forward(stack, scaling(public.features()), arcs)()}

    def _folds(self, session: Session) -> Folds:
        """Perceptrons on public features and labels, made once for all runs on this graph."""
        x = session.public.features()
        return cross_fitted(Scaling.fit(x, self.scale)(x), session.public, self.scale, run=session.run)

    def _told(self, public: Public, folds: Folds, scaling: Scaling) -> FirstCommunities:
        """One community per class, in which the perceptrons that never saw a node's label put it."""
        own = folds.log_beliefs(scaling(public.features())).double()
        return FirstCommunities(own.argmax(dim=1).numpy(), (self.lean * own).numpy())

    def _found(self, session: Session) -> FirstCommunities:
        """Louvain's communities of a noisy graph of random super-nodes."""
        nodes = session.public.num_nodes
        count = min(-(-nodes // self.group), _SUPER_NODES)
        # The groups are drawn before anything is read: they know nothing of the edges.
        groups = torch.randperm(nodes).numpy() % count
        upper, lower = np.tril_indices(count)
        noisy = released(session, "start", partial(super_edges, groups=groups, count=count))
        weights = np.zeros((count, count))
        weights[upper, lower] = norm_sub(noisy)
        home = louvain(weights + weights.T)[groups]
        return FirstCommunities(home, np.zeros((nodes, int(home.max()) + 1)))

    def _drawn(self, session: Session, start: FirstCommunities) -> Csr:
        """Nodes move, the communities are measured, and a graph like them is drawn."""
        nodes, undirected = session.public.num_nodes, session.plan.adjacency.undirected
        order = torch.randperm(nodes).numpy()
        home = session.release("move", partial(unsettled, start=start, order=order)).numpy()
        # Empty communities would only add cells with nothing but noise in them.
        home = np.unique(home, return_inverse=True)[1]
        noisy = released(session, "extract", partial(measured, home=home))
        # An edge between communities marks its cell twice.
        drawn = CommunityGraph.fitted(home, noisy[:nodes], noisy[nodes:] / 2, self.most)
        rng = np.random.default_rng(int(torch.randint(2**62, ())))
        pairs = drawn.draw(rng)
        if not undirected:
            # Directions are not modelled: every arc points either way.
            pairs = np.where(rng.random(pairs.shape[1]) < 0.5, pairs, pairs[::-1])
        return graph_of(torch.from_numpy(pairs), nodes, undirected)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, epochs=2)
        return small, replace(small, network="gin", communities="louvain", move_share=0.4, group=2, most=50)


def released(session: Session, step: str, query: partial[Marks]) -> Floats:
    """Noisy counts as numbers that can be summed, float64 [size]."""
    return np.asarray(session.release(step, query).double().clamp(-_LARGEST, _LARGEST).numpy())


# --- Queries. ---


def super_edges(sealed: Sealed, groups: Ids, count: int) -> Marks:
    """Query: every edge marks the pair of groups that it joins, which may be one group twice; pairs a >= b."""
    first, second = (groups[side] for side in ends(sealed.adj, sealed.public.undirected))
    upper, lower = np.maximum(first, second), np.minimum(first, second)
    return Marks((upper * (upper + 1) // 2 + lower)[:, None], count * (count + 1) // 2)


def unsettled(sealed: Sealed, start: FirstCommunities, order: Ids) -> Unsettled:
    """Query: where the nodes want to live, in turn; all but the arcs is public or was released before."""
    return Unsettled(sealed.adj, start.home, start.lean, order)


def measured(sealed: Sealed, home: Ids) -> Marks:
    """Query: an edge inside a community marks both its ends, one between communities marks their pair twice.

    Cells: the n nodes, then the pairs a > b of communities, at n + a (a - 1) / 2 + b.
    """
    pairs = np.stack(ends(sealed.adj, sealed.public.undirected))
    upper, lower = home[pairs].max(axis=0), home[pairs].min(axis=0)
    nodes, count = len(home), int(home.max()) + 1
    between = nodes + upper * (upper - 1) // 2 + lower
    return Marks(np.where(upper == lower, pairs, between).T, nodes + count * (count - 1) // 2)
