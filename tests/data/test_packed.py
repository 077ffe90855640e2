"""Packed graphs: what comes back is what went in, from the disk, and damage is named before anything is used."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

import graphveil as gv
from graphveil import cli
from graphveil.cli import app
from graphveil.data import packed
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.vocabulary import Adjacency
from malformed import Parts, parts

FILES = {"graph.json", "x.npy", "indptr.npy", "indices.npy", "y.npy", "train.npy", "val.npy", "test.npy"}


@pytest.fixture
def graph() -> gv.Graph:
    return social(num_nodes=300).random_split()


@pytest.fixture
def folder(graph: gv.Graph, tmp_path: Path) -> Path:
    return gv.pack(graph, tmp_path / "packed")


def mapped_files() -> str:
    return Path("/proc/self/maps").read_text()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts())
def test_round_trip(tmp_path: Path, given_parts: Parts) -> None:
    graph = given_parts.direct()
    again = gv.open_packed(gv.pack(graph, tmp_path / "packed"))
    assert again.fingerprint() == graph.fingerprint()
    assert again.split_hash() == graph.split_hash()
    assert repr(again) == repr(graph)


def test_blocks_join_up(graph: gv.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BLOCK", 1024)
    again = gv.open_packed(gv.pack(graph, tmp_path / "packed"))
    assert torch.equal(again.x, graph.x)
    assert np.array_equal(again.adj.indices, graph.adj.indices)


def test_a_graph_without_edges_and_splits_is_packed_too(tmp_path: Path) -> None:
    none, nothing = torch.zeros(2, dtype=torch.bool), np.zeros(0, np.int64)
    adj = Csr(np.zeros(3, np.int64), nothing)
    bare = gv.Graph(torch.ones(2, 1), adj, torch.tensor([0, 1]), 2, False, none, none, none, "bare", "none")
    again = gv.open_packed(gv.pack(bare, tmp_path / "packed"))
    assert again.adj.num_arcs == 0
    assert not again.undirected
    assert again.fingerprint() == bare.fingerprint()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_arrays_are_mapped_and_the_files_never_change(folder: Path) -> None:
    before = (folder / "x.npy").read_bytes()
    graph = gv.open_packed(folder)
    for name in ("x.npy", "indices.npy", "indptr.npy", "y.npy", "train.npy"):
        assert str(folder / name) in mapped_files()
    graph.x[0] = 7.0
    assert (folder / "x.npy").read_bytes() == before
    assert gv.open_packed(folder).x[0, 0] != 7.0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_array_may_exceed_memory(tmp_path: Path) -> None:
    """Twice the machine's memory; the file is a hole, so it costs nothing."""
    rows = 2 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4096
    file = tmp_path / "x.npy"
    head = {"descr": "<f4", "fortran_order": False, "shape": (rows, 1024)}
    with file.open("wb") as out:
        np.lib.format.write_array_header_1_0(out, head)
        try:
            out.truncate(out.tell() + rows * 4096)
        except OSError:
            pytest.skip("this file system has no holes")
    x = torch.from_numpy(packed.map_array(file))
    assert x[torch.tensor([0, rows // 2, rows - 1])].abs().sum() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pages_are_freed_after_a_release(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = gv.open_packed(folder)

    def resident() -> int:
        lines = Path("/proc/self/smaps").read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if str(folder / "x.npy") in line)
        return int(next(line for line in lines[at:] if line.startswith("Rss")).split()[1])

    assert resident() == 0  # opening read the file, not the mapping
    expected = graph.x.sum()
    assert resident() > 0
    monkeypatch.setattr(packed, "LIMIT", -1)
    _, sealed = graph.random_split(seed=1).seal(Adjacency.of("node"))
    with sealed.opened():
        assert resident() > 0
    assert resident() == 0
    assert graph.x.sum() == expected


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_rows_come_in_the_order_asked_for(graph: gv.Graph, folder: Path, count: int) -> None:
    nodes = np.random.default_rng(0).integers(0, 300, count)
    wanted = graph.x[torch.from_numpy(nodes)]
    for one in (graph, gv.open_packed(folder)):
        assert torch.equal(one.feature_rows()[torch.from_numpy(nodes)], wanted)
        _, sealed = one.seal(Adjacency.of("node"))
        with sealed.opened():
            assert torch.equal(sealed.rows(nodes), wanted)
        with pytest.raises(gv.PrivateAccess):
            sealed.rows(nodes)


def test_splits_share_the_mapping_and_new_features_are_checked(folder: Path) -> None:
    graph = gv.open_packed(folder)
    assert graph.random_split(seed=3).x is graph.x
    bad = graph.x.clone()
    bad[2, 1] = torch.nan
    with pytest.raises(gv.InvalidInput, match="x row 2, column 1"):
        replace(graph, x=bad)


def test_training_on_a_packed_graph_is_training_on_the_graph(graph: gv.Graph, folder: Path) -> None:
    options: dict[str, Any] = {"noise": 3.0, "delta": 1e-5, "unit": "node", "seed": 0}
    method = gv.methods.DpSgd(steps=3, sampling_rate=0.5)
    ours, theirs = (gv.train(one, method, **options) for one in (graph, gv.open_packed(folder)))
    assert torch.equal(ours.predict_proba(), theirs.predict_proba())


# The folder


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_only_the_owner_can_read_it(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {item.name for item in folder.iterdir()} == FILES | {"manifest.json"}
    assert {stat.S_IMODE(item.stat().st_mode) for item in folder.iterdir()} == {0o600}


def test_a_packed_graph_is_replaced_even_by_itself(graph: gv.Graph, folder: Path) -> None:
    opened = gv.open_packed(folder)
    gv.pack(opened.random_split(seed=5), folder)
    assert gv.open_packed(folder).split_hash() == graph.random_split(seed=5).split_hash()
    assert opened.fingerprint() == graph.fingerprint()  # the old files live on while they are mapped
    assert [item.name for item in folder.parent.iterdir()] == ["packed"]


@pytest.mark.parametrize("extra", ["cat.jpg", "x.npy.bak"])
def test_nothing_else_is_replaced(graph: gv.Graph, folder: Path, extra: str) -> None:
    (folder / extra).write_text("keep me")
    with pytest.raises(gv.InvalidInput, match="not a packed graph"):
        gv.pack(graph, folder)
    assert (folder / extra).read_text() == "keep me"
    with pytest.raises(gv.InvalidInput, match="not a packed graph"):
        gv.pack(graph, folder / extra)


def test_a_failed_write_leaves_nothing(graph: gv.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packed, "_blocks", full)
    with pytest.raises(gv.InvalidInput, match="No space left"):
        gv.pack(graph, tmp_path / "packed")
    assert list(tmp_path.iterdir()) == []


# Damage


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("how", ["flipped", "cut", "grown", "missing"])
def test_damage_names_the_file(folder: Path, name: str, how: str) -> None:
    path = folder / name
    body = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
    else:
        body[-2] ^= 1
        path.write_bytes({"flipped": body, "cut": body[:-4], "grown": body + b"1234"}[how])
    with pytest.raises(gv.Tampered, match=name):
        gv.open_packed(folder)


@pytest.mark.parametrize("name", sorted(FILES - {"graph.json"}))
def test_a_damaged_header_names_the_file(folder: Path, name: str) -> None:
    body = bytearray((folder / name).read_bytes())
    for position in (0, 6, 8, 9, 12, 30, 60, 100):
        (folder / name).write_bytes(body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :])
        with pytest.raises((gv.Tampered, gv.InvalidInput), match=name):
            gv.open_packed(folder)


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))

    return edit


