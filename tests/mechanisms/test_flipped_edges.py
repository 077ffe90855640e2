"""Randomised response on all pairs: the exact law of what it releases, and what neighbours can tell from it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, kstest

from graphveil.data.arcs import Csr, Ids
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.flipped_edges import Asked, FlippedEdges, codes, ends, lit, row_starts, without
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.vocabulary import Floats

NOTHING = cast(Sealed, None)
SOURCES = [lambda: Seeded(11), Secure]
EPSILONS: Floats = np.linspace(0.0, 3.0, 31)

Edges = frozenset[tuple[int, int]]
"""Arcs (source, target); of an undirected edge the one whose source is lower."""


def pairs_of(nodes: int, undirected: bool) -> list[tuple[int, int]]:
    """Every pair, in the order of the mechanism's numbers."""
    return [(j, i) for i in range(nodes) for j in range(i if undirected else nodes) if i != j]


def graph_of(edges: Edges, nodes: int, undirected: bool) -> Csr:
    arcs = edges | {(i, j) for j, i in edges} if undirected else edges
    ends_of = np.array(sorted(arcs), dtype=np.int64).reshape(-1, 2)
    return Csr.from_edge_index(ends_of[:, 0], ends_of[:, 1], nodes)


def released(act: FlippedEdges, adj: Csr, share: float, source: Stream) -> Ids:
    return act.apply(NOTHING, lambda _: Asked(adj, share), source).numpy()


def subsets(pairs: list[tuple[int, int]]) -> Iterator[Edges]:
    for size in range(len(pairs) + 1):
        for chosen in itertools.combinations(pairs, size):
            yield frozenset(chosen)


def law(act: FlippedEdges, edges: Edges, pairs: list[tuple[int, int]], share: float) -> Floats:
    """The probability of every possible output, in the order of `subsets`."""
    keep, add = act.chances(share)
    chance = {pair: keep if pair in edges else add for pair in pairs}
    return np.array(
        [math.prod(chance[pair] if pair in out else 1 - chance[pair] for pair in pairs) for out in subsets(pairs)]
    )


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("undirected", [True, False])
def test_every_small_graph_comes_out_as_often_as_it_should(undirected: bool, make: Callable[[], Stream]) -> None:
    nodes, share, runs = (4, 0.6, 12_000) if undirected else (3, 0.8, 12_000)
    pairs = pairs_of(nodes, undirected)
    act, edges = FlippedEdges(1.2, undirected), frozenset({pairs[0], pairs[3], pairs[4]})
    adj, source = graph_of(edges, nodes, undirected), make()
    seen = Counter(frozenset(map(tuple, released(act, adj, share, source).T.tolist())) for _ in range(runs))
    expected = runs * law(act, edges, pairs, share)
    counts = np.array([seen[out] for out in subsets(pairs)], dtype=np.float64)
    assert counts.sum() == runs, "an output is no graph on these pairs"
    assert expected.min() > 2
    assert chisquare(counts, expected).pvalue > 1e-6


