"""One edge's whole life: over all periods of a stream it moves what is told by no more than one release would."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from graphveil.auditing.stream_game import Moment, graph_of, small_graph
from graphveil.auditing.stream_game import released_counts as counted
from graphveil.data.graph import Graph
from graphveil.errors import GraphveilError, InvalidInput, PrivateAccess
from graphveil.mechanisms.geometric_count import Tally
from graphveil.privacy.noise import Secure, Seeded
from graphveil.streams.journal import Journal, StreamTerms
from graphveil.streams.period import Period, PeriodSession, refreshed
from graphveil.vocabulary import Adjacency, Plan, Reading, Step


@pytest.fixture(autouse=True)
def nobody_pulls_the_plug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


LIVES = list(itertools.product((False, True), repeat=3))[1:]
ROWS = list(itertools.product(((), (0,), (1,), (0, 1, 2)), repeat=3))


def histories(life: tuple[bool, ...], rows: tuple[tuple[int, ...], ...], draw: random.Random) -> Iterator[list[Moment]]:
    """Two streams that differ in the edge (0, 1) of this life; other edges and what nodes say are drawn."""
    others = [frozenset(edge for edge in ((0, 2), (1, 2)) if draw.random() < 0.5) for _ in life]
    said = [tuple(draw.randrange(2) for _ in range(3)) for _ in life]
    for there in (True, False):
        edges = [rest | {(0, 1)} if there and alive else rest for rest, alive in zip(others, life, strict=True)]
        yield [Moment(*parts) for parts in zip(edges, rows, said, strict=True)]


@pytest.mark.parametrize(("undirected", "most"), [(True, 2), (False, 1)])
def test_no_life_of_an_edge_moves_more_than_one_release_would(tmp_path: Path, undirected: bool, most: int) -> None:
    """Every life over three periods, and every choice of refreshed rows at either end, without noise."""
    draw, reached = random.Random(0), set[int]()
    cases = [(life, rows) for life in LIVES for rows in ROWS]
    for number, (life, rows) in enumerate(draw.sample(cases, 100)):
        present, absent = (
            counted(tmp_path / f"{number}-{world}", moments, undirected, 0.0, Seeded(0))
            for world, moments in enumerate(histories(life, rows, draw))
        )
        moved = [abs(x - y).sum() for x, y in zip(present, absent, strict=True)]
        due = sum(
            any(alive and end in some for alive, some in zip(life, rows, strict=True))
            for end in ((0, 1) if undirected else (1,))
        )
        assert sum(moved) == due <= most
        reached.add(int(sum(moved)))
    assert reached == set(range(most + 1))


def moments(edges: list[set[tuple[int, int]]], rows: list[tuple[int, ...]], said: tuple[int, ...]) -> list[Moment]:
    return [Moment(frozenset(some), which, said) for some, which in zip(edges, rows, strict=True)]


def test_both_ends_are_counted_each_in_the_period_of_its_row(tmp_path: Path) -> None:
    found = counted(tmp_path / "j", moments([{(0, 1)}] * 3, [(0,), (0, 1), (0, 1)], (0, 1)), True, 0.0, Seeded(0))
    assert [each.tolist() for each in found] == [[[0, 1]], [[0, 0], [1, 0]], [[0, 0], [0, 0]]]


def test_an_edge_that_vanishes_and_comes_back_stays_counted(tmp_path: Path) -> None:
    found = counted(tmp_path / "j", moments([{(0, 1)}, set(), {(0, 1)}], [(0, 1)] * 3, (0, 1)), True, 0.0, Seeded(0))
    assert [int(each.sum()) for each in found] == [2, 0, 0]


def test_an_end_is_counted_by_what_was_said_then(tmp_path: Path) -> None:
    edges = frozenset({(0, 1)})
    found = counted(
        tmp_path / "j", [Moment(edges, (0, 1), (0, 1)), Moment(edges, (0, 1), (1, 0))], True, 0.0, Seeded(0)
    )
    assert found[0].tolist() == [[0, 1], [1, 0]]
    assert not found[1].any()


@pytest.mark.parametrize("source", [Seeded(3), Secure()])
def test_every_refreshed_row_gets_noise_of_its_own_with_or_without_new_edges(
    tmp_path: Path, source: Seeded | Secure
) -> None:
    nodes = 400
    stream = moments([{(0, 1)}, set()], [tuple(range(nodes))] * 2, (0,) * nodes)
    first, second = (each.ravel().astype(float) for each in counted(tmp_path / "j", stream, True, 2.0, source))
    alpha = np.exp(-1 / 2.0)
    spread = np.sqrt(2 * alpha) / (1 - alpha)
    assert second.std() == pytest.approx(spread, rel=0.15)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.15


def test_periods_under_one_seed_draw_apart() -> None:
    assert not np.array_equal(Seeded(1).uniform(9), Seeded(1, 2).uniform(9))
    assert not np.array_equal(Seeded(1, 3).uniform(9), Seeded(1, 2).uniform(9))
    assert np.array_equal(Seeded(1).uniform(9), Seeded(1, 1).uniform(9))


def test_nothing_is_told_that_the_journal_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = moments([{(0, 1)}], [(0, 1)], (0, 1))

    def full(*_: object, **__: object) -> None:
        raise InvalidInput("the disk is full")

    monkeypatch.setattr(Journal, "_keep", full)
    with pytest.raises(GraphveilError, match="disk is full"):
        counted(tmp_path / "j", stream, True, 1.0, Seeded(0))
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", lambda _: None)
    # So it was not told, and may be counted.
    assert int(counted(tmp_path / "j", stream, True, 0.0, Seeded(0))[0].sum()) == 2


def test_a_period_is_asked_by_count_alone(tmp_path: Path) -> None:
    """A query of a method's own would be in no journal."""
    moment = Moment(frozenset({(0, 1)}), (0, 1), (0, 1))
    public, sealed = graph_of(moment, True).seal(Adjacency.of("edge"))
    for marks, error in ((2, PrivateAccess), (1, GraphveilError)):
        act = Tally(1.0, marks=marks)
        plan = Plan(Adjacency.of("edge"), Reading.SOUND, (Step("hop", act, act.curve(1), 1, why=""),))
        with Journal.held(tmp_path / f"j{marks}", fresh=True) as journal:
            terms, rows = StreamTerms.of("run", plan, 1e-5, 2, False), np.arange(2)
            session = PeriodSession(public, sealed, plan, Seeded(0), Period(journal, terms, "t", rows, None, rows))
            with pytest.raises(error):
                session.release("hop", lambda _: None) if marks == 2 else session.count("hop", torch.arange(2), 2)
            assert journal.period == 0


