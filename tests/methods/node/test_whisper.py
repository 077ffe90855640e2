"""Whisper: what a training node tells is bounded by its own record, and outsiders learn from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
import torch
from torch_geometric.data import Data

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.block_models import BlockModel
from graphveil.data.graph import Graph
from graphveil.data.sealing import OUTSIDE_UNPROTECTED, Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.node.parts.vote_evidence import counted
from graphveil.methods.node.parts.vote_weights import ToldLabels, links_to_outsiders, single_votes, spread_votes
from graphveil.methods.node.whisper import Whisper, learns_alone
from graphveil.vocabulary import Adjacency, Plan, Reading, Relation

NODE = Adjacency.of("node")


def grouped(
    nodes: int = 600,
    classes: int = 3,
    same: float = 0.9,
    tells: float = 1.0,
    seed: int = 0,
    links: int = 4,
    features: int = 8,
) -> Graph:
    """So many links from a node, a share `same` inside a class; features tell the class as far as `tells` goes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, nodes)
    sources = np.repeat(np.arange(nodes), links)
    mates = [rng.permutation(np.flatnonzero(y == y[u]))[:links] for u in range(nodes)]
    inside = rng.random(len(sources)) < same
    targets = np.where(inside, np.concatenate(mates), rng.integers(0, nodes, len(sources)))
    x = tells * np.eye(features)[y] + rng.standard_normal((nodes, features))
    data = Data(torch.from_numpy(x).float(), torch.from_numpy(np.stack([sources, targets])), y=torch.from_numpy(y))
    graph = Graph.from_pyg(data, undirected=True, clean=True, name=f"grouped-{seed}")
    return graph.random_split(seed=seed)


def links(rows: list[list[int]], outsiders: int) -> sp.csr_array:
    dense = np.zeros((len(rows), outsiders))
    for row, places in enumerate(rows):
        dense[row, places] = 1
    return sp.csr_array(dense)


LINKS = [[0], [0, 1, 2], [], list(range(7))]


@pytest.mark.parametrize("clip", [1.0, 0.25, 4.0])
@pytest.mark.parametrize("votes", [spread_votes, single_votes])
def test_a_node_adds_a_vector_of_length_one_whatever_its_links(
    votes: Callable[[sp.csr_array], sp.csr_array], clip: float
) -> None:
    told, labels = votes(links(LINKS, 7)), torch.tensor([0, 1, 1, 2])
    whole = ToldLabels(told, labels, 3).clipped_sum(clip)
    for node, linked in enumerate(LINKS):
        blank = labels.clone()
        blank[node] = -1
        moved = float((ToldLabels(told, blank, 3).clipped_sum(clip) - whole).norm())
        bound = min(clip, 1.0) if linked else 0.0
        assert moved <= bound
        assert moved == pytest.approx(bound, rel=1e-6)


def test_votes_are_spread_evenly_over_linked_outsiders() -> None:
    told = ToldLabels(spread_votes(links([[0, 1], [1]], 3)), torch.tensor([1, 0]), 2).clipped_sum(1.0).reshape(3, 2)
    half = 1 / math.sqrt(2)
    assert told.numpy() == pytest.approx(np.array([[0, half], [1, half], [0, 0]]), abs=1e-6)


def test_a_single_vote_goes_to_a_link_of_its_own_and_marks_one_cell() -> None:
    votes, labels = single_votes(links(LINKS, 7)), torch.tensor([0, -1, 1, 2])
    for node, linked in enumerate(LINKS):
        assert votes[[node]].indices.tolist() in ([[place] for place in linked] or [[]])
    told = ToldLabels(votes, labels, 3)
    marks = told.marks()
    assert marks.cells.shape == (4, 1)
    counted = np.bincount(marks.cells[marks.cells >= 0], minlength=marks.size)
    assert counted.tolist() == told.clipped_sum(1.0).tolist()
    assert counted.sum() == 2
    assert (ToldLabels(votes, -torch.ones(4, dtype=torch.long), 3).marks().cells == -1).all()


def test_a_single_vote_depends_on_the_own_links_alone() -> None:
    rng = np.random.default_rng(0)
    rows = [list(np.flatnonzero(rng.random(30) < 0.2)) for _ in range(40)]
    chosen = single_votes(links(rows, 30)).toarray()
    for node in range(40):
        other = [*rows[:node], list(np.flatnonzero(rng.random(30) < 0.5)), *rows[node + 1 :]]
        moved = np.abs(single_votes(links(other, 30)).toarray() - chosen).sum(axis=1)
        assert np.flatnonzero(moved).tolist() in ([node], [])


def test_single_votes_fall_on_every_link() -> None:
    assert single_votes(links([[0, 1, 2, 3]] * 400, 4)).sum(axis=0).min() > 70


