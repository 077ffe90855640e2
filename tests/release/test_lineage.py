"""A release answers for all that is in it: the data of its weights, the source of its graph, their seeds."""

from __future__ import annotations

import copy
import io
import json
import math
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph, induced
from graphveil.data.splits import Split
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.privacy import accounting
from graphveil.release.certificate import Certificate
from graphveil.release.release import Release
from graphveil.report.run import card_page
from graphveil.vocabulary import Adjacency

HEARSAY = gv.methods.Hearsay(folds=2, hidden=4, head=4)
SUMS = replace(HEARSAY, channel="sums")
DELTA = 1e-5


@pytest.fixture(scope="module")
def graph() -> Graph:
    return replace(social(num_nodes=120, seed=0).random_split(seed=0), name="ours")


@pytest.fixture(scope="module")
def other() -> Graph:
    return replace(social(num_nodes=90, seed=4).random_split(seed=0), name="theirs")


def trained(graph: Graph, epsilon: float, seed: int | None = None) -> Release:
    return gv.train(graph, HEARSAY, epsilon=epsilon, delta=DELTA, unit="edge", seed=seed)


def served(parent: Release, graph: Graph, epsilon: float, seed: int | None = None) -> Release:
    return gv.infer(parent, graph, epsilon=epsilon, delta=DELTA, seed=seed)