@pytest.mark.parametrize(
    ("damage", "kind", "words"),
    [
        (lambda path: path.write_text("{"), gv.Tampered, "manifest.json cannot be read"),
        (lambda path: path.write_text("[]"), gv.Tampered, "JSON object"),
        (lambda path: path.write_text("{}"), gv.InvalidInput, "not a packed graph"),
        (lambda path: path.unlink(), gv.InvalidInput, "graphveil data pack"),
        (edited(lambda m: m.update(schema=99)), gv.Tampered, "version 99"),
        (edited(lambda m: m["packed"].pop("y.npy")), gv.Tampered, "exactly the files"),
        (edited(lambda m: m["packed"].update({"y.npy": 3})), gv.Tampered, r"hash of y\.npy"),
        (edited(lambda m: m["packed"]["y.npy"].update(bytes="many")), gv.Tampered, r"y\.npy has"),
        (edited(lambda m: m["packed"]["y.npy"].update(sha256=None)), gv.Tampered, r"y\.npy was altered"),
    ],
)
def test_a_damaged_manifest_is_refused(folder: Path, damage: Any, kind: type[Exception], words: str) -> None:
    damage(folder / "manifest.json")
    with pytest.raises(kind, match=words):
        gv.open_packed(folder)


def reseal(folder: Path) -> None:
    """Make the manifest fit whatever the files hold now."""
    from hashlib import sha256

    bodies = {name: (folder / name).read_bytes() for name in FILES}
    stated = {name: {"bytes": len(body), "sha256": sha256(body).hexdigest()} for name, body in bodies.items()}
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "packed": stated}))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_must_be_finite_whoever_wrote_the_files(folder: Path, graph: gv.Graph, value: float) -> None:
    x = graph.x.numpy().copy()
    x[7, 3] = value
    np.save(folder / "x.npy", x)
    reseal(folder)
    with pytest.raises(gv.InvalidInput, match="x row 7, column 3"):
        gv.open_packed(folder)


