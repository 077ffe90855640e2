"""A private graph with a public one beside it: what is drawn, what methods see, what is scored and what is said."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch
from torch import Tensor
from typer.testing import CliRunner

import graphveil as gv
from graphveil import plugins
from graphveil.cli import app
from graphveil.data import datasets
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, PublicGraph
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods import described
from graphveil.methods.method import Method, PredictionReads
from graphveil.nn.clipping import Vectors
from graphveil.privacy.session import Session
from graphveil.release.record import Stopwatch, record_of, scores
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit


@dataclass(frozen=True)
class Student(Method):
    """Reads one noisy number of the private graph, and labels public nodes by their features and their in-degree."""

    units = frozenset({Unit.NODE})
    reads = PredictionReads.PUBLIC_GRAPH
    needs_public = True

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        act = Gaussian(noise)
        return Plan(adjacency, reading, (Step("sum", act, act.curve(1), 1, why=""),))

    def fit(self, session: Session) -> State:
        asked = session.public.require_public_graph()
        session.release("sum", lambda _: Vectors(torch.zeros(0, 1)))
        return {"weights": asked.x[asked.queryable].T[:, : session.public.num_classes].contiguous()}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        return x @ state["weights"] + torch.from_numpy(visible_arcs.in_degrees()).float()[:, None]


@pytest.fixture
def whole() -> Graph:
    return social()


@pytest.fixture
def two(whole: Graph) -> Graph:
    return whole.split_public(1000, 600, 400, seed=3)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The student above, as if it lived in methods/."""
    is_ours = plugins.is_ours
    monkeypatch.setattr(described, "is_ours", lambda kind: kind is Student or is_ours(kind))


def beside(graph: Graph) -> Graph:
    assert graph.public_graph is not None
    return graph.public_graph


def rows(graph: Graph) -> set[tuple[float, ...]]:
    return {tuple(row) for row in graph.x.tolist()}


