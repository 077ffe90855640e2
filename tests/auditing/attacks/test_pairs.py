"""Which pairs of nodes are judged: each once, and truly joined or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from communities import communities
from graphveil.auditing.attacks.lpa import Lpa
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput


@pytest.mark.parametrize("natural", [False, True])
@pytest.mark.parametrize("name", ["undirected", "directed"])
def test_pairs_are_distinct_and_say_the_truth(name: str, natural: bool) -> None:
    graph = communities(60, 0) if name == "undirected" else _directed()
    pairs = Lpa(sample=30, natural=natural).pairs(graph, 1)
    matrix = graph.adj.to_scipy().toarray() > 0
    sources, targets = pairs.nodes.T
    assert (sources != targets).all()
    assert (matrix[targets, sources] == pairs.joined).all()
    ordered = np.sort(pairs.nodes, axis=1) if graph.undirected else pairs.nodes
    assert len(np.unique(ordered, axis=0)) == len(ordered)
    assert natural or pairs.joined.sum() == (~pairs.joined).sum() == 30
    assert len(pairs.nodes) == ((30 * 29 // (2 if graph.undirected else 1)) if natural else 60)
    links = matrix.sum(axis=1) + (0 if graph.undirected else matrix.sum(axis=0))
    assert (pairs.degrees == np.minimum(links[sources], links[targets])).all()


def test_the_same_seed_draws_the_same_pairs() -> None:
    graph = communities(60, 0)
    first, again, other = (Lpa(sample=20).pairs(graph, seed).nodes for seed in (3, 3, 4))
    assert (first == again).all()
    assert not (first == other).all()


def test_a_graph_with_few_edges_gives_all_of_them() -> None:
    graph = communities(30, 2)
    assert Lpa(sample=10_000).pairs(graph, 0).joined.sum() == graph.num_edges


def test_a_sample_without_edges_is_refused() -> None:
    with pytest.raises(InvalidInput, match="draw more"):
        Lpa(sample=2, natural=True).pairs(communities(60, 0), 0)
    with pytest.raises(InvalidInput, match="at least 2"):
        Lpa(sample=1)


def _directed() -> Graph:
    graph = communities(60, 0)
    kept = graph.adj.indices < graph.adj.targets()
    adj = Csr.from_edge_index(graph.adj.indices[kept], graph.adj.targets()[kept], 60)
    return replace(graph, adj=adj, undirected=False)
