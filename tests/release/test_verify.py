"""A folder is believed as far as it agrees with itself and with its method, and no further."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import graphveil as gv
from bank import accounts, payments
from graphveil.cli import app
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, Tampered
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.methods.baseline.mlp import Mlp
from graphveil.release.certificate import SCHEMA
from graphveil.release.release import require_replaceable
from graphveil.runtime.folders import write_public
from graphveil.vocabulary import Adjacency, Reading


@pytest.fixture
def graph() -> Graph:
    return gv.datasets.load("chain-s")


@pytest.fixture
def folder(graph: Graph, tmp_path: Path) -> Path:
    method = gv.methods.Hearsay(channel="sums")
    return gv.train(graph, method, epsilon=2, delta=1e-5, unit="edge", seed=0).save(tmp_path / "model")


def test_both_kinds_of_folder_are_verified(folder: Path, graph: Graph, tmp_path: Path) -> None:
    assert isinstance(gv.verify(folder), gv.Release)
    assert gv.verify(folder, graph).certificate == gv.load(folder).certificate
    edges = gv.release_graph(graph, gv.methods.LapGraph(), epsilon=2, delta=1e-5, seed=0)
    for kind in ("csv", "parquet"):
        found = gv.verify(edges.save(tmp_path / kind, kind), graph)
        assert isinstance(found, gv.ReleasedEdges)


def test_a_damaged_file_is_found(folder: Path) -> None:
    (folder / "card.txt").write_text("epsilon 0.1\n")
    with pytest.raises(Tampered):
        gv.verify(folder)


@pytest.mark.parametrize("reading", ["sound", "published"])
def test_a_lowered_claim_that_agrees_with_itself_is_found_with_the_graph(
    reading: str, graph: Graph, tmp_path: Path
) -> None:
    """The one that we stand behind, also where a certificate charges the published one beside it."""
    method = gv.methods.Gap(hidden=4, head=4, epochs=2)
    honest = gv.train(graph, method, epsilon=2, delta=1e-5, unit="edge", reading=reading, seed=0)
    whole = honest.certificate
    proven = whole.sound or whole.plan
    lowered = replace(proven, steps=tuple(replace(step, claim=GaussianCurve(0.01)) for step in proven.steps))
    certificate = replace(whole, sound=lowered) if whole.sound else replace(whole, plan=lowered)
    folder = gv.Release(method, honest.state, certificate).save(tmp_path / "forged")
    assert gv.verify(folder).certificate.sound_epsilon < 0.5, "nothing in the folder tells"
    with pytest.raises(InvalidInput, match="the certificate was altered"):
        gv.verify(folder, graph)
    gv.verify(honest.save(tmp_path / "honest"), graph)


LAP = gv.methods.LapGraph()


def count_planned(graph: Graph) -> int:
    public, _ = graph.seal(Adjacency.of("edge"))
    return len(LAP.plan(public, Adjacency.of("edge"), Reading.SOUND, 1.0).steps)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("part", ["claim", "times", "act", "name", "assumes"])
def test_every_part_of_every_step_is_compared(part: str, place: int, graph: Graph, tmp_path: Path) -> None:
    """A plan of two steps of which one was altered, whichever: the graph tells."""
    assert count_planned(graph) == 2
    honest = gv.release_graph(graph, LAP, noise=1.0, delta=1e-5, seed=0)
    plan = honest.certificate.plan
    step = plan.steps[place]
    altered = {
        "claim": replace(step, claim=PureCurve(0.01)),
        "times": replace(step, times=2),
        "act": replace(step, act=replace(step.act, scale=50.0)),
        "name": replace(step, name="other"),
        "assumes": replace(step, assumes=("nothing",)),
    }[part]
    steps = tuple(altered if number == place else other for number, other in enumerate(plan.steps))
    certificate = replace(honest.certificate, plan=replace(plan, steps=steps))
    folder = gv.ReleasedEdges(LAP, honest.edges, honest.num_nodes, certificate).save(tmp_path / "forged", "csv")
    gv.verify(folder)
    with pytest.raises(InvalidInput, match="the certificate was altered"):
        gv.verify(folder, graph)


@pytest.mark.parametrize("kept", [slice(0, 1), slice(1, 2), slice(None, None, -1)])
def test_steps_that_were_left_out_or_exchanged_are_found(kept: slice, graph: Graph, tmp_path: Path) -> None:
    honest = gv.release_graph(graph, LAP, noise=1.0, delta=1e-5, seed=0)
    plan = honest.certificate.plan
    certificate = replace(honest.certificate, plan=replace(plan, steps=plan.steps[kept]))
    folder = gv.ReleasedEdges(LAP, honest.edges, honest.num_nodes, certificate).save(tmp_path / "forged", "csv")
    with pytest.raises(InvalidInput, match="the certificate was altered"):
        gv.verify(folder, graph)


def test_the_command_says_what_it_checked(folder: Path, tmp_path: Path) -> None:
    alone = CliRunner().invoke(app, ["verify", str(folder)])
    assert alone.exit_code == 0
    assert "name the graph of the training to check the plan too" in alone.stdout
    whole = CliRunner().invoke(app, ["verify", str(folder), "chain-s"])
    assert "verified: hashes, card, arithmetic and plan agree" in whole.stdout
    assert isinstance(CliRunner().invoke(app, ["verify", str(tmp_path)]).exception, gv.GraphveilError)


@pytest.mark.parametrize(
    "change",
    [
        {"label": np.where(accounts()["label"] == "fraud", "late", accounts()["label"])},
        {"id": np.array([f"other{k}" for k in range(60)])},
        {"age": None, "years": np.ones(60)},
    ],
)
def test_a_strangers_graph_is_refused_by_its_names(change: dict[str, Any], tmp_path: Path) -> None:
    """At node level features, labels and edges are private, so that sizes and split alone used to tell graphs apart."""
    empty = np.empty((0, 2), dtype=np.int64)

    def table(**changes: Any) -> Graph:
        found = accounts() | changes
        return Graph.from_edges(empty, {name: found[name] for name in found if found[name] is not None}).random_split()

    path = gv.train(table(), gv.methods.DpSgd(steps=2), unit="node", epsilon=1, seed=0).save(tmp_path / "model")
    gv.verify(path, table())
    with pytest.raises(InvalidInput, match=r"is not the graph of this release.*differ in (names|ids)"):
        gv.verify(path, table(**change))


def test_a_graph_of_another_size_is_refused(tmp_path: Path) -> None:
    """A model of sixty nodes is not verified against a graph of forty-eight."""
    graphs = [Graph.from_edges(payments(0, n), accounts(0, n)).per_class_split(2, 1, 1) for n in (60, 48)]
    path = gv.train(graphs[0], gv.methods.DpSgd(steps=2), unit="node", epsilon=1, seed=0).save(tmp_path / "model")
    with pytest.raises(InvalidInput, match="differ in sizes"):
        gv.verify(path, graphs[1])


@dataclass(frozen=True)
class Mine(Mlp):
    """A method in a file of the user's own."""


def test_a_method_of_ones_own_is_loaded_if_it_is_imported(graph: Graph, tmp_path: Path) -> None:
    saved = gv.train(graph, Mine(epochs=1), epsilon=1, delta=1e-5, unit="edge", seed=0).save(tmp_path / "mine")
    assert isinstance(gv.load(saved).method, Mine)
    text = (saved / "release.json").read_text()
    contents = {name: (saved / name).read_bytes() for name in ("weights.safetensors", "card.txt")}
    write_public(
        saved, {**contents, "release.json": text.replace('"Mine"', '"Yours"').encode()}, SCHEMA, require_replaceable
    )
    with pytest.raises(Tampered, match="import the module that defines it"):
        gv.load(saved)


def test_versions_are_told() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"graphveil {gv.__version__}\n"