class TestDrawing:
    def test_two_graphs_are_disjoint_and_of_the_sizes_asked_for(self, whole: Graph, two: Graph) -> None:
        public = beside(two)
        assert (two.num_nodes, public.num_nodes) == (1000, 1000)
        assert not rows(two) & rows(public)
        assert rows(two) | rows(public) <= rows(whole)
        assert bool(two.train.all())
        assert (int(public.train.sum()), int(public.val.sum()), int(public.test.sum())) == (600, 0, 400)
        assert two.split == public.split == "two_graphs(1000,600,400,seed=3)"
        assert (two.name, public.name) == ("social", "social-public")

    def test_edges_inside_stay_and_edges_between_go(self, whole: Graph, two: Graph) -> None:
        place = {tuple(row): i for i, row in enumerate(whole.x.tolist())}
        dense = whole.adj.to_scipy().toarray()
        for part in (two, beside(two)):
            ids = [place[tuple(row)] for row in part.x.tolist()]
            assert ids == sorted(ids)
            assert np.array_equal(part.adj.to_scipy().toarray(), dense[np.ix_(ids, ids)])
            assert torch.equal(part.y, whole.y[ids])

    def test_the_seed_draws(self, whole: Graph, two: Graph) -> None:
        again, other = whole.split_public(1000, 600, 400, seed=3), whole.split_public(1000, 600, 400, seed=4)
        assert again.fingerprint() == two.fingerprint() != other.fingerprint()

    def test_unlabelled_nodes_are_dealt_out_like_all_others(self, whole: Graph, two: Graph) -> None:
        y = whole.y.clone()
        y[::2] = -1
        bare = replace(whole, y=y).split_public(1000, 600, 400, seed=3)
        assert torch.equal(bare.x, two.x)
        assert bare.split_hash() == two.split_hash()
        assert beside(bare).split_hash() == beside(two).split_hash()

    def test_a_class_may_be_missing_from_a_part(self) -> None:
        two = datasets.load("chain-s").split_public(2, 2, 2)
        assert two.num_classes == beside(two).num_classes == 2

    @pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (3000, 1, 1), (1, -5, 1)])
    def test_impossible_sizes_are_refused(self, whole: Graph, sizes: tuple[int, int, int]) -> None:
        with pytest.raises(InvalidInput, match="cannot draw"):
            whole.split_public(*sizes)

    def test_a_private_graph_without_labels_is_refused(self, whole: Graph) -> None:
        bare = replace(whole, y=torch.full_like(whole.y, -1))
        with pytest.raises(InvalidInput, match="has a label"):
            bare.split_public(10, 10, 10)

    def test_datasets_without_published_sizes_are_halved(self) -> None:
        two = datasets.load("social", split="two_graphs", seed=1)
        public = beside(two)
        assert two.num_nodes == public.num_nodes == 1500
        assert int(public.train.sum()) == int(public.test.sum()) == 750

    def test_a_balanced_private_graph_has_as_many_nodes_of_every_class(self, whole: Graph) -> None:
        rare = replace(whole, y=torch.where(torch.arange(3000) < 60, 0, whole.y.clamp(min=1)))
        two = rare.split_public(200, 600, 400, seed=3, balanced=True)
        assert torch.bincount(two.y).tolist() == [50] * 4
        assert not rows(two) & rows(beside(two))
        assert torch.bincount(beside(two).y, minlength=4)[0] <= 10
        # What is left of the rare class may be asked about as often as it is tested on.
        found = torch.zeros(2)
        for seed in range(40):
            public = beside(rare.split_public(200, 600, 400, seed=seed, balanced=True))
            found += torch.stack([(public.y[mask] == 0).sum() for mask in (public.train, public.test)])
        assert found[0] / found.sum() == pytest.approx(0.6, abs=0.15)
        release = gv.train(two, gv.methods.DpSgd(steps=1), noise=1.0, delta=1e-5, unit="node", seed=0)
        assert two.split == "two_graphs(200 balanced,600,400,seed=3)"
        assert "drawn by looking at labels" in release.certificate.card()
        with pytest.raises(InvalidInput, match="shared equally"):
            rare.split_public(201, 600, 400, balanced=True)
        with pytest.raises(InvalidInput, match="class 0 has 60 labelled nodes, fewer than 70"):
            rare.split_public(280, 600, 400, balanced=True)

    def test_exchanged_graphs_are_the_same_two_in_each_others_place(self, whole: Graph, two: Graph) -> None:
        swapped = whole.split_public(1000, 1200, 400, seed=3, exchanged=True)
        straight = whole.split_public(1000, 1200, 400, seed=3)
        public = beside(swapped)
        assert swapped.fingerprint() == beside(straight).fingerprint()
        assert public.fingerprint() == straight.fingerprint() == two.fingerprint()
        assert bool(swapped.train.all())
        assert (int(public.train.sum()), int(public.val.sum()), int(public.test.sum())) == (750, 0, 250)
        assert not bool((public.train & public.test).any())
        assert not rows(swapped) & rows(public)
        assert swapped.split == public.split == "two_graphs(1000,1200,400,exchanged,seed=3)"
        assert (swapped.name, public.name) == ("social", "social-public")
        with pytest.raises(InvalidInput, match="public graph of 1 nodes is too small to ask and to test"):
            whole.split_public(1, 1, 1, exchanged=True)

    def test_a_balanced_graph_stays_balanced_in_the_public_place(self, whole: Graph) -> None:
        rare = replace(whole, y=torch.where(torch.arange(3000) < 60, 0, whole.y.clamp(min=1)))
        found = torch.zeros(4)
        for seed in range(20):
            two = rare.split_public(200, 600, 400, seed=seed, balanced=True, exchanged=True)
            public = beside(two)
            assert torch.bincount(public.y).tolist() == [50] * 4
            found += torch.bincount(public.y[public.test], minlength=4)
        # Of every class as many are tested, the rare one included.
        assert (found / found.sum()).tolist() == pytest.approx([0.25] * 4, abs=0.04)
        release = gv.train(two, gv.methods.DpSgd(steps=1), noise=1.0, delta=1e-5, unit="node", seed=0)
        assert "drawn by looking at labels" in release.certificate.card()

    def test_datasets_are_exchanged_by_name(self) -> None:
        two, swapped = (
            datasets.load("social", split=split, seed=1) for split in ("two_graphs", "two_graphs_exchanged")
        )
        assert swapped.fingerprint() == beside(two).fingerprint()
        assert beside(swapped).fingerprint() == two.fingerprint()
        assert int(beside(swapped).test.sum()) == 750
        for unknown in ("random_exchanged", "per_class_80_20", "two_graphs_80_20"):
            with pytest.raises(InvalidInput, match=r"use one of: .*random_80_20, two_graphs, two_graphs_exchanged"):
                datasets.load("social", split=unknown)

    def test_published_sizes_fit_their_datasets(self) -> None:
        for name, sizes in datasets._TWO_GRAPHS.items():
            assert sum(sizes) <= datasets.num_nodes(name)
        assert sum(datasets._TWO_GRAPHS["rutgers89"]) == datasets.num_nodes("rutgers89")


