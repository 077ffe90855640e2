"""Folders appear whole or not at all, whoever is killed, fails or writes at the same time; and hold nothing else."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphveil as gv
from graphveil.errors import InvalidInput, Tampered
from graphveil.release.release import Release
from graphveil.runtime import folders
from graphveil.runtime.folders import require_apart, require_file, require_folder, write_file, write_whole


def trained(seed: int) -> Release:
    graph = gv.datasets.load("chain-s")
    return gv.train(graph, gv.methods.DpSgd(steps=2), epsilon=1.0, delta=1e-5, unit="node", seed=seed)


@pytest.fixture(scope="module")
def old() -> Release:
    return trained(0)


@pytest.fixture(scope="module")
def new() -> Release:
    return trained(1)


@pytest.fixture(scope="module")
def noisy() -> gv.ReleasedEdges:
    graph = gv.datasets.load("chain-s")
    return gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=2.0, delta=1e-5, seed=0)


@pytest.fixture
def folder(old: Release, tmp_path: Path) -> Path:
    return old.save(tmp_path / "model")


def made(folder: Path) -> int | None:
    """Which of the two releases is there, by its seed."""
    return gv.load(folder).certificate.provenance.seed


def beside(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.parent.iterdir())


class TestNothingElse:
    @pytest.mark.parametrize("name", ["record.json", "edges.csv", "notes", ".hidden", "\x1b[2J"])
    @pytest.mark.parametrize("read", [gv.load, gv.verify])
    def test_an_unlisted_file_is_refused_by_name(self, folder: Path, name: str, read: Callable[[Path], Any]) -> None:
        if name == "notes":
            (folder / name).mkdir()
        else:
            (folder / name).write_text("scores of private labels")
        with pytest.raises(Tampered) as refused:
            read(folder)
        if name != "edges.csv" or read is gv.load:  # verify takes a folder with an edge list for a released graph
            assert ascii(name) in str(refused.value)
            assert "move them elsewhere" in str(refused.value)
        assert str(refused.value).isprintable()

    @pytest.mark.parametrize("format", ["csv", "parquet"])
    def test_also_beside_a_released_graph(self, noisy: gv.ReleasedEdges, tmp_path: Path, format: str) -> None:
        place = noisy.save(tmp_path / "graph", format)
        gv.verify(place)
        (place / "nodes.csv").write_text("private")
        for read in (gv.ReleasedEdges.load, gv.verify):
            with pytest.raises(Tampered, match=r"nodes\.csv"):
                read(place)

    def test_very_many_of_them_are_not_listed_one_by_one(self, folder: Path) -> None:
        for number in range(500):
            (folder / f"extra-{number}").touch()
        with pytest.raises(Tampered) as refused:
            gv.load(folder)
        assert len(str(refused.value)) < 1000

    def test_no_output_may_lie_in_a_release(self, folder: Path, tmp_path: Path, new: Release) -> None:
        link = tmp_path / "link"
        link.symlink_to(folder)
        for path in (folder / "record.json", folder / "deep" / "record.json", link / "record.json"):
            for refuse in (require_apart, require_file):
                with pytest.raises(InvalidInput, match="may be given away"):
                    refuse(path)
        for inside in (folder, folder / "games"):
            with pytest.raises(InvalidInput, match="may be given away"):
                require_folder(inside, inside)
        with pytest.raises(InvalidInput, match="may be given away"):
            new.save(folder / "nested")
        with pytest.raises(InvalidInput, match="may be given away"):
            gv.pack(gv.datasets.load("chain-s"), folder / "packed")
        with pytest.raises(InvalidInput, match="may be given away"):
            gv.audit(folder, gv.datasets.load("chain-s"), runs=40, folder=folder / "games")
        gv.load(folder)

    def test_nor_in_one_that_is_about_to_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="may be given away"):
            require_file(tmp_path / "model" / "record.json", tmp_path / "model")
        with pytest.raises(InvalidInput, match="may be given away"):
            require_file(tmp_path / "model", tmp_path / "model")
        require_file(tmp_path / "model.json", tmp_path / "model")


class TestStrangeFiles:
    """A pipe would be waited for, a device never ends, a link may lead anywhere."""

    @pytest.fixture(autouse=True)
    def _soon(self) -> Any:
        before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
        signal.alarm(60)
        yield
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

    @staticmethod
    def swap(file: Path, kind: str) -> None:
        body = file.read_bytes()
        file.unlink()
        if kind == "link":
            (elsewhere := file.parent.parent / "elsewhere").write_bytes(body)
            file.symlink_to(elsewhere)
        elif kind == "dangling":
            file.symlink_to("nowhere")
        elif kind == "device":
            file.symlink_to("/dev/zero")
        elif kind == "pipe":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        elif kind == "huge":
            with file.open("wb") as sparse:
                sparse.truncate(1 << 42)

    KINDS = ("link", "dangling", "device", "pipe", "folder", "huge")

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("name", ["manifest.json", "release.json", "weights.safetensors", "card.txt"])
    def test_in_a_release(self, folder: Path, name: str, kind: str) -> None:
        self.swap(folder / name, kind)
        with pytest.raises(Tampered, match=name):
            gv.load(folder)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("name", ["edges.csv", "graph.json", "certificate.json"])
    def test_in_a_released_graph(self, noisy: gv.ReleasedEdges, tmp_path: Path, name: str, kind: str) -> None:
        place = noisy.save(tmp_path / "graph", "csv")
        self.swap(place / name, kind)
        with pytest.raises(Tampered):
            gv.verify(place)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("name", ["manifest.json", "graph.json", "x.npy", "train.npy"])
    def test_in_a_packed_graph(self, tmp_path: Path, name: str, kind: str) -> None:
        place = gv.pack(gv.datasets.load("chain-s"), tmp_path / "packed")
        self.swap(place / name, kind)
        with pytest.raises((Tampered, InvalidInput)):
            gv.open_packed(place)

    def test_a_device_itself(self, folder: Path) -> None:
        (folder / "card.txt").unlink()
        try:
            os.mknod(folder / "card.txt", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root can make devices")
        with pytest.raises(Tampered, match=r"card\.txt"):
            gv.load(folder)

    @pytest.mark.parametrize("path", ["nowhere", "file", "loop", "nul\0byte", "x" * 300])
    def test_no_folder_at_all(self, tmp_path: Path, path: str) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with pytest.raises(Tampered, match="not a complete release folder"):
            gv.load(tmp_path / path)

    def test_names_that_have_no_folder_above_them(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.chdir(folder)
        assert made(Path()) == 0
        with pytest.raises(Tampered):
            gv.load("/")

    def test_what_is_not_a_file_is_not_replaced(self, old: Release, folder: Path, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(folder)
        with pytest.raises(InvalidInput, match="symbolic link"):
            old.save(link)
        (folder / "card.txt").unlink()
        (folder / "card.txt").mkdir()
        (folder / "card.txt" / "thesis.tex").touch()
        with pytest.raises(InvalidInput, match="choose another path"):
            old.save(folder)
        assert (folder / "card.txt" / "thesis.tex").exists()


class TestFailure:
    def failing(self, monkeypatch: pytest.MonkeyPatch, name: str, when: Callable[[Path], bool]) -> None:
        """`Path.rename` and the like fail where `when` says so."""
        real = getattr(Path, name)

        def failing(path: Path, *args: Any, **kwargs: Any) -> Any:
            if when(path):
                raise OSError(errno.EIO, "Input/output error")
            return real(path, *args, **kwargs)

        monkeypatch.setattr(Path, name, failing)

    def test_the_second_rename(self, new: Release, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing(monkeypatch, "rename", lambda path: path.name == "new")
        with pytest.raises(InvalidInput, match="Input/output error"):
            new.save(folder)
        assert made(folder) == 0
        assert beside(folder) == ["model"]

    def test_and_putting_back(self, new: Release, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is deleted; the error says where the old release is, and the next load puts it back."""
        with monkeypatch.context() as patch:
            self.failing(patch, "rename", lambda path: path.name in ("new", "old"))
            with pytest.raises(InvalidInput, match=r"\.model\.saving/old: move it back"):
                new.save(folder)
            with pytest.raises(Tampered, match=r"Move .*\.model\.saving/old back"):
                gv.load(folder)
        with pytest.warns(UserWarning, match="interrupted"):
            assert made(folder) == 0
        assert beside(folder) == ["model"]

    def test_what_waits_is_put_back_before_a_save_too(self, new: Release, folder: Path) -> None:
        saving = folder.with_name(".model.saving")
        saving.mkdir()
        folder.rename(saving / "old")
        folder.mkdir()  # somebody made an empty one meanwhile
        new.save(folder)
        assert made(folder) == 1
        assert beside(folder) == ["model"]

    @pytest.mark.parametrize("kind", ["verify", "packed", "graph"])
    def test_every_kind_of_folder_is_put_back(self, noisy: gv.ReleasedEdges, tmp_path: Path, kind: str) -> None:
        place = tmp_path / "place"
        if kind == "packed":
            gv.pack(gv.datasets.load("chain-s"), place)
        else:
            noisy.save(place)
        (tmp_path / ".place.saving").mkdir()
        place.rename(tmp_path / ".place.saving" / "old")
        read = {"verify": gv.verify, "packed": gv.open_packed, "graph": gv.ReleasedEdges.load}[kind]
        with pytest.warns(UserWarning, match="put back"):
            read(place)
        assert beside(place) == ["place"]

    def test_no_room(self, new: Release, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(5000))
        with pytest.raises(InvalidInput, match=r"1 MB, and 0 MB are free"):
            new.save(folder)
        with pytest.raises(InvalidInput, match="free"):
            gv.pack(gv.datasets.load("chain-s"), folder.parent / "packed")
        assert beside(folder) == ["model"]

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
    def test_a_disk_that_fails_late(
        self, new: Release, folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        def fsync(_: int) -> None:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(InvalidInput, match=os.strerror(code)):
                new.save(folder)
            with pytest.raises(InvalidInput, match=os.strerror(code)):
                write_whole(folder.parent / "record.json", {})
        assert made(folder) == 0
        assert beside(folder) == ["model"]
        assert made(new.save(folder)) == 1, "the release is as good as before"

    def test_everything_is_flushed(self, new: Release, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        flushed: list[str] = []
        real = os.fsync

        def fsync(file: int) -> None:
            flushed.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
            real(file)

        monkeypatch.setattr(os, "fsync", fsync)
        new.save(folder)
        assert {*(path.name for path in folder.iterdir()), "new", folder.parent.name} <= set(flushed)


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


class TestKilled:
    STEPS = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "open", "fcntl.flock", "os.chmod", "shutil.rmtree")

    def save_and_die(self, release: Release, folder: Path, step: int) -> bool:
        """Save in a process that kills itself at its n-th step on the disk; whether it came so far."""
        child = os.fork()
        if child == 0:
            done = 0

            def count(event: str, _: object) -> None:
                nonlocal done
                if event in self.STEPS:
                    done += 1
                    if done == step:
                        os.kill(os.getpid(), signal.SIGKILL)

            try:
                sys.addaudithook(count)
                release.save(folder)
            finally:
                os._exit(0)
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])

    @pytest.mark.parametrize("there", [True, False])
    def test_at_every_step(self, old: Release, new: Release, tmp_path: Path, there: bool) -> None:
        """Each time one of the two releases can be loaded, none if none was there, and never a half."""
        seen = set()
        for step in range(1, 200):
            folder = tmp_path / str(step) / "model"
            if there:
                old.save(folder)
            hit = self.save_and_die(new, folder, step)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if there or folder.exists():
                    seen.add(made(folder))
            assert {*beside(folder)} <= {"model", ".model.saving"} if folder.parent.exists() else not there
            assert made(new.save(folder)) == 1
            assert beside(folder) == ["model"], "the next save clears up"
            if not hit:
                break
        assert step > 15, "the steps were counted"
        assert seen == ({0, 1} if there else {1})

    def test_four_writers_and_a_reader(self, old: Release, new: Release, tmp_path: Path) -> None:
        folder = old.save(tmp_path / "model")
        children = []
        for number in range(4):
            if (child := os.fork()) == 0:
                code = 1
                try:
                    for turn in range(15):
                        (old, new)[(number + turn) % 2].save(folder)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            children.append(child)
        reads, left = 0, set(children)
        while left:
            assert made(folder) in (0, 1)
            reads += 1
            for child in [*left]:
                number, status = os.waitpid(child, os.WNOHANG)
                if number:
                    assert status == 0
                    left.remove(child)
        assert reads > 3
        assert beside(folder) == ["model"]

    def test_a_reader_looks_again_for_a_folder_that_was_moved_aside_meanwhile(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked, settled = [], folders.settled

        def moved_aside(path: Path) -> Path:
            looked.append(settled(path))
            if len(looked) == 1:
                (saving := path.with_name(".model.saving")).mkdir(mode=0o700)
                path.rename(saving / "old")
            return path

        monkeypatch.setattr(folders, "settled", moved_aside)
        with pytest.warns(UserWarning, match="put back"):
            assert made(folder) == 0
        assert len(looked) == 2

    def test_a_writer_that_never_ends_is_not_waited_for(
        self, new: Release, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(folders, "_PATIENCE", 0.1)
        start = time.monotonic()
        with folders.written_whole(folder, lambda _: None):  # noqa: SIM117
            with pytest.raises(InvalidInput, match="another process is writing"):
                new.save(folder)
        assert time.monotonic() - start < 10

    def test_a_place_that_is_somebody_elses(self, new: Release, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.with_name(".model.saving").mkdir()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(InvalidInput, match="belongs to somebody else"):
            new.save(folder)
        assert made(folder) == 0


class TestModes:
    def mode(self, path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    def test_private_files_are_their_owners_alone(self, tmp_path: Path) -> None:
        before = os.umask(0o022)
        try:
            for private, mode in ((True, 0o600), (False, 0o644)):
                write_file(tmp_path / "file", b"new", private)
                assert self.mode(tmp_path / "file") == mode
                assert beside(tmp_path / "file") == ["file"]
        finally:
            os.umask(before)

    def test_games_of_an_audit(self, tmp_path: Path) -> None:
        graph = gv.datasets.load("chain-s")
        games = tmp_path / "games"
        gv.audit(gv.methods.DpSgd(steps=1), graph, noise=2.0, delta=1e-5, unit="node", runs=40, folder=games)
        assert self.mode(games) == 0o700
        assert {self.mode(file) for file in games.iterdir()} == {0o600}

    def test_a_packed_graph(self, tmp_path: Path) -> None:
        place = gv.pack(gv.datasets.load("chain-s"), tmp_path / "packed")
        assert self.mode(place) == 0o700
        assert {self.mode(file) for file in place.iterdir()} == {0o600}

    def test_a_file_goes_where_a_link_points_and_a_pipe_stays_one(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "file")
        write_file(tmp_path / "link", b"through")
        assert (tmp_path / "file").read_bytes() == b"through"
        assert (tmp_path / "link").is_symlink()
        require_file(Path("/dev/null"))
        write_file(Path("/dev/null"), b"gone")
        assert Path("/dev/null").is_char_device()
