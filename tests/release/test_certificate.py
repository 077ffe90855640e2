"""A release is saved whole, read without trust, and says what it costs in words that can be checked."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import graphveil as gv
from graphveil.errors import InvalidInput, Tampered
from graphveil.privacy import accounting
from graphveil.release.certificate import SCHEMA, Certificate
from graphveil.release.release import Release, load
from graphveil.tasks.class_scores import judged
from graphveil.vocabulary import Reading, Unit

FILES = ("release.json", "weights.safetensors", "card.txt", "manifest.json")


@pytest.fixture(scope="module")
def release() -> Release:
    graph = gv.datasets.load("chain-s")
    return gv.train(graph, gv.methods.DpSgd(steps=3, learning_rate=64.0), epsilon=2.0, delta=1e-5, unit="node", seed=0)


@pytest.fixture(scope="module")
def published() -> Release:
    graph = gv.datasets.load("chain-s")
    method = gv.methods.Gap(hidden=4, head=4, epochs=2)
    return gv.train(graph, method, epsilon=1.0, delta=1e-5, unit="edge", reading="published", seed=0)


@pytest.fixture
def folder(release: Release, tmp_path: Path) -> Path:
    return release.save(tmp_path / "saved")


def edited(folder: Path, change: Callable[[dict[str, Any]], object], name: str = "release.json") -> Path:
    """Change a JSON file and make the manifest agree with it: a forger who knows the format."""
    body = json.loads((folder / name).read_text())
    change(body)
    (folder / name).write_text(json.dumps(body))
    return resealed(folder)


def resealed(folder: Path) -> Path:
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["sha256"]:
        manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def step_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["certificate"]["plan"]["steps"][0]
    return found


class TestCertificate:
    def test_epsilon_follows_from_the_plan(self, release: Release) -> None:
        certificate = release.certificate
        assert certificate.epsilon == accounting.epsilon(certificate.plan, 1e-5) <= 2.0
        assert certificate.sound_epsilon == certificate.epsilon
        with pytest.raises((AttributeError, TypeError)):
            certificate.epsilon = 0.1  # type: ignore[misc]
        with pytest.raises(TypeError):
            Certificate(epsilon=0.1)  # type: ignore[call-arg]

    def test_card(self, release: Release) -> None:
        card = release.certificate.card()
        for words in (
            "epsilon 1.9",
            "at delta 1e-05",
            "one node with its features",
            "sound",
            "gradient x 3",
            "assumes",
        ):
            assert words in card
        assert "NOT FOR RELEASE" in card, "seeded noise must be called out"
        assert "nobody counts" in card, "the missing ledger must be called out"
        assert "REFUTED" not in card

    def test_card_says_when_the_split_looked_at_private_labels(self) -> None:
        """Said by who drew it, whatever it is called: Planetoid's "public" split has 20 of every class."""
        social = gv.datasets.load("social")
        method = gv.methods.DpSgd(steps=1)
        for graph, looked in (
            (social, False),
            (social.per_class_split(), True),
            (social.with_split(social.train, social.val, social.test, "public", reads_labels=True), True),
            (social.with_split(social.train, social.val, social.test, "per_class of last year"), False),
        ):
            private = gv.train(graph, method, epsilon=1, delta=1e-5, unit="node", seed=0).certificate
            assert ("drawn by looking at labels" in private.card()) is looked
            assert Certificate.from_json(private.to_json()) == private
            public = gv.train(graph, gv.methods.Mlp(epochs=1), epsilon=1, delta=1e-5, unit="edge", seed=0)
            assert "drawn by looking at labels" not in public.certificate.card()

    def test_split_hash_is_withheld_where_it_would_confirm_labels(self, release: Release, published: Release) -> None:
        """A random split deals out ids. One that was drawn by label tells of labels, with its seed printed."""
        assert release.certificate.provenance.split_hash == gv.datasets.load("chain-s").split_hash()
        graph = gv.datasets.load("social", split="per_class")
        drawn = [
            gv.train(graph, method, epsilon=1, delta=1e-5, unit=unit, seed=0).certificate
            for method, unit in ((gv.methods.DpSgd(steps=1), "node"), (gv.methods.Mlp(epochs=1), "edge"))
        ]
        assert [bool(one.provenance.split_hash) for one in drawn] == [False, True]
        assert "hash withheld" in drawn[0].card()
        assert published.certificate.provenance.split_hash

    def test_card_rounds_against_the_user(self, release: Release) -> None:
        shown = float(release.certificate.card().split("epsilon ")[1].split()[0])
        assert shown >= release.certificate.epsilon
        assert shown - release.certificate.epsilon < 1.1e-4

    def test_published_prints_the_refutation_and_what_can_be_proven(self, published: Release) -> None:
        certificate = published.certificate
        card = certificate.card()
        assert certificate.epsilon <= 1.0
        assert certificate.sound_epsilon == pytest.approx(1.465, rel=5e-3)
        assert "REFUTED     one undirected edge moves TWO rows" in card
        assert f"provable    epsilon {math.ceil(certificate.sound_epsilon * 1e4) / 1e4:.4f}" in card

    def test_published_must_carry_the_sound_plan_of_the_same_acts(self, published: Release, release: Release) -> None:
        certificate = published.certificate
        sound = certificate.sound
        assert sound is not None
        milder = replace(sound, steps=(replace(sound.steps[0], act=replace(sound.steps[0].act, std=1e9)),))
        fewer = replace(sound, steps=(replace(sound.steps[0], times=sound.steps[0].times + 1),))
        for other in (None, milder, fewer, replace(sound, steps=()), certificate.plan, release.certificate.plan):
            with pytest.raises(InvalidInput):
                replace(certificate, sound=other)

    def test_json_round_trip(self, release: Release, published: Release) -> None:
        for one in (release.certificate, published.certificate):
            again = Certificate.from_json(one.to_json())
            assert again == one
            assert (again.epsilon, again.sound_epsilon, again.card()) == (one.epsilon, one.sound_epsilon, one.card())

    def test_infinity_and_zero_survive_json(self) -> None:
        graph, method = gv.datasets.load("chain-s"), gv.methods.Mlp(hidden=2, epochs=1)
        exposed = gv.train(graph, method, epsilon=math.inf, unit="node", seed=0).certificate
        free = gv.train(graph, method, epsilon=1.0, unit="edge", seed=0).certificate
        assert Certificate.from_json(exposed.to_json()).epsilon == math.inf
        assert "no protection" in exposed.card()
        assert Certificate.from_json(free.to_json()).epsilon == 0.0
        assert "no private data is read" in free.card()

    @pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
    def test_delta_is_checked(self, release: Release, delta: float) -> None:
        with pytest.raises(InvalidInput, match="delta"):
            replace(release.certificate, delta=delta)

    def test_provenance_is_public(self) -> None:
        """Two graphs that differ in one edge must have certificates that differ in nothing but the time."""
        method = gv.methods.Gap(hidden=4, head=4, epochs=1)
        whole = gv.datasets.load("chain-s")
        arcs = whole.adj.edge_index().numpy()
        kept = ~(((arcs[0] == 0) & (arcs[1] == 1)) | ((arcs[0] == 1) & (arcs[1] == 0)))
        csr = type(whole.adj).from_edge_index(arcs[0][kept], arcs[1][kept], whole.num_nodes)
        less = replace(whole, adj=csr)
        assert less.num_edges == whole.num_edges - 1
        texts = []
        for graph in (whole, less):
            made = gv.train(graph, method, noise=1.0, unit="edge", seed=0).certificate
            texts.append(replace(made, provenance=replace(made.provenance, created="", run="1")).to_json())
            for secret in (graph.fingerprint(), graph.fingerprint()[:12]):
                assert secret not in made.to_json()
        assert texts[0] == texts[1]


