"""A released graph is a product: listed in an order that tells nothing, sealed with its certificate, read anywhere."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphveil as gv
from graphveil.data.graph import Graph
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.methods.edge.parts.released_graph import ReleasedGraph
from graphveil.methods.method import METHODS
from graphveil.release.edges import ReleasedEdges
from graphveil.vocabulary import Adjacency, Reading, Unit

BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "seed": 0}
FORMATS = ("parquet", "csv")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return gv.datasets.load("chain-s")


@pytest.fixture(scope="module")
def directed() -> Graph:
    """A ring of eight nodes that is walked one way."""
    ring = np.stack([np.arange(8), (np.arange(8) + 1) % 8], axis=1)
    nodes = {"id": np.arange(8), "label": np.arange(8) % 2, "a": np.arange(8) / 8}
    return Graph.from_edges(ring, nodes, undirected=False, name="ring").random_split()


@pytest.fixture(scope="module")
def released(graph: Graph) -> ReleasedEdges:
    return gv.release_graph(graph, gv.methods.EdgeRand(), **BUDGET)


def graph_methods() -> list[ReleasedGraph]:
    kinds = [kind for kind in METHODS.ours().values() if issubclass(kind, ReleasedGraph)]
    made = [method for kind in kinds for method in kind.specimens()]
    return [method for method in made if releases(method)]


def releases(method: ReleasedGraph) -> bool:
    try:
        method.require_graph()
    except Unsupported:
        return False
    return True


@pytest.mark.parametrize("unit", [unit for unit in Unit if unit is not Unit.EDGE])
def test_a_certificate_for_another_unit_does_not_cover_edges(released: ReleasedEdges, unit: Unit) -> None:
    """Under any other unit edges are public, or are protected with their node: a list of them is not what it covers."""
    certificate = replace(released.certificate, plan=replace(released.certificate.plan, adjacency=Adjacency.of(unit)))
    with pytest.raises(InvalidInput, match="certificate that protects edges"):
        ReleasedEdges(released.method, released.edges, released.num_nodes, certificate)


@pytest.mark.parametrize("method", graph_methods(), ids=repr)
@pytest.mark.parametrize("reading", list(Reading))
def test_every_method_that_can_releases_a_listed_graph(
    graph: Graph, directed: Graph, method: ReleasedGraph, reading: Reading, tmp_path: Path
) -> None:
    for subject in (graph, directed):
        try:
            made = gv.release_graph(subject, method, noise=0.5, delta=1e-5, reading=reading, seed=0)
        except Unsupported:
            assert subject is directed
            continue
        sources, targets = made.edges
        keys = sources * subject.num_nodes + targets
        assert bool((keys.diff() > 0).all()), "ascending, so that the order of rows tells nothing"
        assert not subject.undirected or bool((sources < targets).all())
        assert made.num_nodes == subject.num_nodes
        assert made.certificate.plan.reading is reading
        again = ReleasedEdges.load(made.save(tmp_path / subject.name))
        assert torch.equal(again.edges, made.edges)


def test_without_noise_the_graph_itself_comes_out(graph: Graph, directed: Graph) -> None:
    for subject in (graph, directed):
        made = gv.release_graph(subject, gv.methods.EdgeRand(), epsilon=math.inf, delta=1e-5, seed=0)
        assert made.certificate.epsilon == math.inf
        assert torch.equal(made.arcs().edge_index(), subject.adj.edge_index())
        assert made.edges.shape[1] == subject.num_edges


def test_it_is_the_graph_that_training_would_read(graph: Graph) -> None:
    """The same session, so the same release: a network trained on the product is the method's own."""
    method = gv.methods.EdgeRand(hidden=4, epochs=2)
    product = gv.release_graph(graph, method, **BUDGET)
    trained = gv.train(graph, method, unit="edge", **BUDGET)
    on_product = gv.train(
        product.to_graph(graph), gv.methods.Gcn(hidden=4, epochs=2), epsilon=math.inf, delta=1e-5, unit="edge", seed=0
    )
    assert torch.equal(on_product.state["logits"], trained.state["logits"])
    other = trained.certificate.provenance
    created = replace(product.certificate.provenance, created=other.created, run=other.run)
    assert replace(product.certificate, provenance=created) == trained.certificate


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_saved_is_read_back(released: ReleasedEdges, tmp_path: Path, format: str) -> None:
    folder = released.save(tmp_path / "noisy", format)
    files = {f"edges.{format}", "graph.json", "certificate.json", "card.txt", "manifest.json"}
    assert {file.name for file in folder.iterdir()} == files
    again = ReleasedEdges.load(folder)
    assert torch.equal(again.edges, released.edges)
    assert (again.num_nodes, again.method, again.certificate) == (
        released.num_nodes, released.method, released.certificate
    )  # fmt: skip
    assert gv.Certificate.from_json((folder / "certificate.json").read_text()) == released.certificate
    assert "NOT FOR RELEASE" in (folder / "card.txt").read_text()
    assert released.save(folder, format) == folder, "its own kind may be replaced"


