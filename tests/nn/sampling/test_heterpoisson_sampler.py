"""HeterPoisson: laws of the coins, structure, and what one node can change on every small graph."""

from __future__ import annotations

import numpy as np
import pytest

from blocks_of import View, all_links, blank, changed, graph_of, random_adj, random_links, require_valid, subsets, views
from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.heterpoisson import draws_needed, keep_probabilities, sample
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Floats

NONE = np.empty(0, np.int64)
FOUR = [NONE, np.array([1]), np.array([0, 2]), np.array([0, 1, 3]), np.arange(4)]
"""Centres among four nodes: one set of every size, since all graphs are tried with it."""


def coupled(adj: Csr, centres: Ids, keep: Floats, coins: Floats, **options: bool) -> Subgraphs:
    """With the draw of every arc j -> i taken from coins[i, j], whatever else is in the graph."""
    rows = [coins[i, adj.indices[adj.indptr[i] : adj.indptr[i + 1]]] for i in centres]
    return sample(adj, centres, keep, np.concatenate([*rows, np.empty(0)]), **options)


def test_keep_probabilities() -> None:
    degrees = np.array([0, 1, 2, 4, 100])
    assert keep_probabilities(degrees, 2.0).tolist() == [0.0, 1.0, 1.0, 0.5, 0.02]
    assert keep_probabilities(degrees, 2.0, 0.3).tolist() == [0.0, 0.3, 0.3, 0.3, 0.02]
    for multiplier, p_max in ((0.0, 1.0), (1.0, 0.0), (1.0, 1.5)):
        with pytest.raises(InvalidInput):
            keep_probabilities(degrees, multiplier, p_max)


def test_every_arc_is_kept_at_its_rate_and_independently() -> None:
    """z-scores of all arcs against centre rate * keep, and of the pairs of arcs into one centre."""
    adj, source, rounds, rate = random_adj(0, nodes=12, density=0.4), Seeded(3), 4000, 0.3
    keep = keep_probabilities(np.bincount(adj.indices, minlength=12), 2.0)
    central, kept = np.zeros(12), np.zeros((rounds, 12, 12), dtype=bool)
    for step in range(rounds):
        centres = source.coins(12, rate).nonzero().flatten().numpy()
        block = sample(adj, centres, keep, source.uniform(draws_needed(adj, centres)), drop_centres=False)
        central[centres] += 1
        kept[step, np.repeat(centres, np.diff(block.ptr)), block.nodes] = True
    assert np.abs((central - rounds * rate) / np.sqrt(rounds * rate * (1 - rate))).max() < 4
    sources, targets = adj.indices, adj.targets()
    chance = rate * keep[sources]
    scores = (kept[:, targets, sources].sum(0) - rounds * chance) / np.sqrt(rounds * chance * (1 - chance))
    assert np.abs(scores).max() < 4
    assert np.square(scores).sum() < len(scores) + 4 * np.sqrt(2 * len(scores))
    first, second = np.array([(a, b) for a in range(len(sources)) for b in range(a) if targets[a] == targets[b]]).T
    both = rate * keep[sources[first]] * keep[sources[second]]
    pairs = (kept[:, targets[first], sources[first]] & kept[:, targets[second], sources[second]]).sum(0)
    assert np.abs((pairs - rounds * both) / np.sqrt(rounds * both * (1 - both))).max() < 4.5


def test_a_node_that_is_no_centre_occurs_binomially() -> None:
    """Occurrences of a hub of out-degree D have mean and variance of Bin(D, rate * M / D): U1 of privacy.md."""
    links = np.zeros((51, 51), dtype=bool)
    links[1:, 0] = True
    adj, source, rate, rounds = graph_of(links), Seeded(5), 0.4, 4000
    keep = keep_probabilities(np.bincount(adj.indices, minlength=51), 5.0)
    counts = []
    for _ in range(rounds):
        centres = 1 + source.coins(50, rate).nonzero().flatten().numpy()
        block = sample(adj, centres, keep, source.uniform(len(centres)))
        counts.append(block.occurrences(51)[0])
    p = rate * 0.1
    assert np.mean(counts) == pytest.approx(50 * p, abs=4 * np.sqrt(50 * p * (1 - p) / rounds))
    assert np.var(counts) == pytest.approx(50 * p * (1 - p), rel=0.15)


@pytest.mark.parametrize("induced", [False, True])
@pytest.mark.parametrize("drop_centres", [False, True])
def test_structure(induced: bool, drop_centres: bool) -> None:
    rng = np.random.default_rng(1)
    for trial in range(60):
        nodes = int(rng.integers(1, 25))
        adj = graph_of(random_links(rng, nodes, undirected=trial % 2 == 0))
        centres = np.flatnonzero(rng.random(nodes) < rng.random())
        keep = keep_probabilities(np.bincount(adj.indices, minlength=nodes), 3.0)
        draws = rng.random(draws_needed(adj, centres))
        block = sample(adj, centres, keep, draws, drop_centres=drop_centres, induced=induced)
        require_valid(block, adj, induced)
        assert np.array_equal(block.centres, centres)
        if drop_centres:
            assert block.occurrences(nodes)[centres].max(initial=1) == 1
        # What is left is what the degrees count: every other row sends to the centre, and is there once.
        degrees = np.diff(block.indptr)
        assert np.array_equal(degrees[block.ptr[:-1]], np.diff(block.ptr) - 1)
        again = sample(adj, centres, keep, draws, drop_centres=drop_centres, induced=induced)
        assert all(np.array_equal(getattr(block, part), getattr(again, part)) for part in ("nodes", "ptr", "indices"))


