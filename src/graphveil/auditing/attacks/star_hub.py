"""Nodes that many others hear, or one other. At node level they are blanked, else turned into their opposite.

A method that trains on subgraphs must pay for every subgraph a node can be in; this node is in as many as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from graphveil.auditing.game import Canary, Pair
from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.vocabulary import Adjacency, Unit


@dataclass(frozen=True)
class StarHub(Canary):
    """The hub is heard by training nodes of one class, which hear nobody else: their gradients turn the same way."""

    units = frozenset({Unit.NODE, Unit.FEATURES, Unit.LABEL})

    def pairs(self, graph: Graph, adjacency: Adjacency, seed: int) -> Sequence[Pair]:  # noqa: ARG002
        hub = speaker(graph)
        listeners = _listeners(graph, hub)
        found = []
        for who, count in (("one class", len(listeners)), ("one node", 1)):
            star = _star(graph, hub, listeners[:count])
            others = torch.arange(graph.num_nodes) != hub
            blank = replace(star, x=star.x.masked_fill(others[:, None], 0.0))
            found += [told_apart(blank, hub, adjacency, f"a node that {who} hears, the others without features")]
            found += [told_apart(star, hub, adjacency, f"a node that {who} hears")]
        busiest = np.bincount(graph.adj.indices, minlength=graph.num_nodes) + 0.5 * graph.train.numpy()
        found.append(told_apart(graph, int(busiest.argmax()), adjacency, "the largest hub of the graph as it is"))
        return [pair for pair in found if pair is not None]


def speaker(graph: Graph) -> int:
    """A training node, with a label if there is one, and with a long feature row."""
    order = (-graph.x.double().norm(dim=1).numpy(), ~graph.labelled("train").numpy(), ~graph.train.numpy())
    return int(np.lexsort(order)[0])


def told_apart(graph: Graph, node: int, adjacency: Adjacency, what: str) -> Pair | None:
    """The graph, and its neighbour in which `node` is blank, or its own opposite; `None` if it has no opposite.

    The opposite has the negative row and the same label, whose gradient points the other way, or just another label.
    """
    if adjacency.unit is Unit.NODE:
        return replace(Pair.without_node(graph, node), what=what)
    row, label = graph.x[node], int(graph.y[node])
    turned, other = (-row, label) if adjacency.unit is Unit.FEATURES else (row, (label + 1) % graph.num_classes)
    if torch.equal(turned, row) and other == label:
        return None
    return replace(Pair.with_other(graph, node, turned, other), what=f"{what}, turned into its opposite")


def _listeners(graph: Graph, hub: int) -> Ids:
    """Training nodes of the largest class that is not the hub's own, if there is one, int64 [k]."""
    y, train = graph.y.numpy(), graph.train.numpy()
    counts = np.bincount(y[train & (y >= 0)], minlength=graph.num_classes)
    if graph.num_classes > 1 and y[hub] >= 0:
        counts[y[hub]] = 0
    chosen = train & (y == counts.argmax()) if counts.any() else train.copy()
    chosen[hub] = False
    return np.flatnonzero(chosen)


def _star(graph: Graph, hub: int, listeners: Ids) -> Graph:
    """The graph without its edges, but for one from the hub to every listener, int64 [k]."""
    hubs = np.full(len(listeners), hub)
    sources, targets = (hubs, listeners)
    if graph.undirected:
        sources, targets = np.concatenate([hubs, listeners]), np.concatenate([listeners, hubs])
    return rewired(graph, sources, targets)


def rewired(graph: Graph, sources: Ids, targets: Ids) -> Graph:
    """The graph with these arcs alone, int64 [m] each.

    Degrees that were stated become true of them: an attacker makes up the population too.
    """
    made = graph.with_arcs(Csr.from_edge_index(sources, targets, graph.num_nodes))
    if graph.degrees is None:
        return made
    return made.with_degrees(np.maximum(graph.degrees, np.bincount(sources, minlength=graph.num_nodes)))
