"""Edges in parts: counted where they lie, noise and all, to the bits of one process; faults are named before."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import graphveil as gv
from graphveil.cli import app
from graphveil.data.datasets.synthetic import social
from graphveil.data.parts import EdgeParts, ScatteredArcs
from graphveil.errors import GraphveilError, InvalidInput, Unsupported
from graphveil.mechanisms import distributed_counts, geometric_count
from graphveil.mechanisms.distributed_counts import PartMarks
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.edge.parts.counts import cluster_degrees
from graphveil.methods.edge.parts.edge_method import heard_rows
from graphveil.privacy import noise
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.runtime.compute import Compute
from graphveil.runtime.engine import Columns, Engine, GroupBy, Local, Ray
from graphveil.vocabulary import Adjacency
from pieces import DieOnce

SMALL = gv.methods.Hearsay(folds=2, hidden=4, head=4)


def write(folder: Path, graph: gv.Graph, more: list[tuple[int, int]] | None = None) -> tuple[str, str]:
    """Patterns of the edges and of the nodes of a graph, in parts; more: further edges."""
    folder.mkdir(exist_ok=True)
    low, high = graph.adj.indices, graph.adj.targets()
    once = low < high if graph.undirected else low != high
    edges = np.concatenate([np.stack([low[once], high[once]], axis=1), np.array(more or []).reshape(-1, 2).astype(int)])
    for place, part in enumerate(np.array_split(edges, 4)):
        pq.write_table(pa.table({"source": part[:, 0], "target": part[:, 1]}), folder / f"edges-{place}.parquet")
    split = np.select([graph.train.numpy(), graph.val.numpy(), graph.test.numpy()], ["train", "val", "test"], "")
    columns = {"id": np.arange(graph.num_nodes), "label": graph.y.numpy(), "split": split}
    columns |= {f"x{place}": column for place, column in enumerate(graph.x.numpy().T)}
    for place, rows in enumerate(np.array_split(np.arange(graph.num_nodes), 3)):
        table = pa.table({name: column[rows] for name, column in columns.items()})
        pq.write_table(table, folder / f"nodes-{place}.parquet")
    return str(folder / "edges-*.parquet"), str(folder / "nodes-*.parquet")


@pytest.fixture
def graph() -> gv.Graph:
    return social(num_nodes=120, num_features=3).random_split()


@pytest.fixture
def patterns(graph: gv.Graph, tmp_path: Path) -> tuple[str, str]:
    return write(tmp_path / "parts", graph)


def test_parts_read_as_a_whole_are_the_graph(graph: gv.Graph, patterns: tuple[str, str]) -> None:
    again = gv.Graph.from_edges(*patterns)
    assert again.fingerprint() == graph.fingerprint()
    assert again.split_hash() == graph.split_hash()


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("block", [1 << 20, 64])
def test_counts_are_those_of_one_process_bit_for_bit(
    graph: gv.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undirected: bool, block: int
) -> None:
    """Blocks of 64 cells are shared out over many groups, and a node's cells over two of them."""
    monkeypatch.setattr(distributed_counts, "BLOCK", block)
    graph = replace(graph, undirected=undirected)
    patterns = write(tmp_path / "parts", graph)
    whole, parts = (gv.Graph.from_edges(*patterns, undirected=undirected, in_parts=each) for each in (False, True))
    assert "4 files of" in repr(parts)
    found = [gv.train(each, SMALL, epsilon=1, delta=1e-5, unit="edge", seed=3) for each in (whole, parts)]
    assert torch.equal(found[0].state["logits"], found[1].state["logits"])
    assert found[0].certificate.epsilon == found[1].certificate.epsilon
    levels = gv.methods.LpgNet(hidden=4, head=4, epochs=2)
    found = [gv.train(each, levels, epsilon=1, delta=1e-5, unit="edge", seed=3) for each in (whole, parts)]
    assert torch.equal(found[0].state["logits"], found[1].state["logits"])


def released(parts: gv.Graph, source: Secure, scale: float = 2.0) -> torch.Tensor:
    _, sealed = parts.seal(Adjacency.of("edge"))
    query = partial(cluster_degrees, clusters=parts.y, count=4)
    with sealed.opened():
        return geometric_count.Tally(scale, marks=2).apply(sealed, query, source)