class TestInfer:
    def test_on_the_same_data_plans_add_up(self, graph: Graph) -> None:
        parent = trained(graph, 2.0)
        child = served(parent, graph, 0.5)
        spent = child.certificate
        assert spent.plan_epsilon <= 0.5
        assert spent.epsilon == pytest.approx(parent.certificate.epsilon + spent.plan_epsilon, rel=1e-4)
        (line,) = spent.guarantees
        assert (line.dataset, line.releases) == ("ours", 2)
        assert "for 'ours': 0.5000 by this run, and what 1 earlier release of the same data spent" in spent.card()

    def test_gaussian_plans_share_delta(self, graph: Graph) -> None:
        parent = gv.train(graph, SUMS, epsilon=2, delta=DELTA, unit="edge")
        spent = gv.infer(parent, graph, epsilon=1, delta=DELTA).certificate
        each = [accounting.epsilon(plan, DELTA / 2) for plan in (spent.plan, parent.certificate.plan)]
        assert spent.epsilon == pytest.approx(sum(each), rel=1e-12)
        assert spent.epsilon > 3

    def test_a_graph_of_the_same_name_is_the_same_data_whatever_its_size(self, graph: Graph) -> None:
        """One node less: every edge but its own is in both."""
        ids = np.arange(119)
        part = induced(graph, Split(ids[:59], ids[59:64], ids[64:], "by hand"), graph.name)
        assert served(trained(part, 8.0), graph, 0.1).certificate.epsilon > 8

    def test_runs_are_told_apart_by_more_than_their_time(self, graph: Graph) -> None:
        first, second = (trained(graph, 2.0).certificate for _ in range(2))
        assert first.provenance.run != second.provenance.run
        twin = replace(second, provenance=replace(first.provenance, run=second.provenance.run))
        assert replace(first, parents=(twin,)).epsilon == pytest.approx(4.0, rel=1e-3)

    def test_the_officer_of_the_first_dataset_can_verify_too(self, graph: Graph, other: Graph, tmp_path: Path) -> None:
        folder = served(trained(graph, 2.0), other, 0.5).save(tmp_path / "model")
        gv.verify(folder, other)
        gv.verify(folder, graph)

    def test_a_graph_of_another_name_with_the_same_nodes_is_the_same_data(self, graph: Graph) -> None:
        disguised = replace(graph, name="somebody else's")
        assert served(trained(graph, 2.0), disguised, 0.5).certificate.epsilon > 2

    def test_the_same_people_under_another_name_with_another_label_are_the_same_data(self, graph: Graph) -> None:
        """Next month's graph: most links are in both, and with a parent at infinity one was read off in every run."""
        march = replace(graph, name="march", ids=pa.array([str(one) for one in range(120)]))
        april = replace(march, name="april", y=torch.cat([(graph.y[:1] + 1) % graph.num_classes, graph.y[1:]]))
        child = served(trained(march, math.inf), april, 0.1)
        assert child.certificate.epsilon == math.inf
        assert len(child.certificate.guarantees) == 1
        strangers = replace(april, ids=pa.array([str(one) for one in range(120, 240)]))
        assert served(trained(march, math.inf), strangers, 0.1).certificate.epsilon <= 0.1

    def test_what_is_in_several_datasets_comes_first(self, graph: Graph, other: Graph) -> None:
        spent = served(trained(graph, 2.0), other, 0.5).certificate
        both, theirs, ours = spent.statements
        assert (both.epsilon, both.delta) == (theirs.epsilon + ours.epsilon, 2 * DELTA)
        assert spent.card().startswith(both.sentence)
        assert "linked in 'theirs' and in 'ours' alike, is right at most 93 times" in both.sentence
        assert f"sum of epsilons: 2.5000 at delta {2 * DELTA:.3g}" in " ".join(spent.warnings())
        page = card_page(served(trained(graph, 30.0), other, 0.5))
        assert "What an attacker can reach at epsilon 30" in page
        assert "is hardly a protection" in page, "of what is in both, though 0.5 is strong"
        unlike = replace(spent.parents[0], plan=replace(spent.parents[0].plan, adjacency=Adjacency.of("node")))
        assert replace(spent, parents=(unlike,)).statements[0].epsilon == math.inf

    @pytest.mark.parametrize("method", [gv.methods.PairCounts(), gv.methods.Ndp(steps=2)])
    def test_nobody_who_was_trained_on_is_read_for_free_under_another_name(
        self, graph: Graph, method: gv.Method
    ) -> None:
        march = replace(graph, name="march", ids=pa.array([str(one) for one in range(120)]))
        release = gv.train(march, method, epsilon=2, delta=DELTA, unit="node", seed=0)
        april = replace(march, name="april")
        assert torch.equal(release.predict(april), release.predict(march))
        with pytest.raises(Unsupported, match="training nodes would be read"):
            release.predict(april.random_split(seed=1))

    def test_an_unprotected_parent_is_not_forgotten(self, graph: Graph, other: Graph, tmp_path: Path) -> None:
        parent = trained(graph, math.inf)
        child = served(parent, graph, 0.1)
        assert child.certificate.epsilon == math.inf
        assert "guarantee   epsilon infinity (no protection)" in gv.verify(child.save(tmp_path / "model"), graph).card()
        elsewhere = served(parent, other, 0.1)
        assert elsewhere.certificate.epsilon <= 0.1
        assert "epsilon infinity (no protection) at delta 1e-05 for 'ours'" in elsewhere.card()

    def test_another_graph_has_a_line_of_its_own(self, graph: Graph, other: Graph) -> None:
        child = served(trained(graph, 2.0), other, 0.5)
        assert [(line.dataset, line.releases) for line in child.certificate.guarantees] == [("theirs", 1), ("ours", 1)]
        assert child.certificate.epsilon <= 0.5
        assert child.certificate.guarantees[1].epsilon == pytest.approx(2.0, rel=1e-3)
        card = child.card()
        assert "for 'theirs'" in card
        assert "guarantee   epsilon 2.0000 at delta 1e-05 for 'ours': one undirected edge added or removed" in card
        assert "WARNING     whoever is in two of these datasets" in card

    def test_back_on_the_first_graph_all_three_runs_count(self, graph: Graph, other: Graph) -> None:
        child = served(served(trained(graph, 2.0), other, 0.5), graph, 0.25)
        assert [(line.dataset, line.releases) for line in child.certificate.guarantees] == [("ours", 2), ("theirs", 1)]
        assert child.certificate.epsilon == pytest.approx(2.25, rel=1e-3)

    def test_a_seeded_parent_keeps_its_warning(self, graph: Graph, other: Graph, tmp_path: Path) -> None:
        parent = trained(graph, 2.0, seed=0)
        for subject in (graph, other):
            child = served(parent, subject, 0.5)
            assert child.certificate.provenance.secure
            assert "NOT FOR RELEASE (of 'ours'" in gv.load(child.save(tmp_path / "model")).card()
        clean = served(trained(graph, 2.0), other, 0.5)
        assert "NOT FOR RELEASE" not in clean.card()

    def test_what_is_saved_is_read_back_and_a_forgotten_parent_is_found(self, graph: Graph, tmp_path: Path) -> None:
        child = served(trained(graph, 2.0), graph, 0.5)
        folder = child.save(tmp_path / "model")
        assert gv.load(folder).certificate == child.certificate
        forged = json.loads(child.certificate.to_json())
        forged["parents"] = []
        with pytest.raises(Tampered, match="says epsilon"):
            Certificate.from_json(json.dumps(forged))
        lowered = json.loads(child.certificate.to_json())
        lowered["parents"][0]["plan"]["steps"][0]["act"]["scale"] *= 100
        lowered["parents"][0]["plan"]["steps"][0]["claim"]["epsilon"] /= 100
        with pytest.raises(Tampered):
            Certificate.from_json(json.dumps(lowered))

    def test_verify_makes_the_parents_plan_again_too(self, graph: Graph, tmp_path: Path) -> None:
        child = served(trained(graph, 2.0), graph, 0.5)
        gv.verify(child.save(tmp_path / "honest"), graph)
        (parent,) = child.certificate.parents
        step = parent.plan.steps[0]
        cheap = replace(parent.plan, steps=(replace(step, claim=replace(step.claim, epsilon=0.01)),))
        forged = replace(child.certificate, parents=(replace(parent, plan=cheap),))
        folder = replace(child, certificate=forged).save(tmp_path / "forged")
        assert gv.verify(folder).certificate.epsilon < 0.6, "nothing in the folder tells"
        with pytest.raises(InvalidInput, match="the certificate was altered"):
            gv.verify(folder, graph)

    def test_verify_knows_the_method_of_every_parent(self, graph: Graph, tmp_path: Path) -> None:
        """The plan of training was that of the choice; the one who was chosen serves."""
        small = gv.methods.LapGraph(hidden=4, epochs=2)
        choice = gv.methods.Best((small, replace(small, network="sage")))
        parent = gv.train(graph, choice, epsilon=4, delta=DELTA, unit="edge")
        gv.verify(served(parent, graph, 0.5).save(tmp_path / "model"), graph)
        derived = gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=4, delta=DELTA).to_graph(graph)
        gv.verify(gv.train(derived, HEARSAY, epsilon=1, delta=DELTA, unit="edge").save(tmp_path / "derived"), derived)

    def test_the_certificate_and_the_folder_name_one_method(self, graph: Graph, tmp_path: Path) -> None:
        release = trained(graph, 2.0)
        folder = replace(release, method=replace(HEARSAY, folds=3)).save(tmp_path / "model")
        with pytest.raises(Tampered, match="another method or other settings"):
            gv.load(folder)

    def test_generations_end(self, graph: Graph) -> None:
        one = trained(graph, 2.0).certificate
        for number in range(15):
            one = replace(one, parents=(one,), provenance=replace(one.provenance, run=str(number)))
        assert one.generations == 16
        with pytest.raises(InvalidInput, match="generations"):
            replace(one, parents=(one,))
        assert Certificate.from_json(one.to_json()) == one, "the longest line can be read"