def test_the_likelihood_of_counts_is_the_sum_over_all_that_may_have_been_told() -> None:
    told = torch.tensor([[2.0, -1.0], [0.0, 7.0]], dtype=torch.float64)
    expected, shares = torch.tensor([[1.5], [4.0]]).double(), torch.tensor([[0.8, 0.2], [0.3, 0.9]]).double()
    found = counted(told, expected, shares, 0.7)
    numbers = np.arange(200)
    for node in range(2):
        for klass in range(2):
            means = (float(expected[node]) * shares[klass]).tolist()
            noise = [np.exp(-np.abs(float(told[node, j]) - numbers) / 0.7) for j in range(2)]
            whole = sum(math.log(float(scipy.stats.poisson(means[j]).pmf(numbers) @ noise[j])) for j in range(2))
            exact = found[node, klass] - found[node, 0]
            if klass == 0:
                first = whole
            assert float(exact) == pytest.approx(whole - first, abs=1e-6)


def test_links_go_from_training_nodes_to_outsiders_in_either_direction_once() -> None:
    # 0 -> 2, 2 -> 0 (one link), 3 -> 1 (one link), 0 -> 1 (both in training), 2 -> 3 (both outside).
    adj = Csr.from_edge_index(np.array([0, 2, 3, 0, 2]), np.array([2, 0, 1, 1, 3]), 4)
    data = Data(torch.ones(4, 2), adj.edge_index(), y=torch.tensor([0, 1, 0, 1]))
    train = torch.tensor([True, True, False, False])
    graph = Graph.from_pyg(data, undirected=False).with_split(train, ~train, train & ~train, "by hand")
    _, sealed = graph.seal(Adjacency.of("node", undirected=False))
    with sealed.opened():
        assert links_to_outsiders(sealed).toarray().tolist() == [[1, 0], [0, 1]]


def plan(noise: float, adjacency: Adjacency = NODE, public: Public | None = None) -> Plan:
    return Whisper().plan(public or Public.blank(400, 5, 3), adjacency, Reading.SOUND, noise)


def crowded(graph: Graph) -> Public:
    """Everybody is linked to everybody."""
    pairs = np.nonzero(1 - np.eye(graph.num_nodes, dtype=int))
    return replace(graph, adj=Csr.from_edge_index(*pairs, graph.num_nodes)).seal(NODE)[0]  # type: ignore[call-arg]


def test_how_labels_are_told_follows_from_noise_classes_and_links_among_outsiders() -> None:
    sparse, _ = grouped(links=8).seal(NODE)
    sorts, _ = grouped(links=8, classes=30, features=30).seal(NODE)
    alone, _ = grouped(links=3, tells=6.0).seal(NODE)
    dense, crowd = crowded(grouped()), crowded(grouped(classes=30, features=30))
    replaced = replace(NODE, relation=Relation.REPLACE)
    for noise, public, adjacency, kind in (
        (2.0, sparse, NODE, Tally),
        (3.0, sparse, NODE, None),
        (3.0, sparse, replaced, Gaussian),
        (6.0, sparse, replaced, None),
        (0.0, sparse, NODE, Gaussian),
        (0.8, sorts, NODE, Tally),
        (1.0, sorts, NODE, None),
        (0.5, alone, NODE, None),
        (9.0, dense, NODE, Gaussian),
        (14.0, dense, NODE, None),
        (1.0, crowd, NODE, Gaussian),
        (2.0, crowd, NODE, None),
    ):
        made = plan(noise, adjacency, public)
        told = [step for step in made.steps if step.name == "labels"]
        assert [type(step.act) for step in told] == ([] if kind is None else [kind])
        assert all(step.claim == step.act.curve(2 if adjacency is replaced else 1) for step in made.steps)
        assert all(step.assumes == (OUTSIDE_UNPROTECTED,) for step in made.steps)


def test_own_features_are_learnt_alone_where_they_tell_and_ids_are_many_for_each_and_links_hardly_any() -> None:
    """450 ids train: 8 features have 56 each, 40 have 11."""
    for graph, alone in (
        (grouped(links=3, tells=6.0), True),
        (grouped(links=3), False),
        (grouped(links=3, tells=6.0, features=40), False),
        (grouped(links=9, tells=6.0), False),
    ):
        public, _ = graph.seal(NODE)
        assert learns_alone(public) is alone
        names = [step.name for step in plan(1.0, public=public).steps]
        assert names == (["counts", "gradient", "check"] if alone else ["counts", "labels", "gradient", "check"])
    assert not learns_alone(Public.blank(400, 5, 3))


