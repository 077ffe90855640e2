"""Small graphs, their neighbours under every adjacency, and a session that watches how far queries move."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphveil.auditing.game import AllTold
from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.mechanisms.categorical import Answering
from graphveil.mechanisms.community_assignment import Settling, Unsettled
from graphveil.mechanisms.contractive import Contractive, convergence
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.fixed_size import FixedSize, FixedSizeCurve
from graphveil.mechanisms.flipped_edges import FlippedEdges, codes, row_starts
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.geometric_count import Tally
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.mechanisms.laplace import Laplace, LaplaceCurve
from graphveil.mechanisms.noisy_votes import NoisyVotes
from graphveil.mechanisms.occurrences import occurrences
from graphveil.mechanisms.one_bit import OneBit
from graphveil.mechanisms.poisson import Poisson, PoissonCurve, SampledOnce
from graphveil.mechanisms.prior_response import PriorResponse
from graphveil.mechanisms.renyi import MomentsCurve, RenyiCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.staged_response import StagedResponse
from graphveil.mechanisms.top_pairs import TopPairs
from graphveil.nn.aggregate import NeighbourSums
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Floats, Query, Step, Unit


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
        """As a library graph: two thirds of the nodes train, one in six validates, and every id is present."""
        masks = roles(len(self.y))
        return Graph(self.x, self.adj(), self.y, 3, self.undirected, *masks, "sketch", "thirds").with_every_id_present()

    def beside_public(self) -> Graph:
        """The library graph with a public one beside it, which is the same for every sketch and so for neighbours."""
        return _dressed(self.x, self.y, self.undirected).with_arcs(self.adj())

    def sealed(self, public: Public) -> Sealed:
        """The same kind of seal as `public`, around this sketch; blanked nodes are allowed."""
        return Sealed(self.x, self.y, self.adj(), public)


@lru_cache
def roles(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Who trains, validates and tests, bool [count] each."""
    place = torch.arange(count) % 6
    return place % 3 != 2, place == 2, place == 5


@lru_cache(maxsize=4)
def _dressed(x: Tensor, y: Tensor, undirected: bool) -> Graph:
    """No arcs yet: graphs made of it share what methods learn from public features and labels, bit for bit."""
    bare = Sketch(np.zeros((len(y), len(y)), dtype=bool), x, y, undirected)
    return bare.graph().with_public(public_graph(undirected))


@lru_cache
def public_graph(undirected: bool) -> Graph:
    """15 nodes, of which 10 may be asked about."""
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


# --- Telling graphs: where bounds are attained, and where a forgotten case shows. ---

_NODES = 8
"""0, 1, 3, 4, 6 and 7 train, 2 validates, 5 tests; 1 is what 0 is, and 3 is its opposite."""


def telling(adjacency: Adjacency) -> list[tuple[str, Sketch, Sketch]]:
    """Neighbours, with what they are: isolated nodes, stars, hubs, pendants, twins. The first ones tell the most."""
    if adjacency.unit is Unit.EDGE:
        return [(name, _shape(name, adjacency), _shape(name, adjacency).toggled(*at)) for name, at in _TOGGLED]
    pairs = []
    for name, v in _CHANGED:
        sketch = _shape(name, adjacency)
        if adjacency.unit is Unit.NODE:
            pairs.append((f"{name} without {v}", sketch, sketch.blanked(v)))
            continue
        label = (int(sketch.y[v]) + 1) % 3
        if adjacency.unit is Unit.LABEL:
            pairs.append((f"{name} with another label of {v}", sketch, sketch.replaced(v, None, label)))
            continue
        # What is the opposite in all but its label turns a gradient round.
        label = label if v % 2 else int(sketch.y[v])
        pairs.append((f"{name} with another {v}", sketch, sketch.replaced(v, -100 * sketch.x[v], label)))
    return pairs


_TOGGLED = [
    ("nobody linked", (0, 1)),
    ("nobody linked", (0, 3)),
    ("nobody linked", (2, 5)),
    *((f"star of 0 with {leaves}", (0, leaves + 1)) for leaves in range(1, _NODES - 1)),
    ("star of 0 with 7", (7, 0)),
    ("star of 0 with 7", (6, 7)),
    ("star of 2 with 7", (2, 7)),
    ("two stars", (0, 3)),
    ("twins", (0, 1)),
    ("everybody linked", (0, 4)),
]
"""Shape, and the edge (or arc from the second to the first) that a neighbour has and it has not, or the reverse."""