class TestTheAttack:
    """An edge was read off `head.0` of a folder that said epsilon 0.1: the weights were trained without noise."""

    def test_what_can_be_read_off_is_claimed(self, graph: Graph) -> None:
        arcs = graph.adj.edge_index().numpy()
        kept = ~(np.isin(arcs[0], arcs[:, 0]) & np.isin(arcs[1], arcs[:, 0]))
        without = replace(graph, adj=Csr.from_edge_index(arcs[0][kept], arcs[1][kept], graph.num_nodes))
        assert without.num_edges == graph.num_edges - 1
        parent = trained(graph, math.inf, seed=0)
        keys = [name for name in parent.state if name.startswith("head.0")]
        same = [trained(graph, math.inf, seed=0).state[name] for name in keys]
        gone = [trained(without, math.inf, seed=0).state[name] for name in keys]
        assert all(torch.equal(a, parent.state[name]) for a, name in zip(same, keys, strict=True))
        assert any(not torch.equal(a, b) for a, b in zip(same, gone, strict=True)), "the weights tell the edge"
        claims = 0
        for seed in range(25):
            child = served(parent, graph, 0.1, seed=seed)
            claims += child.certificate.epsilon < math.inf or "NOT FOR RELEASE" not in child.card()
        assert claims == 0, "no folder with these weights may claim a finite epsilon"


