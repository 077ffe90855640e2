"""Public coordinates of nodes: bounded, row by row, against dense formulas and sums over walks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from blocks_of import graph_of, links_of, random_links
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.nn import rows as shared
from graphveil.nn.aggregate import mean_matrix
from graphveil.nn.coordinates import (
    Axes,
    Frame,
    averaging,
    both_ways,
    by_columns,
    condensed,
    hop_means,
    look_random,
    quantile,
    scaled,
    scaled_rows,
    scalings,
    smoothed,
    spectral_rows,
)

SHAPES = [(0, 0), (0, 4), (1, 4), (4, 0), (5, 1), (40, 6), (3, 700), (40, 700)]
"""Rows and columns of what a frame is learnt from."""


def random_rows(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def random_graph(seed: int, undirected: bool = True) -> Csr:
    rng = np.random.default_rng(seed)
    return graph_of(random_links(rng, int(rng.integers(2, 9)), undirected))


def rounds(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Both arcs of every edge of a cycle."""
    here = np.arange(nodes)
    there = (here + 1) % nodes
    return np.r_[here, there], np.r_[there, here]


# --- Axes and frames ---


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_in_a_frame_are_never_longer_than_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    learnt = random_rows(0, *shape)
    frame = Frame.of(learnt, 5)
    strange = torch.cat(
        [learnt, torch.zeros(1, shape[1]), *(random_rows(1, 20, shape[1]) * size for size in (1e-30, 1e3, 1e18, 1e37))]
    )
    for rows in (strange, strange.double() * 1e100, strange[:1], strange[:0]):
        told = frame(rows)
        assert told.dtype == torch.float64
        assert told.shape == (len(rows), frame.axes.axes.shape[1] + 1)
        assert bool((torch.linalg.vector_norm(told, dim=1) <= 1).all())


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_a_frame_of_rows_that_are_all_alike_only_counts(scale: float) -> None:
    frame = Frame.of(torch.full((6, 3), scale), 2)
    told = frame(torch.cat([torch.full((1, 3), scale), random_rows(0, 2, 3)]))
    assert bool(told.isfinite().all())
    assert float(told[0, -1]) == pytest.approx(1.0)


def test_four_rows_in_five_keep_their_length() -> None:
    rows = random_rows(0, 500, 6) * random_rows(1, 500, 1).exp()
    lengths = torch.linalg.vector_norm(Frame.of(rows, 6)(rows), dim=1)
    assert int((lengths < 1 - 1e-6).sum()) == pytest.approx(400, abs=2)


def test_a_row_that_changes_moves_no_other_row_of_a_frame() -> None:
    learnt, rows = random_rows(0, 60, 5), random_rows(1, 20, 5)
    frame = Frame.of(learnt, 3)
    whole = frame(rows)
    for row, size in ((0, 1e-3), (7, 1.0), (19, 1e30)):
        changed = rows.clone()
        changed[row] = -size * rows[row]
        kept = torch.arange(20) != row
        assert torch.equal(frame(changed)[kept], whole[kept])
        assert torch.allclose(frame(rows[row : row + 1]), whole[row : row + 1], rtol=0, atol=1e-12)


def test_a_frame_stays_as_it_was_learnt() -> None:
    frame = Frame.of(random_rows(0, 60, 5), 3)
    mean, axes, cut, probe = frame.axes.mean.clone(), frame.axes.axes.clone(), frame.cut, random_rows(2, 4, 5)
    before = frame(probe)
    frame(1e6 * random_rows(1, 100, 5) + 9)
    assert torch.equal(frame(probe), before)
    assert torch.equal(frame.axes.mean, mean)
    assert torch.equal(frame.axes.axes, axes)
    assert frame.cut == cut


