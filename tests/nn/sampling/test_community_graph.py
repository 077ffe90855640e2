"""Graphs drawn from communities: their law, their bounds, and the numbers they are drawn from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphveil.nn.sampling.community_graph import CommunityGraph, norm_sub


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_pairs_appear_as_often_as_they_should() -> None:
    home = np.array([1, 0, 0, 1, 0, 0])
    degrees = np.array([1.0, 2.0, 1.0, 0.5, 0.0, 1.0])
    drawn, runs = CommunityGraph(home, degrees, np.array([1.3])), 6_000
    seen, coins = np.zeros((6, 6)), rng()
    for _ in range(runs):
        lower, higher = drawn.draw(coins)
        seen[lower, higher] += 1
    for i in range(6):
        for j in range(i + 1, 6):
            if home[i] == home[j]:
                total = degrees[home == home[i]].sum()
                chance = 1 - math.exp(-degrees[i] * degrees[j] / total)
            else:
                # One draw for certain, and one more with chance 0.3, each among 8 pairs.
                chance = 0.7 / 8 + 0.3 * (1 - (7 / 8) ** 2)
            assert seen[i, j] / runs == pytest.approx(chance, abs=5 * math.sqrt(0.25 / runs))
    assert not np.tril(seen).any()
    assert not seen[4, 5], "a node of degree 0 gets no edge inside"


def test_sums_are_those_of_a_large_community() -> None:
    home, degrees = np.zeros(5000, np.int64), np.full(5000, 8.0)
    lower, higher = CommunityGraph(home, degrees, np.empty(0)).draw(rng())
    assert len(lower) == pytest.approx(20_000, rel=0.05)
    assert len(np.unique(higher * 5000 + lower)) == len(lower)


@pytest.mark.parametrize("sizes", [(1,), (2,), (1, 1), (3, 1, 2)])
def test_any_numbers_give_a_valid_graph(sizes: tuple[int, ...]) -> None:
    home = np.repeat(np.arange(len(sizes)), sizes)
    pairs = len(home) * (len(home) - 1) // 2
    for seed, scale in enumerate([0.0, 1e-9, 1.0, 1e6, 1e12] * 4):
        noise = rng(seed)
        degrees, between = (noise.laplace(size=k) * scale for k in (len(home), len(sizes) * (len(sizes) - 1) // 2))
        lower, higher = CommunityGraph.fitted(home, degrees, between, 1000).draw(noise)
        assert (lower < higher).all()
        assert (lower >= 0).all()
        assert len(set(zip(lower.tolist(), higher.tolist(), strict=True))) == len(lower) <= pairs


def test_no_more_edges_are_expected_than_allowed() -> None:
    home = rng().integers(4, size=3000)
    huge = CommunityGraph.fitted(home, np.full(3000, 1e12), np.full(6, 1e12), 10_000)
    assert huge.degrees.sum() / 2 + huge.between.sum() == pytest.approx(10_000)
    assert huge.draw(rng()).shape[1] <= 11_000
    wide = CommunityGraph.fitted(home, np.full(3000, 1e12), np.full(6, 1e12), 10**9)
    sizes = np.bincount(home)
    assert wide.degrees.tolist() == (sizes[home] - 1).tolist()
    assert wide.between.tolist() == [sizes[a] * sizes[b] for a in range(4) for b in range(a)]


def test_norm_sub_keeps_sums() -> None:
    noise = rng(3)
    for size in (1, 2, 10, 1000):
        for shift in (-1.0, 0.0, 0.5, 5.0):
            noisy = noise.laplace(size=size) + shift
            kept = norm_sub(noisy)
            assert (kept >= 0).all()
            assert kept.sum() == pytest.approx(max(noisy.sum(), 0.0))
            assert (np.argsort(kept, kind="stable")[-1] == np.argsort(noisy)[-1]) or not kept.any()
    assert norm_sub(np.array([3.0, 1.0, 0.0])).tolist() == [3, 1, 0]
    assert norm_sub(np.array([4.0, 2.0, -2.0])) == pytest.approx([3, 1, 0])
    assert norm_sub(np.empty(0)).tolist() == []


def test_seeds_repeat() -> None:
    drawn = CommunityGraph(np.arange(50) % 3, np.full(50, 3.0), np.full(3, 4.0))
    assert np.array_equal(drawn.draw(rng(5)), drawn.draw(rng(5)))
    assert not np.array_equal(drawn.draw(rng(5)), drawn.draw(rng(6)))