def ring(nodes: int) -> Graph:
    edges = [(node, (node + 1) % nodes) for node in range(nodes)]
    return small_graph(edges, torch.ones(nodes, 1), torch.arange(nodes) % 2)


def test_rows_are_refreshed_by_public_facts_alone(tmp_path: Path) -> None:
    """The schedule of doubling, and the same rows whatever the edges are."""
    said, folder = (0, 1, 0, 1), tmp_path / "j"
    counted(folder, moments([{(0, 1)}], [(0, 1, 2, 3)], said), True, 1.0, Seeded(0))
    due = []
    for period in range(2, 10):
        graph = ring(4 if period < 6 else 5)
        with Journal.held(folder, fresh=False) as journal:
            places, names = journal.places(None, graph.num_nodes)
            rows = refreshed("doubling", graph, journal, places)
            bare = graph.with_arcs(type(graph.adj).empty(graph.num_nodes))
            assert np.array_equal(rows, refreshed("doubling", bare, journal, places))
            due.append(rows.tolist())
            none = np.empty(0, np.int64)
            told_of_them = np.zeros((len(rows), 2), np.int64)
            journal.commit(journal.terms, str(period), (none, none), rows, told_of_them, names, len(places))
    everybody = [0, 1, 2, 3]
    assert due == [everybody, [], everybody, [], [4], [4], everybody, [4]]


def test_nodes_that_are_asked_about_are_refreshed_and_no_others(tmp_path: Path) -> None:
    counted(tmp_path / "j", moments([{(0, 1)}], [(0, 1)], (0, 1, 0, 1)), True, 1.0, Seeded(0))
    graph = ring(4)
    with Journal.held(tmp_path / "j", fresh=False) as journal:
        places, _ = journal.places(None, 4)
        rules = {rule: refreshed(rule, graph, journal, places).tolist() for rule in ("all", "new", "none")}
        assert rules == {"all": [0, 1, 2, 3], "new": [2, 3], "none": []}
        assert refreshed([3, 1, 3], graph, journal, places).tolist() == [1, 3]
        assert refreshed((row for row in (3, 1)), graph, journal, places).tolist() == [1, 3]
        assert refreshed(np.array([2]), graph, journal, places).tolist() == [2]
        for asked in ([4], ["1"], [[1]]):
            with pytest.raises(InvalidInput, match="no id"):
                refreshed(asked, graph, journal, places)  # type: ignore[arg-type]
        for mask in (np.array([False, True, True, False]), [True, False], [1, True]):
            with pytest.raises(InvalidInput, match="mask"):
                refreshed(mask, graph, journal, places)
        with pytest.raises(InvalidInput, match="no rule"):
            refreshed(3, graph, journal, places)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="unknown refresh"):
            refreshed("edges", graph, journal, places)