def test_what_nobody_votes_for_goes_to_the_other_releases() -> None:
    """1 / variance adds up to that of one Gaussian of the noise, with votes and without."""
    public, _ = grouped(links=3, features=40).seal(NODE)
    acts = [(step.act, step.times) for step in plan(3.0, public=public).steps]
    assert sum(times / act.std**2 for act, times in acts if isinstance(act, Gaussian)) == pytest.approx(1 / 3.0**2)


def test_a_single_vote_costs_what_is_left_to_the_other_releases() -> None:
    """4 / noise in all: as much as the Gaussian releases alone would cost."""
    public, _ = grouped(links=8).seal(NODE)
    made = plan(1.0, public=public)
    rest = sum(step.times / step.act.std**2 for step in made.steps if isinstance(step.act, Gaussian)) ** -0.5
    assert 1 / made.act("labels", Tally).scale + 4 / rest == pytest.approx(4.0)


def test_the_plan_is_one_gaussian_of_the_noise_in_all() -> None:
    """1 / variance adds up over the releases: sensitivity 1 each, twice that where a record is replaced."""
    steps = plan(2.0).steps
    acts = [(step.act, step.times) for step in steps]
    assert sum(times / act.std**2 for act, times in acts if isinstance(act, Gaussian)) == pytest.approx(1 / 2.0**2)
    assert all(step.claim == step.act.curve(1) for step in steps)
    assert all(step.assumes == (OUTSIDE_UNPROTECTED,) for step in steps)
    replaced = plan(2.0, replace(NODE, relation=Relation.REPLACE)).steps
    assert all(step.claim == step.act.curve(2) for step in replaced)


@pytest.mark.parametrize("steps", [0, -3])
def test_at_least_one_step(steps: int) -> None:
    with pytest.raises(InvalidInput, match="at least one step"):
        Whisper(steps=steps)


def accuracy(graph: Graph, epsilon: float, seed: int = 0) -> float:
    release = gv.train(graph, Whisper(), epsilon=epsilon, delta=1e-5, unit="node", seed=seed)
    assert release.certificate.epsilon <= epsilon
    return release.evaluate("test")["accuracy"]


def largest(graph: Graph) -> float:
    shares = torch.bincount(graph.y[graph.test]) / int(graph.test.sum())
    return float(shares[int(torch.bincount(graph.y[graph.train]).argmax())])


def test_outsiders_learn_from_what_they_are_told() -> None:
    graph = grouped(tells=0.3)
    lonely = gv.train(graph, gv.methods.DpSgd(), epsilon=8, delta=1e-5, unit="node", seed=0)
    assert accuracy(graph, 8) > lonely.evaluate("test")["accuracy"] + 0.1


def test_many_classes_are_not_told_in_votes_that_drown() -> None:
    """Where votes were told at any noise, own features alone were as good: 56 to 57 of a hundred."""
    model = BlockModel((1,) * 40, nodes=3000, assortative=0.6, signal=0.45)
    graph = model.graph("forty").random_split(seed=0)
    alone = gv.train(graph, gv.methods.DpSgd(), epsilon=2, delta=1e-5, unit="node", seed=0)
    assert accuracy(graph, 2) > alone.evaluate("test")["accuracy"] + 0.1


def test_where_nothing_tells_the_largest_class_is_named() -> None:
    graph = grouped(same=0.0, tells=0.0)
    y = torch.where(torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(1)) < 0.8, 0, graph.y)
    uneven = replace(graph, y=y)
    for seed in range(3):
        assert accuracy(uneven, 1, seed) >= largest(uneven) - 0.03


def test_a_small_class_is_told_from_a_large_one() -> None:
    """Nine of ten nodes have one class: without an entry that is the same in all rows the regression lost to it."""
    graph = BlockModel((90, 10), assortative=0.4, signal=0.3, kinds=2).graph("unequal").random_split(seed=0)
    assert accuracy(graph, 1) > largest(graph) + 0.01
    assert accuracy(graph, 8) > largest(graph) + 0.03


def test_training_nodes_get_the_prior_and_nobody_elses_label_is_read() -> None:
    graph = grouped()
    other = replace(graph, y=torch.where(graph.train, graph.y, (graph.y + 1) % graph.num_classes))
    first, second = (gv.train(g, Whisper(), noise=1.0, unit="node", seed=3).state["logits"] for g in (graph, other))
    assert torch.equal(first, second)
    assert len(first[graph.train].unique(dim=0)) == 1
    assert len(first[~graph.train].unique(dim=0)) > 1


def test_two_runs_on_one_graph_do_not_share_rows() -> None:
    graph = grouped()
    alone = gv.train(grouped(), Whisper(), noise=1.0, unit="node", seed=4).state["logits"]
    gv.train(graph, Whisper(), noise=5.0, unit="node", seed=3)
    assert torch.equal(gv.train(graph, Whisper(), noise=1.0, unit="node", seed=4).state["logits"], alone)