def test_large_features_may_overflow_their_sum(folder: Path, graph: gv.Graph) -> None:
    np.save(folder / "x.npy", np.full_like(graph.x.numpy(), 3e38))
    reseal(folder)
    assert gv.open_packed(folder).x.isfinite().all()


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("x", np.zeros((300, 32)), "x.npy holds <f8"),
        ("y", np.zeros(300, ">i8"), "y.npy holds >i8"),
        ("x", np.zeros((300, 32), np.float32, order="F"), "x.npy is not a plain"),
        ("y", np.zeros(299, np.int64), "300 rows"),
        ("indices", np.zeros(5, np.int64), "indptr"),
        ("train", np.ones(300, np.bool_), "more than one split"),
    ],
)
def test_resealed_files_still_make_a_valid_graph(folder: Path, name: str, array: np.ndarray, words: str) -> None:
    np.save(folder / f"{name}.npy", array)
    reseal(folder)
    with pytest.raises((gv.Tampered, gv.InvalidInput), match=words):
        gv.open_packed(folder)


@pytest.mark.parametrize("facts", [{}, {"name": "g", "split": "none", "num_classes": "4", "undirected": True}])
def test_facts_must_be_complete(folder: Path, facts: dict[str, Any]) -> None:
    (folder / "graph.json").write_text(json.dumps(facts))
    reseal(folder)
    with pytest.raises(gv.Tampered, match=r"graph\.json"):
        gv.open_packed(folder)


def test_what_is_stated_of_a_graph_is_packed_with_it(graph: gv.Graph, tmp_path: Path) -> None:
    folder, mine = tmp_path / "packed", replace(graph, every_id_present=False)
    stated = gv.open_packed(gv.pack(mine.with_degrees(200), folder))
    assert stated.degrees is not None
    assert stated.degrees.tolist() == [200] * 300
    assert (folder / "degrees.npy").is_file()
    present = gv.open_packed(gv.pack(graph, folder))
    assert (present.degrees, present.every_id_present, present.split_reads_labels) == (None, True, False)
    assert not (folder / "degrees.npy").exists()
    drawn = gv.open_packed(gv.pack(mine.per_class_split(5, 10, 10), folder))
    assert (drawn.every_id_present, drawn.split_reads_labels) == (False, True)


def test_blank_ids_are_packed_with_their_split(graph: gv.Graph, tmp_path: Path) -> None:
    y = graph.y.clone()
    y[::3] = -1
    again = gv.open_packed(gv.pack(replace(graph, y=y), tmp_path / "packed"))
    assert again.split_hash() == graph.split_hash()


@pytest.mark.parametrize("missing", ["name", "num_classes", "split_reads_labels", "every_id_present"])
def test_every_fact_is_needed(folder: Path, missing: str) -> None:
    facts = json.loads((folder / "graph.json").read_text())
    del facts[missing]
    (folder / "graph.json").write_text(json.dumps(facts))
    reseal(folder)
    with pytest.raises(gv.Tampered, match=r"graph\.json"):
        gv.open_packed(folder)


