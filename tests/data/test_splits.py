"""Splits deal out all ids, whoever has a label or a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from small_graph import QUICK, blanked, small


@QUICK
@given(st.integers(10, 80), st.floats(0.2, 0.6), st.floats(0, 0.2), st.floats(0, 0.2), st.integers(0, 99))
def test_random_split(n: int, train: float, val: float, test: float, seed: int) -> None:
    graph = small(n)
    split = graph.random_split(train, val, test, seed)
    sizes = [round(fraction * n) for fraction in (train, val, test)]
    assert [int(mask.sum()) for mask in (split.train, split.val, split.test)] == sizes
    assert split.split_hash() == graph.random_split(train, val, test, seed).split_hash()
    assert split.split == f"random({train:g},{val:g},{test:g},seed={seed})"


def test_splits_keep_every_id_and_seeds_differ() -> None:
    data = small().to_pyg()
    data.y[:10] = -1
    graph = Graph.from_pyg(data)
    split = graph.random_split()
    assert bool((split.train | split.val | split.test).all())
    assert split.split_hash() != graph.random_split(seed=1).split_hash()
    for role in ("train", "val", "test"):
        assert torch.equal(split.labelled(role), getattr(split, role) & (split.y >= 0))


@pytest.mark.parametrize("node", [0, 7, 20, 39])
def test_no_split_tells_who_has_a_record(node: int) -> None:
    """The masks, their hash and their sizes are those of the neighbour in which one id is blank."""
    whole = small()
    fewer = blanked(whole, node)
    public = replace(small(seed=1), name="public")
    for draw in (
        lambda graph: graph.random_split(seed=2),
        lambda graph: graph.split_public(20, 10, 10, seed=2),
        lambda graph: graph.with_public(public),
        lambda graph: graph.with_split(*torch.eye(3, 40).bool(), "mine"),
    ):
        here, there = draw(whole), draw(fewer)
        assert here.split_hash() == there.split_hash()
        assert (here.split, here.split_reads_labels) == (there.split, there.split_reads_labels)


def test_splits_say_whether_they_looked_at_labels() -> None:
    graph = small(60)
    assert not graph.random_split().split_reads_labels
    assert graph.per_class_split(5, 10, 20).split_reads_labels
    assert not graph.per_class_split(5, 10, 20).random_split().split_reads_labels
    assert graph.split_public(30, 10, 10, balanced=True).split_reads_labels
    assert not graph.split_public(30, 10, 10).split_reads_labels
    train, rest = graph.random_split().train, torch.zeros(60, dtype=torch.bool)
    assert not graph.with_split(train, rest, rest, "mine").split_reads_labels
    assert graph.with_split(train, rest, rest, "mine", reads_labels=True).split_reads_labels


def test_blank_ids_may_be_in_a_split_column(tmp_path: Path) -> None:
    rows = "id,label,split,a\n0,x,train,1\n1,,train,0\n2,y,test,2\n3,,test,0\n"
    (tmp_path / "nodes.csv").write_text(rows)
    (tmp_path / "edges.csv").write_text("source,target\n0,2\n")
    graph = Graph.from_edges(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    assert graph.train.tolist() == [True, True, False, False]
    assert graph.labelled("train").tolist() == [True, False, False, False]


# The population


def test_random_split_never_overlaps_when_rounding_up() -> None:
    split = small(10).random_split()
    assert [int(mask.sum()) for mask in (split.train, split.val, split.test)] == [8, 1, 1]


@pytest.mark.parametrize("fractions", [(0.8, 0.2, 0.2), (-0.1, 0.5, 0.5), (float("nan"), 0, 0), (0.0, 0.5, 0.5)])
def test_bad_fractions(fractions: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput):
        small().random_split(*fractions)


def test_negative_seed() -> None:
    with pytest.raises(InvalidInput, match="seed"):
        small().random_split(seed=-1)
    with pytest.raises(InvalidInput, match="seed"):
        small().random_split(seed=True)


def test_per_class_split() -> None:
    graph = small(60)
    split = graph.per_class_split(per_class=5, val=10, test=20, seed=4)
    assert torch.bincount(split.y[split.train]).tolist() == [5, 5, 5]
    assert (int(split.val.sum()), int(split.test.sum())) == (10, 20)
    assert split.split_hash() == graph.per_class_split(per_class=5, val=10, test=20, seed=4).split_hash()
    assert split.split == "per_class(5,10,20,seed=4)"


@pytest.mark.parametrize(
    ("sizes", "words"), [((30, 1, 1), "class 0 has 20"), ((5, 40, 40), "45 labelled"), ((0, 1, 1), "positive")]
)
def test_impossible_per_class_split(sizes: tuple[int, int, int], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        small(60).per_class_split(*sizes)
