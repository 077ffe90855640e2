"""Small graphs, their neighbours under every adjacency, and a session that watches how far queries move."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphveil.arcs import Csr, Ids
from graphveil.attack import AllTold
from graphveil.core import Adjacency, Floats, Query, Step, Unit
from graphveil.graph import Graph, Public, Sealed
from graphveil.mechanisms.answering import Answering
from graphveil.mechanisms.contractive import Contractive, convergence
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.fixed_size import FixedSize, FixedSizeCurve
from graphveil.mechanisms.flipped_edges import FlippedEdges, codes, row_starts
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.heterpoisson import HeterPoisson
from graphveil.mechanisms.laplace import Laplace, LaplaceCurve
from graphveil.mechanisms.noisy_votes import NoisyVotes
from graphveil.mechanisms.poisson import Poisson, PoissonCurve, SampledOnce
from graphveil.mechanisms.renyi import MomentsCurve, RenyiCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.settling import Settling, Unsettled
from graphveil.mechanisms.tally import Tally
from graphveil.mechanisms.top_pairs import TopPairs
from graphveil.noise import Seeded
from graphveil.sampling.subgraphs import Subgraphs
from graphveil.session import Session


@dataclass(frozen=True)
class Sketch:
    """A small graph in a form that is easy to change: dense adjacency bool [n, n], x [n, d], y [n]."""

    links: np.ndarray[Any, Any]
    x: Tensor
    y: Tensor
    undirected: bool

    @classmethod
    def random(cls, rng: np.random.Generator, undirected: bool, nodes: int | None = None) -> Sketch:
        """Random size, density, features and labels; every class of three is present."""
        n = int(rng.integers(4, 10)) if nodes is None else nodes
        links = rng.random((n, n)) < rng.random()
        links = np.triu(links, 1) if undirected else links & ~np.eye(n, dtype=bool)
        y = torch.from_numpy(rng.permutation(np.arange(n) % 3))
        x = torch.from_numpy(rng.standard_normal((n, 4)).astype(np.float32) * 10 ** rng.uniform(-2, 2))
        return cls(links | links.T if undirected else links, x, y, undirected)

    def toggled(self, u: int, v: int) -> Sketch:
        """With the edge (or arc) between u and v added or removed."""
        links = self.links.copy()
        links[u, v] ^= True
        if self.undirected:
            links[v, u] = links[u, v]
        return Sketch(links, self.x, self.y, self.undirected)

    def blanked(self, v: int) -> Sketch:
        """Without node v: no edges, no label, zero features."""
        links, x, y = self.links.copy(), self.x.clone(), self.y.clone()
        links[v, :] = links[:, v] = False
        x[v], y[v] = 0.0, -1
        return Sketch(links, x, y, self.undirected)

    def replaced(self, v: int, row: Tensor | None, label: int) -> Sketch:
        """With node v's label, and features if given, changed."""
        x, y = self.x.clone(), self.y.clone()
        y[v] = label
        if row is not None:
            x[v] = row
        return Sketch(self.links, x, y, self.undirected)

    def adj(self) -> Csr:
        targets, sources = np.nonzero(self.links)
        return Csr.from_edge_index(sources, targets, len(self.y))

    def graph(self) -> Graph:
        """As a library graph in which two thirds of the nodes train, and of which every id is said to be present."""
        train = torch.arange(len(self.y)) % 3 != 2
        none = torch.zeros_like(train)
        made = Graph(self.x, self.adj(), self.y, 3, self.undirected, train, none, ~train, "sketch", "thirds")
        return made.with_every_id_present()

    def beside_public(self) -> Graph:
        """The library graph with a public one beside it, which is the same for every sketch and so for neighbours."""
        return self.graph().with_public(public_graph(self.undirected))

    def sealed(self, public: Public) -> Sealed:
        """The same kind of seal as `public`, around this sketch; blanked nodes are allowed."""
        return Sealed(self.x, self.y, self.adj(), public)


@lru_cache
def public_graph(undirected: bool) -> Graph:
    """15 nodes, of which 5 are for testing."""
    return replace(Sketch.random(np.random.default_rng(2), undirected, nodes=15).graph(), name="public sketch")


def neighbour(sketch: Sketch, unit: Unit, rng: np.random.Generator) -> Sketch:
    """A random neighbour under the unit's usual relation."""
    n = len(sketch.y)
    u, v = rng.choice(n, size=2, replace=False)
    if unit is Unit.EDGE:
        return sketch.toggled(int(u), int(v))
    if unit is Unit.NODE:
        return sketch.blanked(int(u))
    row = torch.from_numpy(rng.standard_normal(sketch.x.shape[1]).astype(np.float32) * 10 ** rng.uniform(-2, 2))
    return sketch.replaced(int(u), row if unit is Unit.FEATURES else None, int(rng.integers(3)))