@pytest.mark.parametrize("columns", [6, 300])
def test_axes_are_the_leading_directions_at_mean_square_length_one(columns: int) -> None:
    torch.manual_seed(0)
    rows = random_rows(0, 200, 4) @ (torch.tensor([9.0, 3.0, 1.0, 0.1])[:, None] * random_rows(1, 4, columns)) + 5
    told = Axes.leading(rows.double(), 3)(rows.double())
    assert told.shape == (200, 3)
    assert torch.allclose(told.mean(dim=0), torch.zeros(3, dtype=torch.float64), atol=1e-9)
    assert float(told.square().sum(dim=1).mean()) == pytest.approx(1.0)
    wanted = torch.linalg.svdvals((rows - rows.mean(dim=0)).double())[:3]
    found = told.square().sum(dim=0).sqrt()
    assert torch.allclose(found / found[0], wanted / wanted[0], rtol=1e-3)
    assert told.T @ told == pytest.approx((told.T @ told).diagonal().diag().numpy(), abs=1e-3)


def test_a_power_evens_out_the_lengths_of_axes() -> None:
    rows = random_rows(0, 300, 3).double() * torch.tensor([16.0, 4.0, 1.0], dtype=torch.float64)
    plain, half, even = (Axes.leading(rows, 3, power)(rows).square().sum(dim=0).sqrt() for power in (1.0, 0.5, 0.0))
    assert torch.allclose(half / half[0], (plain / plain[0]).sqrt())
    assert torch.allclose(even, even[0].expand(3))


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (1, 4), (4, 0)])
def test_axes_of_nothing_have_no_coordinate(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    axes = Axes.leading(random_rows(0, *shape), 3)
    assert axes(torch.ones(2, shape[1])).shape == (2, 0)


def test_directions_without_any_length_are_left_out() -> None:
    flat = random_rows(0, 50, 1).double() @ random_rows(1, 1, 6).double()
    assert Axes.leading(flat, 5)(flat).shape == (50, 1)
    assert Axes.leading(torch.ones(50, 6).double(), 5)(flat).shape == (50, 0)


# --- Features over hops ---


@pytest.mark.parametrize("seed", range(8))
def test_smoothed_features_are_those_of_the_dense_formula(seed: int) -> None:
    adj = random_graph(seed)
    x, looped = random_rows(seed, adj.num_nodes, 3), torch.from_numpy(links_of(adj)).double()
    looped = looped + torch.eye(adj.num_nodes)
    scale = looped.sum(dim=1).rsqrt().diag()
    found, wanted = smoothed(x, adj, 3), x.double()
    assert len(found) == 3
    for hop in found:
        wanted = scale @ looped @ scale @ wanted
        assert torch.allclose(hop.double(), wanted, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_the_mean_of_neighbours_is_that_of_the_dense_formula(seed: int) -> None:
    links = links_of(random_graph(seed)).astype(float)
    assert mean_matrix(graph_of(links)).toarray() == pytest.approx(
        links / np.maximum(links.sum(axis=1, keepdims=True), 1)
    )


def walked(x: Tensor, known: Tensor, adj: Csr) -> list[Tensor]:
    """Means over walks of 1, 2 and 3 steps, each step to a random neighbour, whose last two do not go to and fro."""
    near = [np.flatnonzero(row).tolist() for row in links_of(adj)]
    found = []
    for hops in (1, 2, 3):
        rows = []
        for node in range(adj.num_nodes):
            walks = [([node], 1.0)]
            for _ in range(hops):
                walks = [([*walk, to], chance / len(near[walk[-1]])) for walk, chance in walks for to in near[walk[-1]]]
            ends = [
                (walk[-1], chance)
                for walk, chance in walks
                if bool(known[walk[-1]]) and (hops == 1 or walk[-1] != walk[-3])
            ]
            total = sum(chance for _, chance in ends)
            rows.append(sum((chance / total * x[end] for end, chance in ends), torch.zeros(x.shape[1])))
        found.append(torch.stack(rows))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_hop_means_are_means_over_walks(seed: int) -> None:
    adj = random_graph(seed)
    x, known = random_rows(seed, adj.num_nodes, 3), random_rows(seed + 100, adj.num_nodes) > -0.5
    for found, wanted in zip(hop_means(x, known, adj, 3), walked(x, known, adj), strict=True):
        assert torch.allclose(found, wanted, atol=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_own_features_are_in_neither_of_the_first_two_hops(seed: int) -> None:
    adj = random_graph(seed)
    x, known = random_rows(seed, adj.num_nodes, 3), torch.ones(adj.num_nodes, dtype=torch.bool)
    before = hop_means(x, known, adj, 2)
    for node in range(adj.num_nodes):
        changed = x.clone()
        changed[node] += 10
        first, second = hop_means(changed, known, adj, 2)
        assert torch.equal(first[node], before[0][node])
        # What came back was taken off again, but for rounding.
        assert torch.allclose(second[node], before[1][node], atol=2e-3)


@pytest.mark.parametrize("seed", range(6))
def test_features_that_are_not_known_move_nothing(seed: int) -> None:
    adj = random_graph(seed)
    x, known = random_rows(seed, adj.num_nodes, 3), torch.arange(adj.num_nodes) % 2 == 0
    other = torch.where(known[:, None], x, 1e6 * random_rows(seed + 50, adj.num_nodes, 3))
    for here, there in zip(hop_means(x, known, adj, 3), hop_means(other, known, adj, 3), strict=True):
        assert torch.equal(here, there)
    assert all(not bool(hop.any()) for hop in hop_means(x, known & False, adj, 3))


# --- The shape of a graph ---


def test_neighbours_are_close_in_shape_and_other_components_far() -> None:
    torch.manual_seed(0)
    sources, targets = rounds(200)
    rows = spectral_rows(Csr.from_edge_index(np.r_[sources, sources + 200], np.r_[targets, targets + 200], 400))
    assert rows.shape == (400, 64)
    alike = rows @ rows.T / rows.square().sum(dim=1)
    assert float(alike[sources, targets].min()) > 0.8
    assert float(alike[:200, 200:].abs().max()) < 0.4


@pytest.mark.parametrize("nodes", [1, 2, 30, 100])
def test_rows_of_shape_have_one_length_even_for_isolated_nodes(nodes: int) -> None:
    torch.manual_seed(0)
    links = random_links(np.random.default_rng(0), nodes, undirected=True)
    links[0, :] = links[:, 0] = False
    for adj in (Csr.empty(nodes), graph_of(links)):
        rows = spectral_rows(adj)
        assert rows.shape == (nodes, min(nodes, 64))
        assert rows.norm(dim=1).tolist() == pytest.approx([0.7] * nodes, abs=1e-5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("classes", "homophily", "telling", "random"),
    [
        pytest.param(4, 0.25, True, True, id="random edges"),
        pytest.param(4, 0.25, False, True, id="random edges and features"),
        pytest.param(4, 0.7, True, False, id="homophilous"),
        pytest.param(4, 0.0, True, False, id="heterophilous"),
        pytest.param(2, 0.9, False, False, id="two communities"),
        pytest.param(4, 0.85, False, False, id="four communities"),
        pytest.param(16, 0.85, False, False, id="sixteen communities"),
    ],
)
def test_only_edges_that_join_regardless_of_features_and_form_no_groups_look_random(
    classes: int, homophily: float, telling: bool, random: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    graph = social(num_nodes=1000, num_classes=classes, homophily=homophily, seed=seed)
    assert look_random(graph.x if telling else torch.randn(graph.x.shape), graph.adj) is random


def test_a_graph_without_edges_looks_random_and_the_smallest_graphs_are_judged() -> None:
    torch.manual_seed(0)
    assert look_random(torch.randn(5, 3), Csr.empty(5))
    for nodes in range(2, 6):
        for columns in (0, 1, 3):
            everybody = graph_of(~np.eye(nodes, dtype=bool))
            assert isinstance(look_random(torch.randn(nodes, columns), everybody), bool)


@pytest.mark.parametrize("seed", range(6))
def test_links_both_ways_have_no_direction(seed: int) -> None:
    directed, undirected = random_graph(seed, undirected=False), random_graph(seed)
    links = links_of(directed)
    assert np.array_equal(links_of(both_ways(directed)), links | links.T)
    assert both_ways(undirected) is undirected


def test_the_largest_features_stay_finite_one_record_at_a_time() -> None:
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    vast = x.clone()
    vast[3] = torch.finfo(torch.float32).max
    scaling = scalings(vast)
    assert scaled(vast, scaling).isfinite().all()
    same = torch.arange(20) != 3
    assert torch.equal(scaled(vast, scaling)[same], scaled(x, scaling)[same])


# --- Many nodes: the same in blocks, up to rounding ---


@pytest.fixture
def in_tens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "WHOLE", 10)
    monkeypatch.setattr(shared, "BLOCK", 10)


def shrinking(count: int, columns: int) -> Tensor:
    """Rows whose directions are told apart by their deviations."""
    return random_rows(0, count, columns) * 0.7 ** torch.arange(columns) + 3


@pytest.mark.parametrize("columns", [6, 60])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_axes_of_many_rows_are_those_of_the_whole(columns: int, power: float, request: pytest.FixtureRequest) -> None:
    rows = shrinking(400, columns)
    torch.manual_seed(0)
    told = Axes.leading(rows, 4, power)(rows)
    request.getfixturevalue("in_tens")
    torch.manual_seed(0)
    found = Axes.leading(rows, 4, power).of(rows)
    assert not isinstance(found, Tensor)
    # Directions have no sign; randomised ones are close.
    assert torch.allclose(found[:] @ found[:].T, told @ told.T, atol=1e-4 if columns == 6 else 0.05)


@pytest.mark.usefixtures("in_tens")
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rows_in_a_frame_of_many_are_never_longer_than_one(scale: float) -> None:
    frame = Frame.of(shrinking(200, 6) * scale, 3)
    others = torch.cat([shrinking(50, 6) * scale, random_rows(1, 50, 6) * 1e9])
    lengths = torch.linalg.vector_norm(frame.rows(others)[:], dim=1)
    assert float(lengths.max()) <= 1
    own = torch.linalg.vector_norm(frame(shrinking(200, 6) * scale), dim=1)
    assert 0.15 < float((own > 1 - 1e-6).double().mean()) < 0.25


def test_hops_of_many_nodes_are_those_of_the_whole(request: pytest.FixtureRequest) -> None:
    torch.manual_seed(0)
    graph = social(num_nodes=300)
    known = torch.rand(300) < 0.5
    scaling = scalings(graph.x)
    x = scaled(graph.x, scaling)
    wanted = [*smoothed(x, graph.adj, 3), *hop_means(x, known, graph.adj, 3)]
    mean, back = averaging(graph.adj)
    twice = mean @ (mean @ x) - back * x
    request.getfixturevalue("in_tens")
    for one, other in zip(scalings(graph.x), scaling, strict=True):
        torch.testing.assert_close(one.shift, other.shift)
    torch.testing.assert_close(scaled_rows(graph.x, scaling)[50:70], x[50:70])
    found = [*by_columns(x, 3, lambda some: smoothed(some, graph.adj, 3))]
    found += by_columns(x, 3, lambda some: hop_means(some, known, graph.adj, 3))
    for made, whole in zip(found, wanted, strict=True):
        assert torch.allclose(made, whole, atol=1e-4)
    mean, back = averaging(graph.adj)
    assert torch.allclose(mean @ (mean @ x) - back * x, twice, atol=1e-5)


@pytest.mark.usefixtures("in_tens")
def test_many_nodes_send_few_directions_of_16_bits() -> None:
    sent = condensed(random_rows(0, 100, 200))
    assert sent.dtype == torch.float16
    assert sent.shape == (100, 64)
    assert bool(sent.isfinite().all())


@pytest.mark.usefixtures("in_tens")
def test_shapes_of_many_nodes_tell_groups_apart() -> None:
    torch.manual_seed(0)
    sources, targets = rounds(200)
    rows = spectral_rows(Csr.from_edge_index(np.r_[sources, sources + 200], np.r_[targets, targets + 200], 400)).float()
    assert rows.shape == (400, 64)
    assert rows.norm(dim=1).tolist() == pytest.approx([0.7] * 400, abs=1e-3)
    alike = rows @ rows.T / rows.square().sum(dim=1)
    assert float(alike[sources, targets].min()) > 0.8
    assert float(alike[:200, 200:].abs().max()) < 0.4


@pytest.mark.usefixtures("in_tens")
def test_quantiles_of_many() -> None:
    assert quantile(torch.arange(1000.0), 0.8) == pytest.approx(800, abs=2)
