"""What changes a fingerprint, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.identity import public_digest
from graphveil.vocabulary import Adjacency
from small_graph import small


def test_fingerprint_ignores_the_split_and_sees_everything_else() -> None:
    graph = small()
    split = graph.random_split(seed=3)
    assert graph.fingerprint() == split.fingerprint()
    assert graph.split_hash() != split.split_hash()
    x = graph.x.clone()
    x[0, 0] += 1
    y = graph.y.roll(1)
    ends = graph.adj.edge_index().numpy()[:, 1:]
    others = [
        Graph.from_pyg(graph.to_pyg().update({"x": x})),
        Graph.from_pyg(graph.to_pyg().update({"y": y})),
        Graph.from_pyg(graph.to_pyg(), undirected=False),
        Graph.from_pyg(graph.to_pyg().update({"edge_index": torch.from_numpy(ends)}), undirected=False),
    ]
    assert len({graph.fingerprint(), *(other.fingerprint() for other in others)}) == 5


@pytest.mark.parametrize("unit", ["edge", "node", "features", "label"])
def test_the_public_digest_sees_public_parts_alone(unit: str) -> None:
    graph, adjacency = small(), Adjacency.of(unit)
    other = replace(graph, y=graph.y.roll(1))
    assert (public_digest(graph, adjacency) == public_digest(other, adjacency)) is ("y" in adjacency.private)
    other = replace(graph, x=graph.x + 1)
    assert (public_digest(graph, adjacency) == public_digest(other, adjacency)) is ("x" in adjacency.private)
    other = replace(graph, adj=Csr.empty(graph.num_nodes))
    assert (public_digest(graph, adjacency) == public_digest(other, adjacency)) is ("edges" in adjacency.private)
