"""A node whose label is what is told: shown to those outside training that it is linked to, or exchanged for another.

Gradients hardly turn where features say nothing new, but who counts labels, or passes them on, moves as far as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphveil.core import Adjacency, Unit
from graphveil.evidence.attacks.star_hub import speaker
from graphveil.evidence.game import Canary, Pair
from graphveil.graph.arcs import Csr, Ids
from graphveil.graph.graph import Graph


@dataclass(frozen=True)
class ToldLabel(Canary):
    """A training node with the features of one outside training: whatever reads those reads its own.

    At node level all its edges lead out of training, to everybody there or to one node. At features level it gets
    another label, and once the negative features too.
    """

    units = frozenset({Unit.NODE, Unit.FEATURES})

    def pairs(self, graph: Graph, adjacency: Adjacency, seed: int) -> Sequence[Pair]:  # noqa: ARG002
        node, outside = speaker(graph), np.flatnonzero(~graph.train.numpy())
        shown = _shown(graph, node, outside)
        if adjacency.unit is Unit.NODE:
            audiences = {"everybody": outside, "one node": outside[:1]} if len(outside) else {}
            return [
                replace(
                    Pair.without_node(_linked(shown, node, ids), node), what=f"a node linked to {who} outside training"
                )
                for who, ids in audiences.items()
            ]
        if graph.num_classes == 1:
            return []
        row, other = shown.x[node], (int(graph.y[node]) + 1) % graph.num_classes
        turned = {"the label of a node": row, "the label of a node, and its features turned around": -row}
        return [replace(Pair.with_other(shown, node, new, other), what=what) for what, new in turned.items()]


def _shown(graph: Graph, node: int, outside: Ids) -> Graph:
    """The graph in which `node` has the longest features of those outside training, if there are any; [k] ids."""
    lengths = graph.x.double().norm(dim=1).numpy()[outside]
    if not lengths.any():
        return graph
    x = graph.x.clone()
    x[node] = x[outside[int(lengths.argmax())]]
    return replace(graph, x=x)


def _linked(graph: Graph, node: int, others: Ids) -> Graph:
    """The graph in which `node` is linked to `others`, int64 [k], and to nobody else."""
    sources, targets = graph.adj.indices, graph.adj.targets()
    kept = (sources != node) & (targets != node)
    nodes = np.full(len(others), node)
    froms, tos = (nodes, others)
    if graph.undirected:
        froms, tos = np.concatenate([nodes, others]), np.concatenate([others, nodes])
    ends = np.concatenate([sources[kept], froms]), np.concatenate([targets[kept], tos])
    linked = graph.with_arcs(Csr.from_edge_index(ends[0], ends[1], graph.num_nodes))
    if graph.degrees is None:
        return linked
    return linked.with_degrees(np.maximum(graph.degrees, np.bincount(ends[0], minlength=graph.num_nodes)))