@pytest.mark.parametrize("facts", [{"every_id_present": "yes"}, {"split_reads_labels": 1}, {"stranger": True}])
def test_other_facts_are_refused(folder: Path, facts: dict[str, Any]) -> None:
    (folder / "graph.json").write_text(json.dumps(json.loads((folder / "graph.json").read_text()) | facts))
    reseal(folder)
    with pytest.raises(gv.Tampered, match=r"graph\.json"):
        gv.open_packed(folder)


def test_degrees_of_somebody_else_are_not_replaced(graph: gv.Graph, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "degrees.npy").write_text("keep me")
    with pytest.raises(gv.InvalidInput, match="not a packed graph"):
        gv.pack(graph, tmp_path / "mine")


# The command line


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_pack_then_train_infer_and_count(tmp_path: Path) -> None:
    folder, book, model = (str(tmp_path / name) for name in ("packed", "ledger.db", "model"))
    done = run("data", "pack", "chain-s", "--out", folder, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["folder"], told["split"]) == (folder, gv.open_packed(folder).split)
    budget = ("--packed", folder, "--unit", "edge", "--epsilon", "2", "--delta", "1e-5")
    assert run("ledger", "open", book, *budget).exit_code == 0
    trained = run("train", "gap", *budget, "--ledger", book, "--epochs", "2", "--out", model)
    assert trained.exit_code == 0, trained.output
    assert run("infer", model, "--packed", folder).exit_code == 0
    assert "private data" in run("data", "pack", "chain-s", "--out", folder).stdout


def test_tables_are_packed_with_the_split_that_was_asked_for(tmp_path: Path) -> None:
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("source,target\n" + "".join(f"{i},{(i + 1) % 12}\n" for i in range(12)))
    nodes.write_text("id,label,a\n" + "".join(f"{i},{i % 2},{i}.5\n" for i in range(12)))
    words = ("--edges", str(edges), "--nodes", str(nodes), "--split-seed", "3")
    assert run("data", "pack", *words, "--out", str(tmp_path / "packed")).exit_code == 0
    assert gv.open_packed(tmp_path / "packed").split == "random(0.75,0.1,0.15,seed=3)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("data pack --out new", "name one dataset"),
        ("data pack nowhere --out new", "unknown dataset"),
        ("data pack chain-s --out photos", "not a packed graph"),
        ("train gap --packed photos --unit edge --epsilon 1", "not a packed graph"),
        ("train gap --packed nowhere --unit edge --epsilon 1", "graphveil data pack"),
        ("train gap chain-s --packed packed --unit edge --epsilon 1", "name one dataset"),
        ("train gap --packed packed --edges a.csv --nodes b.csv --unit edge --epsilon 1", "name one dataset"),
        ("train gap --packed packed --directed --unit edge --epsilon 1", "for tables"),
    ],
)
def test_errors_say_what_to_do(
    words: str,
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("photos").mkdir()
    Path("photos", "cat.jpg").write_text("meow")
    monkeypatch.setattr(sys, "argv", ["graphveil", *words.split()])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_help_says_that_the_folder_is_private() -> None:
    shown = run("data", "pack", "--help")
    assert shown.exit_code == 0
    assert "private data" in " ".join(shown.output.split())


def test_hearsay_on_disk_is_hearsay_in_memory(graph: gv.Graph, folder: Path) -> None:
    method = gv.methods.Hearsay(folds=2, hidden=4, head=4)
    found = [
        gv.train(each, method, epsilon=2, delta=1e-5, unit="edge", seed=0) for each in (graph, gv.open_packed(folder))
    ]
    assert torch.equal(found[0].state["logits"], found[1].state["logits"])


def test_public_rows_of_a_packed_graph_are_freed(
    graph: gv.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "LIMIT", -1)
    again = gv.open_packed(folder)
    freed = []
    monkeypatch.setattr(packed._Pages, "evict", lambda _: freed.append(1))
    rows = again.seal(Adjacency.of("edge"))[0].feature_rows()
    assert torch.equal(rows[torch.tensor([[3, 5], [2, 2]])], graph.x[torch.tensor([[3, 5], [2, 2]])])
    assert torch.equal(rows[4:9], graph.x[4:9])
    assert len(freed) == 2