class TestBringingYourOwn:
    def test_fields_agree_or_are_refused(self, whole: Graph, two: Graph) -> None:
        private, public = replace(two, public_graph=None), beside(two)
        for wrong, words in (
            (private, "another graph"),
            (two, "another graph"),
            (replace(public, x=public.x[:, :5].contiguous()), "features"),
            (replace(public, undirected=False), "directed"),
            (replace(public, num_classes=9), "9 classes"),
        ):
            with pytest.raises(InvalidInput, match=words):
                private.with_public(wrong)
        nothing: Any = None
        with pytest.raises(InvalidInput, match="must be a graphveil Graph"):
            whole.with_public(nothing)

    def test_without_a_split_all_nodes_train(self, whole: Graph, two: Graph) -> None:
        assert bool(whole.random_split().with_public(beside(two)).val.any())
        y = whole.y.clone()
        y[:7] = -1
        graph = Graph(whole.x, whole.adj, y, 4, True, *[torch.zeros_like(whole.train)] * 3, "mine", "none")  # type: ignore[call-arg]
        assert bool(graph.with_public(beside(two)).train.all())

    def test_the_budget_is_that_of_the_private_graph(self, two: Graph) -> None:
        assert two.fingerprint() == replace(two, public_graph=None).fingerprint()

    def test_two_graphs_have_two_names(self, two: Graph) -> None:
        assert beside(replace(two, name="g").with_public(replace(beside(two), name="g"))).name == "g-public"

    def test_a_public_graph_needs_no_labels(self, two: Graph) -> None:
        from torch_geometric.data import Data

        public = beside(two)
        y = torch.full_like(public.y, -1)
        bare = Graph.from_pyg(Data(x=public.x, edge_index=public.adj.edge_index(), y=y))
        assert bare.num_classes == 0
        graph = two.with_public(bare)
        assert beside(graph).num_classes == 4
        release = gv.train(graph, Student(), noise=1.0, delta=1e-5, unit="node", seed=0)
        assert len(release.predict()) == public.num_nodes
        with pytest.raises(InvalidInput, match="no test nodes"):
            release.evaluate("test")
        assert scores(release, graph) == (None, None)

    def test_tables_share_the_names_of_classes(self) -> None:
        nodes = {"id": np.arange(3), "label": np.array(["z", "", "x"]), "f": np.ones(3)}
        graph = Graph.from_edges(np.array([[0, 1]]), nodes, classes=["x", "y", "z"])
        assert (graph.y.tolist(), graph.num_classes) == ([2, -1, 0], 3)
        numbered = nodes | {"label": np.array(["10", "9", ""])}
        assert Graph.from_edges(np.array([[0, 1]]), numbered, classes=[8, 9, 10]).y.tolist() == [2, 1, -1]
        numbered["label"] = np.array(["10", "09", ""])
        with pytest.raises(InvalidInput, match="nodes row 1: the label 09 is not among the classes: 8, 10"):
            Graph.from_edges(np.array([[0, 1]]), numbered, classes=["8", "10"])
        with pytest.raises(InvalidInput, match="label 09 is not among the classes: 8, 9, 10"):
            Graph.from_edges(np.array([[0, 1]]), numbered, classes=[8, 9, 10])
        with pytest.raises(InvalidInput, match="nodes row 0: the label z is not among"):
            Graph.from_edges(np.array([[0, 1]]), nodes, classes=())

    def test_a_table_without_labels_needs_to_know_the_classes(self) -> None:
        nodes = {"id": np.arange(3), "f": np.ones(3)}
        assert Graph.from_edges(np.array([[0, 1]]), nodes, classes=()).y.tolist() == [-1] * 3
        with pytest.raises(InvalidInput, match="no column 'label'"):
            Graph.from_edges(np.array([[0, 1]]), nodes)

    def test_a_folder_holds_one_graph(self, two: Graph, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="one graph"):
            gv.pack(two, tmp_path / "packed")
        folder = gv.pack(replace(two, public_graph=None), tmp_path / "packed")
        again = gv.open_packed(folder).with_public(beside(two))
        assert again.fingerprint() == two.fingerprint()
        assert again.public_graph is not None


