"""Predictions with ids and names of classes, from a folder or with the node table alone; thresholds are stored."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import graphveil as gv
from bank import accounts, payments, written
from graphveil.cli import app
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, MissingExtra, Tampered, Unsupported
from graphveil.release.predictions import Predictions

IDS = accounts()["id"].tolist()


def trained(method: Any = None) -> gv.Release:
    graph = Graph.from_edges(payments(), accounts()).random_split(seed=0)
    return gv.train(graph, method or gv.methods.Hearsay(), epsilon=4, unit="edge", seed=0)


@pytest.fixture(scope="module")
def hearsay() -> gv.Release:
    return trained()


@pytest.fixture(scope="module")
def mlp() -> gv.Release:
    return trained(gv.methods.Mlp())


def test_a_colleague_reads_ids_and_names(hearsay: gv.Release) -> None:
    found = hearsay.predictions()
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert list(rows[0]) == ["id", "label", "p_fraud", "p_ok"]
    assert [row["id"] for row in rows] == IDS
    assert [row["label"] for row in rows] == [("fraud", "ok")[answer] for answer in hearsay.predict().tolist()]
    assert all(float(row[f"p_{row['label']}"]) >= 0.5 for row in rows)
    assert found.rows()[0] == {**found.rows()[0], "id": IDS[0]}
    assert found.to_arrow().column_names == ["id", "label", "p_fraud", "p_ok"]
    assert repr(found) == "Predictions(60 nodes, classes fraud, ok)"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_made_if_there_is_a_library(hearsay: gv.Release, library: str) -> None:
    make = getattr(hearsay.predictions(), f"to_{library}")
    try:
        __import__(library)
    except ImportError:
        with pytest.raises(MissingExtra, match=f"{library} is not installed"):
            make()
    else:
        assert list(make().columns) == ["id", "label", "p_fraud", "p_ok"]


def test_without_ids_nodes_go_by_their_row(hearsay: gv.Release, tmp_path: Path) -> None:
    """A row must not be taken for an id."""
    found = gv.load(hearsay.save(tmp_path / "model")).predictions()
    assert list(found.columns()) == ["row", "label", "p_fraud", "p_ok"]
    assert found.labels == hearsay.predictions().labels


def test_ids_are_kept_if_they_are_asked_for(hearsay: gv.Release, tmp_path: Path) -> None:
    folder = hearsay.with_ids().save(tmp_path / "model")
    assert gv.load(folder).predictions().to_csv() == hearsay.predictions().to_csv()
    gv.verify(folder)
    (folder / "ids.jsonl").write_text((folder / "ids.jsonl").read_text().replace("acc0-1", "acc0-x"))
    with pytest.raises(Tampered):
        gv.load(folder)


def test_ids_that_are_not_those_of_the_run_are_refused(hearsay: gv.Release, tmp_path: Path) -> None:
    from graphveil.release.certificate import SCHEMA
    from graphveil.release.release import require_replaceable
    from graphveil.runtime.folders import MANIFEST, write_public

    folder = hearsay.with_ids().save(tmp_path / "model")
    bodies = ["".join(json.dumps(each) + "\n" for each in ids) for ids in (IDS[::-1], IDS[:-1], [*IDS[:-1], 7])]
    for body in (*bodies, "", "[" * 100_000, "\ud800"):
        contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}
        contents["ids.jsonl"] = body.encode(errors="surrogatepass")
        write_public(tmp_path / "other", contents, SCHEMA, require_replaceable)
        with pytest.raises(Tampered, match="ids"):
            gv.load(tmp_path / "other")


def test_the_node_table_alone_gives_the_ids(hearsay: gv.Release, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(written(accounts()))
    loaded = gv.load(hearsay.save(tmp_path / "model"))
    assert loaded.predictions(tmp_path / "nodes.csv").to_csv() == hearsay.predictions().to_csv()
    assert loaded.predictions({"id": IDS}).to_csv() == hearsay.predictions().to_csv()
    for ids in (IDS[::-1], IDS[:-1], [*IDS, "one more"]):
        with pytest.raises(InvalidInput, match="not those of the training, 60 in their order"):
            loaded.predictions({"id": ids})
    with pytest.raises(InvalidInput, match="no column 'id'"):
        loaded.predictions({"account": IDS})


def test_the_node_table_alone_gives_the_features(mlp: gv.Release, tmp_path: Path) -> None:
    loaded = gv.load(mlp.save(tmp_path / "model"))
    table = accounts(1)
    there = Graph.from_edges(payments(1), table)
    found = loaded.predictions({name: table[name] for name in ("age", "balance", "id")})
    assert found.ids == table["id"].tolist()
    assert torch.equal(found.probabilities, loaded.predict_proba(there))
    with pytest.raises(InvalidInput, match="no column 'age'"):
        loaded.predictions({name: table[name] for name in ("balance", "id")})
    with pytest.raises(Unsupported, match="the ids come with the node table"):
        mlp.with_ids()


def test_methods_that_read_edges_do_not_take_nodes_alone() -> None:
    graph = Graph.from_edges(payments(), accounts()).random_split(seed=0).with_every_id_present()
    release = gv.train(graph, gv.methods.Ndp(steps=1), noise=4, delta=1e-2, unit="node", seed=0)
    with pytest.raises(InvalidInput, match="give the graph, not its nodes alone"):
        release.predictions(accounts())


class TestThreshold:
    def test_a_class_is_named_from_its_chance_on(self, mlp: gv.Release) -> None:
        chances = mlp.predict_proba()[:, 0]
        for least in (0.01, 0.3, 0.9):
            found = mlp.with_threshold("fraud", least)
            assert torch.equal(found.predict() == 0, chances >= least)
            assert [label == "fraud" for label in found.predictions().labels] == (chances >= least).tolist()
        assert mlp.with_threshold("fraud", 1e-30).evaluate("test") != mlp.evaluate("test")

    def test_it_is_stored_and_handed_on(self, hearsay: gv.Release, tmp_path: Path) -> None:
        strict = hearsay.with_threshold("fraud", 0.01)
        loaded = gv.load(strict.save(tmp_path / "model"))
        assert loaded.threshold == strict.threshold
        assert torch.equal(loaded.predict(), strict.predict())
        there = gv.infer(loaded, Graph.from_edges(payments(1), accounts(1)), noise=1, seed=3)
        assert there.threshold == strict.threshold

    @pytest.mark.parametrize(
        ("label", "chance"), [("Fraud", 0.5), ("fraud", 0), ("fraud", 1.1), ("fraud", float("nan"))]
    )
    def test_what_is_no_threshold_is_refused(self, mlp: gv.Release, label: str, chance: float) -> None:
        with pytest.raises(InvalidInput, match="threshold"):
            mlp.with_threshold(label, chance)

    @pytest.mark.parametrize("said", [{"answer": 2, "chance": 0.5}, {"answer": 0, "chance": 2.0}, {"answer": 0}, 7, []])
    def test_altered_thresholds_are_refused(self, mlp: gv.Release, said: Any, tmp_path: Path) -> None:
        from graphveil.release.certificate import SCHEMA
        from graphveil.release.release import require_replaceable
        from graphveil.runtime.folders import MANIFEST, write_public

        folder = mlp.with_threshold("fraud", 0.5).save(tmp_path / "model")
        contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}
        described = json.loads(contents["release.json"])
        contents["release.json"] = json.dumps({**described, "threshold": said}).encode()
        write_public(folder, contents, SCHEMA, require_replaceable)
        with pytest.raises(Tampered):
            gv.load(folder)

    def test_of_three_classes_the_likeliest_of_the_others_is_named(self) -> None:
        from graphveil.tasks.node_classification import NodeClassification
        from graphveil.tasks.task import Threshold

        scores = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.5, 0.4]]).log()
        assert NodeClassification().predictions(scores, Threshold(0, 0.6)).tolist() == [1, 1]
        assert NodeClassification().predictions(scores, Threshold(2, 0.19)).tolist() == [2, 2]


class TestCommandLine:
    @pytest.fixture
    def mine(self, tmp_path: Path) -> dict[str, Path]:
        (tmp_path / "payments.csv").write_text(written(payments()))
        (tmp_path / "accounts.csv").write_text(written(accounts()))
        return {"--edges": tmp_path / "payments.csv", "--nodes": tmp_path / "accounts.csv"}

    @staticmethod
    def run(*words: Any) -> Any:
        return CliRunner().invoke(app, [*map(str, words)])

    def model(self, mine: dict[str, Path], folder: Path, *more: Any, method: str = "hearsay") -> Path:
        given = [word for pair in mine.items() for word in pair]
        budget = ("--unit", "edge", "--epsilon", 4, "--seed", 0, "--quiet")
        done = self.run("train", method, *given, *budget, "--out", folder, *more)
        assert done.exit_code == 0, done.output
        return folder

    def test_a_folder_with_ids_is_enough(self, mine: dict[str, Path], tmp_path: Path) -> None:
        model = self.model(mine, tmp_path / "model", "--keep-ids", "--threshold", "fraud=0.01")
        out = tmp_path / "labels.csv"
        assert self.run("infer", model, "--out", out).exit_code == 0
        rows = list(csv.DictReader(out.open()))
        assert [row["id"] for row in rows] == IDS
        assert all((row["label"] == "fraud") == (float(row["p_fraud"]) >= 0.01) for row in rows)
        told = json.loads(self.run("infer", model, "--json", "--threshold", "fraud=0.99999").stdout)
        assert [node["id"] for node in told["nodes"]] == IDS
        assert [("fraud", "ok")[answer] for answer in told["predictions"]] == [node["label"] for node in told["nodes"]]
        assert sum(node["label"] == "fraud" for node in told["nodes"]) < sum(row["label"] == "fraud" for row in rows)

    @pytest.mark.parametrize("method", ["hearsay", "mlp"])
    def test_the_node_table_alone_is_enough(self, mine: dict[str, Path], tmp_path: Path, method: str) -> None:
        model, out = self.model(mine, tmp_path / "model", method=method), tmp_path / "labels.csv"
        done = self.run("infer", model, "--nodes", mine["--nodes"], "--out", out)
        assert done.exit_code == 0, done.output
        assert [row["id"] for row in csv.DictReader(out.open())] == IDS

    def test_next_month_has_no_labels_other_ids_and_a_budget_of_its_own(
        self, mine: dict[str, Path], tmp_path: Path
    ) -> None:
        model, book, out = self.model(mine, tmp_path / "model"), tmp_path / "ledger.db", tmp_path / "labels.csv"
        table = accounts(1)
        del table["label"]
        (tmp_path / "april.csv").write_text(written(table, ["age", "id", "balance"]))
        (tmp_path / "pays.csv").write_text(written(payments(1)))
        april = ("--edges", tmp_path / "pays.csv", "--nodes", tmp_path / "april.csv")
        limit = ("--unit", "edge", "--epsilon", 3, "--delta", 1e-5)
        assert self.run("ledger", "open", book, *april, *limit, "--like", model).exit_code == 0
        spent = ("--epsilon", 1, "--delta", 1e-5, "--ledger", book)
        done = self.run("infer", model, *april, *spent, "--out", out)
        assert done.exit_code == 0, done.output
        rows = list(csv.DictReader(out.open()))
        assert [row["id"] for row in rows] == table["id"].tolist()
        truth = [{"": "", "fraud": "fraud", "ok": "ok"}[label] for label in accounts(1)["label"]]
        hits = [row["label"] == label for row, label in zip(rows, truth, strict=True) if label]
        assert np.mean(hits) > 0.8
        assert len(gv.Ledger(book).entries()) == 1

    def test_where_labels_are_private_no_split_tells_whether_there_are_any(
        self, mine: dict[str, Path], tmp_path: Path
    ) -> None:
        """With a single labelled account or with none, the split is drawn, or refused, in the same way by its ids."""
        from graphveil.cli.graphs import GraphOptions, private_graph

        model = self.model(mine, tmp_path / "model", method="mlp")
        source = GraphOptions(edges=mine["--edges"], nodes=mine["--nodes"])
        schema = gv.load(model).schema
        (tmp_path / "accounts.csv").write_text(written(accounts() | {"label": [""] * 60}))
        assert private_graph(source, "random", schema, labels_are_public=True).split == "none"
        with pytest.raises(InvalidInput, match="leaves no labelled node"):
            private_graph(source, "random", schema, labels_are_public=False)

    def test_training_says_first_what_will_be_needed(self, mine: dict[str, Path]) -> None:
        given = [word for pair in mine.items() for word in pair]
        done = self.run("train", "hearsay", *given, "--unit", "edge", "--epsilon", 1, "--seed", 0)
        assert "next month's, needs its edges, the same columns by name and a budget of its own" in done.stdout
        assert "without labels: then all nodes speak by belief" in done.stdout
        assert done.stdout.index("later:") < done.stdout.index("graphveil certificate")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--threshold", "Fraud=0.2"), "none of the classes fraud, ok"),
            (("--threshold", "fraud"), "takes a class and a chance"),
            (("--threshold", "fraud=2"), "takes a class and a chance"),
        ],
    )
    def test_mistakes_are_told_before_anything_is_spent(
        self, mine: dict[str, Path], tmp_path: Path, words: tuple[str, ...], said: str
    ) -> None:
        given = [word for pair in mine.items() for word in pair]
        done = self.run("train", "hearsay", *given, "--unit", "edge", "--epsilon", 1, "--out", tmp_path / "m", *words)
        assert isinstance(done.exception, InvalidInput)
        assert said in str(done.exception)
        assert not (tmp_path / "m").exists()

    def test_ids_of_a_dataset_are_its_rows(self, tmp_path: Path) -> None:
        words = ("--unit", "edge", "--epsilon", 1, "--out", tmp_path / "m", "--keep-ids")
        assert "has no ids but its rows" in str(self.run("train", "hearsay", "chain-s", *words).exception)
        assert "needs no --keep-ids" in str(self.run("train", "mlp", "chain-s", *words).exception)


def test_texts_that_act_like_formulas_are_inert() -> None:
    found = Predictions(["=1", "7"], ["@x", "y"], torch.tensor(np.eye(2)), ["@x", "y"])
    assert found.to_csv().splitlines()[1:] == ["'=1,'@x,1.000000,0.000000", "7,y,0.000000,1.000000"]