def test_any_tool_reads_the_edges(released: ReleasedEdges, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(released.save(tmp_path / "noisy") / "edges.parquet")
    assert table.column_names == ["source", "target"]
    assert torch.equal(torch.from_numpy(np.stack([c.to_numpy() for c in table.columns])), released.edges)
    assert json.loads(table.schema.metadata[b"graphveil"])["nodes"] == released.num_nodes
    data = released.to_pyg()
    assert (data.num_nodes, data.is_undirected()) == (released.num_nodes, True)


def test_nodes_without_edges_do_not_vanish(graph: Graph, tmp_path: Path) -> None:
    bare = Graph.from_edges(
        np.array([[0, 1]]), {"id": np.arange(9), "label": np.arange(9) % 2, "a": np.arange(9.0)}, name="bare"
    ).random_split()
    made = gv.release_graph(bare, gv.methods.EdgeRand(), epsilon=math.inf, delta=1e-5, seed=0)
    for format in FORMATS:
        again = ReleasedEdges.load(made.save(tmp_path / format, format))
        assert (again.num_nodes, again.edges.tolist()) == (9, [[0], [1]])
        assert again.to_graph(bare).num_nodes == 9
        empty = replace(made, edges=made.edges[:, :0])
        assert ReleasedEdges.load(empty.save(tmp_path / f"empty {format}", format)).edges.shape == (2, 0)
    with pytest.raises(InvalidInput, match="does not fit"):
        made.to_graph(graph)


def reseal(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["sha256"]:
        manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return edit


@pytest.mark.parametrize("sealed_again", [False, True])
@pytest.mark.parametrize(
    "edit",
    [
        change("edges.csv", "source,target\n", "source,target\n0,1\n"),
        change("edges.csv", "source,target\n", "source,target\n1,0\n"),
        change("edges.csv", "source,target\n", "source,target\n0,x\n"),
        change("edges.csv", "source,target\n", "source,target\n0\n"),
        change("graph.json", '"nodes": 48', '"nodes": 5'),
        change("graph.json", '"nodes": 48', '"nodes": null'),
        change("graph.json", '"nodes": 48', '"nodes": "48"'),
        change("graph.json", '"nodes": 48', '"vertices": 48'),
        change("graph.json", '"undirected": true', '"undirected": false'),
        change("graph.json", '"EdgeRand"', '"Path"'),
        change("graph.json", '"schema": 1', '"schema": 2'),
        change("certificate.json", '"delta": 1e-05', '"delta": 1e-06'),
        change("card.txt", "edges", "hedges"),
    ],
    ids=range(13),
)
def test_altered_folders_are_refused(
    released: ReleasedEdges, tmp_path: Path, edit: Callable[[Path], None], sealed_again: bool
) -> None:
    folder = released.save(tmp_path / "noisy", "csv")
    edit(folder)
    if sealed_again:
        reseal(folder)
    with pytest.raises(Tampered):
        ReleasedEdges.load(folder)


def test_missing_and_foreign_folders_are_refused(released: ReleasedEdges, tmp_path: Path) -> None:
    with pytest.raises(Tampered, match="not a complete release folder"):
        ReleasedEdges.load(tmp_path / "nowhere")
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(InvalidInput, match="not a released graph"):
        released.save(tmp_path)
    with pytest.raises(InvalidInput, match="parquet, csv"):
        released.save(tmp_path / "noisy", "xlsx")
    with pytest.raises(InvalidInput, match=r"with edges\.csv"):
        released.save(released.save(tmp_path / "noisy"), "csv")


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (gv.methods.Gap(), "these methods do: .*edgerand.*lapgraph"),
        (gv.methods.Gcn(), "gcn releases no graph"),
        (gv.methods.Eclipse(), 'pass use="graph"'),
    ],
)
def test_methods_without_a_graph_are_refused_before_anything_is_read(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: gv.Method, said: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("private data were read")

    monkeypatch.setattr(Sealed, "opened", never)
    ledger = gv.Ledger(tmp_path / "ledger.db")
    ledger.open(graph, "edge", epsilon=2.0, delta=1e-5)
    with pytest.raises(Unsupported, match=said):
        gv.release_graph(graph, method, ledger=ledger, **BUDGET)
    with pytest.raises(InvalidInput, match="give a graphveil Graph and a method"):
        gv.release_graph(graph, "lapgraph", ledger=ledger, **BUDGET)
    with pytest.raises(Unsupported, match="does not protect 'node'"):
        gv.release_graph(graph, gv.methods.LapGraph(), unit="node", **BUDGET)
    assert ledger.entries() == []


def test_the_ledger_counts_a_released_graph(graph: Graph, tmp_path: Path) -> None:
    ledger = gv.Ledger(tmp_path / "ledger.db")
    ledger.open(graph, "edge", epsilon=3.0, delta=1e-5)
    made = gv.release_graph(graph, gv.methods.LapGraph(), epsilon=2.0, delta=1e-5, ledger=ledger)
    assert made.certificate.provenance.secure
    assert [(e["method"], e["id"], e["committed"]) for e in ledger.entries()] == [
        ("lapgraph", made.certificate.provenance.ledger_entry, True)
    ]
    with pytest.raises(gv.Overspent):
        gv.release_graph(graph, gv.methods.LapGraph(), epsilon=2.0, delta=1e-5, ledger=ledger)