_CHANGED = [
    ("star of 0 with 7", 0),
    ("star of 0 with 7", 7),
    ("star of 2 with 7", 2),
    ("nobody linked", 0),
    ("nobody linked", 2),
    ("one link", 0),
    ("star of 0 with 2", 0),
    ("hub and pendant", 7),
    ("hub and pendant", 0),
    ("two stars", 3),
    ("twins", 1),
    ("everybody linked", 4),
]
"""Shape, and the node that a neighbour lacks, or that is another there."""


@lru_cache
def _shape(name: str, adjacency: Adjacency) -> Sketch:
    """One of the shapes; directed, who comes first in a link speaks to the other, and hears those of even numbers."""
    ends = {
        "nobody linked": [],
        "one link": [(0, 1)],
        "hub and pendant": [(0, 1), (0, 4), (0, 7), (7, 6)],
        "two stars": [(0, 3), *((0, v) for v in (1, 2, 4)), *((3, v) for v in (5, 6, 7))],
        "twins": [(twin, v) for twin in (0, 1) for v in range(2, _NODES)],
        "everybody linked": [(u, v) for u in range(_NODES) for v in range(u)],
    }
    if name.startswith("star"):
        hub, leaves = (int(word) for word in name.split()[2::2])
        ends[name] = [(hub, v) for v in range(_NODES) if v != hub][:leaves]
    links = np.zeros((_NODES, _NODES), dtype=bool)
    for u, v in ends[name]:
        links[v, u] = True
        links[u, v] = adjacency.undirected or v % 2 == 0
    x, y = _records()
    return Sketch(links, x, y, adjacency.undirected)


@lru_cache
def _records() -> tuple[Tensor, Tensor]:
    """Features longer than any clip, and labels of three classes."""
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.standard_normal((_NODES, 4)).astype(np.float32) * 10)
    x[1], x[3] = x[0], -x[0]
    return x, torch.tensor([0, 0, 1, 1, 2, 2, 0, 1])


class Silent(Seeded):
    """Seeded coins but no noise: shows the bounded query itself. Lives in the tests alone."""

    def normal(self, count: int) -> Floats:
        return np.zeros(count)

    def laplace(self, count: int) -> Floats:
        return np.zeros(count)


_COINS = 6
"""Draws of subgraphs for one query: who is central, and whom a centre keeps, decides what moves."""


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
        self.public, self.plan, self.run = self.session.public, self.session.plan, self.session.run

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
        if isinstance(step.act, HeterPoissonSampling):
            assert step.claim == step.act.curve(2), "the claim is not that of the coins below"
            coins = range(self.releases, self.releases + 100 * _COINS, 100)
            return max(subgraph_move(step.act, query, self.here, self.there, each) for each in coins)
        if isinstance(step.act, FlippedEdges | TopPairs):
            return answers_move(step, step.act, query, self.here, self.there)
        if isinstance(step.act, StagedResponse):
            return staged_move(step, query, self.here, self.there)
        if isinstance(step.act, OneBit):
            return bits_move(step, query, self.here, self.there)
        if isinstance(step.act, PriorResponse):
            return said_move(step, query, self.here, self.there)
        if isinstance(step.act, Settling):
            return settling_move(step, step.act, query, self.here, self.there)
        if isinstance(step.act, Contractive):
            return hops_move(step, step.act, query, self.here, self.there)
        pair = []
        for sealed in (self.here, self.there):
            with sealed.opened():
                pair.append(step.act.apply(sealed, query, Silent(self.releases)).double())
        order, claimed = claimed_move(step)
        moved = float(torch.linalg.vector_norm((pair[0] - pair[1]).flatten(), ord=order)) / claimed
        if isinstance(step.act, Poisson | FixedSize):
            return max(moved, records_move(step, step.act, query, self.here, self.there))
        return moved


def coupled_batch(act: HeterPoissonSampling, sealed: Sealed, coins: int) -> Subgraphs:
    """Centres, and one draw for every pair (centre, neighbour) whatever arcs there are: the same for neighbours."""
    train = sealed.public.train.nonzero().flatten().numpy()
    rng = np.random.default_rng(coins)
    centres: Ids = train[rng.random(len(train)) < act.rate]
    pairs = rng.random((sealed.public.num_nodes, sealed.public.num_nodes))
    rows = [pairs[i, sealed.adj.indices[sealed.adj.indptr[i] : sealed.adj.indptr[i + 1]]] for i in centres]
    return act.batch(sealed, centres, np.concatenate([*rows, np.empty(0)]))