class TestWhatMethodsSee:
    def test_features_and_arcs_but_never_labels(self, two: Graph) -> None:
        for unit in Unit:
            public, _ = two.seal(Adjacency.of(unit))
            seen = public.require_public_graph()
            assert set(vars(seen)) == {"x", "adj", "queryable"}
            assert seen.x is beside(two).x
            assert seen.adj is beside(two).adj
            assert torch.equal(seen.queryable, ~beside(two).test)
            assert seen.num_nodes == 1000

    def test_it_is_the_same_object_each_time(self, two: Graph) -> None:
        """Or nothing that was learnt from it would be found again."""
        assert two.seal(Adjacency.of("node"))[0].public_graph is two.seal(Adjacency.of("edge"))[0].public_graph

    def test_what_was_learnt_beside_one_public_graph_is_not_taken_for_another(self, two: Graph) -> None:
        public, _ = two.seal(Adjacency.of("node"))
        assert public.cache_public("size", lambda: public.require_public_graph().num_nodes) == 1000
        other = replace(
            public, public_graph=PublicGraph(torch.ones(2, 32), Csr.empty(2), torch.ones(2, dtype=torch.bool))
        )
        assert other.cache_public("size", lambda: other.require_public_graph().num_nodes) == 2

    def test_absence_is_told_before_the_ledger_is_touched(self, whole: Graph, tmp_path: Path) -> None:
        graph, book = whole.random_split(), gv.Ledger(tmp_path / "ledger.db")
        book.open(graph, "node", epsilon=9, delta=1e-5)
        with pytest.raises(InvalidInput, match=r"with_public.*--public-edges and --public-nodes.*two_graphs"):
            gv.train(graph, Student(), epsilon=1, delta=1e-5, unit="node", ledger=book)
        assert book.entries() == []

    def test_a_plan_needs_no_public_graph(self) -> None:
        assert Student().plan(Public.blank(9, 4, 3), Adjacency.of("node"), Reading.SOUND, 1.0).steps


class TestPredicting:
    @pytest.fixture
    def release(self, two: Graph) -> gv.Release:
        return gv.train(two, Student(), epsilon=1.0, delta=1e-5, unit="node", seed=0)

    def test_predictions_are_for_the_public_nodes(self, release: gv.Release, two: Graph) -> None:
        public = beside(two)
        assert len(release.predict()) == public.num_nodes
        assert torch.equal(release.predict(), release.predict(two))
        assert torch.equal(release.predict(), release.predict(public))
        hits = (release.predict() == public.y)[public.test].double().mean()
        assert release.evaluate("test")["accuracy"] == pytest.approx(float(hits))
        assert release.evaluate("test") == release.evaluate("test", public)

    def test_another_public_graph_is_labelled_too(self, release: gv.Release) -> None:
        other = replace(datasets.load("social"), name="elsewhere")
        assert len(release.predict(other)) == other.num_nodes

    def test_the_private_graph_is_not_taken_for_a_public_one(self, release: gv.Release, two: Graph) -> None:
        with pytest.raises(Unsupported, match="private graph of the training"):
            release.predict(replace(two, public_graph=None))

    @pytest.mark.usefixtures("known")
    def test_nor_under_another_name_or_with_other_features(
        self, release: gv.Release, two: Graph, tmp_path: Path
    ) -> None:
        """Its features give it away where they are known, and its name where the release comes from disk."""
        alone = replace(two, public_graph=None)
        with pytest.raises(Unsupported, match="private graph of the training"):
            release.predict(replace(alone, name="elsewhere"))
        with pytest.raises(Unsupported, match="private graph of the training"):
            release.predict(replace(alone, x=alone.x + 1))
        with pytest.raises(Unsupported, match="private graph of the training"):
            gv.load(release.save(tmp_path / "release")).predict(alone)

    @pytest.mark.usefixtures("known")
    def test_a_saved_release_asks_for_the_public_graph(self, release: gv.Release, two: Graph, tmp_path: Path) -> None:
        again = gv.load(release.save(tmp_path / "release"))
        assert torch.equal(again.predict(two), release.predict())
        assert again.certificate.card() == release.certificate.card()
        with pytest.raises(InvalidInput, match="call predict"):
            again.predict()

    def test_the_card_names_the_public_graph(self, release: gv.Release) -> None:
        assert "  public      social-public, 1,000 nodes, not protected\n" in release.certificate.card()
        assert gv.Certificate.from_json(release.certificate.to_json()) == release.certificate

    def test_infer_is_for_private_graphs(self, release: gv.Release, two: Graph) -> None:
        with pytest.raises(Unsupported, match="which is free"):
            gv.infer(release, two, epsilon=1)


