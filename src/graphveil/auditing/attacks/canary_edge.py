"""Edges that are hard to hide: alone between two nodes, pendant at a hub, and one as they come. Edge level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphveil.auditing.game import Canary, Pair
from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.vocabulary import Adjacency, Unit


@dataclass(frozen=True)
class CanaryEdge(Canary):
    """What an edge tells is largest where nothing drowns it: its ends have no other edges, in both graphs.

    A hub is the opposite: it has the leading singular vector, and who hangs on it alone has no other place there.
    """

    units = frozenset({Unit.EDGE})

    def pairs(self, graph: Graph, adjacency: Adjacency, seed: int) -> Sequence[Pair]:  # noqa: ARG002
        if graph.num_nodes < 2:
            return []
        first, second = telling_ends(graph)
        hub = int(_degrees(graph).argmax())
        leaf = _leaf(graph, hub)
        nobody = np.zeros(graph.num_nodes, dtype=bool)
        ends, leaves = nobody.copy(), nobody.copy()
        ends[[first, second]], leaves[leaf] = True, True
        found = [
            _canary(_rewired(graph, ~ends, first, second), first, second, "an edge between two otherwise lone nodes"),
            _canary(_rewired(graph, ~leaves, leaf, hub), leaf, hub, "a pendant edge at the largest hub"),
            _canary(_rewired(graph, nobody, first, second), first, second, "the only edge of the graph"),
        ]
        if graph.adj.num_arcs:
            arc = int(np.random.default_rng(seed).integers(graph.adj.num_arcs))
            source, target = int(graph.adj.indices[arc]), int(graph.adj.targets()[arc])
            found.append(_canary(graph, source, target, "an edge of the graph as it is"))
        return found


def telling_ends(graph: Graph) -> tuple[int, int]:
    """Two nodes that say much: they train, have long feature rows, and differ in their labels if any do."""
    rank = np.lexsort((-graph.x.double().norm(dim=1).numpy(), ~graph.labelled("train").numpy()))
    first = int(rank[0])
    y = graph.y.numpy()
    others = rank[1:][y[rank[1:]] != y[first]]
    return first, int(others[0] if len(others) else rank[1])


def _degrees(graph: Graph) -> Ids:
    return graph.adj.in_degrees() + np.bincount(graph.adj.indices, minlength=graph.num_nodes)


def _leaf(graph: Graph, hub: int) -> int:
    """A node with few edges, one at the hub if possible."""
    degrees = _degrees(graph).astype(np.float64)
    near = graph.adj.indices[graph.adj.indptr[hub] : graph.adj.indptr[hub + 1]]
    degrees[near] -= 0.5
    degrees[hub] = np.inf
    return int(degrees.argmin())


def _rewired(graph: Graph, kept: NDArray[np.bool_], source: int, target: int) -> Graph:
    """The graph with the edges among `kept` nodes, bool [n], and the edge (or arc) from `source` to `target`."""
    inside = kept[graph.adj.indices] & kept[graph.adj.targets()]
    sources, targets = graph.adj.indices[inside], graph.adj.targets()[inside]
    froms, tos = ([source, target], [target, source]) if graph.undirected else ([source], [target])
    ends = np.concatenate([sources, np.array(froms)]), np.concatenate([targets, np.array(tos)])
    return graph.with_arcs(Csr.from_edge_index(ends[0], ends[1], graph.num_nodes))


def _canary(graph: Graph, source: int, target: int, what: str) -> Pair:
    return replace(Pair.without_edge(graph, source, target), what=what)
