"""Small graphs for the sampler tests, and subgraphs in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphveil.data.arcs import Csr, Ids
from graphveil.nn.sampling.subgraphs import Subgraphs

View = tuple[frozenset[int], frozenset[tuple[int, int]]]
"""The nodes of a subgraph and its arcs (source, target)."""


def graph_of(links: np.ndarray) -> Csr:
    """links: bool [n, n], True at (target, source)."""
    targets, sources = np.nonzero(links)
    return Csr.from_edge_index(sources, targets, len(links))


def links_of(adj: Csr) -> np.ndarray:
    """The inverse of `graph_of`."""
    links = np.zeros((adj.num_nodes, adj.num_nodes), dtype=bool)
    links[adj.targets(), adj.indices] = True
    return links


def random_links(rng: np.random.Generator, nodes: int, undirected: bool = False) -> np.ndarray:
    """Any density, no loops."""
    links = (rng.random((nodes, nodes)) < rng.random()) & ~np.eye(nodes, dtype=bool)
    return links | links.T if undirected else links


def all_links(nodes: int) -> Iterator[np.ndarray]:
    """Every directed graph without loops; number c is the c-th of them."""
    places = np.flatnonzero(~np.eye(nodes, dtype=bool).ravel())
    for code in range(2 ** len(places)):
        links = np.zeros(nodes * nodes, dtype=bool)
        links[places] = (code >> np.arange(len(places))) & 1
        yield links.reshape(nodes, nodes)


def blank(links: np.ndarray, node: int) -> np.ndarray:
    """Without the arcs of one node."""
    fewer = links.copy()
    fewer[node, :] = fewer[:, node] = False
    return fewer


def random_adj(seed: int, nodes: int = 40, density: float = 0.15) -> Csr:
    rng = np.random.default_rng(seed)
    return graph_of((rng.random((nodes, nodes)) < density) & ~np.eye(nodes, dtype=bool))


def subsets(nodes: int) -> Iterator[Ids]:
    """Every set of centres."""
    for code in range(2**nodes):
        yield np.flatnonzero((code >> np.arange(nodes)) & 1)


def views(block: Subgraphs) -> dict[int, View]:
    """Each subgraph by its centre, without regard to the order of rows."""
    rows = np.repeat(np.arange(len(block.nodes)), np.diff(block.indptr))
    arcs = list(zip(block.nodes[block.indices].tolist(), block.nodes[rows].tolist(), strict=True))
    ends, nodes = block.indptr[block.ptr].tolist(), block.nodes.tolist()
    return {
        nodes[start]: (frozenset(nodes[start:stop]), frozenset(arcs[ends[s] : ends[s + 1]]))
        for s, (start, stop) in enumerate(zip(block.ptr[:-1].tolist(), block.ptr[1:].tolist(), strict=True))
    }


def changed(here: dict[int, View], there: dict[int, View]) -> set[int]:
    """The centres whose subgraphs differ."""
    return {centre for centre in here.keys() | there.keys() if here.get(centre) != there.get(centre)}


def require_valid(block: Subgraphs, adj: Csr, induced: bool) -> None:
    """The invariants of the format; all arcs of the graph among the nodes of a subgraph, if `induced`."""
    assert block.ptr[0] == block.indptr[0] == 0
    assert block.ptr[-1] == len(block.nodes) == len(block.indptr) - 1
    assert block.indptr[-1] == len(block.indices)
    assert all(array.dtype == np.int64 for array in (block.nodes, block.ptr, block.indptr, block.indices))
    assert (np.diff(block.ptr) >= 1).all()
    assert (np.diff(block.indptr) >= 0).all()
    links = links_of(adj)
    for start, stop in zip(block.ptr[:-1], block.ptr[1:], strict=True):
        nodes = block.nodes[start:stop]
        assert len(set(nodes.tolist())) == len(nodes)
        inside = np.zeros((stop - start, stop - start), dtype=bool)
        for row in range(start, stop):
            sources = block.indices[block.indptr[row] : block.indptr[row + 1]]
            assert (np.diff(sources) > 0).all()
            assert ((sources >= start) & (sources < stop)).all()
            inside[row - start, sources - start] = True
        there = links[np.ix_(nodes, nodes)]
        assert np.array_equal(inside, there) if induced else not (inside & ~there).any()
