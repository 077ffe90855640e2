"""The largest of all noisy pairs: the exact law of what is named, against noise on every pair, and its cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import cast

import numpy as np
import pytest
import torch
from scipy.stats import beta, chi2_contingency, chisquare, kstest, laplace

from graphveil.data.arcs import Csr, Ids
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.flipped_edges import codes, ends, row_starts
from graphveil.mechanisms.top_pairs import Ranked, TopPairs, absent, top_laplace
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.vocabulary import Floats

NOTHING = cast(Sealed, None)
SOURCES = [pytest.param(lambda: Seeded(11), id="seeded"), pytest.param(Secure, id="secure", marks=pytest.mark.slow)]
RUNS = 6_000


def released(act: TopPairs, adj: Csr, count: int, source: Stream) -> Ids:
    return act.apply(NOTHING, lambda _: Ranked(adj, count), source).numpy()


def graph_of(numbers: list[int], nodes: int, undirected: bool) -> Csr:
    """The graph whose pairs have these numbers."""
    starts = row_starts(nodes, undirected)
    sources, targets = ends(np.array(sorted(numbers), dtype=np.int64), starts, undirected)
    if undirected:
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    return Csr.from_edge_index(sources, targets, nodes)


def named(act: TopPairs, adj: Csr, count: int, source: Stream) -> tuple[int, ...]:
    """The numbers of the pairs of one release."""
    starts = row_starts(adj.num_nodes, act.undirected)
    sources, targets = released(act, adj, count, source)
    listed = Csr.from_edge_index(sources, targets, adj.num_nodes)
    return tuple(codes(listed, starts, act.undirected).tolist())


def chance(pairs: int, edges: list[int], named: tuple[int, ...], scale: float) -> float:
    """Exactly: the probability that `named` are the largest, by integrating over the least of them."""
    nodes, weights = np.polynomial.legendre.leggauss(120)
    total = 0.0
    # Smooth between the kinks at 0 and 1.
    for low, high in pairwise([-40 * scale, -5 * scale, 0, 1, 1 + 5 * scale, 1 + 45 * scale]):
        values = (high + low) / 2 + (high - low) / 2 * nodes
        at = [(values - (pair in edges)) / scale for pair in range(pairs)]
        below, above, density = laplace.cdf(at), laplace.sf(at), laplace.pdf(at)
        rest = np.prod([below[pair] for pair in range(pairs) if pair not in named], axis=0)
        least = sum(density[p] * np.prod([above[q] for q in named if q != p], axis=0) for p in named)
        total += float((weights * rest * least).sum()) * (high - low) / 2 / scale
    return total


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize(("nodes", "undirected", "count"), [(4, True, 2), (3, False, 3), (4, True, 5)])
def test_every_output_comes_as_often_as_it_should(
    nodes: int, undirected: bool, count: int, make: Callable[[], Stream]
) -> None:
    act, edges = TopPairs(0.8, undirected), [0, 3]
    adj, source = graph_of(edges, nodes, undirected), make()
    pairs = int(row_starts(nodes, undirected)[-1])
    outputs = list(combinations(range(pairs), count))
    expected = np.array([chance(pairs, edges, out, act.scale) for out in outputs])
    assert expected.sum() == pytest.approx(1, abs=1e-6)
    seen = Counter(named(act, adj, count, source) for _ in range(RUNS))
    counts = np.array([seen[out] for out in outputs], dtype=np.float64)
    assert counts.sum() == RUNS
    assert chisquare(counts, RUNS * expected / expected.sum()).pvalue > 1e-6
    quieter = np.array([chance(pairs, edges, out, act.scale / 1.3) for out in outputs])
    assert chisquare(counts, RUNS * quieter / quieter.sum()).pvalue < 1e-6, "the test would not notice less noise"


def test_the_number_of_real_edges_is_that_of_brute_force() -> None:
    """Noise on every one of 435 pairs, drawn by numpy, against the mechanism's order statistics."""
    nodes, edges, count, scale = 30, list(range(0, 400, 10)), 50, 0.5
    adj, source, rng = graph_of(edges, nodes, True), Seeded(3), np.random.default_rng(0)
    truth = np.zeros(435)
    truth[edges] = 1
    mine = [len(set(named(TopPairs(scale), adj, count, source)) & set(edges)) for _ in range(4000)]
    scores = truth + rng.laplace(size=(4000, 435)) * scale
    brute = truth[np.argsort(scores, axis=1)[:, -count:]].sum(axis=1).astype(int)
    table = np.stack([np.bincount(side, minlength=41) for side in (mine, brute)])
    assert chi2_contingency(table[:, table.sum(axis=0) > 20]).pvalue > 1e-6


@pytest.mark.parametrize(("count", "rank"), [(10, 0), (10, 4), (10, 9), (5000, 0), (5000, 2600), (10**9, 1500)])
def test_order_statistics_have_their_law(count: int, rank: int) -> None:
    """The chance to exceed the (rank + 1)-th largest of `count` draws is Beta(rank + 1, count - rank)."""
    drawn = np.array([top_laplace(Seeded(seed), count, rank + 1)[rank] for seed in range(2000)])
    assert kstest(laplace.sf(drawn), beta(rank + 1, count - rank).cdf).pvalue > 1e-6