def test_only_the_stars_without_induced() -> None:
    adj = graph_of(~np.eye(4, dtype=bool))
    block = sample(adj, np.array([1, 2]), np.ones(4), np.full(6, 0.5))
    assert block.nodes.tolist() == [1, 0, 3, 2, 0, 3]
    assert block.ptr.tolist() == [0, 3, 6]
    assert block.indptr.tolist() == [0, 2, 2, 2, 4, 4, 4]
    assert block.indices.tolist() == [1, 2, 4, 5]


def test_empty_batch_lonely_nodes_and_loops() -> None:
    adj = Csr.from_edge_index(np.array([2, 1]), np.array([2, 2]), 4)
    empty = sample(adj, NONE, np.ones(4), np.empty(0), induced=True)
    assert (empty.count, len(empty.nodes)) == (0, 0)
    assert sample(adj, NONE, np.ones(4), np.empty(0)).count == 0
    alone = sample(adj, np.array([0, 3]), np.ones(4), np.empty(0))
    assert alone.nodes.tolist() == [0, 3]
    looped = sample(adj, np.array([2]), np.ones(4), np.full(2, 0.1), drop_centres=False)
    assert looped.nodes.tolist() == [2, 1]


def test_a_hub_as_centre() -> None:
    links = np.zeros((2000, 2000), dtype=bool)
    links[0, 1:] = links[1:, 0] = True
    adj = graph_of(links)
    keep = keep_probabilities(np.bincount(adj.indices, minlength=2000), 1.0)
    centres = np.arange(0, 2000, 2)
    block = sample(adj, centres, keep, np.full(draws_needed(adj, centres), 0.5), induced=True)
    assert block.ptr[1] == 1001
    assert (np.diff(block.ptr)[1:] == 1).all()
    require_valid(block, adj, induced=True)


def test_wrong_shapes_are_refused() -> None:
    adj = random_adj(0)
    with pytest.raises(InvalidInput, match="draws"):
        sample(adj, np.array([0, 1]), np.ones(40), np.empty(1))
    with pytest.raises(InvalidInput, match="keep"):
        sample(adj, NONE, np.ones(39), np.empty(0))


def expected_change(node: int, here: dict[int, View], drop_centres: bool) -> tuple[set[int], set[int]]:
    """(must change, may change) when `node` is blanked: its own subgraph may have been a lone node already."""
    holders = {centre for centre, (nodes, _) in here.items() if node in nodes}
    if drop_centres and node in here:
        assert holders == {node}
    return holders - {node}, holders


def require_stable(links: np.ndarray, there: list[dict[int, View]], here: dict[int, View], drop: bool) -> None:
    for node in range(len(links)):
        must, may = expected_change(node, here, drop)
        assert must <= changed(here, there[node]) <= may


@pytest.mark.parametrize("drop_centres", [True, False])
@pytest.mark.parametrize("induced", [True, False])
def test_blanking_a_node_on_every_graph_of_up_to_four_nodes(drop_centres: bool, induced: bool) -> None:
    """A centre changes its own subgraph alone; any other node changes exactly the k subgraphs that kept it.

    Without the overlap rule a centre changes its own AND the k that kept it: this is what the rule is for.
    """
    overlaps = 0
    for nodes in (1, 2, 3, 4):
        keep = np.linspace(0.4, 1.0, nodes)
        coins = np.random.default_rng(nodes).random((nodes, nodes))
        # Blanked graphs are graphs of the same enumeration, so each is sampled once.
        graphs = list(all_links(nodes))
        number = {links.tobytes(): code for code, links in enumerate(graphs)}
        without = [[number[blank(links, node).tobytes()] for node in range(nodes)] for links in graphs]
        packed = [graph_of(links) for links in graphs]
        for centres in subsets(nodes) if nodes < 4 else FOUR:
            seen = [
                views(coupled(adj, centres, keep, coins, drop_centres=drop_centres, induced=induced)) for adj in packed
            ]
            for code, links in enumerate(graphs):
                require_stable(links, [seen[other] for other in without[code]], seen[code], drop_centres)
                overlaps += sum(len(nodes & set(centres.tolist())) > 1 for nodes, _ in seen[code].values())
    assert (overlaps == 0) == drop_centres


@pytest.mark.parametrize("drop_centres", [True, False])
def test_blanking_a_node_on_random_graphs(drop_centres: bool) -> None:
    rng = np.random.default_rng(7)
    for trial in range(150):
        nodes = int(rng.integers(5, 13))
        links = random_links(rng, nodes, undirected=trial % 2 == 0)
        # The degrees of the population: the same for the graph with and without the node.
        keep = keep_probabilities(links.sum(0), 2.0)
        coins, centres = rng.random((nodes, nodes)), np.flatnonzero(rng.random(nodes) < 0.5)
        options = {"drop_centres": drop_centres, "induced": trial % 3 == 0}
        here = views(coupled(graph_of(links), centres, keep, coins, **options))
        there = [views(coupled(graph_of(blank(links, node)), centres, keep, coins, **options)) for node in range(nodes)]
        require_stable(links, there, here, drop_centres)


def test_present_degrees_would_not_be_stable() -> None:
    """With keep computed from the arcs that are there, a blanked node changes subgraphs that never held it."""
    links = np.zeros((4, 4), dtype=bool)
    links[1, 0] = links[2, 0] = True
    coins, centres = np.full((4, 4), 0.6), np.array([1, 2])
    here, there = (
        views(coupled(graph_of(each), centres, keep_probabilities(each.sum(0), 1.0), coins))
        for each in (links, blank(links, 2))
    )
    assert 2 not in here[1][0]
    assert 1 in changed(here, there)