class TestScores:
    @pytest.mark.parametrize("method", [gv.methods.DpSgd(steps=20), gv.methods.Mlp(epochs=30)], ids=str)
    def test_methods_that_read_features_alone_are_scored_on_the_public_graph(self, two: Graph, method: Method) -> None:
        release = gv.train(two, method, epsilon=float("inf"), delta=1e-5, unit="node", seed=0)
        val, test = scores(release, two)
        assert test == release.evaluate("test", beside(two))
        assert val == release.evaluate("train", beside(two))
        assert val is not None
        assert val["accuracy"] > 0.4
        assert len(release.predict()) == two.num_nodes
        record = record_of(release, two, Stopwatch())
        assert (record["val"], record["test"], record["scores_are_private"]) == (val, test, False)

    def test_validation_nodes_come_first(self, two: Graph) -> None:
        public = beside(two)
        half = public.test & (torch.arange(public.num_nodes) % 2 == 0)
        graph = two.with_public(public.with_split(public.train, half, public.test & ~half, "mine"))
        release = gv.train(graph, gv.methods.DpSgd(steps=1), noise=1.0, delta=1e-5, unit="node", seed=0)
        assert scores(release, graph)[0] == release.evaluate("val", graph.public_graph)
        public_view, _ = graph.seal(Adjacency.of("node"))
        assert torch.equal(public_view.require_public_graph().queryable, public.train)

    def test_released_predictions_are_scored_where_they_are(self, whole: Graph, two: Graph) -> None:
        graph = whole.random_split().with_public(beside(two))
        release = gv.train(graph, gv.methods.Gap(epochs=2), epsilon=1, delta=1e-5, unit="edge", seed=0)
        assert scores(release, graph)[1] == release.evaluate("test")
        with pytest.raises(Unsupported):
            release.evaluate("test", beside(graph))


