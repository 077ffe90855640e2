"""Eclipse: the public-basis core and what it costs, Algorithm 1 as printed and why it protects nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch

import graphveil as gv
from communities import communities
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.singular_values import SingularValues, leading
from graphveil.methods.edge.eclipse import Eclipse, approximate
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading

EDGE = Adjacency.of("edge")
PRINTED = Eclipse(basis="singular", use="graph", rank=4, hidden=8, epochs=5)


def blocks(nodes: int, seed: int, loud: float = 0.5) -> Graph:
    """Two features tell the classes, thirty do not."""
    graph = communities(nodes, seed, width=32, lift=4 * loud)
    return graph.per_class_split(5, val=60, test=nodes - 75, seed=seed)


def plan_of(method: Eclipse, noise: float, reading: Reading = Reading.SOUND) -> Plan:
    return method.plan(Public.blank(50, 5, 3), EDGE, reading, noise)


# --- The sound one. ---


@pytest.mark.parametrize("use", ["head", "graph"])
@pytest.mark.parametrize(("epsilon", "sigma"), [(1, 3.7306), (4, 1.0812), (8, 0.6002)])
def test_head_and_graph_cost_one_gaussian_of_sensitivity_one(use: str, epsilon: float, sigma: float) -> None:
    assert accounting.calibrate(partial(plan_of, Eclipse(use=use)), epsilon, 1e-5).noise == pytest.approx(
        sigma, rel=1e-3
    )


def test_the_head_learns_what_features_alone_do_not_tell_and_not_from_noise() -> None:
    graph, method = blocks(600, seed=1), Eclipse(rank=16)
    alone = gv.train(graph, gv.methods.Mlp(), noise=1.0, delta=1e-5, unit="edge", seed=0)
    quiet, loud = (
        gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit="edge", seed=0) for epsilon in (2.0, 0.001)
    )
    reached = [each.evaluate("test")["accuracy"] for each in (quiet, alone, loud)]
    assert reached[0] > max(reached[1:]) + 0.05


@pytest.mark.parametrize("basis", ["features", "random", "posteriors"])
def test_a_graph_of_the_right_size_comes_out(basis: str) -> None:
    graph = blocks(200, seed=2)
    method = Eclipse(basis=basis, use="graph", rank=64 if basis == "posteriors" else 8)
    public, sealed = graph.seal(EDGE)
    out = method.arcs(Session(public, sealed, method.plan(public, EDGE, Reading.SOUND, 0.5), Seeded(0)))
    assert out.is_symmetric()
    assert not out.has_loops()
    assert abs(out.num_arcs / 2 - graph.num_edges) < 30


@pytest.mark.parametrize(
    "method", [Eclipse(rank=6), Eclipse(rank=6, use="graph"), Eclipse(basis="posteriors")], ids=["head", "graph", "own"]
)
def test_another_graph_spends_its_own_budget(method: Eclipse) -> None:
    quick = replace(method, hidden=8, epochs=5)
    release = gv.train(blocks(100, seed=3), quick, epsilon=2.0, delta=1e-5, unit="edge", seed=0)
    served = gv.infer(release, replace(blocks(120, seed=4), name="other"), epsilon=1.0, delta=1e-5, seed=0)
    assert len(served.predict()) == 120
    assert served.certificate.epsilon <= 1.0


def test_edges_words_are_not_used_where_validation_says_no() -> None:
    """A core and degrees that are all noise beside features that tell nearly everything."""
    graph = blocks(300, seed=5, loud=3.0)
    release = gv.train(graph, Eclipse(rank=4), epsilon=0.01, delta=1e-5, unit="edge", seed=0)
    assert release.state["mix"].shape == (2,)
    assert bool((release.state["mix"] >= 0).all())
    assert release.evaluate("test")["accuracy"] > 0.9


@pytest.mark.parametrize("undirected", [True, False])
def test_degrees_tell_what_neither_features_nor_the_core_do(undirected: bool) -> None:
    """Features are noise and links go anywhere, but classes have few, some or many of them."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    # Sketch has links[i, j] for an arc j -> i.
    links = rng.random((400, 400)) < np.array([0.01, 0.1, 0.4])[y]
    links = np.triu(links, 1) | np.triu(links, 1).T if undirected else links & ~np.eye(400, dtype=bool)
    x = torch.from_numpy(rng.normal(size=(400, 8)).astype(np.float32))
    graph = Sketch(links, x, torch.from_numpy(y), undirected).graph()
    graph = graph.per_class_split(20, val=100, test=200, seed=0)
    release = gv.train(graph, Eclipse(rank=4), epsilon=1.0, delta=1e-5, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] > 0.6


# --- The published one. ---