class TestSaving:
    def test_round_trip(self, release: Release, folder: Path) -> None:
        again = load(folder)
        graph = gv.datasets.load("chain-s")
        assert again.method == release.method
        assert again.certificate == release.certificate
        assert {name: tensor.tolist() for name, tensor in again.state.items()} == {
            name: tensor.tolist() for name, tensor in release.state.items()
        }
        assert torch.equal(again.predict(graph), release.predict())
        assert again.evaluate("test", graph) == release.evaluate("test")
        with pytest.raises(InvalidInput, match="loaded from disk"):
            again.predict()

    def test_folder_holds_exactly_its_files_and_no_rest(self, folder: Path) -> None:
        assert {path.name for path in folder.iterdir()} == set(FILES)
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]

    def test_saving_again_replaces(self, release: Release, folder: Path) -> None:
        assert load(release.save(folder)).certificate == release.certificate

    def test_empty_folder_is_filled(self, release: Release, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        assert load(release.save(tmp_path / "empty")).certificate == release.certificate

    def test_foreign_folders_are_left_alone(self, release: Release, tmp_path: Path) -> None:
        """Also one that happens to hold a manifest.json, as web projects do."""
        for number, names in enumerate([("thesis.tex",), ("manifest.json", "index.html"), (*FILES, "thesis.tex")]):
            foreign = tmp_path / str(number)
            foreign.mkdir()
            for name in names:
                (foreign / name).write_text("mine")
            with pytest.raises(InvalidInput, match="choose another path"):
                release.save(foreign)
            assert {path.name: path.read_text() for path in foreign.iterdir()} == dict.fromkeys(names, "mine")
        (tmp_path / "file").write_text("mine")
        with pytest.raises(InvalidInput, match="choose another path"):
            release.save(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "mine"

    def test_a_crash_leaves_the_old_release_or_none(
        self, release: Release, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The disk fills up after the second file."""
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        written: list[Path] = []
        real = Path.write_bytes

        def failing(path: Path, body: bytes) -> int:
            if len(written) == 2:
                raise OSError("disk full")
            written.append(path)
            return real(path, body)

        monkeypatch.setattr(Path, "write_bytes", failing)
        for target in (folder, folder.parent / "fresh"):
            written.clear()
            with pytest.raises(InvalidInput, match="disk full"):
                release.save(target)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]


class TestTampering:
    @pytest.mark.parametrize("name", FILES)
    def test_every_flipped_byte_is_noticed(self, folder: Path, name: str) -> None:
        body = (folder / name).read_bytes()
        for place in {0, 1, len(body) // 3, len(body) // 2, len(body) - 2}:
            flipped = bytearray(body)
            flipped[place] ^= 0x01
            (folder / name).write_bytes(bytes(flipped))
            with pytest.raises(Tampered):
                load(folder)
        (folder / name).write_bytes(body)
        load(folder)

    @pytest.mark.parametrize("name", FILES)
    def test_truncated_empty_and_missing_files(self, folder: Path, name: str) -> None:
        body = (folder / name).read_bytes()
        for rest in (body[:-1], body[: len(body) // 2], b""):
            (folder / name).write_bytes(rest)
            with pytest.raises(Tampered):
                load(folder)
        (folder / name).unlink()
        with pytest.raises(Tampered, match="missing"):
            load(folder)

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(Tampered):
            load(tmp_path / "nowhere")

    @pytest.mark.parametrize("extra", ["../../etc/passwd", "code.py"])
    def test_listing_another_file(self, folder: Path, extra: str) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["sha256"][extra] = "0" * 64
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(Tampered, match="exactly the files"):
            load(folder)

    def test_listing_one_file_less(self, folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        del manifest["sha256"]["card.txt"]
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(Tampered, match="exactly the files"):
            load(folder)

    @pytest.mark.parametrize("field", ["epsilon", "sound_epsilon"])
    @pytest.mark.parametrize("value", [0.5, "inf", float("nan"), None, "much"])
    def test_an_edited_epsilon_contradicts_its_plan(self, folder: Path, field: str, value: object) -> None:
        edited(folder, lambda body: body["certificate"].update({field: value}))
        with pytest.raises(Tampered):
            load(folder)

    @pytest.mark.parametrize(
        "change",
        [
            lambda body: body["certificate"].update(delta=0.5),
            lambda body: body["certificate"].update(delta=-1),
            lambda body: body["certificate"].update(delta="tiny"),
            lambda body: body["certificate"].pop("plan"),
            lambda body: body["certificate"].update(plan=[]),
            lambda body: body["certificate"].update(provenance={}),
            lambda body: body["certificate"].update(sound=3),
            lambda body: body["certificate"]["plan"].update(reading="published"),
            lambda body: body["certificate"]["plan"].update(steps=[]),
            lambda body: body["certificate"]["plan"]["adjacency"].update(unit="galaxy"),
            lambda body: step_of(body).update(times=1),
            lambda body: step_of(body).update(times=0),
            lambda body: step_of(body).update(times=float("inf")),
            lambda body: step_of(body)["claim"].update(mu=1e-3),
            lambda body: step_of(body)["claim"].update(mu=float("nan")),
            lambda body: step_of(body)["claim"].update(mu=-1.0),
            lambda body: step_of(body)["claim"].update(kind="Trustworthy"),
            lambda body: step_of(body)["claim"].update(kind=["GaussianCurve"]),
            lambda body: step_of(body)["act"].update(kind="os.system"),
            lambda body: step_of(body)["act"].update(command="true"),
            lambda body: body["method"].update(kind="Unheard"),
            lambda body: body["method"].update(kind=["DpSgd"]),
            lambda body: body["method"].update(steps=-1),
            lambda body: body.pop("method"),
            lambda body: body.pop("certificate"),
            lambda body: body.update(schema=99),
            lambda body: body.pop("schema"),
            lambda body: body["certificate"].update(schema=0),
        ],
    )
    def test_forged_fields(self, folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
        edited(folder, change)
        with pytest.raises(Tampered):
            load(folder)

    def test_a_forged_card(self, folder: Path) -> None:
        card = (folder / "card.txt").read_text()
        (folder / "card.txt").write_text(card.replace("epsilon 1.9", "epsilon 0.9"))
        resealed(folder)
        with pytest.raises(Tampered, match="card"):
            load(folder)

    def test_unknown_manifest_schema(self, folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, "schema": SCHEMA + 1}))
        with pytest.raises(Tampered, match="schema"):
            load(folder)

    def test_loading_runs_no_code(self, folder: Path, tmp_path: Path) -> None:
        """Weights in pickle form, which would run on loading, are not even opened as such."""
        witness = tmp_path / "ran"

        class Bomb:
            def __reduce__(self) -> tuple[Any, ...]:
                return os.mkdir, (str(witness),)

        (folder / "weights.safetensors").write_bytes(pickle.dumps(Bomb()))
        resealed(folder)
        with pytest.raises(Tampered):
            load(folder)
        torch.save({"weights.0": Bomb()}, folder / "weights.safetensors")
        resealed(folder)
        with pytest.raises(Tampered):
            load(folder)
        assert not witness.exists()


class TestPredictions:
    def test_scores(self) -> None:
        truth, said = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1])
        found = judged(said, truth, 2)
        assert (found["accuracy"], found["f1"]) == (0.75, pytest.approx((2 / 3 + 4 / 5) / 2))

    def test_released_predictions_are_for_the_trained_graph_only(self, published: Release) -> None:
        other = gv.datasets.load("chain-m")
        with pytest.raises(gv.Unsupported, match="infer"):
            published.predict(other)
        assert torch.equal(published.predict(gv.datasets.load("chain-s")), published.predict())

    @pytest.mark.parametrize(
        ("method", "unit"),
        [
            (gv.methods.PairCounts(), "node"),
            (gv.methods.HeterPoisson(network="sage", hidden=2, batch=300, epochs=0.2), "node"),
            (gv.methods.Drw(hidden=2, steps=2), "features"),
            (gv.methods.Ndp(hidden=2, steps=2), "node"),
        ],
    )
    def test_another_split_would_read_training_nodes(self, method: gv.Method, unit: str, tmp_path: Path) -> None:
        """What was held out there has trained here: its neighbours would hear it in prediction."""
        graph, other = (gv.datasets.load("chain-s", seed=seed) for seed in (0, 1))
        release = gv.train(graph, method, noise=2.0, delta=1e-5, unit=unit, seed=0)
        assert torch.equal(release.predict(graph), release.predict())
        with pytest.raises(gv.Unsupported, match="give the split of the training"):
            release.predict(other)
        # A split of one's own is known by its ids, also where the graph of the training is not at hand.
        moved = other.with_split(other.train, other.val, other.test, graph.split)
        loaded = gv.load(release.save(tmp_path / "release"))
        assert torch.equal(loaded.predict(graph), release.predict())
        for one in (release, loaded):
            with pytest.raises(gv.Unsupported, match="give the split of the training"):
                one.predict(moved)
        # A graph of another name has no node in common.
        assert len(release.predict(replace(other, name="elsewhere"))) == graph.num_nodes
        assert "outside training" in release.prediction_cost

    def test_unknown_part(self, release: Release) -> None:
        with pytest.raises(InvalidInput, match="unknown part"):
            release.evaluate("everything")

    def test_reading_and_unit_are_kept(self, published: Release) -> None:
        assert published.certificate.plan.reading is Reading.PUBLISHED
        assert published.certificate.plan.adjacency.unit is Unit.EDGE