class Silent(Seeded):
    """Seeded coins but no noise: shows the bounded query itself. Lives in the tests alone."""

    def normal(self, count: int) -> Floats:
        return np.zeros(count)

    def laplace(self, count: int) -> Floats:
        return np.zeros(count)


@dataclass
class Probe(Session):
    """A session on one graph that asks every query of a neighbour too, with the same coins and no noise.

    With `stop` it ends the run after the last planned use: nothing private can move any more.
    """

    session: Session
    here: Sealed
    there: Sealed
    stop: bool = False
    worst: float = 0.0
    releases: int = 0

    def __post_init__(self) -> None:
        self.public, self.plan = self.session.public, self.session.plan

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        self.releases += uses or 1
        self.worst = max(self.worst, self._moved(self.plan.step(name), query, uses))
        answer = self.session.release(name, query, uses)
        if self.stop and not any(self.left(step.name) for step in self.plan.steps):
            raise AllTold
        return answer

    def left(self, name: str) -> int:
        return self.session.left(name)

    def _moved(self, step: Step, query: Query, uses: int | None) -> float:
        """How far this use moves, as a share of what its claim allows."""
        if uses is not None:
            return rows_move(step, query, self.here, self.there, uses, self.releases)
        if isinstance(step.act, HeterPoisson):
            assert step.claim == step.act.curve(2), "the claim is not that of the coins below"
            return subgraph_move(step.act, query, self.here, self.there, self.releases)
        if isinstance(step.act, FlippedEdges | TopPairs):
            return answers_move(step, step.act, query, self.here, self.there)
        if isinstance(step.act, Settling):
            return settling_move(step, step.act, query, self.here, self.there)
        pair = []
        for sealed in (self.here, self.there):
            with sealed.opened():
                pair.append(step.act.apply(sealed, query, Silent(self.releases)).double())
        order, claimed = claimed_move(step)
        return float(torch.linalg.vector_norm((pair[0] - pair[1]).flatten(), ord=order)) / claimed


def coupled_batch(act: HeterPoisson, sealed: Sealed, coins: int) -> Subgraphs:
    """Centres, and one draw for every pair (centre, neighbour) whatever arcs there are: the same for neighbours."""
    train = sealed.public.train.nonzero().flatten().numpy()
    rng = np.random.default_rng(coins)
    centres: Ids = train[rng.random(len(train)) < act.rate]
    pairs = rng.random((sealed.public.num_nodes, sealed.public.num_nodes))
    rows = [pairs[i, sealed.adj.indices[sealed.adj.indptr[i] : sealed.adj.indptr[i + 1]]] for i in centres]
    return act.batch(sealed, centres, np.concatenate([*rows, np.empty(0)]))


def subgraph_move(
    act: HeterPoisson, query: Query, here: Sealed, there: Sealed, coins: int, overlap: bool | None = None
) -> float:
    """How far the blanked node moves the clipped sum, as a share of what U1 and U2 say for these coins.

    A central node: one clip. Kept by k centres: two clips each. `overlap` (that of the act unless given) allows both
    at once. Infinite where nothing may move and something does.
    """
    sums, batches, labels = [], [], []
    for sealed in (here, there):
        with sealed.opened():
            batches.append(coupled_batch(act, sealed, coins))
            sums.append(query(sealed, batch=batches[-1]).clipped_sum(act.inner.clip).double())
            labels.append(sealed.y)
    # The node whose label is gone; none where both graphs are the same, and then nothing may move.
    (node,) = ((labels[0] >= 0) & (labels[1] < 0)).nonzero().flatten().tolist() or (-1,)
    central = int((batches[0].centres == node).any())
    kept = int((batches[0].nodes == node).sum()) - central
    both = act.overlap if overlap is None else overlap
    allowed = 2 * kept + central if both or not central else 1
    moved = float((sums[0] - sums[1]).norm()) / act.inner.clip
    if allowed == 0:
        return 0.0 if moved <= 1e-9 else math.inf
    return moved / allowed


def answers_move(step: Step, act: FlippedEdges | TopPairs, query: Query, here: Sealed, there: Sealed) -> float:
    """How many pairs answer otherwise, as a share of those charged; infinite if more than their answers differs."""
    asked = []
    for sealed in (here, there):
        with sealed.opened():
            asked.append(query(sealed))
    first, second = ({**vars(each), "adj": None} for each in asked)
    if first != second:
        return math.inf
    starts = row_starts(asked[0].adj.num_nodes, act.undirected)
    changed = np.setxor1d(*(codes(each.adj, starts, act.undirected) for each in asked))
    return len(changed) / next(moved for moved in (1, 2) if step.claim == act.curve(moved))