def random_graph(nodes: int, edges: int, undirected: bool, seed: int = 0) -> Csr:
    starts = row_starts(nodes, undirected)
    rng = np.random.default_rng(seed)
    sources, targets = ends(np.sort(rng.choice(int(starts[-1]), edges, replace=False)), starts, undirected)
    if undirected:
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    return Csr.from_edge_index(sources, targets, nodes)


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("undirected", [True, False])
def test_marginals_on_a_larger_graph(undirected: bool, make: Callable[[], Stream]) -> None:
    nodes, runs, act = 60, 600, FlippedEdges(2.0, undirected)
    adj, source, starts = random_graph(nodes, 400, undirected), make(), row_starts(nodes, undirected)
    edges = codes(adj, starts, undirected)
    share = act.share(int(starts[-1]), 400, 800)
    keep, add = act.chances(share)
    yeses, kept, added = np.zeros(int(starts[-1])), [], []
    for _ in range(runs):
        sources, targets = released(act, adj, share, source)
        numbers = codes(Csr.from_edge_index(sources, targets, nodes), starts, undirected)
        assert len(numbers) == len(sources), "a pair came out twice, turned round or as a loop"
        yeses[numbers] += 1
        kept.append(np.isin(numbers, edges).sum())
        added.append(len(numbers) - kept[-1])
    real = np.isin(np.arange(int(starts[-1])), edges)
    for which, rate, totals in ((real, keep, kept), (~real, add, added)):
        # Every pair alike, and totals with the binomial's spread: so the pairs are independent, too.
        spread = ((yeses[which] - runs * rate) ** 2).sum() / (runs * rate * (1 - rate))
        assert 1e-6 < chi2.cdf(spread, which.sum()) < 1 - 1e-6
        variance = which.sum() * rate * (1 - rate)
        assert abs(np.mean(totals) - which.sum() * rate) < 6 * math.sqrt(variance / runs)
        assert 0.7 < np.var(totals) / variance < 1.3


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
def test_places_are_distinct_uniform_and_as_many_as_a_binomial(make: Callable[[], Stream]) -> None:
    count, rate, source = 5_000_000_000, 2e-5, make()
    places = lit(source, count, rate)
    assert (np.diff(places) > 0).all()
    assert places[0] >= 0
    assert places[-1] < count
    assert abs(len(places) - count * rate) < 6 * math.sqrt(count * rate)
    assert kstest(places / count, "uniform").pvalue > 1e-6
    gaps = np.diff(places)
    assert abs(gaps.mean() * rate - 1) < 6 / math.sqrt(len(gaps))
    assert (gaps == 1).mean() < 1e-3
    sizes = [len(lit(source, 1000, 0.3)) for _ in range(2000)]
    assert np.mean(sizes) == pytest.approx(300, abs=6 * math.sqrt(210 / 2000))
    assert np.var(sizes) == pytest.approx(210, rel=0.25)


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize("rate", [0.5, 0.11, 0.003])
def test_skips_are_geometric(rate: float, make: Callable[[], Stream]) -> None:
    drawn = make().skips(100_000, rate)
    last = int(math.log(100 / len(drawn)) / math.log1p(-rate))
    expected = len(drawn) * rate * (1 - rate) ** np.arange(last)
    counts = np.bincount(np.minimum(drawn, last), minlength=last + 1)
    assert chisquare(counts, [*expected, len(drawn) - expected.sum()]).pvalue > 1e-6


def test_no_coin_and_no_place() -> None:
    assert len(lit(Seeded(0), 100, 0.0)) == 0
    assert len(lit(Seeded(0), 0, 0.5)) == 0
    assert lit(Seeded(0), 10, 1e-300).tolist() == []
    assert without(np.array([1, 4, 7]), np.array([0, 4, 9])).tolist() == [1, 7]
    assert without(np.empty(0, np.int64), np.array([3])).tolist() == []
    lonely = Csr.empty(1)
    assert released(FlippedEdges(1.0), lonely, 1.0, Seeded(0)).shape == (2, 0)


@pytest.mark.parametrize("undirected", [True, False])
def test_pairs_are_numbered_without_gaps(undirected: bool) -> None:
    starts = row_starts(7, undirected)
    assert starts[-1] == len(pairs_of(7, undirected)) == (21 if undirected else 42)
    found = ends(np.arange(starts[-1]), starts, undirected).T.tolist()
    assert [tuple(pair) for pair in found] == pairs_of(7, undirected)
    everything = graph_of(frozenset(pairs_of(7, undirected)), 7, undirected)
    assert codes(everything, starts, undirected).tolist() == list(range(int(starts[-1])))


@pytest.mark.parametrize("undirected", [True, False])
def test_without_noise_the_graph_comes_out_as_it_is(undirected: bool) -> None:
    adj, act = random_graph(30, 80, undirected), FlippedEdges(math.inf, undirected)
    assert act.share(435, 80.0, 80.0) == 1
    sources, targets = released(act, adj, 1.0, Seeded(0))
    out = frozenset(zip(sources.tolist(), targets.tolist(), strict=True))
    assert graph_of(out, 30, undirected).indices.tolist() == adj.indices.tolist()
    assert act.curve(1).infinite
    assert act.curve(2).infinite


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("wanted", [-5.0, 0.0, 50.0, 1000.0, 1e9])
def test_share_meets_the_wanted_number_and_the_ratios_never_exceed_epsilon(epsilon: float, wanted: float) -> None:
    act, pairs, edges = FlippedEdges(epsilon), 4950, 200
    keep, add = act.chances(act.share(pairs, edges, wanted))
    most = math.fsum(part * chance for part, chance in zip((edges, pairs - edges), act.chances(1.0), strict=True))
    assert keep * edges + add * (pairs - edges) == pytest.approx(min(max(wanted, 0.0), most))
    if keep > 0:
        assert math.log(keep / add) == pytest.approx(epsilon)
        assert math.log((1 - add) / (1 - keep)) <= epsilon * (1 + 1e-9)