class TestReleasedGraphs:
    def released(self, graph: Graph, epsilon: float, seed: int | None = None) -> gv.ReleasedEdges:
        return gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=epsilon, delta=DELTA, seed=seed)

    def test_training_on_it_is_free_and_says_what_the_release_cost(self, graph: Graph) -> None:
        derived = self.released(graph, 4.0).to_graph(graph)
        for method, epsilon in ((gv.methods.Gcn(hidden=4, epochs=2), math.inf), (HEARSAY, 0.1)):
            made = gv.train(derived, method, epsilon=epsilon, delta=DELTA, unit="edge").certificate
            assert made.epsilon == pytest.approx(4.0, rel=1e-3)
            assert [line.dataset for line in made.guarantees] == ["ours"]
            assert "spent when its edges were released, and this run adds nothing" in made.card()

    def test_an_unprotected_release_is_not_forgotten(self, graph: Graph) -> None:
        derived = self.released(graph, math.inf, seed=0).to_graph(graph)
        made = gv.train(derived, HEARSAY, epsilon=0.1, delta=DELTA, unit="edge").certificate
        assert made.epsilon == math.inf
        assert "NOT FOR RELEASE (of 'ours'" in made.card()

    def test_other_edges_are_private_again(self, graph: Graph) -> None:
        """What a plan spends on those adds up with what the release spent, and nobody compares them with it."""
        derived = self.released(graph, math.inf).to_graph(graph)
        assert torch.equal(derived.adj.edge_index(), graph.adj.edge_index())
        same = gv.train(derived.with_arcs(graph.adj), HEARSAY, epsilon=0.5, delta=DELTA, unit="edge").certificate
        assert not same.provenance.released, "the answer would tell whether private edges are the released ones"
        derived = self.released(graph, 4.0).to_graph(graph)
        mixed = replace(derived, adj=graph.adj)
        made = gv.train(mixed, HEARSAY, epsilon=0.5, delta=DELTA, unit="edge").certificate
        assert made.epsilon == pytest.approx(4.5, rel=1e-3)
        exposed = gv.train(mixed, gv.methods.Gcn(hidden=4, epochs=2), epsilon=math.inf, delta=DELTA, unit="edge")
        assert exposed.certificate.epsilon == math.inf

    @pytest.mark.parametrize(
        "way",
        ["split", "pyg", "bare pyg", "csv", "csv linked", "parquet", "parquet moved", "packed", "induced", "arcs"],
    )
    def test_no_ordinary_way_loses_the_lineage(self, graph: Graph, way: str, tmp_path: Path) -> None:
        released = self.released(graph, 4.0)
        derived = released.to_graph(graph)
        if way == "split":
            derived = derived.random_split(seed=5)
        elif way == "pyg":
            derived = Graph.from_pyg(derived.to_pyg(), name="back")
        elif way == "bare pyg":
            data = released.to_pyg()
            data.x, data.y = graph.x, graph.y
            derived = Graph.from_pyg(data, name="back").random_split()
        elif way == "packed":
            gv.pack(derived, tmp_path / "packed")
            derived = gv.open_packed(tmp_path / "packed")
        elif way == "arcs":
            derived = graph.with_arcs(released.arcs())
        elif way == "induced":
            ids = np.arange(60)
            derived = induced(derived, Split(ids[:30], ids[30:40], ids[40:], "by hand"), "half")
        else:
            kind = way.partition(" ")[0]
            file = released.save(tmp_path / "edges", kind) / f"edges.{kind}"
            if way.endswith("moved"):
                file = file.rename(tmp_path / "elsewhere.parquet")
            if way.endswith("linked"):
                (tmp_path / "link.csv").symlink_to(file)
                file = tmp_path / "link.csv"
            nodes = {"id": np.arange(graph.num_nodes), "label": graph.y.numpy(), "x": graph.x.numpy()}
            derived = Graph.from_edges(file, nodes, name="back").random_split()
        made = gv.train(derived, HEARSAY, epsilon=0.5, delta=DELTA, unit="edge").certificate
        assert made.parents[0] == released.certificate
        assert made.provenance.released
        assert made.epsilon == pytest.approx(4.0, rel=1e-3)

    def test_edited_files_are_not_what_was_released(self, graph: Graph, tmp_path: Path) -> None:
        """Private edges that somebody adds to the file are read as private ones."""
        folder = self.released(graph, 4.0).save(tmp_path / "edges", "csv")
        lines = (folder / "edges.csv").read_text().splitlines()
        (folder / "edges.csv").write_text("\n".join([*lines[:-1], ""]))
        nodes = {"id": np.arange(graph.num_nodes), "label": graph.y.numpy(), "x": graph.x.numpy()}
        derived = Graph.from_edges(folder / "edges.csv", nodes, name="back").random_split()
        book = gv.Ledger(tmp_path / "ledger.db")
        book.open(derived, "edge", epsilon=9, delta=DELTA)
        made = gv.train(derived, HEARSAY, epsilon=0.5, delta=DELTA, unit="edge", ledger=book).certificate
        assert made.epsilon == pytest.approx(4.5, rel=1e-3)
        assert [entry["id"] for entry in book.entries()] == [made.provenance.ledger_entry], "the ledger counts them too"

    def test_another_unit_is_refused_before_anything_is_spent(self, graph: Graph, tmp_path: Path) -> None:
        derived = self.released(graph, 4.0).to_graph(graph)
        book = gv.Ledger(tmp_path / "ledger.db")
        book.open(derived, "node", epsilon=9, delta=DELTA)
        with pytest.raises(Unsupported, match="do not add up"):
            gv.train(derived, gv.methods.DpSgd(steps=2), epsilon=1, delta=DELTA, unit="node", ledger=book)
        assert book.entries() == []

    def test_an_altered_certificate_is_refused(self, graph: Graph) -> None:
        derived = self.released(graph, 4.0).to_graph(graph)
        assert derived.lineage is not None
        lowered = json.loads(derived.lineage.certificate)
        lowered["epsilon"] = lowered["sound_epsilon"] = 0.1
        told = replace(derived.lineage, certificate=json.dumps(lowered))
        forged = derived.with_arcs(replace(derived.adj, origin=told))
        with pytest.raises(Tampered, match="says epsilon"):
            gv.train(forged, HEARSAY, epsilon=1, delta=DELTA, unit="edge")

    def test_a_refuted_parent_is_still_refuted(self, graph: Graph) -> None:
        eclipse = gv.methods.Eclipse(use="graph", basis="singular")
        told = gv.release_graph(graph, eclipse, epsilon=1, delta=DELTA, reading="published").to_graph(graph)
        made = gv.train(told, HEARSAY, epsilon=0.5, delta=DELTA, unit="edge", reading="published").certificate
        assert made.sound_epsilon == math.inf
        assert "REFUTED" in made.card()

    def test_a_forged_lineage_is_found(self, graph: Graph, tmp_path: Path) -> None:
        """Nothing released these edges; the certificate says that a method without a graph did."""
        release, free = (
            trained(graph, 8.0),
            gv.train(graph, gv.methods.Mlp(epochs=1), epsilon=1, delta=DELTA, unit="edge"),
        )
        said = replace(release.certificate.provenance, descends=True, released=True)
        forged = replace(release.certificate, provenance=said, parents=(free.certificate,))
        folder = replace(release, certificate=forged).save(tmp_path / "model")
        with pytest.raises(Tampered, match="mlp releases no graph"):
            gv.verify(folder)
        real = self.released(graph, 0.01).certificate
        folder = replace(release, certificate=replace(forged, parents=(real,))).save(tmp_path / "model")
        with pytest.raises(InvalidInput, match="lineage"):
            gv.verify(folder, graph)

    def test_the_ledger_is_not_asked_for_what_is_released(self, graph: Graph, tmp_path: Path) -> None:
        book = gv.Ledger(tmp_path / "ledger.db")
        book.open(graph, "edge", epsilon=5, delta=DELTA)
        edges = gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=4, delta=DELTA, ledger=book)
        gv.train(edges.to_graph(graph), HEARSAY, epsilon=9, delta=DELTA, unit="edge", ledger=book)
        assert len(book.entries()) == 1

    def test_a_model_of_a_released_graph_serves_another_graph(self, graph: Graph, other: Graph) -> None:
        model = gv.train(self.released(graph, 4.0).to_graph(graph), HEARSAY, epsilon=1, delta=DELTA, unit="edge")
        lines = served(model, other, 0.5).certificate.guarantees
        assert [(line.dataset, round(line.epsilon, 2)) for line in lines] == [("theirs", 0.5), ("ours", 4.0)]

    def test_a_public_graph_that_was_released_is_named(self, graph: Graph) -> None:
        private = replace(social(num_nodes=80, seed=9), name="patients")
        public = self.released(graph, 4.0).to_graph(graph)
        made = gv.train(private.with_public(public), gv.methods.Census(), epsilon=2, delta=DELTA, unit="node")
        assert [line.dataset for line in made.certificate.guarantees] == ["patients", "ours"]

    def test_another_public_graph_is_a_strangers(self, graph: Graph, tmp_path: Path) -> None:
        private = replace(social(num_nodes=80, seed=9), name="patients")
        two = private.with_public(graph)
        folder = gv.train(two, gv.methods.Census(), epsilon=2, delta=DELTA, unit="node").save(tmp_path / "two")
        gv.verify(folder, two)
        for beside in (replace(graph, x=graph.x + 1), None):
            with pytest.raises(InvalidInput, match="public graph"):
                gv.verify(folder, replace(two, public_graph=beside))