def test_order_statistics_fall() -> None:
    values = top_laplace(Secure(), 3000, 3000)
    assert len(values) == 3000
    assert (np.diff(values) <= 0).all()
    assert np.isfinite(values).all()
    assert len(top_laplace(Seeded(0), 5, 0)) == 0


def test_ranks_of_strangers_are_turned_into_pair_numbers() -> None:
    edges = np.array([0, 3, 4, 9])
    free = np.setdiff1d(np.arange(12), edges)
    assert absent(np.arange(8), edges).tolist() == free.tolist()
    assert absent(np.arange(3), np.empty(0, np.int64)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("undirected", [True, False])
def test_counts_are_met_and_cut(undirected: bool) -> None:
    adj, act = graph_of([1, 5, 6, 20], 8, undirected), TopPairs(1.0, undirected)
    pairs = 28 if undirected else 56
    for asked, found in ((-3, 0), (0, 0), (1, 1), (20, 20), (pairs, pairs), (10**12, pairs)):
        sources, targets = released(act, adj, asked, Seeded(1))
        assert len(sources) == found
        assert len(set(zip(sources.tolist(), targets.tolist(), strict=True))) == found
        assert (sources < targets).all() if undirected else (sources != targets).all()


def test_without_noise_the_graph_comes_out_as_it_is() -> None:
    adj = graph_of([1, 5, 6, 20], 8, True)
    assert named(TopPairs(0.0), adj, 4, Seeded(0)) == (1, 5, 6, 20)
    assert TopPairs(0.0).curve(1).infinite
    assert TopPairs(1 / 32 - 2.0**-40).curve(1).infinite
    assert TopPairs(1 / 32).curve(1).epsilon == pytest.approx(32, abs=1e-4)


class Extreme(Seeded):
    """Draws the least uniforms that a secure source has, and after them large ones."""

    def __init__(self) -> None:
        super().__init__(0)
        self.least = True

    def uniform(self, count: int) -> Floats:
        self.least = not self.least
        return np.full(count, 0.75 if self.least else 2.0**-107)


def test_a_stranger_can_beat_any_edge_of_which_something_is_claimed() -> None:
    """Were no stranger able to score above 37 scales, an edge could be told from none for certain at epsilon 40."""
    assert float(top_laplace(Extreme(), 1, 1)[0]) > 70


def test_no_more_is_named_than_rounding_is_charged_for() -> None:
    nodes = 3000  # 4,498,500 pairs
    assert released(TopPairs(1.0), Csr.empty(nodes), 10**9, Seeded(0)).shape == (2, 1 << 22)


def test_one_pair_and_no_pair() -> None:
    assert released(TopPairs(1.0), Csr.empty(1), 5, Seeded(0)).shape == (2, 0)
    assert released(TopPairs(1.0), Csr.empty(2), 5, Secure()).tolist() == [[0], [1]]


def test_no_output_is_likelier_than_claimed() -> None:
    """Exact likelihood ratios of all outputs, for all neighbours of all graphs with three nodes."""
    act = TopPairs(0.7)
    for count in (1, 2):
        for size in range(4):
            for edges in combinations(range(3), size):
                for extra in set(range(3)) - set(edges):
                    for out in combinations(range(3), count):
                        ratio = chance(3, [*edges], out, 0.7) / chance(3, [*edges, extra], out, 0.7)
                        assert abs(math.log(ratio)) <= act.curve(1).epsilon + 1e-6


def test_bad_arguments_are_refused() -> None:
    for scale in (-1.0, math.nan):
        with pytest.raises(InvalidInput):
            TopPairs(scale)
    with pytest.raises(InvalidInput):
        TopPairs(1.0).curve(2)


@pytest.mark.parametrize("count", [30, 90, 150])
def test_the_evidence_is_how_much_likelier_an_edge_is_named_where_so_many_are(count: int) -> None:
    edges = list(range(0, 270, 3))
    here, there, act = graph_of(edges, 24, True), graph_of(edges[1:], 24, True), TopPairs(0.5)
    worlds = {"here": here, "there": there}
    query = lambda world: Ranked(worlds[world], count)  # noqa: E731
    source, runs = Seeded(0), 2000
    shares = [np.mean([0 in named(act, adj, count, source) for _ in range(runs)]) for adj in (here, there)]
    with_it, without = (
        torch.from_numpy(ends(np.array(said), row_starts(24, True), True))
        for said in ([0, *range(1, count)], range(1, count + 1))
    )
    told = [act.evidence("here", "there", query, answer) for answer in (with_it, without)]  # type: ignore[arg-type]
    assert told[0] == pytest.approx(math.log(shares[0] / shares[1]), abs=0.35)
    assert told[1] == pytest.approx(math.log((1 - shares[0]) / (1 - shares[1])), abs=0.35)


@pytest.mark.parametrize("count", [0, 276])
def test_where_none_or_all_are_named_nothing_is_told(count: int) -> None:
    worlds = {"here": graph_of([0, 5], 24, True), "there": graph_of([5], 24, True)}
    answer = torch.from_numpy(ends(np.arange(count), row_starts(24, True), True))
    assert TopPairs(0.5).evidence("here", "there", lambda world: Ranked(worlds[world], count), answer) == 0.0  # type: ignore[arg-type, index]