def read_by(graph: gv.Graph, engine: Engine) -> gv.Graph:
    """The same graph, its edges read by the workers of another engine."""
    assert isinstance(graph.adj, ScatteredArcs)
    return replace(graph, adj=graph.adj.read_by(engine))


@dataclass(frozen=True)
class Twice(Local):
    """Every block is made twice, as if a worker had been lost."""

    def grouped(self, work: GroupBy) -> Iterator[Columns]:
        for first, again in zip(super().grouped(work), super().grouped(work), strict=True):
            assert all(np.array_equal(first[name], again[name]) for name in first)
            yield again


def test_a_block_that_is_made_again_has_the_same_secure_noise(
    patterns: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed_counts, "BLOCK", 64)
    parts = gv.Graph.from_edges(*patterns, in_parts=True)
    twice = read_by(parts, Twice())
    once, again = released(twice, Secure()), released(twice, Secure())
    assert not torch.equal(once, again)
    drawn = once - released(parts, Secure(), scale=0.0)
    # Blocks draw apart: 64 noises would not agree by chance.
    assert len({tuple(row) for row in drawn[:448].view(7, 64).tolist()}) == 7
    assert float(drawn.abs().double().mean()) == pytest.approx(2.0, rel=0.3)


def test_noise_is_that_of_one_key(patterns: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With one key for both, cryptographic noise is the same in parts and in one process."""
    monkeypatch.setattr(distributed_counts, "BLOCK", 64)
    found = []
    for in_parts in (False, True):
        read = gv.Graph.from_edges(*patterns, in_parts=in_parts)
        monkeypatch.setattr("os.urandom", lambda count: bytes(range(count)))
        found.append(gv.train(read, SMALL, epsilon=1, delta=1e-5, unit="edge", seed=3, secure=True).state["logits"])
        monkeypatch.undo()
        monkeypatch.setattr(distributed_counts, "BLOCK", 64)
    assert torch.equal(*found)


ROWS = torch.from_numpy(np.random.default_rng(5).standard_normal((120, 3))).float()


def summed(parts: gv.Graph, source: Stream, std: float = 2.0, rows: torch.Tensor = ROWS) -> torch.Tensor:
    """Noisy sums over neighbours of rows, most of which are longer than the clip."""
    _, sealed = parts.seal(Adjacency.of("edge", undirected=parts.undirected))
    with sealed.opened():
        return Gaussian(std, clip=0.75).apply(sealed, partial(heard_rows, rows=rows), source)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("block", [1 << 20, 64])
def test_sums_are_those_of_the_whole_graph_on_a_grid(
    graph: gv.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undirected: bool, block: int
) -> None:
    monkeypatch.setattr(distributed_counts, "BLOCK", block)
    patterns = write(tmp_path / "parts", replace(graph, undirected=undirected))
    whole, parts = (gv.Graph.from_edges(*patterns, undirected=undirected, in_parts=each) for each in (False, True))
    bad = ROWS.clone()
    bad[7], bad[8, 0] = float("nan"), float("inf")
    for rows in (ROWS, bad, 1e-9 * ROWS):
        both = [summed(each, Seeded(0), 0.0, rows) for each in (whole, parts)]
        assert both[0].shape == both[1].shape == (120, 3)
        assert both[0].dtype == both[1].dtype
        assert torch.allclose(*both, atol=1e-7)


def test_no_row_on_the_grid_is_longer_than_the_clip() -> None:
    """Exactly: as fractions. And the sum of all rows stays exact as a double."""
    for clip in (1.0, 0.75, 3e-3):
        rows, step = distributed_counts.on_grid(ROWS.numpy() * np.geomspace(1e-12, 1e12, 120)[:, None], clip)
        lengths = [sum(Fraction(int(entry)) ** 2 for entry in row) for row in rows]
        assert max(lengths) * Fraction(step) ** 2 <= Fraction(clip) ** 2
        assert max(lengths) * Fraction(step) ** 2 >= Fraction(clip) ** 2 * Fraction(999, 1000)
        assert len(rows) * int(np.abs(rows).max()) < 2**52
    tiny = 1e-9 * ROWS.double().numpy()
    rows, step = distributed_counts.on_grid(tiny, 1.0)
    assert (np.abs(rows) * step <= np.abs(tiny)).all()
    assert (np.abs(rows) * step > np.abs(tiny) * (1 - 1e-9) - step).all()
    assert np.array_equal(
        distributed_counts.on_grid(-ROWS.numpy(), 1.0)[0], -distributed_counts.on_grid(ROWS.numpy(), 1.0)[0]
    )


@pytest.mark.parametrize("make", [lambda: Seeded(4), Secure])
def test_noise_of_sums_has_its_law_and_is_a_blocks_own(
    patterns: tuple[str, str], monkeypatch: pytest.MonkeyPatch, make: Callable[[], Stream]
) -> None:
    monkeypatch.setattr(distributed_counts, "BLOCK", 64)
    parts, rows = gv.Graph.from_edges(*patterns, in_parts=True), torch.randn(120, 20)
    twice = read_by(parts, Twice())
    drawn = summed(twice, make(), 2.0, rows) - summed(twice, make(), 0.0, rows)
    # Blocks of three rows draw apart.
    assert len({tuple(block) for block in drawn.reshape(40, 60).tolist()}) == 40
    assert float(drawn.std()) == pytest.approx(1.5, rel=0.06)
    assert float(drawn.mean()) == pytest.approx(0.0, abs=0.12)
    if make is Secure:
        assert not torch.equal(summed(parts, make(), 2.0, rows), summed(parts, make(), 2.0, rows))


def test_all_blocks_of_a_sum_are_widened_for_the_whole(
    patterns: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What rounding to the noise's grid may add is a matter of all entries, wherever they are made."""
    monkeypatch.setattr(distributed_counts, "BLOCK", 64)
    seen = []
    widened = noise._grid
    monkeypatch.setattr(noise, "_grid", lambda scale, slack: seen.append(slack) or widened(scale, slack))
    summed(gv.Graph.from_edges(*patterns, in_parts=True), Secure())
    assert set(seen) == {math.sqrt(360) / 0.75}


@pytest.mark.parametrize(
    "method", [replace(SMALL, channel="sums", hops=2), gv.methods.Gap(hidden=4, head=4, epochs=2, hops=2)]
)
def test_methods_of_sums_run_on_parts(patterns: tuple[str, str], method: gv.Method) -> None:
    """However blocks are shared out over workers, a seed gives one result, at the price of the whole graph's."""
    parts, found = gv.Graph.from_edges(*patterns, in_parts=True), []
    for engine in (Local(), Twice()):
        compute = Compute(engine=engine)
        found.append(gv.train(parts, method, epsilon=1, delta=1e-5, unit="edge", seed=3, compute=compute))
    assert torch.equal(found[0].state["logits"], found[1].state["logits"])
    whole = gv.train(gv.Graph.from_edges(*patterns), method, epsilon=1, delta=1e-5, unit="edge", seed=3)
    assert whole.certificate.epsilon == found[0].certificate.epsilon


def test_what_nodes_say_must_fit_the_graph(patterns: tuple[str, str]) -> None:
    whole, parts = (gv.Graph.from_edges(*patterns, in_parts=each) for each in (False, True))
    few, high = PartMarks(torch.zeros(5, dtype=torch.int64), 4), PartMarks(torch.full((120,), 4), 4)
    for graph, asked, act in ((parts, few, 2), (whole, high, 2), (parts, high, 2), (parts, PartMarks(parts.y, 4), 1)):
        _, sealed = graph.seal(Adjacency.of("edge"))
        with sealed.opened(), pytest.raises(GraphveilError, match=r"another one|of 0 to 3|2 mark"):
            geometric_count.Tally(1.0, marks=act).apply(sealed, lambda _, asked=asked: asked, Seeded(0))


@dataclass(frozen=True)
class Losing(Local):
    """Forgets a block."""

    def grouped(self, work: GroupBy) -> Iterator[Columns]:
        return itertools.islice(super().grouped(work), 1, None)


def test_a_block_that_is_lost_for_good_is_no_release(patterns: tuple[str, str]) -> None:
    parts = read_by(gv.Graph.from_edges(*patterns, in_parts=True), Losing())
    for release in (released, summed):
        with pytest.raises(GraphveilError, match="the engine lost a block"):
            release(parts, Secure())


def test_an_edge_that_is_listed_twice_is_one_edge(graph: gv.Graph, tmp_path: Path) -> None:
    low, high = int(graph.adj.indices[0]), int(graph.adj.targets()[0])
    faults = [(low, high), (high, low), (5, 5)]
    patterns, clean = write(tmp_path / "parts", graph, faults), write(tmp_path / "clean", graph)
    with pytest.raises(InvalidInput, match="1 self-loops and 2 repeated edges"):
        gv.train(gv.Graph.from_edges(*patterns, in_parts=True), SMALL, epsilon=1, unit="edge", seed=0)
    found = [
        gv.train(gv.Graph.from_edges(*each, in_parts=True, clean=True), SMALL, epsilon=1, unit="edge", seed=0)
        for each in (patterns, clean)
    ]
    assert torch.equal(found[0].state["logits"], found[1].state["logits"])
    sums = [summed(gv.Graph.from_edges(*each, in_parts=True, clean=True), Seeded(0), 0.0) for each in (patterns, clean)]
    assert torch.equal(*sums)


def test_ids_are_looked_up_by_their_text(graph: gv.Graph, tmp_path: Path) -> None:
    """Numbers that are their own places are read as they are; others, and texts, are looked up."""
    pattern = write(tmp_path / "parts", graph)[0]
    table = pq.read_table(tmp_path / "parts" / "edges-3.parquet")
    texts = table.cast(pa.schema([("source", pa.string()), ("target", pa.string())]))
    order = EdgeParts.of(pattern, pa.array([str(place) for place in range(120)], pa.large_string()))
    turned = EdgeParts.of(pattern, pa.array([str(119 - place) for place in range(120)], pa.large_string()))
    few = EdgeParts.of(pattern, pa.array([str(place) for place in range(60)], pa.large_string()))
    assert (order.in_order, turned.in_order, few.in_order) == (True, False, True)
    for parts in (order, turned, few):
        for read, looked_up in zip(parts.ends(table), parts.ends(texts), strict=True):
            assert np.array_equal(read, looked_up)
    assert np.array_equal(order.ends(table)[0], 119 - turned.ends(table)[0])
    assert (few.ends(table)[0] < 0).any()


def test_strangers_are_refused(graph: gv.Graph, tmp_path: Path) -> None:
    patterns = write(tmp_path / "parts", graph, [(3, 777)])
    with pytest.raises(InvalidInput, match="1 rows have an end that is not in the node table"):
        gv.train(gv.Graph.from_edges(*patterns, in_parts=True, clean=True), SMALL, epsilon=1, unit="edge", seed=0)


def test_what_needs_arcs_is_refused_before_anything_is_spent(patterns: tuple[str, str], tmp_path: Path) -> None:
    parts = gv.Graph.from_edges(*patterns, in_parts=True)
    for method in (gv.methods.ProGap(), replace(SMALL, channel="pairs")):
        with pytest.raises(Unsupported, match="reads the arcs themselves"):
            gv.train(parts, method, epsilon=1, unit="edge", seed=0)
    with pytest.raises(Unsupported, match="counted at unit edge only"):
        parts.seal(Adjacency.of("label"))
    with pytest.raises(Unsupported, match="no process holds their arcs"):
        gv.pack(parts, tmp_path / "packed")
    with pytest.raises(Unsupported, match="no process holds their arcs"):
        parts.fingerprint()


def test_edges_are_read_as_the_graph_says(patterns: tuple[str, str]) -> None:
    """A plan that charges one arc of an edge must not meet workers that read two."""
    graph = gv.Graph.from_edges(*patterns, in_parts=True)
    with pytest.raises(InvalidInput, match="opened as undirected ones; open them again"):
        replace(graph, undirected=not graph.undirected)


def test_rows_far_smaller_than_a_step_of_their_squares_are_clipped() -> None:
    rows, step = distributed_counts.on_grid(np.array([[1e-165, 0.0], [0.0, 0.0]]), 1e-170)
    assert 0 < rows[0, 0] * step <= 1e-170


def test_a_ledger_is_refused(patterns: tuple[str, str], tmp_path: Path) -> None:
    whole, parts = (gv.Graph.from_edges(*patterns, in_parts=each) for each in (False, True))
    ledger = gv.Ledger(tmp_path / "ledger.db")
    ledger.open(whole, unit="edge", epsilon=4, delta=1e-5)
    with pytest.raises(Unsupported, match="a ledger knows a graph by its edges"):
        gv.train(parts, SMALL, epsilon=1, unit="edge", seed=0, ledger=ledger)


def test_patterns_that_match_nothing_or_differ(patterns: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file matches"):
        gv.Graph.from_edges(str(tmp_path / "none-*.parquet"), patterns[1])
    pq.write_table(pa.table({"from": [1], "to": [2]}), tmp_path / "parts" / "edges-9.parquet")
    with pytest.raises(InvalidInput, match="differ"):
        gv.Graph.from_edges(*patterns, in_parts=True)


def on_the_command_line(patterns: tuple[str, str], out: Path, *more: str) -> torch.Tensor:
    """What `train` releases of these files."""
    words = ["train", "hearsay", "--unit", "edge", "--epsilon", "1", "--edges", patterns[0], "--nodes", patterns[1]]
    done = CliRunner().invoke(app, [*words, "--folds", "2", "--hidden", "4", "--seed", "0", "--out", str(out), *more])
    assert done.exit_code == 0, done.output
    assert "parts" in done.output
    return gv.load(out).state["logits"]


def test_on_the_command_line(patterns: tuple[str, str], tmp_path: Path) -> None:
    method, read = gv.methods.Hearsay(folds=2, hidden=4), gv.Graph.from_edges(*patterns, name="parts")
    release = gv.train(read, method, epsilon=1, unit="edge", seed=0)
    assert torch.equal(on_the_command_line(patterns, tmp_path / "model"), release.state["logits"])


@pytest.mark.slow
def test_on_the_command_line_of_a_cluster(
    patterns: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="needs graphveil[ray]")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    there = on_the_command_line(patterns, tmp_path / "there", "--engine", "ray", "--jobs", "2")
    assert torch.equal(there, on_the_command_line(patterns, tmp_path / "here"))


@dataclass(frozen=True)
class Dying(Ray):
    """A cluster of which a worker dies while it spreads rows, and one while it gathers them."""

    folder: Path = Path()

    def grouped(self, work: GroupBy) -> Iterator[Columns]:
        spread = DieOnce(work.spread, self.folder / "spread", os.getpid())
        gather = DieOnce(work.gather, self.folder / "gather", os.getpid())
        return super().grouped(replace(work, spread=spread, gather=gather))


@pytest.mark.slow
def test_a_cluster_agrees_bit_for_bit_even_when_workers_are_lost(
    patterns: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a seed, and under one key: blocks that are made again get the noise they had."""
    pytest.importorskip("ray", reason="needs graphveil[ray]")
    # Workers import the pieces from this folder.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(distributed_counts, "BLOCK", 64)
    whole, parts = (gv.Graph.from_edges(*patterns, in_parts=each) for each in (False, True))
    source = Secure()
    copies = source._stream.taken(0)
    with Compute(engine=Dying(jobs=2, folder=tmp_path)).opened() as run:
        compute = Compute(engine=run.engine)
        there = gv.train(parts, SMALL, epsilon=1, delta=1e-5, unit="edge", seed=3, compute=compute)
        dying = read_by(parts, run.engine)
        found = released(dying, source)
        sums = summed(dying, Seeded(6))
    assert torch.equal(sums, summed(parts, Seeded(6)))
    assert (tmp_path / "spread").exists()
    assert (tmp_path / "gather").exists()
    here = gv.train(whole, SMALL, epsilon=1, delta=1e-5, unit="edge", seed=3)
    assert torch.equal(here.state["logits"], there.state["logits"])
    again = Secure()
    monkeypatch.setattr(again._stream, "taken", iter_places(copies[0]))
    assert torch.equal(released(parts, again), found)


def iter_places(key: bytes) -> Callable[[int], tuple[bytes, int]]:
    """The places of a stream under a given key, one after the other."""
    place = 0

    def taken(count: int) -> tuple[bytes, int]:
        nonlocal place
        place += count
        return key, place - count

    return taken
