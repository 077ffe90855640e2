"""Nodes that settle in communities: the exact law of what is released, and its cost over all small neighbours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import cast

import numpy as np
import pytest
from neighbours import log_chances
from scipy.stats import chisquare

from graphveil.data.arcs import Csr, Ids
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.community_assignment import Settling, Unsettled
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.vocabulary import Floats

NOTHING = cast(Sealed, None)
PAIRS = [(1, 0), (2, 0), (2, 1)]


def graph_of(edges: list[tuple[int, int]], nodes: int = 3) -> Csr:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return Csr.from_edge_index(
        np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]]), nodes
    )


def ask(adj: Csr, lean: Floats, home: list[int] | None = None) -> Unsettled:
    start = np.array(home if home is not None else [0] * adj.num_nodes, dtype=np.int64)
    return Unsettled(adj, start, lean, np.arange(adj.num_nodes)[::-1].copy())


def settle(act: Settling, asked: Unsettled, source: Stream) -> Ids:
    return act.apply(NOTHING, lambda _: asked, source).numpy()


def chance(act: Settling, asked: Unsettled, out: tuple[int, ...]) -> float:
    """Exactly: the log probability of an output."""
    settled = np.array(out)
    told = zip(asked.order, log_chances(act, asked, settled), strict=True)
    return float(sum(chances[settled[node]] for node, chances in told))


@pytest.mark.parametrize("make", [lambda: Seeded(11), Secure], ids=["seeded", "secure"])
def test_every_output_comes_as_often_as_it_should(make: Callable[[], Stream]) -> None:
    act, source = Settling(0.8), make()
    asked = ask(graph_of([(1, 0), (2, 1)]), np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -0.5], [-0.3, 0.0, 0.0]]), [0, 1, 2])
    outputs = list(product(range(3), repeat=3))
    expected = np.exp([chance(act, asked, out) for out in outputs])
    assert expected.sum() == pytest.approx(1)
    seen = Counter(tuple(settle(act, asked, source).tolist()) for _ in range(20_000))
    counts = np.array([seen[out] for out in outputs], dtype=np.float64)
    assert chisquare(counts, 20_000 * expected).pvalue > 1e-6
    still = np.exp([chance(Settling(1.2), asked, out) for out in outputs])
    assert chisquare(counts, 20_000 * still).pvalue < 1e-6, "the test would not notice another scale"


@pytest.mark.parametrize("lean", [0.0, 3.0, 40.0])
def test_no_output_is_likelier_than_claimed_and_one_nearly_is(lean: float) -> None:
    """All outputs, all pairs of neighbours among graphs of three nodes, all starts, two or four communities."""
    rng, worst = np.random.default_rng(0), 0.0
    for scale, width in ((0.5, 2), (2.0, 4)):
        act = Settling(scale)
        for kept in product((False, True), repeat=2):
            rest = [pair for pair, take in zip(PAIRS[1:], kept, strict=True) if take]
            home = rng.integers(width, size=3).tolist()
            leans = -lean * rng.random((3, width))
            with_edge, without = (ask(graph_of(edges), leans, home) for edges in ([PAIRS[0], *rest], rest))
            for out in product(range(width), repeat=3):
                moved = abs(chance(act, with_edge, out) - chance(act, without, out))
                worst = max(worst, moved / act.curve(2).epsilon)
    assert worst <= 1
    assert worst > (0.4 if lean == 0 else 0.0)


def test_two_moves_are_needed_in_the_claim() -> None:
    """Joined nodes settle together in a rare community: nearly e^(2 / scale) as often as strangers."""
    act, width = Settling(1.0), 4000
    joined, apart = (ask(graph_of(edges, 2), np.zeros((2, width)), [7, 7]) for edges in ([(1, 0)], []))
    ratio = chance(act, joined, (7, 7)) - chance(act, apart, (7, 7))
    assert 1.99 < ratio <= act.curve(2).epsilon
    assert ratio > 1.9 * act.curve(1).epsilon


def test_one_neighbour_more_than_many_costs_no_more() -> None:
    """Around the cut at 32: a hub whose largest community is far ahead, or just overtaken."""
    act = Settling(1 / 3)
    for many, few in product((0, 1, 9, 10, 11, 12, 40), repeat=2):
        nodes = many + few + 2
        home = [0] * (many + 1) + [1] * few + [2]
        edges = [(0, other) for other in range(1, nodes - 1)]
        for extra in ([(0, nodes - 1)], [(0, 1)] if many else []):
            near = [edge for edge in edges if edge not in extra] if extra == [(0, 1)] else edges + extra
            first, second = (
                log_chances(act, ask(graph_of(e, nodes), np.zeros((nodes, 3)), home), np.array(home))[-1]
                for e in (edges, near)
            )
            assert np.abs(first - second).max() <= 1 / act.scale + 1e-9


class Loud(Seeded):
    """The largest Gumbel value that a secure source draws, in turn with the least."""

    def gumbel(self, count: int) -> Floats:
        return np.where(np.arange(count) % 2 == 1, 74.0, -4.3)


def test_a_deserted_community_can_still_be_chosen() -> None:
    """Its chance is e^-32 at least, so no output of one graph is impossible under another."""
    nodes = 200
    asked = ask(graph_of([(0, other) for other in range(1, nodes)], nodes), np.tile([0.0, -1e9], (nodes, 1)))
    assert settle(Settling(0.1), asked, Loud(0)).tolist() == [1] * nodes
    assert float(np.exp(log_chances(Settling(0.1), asked, asked.home)[-1][1])) == pytest.approx(math.exp(-32), rel=1e-6)


@pytest.mark.parametrize(("ahead", "chosen"), [(31.99, 0), (32.01, 1)])
def test_exponents_are_cut_at_32_below_the_largest(ahead: float, chosen: int) -> None:
    """The floor under a deserted community is what is claimed: noise of just 32 more takes a node there."""

    class Ahead(Seeded):
        def gumbel(self, count: int) -> Floats:
            return np.where(np.arange(count) % 2 == 1, ahead, 0.0)

    # Five neighbours at home count 50 noise scales.
    star = graph_of([(0, other) for other in range(1, 6)], 6)
    asked = Unsettled(star, np.zeros(6, np.int64), np.zeros((6, 2)), np.array([0]))
    assert settle(Settling(0.1), asked, Ahead(0))[0] == chosen


def test_later_nodes_hear_where_earlier_ones_have_gone() -> None:
    path = graph_of([(1, 0), (2, 1)])
    asked = Unsettled(path, np.array([0, 1, 2]), np.zeros((3, 3)), np.array([1, 2, 0]))
    out = settle(Settling(0.0), asked, Seeded(0)).tolist()
    assert out[0] == out[1] == out[2]
    assert out[1] in (0, 2)
    assert asked.home.tolist() == [0, 1, 2], "what was asked is left as it was"


def test_without_noise_the_most_frequent_wins_and_nothing_is_claimed() -> None:
    star = graph_of([(0, 1), (0, 2), (0, 3), (0, 4)], 5)
    asked = Unsettled(star, np.array([0, 1, 1, 2, 2]), np.array([[0.0, -5.0, 0.0]] * 5), np.array([0]))
    assert {int(settle(Settling(0.0), asked, Seeded(seed))[0]) for seed in range(20)} <= {1, 2}
    assert Settling(0.0).curve(2).infinite
    assert Settling(1 / 33).curve(1).infinite
    assert Settling(1 / 32).curve(1).epsilon == pytest.approx(32, abs=1e-6)


def test_blocks_of_noise_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    adj = graph_of([tuple(pair) for pair in rng.permutation(30).reshape(-1, 2).tolist()], 30)
    asked = ask(adj, np.zeros((30, 4)))
    whole = settle(Settling(1.0), asked, Seeded(2))
    monkeypatch.setattr("graphveil.mechanisms.community_assignment._BLOCK", 8)
    assert settle(Settling(1.0), asked, Seeded(2)).tolist() == whole.tolist()


@pytest.mark.parametrize("scale", [-1.0, math.nan])
def test_bad_scales_are_refused(scale: float) -> None:
    with pytest.raises(InvalidInput):
        Settling(scale)


@pytest.mark.parametrize("heard", [0, 3, 0.5, math.nan])
def test_bad_sensitivities_are_refused(heard: float) -> None:
    with pytest.raises(InvalidInput):
        Settling(1.0).curve(heard)
