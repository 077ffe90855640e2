"""Real datasets: counts, the cache, and raw folders that are absent, read-only or damaged."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graphveil.data import datasets
from graphveil.data.datasets import stored
from graphveil.data.datasets.source import Generated
from graphveil.data.datasets.stored import find_root
from graphveil.errors import InvalidInput, MissingData, Unsupported

# Name, features, classes, and arcs as PyG counts them with the self-loops it keeps.
COUNTS = {
    "cora": (1_433, 7, 10_556, 0),
    "citeseer": (3_703, 6, 9_104, 0),
    "pubmed": (500, 3, 88_648, 0),
    "computers": (767, 10, 491_722, 0),
    "photo": (745, 8, 238_162, 0),
    "cora_ml": (2_879, 7, 16_316, 0),
    "dblp": (1_639, 4, 105_734, 0),
    "facebook": (128, 4, 342_004, 2 * 179),
    "twitch-de": (128, 2, 315_774, 9_498),
    "twitch-en": (128, 2, 77_774, 7_126),
    "twitch-es": (128, 2, 123_412, 4_648),
    "twitch-fr": (128, 2, 231_881, 6_549),
    "twitch-pt": (128, 2, 64_510, 1_912),
    "twitch-ru": (128, 2, 78_993, 4_385),
    "chameleon": (2_325, 5, 36_101, 50),
    "chameleon-undirected": (2_325, 5, 62_792, 50),
    "rutgers89": (376, 5, 1_219_462, 0),
    "german": (27, 2, 43_484, 0),
    "credit": (13, 2, 274_754, 0),
}
LARGE = {"cs": (6_805, 15, 163_788, 0), "fb100-union": (368, 6, 5_154_130, 0)}
SOURCES = {row["name"]: row for row in datasets.describe()}


def raw_root() -> Path:
    try:
        return find_root()
    except MissingData as error:
        pytest.skip(f"no raw data on this machine: {error}")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRAPHVEIL_CACHE", str(folder))
    return folder


def copy_of(folder: str, target: Path) -> Path:
    """A root with one dataset's raw files, writable and without checksums."""
    shutil.copytree(raw_root() / folder, target / folder, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def check_counts(name: str, counts: tuple[int, int, int, int]) -> None:
    features, classes, arcs, loops = counts
    graph = datasets.load(name)
    assert (graph.num_features, graph.num_classes) == (features, classes)
    assert graph.adj.num_arcs == arcs - loops
    assert (graph.num_nodes, graph.num_edges) == (SOURCES[name]["nodes"], SOURCES[name]["edges"])
    assert graph.undirected == (name != "chameleon")
    assert graph.name == name
    for split in SOURCES[name]["splits"]:
        assert datasets.load(name, split=split, seed=1).fingerprint() == graph.fingerprint()


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    raw_root()
    check_counts(name, COUNTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_counts_of_large_graphs(name: str) -> None:
    raw_root()
    check_counts(name, LARGE[name])


def test_the_public_split_of_cora_is_the_planetoid_one() -> None:
    raw_root()
    graph = datasets.load("Cora", split="public")
    assert torch.equal(graph.train.nonzero().ravel(), torch.arange(140))
    assert (int(graph.val.sum()), int(graph.test.sum())) == (500, 1_000)
    assert graph.split == "public"
    # Twenty of every class: it was drawn by looking at labels, and says so.
    assert torch.bincount(graph.y[graph.train]).tolist() == [20] * 7
    assert graph.split_reads_labels
    assert not datasets.load("cora").split_reads_labels


def test_the_public_split_of_chameleon_follows_the_seed() -> None:
    raw = raw_root() / "WikipediaNetwork/chameleon/geom_gcn/raw"
    graph = datasets.load("chameleon", split="public", seed=13)
    with np.load(raw / "chameleon_split_0.6_0.2_3.npz") as masks:
        assert np.array_equal(graph.train.numpy(), masks["train_mask"].astype(bool))
        assert np.array_equal(graph.test.numpy(), masks["test_mask"].astype(bool))
    assert graph.split == "public(column=3)"


def test_the_public_splits_of_chameleon_were_not_drawn_by_class() -> None:
    """Classes fall into the ten training sets as chance would have it: squares add up to chi-squared, 40 in mean."""
    raw_root()
    total = 0.0
    for seed in range(10):
        graph = datasets.load("chameleon", split="public", seed=seed)
        share, sizes = graph.train.double().mean(), torch.bincount(graph.y)
        off = torch.bincount(graph.y[graph.train]) - share * sizes
        total += float((off**2 / (share * (1 - share) * sizes)).sum())
        assert not graph.split_reads_labels
    assert 20 < total < 64


def test_cached_and_fresh_graphs_are_equal(cache: Path) -> None:
    raw_root()
    fresh = datasets.load("twitch-pt")
    (cached,) = cache.iterdir()
    before = cached.stat().st_mtime_ns
    again = datasets.load("twitch-pt")
    assert again.fingerprint() == fresh.fingerprint()
    assert cached.stat().st_mtime_ns == before
    cached.write_bytes(b"spoilt")
    assert datasets.load("twitch-pt").fingerprint() == fresh.fingerprint()


def test_loading_writes_nothing_beside_the_raw_files_and_prints_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = copy_of("Planetoid/Cora", tmp_path / "data")
    before = sorted(root.rglob("*"))
    for path in [root, *before]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    # PyG stays silent under pytest unless this is unset.
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    assert datasets.load("cora", root=root).num_nodes == 2_708
    assert sorted(root.rglob("*")) == before
    assert [path.suffix for path in cache.iterdir()] == [".npz"]
    assert capfd.readouterr() == ("", "")


def test_a_changed_raw_file_is_read_again(tmp_path: Path, cache: Path) -> None:
    root = copy_of("NIFTY/german", tmp_path / "data")
    datasets.load("german", root=root)
    raw = root / "NIFTY/german/raw/facebook.npz"
    with np.load(raw) as arrays:
        changed = dict(arrays)
    changed["features"] = changed["features"] + 1
    np.savez(raw, **changed)
    assert datasets.load("german", root=root).x.min() >= 1
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize(
    ("name", "folder", "file"),
    [
        ("cora", "Planetoid/Cora", "ind.cora.allx"),
        ("cora", "Planetoid/Cora", "ind.cora.graph"),
        ("photo", "Amazon/Photo", "amazon_electronics_photo.npz"),
        ("twitch-pt", "Twitch/PT", "PT.npz"),
        ("chameleon", "WikipediaNetwork/chameleon", "out1_graph_edges.txt"),
    ],
)
@pytest.mark.parametrize("damage", ["cut", "emptied", "garbage"])
def test_a_damaged_raw_file_is_named_and_leaves_no_cache(
    tmp_path: Path, cache: Path, name: str, folder: str, file: str, damage: str
) -> None:
    root = copy_of(folder, tmp_path / "data")
    (raw,) = (path for path in root.rglob(file))
    content = raw.read_bytes()
    raw.write_bytes({"cut": content[: len(content) // 2] + b"x", "emptied": b"", "garbage": b"\x00garbage"}[damage])
    with pytest.raises(InvalidInput, match=file):
        datasets.load(name, root=root)
    assert list(cache.iterdir()) == []


def test_checksums_name_one_file_among_many(tmp_path: Path, cache: Path) -> None:
    root = copy_of("Planetoid/Cora", tmp_path / "data")
    shutil.copyfile(raw_root() / "SHA256SUMS", root / "SHA256SUMS")
    datasets.load("cora", root=root)
    raw = root / "Planetoid/Cora/raw/ind.cora.test.index"
    raw.write_text(raw.read_text().replace("2692", "2693", 1))
    with pytest.raises(InvalidInput, match=r"ind\.cora\.test\.index differs") as caught:
        datasets.load("cora", root=root)
    assert "allx" not in str(caught.value)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.slow
def test_processes_may_load_at_once(cache: Path) -> None:
    raw_root()
    code = "from graphveil import datasets; print(datasets.load('german').fingerprint())"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = [process.communicate(timeout=120) for process in processes]
    assert {out.strip() for out, _ in results} == {datasets.load("german").fingerprint()}
    assert all(not err for _, err in results)
    assert [path.suffix for path in cache.iterdir()] == [".npz"]


def test_an_interrupted_write_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw_root()

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupt)
    with pytest.raises(KeyboardInterrupt):
        datasets.load("german")
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("cache")
def test_missing_data_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingData, match=r"Planetoid.Cora.raw lacks ind\.cora\.x.*GRAPHVEIL_DATA"):
        datasets.load("cora", root=tmp_path)
    with pytest.raises(MissingData, match=r"absent.*GRAPHVEIL_DATA"):
        datasets.load("cora", root=tmp_path / "absent")
    monkeypatch.setenv("GRAPHVEIL_DATA", str(tmp_path / "absent"))
    with pytest.raises(MissingData, match="absent"):
        datasets.load("cora")
    present = {row["name"] for row in datasets.describe() if row["present"]}
    assert present == {name for name, source in datasets._sources().items() if isinstance(source, Generated)}
    assert {"chain-l", "chain-m", "chain-s", "chain-x", "flickr-size", "social"} <= present


def test_root_from_the_environment_or_beside_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHVEIL_DATA", str(tmp_path))
    assert find_root() == tmp_path.resolve()
    (tmp_path / "shared/data").mkdir(parents=True)
    (tmp_path / "checkout").mkdir()
    monkeypatch.delenv("GRAPHVEIL_DATA")
    monkeypatch.chdir(tmp_path / "checkout")
    assert find_root() == (tmp_path / "shared/data").resolve()


def test_an_unusable_cache_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw_root()
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRAPHVEIL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InvalidInput, match="GRAPHVEIL_CACHE"):
        datasets.load("german")


class TestDownloads:
    """PyG's classes fetch; a stub stands for the network."""

    @pytest.fixture
    def source(self) -> stored.Stored:
        from graphveil.data.datasets.planetoid import SOURCES

        return SOURCES["cora"]

    def test_files_arrive_whole_and_load_finds_them(
        self, source: stored.Stored, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = raw_root() / source.folder
        asked: list[str] = []

        def fetching(root: str) -> object:
            from torch_geometric.datasets import Planetoid

            def download(self: Planetoid) -> None:
                asked.append(self.name)
                shutil.copytree(origin, self.raw_dir, dirs_exist_ok=True, copy_function=shutil.copyfile)

            monkeypatch.setattr(Planetoid, "download", download)
            return source.reader(root)

        online = replace(source, reader=fetching)
        monkeypatch.delenv("GRAPHVEIL_DATA", raising=False)
        monkeypatch.setattr("graphveil.data.datasets._sources", lambda: {"cora": online})
        monkeypatch.chdir(tmp_path)
        found = datasets.get("Cora")
        assert found == cache / "data" / source.folder
        # Nothing of the scratch folder stays, nor what PyG makes of the raw files.
        assert [path.name for path in (cache / "data").iterdir()] == ["Planetoid"]
        assert not list((cache / "data").rglob("processed"))
        datasets.get("cora")
        assert asked == ["Cora"]
        assert online.open("cora", cache / "data")[0].num_nodes == 2_708

    def test_without_a_network_it_says_what_to_run_elsewhere(
        self, source: stored.Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def offline(_: str) -> object:
            raise OSError("Name or service not known")

        monkeypatch.setattr("graphveil.data.datasets._sources", lambda: {"cora": replace(source, reader=offline)})
        with pytest.raises(MissingData, match="graphveil data get cora --into data") as said:
            datasets.get("cora", tmp_path / "root")
        assert f"copy data/{source.folder} to {tmp_path / 'root' / source.folder}" in str(said.value)
        assert not list((tmp_path / "root").iterdir())

    def test_a_folder_that_lacks_a_file_is_kept(
        self, source: stored.Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unasked(_: str) -> object:
            raise AssertionError("nothing is downloaded")

        monkeypatch.setattr("graphveil.data.datasets._sources", lambda: {"cora": replace(source, reader=unasked)})
        mine = tmp_path / source.folder / "notes.txt"
        mine.parent.mkdir(parents=True)
        mine.write_text("mine")
        with pytest.raises(InvalidInput, match="move it away"):
            datasets.get("cora", tmp_path)
        assert mine.read_text() == "mine"

    def test_graphs_that_only_borrow_a_class_are_not_downloaded_by_it(self, tmp_path: Path) -> None:
        with pytest.raises(Unsupported, match="no class that downloads 'german'"):
            datasets.get("german", tmp_path)

    def test_what_is_made_on_the_spot_needs_nothing(self, tmp_path: Path) -> None:
        assert datasets.get("social", tmp_path / "nowhere") is None
        assert not (tmp_path / "nowhere").exists()