class TestUnitsDoNotMix:
    def test_a_parent_under_another_adjacency_protects_nothing(self, graph: Graph) -> None:
        """No verb makes such a certificate; whoever writes one by hand reads infinity, and why."""
        edge, other = (trained(graph, 2.0).certificate for _ in range(2))
        arcs = replace(other.plan, adjacency=Adjacency.of("edge", undirected=False))
        mixed = replace(edge, parents=(replace(other, plan=arcs),))
        assert mixed.epsilon == math.inf
        assert "protect different things" in mixed.card()


class TestTravel:
    """The private graph stays where it is: pickles and copies of a release are as safe as its folder."""

    def ways(self) -> dict[str, object]:
        def through_torch(release: Release) -> Release:
            body = io.BytesIO()
            torch.save(release, body)
            body.seek(0)
            made: Release = torch.load(body, weights_only=False)
            return made

        def through_joblib(release: Release) -> Release:
            body = io.BytesIO()
            joblib.dump(release, body)
            body.seek(0)
            made: Release = joblib.load(body)
            return made

        return {
            "pickle": lambda release: pickle.loads(pickle.dumps(release)),
            "copy": copy.copy,
            "deepcopy": copy.deepcopy,
            "torch": through_torch,
            "joblib": through_joblib,
        }

    @pytest.mark.parametrize("way", ["pickle", "copy", "deepcopy", "torch", "joblib"])
    def test_the_graph_does_not_travel(self, graph: Graph, way: str) -> None:
        release = trained(graph, 2.0)
        again = self.ways()[way](release)  # type: ignore[operator]
        assert again._graph is None
        assert torch.equal(again.predict(graph), release.predict())
        assert again.certificate == release.certificate
        assert release._graph is graph, "the caller's own release goes on as it was"
        with pytest.raises(InvalidInput, match="loaded from disk"):
            again.evaluate("test")

    def test_no_private_bytes_are_in_a_pickle(self, graph: Graph) -> None:
        body = pickle.dumps(trained(graph, 2.0))
        assert graph.adj.indices.tobytes() not in body
        assert graph.x.numpy().tobytes() not in body

    def test_memory_behind_a_view_stays_behind(self, graph: Graph) -> None:
        release = trained(graph, 2.0)
        secret = torch.full((1000,), 123.456)
        shown = replace(release, state={**release.state, "logits": secret[:1].reshape(1, 1)})
        assert pickle.dumps(shown).count(secret[:2].numpy().tobytes()) == 0