# --- What neighbours can tell: the exact divergence of the exact laws. ---


def divergences(first: Floats, second: Floats) -> Floats:
    """H_{e^epsilon}(first || second) at each of EPSILONS."""
    return np.array([np.maximum(first - math.exp(epsilon) * second, 0).sum() for epsilon in EPSILONS])


def worst_excess(act: FlippedEdges, nodes: int, share_of: Callable[[Edges], float], moved: int = 1) -> float:
    """Largest divergence less what is claimed, over all neighbouring graphs, in both directions."""
    pairs = pairs_of(nodes, act.undirected)
    both = act.curve(moved).deltas(EPSILONS)
    assert both is not None
    worst = -math.inf
    for edges in subsets(pairs):
        present = law(act, edges, pairs, share_of(edges))
        for edge in edges:
            gone = {edge} if moved == 1 else {edge, edge[::-1]}
            if not gone <= edges:
                continue
            absent = law(act, edges - gone, pairs, share_of(edges - gone))
            worst = max(worst, float((divergences(present, absent) - both[0]).max()))
            worst = max(worst, float((divergences(absent, present) - both[1]).max()))
    return worst


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0, 7.0])
def test_no_neighbour_exceeds_the_claim_whatever_the_share(undirected: bool, share: float) -> None:
    nodes = 4 if undirected else 3
    excess = worst_excess(FlippedEdges(1.3, undirected), nodes, lambda _: share)
    assert excess <= 1e-12
    if share >= 1:
        assert excess >= -5e-6, "the claim is exact but for rounding where every yes is kept"


def test_both_arcs_of_an_edge_cost_two_answers() -> None:
    act = FlippedEdges(0.8, undirected=False)
    assert -5e-6 <= worst_excess(act, 3, lambda _: 1.0, moved=2) <= 1e-12
    assert worst_excess(replace(act, epsilon=1.0), 3, lambda _: 1.0) <= 1e-12
    cheap = act.curve(1).deltas(EPSILONS)
    dear = act.curve(2).deltas(EPSILONS)
    assert cheap is not None
    assert dear is not None
    assert (dear[0] > cheap[0] + 0.01).any()


def test_a_share_that_reads_the_graph_is_noticed() -> None:
    """The mutation: the density of the private graph itself, without noise, sets how many yeses are kept."""
    act = FlippedEdges(1.3)
    assert worst_excess(act, 4, lambda edges: act.share(6, len(edges), len(edges))) > 0.1


@pytest.mark.parametrize("moved", [1, 2])
def test_nothing_finite_is_claimed_where_doubles_cannot_lie(moved: int) -> None:
    """At epsilon 40 an edge would never be denied: a certificate of 80 for two answers would be false."""
    assert FlippedEdges(40.0, undirected=False).curve(moved).infinite
    assert FlippedEdges(17.1, undirected=False).curve(moved).infinite
    assert not FlippedEdges(17.0, undirected=False).curve(moved).infinite


def test_lies_are_never_rarer_than_doubles_can_draw() -> None:
    for epsilon in (0.5, 8.0, 17.0):
        for share in (1e-300, 1e-9, 0.3, 1.0):
            keep, add = FlippedEdges(epsilon).chances(share)
            assert add >= 2.0**-25 * (1 - 1e-12)
            assert keep < 1
            assert math.log(keep / add) == pytest.approx(epsilon)


def test_bad_arguments_are_refused() -> None:
    for epsilon in (-1.0, math.nan, "1"):
        with pytest.raises(InvalidInput):
            FlippedEdges(cast(float, epsilon))
    for sensitivity in (0, 0.5, 3, math.nan):
        with pytest.raises(InvalidInput):
            FlippedEdges(1.0).curve(sensitivity)
