"""The seal hides what a unit protects, and nodes outside training reveal nothing of training nodes."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import graphveil as gv
from blocks_of import graph_of, links_of
from communities import communities
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Outside, Public, Sealed
from graphveil.errors import InvalidInput, PrivateAccess
from graphveil.vocabulary import Adjacency, Unit
from small_graph import small

OPEN, SHUT = ("node", "features"), ("edge", "label")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return communities(60, seed=0)


def outside(graph: Graph, unit: str) -> Outside:
    return graph.seal(Adjacency.of(unit))[0].outside_training()


def same(one: Outside, other: Outside) -> bool:
    return (
        np.array_equal(one.nodes, other.nodes)
        and torch.equal(one.x, other.x)
        and np.array_equal(links_of(one.adj), links_of(other.adj))
    )


@pytest.mark.parametrize("unit", OPEN)
def test_they_are_those_that_do_not_train_with_the_arcs_among_them_and_no_labels(graph: Graph, unit: str) -> None:
    found, nodes = outside(graph, unit), (~graph.train).nonzero().ravel()
    assert found.nodes.tolist() == nodes.tolist()
    assert torch.equal(found.x, graph.x[nodes])
    assert np.array_equal(links_of(found.adj), links_of(graph.adj)[np.ix_(nodes, nodes)])
    assert 0 < found.adj.num_arcs < graph.adj.num_arcs
    assert {part.name for part in fields(found)} == {"nodes", "x", "adj"}


@pytest.mark.parametrize("unit", SHUT)
def test_they_are_shut_where_features_are_public(graph: Graph, unit: str) -> None:
    with pytest.raises(PrivateAccess, match="node and features only"):
        outside(graph, unit)


def test_a_plan_without_data_has_none() -> None:
    with pytest.raises(PrivateAccess, match="node and features only"):
        Public.blank(9, 4, 3).outside_training()


def other_features(graph: Graph, node: int) -> Graph:
    x = graph.x.clone()
    x[node] = -100 * x[node] + 1
    return replace(graph, x=x)


def other_label(graph: Graph, node: int) -> Graph:
    y = graph.y.clone()
    y[node] = (y[node] + 1) % graph.num_classes
    return replace(graph, y=y)


def other_links(graph: Graph, node: int) -> Graph:
    links = links_of(graph.adj)
    links[node] ^= True
    links[node, node] = False
    links[:, node] = links[node]
    return replace(graph, adj=graph_of(links))


@pytest.mark.parametrize("change", [other_features, other_label, other_links])
@pytest.mark.parametrize("unit", OPEN)
def test_nothing_of_a_training_node_is_in_them(graph: Graph, unit: str, change: Callable[[Graph, int], Graph]) -> None:
    whole = outside(graph, unit)
    for node in graph.train.nonzero().ravel()[::7].tolist():
        assert same(outside(change(graph, node), unit), whole)


@pytest.mark.parametrize("unit", OPEN)
def test_what_changes_in_them_is_seen(graph: Graph, unit: str) -> None:
    node = int((~graph.train).nonzero()[0])
    for change in (other_features, other_links):
        assert not same(outside(change(graph, node), unit), outside(graph, unit))


@pytest.mark.parametrize("unit", OPEN)
def test_other_arcs_of_the_same_nodes_are_not_mistaken_for_the_first(graph: Graph, unit: str) -> None:
    """The two graphs share what was learnt from public data, and at node level arcs are not part of that."""
    assert outside(graph, unit).adj.num_arcs
    bare = graph.with_arcs(Csr.empty(graph.num_nodes))
    assert outside(bare, unit).adj.num_arcs == 0
    assert outside(graph, unit).adj.num_arcs


@pytest.mark.parametrize("unit", OPEN)
@pytest.mark.parametrize("trains", [True, False])
def test_everybody_may_train_or_nobody(graph: Graph, unit: str, trains: bool) -> None:
    none = torch.zeros(graph.num_nodes, dtype=torch.bool)
    found = outside(graph.with_split(none | trains, none, none, "all or none"), unit)
    assert found.x.shape == (0 if trains else graph.num_nodes, graph.num_features)
    assert (found.adj.num_nodes, found.adj.num_arcs) == ((0, 0) if trains else (60, graph.adj.num_arcs))


def test_they_are_made_once_for_a_public_view(graph: Graph) -> None:
    public, _ = graph.seal(Adjacency.of("features"))
    assert public.outside_training() is public.outside_training()


def test_what_is_kept_of_outsiders_is_not_found_by_a_graph_of_other_arcs() -> None:
    """Under NODE no public part tells the two apart: x, y and arcs are all private."""
    graph = gv.datasets.load("social", split="random", seed=0)
    fewer = graph.with_arcs(Csr.from_edge_index(*graph.adj.edge_index().numpy()[:, :0], graph.num_nodes))  # type: ignore[call-arg]
    torch.manual_seed(0)
    kept = []
    for each in (graph, fewer, graph):
        public, _ = each.seal(Adjacency.of("node"))
        kept.append(public.cache_public("arcs", lambda public=public: public.outside_training().adj.num_arcs))
    assert kept[0] == kept[2] > kept[1] == 0


@pytest.mark.parametrize("unit", OPEN)
def test_a_public_view_travels_without_the_graph_behind_it(graph: Graph, unit: str) -> None:
    x = graph.x.clone()
    x[graph.train] = 12345.678
    marked = replace(graph, x=x)
    public, _ = marked.seal(Adjacency.of(unit))
    assert not hasattr(public.outside, "__dict__")
    sent = pickle.dumps(public)
    assert x[graph.train][0].numpy().tobytes() not in sent
    there = pickle.loads(sent)
    assert same(there.outside_training(), public.outside_training())
    assert not there.outside.of_same_graph(public.outside)
    assert there.outside.of_same_graph(there.outside)


@pytest.mark.parametrize("unit", ["edge", "label"])
def test_no_way_leads_from_what_is_public_to_the_graph(unit: str) -> None:
    """A bound method of the graph, say, would carry private edges into every copy of the public view."""
    public, _ = gv.datasets.load("social").seal(Adjacency.of(unit))
    public.feature_rows()
    seen: set[int] = set()
    waiting: list[Any] = [public]
    while waiting:
        part = waiting.pop()
        assert not isinstance(part, Graph)
        if id(part) not in seen and not isinstance(part, type | ModuleType | FunctionType):
            seen.add(id(part))
            waiting += gc.get_referents(part)


# The seal


@pytest.mark.parametrize(
    ("unit", "private"),
    [("edge", {"adj"}), ("node", {"x", "y", "adj"}), ("features", {"x", "y"}), ("label", {"y"})],
)
def test_seal_hides_what_the_unit_protects(unit: str, private: set[str]) -> None:
    graph = small().random_split()
    public, sealed = graph.seal(Adjacency.of(unit))
    accessors = {"x": public.features, "y": public.labels, "adj": public.arcs}
    for part in ("x", "y", "adj"):
        if part in private:
            assert getattr(public, part) is None
            with pytest.raises(PrivateAccess, match="private"):
                accessors[part]()
            with pytest.raises(PrivateAccess, match=r"outside Session\.release"):
                getattr(sealed, part)
        else:
            assert accessors[part]() is getattr(graph, part)
            assert getattr(sealed, part) is getattr(graph, part)
        with sealed.opened():
            assert getattr(sealed, part) is getattr(graph, part)
    some = np.array([3, 1])
    if "x" in private:
        with pytest.raises(PrivateAccess, match=r"outside Session\.release"):
            sealed.rows(some)
    with sealed.opened():
        assert torch.equal(sealed.rows(some), graph.x[[3, 1]])
    assert sealed.public is public
    assert public.train is graph.train
    assert (public.num_nodes, public.num_features, public.num_classes) == (40, 4, 3)


@pytest.mark.parametrize("unit", ["edge", "node", "features", "label"])
def test_masks_hold_unlabelled_ids_unless_labels_are_public(unit: str) -> None:
    graph = small().random_split()
    y = graph.y.clone()
    y[::4] = -1
    bare = replace(graph, y=y)
    public, again = (bare.seal(Adjacency.of(unit))[0] for _ in range(2))
    for role in ("train", "val", "test"):
        shown = getattr(public, role)
        assert torch.equal(shown, getattr(graph, role) & (y >= 0) if unit == "edge" else getattr(graph, role))
        assert shown is getattr(again, role), "what was learnt from public data is found by it"


@pytest.mark.parametrize("unit", [unit for unit in Unit if unit is not Unit.NODE])
def test_degrees_are_shown_under_unit_node_alone(unit: Unit) -> None:
    """At edge level they are private; elsewhere whoever wants them counts the public arcs."""
    public, _ = small().with_every_id_present().seal(Adjacency.of(unit))
    assert public.degrees is None
    with pytest.raises(PrivateAccess, match="unit node only"):
        public.out_degrees()


def closed(sealed: Sealed) -> bool:
    try:
        _ = sealed.adj
    except PrivateAccess:
        return True
    return False


def test_the_gate_closes_again_even_after_an_error() -> None:
    _, sealed = small().seal(Adjacency.of("edge"))
    with pytest.raises(RuntimeError), sealed.opened():
        raise RuntimeError
    assert closed(sealed)
    with sealed.opened():
        assert not closed(sealed)
        with pytest.raises(PrivateAccess, match="already open"), sealed.opened():
            pass
        assert not closed(sealed)
    assert closed(sealed)


@pytest.mark.parametrize("leak", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_sealed_graph_cannot_be_taken_away(leak: Callable[[Any], Any]) -> None:
    _, sealed = small().seal(Adjacency.of("node"))
    with pytest.raises(PrivateAccess), sealed.opened():
        leak(sealed)
    assert not hasattr(sealed, "__dict__")
    assert "tensor" not in repr(sealed)


def test_edge_adjacency_must_agree_with_the_graph() -> None:
    graph = small()
    with pytest.raises(InvalidInput, match="undirected=True"):
        graph.seal(Adjacency.of("edge", undirected=False))
    directed = Graph.from_pyg(graph.to_pyg(), undirected=False)
    directed.seal(Adjacency.of("edge", undirected=False))
    directed.seal(Adjacency.of("node", undirected=True))


def test_blank_public_is_enough_for_planning() -> None:
    public = Public.blank(100, 10, 3)
    assert int(public.train.sum()) == 75
    assert not (public.val | public.test).any()
    assert int(Public.blank(100, 10, 3, num_train=7).train.sum()) == 7
    for accessor in (public.features, public.labels, public.arcs):
        with pytest.raises(PrivateAccess):
            accessor()
    with pytest.raises(InvalidInput, match="nodes"):
        Public.blank(0, 10, 3)
    with pytest.raises(InvalidInput, match="num_train"):
        Public.blank(5, 10, 3, num_train=6)


class TestLearnt:
    """What is made of public data is made once for each seed and each set of public parts."""

    def test_found_again_under_the_same_seed_only(self) -> None:
        public, _ = gv.datasets.load("chain-s").seal(Adjacency.of("edge"))
        calls: list[float] = []

        def build() -> float:
            calls.append(float(torch.rand(())))
            return calls[-1]

        with torch.random.fork_rng(devices=[]):
            for seed in (0, 0, 1, 1, 0):
                torch.manual_seed(seed)
                before = torch.get_rng_state()
                public.cache_public("draw", build)
                assert torch.equal(torch.get_rng_state(), before), "the stream goes on as if nothing was drawn"
        assert len(calls) == 3
        assert calls[0] == calls[2] != calls[1]

    def test_other_labels_features_masks_or_units_share_nothing(self) -> None:
        graph = gv.datasets.load("chain-s")
        public, _ = graph.seal(Adjacency.of("edge"))
        assert public.cache_public("what", lambda: 1) == 1
        assert graph.seal(Adjacency.of("edge"))[0].cache_public("what", lambda: 2) == 1
        others = [
            replace(public, y=public.labels().clone()),
            replace(public, train=public.val, val=public.train),
            graph.seal(Adjacency.of("node"))[0],
            graph.random_split(seed=9).seal(Adjacency.of("edge"))[0],
        ]
        for number, other in enumerate(others):
            assert other.cache_public("what", lambda number=number: 10 + number) == 10 + number