class TestStrangers:
    def test_verify_refuses_a_strangers_graph(self, graph: Graph, other: Graph, tmp_path: Path) -> None:
        folder = trained(graph, 2.0).save(tmp_path / "model")
        gv.verify(folder, graph)
        gv.verify(folder, graph.stand_in(Adjacency.of("edge")))
        strangers = {
            "name": replace(graph, name="ours too"),
            "sizes": replace(other, name="ours"),
            "split": graph.random_split(seed=1),
            "public parts": replace(graph, x=graph.x + 1),
        }
        for what, stranger in strangers.items():
            with pytest.raises(InvalidInput, match=rf"not the graph of this release.*{what}"):
                gv.verify(folder, stranger)

    def test_a_moved_training_mask_under_one_name_of_split_is_seen(self, graph: Graph, tmp_path: Path) -> None:
        folder = trained(graph, 2.0).save(tmp_path / "model")
        moved = graph.with_split(graph.test, graph.val, graph.train, graph.split)
        with pytest.raises(InvalidInput, match="split"):
            gv.verify(folder, moved)
        with pytest.raises(Unsupported, match="split"):
            gv.load(folder).predict(moved)

    def test_predictions_are_not_handed_to_a_strangers_graph(self, graph: Graph) -> None:
        """The same name, size and split, and other features: the old predictions would be a wrong answer."""
        with pytest.raises(Unsupported, match="public parts"):
            trained(graph, 2.0).predict(replace(graph, x=graph.x.flip(0)))


