"""What a graph shows of itself, and what the data holder states of its population."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import PUBLIC_DEGREES, Public, out_degrees
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Adjacency
from small_graph import blanked, small


def test_repr_shows_sizes_not_data() -> None:
    graph = small()
    assert "40 nodes" in repr(graph)
    assert "tensor" not in repr(graph)
    assert "tensor" not in repr(graph.seal(Adjacency.of("node"))[0])


def test_degrees_are_public_only_where_somebody_says_so() -> None:
    graph, node = small().random_split(), Adjacency.of("node")
    bare = graph.seal(node)[0]
    assert bare.degrees is None
    with pytest.raises(InvalidInput, match=r"with_degrees\(degrees\).*with_every_id_present\(\)"):
        bare.degrees_assumed()
    counted = graph.with_every_id_present().seal(node)[0]
    heard = graph.adj.to_scipy().toarray()[graph.train.numpy()].sum(axis=0)
    assert counted.out_degrees().tolist() == heard.tolist()
    stated = graph.with_degrees(30).seal(node)[0]
    assert stated.out_degrees().tolist() == [30] * 40
    assert graph.with_every_id_present().with_degrees(30).seal(node)[0].out_degrees().max() == 30
    assert graph.with_degrees(30).with_every_id_present().seal(node)[0].out_degrees().tolist() == heard.tolist()
    said = [public.degrees_assumed() for public in (counted, stated, Public.blank(40, 4, 3))]
    assert all(line.startswith(PUBLIC_DEGREES) for line in said)
    assert len(set(said)) == 3
    for unit in ("edge", "features", "label"):
        assert graph.with_degrees(30).seal(Adjacency.of(unit))[0].degrees is None


def test_stated_degrees_do_not_depend_on_who_is_present() -> None:
    whole, node = small().random_split(), Adjacency.of("node")
    degrees = out_degrees(whole)
    for gone in range(whole.num_nodes):
        there = blanked(whole, gone).with_degrees(degrees).seal(node)[0]
        assert np.array_equal(there.out_degrees(), degrees)
    counted = blanked(whole, gone).with_every_id_present().seal(node)[0]
    assert not np.array_equal(counted.out_degrees(), degrees), "counted where an id is blank, they tell who it is"


def test_degrees_are_stated_of_one_split_and_one_set_of_arcs() -> None:
    graph = small().random_split().with_degrees(40)
    assert graph.random_split(seed=1).degrees is None
    assert graph.with_arcs(graph.adj).degrees is None
    assert replace(graph, name="other").degrees is not None
    present = small().with_every_id_present()
    assert present.random_split().every_id_present
    assert present.with_arcs(present.adj).every_id_present
    assert beside(present.split_public(20, 10, 10)).every_id_present
    assert present.stand_in(Adjacency.of("node")).every_id_present
    assert not small().random_split().every_id_present


def beside(graph: Graph) -> Graph:
    assert graph.public_graph is not None
    return graph.public_graph


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda rows: np.array(rows, dtype=np.uint8)])
def test_degrees_come_in_any_row_of_whole_numbers(kind: Callable[[list[int]], Any]) -> None:
    assert small().random_split().with_degrees(kind([20] * 40)).degrees.tolist() == [20] * 40


@pytest.mark.parametrize(
    ("degrees", "words"),
    [
        ([20] * 39, "40 whole numbers"),
        ([20] * 39 + [-1], "at least 0"),
        ([20.0] * 40, "whole numbers"),
        ([[20] * 40], "whole numbers"),
        ([True] * 40, "whole numbers"),
        (["a"] * 40, "whole numbers"),
        ([[1], [2, 3]], "whole numbers"),
        (2**70, "whole numbers"),
        (np.full(40, 2**64 - 1, dtype=np.uint64), "whole numbers"),
        (torch.zeros(40, dtype=torch.int64, device="meta"), "whole numbers"),
        (None, "whole numbers"),
        (1, "points to more training ids than the 1 that were stated"),
    ],
)
def test_false_degrees_are_refused(degrees: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        small().random_split().with_degrees(degrees)


def test_arcs_beyond_what_was_stated_are_refused() -> None:
    graph = replace(small().random_split(), adj=Csr.empty(40)).with_degrees(0)
    with pytest.raises(InvalidInput, match="more training ids than the 0 that were stated"):
        replace(graph, adj=small().adj)
    with pytest.raises(InvalidInput, match="int64"):
        replace(graph, degrees=np.zeros(40))
    exact = out_degrees(small().random_split())
    short = exact - (np.arange(40) == exact.argmax())
    assert np.array_equal(small().random_split().with_degrees(exact).degrees, exact)
    with pytest.raises(InvalidInput, match=f"id {exact.argmax()} points to more training ids than the"):
        small().random_split().with_degrees(short)
