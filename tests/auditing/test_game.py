"""The game: what a witness adds up, that every run is a function of its seed, and that nothing is played twice."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from neighbours import Sketch

import graphveil as gv
from graphveil.auditing.game import AllTold, Game, Pair, Witness
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.runtime.compute import Compute, Run
from graphveil.runtime.engine import Local, Ray
from graphveil.vocabulary import Adjacency, Plan, Query, Reading

EDGE = Adjacency.of("edge")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Sketch.random(np.random.default_rng(1), undirected=True, nodes=9).graph()


def game(graph: Graph, method: gv.Method, noise: float = 2.0, unit: str = "edge") -> Game:
    adjacency = Adjacency.of(unit)
    source, target = int(graph.adj.indices[0]), int(graph.adj.targets()[0])
    trained = int(graph.train.nonzero()[0])
    pair = Pair.without_edge(graph, source, target) if unit == "edge" else Pair.without_node(graph, trained)
    return Game(pair, method, method.plan(pair.worlds(adjacency)[0], adjacency, Reading.SOUND, noise))


def small(**settings: object) -> gv.Method:
    return gv.methods.Gap(hidden=4, head=4, epochs=2, **settings)


def test_evidence_of_one_gaussian_sum_has_the_law_it_must_have(graph: Graph) -> None:
    """N(+-mu^2/2, mu^2) with mu = sqrt(2) / noise: two rows move by one clip."""
    scores = game(graph, small(hops=1)).play(1500, 0)
    mu = math.sqrt(2) / 2.0
    for side, sign in ((scores.present, 1), (scores.absent, -1)):
        assert side.mean() == pytest.approx(sign * mu**2 / 2, abs=4 * mu / math.sqrt(1500))
        assert side.std() == pytest.approx(mu, rel=0.08)


@pytest.mark.parametrize("method", [small(hops=1), small(hops=2), gv.methods.DpSgd(steps=2)])
def test_the_same_for_any_number_of_workers(graph: Graph, method: gv.Method) -> None:
    played = game(graph, method, unit="node" if isinstance(method, gv.methods.DpSgd) else "edge")
    alone = played.play(70, 5)
    together = played.play(70, 5, run=Run(engine=Local(2)))
    assert np.array_equal(alone.present, together.present)
    assert np.array_equal(alone.absent, together.absent)


@pytest.mark.slow  # the engine itself is tried on Ray in runtime/test_engine.py
def test_games_on_ray_end_alike(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="needs graphveil[ray]")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    played = game(graph, small(hops=2))
    alone = played.play(70, 5)
    with Compute(engine=Ray()).opened() as run:
        together = played.play(70, 5, run=run)
    assert np.array_equal(alone.present, together.present)
    assert np.array_equal(alone.absent, together.absent)


def test_asking_once_is_a_short_cut_that_changes_nothing(graph: Graph) -> None:
    """A plan of one release is played without running the method again: the same evidence as if it were run."""
    quick = game(graph, small(hops=1))
    public, here, there = quick.pair.worlds(EDGE)
    ratios = []
    for seed in (3, 4):
        witness = Witness(public, here, (here, there), quick.plan, Seeded(seed))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(quick.chance)
            with pytest.raises(AllTold):
                quick.method.fit(witness)
        ratios.append(witness.log_ratio)
    assert quick.log_ratios(True, [3, 4]).tolist() == ratios


def test_nothing_is_played_twice(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played, folder = game(graph, small(hops=1)), tmp_path / "kept"
    first = played.play(70, 0, folder)
    files = sorted(folder.iterdir())
    assert len(files) == 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *files))
    lost = files[0].read_bytes()
    files[0].write_text("damaged")
    monkeypatch.setattr(Game, "log_ratios", counted := _Counted())
    again = played.play(70, 0, folder)
    assert counted.runs in (64, 6)
    assert files[0].read_bytes() == lost
    assert np.array_equal(first.present, again.present)
    assert np.array_equal(first.absent, again.absent)


class _Counted:
    """`Game.log_ratios`, counting the runs."""

    def __init__(self) -> None:
        self.runs, self._log_ratios = 0, Game.log_ratios

    def __get__(self, game: Game, _: type) -> object:
        def counted(present: bool, seeds: list[int]) -> object:
            self.runs += len(seeds)
            return self._log_ratios(game, present, seeds)

        return counted


def test_a_key_follows_everything_that_matters(graph: Graph) -> None:
    games = [
        game(graph, small(hops=1)),
        game(graph, small(hops=1), noise=3.0),
        game(graph, small(hops=2)),
        Game(game(graph, small(hops=1)).pair, small(hops=1), game(graph, small(hops=1)).plan, chance=1),
        game(graph.random_split(seed=3), small(hops=1)),
    ]
    assert len({one.key for one in games}) == len(games)
    assert games[0].key == game(graph, small(hops=1)).key


@pytest.mark.parametrize("period", [1, 2])
def test_noise_that_comes_again_gives_the_graph_away(graph: Graph, period: int) -> None:
    played = game(graph, gv.methods.DpSgd(steps=2 * period, learning_rate=64.0), unit="node")
    public, here, there = played.pair.worlds(played.plan.adjacency)

    class Again(Seeded):
        drawn = 0

        def normal(self, count: int) -> np.ndarray:
            self.drawn += 1
            return Seeded(self.drawn % period).normal(count)

    for used, said in ((here, math.inf), (there, -math.inf)):
        witness = Witness(public, used, (here, there), played.plan, Again(0))
        with pytest.raises(AllTold):
            played.method.fit(witness)
        assert witness.log_ratio == said


def test_what_follows_the_last_release_is_not_run(graph: Graph) -> None:
    class Tired(gv.methods.Gap):
        def fit(self, session: Session) -> dict[str, torch.Tensor]:
            session.release("hop", _rows)
            raise AssertionError("post-processing was run")

    assert len(game(graph, Tired(hops=1)).log_ratios(True, [0, 1])) == 2


def _rows(sealed: gv.Sealed) -> object:
    from graphveil.methods.edge.parts.edge_method import messages

    return messages(sealed, torch.ones(sealed.public.num_nodes, 1))


def test_bad_input_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidInput, match="at least one run"):
        game(graph, small()).play(0, 0)
    with pytest.raises(InvalidInput, match="no edge from 0 to 0"):
        Pair.without_edge(graph, 0, 0)


def test_a_witness_keeps_to_the_plan(graph: Graph) -> None:
    played = game(graph, small(hops=1))
    public, here, there = played.pair.worlds(EDGE)
    witness = Witness(public, here, (here, there), Plan(EDGE, Reading.SOUND, ()), Seeded(0))
    query: Query = _rows
    with pytest.raises(gv.PrivateAccess):
        witness.release("hop", query)