@pytest.mark.usefixtures("known")
class TestCommandLine:
    @pytest.fixture
    def tables(self, tmp_path: Path) -> dict[str, Path]:
        """Two rings of twelve nodes; the private one has the classes x, y and z, the public one shows z alone."""
        folder = {
            f"{who}{what}": tmp_path / f"{who}{what}.csv" for who in ("", "public-") for what in ("edges", "nodes")
        }
        ring = "source,target\n" + "".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12))
        folder["edges"].write_text(ring)
        folder["public-edges"].write_text(ring)
        folder["nodes"].write_text("id,label,a,b,c\n" + "".join(f"n{i},{'xyz'[i % 3]},{i},1,0\n" for i in range(12)))
        body = "".join(f"n{i},{'z,test' if i < 4 else ','},{i},0,1\n" for i in range(12))
        folder["public-nodes"].write_text("id,label,split,a,b,c\n" + body)
        return folder

    @staticmethod
    def train(tables: dict[str, Path], *more: str, method: str = "student") -> Any:
        given = [word for name, path in tables.items() for word in (f"--{name}", str(path))]
        words = ["train", method, *given, "--unit", "node", "--noise", "1", "--seed", "0", *more]
        return CliRunner().invoke(app, words)

    def test_two_graphs_from_four_tables(self, tables: dict[str, Path], tmp_path: Path) -> None:
        result = self.train(tables, "--json", "--out", str(tmp_path / "model"))
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert (record["split"], record["scores_are_private"], record["val"]) == ("all train", False, None)
        card = (tmp_path / "model" / "card.txt").read_text()
        assert "public      public-edges, 12 nodes, not protected" in card
        words = ["infer", str(tmp_path / "model"), "--json"]
        own = ["--public-edges", str(tables["public-edges"]), "--public-nodes", str(tables["public-nodes"])]
        told = CliRunner().invoke(app, [*words, *own])
        assert told.exit_code == 0, told.output
        predicted = json.loads(told.stdout)["predictions"]
        assert len(predicted) == 12
        assert record["test"]["accuracy"] == np.mean([label == 2 for label in predicted[:4]])
        refused = CliRunner().invoke(app, [*words, *own, "--epsilon", "1"])
        assert isinstance(refused.exception, InvalidInput)

    def test_labels_of_public_nodes_may_be_absent(self, tables: dict[str, Path]) -> None:
        tables["public-nodes"].write_text("id,a,b,c\n" + "".join(f"n{i},{i},0,1\n" for i in range(12)))
        result = self.train(tables, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["test"] is None

    def test_a_method_without_use_for_it_is_scored_on_it(self, tables: dict[str, Path]) -> None:
        result = self.train(tables, "--json", "--steps", "2", method="dpsgd")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["test"] is not None

    def test_a_packed_private_graph_knows_its_classes_by_name(self, tables: dict[str, Path], tmp_path: Path) -> None:
        graph = Graph.from_edges(tables.pop("edges"), tables.pop("nodes"))
        packed = {"packed": gv.pack(graph, tmp_path / "packed")}
        result = self.train(packed | tables)
        assert result.exit_code == 0, result.output
        tables["public-nodes"].write_text(tables["public-nodes"].read_text().replace(",z,", ",q,"))
        assert "q is not among the classes: x, y, z" in str(self.train(packed | tables).exception)

    def test_a_packed_private_graph_without_names_takes_numbered_labels(
        self, tables: dict[str, Path], tmp_path: Path
    ) -> None:
        graph = replace(Graph.from_edges(tables.pop("edges"), tables.pop("nodes")), schema=None)
        packed = {"packed": gv.pack(graph, tmp_path / "packed")}
        assert "z is not among the classes: 0, 1, 2" in str(self.train(packed | tables).exception)
        tables["public-nodes"].write_text(tables["public-nodes"].read_text().replace(",z,", ",2,"))
        result = self.train(packed | tables)
        assert result.exit_code == 0, result.output

    def test_mistakes_are_told(self, tables: dict[str, Path]) -> None:
        alone = {name: path for name, path in tables.items() if name != "public-edges"}
        assert "go together" in str(self.train(alone).exception)
        private = {name: path for name, path in tables.items() if not name.startswith("public")}
        assert "no public graph beside" in str(self.train(private).exception)
        tables["public-nodes"].write_text(tables["public-nodes"].read_text().replace("a,b,c", "a,b,d"))
        assert "no column 'c', and has others: 'd'" in str(self.train(tables).exception)

    def test_a_public_graph_without_names_stands_in_the_order_of_the_private_one(self, tables: dict[str, Path]) -> None:
        graph = Graph.from_edges(tables["edges"], tables["nodes"])
        public = Graph.from_edges(tables["public-edges"], tables["public-nodes"], classes=["x", "y", "z"])
        nameless = replace(public, schema=None, ids=None)
        assert beside(graph.with_public(nameless)).schema == graph.schema

    def test_columns_of_the_public_graph_go_by_name(self, tables: dict[str, Path]) -> None:
        as_given = json.loads(self.train(tables, "--json").stdout)
        lines = [line.split(",") for line in tables["public-nodes"].read_text().splitlines()]
        tables["public-nodes"].write_text("".join(",".join([*row[::-1]]) + "\n" for row in lines))
        assert json.loads(self.train(tables, "--json").stdout)["test"] == as_given["test"]

    def test_named_datasets_are_drawn_apart(self) -> None:
        words = "train student social --split two_graphs --split-seed 4 --unit node --noise 1 --seed 0 --json"
        result = CliRunner().invoke(app, words.split())
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert record["split"] == "two_graphs(1500,750,750,seed=4)"
        assert record["test"] is not None

    def test_a_budget_is_planned_without_any_graph(self) -> None:
        words = "account student --unit node --noise 1 --delta 1e-5 --json"
        result = CliRunner().invoke(app, words.split())
        assert result.exit_code == 0, result.output


def test_blanking_a_private_node_leaves_the_public_graph_as_it_is() -> None:
    sketch = Sketch.random(np.random.default_rng(0), True, nodes=9)
    here, there = sketch.beside_public(), sketch.blanked(0)
    assert (
        beside(here).fingerprint()
        == beside(Sketch.random(np.random.default_rng(1), True).beside_public()).fingerprint()
    )
    public, _ = here.seal(Adjacency.of("node"))
    assert there.sealed(public).public.require_public_graph() is public.require_public_graph()
