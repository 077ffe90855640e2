"""Looks for neighbouring graphs that move one hop of CARIBOU further than a claim says.

The search knows the operator (one silent hop of the mechanism), the claimed bound and what a neighbour is; nothing
else. It draws graphs of many shapes, then climbs from the worst: an edge toggled, a node added, copied or dropped.

    python tests/fuzz/sensitivity.py
    python tests/fuzz/sensitivity.py [--pairs 10000] [--climbs 1000] [--largest 30 60] [--seed 0]

prints for every claim the largest ratio found (distance / claim), what no rows X could exceed on any pair seen, and the
graph that attains the ratio. Theorems 4 and 5 are exceeded; the sound claims never.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.contractive import Contractive
from graphveil.methods.edge.caribou import printed_move, printed_node_move
from graphveil.nn.aggregate import NeighbourSums
from graphveil.privacy.noise import Seeded
from graphveil.runtime.folders import write_whole
from graphveil.vocabulary import Floats, Unit

Links = NDArray[np.bool_]
"""bool [n, n]: links[i, j] is the arc j -> i."""
SETTINGS = [(1.0, 1.0), (1.0, 0.0), (10.0, 1.0), (0.1, 0.1), (0.1, 0.0), (3.0, 3.0), (100.0, 0.0)]
"""(tau, loops) of the sound claims."""
_SEALED = cast(Sealed, None)


@dataclass(frozen=True, eq=False)
class Pair:
    """A graph, and its neighbour: `changed` is the edge (or arc v -> u) toggled, or the node blanked."""

    links: Links
    changed: tuple[int, ...]
    undirected: bool = True

    def neighbour(self) -> Links:
        near = self.links.copy()
        if len(self.changed) == 1:
            near[self.changed[0], :] = near[:, self.changed[0]] = False
            return near
        u, v = self.changed
        near[u, v] ^= True
        if self.undirected:
            near[v, u] = near[u, v]
        return near

    def __str__(self) -> str:
        ends = np.argwhere(np.triu(self.links) if self.undirected else self.links.T)
        joined = "-" if self.undirected else ">"
        what = "node" if len(self.changed) == 1 else "edge" if self.undirected else "arc to, from"
        edges = " ".join(f"{a}{joined}{b}" for a, b in ends) or "none"
        if len(ends) > 60:
            edges = f"{len(ends)} (degrees {' '.join(str(count) for count in degrees(self.links))})"
        return f"{len(self.links)} nodes, edges {edges}; the neighbour differs in {what} {self.changed}"


@dataclass(frozen=True)
class Claim:
    """How far one hop of `act` is said to move; `bound` is None where the theorem does not speak of the pair."""

    name: str
    act: Contractive
    unit: Unit
    undirected: bool
    bound: Callable[[Pair], float | None]


@dataclass(frozen=True, eq=False)
class Found:
    """The worst pair: `ratio` is attained by the signs X [n]; `ceiling` no X and no pair of the search exceeds."""

    ratio: float
    ceiling: float
    pairs: int
    pair: Pair
    signs: Floats


def degrees(links: Links, without: int | None = None) -> NDArray[np.int64]:
    """Degrees of all nodes but `without`, whose row is blank."""
    counts = links.sum(axis=1)
    return counts if without is None else np.delete(counts, without)


def theorem_four(act: Contractive) -> Claim:
    """Equation 6 with the least degree of the graph at hand."""

    def bound(pair: Pair) -> float | None:
        least = int(degrees(pair.links).min())
        return printed_move(act, least) if least >= 1 else None

    return Claim("Theorem 4", act, Unit.EDGE, True, bound)


def theorem_five(act: Contractive) -> Claim:
    """Equation 8 for the graph with the node and for the one without it, whichever allows more."""

    def bound(pair: Pair) -> float | None:
        node = pair.changed[0]
        allowed = 0.0
        for counts in (degrees(pair.links), degrees(pair.neighbour(), without=node)):
            if counts.size == 0 or counts.min() < 1:
                return None
            allowed = max(allowed, printed_node_move(act, int(counts.min()), int(counts.max()), len(counts)))
        return allowed

    return Claim(f"Theorem 5, beta {act.beta:g}", act, Unit.NODE, True, bound)


def sound(act: Contractive, undirected: bool) -> Claim:
    """The closed form of docs/methods/caribou.md, which reads no degree."""
    moved = act.move(undirected)
    kind = "edge" if undirected else "arc"
    return Claim(f"sound {kind}, tau {act.tau:g}, loops {act.loops:g}", act, Unit.EDGE, undirected, lambda _: moved)


def hop(act: Contractive, links: Links) -> Floats:
    """The matrix of one silent hop with X = X_0, [n, n]: unit vectors are rows in the ball, so they show it."""
    targets, sources = np.nonzero(links)
    asked = NeighbourSums(Csr.from_edge_index(sources, targets, len(links)), torch.eye(len(links)).double())
    out: Floats = act.apply(_SEALED, lambda _: asked, Seeded(0)).double().numpy()
    return out


def change(act: Contractive, pair: Pair) -> Floats:
    """M with M X = hop on the graph less hop on its neighbour; a blanked node has no row X_v there."""
    there = hop(act, pair.neighbour())
    if len(pair.changed) == 1:
        there[:, pair.changed[0]] = 0.0
    return hop(act, pair.links) - there


def most(matrix: Floats) -> float:
    """No X with rows in the unit ball has |M X|_F above this."""
    return float(np.sqrt((np.abs(matrix).sum(axis=1) ** 2).sum()))


def attained(matrix: Floats) -> tuple[float, Floats]:
    """|M X|_F for a good X of one column of signs, and that X: climb from the signs of every row."""
    signs = np.where(matrix < 0, -1.0, 1.0).T
    for _ in range(5):
        signs = np.where(matrix.T @ (matrix @ signs) < 0, -1.0, 1.0)
    lengths = np.linalg.norm(matrix @ signs, axis=0)
    return float(lengths.max()), signs[:, int(lengths.argmax())]


def star(rng: np.random.Generator, nodes: int) -> Links:
    links = np.zeros((nodes, nodes), dtype=bool)
    links[0, 1:] = rng.random(nodes - 1) < 0.9
    return links


def bridge(rng: np.random.Generator, nodes: int) -> Links:
    """Two dense halves, which the toggled edge may join."""
    half = np.arange(nodes) < nodes // 2
    return (half[:, None] == half[None, :]) & (rng.random((nodes, nodes)) < 0.8)


def clique(rng: np.random.Generator, nodes: int) -> Links:
    return rng.random((nodes, nodes)) < 0.97


def sparse(rng: np.random.Generator, nodes: int) -> Links:
    """Mostly isolated nodes."""
    return rng.random((nodes, nodes)) < 0.7 / nodes


def common(rng: np.random.Generator, nodes: int) -> Links:
    """Nodes 0 and 1 share most of their neighbours."""
    links = np.zeros((nodes, nodes), dtype=bool)
    links[:2, 2:] = rng.random(nodes - 2) < 0.9
    return links


def anything(rng: np.random.Generator, nodes: int) -> Links:
    return rng.random((nodes, nodes)) < rng.random()


SHAPES: list[Callable[[np.random.Generator, int], Links]] = [star, bridge, clique, sparse, common, anything]


def drawn(rng: np.random.Generator, claim: Claim) -> Pair:
    """A graph of a random shape, and the first edge or node, or any, half of the time each."""
    nodes = int(rng.integers(2, 13))
    links = SHAPES[rng.integers(len(SHAPES))](rng, nodes)
    if claim.undirected:
        links = np.triu(links, 1) | np.triu(links, 1).T
    elif rng.random() < 0.5:
        links = links.T.copy()
    np.fill_diagonal(links, False)
    first = np.arange(nodes) if rng.random() < 0.5 else rng.permutation(nodes)
    size = 1 if claim.unit is Unit.NODE else 2
    return Pair(links, tuple(int(node) for node in first[:size]), claim.undirected)


def mutated(rng: np.random.Generator, pair: Pair) -> Pair:
    """One to three small changes: an edge toggled, a node (or a pair of joined nodes) added, copied or dropped."""
    for _ in range(int(rng.integers(1, 4))):
        pair = _mutations(pair)[rng.integers(4)](rng)
    return pair


def _mutations(pair: Pair) -> list[Callable[[np.random.Generator], Pair]]:
    nodes = len(pair.links)

    def toggle(rng: np.random.Generator) -> Pair:
        u, v = rng.choice(nodes, size=2, replace=False)
        return replace(pair, links=Pair(pair.links, (int(u), int(v)), pair.undirected).neighbour())

    def copy(rng: np.random.Generator) -> Pair:
        """A twin of a node, with the same neighbours."""
        order = np.r_[np.arange(nodes), rng.integers(nodes)]
        return replace(pair, links=pair.links[np.ix_(order, order)])

    def add(rng: np.random.Generator) -> Pair:
        """A node joined to one other, or to one more that is new and joined to the changed node."""
        size = int(rng.integers(1, 3))
        links = np.pad(pair.links, (0, size))
        chain = [*range(nodes, nodes + size), int(rng.choice([*pair.changed, int(rng.integers(nodes))]))]
        for u, v in pairwise(chain):
            links[u, v] = links[v, u] = True
        return replace(pair, links=links)

    def drop(rng: np.random.Generator) -> Pair:
        if nodes <= 2:
            return pair
        gone = int(rng.choice([node for node in range(nodes) if node not in pair.changed]))
        links = np.delete(np.delete(pair.links, gone, axis=0), gone, axis=1)
        return replace(pair, links=links, changed=tuple(node - (node > gone) for node in pair.changed))

    return [toggle, copy, add, drop]


def search(claim: Claim, pairs: int, climbs: int, seed: int, largest: int = 30) -> Found:
    """`pairs` random neighbouring pairs of which the claim speaks, then `climbs` steps uphill from the worst."""
    rng = np.random.default_rng(seed)
    best = Found(0.0, 0.0, 0, Pair(np.zeros((2, 2), dtype=bool), (0, 1)), np.zeros(2))
    while best.pairs < pairs:
        pair = drawn(rng, claim)
        bound = claim.bound(pair)
        if bound is not None:
            best = _worse(best, claim, pair, bound)
    for _ in range(climbs):
        pair = mutated(rng, best.pair)
        bound = claim.bound(pair)
        if bound is not None and len(pair.links) <= largest:
            best = _worse(best, claim, pair, bound)
    return best


def _worse(best: Found, claim: Claim, pair: Pair, allowed: float) -> Found:
    matrix = change(claim.act, pair)
    moved, signs = attained(matrix)
    ceiling, seen = max(best.ceiling, most(matrix) / allowed), best.pairs + 1
    if moved / allowed > best.ratio:
        return Found(moved / allowed, ceiling, seen, pair, signs)
    return replace(best, ceiling=ceiling, pairs=seen)


def silent(tau: float, loops: float, beta: float = 0.0, lipschitz: float = 0.5) -> Contractive:
    """One hop without noise."""
    return Contractive(0.0, 1, lipschitz=lipschitz, beta=beta, tau=tau, loops=loops)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000, help="random pairs, over all sound claims together")
    parser.add_argument("--climbs", type=int, default=1000, help="steps uphill for each claim")
    parser.add_argument("--largest", type=int, nargs="+", default=[30, 60], help="nodes of the largest graph")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also keep what was found")
    asked = parser.parse_args()
    printed = [theorem_four(silent(1.0, 1.0))]
    printed += [theorem_five(silent(1.0, 1.0, beta=beta, lipschitz=0.9)) for beta in (0.0, 1.0, 5.0, 15.0)]
    proven = [sound(silent(tau, loops), undirected) for tau, loops in SETTINGS for undirected in (True, False)]
    print(f"{'claim':<32}{'nodes':>5}{'ratio':>8}{'ceiling':>9}{'pairs':>8}")
    each = -(-asked.pairs // len(proven))
    rows = []
    for largest, claim in product(asked.largest, [*printed, *proven]):
        found = search(claim, each, asked.climbs, asked.seed, largest)
        measured = f"{found.ratio:8.4f}{found.ceiling:9.4f}{found.pairs:8d}"
        print(f"{claim.name:<32}{largest:5d}{measured}", flush=True)
        if found.ratio > 1 + 1e-6:
            print(f"    exceeded by {found.pair}, X = {''.join('+' if s > 0 else '-' for s in found.signs)}")
        told = {"claim": claim.name, "graphs": f"up to {largest} nodes", "pairs": found.pairs}
        rows.append({**told, "ratio": found.ratio, "ceiling": found.ceiling, "worst": str(found.pair)})
    if asked.json:
        write_whole(asked.json, rows)


if __name__ == "__main__":
    main()