def test_published_charges_theorem_one_and_sound_nothing_finite() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        found = accounting.calibrate(partial(plan_of, PRINTED, reading=Reading.PUBLISHED), epsilon, 1e-5)
        assert 1 / found.noise == pytest.approx(epsilon, rel=5e-3)
        values = plan_of(PRINTED, found.noise, Reading.PUBLISHED).step("values")
        assert isinstance(values.act, SingularValues)
        printed = math.sqrt(2) * math.sqrt(2 * math.log(1.25 / 1e-5)) / (0.99 * epsilon)
        assert values.act.std == pytest.approx(printed, rel=5e-3)
        assert values.assumes == ("neighbouring graphs have the same singular vectors (section 5.1)",)
        assert "certainty" in values.refuted
        assert ("epsilon above 1" in values.refuted) == (epsilon > 1)
        assert accounting.epsilon(plan_of(PRINTED, found.noise), 1e-5) == math.inf


def test_a_smaller_delta_than_that_of_the_noise_buys_nothing() -> None:
    assert accounting.epsilon(plan_of(PRINTED, 1.0, Reading.PUBLISHED), 1e-6) == math.inf
    finer = replace(PRINTED, printed_delta=1e-6)
    assert accounting.epsilon(plan_of(finer, 1.0, Reading.PUBLISHED), 1e-6) == pytest.approx(1.0, rel=5e-3)


def test_algorithm_one_without_noise_keeps_the_largest_entries_of_the_best_approximation() -> None:
    graph = blocks(80, seed=6)
    public, sealed = graph.seal(EDGE)
    out = PRINTED.arcs(Session(public, sealed, PRINTED.plan(public, EDGE, Reading.SOUND, 0.0), Seeded(0)))
    dense = graph.adj.to_scipy().toarray().astype(float)
    u, s, vt = np.linalg.svd(dense)
    best = np.tril((u[:, :4] * s[:4]) @ vt[:4], -1)
    best[np.triu_indices(80)] = -np.inf
    least = np.sort(best.ravel())[-graph.num_edges]
    targets, sources = out.targets(), out.indices
    lower = sources < targets
    assert out.num_arcs == 2 * graph.num_edges
    assert best[targets[lower], sources[lower]].min() >= least - 1e-9


@pytest.mark.parametrize("nodes", [10, 200])
def test_leading_vectors_are_those_of_the_dense_matrix(nodes: int) -> None:
    adj = blocks(300, seed=7).adj.within(np.arange(300) < nodes)
    values, vectors = leading(adj, 5)
    dense = adj.to_scipy().toarray().astype(float)
    wanted = np.linalg.eigvalsh(dense)
    wanted = wanted[np.argsort(-np.abs(wanted))][:5]
    assert np.allclose(np.sort(np.abs(values)), np.sort(np.abs(wanted)))
    assert np.allclose(dense @ vectors, vectors * values, atol=1e-7)


def test_the_counter_example() -> None:
    """Two hubs with leaves; one leaf loses its edge, and its row of every singular vector is zero."""
    spokes = np.array([(0, leaf) for leaf in range(2, 40)] + [(1, leaf) for leaf in range(40, 70)] + [(0, 1)])
    for edges, gone in ((spokes, False), (spokes[1:], True)):
        adj = Csr.from_edge_index(*np.concatenate([edges, edges[:, ::-1]]).T.copy(), 70)  # type: ignore[call-arg]
        rows = np.abs(leading(adj, 2)[1][2])
        assert (rows.max() < 1e-12) == gone


def test_directed_graphs_are_refused_by_algorithm_one_alone() -> None:
    directed = Adjacency.of("edge", undirected=False)
    with pytest.raises(Unsupported, match="undirected"):
        PRINTED.plan(Public.blank(50, 5, 3, False), directed, Reading.SOUND, 1.0)
    assert Eclipse().plan(Public.blank(50, 5, 3, False), directed, Reading.SOUND, 1.0).steps


def test_approximate_dp_is_what_it_says() -> None:
    claim = approximate(1.0, 1e-3)
    found = claim.deltas(np.array([0.5, 1.0, 1.5, 5.0]))
    assert found is not None
    assert found[0][0] > 0.1
    assert found[0][1:] == pytest.approx([1e-3] * 3)
    assert approximate(math.inf, 1e-3).infinite


@pytest.mark.parametrize(
    "wrong",
    [
        {"basis": "svd"},
        {"use": "matrix"},
        {"rank": 0},
        {"rank": 2.5},
        {"count_share": 1.0},
        {"degree_share": 0.0},
        {"degree_share": 1.0},
        {"printed_delta": 0.0},
        {"basis": "singular"},
        {"network": "cnn"},
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Eclipse(**wrong)
