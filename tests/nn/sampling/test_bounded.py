"""Bounded occurrence: caps hold, silencing hubs is stable on every small graph, capping by present arcs is not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, islice

import numpy as np
import pytest

from blocks_of import (
    View,
    all_links,
    blank,
    changed,
    graph_of,
    links_of,
    random_adj,
    random_links,
    require_valid,
    views,
)
from graphveil.data.arcs import Csr
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.bounded import cap_out_arcs, most_occurrences, neighbourhoods, silence_hubs

Rule = Callable[[Csr], Csr]


def out_degrees(adj: Csr) -> np.ndarray:
    return np.bincount(adj.indices, minlength=adj.num_nodes)


def everything(adj: Csr, hops: int) -> dict[int, View]:
    return views(neighbourhoods(adj, np.arange(adj.num_nodes), hops))


def truncate(adj: Csr) -> Csr:
    """Nodes with more than one arc PRESENT send nothing."""
    return silence_hubs(adj, out_degrees(adj), 1)


def test_most_occurrences() -> None:
    """privacy.md: N_aff = 6 for K = 5 and one hop."""
    assert [most_occurrences(5, hops) for hops in (0, 1, 2, 3)] == [1, 6, 31, 156]
    assert most_occurrences(1, 4) == 5


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
@pytest.mark.parametrize("cap", [1, 2, 4])
def test_caps_and_occurrences(cap: int, hops: int) -> None:
    rng = np.random.default_rng(cap)
    for trial in range(20):
        nodes = int(rng.integers(1, 40))
        adj = graph_of(random_links(rng, nodes, undirected=trial % 2 == 0))
        for capped in (cap_out_arcs(adj, cap, seed=trial), silence_hubs(adj, out_degrees(adj), cap)):
            assert not (links_of(capped) & ~links_of(adj)).any()
            assert out_degrees(capped).max(initial=0) <= cap
            block = neighbourhoods(capped, np.arange(nodes), hops)
            require_valid(block, capped, induced=True)
            assert block.occurrences(nodes).max() <= most_occurrences(cap, hops)
        kept = cap_out_arcs(adj, cap, seed=trial)
        assert np.array_equal(out_degrees(kept), np.minimum(out_degrees(adj), cap))


def test_the_bound_on_occurrences_is_attained() -> None:
    """A tree of arcs away from node 0: it lies in the neighbourhood of every node."""
    links = np.zeros((13, 13), dtype=bool)
    links[np.arange(1, 13), (np.arange(1, 13) - 1) // 3] = True
    block = neighbourhoods(graph_of(links), np.arange(13), 2)
    assert block.occurrences(13)[0] == most_occurrences(3, 2) == 13


def test_neighbourhoods_are_those_of_matrix_powers() -> None:
    adj = random_adj(4, density=0.05)
    steps = np.eye(40, dtype=bool) | links_of(adj)
    reach = np.eye(40, dtype=bool)
    for hops in range(5):
        block = neighbourhoods(adj, np.arange(0, 40, 3), hops)
        assert block.centres.tolist() == list(range(0, 40, 3))
        for centre, (nodes, _) in views(block).items():
            assert nodes == set(np.flatnonzero(reach[centre]).tolist())
        reach = steps @ reach


def test_kept_arcs_are_a_uniform_choice_of_the_seed() -> None:
    """A node with 6 arcs, 2 kept: each pair in 1 of 15 of 6,000 seeds, chi-square with 14 degrees of freedom."""
    links = np.zeros((7, 7), dtype=bool)
    links[1:, 0] = True
    adj = graph_of(links)
    pairs = dict.fromkeys(combinations(range(1, 7), 2), 0)
    for seed in range(6000):
        pairs[tuple(cap_out_arcs(adj, 2, seed).targets().tolist())] += 1
    assert sum((count - 400) ** 2 for count in pairs.values()) / 400 < 45


def test_every_source_chooses_for_itself() -> None:
    """300 sources of the same 6 targets, one arc each: all targets are chosen, by chi-square with 5 degrees."""
    sources = np.repeat(np.arange(6, 306), 6)
    adj = Csr.from_edge_index(sources, np.tile(np.arange(6), 300), 306)
    heard = cap_out_arcs(adj, 1, seed=3).in_degrees()[:6]
    assert heard.sum() == 300
    assert np.square(heard - 50).sum() / 50 < 25


def test_a_seed_decides_everything() -> None:
    adj = random_adj(2)
    first, again, other = (cap_out_arcs(adj, 2, seed) for seed in (5, 5, 6))
    assert np.array_equal(first.indices, again.indices)
    assert not np.array_equal(first.indices, other.indices)


def require_stable(links: np.ndarray, cap: int, hops: int, silenced: Callable[[np.ndarray, np.ndarray], Csr]) -> None:
    """Blanking z in the graph or in what the rule makes of it is the same, and moves only subgraphs that hold z."""
    degrees = links.sum(0)
    whole = silenced(links, degrees)
    here = everything(whole, hops)
    for node in range(len(links)):
        fewer = silenced(blank(links, node), degrees)
        assert np.array_equal(links_of(fewer), blank(links_of(whole), node))
        moved = changed(here, everything(fewer, hops))
        assert moved <= {centre for centre, (nodes, _) in here.items() if node in nodes}
        assert len(moved) <= most_occurrences(cap, hops)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("nodes", "cap", "hops"), [(3, 1, 1), (3, 1, 2), (3, 1, 3), (3, 2, 2), (4, 1, 2), (4, 2, 1)])
def test_silencing_hubs_is_stable_on_every_small_graph(nodes: int, cap: int, hops: int, every: int) -> None:
    """Graphs of three nodes, and those of four or every fifth of them."""
    for links in islice(all_links(nodes), 0, None, every if nodes > 3 else 1):
        require_stable(links, cap, hops, lambda each, degrees: silence_hubs(graph_of(each), degrees, cap))


def test_silencing_hubs_is_stable_on_random_graphs() -> None:
    rng = np.random.default_rng(11)
    for trial in range(60):
        links = random_links(rng, int(rng.integers(5, 13)), undirected=trial % 2 == 0)
        cap, hops = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        require_stable(links, cap, hops, lambda each, degrees, cap=cap: silence_hubs(graph_of(each), degrees, cap))


@pytest.mark.parametrize("hubs", [10, 1000])
def test_capping_by_present_arcs_is_not_stable(hubs: int) -> None:
    """Sources that each send to z and to a target of their own, cap 1: without z about half of the targets gain."""
    sources = np.arange(1, hubs + 1)
    both = np.concatenate([sources, sources]), np.concatenate([np.zeros(hubs, np.int64), sources + hubs])
    adj = Csr.from_edge_index(*both, 2 * hubs + 1)
    without = Csr.from_edge_index(sources, sources + hubs, 2 * hubs + 1)
    here, there = (everything(cap_out_arcs(each, 1, seed=0), 1) for each in (adj, without))
    moved = changed(here, there) - {0}
    assert not any(0 in here[centre][0] for centre in moved)
    assert len(moved) > 0.2 * hubs
    assert len(moved) > most_occurrences(1, 1)


@pytest.mark.parametrize("rule", [truncate, *(lambda adj, seed=seed: cap_out_arcs(adj, 1, seed) for seed in range(5))])
@pytest.mark.parametrize("bound", [1, 2, 3])
def test_no_cap_on_present_arcs_moves_few_subgraphs(rule: Rule, bound: int) -> None:
    """The graph of the impossibility proof in docs/sampling.md for K = 1: one source for each pair of targets."""
    targets = 2 * (2 * bound + 1)
    pairs = list(combinations(range(targets), 2))
    links = np.zeros((targets + len(pairs),) * 2, dtype=bool)
    for place, pair in enumerate(pairs):
        links[list(pair), targets + place] = True
    here = everything(rule(graph_of(links)), 1)
    moved = [len(changed(here, everything(rule(graph_of(blank(links, t))), 1)) - {t}) for t in range(targets)]
    assert max(moved) > bound


def test_empty_batches_lonely_nodes_and_bad_arguments() -> None:
    adj = graph_of(np.zeros((3, 3), dtype=bool))
    assert neighbourhoods(adj, np.empty(0, np.int64), 2).count == 0
    assert neighbourhoods(adj, np.arange(3), 2).nodes.tolist() == [0, 1, 2]
    with pytest.raises(InvalidInput, match="cap"):
        cap_out_arcs(adj, 0, seed=0)
    with pytest.raises(InvalidInput, match="hops"):
        neighbourhoods(adj, np.arange(3), -1)
    with pytest.raises(InvalidInput, match="out_degrees"):
        silence_hubs(random_adj(0), np.zeros(40, np.int64), 2)
