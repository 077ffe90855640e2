"""Stand-ins have what is public as it is, and private parts as they are assumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import graphveil as gv
from graphveil.advice.stand_in import MEAN_DEGREE, Assumed, adjusted_homophily, public_facts, stand_in
from graphveil.data import datasets
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.errors import MissingData
from graphveil.vocabulary import Adjacency

LABEL, EDGE, NODE, FEATURES = (Adjacency.of(unit) for unit in ("label", "edge", "node", "features"))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(num_nodes=600, num_classes=3, num_features=8).random_split()


def drawn(facts: gv.Public, limit: int = 2000, seed: int = 0, **assumed: float) -> Graph:
    return stand_in(facts, Assumed(**assumed), limit, seed)


def homophily_of(graph: Graph) -> float:
    return adjusted_homophily(graph.adj, graph.y.numpy())


def test_adjusted_homophily_is_one_inside_classes_and_zero_by_chance() -> None:
    pairs = np.array([[0, 1], [1, 0], [2, 3], [3, 2]]).T
    adj = Csr.from_edge_index(pairs[0], pairs[1], 4)
    assert adjusted_homophily(adj, np.array([0, 0, 1, 1])) == 1.0
    assert adjusted_homophily(adj, np.array([0, 1, 0, 1])) == -1.0
    assert adjusted_homophily(adj, np.array([0, 0, -1, -1])) == 0.0
    every = np.argwhere(~np.eye(40, dtype=bool)).T
    dense = Csr.from_edge_index(every[0], every[1], 40)
    assert abs(adjusted_homophily(dense, np.arange(40) % 2)) < 0.03


@pytest.mark.parametrize(("name", "known"), [("cora", 0.77), ("photo", 0.79), ("rutgers89", 0.42), ("twitch-de", 0.14)])
def test_real_graphs_have_the_homophily_that_the_page_says(name: str, known: float) -> None:
    try:
        graph = datasets.load(name)
    except MissingData as error:
        pytest.skip(str(error))
    assert round(homophily_of(graph), 2) == known


@pytest.mark.parametrize("homophily", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("undirected", [True, False])
def test_private_edges_are_drawn_as_assumed(homophily: float, undirected: bool) -> None:
    made = drawn(gv.Public.blank(1500, 4, 5, undirected), homophily=homophily, mean_degree=8, largest_class=0.6)
    assert homophily_of(made) == pytest.approx(homophily, abs=0.06)
    assert made.adj.num_arcs / made.num_nodes == pytest.approx(8, rel=0.1)
    assert (made.y == 0).float().mean() == pytest.approx(0.6, abs=0.01)
    assert made.undirected is undirected


def test_without_a_word_the_mean_degree_is_a_default(graph: Graph) -> None:
    made = drawn(public_facts(graph, EDGE))
    assert made.adj.num_arcs / made.num_nodes == pytest.approx(MEAN_DEGREE, rel=0.1)


def test_public_parts_are_as_they_are(graph: Graph) -> None:
    made = drawn(public_facts(graph, EDGE))
    assert torch.equal(made.x, graph.x)
    assert torch.equal(made.y, graph.y)
    assert torch.equal(made.train, graph.train)
    other = drawn(public_facts(graph, LABEL))
    assert torch.equal(other.x, graph.x)
    assert np.array_equal(other.adj.indices, graph.adj.indices)


@pytest.mark.parametrize("homophily", [0.1, 0.3])
def test_private_labels_follow_public_edges_as_assumed(graph: Graph, homophily: float) -> None:
    made = drawn(public_facts(graph, FEATURES), homophily=homophily, largest_class=0.5)
    assert homophily_of(made) == pytest.approx(homophily, abs=0.06)
    assert (made.y == 0).float().mean() == pytest.approx(0.5, abs=0.02)


def test_features_tell_more_with_less_spread() -> None:
    narrow, wide = (drawn(gv.Public.blank(900, 1, 2), spread=spread) for spread in (0.1, 2.0))
    centres = [torch.stack([made.x[made.y == label].mean() for label in (0, 1)]) for made in (narrow, wide)]
    assert abs(float(centres[0][0] - centres[0][1])) == pytest.approx(2**0.5, rel=0.05)
    assert narrow.x[narrow.y == 0].std() < 0.2 < wide.x[wide.y == 0].std()


@pytest.mark.parametrize("adjacency", [EDGE, NODE, LABEL], ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_sample_keeps_the_shares_of_the_split_whatever_its_seed(
    graph: Graph, adjacency: Adjacency, seed: int
) -> None:
    made = drawn(public_facts(graph, adjacency), limit=200, seed=seed)
    assert made.num_nodes == 200
    assert made.train.float().mean() == pytest.approx(0.75, abs=0.1)
    assert made.test.float().mean() == pytest.approx(0.15, abs=0.08)


def test_a_sample_keeps_a_small_split_whole(graph: Graph) -> None:
    made = drawn(public_facts(graph.per_class_split(10, 30, 60), EDGE), limit=150)
    assert [int(mask.sum()) for mask in (made.train, made.val, made.test)] == [30, 30, 60]


def test_where_nobody_tests_those_outside_training_are_dealt_out() -> None:
    made = drawn(gv.Public.blank(100, 3, 2))
    assert [int(mask.sum()) for mask in (made.train, made.val, made.test)] == [75, 10, 15]


def test_nodes_without_a_label_are_wired_by_what_their_features_tell(graph: Graph) -> None:
    hidden = torch.arange(graph.num_nodes) % 3 == 0
    half = replace(graph, y=torch.where(hidden, -1, graph.y))
    made = drawn(public_facts(half, EDGE), homophily=1.0)
    inside = graph.y.numpy()[made.adj.targets()] == graph.y.numpy()[made.adj.indices]
    assert torch.equal(made.y, half.y)
    assert 0.6 < inside.mean() < 1.0


def test_what_shaped_the_public_side_by_private_parts_is_refused(graph: Graph) -> None:
    by_label = graph.per_class_split(10, 30, 60)
    assert public_facts(by_label, EDGE).y is not None
    for adjacency in (NODE, FEATURES, LABEL):
        with pytest.raises(gv.InvalidInput, match="drawn by looking at labels"):
            public_facts(by_label, adjacency)
    table = {"id": [0, 1, 2, 3], "label": [0, 1, 0, 1], "branch": ["a", "b", "a", "c"]}
    encoded = gv.Graph.from_edges(None, table, encode="auto").random_split(0.5, 0.25, 0.25)
    assert public_facts(encoded, EDGE).num_features == 3
    with pytest.raises(gv.Unsupported, match="was read off the features"):
        public_facts(encoded, NODE)


def test_facts_of_another_unit_are_refused(graph: Graph) -> None:
    with pytest.raises(gv.InvalidInput, match="sealed for another unit"):
        public_facts(graph.seal(EDGE)[0], NODE)


def test_degrees_and_outsiders_are_left_behind(graph: Graph) -> None:
    facts = public_facts(graph.with_every_id_present(), NODE)
    assert facts.degrees is None
    assert facts.outside is None
    assert facts.degrees_basis


@pytest.mark.parametrize(
    ("assumed", "needle"),
    [
        ({"homophily": 1.5}, "homophily must lie in 0..1"),
        ({"homophily": float("nan")}, "homophily must lie in 0..1"),
        ({"mean_degree": 0}, "mean_degree must be a finite number above 0"),
        ({"mean_degree": 60}, "too dense for 100 nodes"),
        ({"largest_class": 1.0}, "is a share"),
        ({"largest_class": 0.2}, "at least 0.333"),
        ({"spread": -1}, "spread must be"),
    ],
)
def test_assumptions_that_cannot_be_met_are_refused(assumed: dict[str, float], needle: str) -> None:
    with pytest.raises(gv.InvalidInput, match=needle):
        drawn(gv.Public.blank(100, 3, 3), **assumed)
