"""A node whose label is what is told: shown to one outside training that it is linked to, or exchanged for another.

Who counts labels or passes them on moves by as much as can be; who learns from them never learns this one, because the
node looks like those of other classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from graphveil.auditing.attacks.star_hub import rewired, speaker
from graphveil.auditing.game import Canary, Pair
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.vocabulary import Adjacency, Unit


@dataclass(frozen=True)
class ToldLabel(Canary):
    """A training node has features r as training nodes of other classes have; those of its own class have -r.

    It is linked to one node outside training and to nobody else; those outside have r and -r in turn. At node level the
    node is blanked, the others with and without edges; at features level it gets another label, and once -r too.
    """

    units = frozenset({Unit.NODE, Unit.FEATURES})

    def pairs(self, graph: Graph, adjacency: Adjacency, seed: int) -> Sequence[Pair]:  # noqa: ARG002
        outside = np.flatnonzero(~graph.train.numpy())
        if not len(outside) or graph.num_classes == 1:
            return []
        node, listener = speaker(graph), int(outside[0])
        misled = _misled(graph, node)
        linked = _linked(misled, node, listener)
        if adjacency.unit is Unit.NODE:
            alone = _linked(replace(misled, adj=Csr.empty(graph.num_nodes)), node, listener)
            return [
                replace(
                    Pair.without_node(alone, node), what="a node that looks like another class, with the only edge"
                ),
                replace(Pair.without_node(linked, node), what="a node that looks like another class"),
            ]
        row, other = linked.x[node], (int(graph.y[node]) + 1) % graph.num_classes
        return [
            replace(Pair.with_other(linked, node, row, other), what="the label of a node"),
            replace(Pair.with_other(linked, node, -row, other), what="the label of a node, its features turned around"),
        ]


def _misled(graph: Graph, node: int) -> Graph:
    """The graph in which features tell the wrong class of `node`."""
    row = graph.x[node] if graph.x[node].any() else torch.ones(graph.num_features)
    signs = torch.where(graph.y == graph.y[node], -1.0, 1.0)
    outside = (~graph.train).nonzero().ravel()
    signs[outside] = 1.0 - 2.0 * (torch.arange(len(outside)) % 2)
    signs[node] = 1.0
    return replace(graph, x=signs[:, None] * row)


def _linked(graph: Graph, node: int, other: int) -> Graph:
    """The graph in which `node` is linked to `other` and to nobody else."""
    sources, targets = graph.adj.indices, graph.adj.targets()
    kept = (sources != node) & (targets != node)
    froms, tos = ([node, other], [other, node]) if graph.undirected else ([node], [other])
    return rewired(graph, np.concatenate([sources[kept], froms]), np.concatenate([targets[kept], tos]))