class TestWeights:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_what_is_not_finite_is_neither_saved_nor_read(self, graph: Graph, value: float, tmp_path: Path) -> None:
        release = trained(graph, 2.0)
        broken = {name: part.clone() for name, part in release.state.items()}
        broken["head.0.layers.0.weight" if "head.0.layers.0.weight" in broken else next(iter(broken))].view(-1)[0] = (
            value
        )
        spoilt = replace(release, state=broken)
        with pytest.raises(Unsupported, match="not finite"):
            spoilt.save(tmp_path / "model")
        assert not (tmp_path / "model").exists()

    def test_training_that_diverges_says_so_at_once(self, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        def diverged(self: gv.Method, session: object) -> dict[str, Tensor]:  # noqa: ARG001
            return {"logits": torch.full((120, 4), math.nan)}

        monkeypatch.setattr(gv.methods.Mlp, "fit", diverged)
        with pytest.warns(UserWarning, match="logits.*no model and cannot be saved"):
            gv.train(graph, gv.methods.Mlp(), epsilon=1, unit="edge", seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trained(graph, 2.0)

    @pytest.mark.parametrize("change", ["missing", "shape", "logits", "kind"])
    def test_forged_weights_are_found(self, graph: Graph, change: str, tmp_path: Path) -> None:
        release = trained(graph, 2.0)
        state = dict(release.state)
        if change == "missing":
            state = {name: part for name, part in state.items() if not name.startswith("head.0")}
        elif change == "shape":
            state = {name: part[:1] if name.startswith("head.0") else part for name, part in state.items()}
        elif change == "logits":
            state["logits"] = state["logits"][:, :-1]
        else:
            state["logits"] = state["logits"].long()
        folder = replace(release, state=state).save(tmp_path / "model")
        with pytest.raises(Tampered, match="weights"):
            gv.verify(folder)
