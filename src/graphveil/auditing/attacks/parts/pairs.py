"""What attacks on edges share: the pairs of nodes that are judged, and the floor beside which a result is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import ATTACKS, Inference
from graphveil.checks import require_whole
from graphveil.data.arcs import Ids
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Floats, Unit


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes: nodes int64 [k, 2] as (source, target), joined bool [k], degrees int64 [k].

    The degree of a pair is that of its less connected end. Each undirected pair is there once, either way round.
    """

    nodes: Ids
    joined: NDArray[np.bool_]
    degrees: Ids

    @classmethod
    def balanced(cls, graph: Graph, sample: int, seed: int) -> Self:
        """`sample` random edges, or all, and as many random pairs that are none."""
        rng = np.random.default_rng((seed, 0xED6E))
        keys = _keys(graph)
        nodes = graph.num_nodes
        ones = rng.choice(keys, min(sample, len(keys)), replace=False)
        wanted = min(len(ones), _possible(graph) - len(keys))
        zeros = np.empty(0, np.int64)
        while len(zeros) < wanted:
            drawn = rng.integers(0, nodes, (2, 2 * wanted + 16))
            drawn = drawn[:, drawn[0] != drawn[1]]
            if graph.undirected:
                drawn = np.sort(drawn, axis=0)
            fresh = drawn[0] * nodes + drawn[1]
            zeros = np.concatenate([zeros, fresh[~np.isin(fresh, keys)]])
            zeros = zeros[np.sort(np.unique(zeros, return_index=True)[1])]
        both = np.concatenate([ones, zeros[:wanted]])
        ends = np.stack([both // nodes, both % nodes], axis=1)
        if graph.undirected:
            ends = np.where(rng.random(len(ends))[:, None] < 0.5, ends, ends[:, ::-1])
        return cls._of(graph, ends, np.arange(len(ends)) < len(ones))

    @classmethod
    def among(cls, graph: Graph, sample: int, seed: int) -> Self:
        """All pairs among `sample` random nodes: edges are as rare as they are."""
        rng = np.random.default_rng((seed, 0xED6E))
        chosen = rng.choice(graph.num_nodes, min(sample, graph.num_nodes), replace=False)
        first, second = np.triu_indices(len(chosen), 1)
        ends = np.stack([chosen[first], chosen[second]], axis=1)
        if not graph.undirected:
            ends = np.concatenate([ends, ends[:, ::-1]])
        ordered = np.sort(ends, axis=1) if graph.undirected else ends
        return cls._of(graph, ends, np.isin(ordered[:, 0] * graph.num_nodes + ordered[:, 1], _keys(graph)))

    @classmethod
    def _of(cls, graph: Graph, ends: Ids, joined: NDArray[np.bool_]) -> Self:
        if not joined.any() or joined.all():
            raise InvalidInput(f"the sample of {graph.name!r} lacks edges or pairs that are none; draw more")
        links = graph.adj.in_degrees()
        if not graph.undirected:
            links = links + np.bincount(graph.adj.indices, minlength=graph.num_nodes)
        return cls(ends, joined, links[ends].min(axis=1))

    def scores(self, scores: Floats) -> Scores:
        """What an attacker says of every pair, [k], as scores of edges and of pairs that are none."""
        there, not_there = self.joined, ~self.joined
        return Scores(scores[there], scores[not_there], self.degrees[there], self.degrees[not_there])


@dataclass(frozen=True)
class EdgeInference(Inference):
    """Says of pairs of nodes whether they are joined: of `sample` edges and as many pairs that are none.

    `natural`: of all pairs among `sample` random nodes instead.
    """

    units = frozenset({Unit.EDGE})

    sample: int = 500
    natural: bool = False

    def __post_init__(self) -> None:
        require_whole(self, "sample")
        if self.sample < 2:
            raise InvalidInput(f"{self.name()} needs sample of at least 2, got {self.sample}")

    def pairs(self, graph: Graph, seed: int) -> Pairs:
        """The pairs that are judged: the same for every attack with the same sample and seed."""
        return (Pairs.among if self.natural else Pairs.balanced)(graph, self.sample, seed)

    def floors(self) -> dict[str, Inference]:
        both = {"features": "features alone", "posteriors": "mlp posteriors"}
        rows_alone: Any = ATTACKS.find("feature_similarity")
        return {said: rows_alone(self.sample, self.natural, rows=rows) for rows, said in both.items()}


def _keys(graph: Graph) -> Ids:
    """source * n + target of every arc, int64; of an undirected edge the one whose source is smaller."""
    sources, targets = graph.adj.indices, graph.adj.targets()
    keys = sources * graph.num_nodes + targets
    return keys[sources < targets] if graph.undirected else keys


def _possible(graph: Graph) -> int:
    """How many edges the graph could have."""
    return graph.num_nodes * (graph.num_nodes - 1) // (2 if graph.undirected else 1)
