"""Disjoint random walks: cover, sizes, the law of the walk, determinism."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from blocks_of import graph_of, links_of, random_adj, random_links, require_valid
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.splitmix import mix
from graphveil.nn.sampling.walks import least_subgraphs, partition


def test_least_subgraphs() -> None:
    """Paper, section 4.2: N = 44,625 and L = 1 give q = 10,000 / M_min = .44817 (privacy.md)."""
    assert 10_000 / least_subgraphs(44_625, 1) == pytest.approx(0.44817, abs=1e-5)
    assert 10_000 / least_subgraphs(44_625, 2) == pytest.approx(0.67227, abs=1e-5)
    assert least_subgraphs(10, 2, 3) == 2
    assert least_subgraphs(0, 2) == 0


@pytest.mark.parametrize(("length", "restarts"), [(1, 1), (3, 1), (1, 4), (3, 2), (50, 1)])
def test_a_partition_into_walks(length: int, restarts: int) -> None:
    rng = np.random.default_rng(length)
    for trial in range(30):
        nodes = int(rng.integers(1, 40))
        adj = graph_of(random_links(rng, nodes, undirected=trial % 2 == 0))
        block = partition(adj, length, restarts, seed=trial)
        require_valid(block, adj, induced=True)
        assert np.array_equal(np.sort(block.nodes), np.arange(nodes))
        assert np.diff(block.ptr).max() <= 1 + restarts * length
        assert block.count >= least_subgraphs(nodes, length, restarts)
        require_walks(links_of(adj), block.nodes, block.ptr, length, restarts)


def require_walks(links: np.ndarray, nodes: np.ndarray, ptr: np.ndarray, length: int, restarts: int) -> None:
    """The rows of each subgraph are walks from its root, and a walk stops early only where nothing is free."""
    free = np.ones(len(nodes), dtype=bool)
    for start, stop in pairwise(ptr.tolist()):
        rest = nodes[start:stop].tolist()
        root = rest.pop(0)
        free[root] = False
        for _ in range(restarts):
            here = root
            for _ in range(length):
                if not (links[here] & free).any():
                    break
                assert links[here, rest[0]]
                here = rest.pop(0)
                free[here] = False
        assert not rest


def test_roots_and_steps_are_uniform() -> None:
    """Chi-square over the outcomes of 6,000 seeds on a directed graph, 5 and 2 degrees of freedom."""
    links = np.zeros((6, 6), dtype=bool)
    links[0, [1, 2, 4]] = True
    adj = graph_of(links)
    blocks = [partition(adj, 1, seed=seed) for seed in range(6000)]
    roots = np.bincount([block.nodes[0] for block in blocks], minlength=6)
    assert np.square(roots - 1000).sum() / 1000 < 25
    steps = Counter(int(block.nodes[1]) for block in blocks if block.nodes[0] == 0)
    assert set(steps) == {1, 2, 4}
    each = steps.total() / 3
    assert sum((count - each) ** 2 for count in steps.values()) / each < 18


def test_the_second_root_is_uniform_over_what_is_left() -> None:
    """Paths 0-1-2-3: given the first subgraph {0, 1}, the second root is 2 or 3 with even odds."""
    adj = graph_of(np.eye(4, k=1, dtype=bool) | np.eye(4, k=-1, dtype=bool))
    second = Counter(
        int(block.nodes[2])
        for block in (partition(adj, 1, seed=seed) for seed in range(6000))
        if set(block.nodes[:2].tolist()) == {0, 1} and block.ptr[1] == 2
    )
    assert set(second) == {2, 3}
    assert abs(second[2] - second[3]) < 4 * np.sqrt(second.total())


def test_a_seed_decides_everything() -> None:
    adj = random_adj(2)
    parts = ("nodes", "ptr", "indptr", "indices")
    first, again, other = (partition(adj, 3, 2, seed=seed) for seed in (5, 5, 6))
    assert all(np.array_equal(getattr(first, part), getattr(again, part)) for part in parts)
    assert not np.array_equal(first.nodes, other.nodes)


def test_mix_is_splitmix64() -> None:
    """The first outputs for seed 0, as published with the generator."""
    states = np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert [int(mix(state)) for state in states] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_this_very_partition_comes_out_everywhere() -> None:
    """Public coins must be the same on all machines and with all library versions."""
    ring = graph_of(np.roll(np.eye(8, dtype=bool), 1, axis=1) | np.roll(np.eye(8, dtype=bool), -1, axis=1))
    assert partition(ring, 2, seed=0).nodes.tolist() == [7, 6, 5, 3, 4, 1, 2, 0]


def test_chosen_roots_come_first_and_the_rest_is_still_covered() -> None:
    adj, roots = random_adj(3, density=0.03), np.arange(40) % 3 == 0
    block = partition(adj, 2, seed=1, roots=roots)
    chosen = roots[block.centres]
    assert (np.diff(chosen.astype(int)) <= 0).all()
    assert 0 < chosen.sum() < block.count
    assert np.array_equal(np.sort(block.nodes), np.arange(40))
    # A chosen node that roots nothing was reached by the walk of another.
    assert roots.sum() == chosen.sum() + roots[np.delete(block.nodes, block.ptr[:-1])].sum()


def test_hubs_lonely_nodes_and_no_nodes() -> None:
    links = np.zeros((500, 500), dtype=bool)
    links[0, 1:400] = links[1:400, 0] = True
    block = partition(graph_of(links), 1, 300, seed=0)
    assert np.array_equal(np.sort(block.nodes), np.arange(500))
    assert block.occurrences(500).max() == 1
    assert set(range(400, 500)) <= set(block.centres.tolist())
    assert partition(graph_of(np.zeros((0, 0), dtype=bool)), 2, seed=0).count == 0


def test_bad_arguments_are_refused() -> None:
    adj = random_adj(0)
    with pytest.raises(InvalidInput, match="length"):
        partition(adj, 0, seed=0)
    with pytest.raises(InvalidInput, match="restarts"):
        partition(adj, 1, 0, seed=0)
    with pytest.raises(InvalidInput, match="roots"):
        partition(adj, 1, seed=0, roots=np.ones(3, dtype=bool))