def rows_move(step: Step, query: Query, here: Sealed, there: Sealed, uses: int, coins: int) -> float:
    """How many rows move that may not, or how many voters turn, as a share of those charged; infinite if too many.

    A neighbour may move the row of a use in any way if its node was sampled for that use, and not at all otherwise: to
    the last bit, for the rows are what the simplex is charged for.
    """
    act, source = step.act, Seeded(coins)
    inner = act.inner if isinstance(act, Poisson) else act
    assert isinstance(inner, Answering), "say here what many uses of this mechanism may show"
    assert isinstance(step.claim, MomentsCurve) or step.claim == act.curve(1)
    given: dict[str, Any] = {}
    if isinstance(act, Poisson):
        batches = [source.coins(act.population, act.rate).nonzero().flatten() for _ in range(uses)]
        given = {"batch": batches[0]} if isinstance(act, SampledOnce) else {"batches": batches}
    pair = []
    for sealed in (here, there):
        with sealed.opened():
            pair.append(query(sealed, **given))
    assert pair[0].shape == pair[1].shape
    assert len(pair[0]) == uses
    changed = pair[0] != pair[1]
    if isinstance(inner, NoisyVotes):
        return float(changed.sum(dim=1).max())
    with here.opened(), there.opened():
        ids = here.public.train.nonzero().flatten()
        gone = ((here.y != there.y) | (here.x != there.x).any(dim=1))[ids].nonzero().flatten()
    drawn = given.get("batches", [given.get("batch")] * uses)
    allowed = torch.tensor([bool(torch.isin(gone, batch).any()) for batch in drawn])
    return math.inf if bool((changed.any(dim=1) & ~allowed).any()) else float(changed.any())


def settling_move(step: Step, act: Settling, query: Query, here: Sealed, there: Sealed) -> float:
    """How far the log chances of all moves differ along one way of settling, as a share of what is charged."""
    asked = []
    for sealed in (here, there):
        with sealed.opened():
            asked.append(query(sealed))
    if any(not np.array_equal(vars(asked[0])[part], vars(asked[1])[part]) for part in ("home", "lean", "order")):
        return math.inf
    settled = act.apply(here, lambda _: asked[0], Seeded(1)).numpy()
    first, second = (log_chances(act, each, settled) for each in asked)
    moved = sum(float(np.abs(a - b).max()) for a, b in zip(first, second, strict=True))
    assert isinstance(step.claim, PureCurve)
    return moved / step.claim.epsilon


def log_chances(act: Settling, asked: Unsettled, settled: Ids) -> list[Floats]:
    """Log chances [k] of every node's move, in turn, when all nodes before it have moved as `settled` says."""
    home, chances = asked.home.copy(), []
    for node in asked.order:
        heard = asked.adj.indices[asked.adj.indptr[node] : asked.adj.indptr[node + 1]]
        lean = asked.lean[node]
        exponents = np.bincount(home[heard], minlength=len(lean)) / act.scale + np.maximum(lean, lean.max() - 64)
        exponents = np.maximum(exponents, exponents.max() - 32)
        chances.append(exponents - np.logaddexp.reduce(exponents))
        home[node] = settled[node]
    return chances


def claimed_move(step: Step) -> tuple[int, float]:
    """(norm, length): how far the claim says a neighbour can move the bounded query, given the coins."""
    act, claim = step.act, step.claim
    while isinstance(act, Poisson | FixedSize):
        act = act.inner
    while isinstance(claim, PoissonCurve | FixedSizeCurve | RenyiCurve):
        claim = claim.base
    if isinstance(claim, RevealedMixture):
        claim = claim.curves[-1]
    if isinstance(act, Gaussian) and isinstance(claim, GaussianCurve):
        return 2, claim.mu * act.std * act.clip
    if isinstance(act, Laplace) and isinstance(claim, LaplaceCurve):
        return 1, claim.epsilon * act.scale * act.clip
    if isinstance(act, Tally) and isinstance(claim, PureCurve):
        return 1, claim.epsilon * act.scale
    if isinstance(act, Contractive) and isinstance(claim, GaussianCurve):
        hop = claim.mu * act.std / math.sqrt(convergence(act.lipschitz, act.hops))
        # Every hop moves at most this far, and shrinks what the hops before it moved.
        return 2, hop * (1 - act.lipschitz**act.hops) / (1 - act.lipschitz)
    raise AssertionError(f"say here how far {type(claim).__name__} lets {type(act).__name__} move")


def adjacencies(units: frozenset[Unit]) -> list[Adjacency]:
    """Every adjacency of these units, directed and undirected."""
    return [Adjacency.of(unit, undirected) for unit in sorted(units) for undirected in (True, False)]
