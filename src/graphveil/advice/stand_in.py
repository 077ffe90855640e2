"""A graph to try methods on before anything is spent: its public parts, with made-up private parts.

Nothing here reads a private tensor: what is made up follows from sizes, public parts, assumptions and a seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.sparse.csgraph import breadth_first_order
from torch import Tensor

from graphveil.admission import require_declared
from graphveil.checks import is_number, quoted, require_positive
from graphveil.data.arcs import Arcs, Csr, Ids
from graphveil.data.datasets.synthetic import NOISE, TAIL
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.methods.baseline.mlp import Mlp
from graphveil.run import train
from graphveil.vocabulary import UNLABELLED, Adjacency, Floats

MEAN_DEGREE = 10.0
"""Edges of a node by default, where edges are private."""

_ITERATIONS = 200
"""Iterations of the subspace iteration that finds communities."""

_STREAM = 20
"""A random stream of its own: with that of splits, a sample would take the first ids of a split of the same seed."""

_VALIDATES = 0.4
"""Share of the ids outside training that validate, where a split has no test ids: 10 of 25."""


@dataclass(frozen=True)
class Assumed:
    """What is made up of private parts. None of it is measured.

    homophily: adjusted for chance (Platonov et al. 2023): 0, edges do not care about classes; 1, none leaves its class.
    mean_degree: edges of a node, or arcs that leave it in a directed graph. largest_class: its share; the others are
    equal. spread: standard deviation of features around the centre of their class; centres are sqrt(2) apart on
    average. None: the default; a part that is public is not made up, and must have None.
    """

    homophily: float = 0.5
    mean_degree: float | None = None
    largest_class: float | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        if not (is_number(self.homophily) and 0 <= self.homophily <= 1):
            raise InvalidInput(f"homophily must lie in 0..1, got {quoted(self.homophily)}")
        if self.mean_degree is not None:
            require_positive(self.mean_degree, "mean_degree")
        if self.largest_class is not None and not (is_number(self.largest_class) and 0 < self.largest_class < 1):
            raise InvalidInput(f"largest_class is a share, above 0 and below 1; got {quoted(self.largest_class)}")
        if self.spread is not None:
            require_positive(self.spread, "spread")

    def require_needed(self, facts: Public) -> None:
        """Refuse what would change nothing, because the part it is about is public and taken as it is."""
        parts = (
            ("largest_class", "labels", facts.y),
            ("mean_degree", "edges", facts.adj),
            ("spread", "features", facts.x),
        )
        for name, part, known in parts:
            if known is not None and getattr(self, name) is not None:
                raise InvalidInput(f"{part} are public here and taken as they are; leave {name} out")

    @property
    def width(self) -> float:
        """The spread, stated or not."""
        return NOISE if self.spread is None else self.spread

    def degree(self, nodes: int) -> float:
        """Edges a node among so many nodes."""
        if self.mean_degree is None:
            return min(MEAN_DEGREE, nodes / 4)
        if self.mean_degree > (nodes - 1) / 2:
            raise InvalidInput(
                f"a mean degree of {self.mean_degree:g} is too dense for {nodes} nodes; state less, or raise the limit"
            )
        return self.mean_degree

    def shares(self, classes: int) -> Floats:
        """Of every class, the largest first, [c]."""
        most = 1 / classes if self.largest_class is None else self.largest_class
        if most < 1 / classes - 1e-9:
            raise InvalidInput(f"the largest of {classes} classes has a share of at least {1 / classes:.3g}")
        return np.array([most, *[(1 - most) / (classes - 1)] * (classes - 1)])


def public_facts(facts: Graph | Public, adjacency: Adjacency) -> Public:
    """What advice may depend on: the public view, without degrees that were counted and nodes that are open by consent.

    Refused is a graph whose public side was shaped by what is private: its encoding or its split.
    """
    if isinstance(facts, Graph):
        require_declared(facts, adjacency)
        if facts.split_reads_labels and "y" in adjacency.private:
            raise InvalidInput(
                f"the split of {facts.name!r} was drawn by looking at labels, which unit {adjacency.unit.value} "
                "protects: advice comes from public facts alone; take a random split"
            )
        facts, _ = facts.seal(adjacency)
    parts = {"x": facts.x, "y": facts.y, "edges": facts.adj}
    if any(parts[part] is not None for part in adjacency.private):
        raise InvalidInput(f"these public facts were sealed for another unit than {adjacency.unit.value!r}")
    if facts.num_classes < 2:
        raise InvalidInput("there is one class: nothing is left to predict")
    return replace(facts, degrees=None, outside=None, public_graph=None, _cached={})


def stand_in(facts: Public, assumed: Assumed, limit: int, seed: int) -> Graph:
    """A graph of at most `limit` nodes that shows what is public, and whose other parts are drawn as assumed."""
    rng = np.random.default_rng((_STREAM, seed))
    masks = _split(facts, rng)
    inside = np.zeros(facts.num_nodes, dtype=bool)
    inside[_kept(facts, masks.any(0), limit, rng)] = True
    ids, count = torch.from_numpy(np.flatnonzero(inside)), int(inside.sum())
    if not bool(masks[0, ids].any()) or not bool(masks[2, ids].any()):
        raise InvalidInput(
            "somebody with a label must train and somebody else be scored; split the graph (graph.random_split()), or "
            "raise the limit of the stand-in if the split is small"
        )
    if count < facts.num_classes:
        raise InvalidInput(f"a stand-in of {count} nodes cannot hold {facts.num_classes} classes; raise its limit")
    adj = None if facts.adj is None else facts.adj.within(inside)
    shares = assumed.shares(facts.num_classes)
    if facts.y is not None:
        y = facts.y[ids]
    elif adj is not None:
        y = torch.from_numpy(_grown(adj, shares, assumed.homophily, rng))
    else:
        y = torch.from_numpy(rng.permutation(_dealt(count, shares)))
    x = _features(y.numpy(), facts, assumed.width, rng) if facts.x is None else facts.x[ids]
    made = Graph(
        x,
        Csr.empty(count) if adj is None else adj,
        y,
        facts.num_classes,
        facts.undirected,
        masks[0, ids],
        masks[1, ids],
        masks[2, ids],
        name="stand-in",
        split="that of the graph, or dealt out",
        every_id_present=True,
    )
    if adj is not None:
        return made
    return made.with_arcs(_wired(_classes(made, seed), assumed.degree(count), assumed.homophily, facts.undirected, rng))


def adjusted_homophily(adj: Csr, y: Ids) -> float:
    """(h - q) / (1 - q): h the share of arcs inside a class, q that of chance, by degrees; arcs of labelled ends."""
    targets, sources = y[adj.targets()], y[adj.indices]
    known = (targets != UNLABELLED) & (sources != UNLABELLED)
    if not known.any():
        return 0.0
    inside = float((targets == sources)[known].mean())
    chance = float(((np.bincount(targets[known]) / known.sum()) ** 2).sum())
    return (inside - chance) / (1 - chance) if chance < 1 else 0.0


def _kept(facts: Public, dealt: Tensor, limit: int, rng: np.random.Generator) -> Ids:
    """Which ids are in the stand-in, int64 [m]: neighbourhoods where edges are public, else those of the split first.

    dealt: ids that train, validate or test, bool [n].
    """
    order = rng.permutation(facts.num_nodes)
    if facts.num_nodes <= limit:
        return order
    if facts.adj is not None:
        return np.fromiter(_nearby(facts.adj, order), dtype=np.int64, count=limit)
    return order[np.argsort(~dealt.numpy()[order], kind="stable")][:limit]


def _nearby(adj: Csr, order: Ids) -> Iterator[int]:
    """Every id once: breadth first from the first id of `order`, then from the next that was not reached."""
    arcs, seen = adj.to_scipy(), np.zeros(adj.num_nodes, dtype=bool)
    for start in order:
        if not seen[start]:
            reached = breadth_first_order(arcs, start, directed=False, return_predecessors=False)
            seen[reached] = True
            yield from reached.tolist()


def _dealt(count: int, shares: Floats) -> Ids:
    """Classes in order, with these shares, int64 [count]."""
    return np.minimum(np.searchsorted(np.cumsum(shares), (np.arange(count) + 0.5) / count), len(shares) - 1)


def _grown(adj: Csr, shares: Floats, homophily: float, rng: np.random.Generator) -> Ids:
    """Classes of these shares that stick together along public arcs, int64 [n].

    Nodes are put in the order of their communities, by spectral clustering, the largest first; classes are stretches of
    it. Adjusted homophily falls by (1 - f)^2 if the labels of a share f are shuffled: so many are, to meet what is
    assumed.
    """
    count = adj.num_nodes
    rows = _positions(adj, len(shares), rng)
    community = kmeans2(rows, len(shares), minit="++", rng=rng)[1]
    y = np.empty(count, np.int64)
    y[np.lexsort((rows[:, 0], community, -np.bincount(community)[community]))] = _dealt(count, shares)
    found = adjusted_homophily(adj, y)
    if found > homophily:
        moved = rng.permutation(count)[: round(count * (1 - math.sqrt(homophily / found)))]
        y[moved] = y[rng.permutation(moved)]
    return y


def _positions(adj: Csr, width: int, rng: np.random.Generator) -> Floats:
    """Eigenvectors 2 to width + 1 of D^-1/2 A D^-1/2 as rows of length 1, [n, width] or fewer.

    D holds degrees plus half their mean, so that small groups apart do not come first (Qin & Rohe 2013). By subspace
    iteration: scipy's solvers take long where values are repeated, as those of like groups are.
    """
    links = adj.to_scipy().astype(np.float64)
    links = links + links.T
    degrees = np.asarray(links.sum(axis=1)).ravel()
    scale = sp.diags_array(1 / np.sqrt(degrees + max(degrees.mean(), 1.0) / 2))
    walk = sp.csr_array(scale @ links @ scale)
    basis = rng.standard_normal((len(degrees), min(2 * width + 8, len(degrees))))
    for _ in range(_ITERATIONS):
        # Half a step: eigenvalues in [0, 1], so that those near -1 do not come first.
        basis = np.linalg.qr(walk @ basis + basis)[0]
    turned = basis @ np.linalg.eigh(basis.T @ (walk @ basis))[1][:, ::-1][:, 1 : width + 1]
    rows = scale @ turned
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def _features(y: Ids, facts: Public, spread: float, rng: np.random.Generator) -> Tensor:
    """Normal around a centre for every class, float32 [n, d]; centres are sqrt(2) apart in the root mean square."""
    centres = rng.standard_normal((facts.num_classes, facts.num_features))
    centres -= centres.mean(axis=0)
    # The mean squared distance of two of c points around 0 is 2 c / (c - 1) times their mean squared length.
    centres *= math.sqrt((facts.num_classes - 1) / np.square(centres).sum())
    return torch.from_numpy(
        (centres[y] + spread * rng.standard_normal((len(y), facts.num_features))).astype(np.float32)
    )


def _split(facts: Public, rng: np.random.Generator) -> Tensor:
    """Who trains, validates and tests, bool [3, n]; where nobody tests, those outside training are dealt out."""
    masks = torch.stack([facts.train, facts.val, facts.test])
    if bool(masks[2].any()):
        return masks
    known = torch.ones(facts.num_nodes, dtype=torch.bool) if facts.y is None else facts.y != UNLABELLED
    others = torch.from_numpy(rng.permutation(torch.nonzero(~facts.train & known).numpy().ravel()))
    first = round(_VALIDATES * len(others))
    masks[1:] = False
    masks[1, others[:first]] = True
    masks[2, others[first:]] = True
    return masks


def _classes(bare: Graph, seed: int) -> Ids:
    """The classes that edges follow, int64 [n]: labels, or where one is missing what `mlp` makes of features."""
    y = bare.y.numpy()
    if not (y == UNLABELLED).any():
        return y
    named = train(bare, Mlp(), epsilon=math.inf, unit="edge", seed=seed).predict().numpy()
    return np.where(y == UNLABELLED, named, y)


def _wired(y: Ids, degree: float, homophily: float, undirected: bool, rng: np.random.Generator) -> Csr:
    """Edges that start at a node drawn by sociability and end at another: of its class with probability `homophily`.

    Elsewhere of any class, so that `homophily` is adjusted for chance. Loops and repeats are dropped.
    """
    weights = rng.pareto(TAIL, len(y)) + 1
    count = round(len(y) * degree / (2 if undirected else 1))
    sources = _drawn(np.arange(len(y)), weights, count, rng)
    targets = _drawn(np.arange(len(y)), weights, count, rng)
    stays = rng.random(count) < homophily
    for label in np.unique(y):
        inside = stays & (y[sources] == label)
        targets[inside] = _drawn(np.flatnonzero(y == label), weights, int(inside.sum()), rng)
    return Arcs(sources, targets, len(y), "stand-in edge").cleaned(undirected).pack()


def _drawn(nodes: Ids, weights: Floats, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`count` of these nodes, by weight and with repeats."""
    return rng.choice(nodes, size=count, p=weights[nodes] / weights[nodes].sum())
