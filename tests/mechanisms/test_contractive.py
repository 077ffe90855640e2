"""Contractive chains: what the projection does, what K hops cost, and what is attained."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.stats import norm

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.contractive import Contractive, convergence, score_law, telling_direction
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.nn.aggregate import NeighbourSums, clip_rows
from graphveil.nn.features import unit_rows
from graphveil.privacy.noise import Secure, Seeded
from graphveil.vocabulary import Floats

NOTHING = cast(Sealed, None)
EPSILONS = np.array([0.0, 0.25, 1.0, 3.0])


def path(nodes: int) -> Csr:
    ids = np.arange(nodes - 1)
    return Csr.from_edge_index(np.r_[ids, ids + 1], np.r_[ids + 1, ids], nodes)


def ran(act: Contractive, adj: Csr, rows: torch.Tensor, seed: int = 0) -> torch.Tensor:
    return act.apply(NOTHING, lambda _: NeighbourSums(adj, rows), Seeded(seed)).double()


def test_layers_are_equation_four() -> None:
    """Dense matrices, by hand, with the projection before every hop but not after the last."""
    act = Contractive(0.3, 3, lipschitz=0.7, alpha=0.8, beta=1.5, tau=2.0, loops=0.5)
    rows = torch.from_numpy(np.random.default_rng(1).standard_normal((6, 3)))
    adjacency = torch.from_numpy(path(6).to_scipy().toarray()).double()
    scale = torch.diag((adjacency.sum(1) + 2) ** -0.5)
    operator = scale @ (adjacency + 0.5 * torch.eye(6)) @ scale
    start = clip_rows(rows, 1.0)
    source, state = Seeded(4), start
    for _ in range(3):
        state = clip_rows(state, 1.0)
        state = 0.7 * (0.8 * operator @ state + 0.2 * state.mean(0)) + 1.5 * start
        state = state + 0.3 * torch.from_numpy(source.normal(18)).reshape(6, 3)
    assert torch.allclose(ran(act, path(6), rows, seed=4), state, atol=1e-5)


def test_arcs_are_scaled_by_in_and_out_degrees() -> None:
    adj = Csr.from_edge_index(np.array([0, 0, 1]), np.array([1, 2, 2]), 3)
    act = Contractive(0.0, 1, lipschitz=0.5, beta=0.0, tau=1.0, loops=0.0)
    expected = torch.zeros(3, 3)
    expected[1, 0], expected[2, 0], expected[2, 1] = 1 / math.sqrt(2 * 3), 1 / math.sqrt(3 * 3), 1 / math.sqrt(3 * 2)
    assert torch.allclose(ran(act, adj, torch.eye(3)), 0.5 * expected.double(), atol=1e-7)


def test_clipping_moves_no_two_states_apart_and_normalising_does() -> None:
    generator = torch.Generator().manual_seed(0)
    for scale in (0.1, 1.0, 10.0):
        one, other = (scale * torch.randn(500, 4, generator=generator, dtype=torch.float64) for _ in range(2))
        apart = (clip_rows(one, 1.0) - clip_rows(other, 1.0)).norm(dim=1)
        assert (apart <= (one - other).norm(dim=1) * (1 + 1e-12)).all()
    near = torch.tensor([[0.01, 0.0], [-0.01, 0.0]], dtype=torch.float64)
    assert (near[0] - near[1]).norm() == pytest.approx(0.02)
    assert (unit_rows(near)[0] - unit_rows(near)[1]).norm() == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(20))
def test_every_hop_contracts(seed: int) -> None:
    """Stars, hubs and arcs: the operator norm of a hop is at most C_L."""
    rng = np.random.default_rng(seed)
    nodes = 12
    links = rng.random((nodes, nodes)) < rng.random() ** 2
    links[0] |= seed % 2 == 0
    np.fill_diagonal(links, False)
    targets, sources = np.nonzero(links | links.T if seed % 3 else links)
    adj = Csr.from_edge_index(sources, targets, nodes)
    tau = float(10 ** rng.uniform(-2, 2))
    act = Contractive(0.0, 1, lipschitz=0.6, alpha=float(rng.uniform(0.1, 1)), beta=0.0, tau=tau, loops=tau)
    assert torch.linalg.matrix_norm(ran(act, adj, torch.eye(nodes)), ord=2) <= 0.6 * (1 + 1e-6)


def test_convergence() -> None:
    for contraction in (0.05, 0.5, 0.8, 0.99):
        costs = [convergence(contraction, hops) for hops in range(1, 200)]
        assert costs[0] == pytest.approx(1.0)
        assert (np.diff(costs) >= -1e-9).all()
        limit = (1 + contraction) / (1 - contraction)
        assert all(cost <= min(hops, limit) * (1 + 1e-9) for hops, cost in enumerate(costs, start=1))


@pytest.mark.parametrize("contraction", [0.3, 0.8, 0.95])
def test_a_linear_chain_attains_the_bound(contraction: float) -> None:
    """x <- c x + s + N against x <- c x + N: two Gaussians, whose distance is exactly mu."""
    for hops in range(1, 21):
        act = Contractive(0.7, hops, lipschitz=contraction)
        weights = contraction ** np.arange(hops)
        exact = 0.4 * weights.sum() / (0.7 * math.sqrt((weights**2).sum()))
        assert act.curve(0.4).mu == pytest.approx(exact, rel=1e-9)


class Chain:
    """x <- c clip(x) + shift + N(0, std^2) on the line, from x = 0: the exact law, up to a fine grid.

    Mass that the noise carries outside [-1, 1] sits on the ends after clipping.
    """

    def __init__(self, contraction: float, shift: float, std: float, cells: Floats) -> None:
        edges = np.linspace(-1, 1, 402)
        states = np.r_[-1.0, (edges[1:] + edges[:-1]) / 2, 1.0]

        def next_masses(at: Floats) -> Floats:
            """P(the next x lies in each cell between `at`, or outside on either end), from every state."""
            below = norm.cdf((at[None, :] - contraction * states[:, None] - shift) / std)
            return np.diff(below, axis=1, prepend=0.0, append=1.0)

        self._hidden, self._released = next_masses(edges), next_masses(cells)
        self.masses = np.zeros(len(states))
        self.masses[np.abs(states).argmin()] = 1.0

    def hop(self) -> None:
        self.masses = self.masses @ self._hidden

    def released(self) -> Floats:
        """What the next, unclipped state weighs in each cell."""
        return self.masses @ self._released


@pytest.mark.parametrize(("contraction", "move", "std"), [(0.5, 0.3, 0.25), (0.8, 0.2, 0.5), (0.9, 0.5, 2.0)])
def test_exact_advantage_of_projected_chains_stays_below_the_curve(contraction: float, move: float, std: float) -> None:
    """H_{e^epsilon} in both directions for K = 1..20 hops; close to the claim while the ends of the ball are far."""
    cells = np.linspace(-1, 1, 2001) * (contraction + 9 * std)
    chains = [Chain(contraction, shift, std, cells) for shift in (-move / 2, move / 2)]
    for hops in range(1, 21):
        claim = Contractive(std, hops, lipschitz=contraction).curve(move).deltas(EPSILONS)[0]
        left, right = (chain.released() for chain in chains)
        for one, other in ((left, right), (right, left)):
            found = np.array([np.maximum(one - math.exp(epsilon) * other, 0).sum() for epsilon in EPSILONS])
            assert (found <= claim + 1e-5).all()
            if hops == 1:
                assert found == pytest.approx(claim, abs=1e-3)
        for chain in chains:
            chain.hop()


def largest_gap(one: Floats, other: Floats, epsilon: float) -> float:
    """Largest Pr[one in S] - e^epsilon Pr[other in S] over half-lines S."""
    cuts = np.sort(np.r_[one, other])
    above = [1 - np.searchsorted(np.sort(side), cuts) / len(side) for side in (one, other)]
    return float((above[0] - math.exp(epsilon) * above[1]).max())


@pytest.mark.parametrize("hops", range(1, 21))
def test_releases_of_joined_and_lonely_pairs_differ_no_more_than_claimed(hops: int) -> None:
    """The mechanism itself on 40,000 pairs of nodes that are joined or not; the margin is DKW at one in a million."""
    act = Contractive(0.3, hops, lipschitz=0.8, beta=0.2, tau=1.0, loops=1.0)
    ids = np.arange(80_000)
    rows = torch.tensor([[1.0], [-1.0]]).repeat(40_000, 1)
    joined = ran(act, Csr.from_edge_index(ids, ids ^ 1, 80_000), rows, seed=1)
    lonely = ran(act, Csr.empty(80_000), rows, seed=2)
    pair, alone = (NeighbourSums(adj, rows[:2]) for adj in (path(2), Csr.empty(2)))
    direction = telling_direction(act, alone, pair)
    told, silent = ((out.reshape(-1, 2, 1) * direction).sum((1, 2)).numpy() for out in (joined, lonely))
    claim = act.curve(act.move(undirected=True)).deltas(EPSILONS)[0]
    for epsilon, delta in zip(EPSILONS, claim, strict=True):
        margin = (1 + math.exp(epsilon)) * math.sqrt(math.log(4e6) / 80_000)
        assert max(largest_gap(told, silent, epsilon), largest_gap(-silent, -told, epsilon)) <= delta + margin
    assert largest_gap(told, silent, 0.0) > 0.3 * claim[0], "the test has no power"


def hockey_stick(one: tuple[float, float], other: tuple[float, float], epsilon: float) -> float:
    """H_{e^epsilon} of two normal laws (mean, std), by integration."""
    reach = np.linspace(-12, 12, 200_001) * max(one[1], other[1]) + (one[0] + other[0]) / 2
    gap = norm.pdf(reach, *one) - math.exp(epsilon) * norm.pdf(reach, *other)
    return float(np.trapezoid(np.maximum(gap, 0), reach))


@pytest.mark.parametrize("hops", range(1, 21))
def test_exact_advantage_between_neighbouring_graphs_stays_below_the_curve(hops: int) -> None:
    """Random neighbouring graphs, and the score of the auditing hook, whose law is exact: the ball is 10 std away."""
    rng = np.random.default_rng(hops)
    act = Contractive(0.02, hops, lipschitz=0.5, alpha=0.9, beta=0.5, tau=30.0, loops=30.0)
    for case in range(4):
        nodes = 2 + 3 * case
        links = np.triu(rng.random((nodes, nodes)) < 0.4, 1)
        links[0, 1] = False
        # Two groups that lean apart, so that an edge across is heard.
        rows = torch.from_numpy(np.where(np.arange(nodes) % 2, 0.78, -0.78))[:, None]
        asked = []
        for _ in range(2):
            targets, sources = np.nonzero(links | links.T)
            asked.append(NeighbourSums(Csr.from_edge_index(sources, targets, nodes), rows))
            links[0, 1] = True
        direction = telling_direction(act, *asked)
        laws = [score_law(act, one, direction) for one in asked]
        claim = act.curve(act.move(undirected=True)).deltas(EPSILONS)[0]
        for epsilon, delta in zip(EPSILONS, claim, strict=True):
            found = max(hockey_stick(laws[0], laws[1], epsilon), hockey_stick(laws[1], laws[0], epsilon))
            assert found <= delta + 1e-9
            if epsilon == 0 and nodes == 2:
                assert found >= 0.5 * delta, "the test has no power"


@pytest.mark.parametrize("undirected", [True, False])
def test_the_law_of_a_score_is_that_of_the_mechanism(undirected: bool) -> None:
    act = Contractive(0.05, 3, lipschitz=0.6, alpha=0.7, beta=0.3, tau=2.0, loops=0.5)
    rng = np.random.default_rng(0)
    links = rng.random((6, 6)) < 0.4
    targets, sources = np.nonzero(
        np.triu(links, 1) | np.triu(links, 1).T if undirected else links & ~np.eye(6, dtype=bool)
    )
    adj = Csr.from_edge_index(sources, targets, 6)
    rows = torch.from_numpy(rng.uniform(-0.4, 0.4, (6, 2)))
    direction = torch.from_numpy(rng.standard_normal((6, 2)))
    kept = direction.clone()
    mean, std = score_law(act, NeighbourSums(adj, rows), direction)
    assert torch.equal(direction, kept)
    scores = [float((ran(act, adj, rows, seed) * direction).sum()) for seed in range(1500)]
    assert np.mean(scores) == pytest.approx(mean, abs=4 * std / math.sqrt(1500))
    assert np.std(scores) == pytest.approx(std, rel=0.08)


def test_one_hop_costs_less_than_the_same_hop_again_and_again() -> None:
    act = Contractive(1.0, 30, lipschitz=0.5)
    assert act.curve(1.0).mu ** 2 == pytest.approx(3.0, rel=1e-6)
    assert replace(act, hops=1).curve(1.0) == GaussianCurve(1.0)
    assert replace(act, std=0.0).curve(1.0).infinite


def test_secure_noise_runs_and_is_wider() -> None:
    act = Contractive(1.0, 3, beta=0.0)
    rows = torch.zeros(20_000, 2)
    out = act.apply(NOTHING, lambda _: NeighbourSums(Csr.empty(20_000), rows), Secure())
    assert out.isfinite().all()
    assert float(out.std()) >= 0.98


@pytest.mark.parametrize(
    "wrong",
    [
        {"std": -1.0},
        {"hops": 0},
        {"hops": 1.5},
        {"lipschitz": 1.0},
        {"lipschitz": 0.0},
        {"alpha": 0.0},
        {"alpha": 1.1},
        {"beta": -0.1},
        {"beta": math.inf},
        {"tau": 0.0},
        {"loops": 1.5},
        {"loops": -0.1},
        {"lipschitz": math.nan},
    ],
)
def test_settings_without_a_proof_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(Contractive(1.0, 2), **wrong)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, math.inf])
def test_a_move_is_a_number_above_zero(sensitivity: float) -> None:
    with pytest.raises(InvalidInput):
        Contractive(1.0, 2).curve(sensitivity)