def subgraph_move(
    act: HeterPoissonSampling, query: Query, here: Sealed, there: Sealed, coins: int, overlap: bool | None = None
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
    changed = np.setxor1d(*(codes(each.adj, starts, act.undirected) for each in asked))  # type: ignore[call-overload]
    return len(changed) / next(moved for moved in (1, 2) if step.claim == act.curve(moved))


def said_move(step: Step, query: Query, here: Sealed, there: Sealed) -> float:
    """How many records would say something else, as a share of those charged; infinite if they choose among others."""
    asked = []
    for sealed in (here, there):
        with sealed.opened():
            asked.append(query(sealed))
    if not torch.equal(asked[0].candidates, asked[1].candidates):
        return math.inf
    assert step.claim == step.act.curve(1)
    return float((asked[0].truths != asked[1].truths).sum())


def staged_move(step: Step, query: Query, here: Sealed, there: Sealed) -> float:
    """The same; infinite too if others are asked first, or what they say leads to other candidates."""
    asked = []
    for sealed in (here, there):
        with sealed.opened():
            asked.append(query(sealed))
    first, second = asked
    if not torch.equal(first.stage, second.stage):
        return math.inf
    for said in (torch.full_like(first.stage, -1), torch.where(first.stage == 0, first.truths.clamp(min=0), -1)):
        if not torch.equal(first.candidates(said), second.candidates(said)):
            return math.inf
    assert step.claim == step.act.curve(1)
    return float((first.truths != second.truths).sum())


def bits_move(step: Step, query: Query, here: Sealed, there: Sealed) -> float:
    """How many records say another bit, as a share of those charged."""
    asked = []
    for sealed in (here, there):
        with sealed.opened():
            asked.append(query(sealed))
    assert step.claim == step.act.curve(1)
    return float((asked[0] != asked[1]).sum())


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


def hops_move(step: Step, act: Contractive, query: Query, here: Sealed, there: Sealed) -> float:
    """How far the last state moves, as a share of what is charged, for the rows that are asked and for worse ones.

    Rows are public, and the claim holds whatever they are: opposite ones at the ends of what changes move the most.
    """
    asked = []
    for sealed in (here, there):
        with sealed.opened():
            asked.append(query(sealed))
    first, second = asked
    if not torch.equal(first.rows, second.rows):
        return math.inf
    links = [each.adj.to_scipy().toarray() for each in asked]
    apart = torch.zeros_like(first.rows)
    for target, source in np.argwhere(links[0] != links[1])[:1]:
        apart[target, 0], apart[source, 0] = 1.0, -1.0
    order, claimed = claimed_move(step)
    found = 0.0
    for rows in (first.rows, apart, first.rows + 3 * apart):
        moved = act.silent(NeighbourSums(first.adj, rows)) - act.silent(NeighbourSums(second.adj, rows))
        found = max(found, float(torch.linalg.vector_norm(moved.flatten(), ord=order)))
    return found / claimed


def records_move(step: Step, act: Poisson | FixedSize, query: Query, here: Sealed, there: Sealed) -> float:
    """How many records that can be sampled move when each is alone in a sample, or how far one does, as a share.

    That is what a claim about samples rests on; a few samples would seldom hold those that move.
    """
    assert isinstance(act.inner, Gaussian)
    most, length = _affected(step, act)
    changed = 0
    furthest = 0.0
    for record in range(act.population):
        sums = []
        for sealed in (here, there):
            with sealed.opened():
                sums.append(query(sealed, batch=torch.tensor([record])).clipped_sum(act.inner.clip).double())
        moved = float((sums[0] - sums[1]).norm()) / act.inner.clip
        changed += moved > 1e-9
        furthest = max(furthest, moved)
    return max(furthest / length, changed / most if changed > most else 0.0)


def _affected(step: Step, act: Poisson | FixedSize) -> tuple[int, float]:
    """How many records a neighbour can move, and how many clips each, as the claim says."""
    claim, inner = step.claim, act.inner
    assert isinstance(inner, Gaussian)
    if isinstance(claim, RenyiCurve):
        claim = claim.base
    if isinstance(claim, PoissonCurve | FixedSizeCurve):
        assert isinstance(claim.base, GaussianCurve)
        return 1, claim.base.mu * inner.std
    assert isinstance(act, FixedSize)
    if isinstance(claim, GaussianCurve):
        # All records can move, and as many as are drawn do.
        return act.population, claim.mu / act.size * inner.std
    assert isinstance(claim, RevealedMixture)
    mus = np.array([curve.gdp() for curve in claim.curves])
    for most in range(1, act.population + 1):
        chances = np.array(occurrences(act.population, most, act.size))
        drawn = np.flatnonzero(chances)
        one = mus[-1] / drawn[-1]
        if np.array_equal(chances[drawn], claim.weights) and np.allclose(mus, drawn * one):
            return most, float(one) * inner.std
    raise AssertionError("no number of records leads to this claim")


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
