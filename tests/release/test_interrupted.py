"""Commands that spend budget and end early: what was spent and what is kept is said in one sentence, and is true."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphveil as gv
from graphveil import cli
from graphveil.cli import output
from graphveil.release.interrupted import out_of_memory
from graphveil.runtime import folders


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Options for a user's own graph, a ring of twelve nodes, and a ledger that has a budget for it."""
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12)))
    nodes.write_text("id,label,a,b\n" + "".join(f"n{i},{'xy'[i % 2]},{i}.5,{-i}\n" for i in range(12)))
    graph = gv.Graph.from_edges(edges, nodes, name="edges")
    gv.Ledger(tmp_path / "book").open(graph, "edge", epsilon=9.0, delta=1e-5)
    return ["--edges", str(edges), "--nodes", str(nodes), "--ledger", str(tmp_path / "book"), "--quiet"]


TRAIN = ["train", "gap", "--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--epochs", "2"]
RELEASE = ["release-graph", "edgerand", "--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Exit code and last words of a command, as its user gets them; there is never a traceback."""

    def run(*argv: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["graphveil", *argv])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert len(said.strip().splitlines()) <= 1
        return int(stopped.value.code or 0), said.strip()

    return run


def small_release() -> gv.Release:
    method = gv.methods.Hearsay(folds=2, hidden=8, head=8)
    return gv.train(gv.datasets.load("chain-s"), method, epsilon=1, delta=1e-6, unit="edge")


def entries(tmp_path: Path) -> list[str]:
    return [entry["id"] for entry in gv.Ledger(tmp_path / "book").entries()]


def fails(error: BaseException) -> Callable[..., Any]:
    def work(*_: Any, **__: Any) -> Any:
        raise error

    return work


class TestFailedSaves:
    @pytest.fixture
    def full(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], bool]], None]:
        """The disk fills up at some paths, after all checks."""

        def at(where: Callable[[Path], bool]) -> None:
            real = folders._flush

            def flush(path: Path) -> None:
                if where(path):
                    raise OSError(28, "No space left on device")
                real(path)

            monkeypatch.setattr(folders, "_flush", flush)

        return at

    @pytest.mark.parametrize("command", [TRAIN, RELEASE], ids=["train", "release-graph"])
    def test_the_result_is_kept_beside(
        self, command: list[str], words: list[str], tmp_path: Path, ended: Any, full: Any
    ) -> None:
        out = tmp_path / "made" / "model"
        full(lambda path: path.is_relative_to(tmp_path / "made" / ".model.saving"))
        code, said = ended(*command, *words, "--out", str(out))
        [entry] = entries(tmp_path)
        assert code == 2
        assert "No space left" in said
        assert f"ledger entry {entry} counts as spent" in said
        kept = re.search(r"it is kept in (\S+);", said)
        assert kept is not None
        assert Path(kept[1]).parent.parent == out.parent
        assert gv.verify(kept[1]).certificate.provenance.ledger_entry == entry
        assert not out.exists()

    def test_or_among_the_temporary_files(
        self, words: list[str], tmp_path: Path, ended: Any, full: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        full(lambda path: path.is_relative_to(tmp_path / "made"))
        code, said = ended(*TRAIN, *words, "--out", str(tmp_path / "made" / "model"))
        kept = re.search(r"it is kept in (\S+);", said)
        assert code == 2
        assert kept is not None
        assert Path(kept[1]).is_relative_to(tmp_path / "temporary")
        assert gv.load(kept[1]).certificate.provenance.ledger_entry in entries(tmp_path)
        assert list((tmp_path / "made").iterdir()) == []

    def test_or_the_user_is_told_that_it_is_lost(self, words: list[str], tmp_path: Path, ended: Any, full: Any) -> None:
        full(lambda _: True)
        code, said = ended(*TRAIN, *words, "--out", str(tmp_path / "model"))
        assert code == 2
        assert "it could not be kept" in said
        assert entries(tmp_path)[0] in said

    def test_predictions_that_were_paid_for(
        self, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = str(tmp_path / "model")
        assert ended(*TRAIN, *words, "--out", model)[0] == 0
        real = Path.replace

        def replace(path: Path, target: Path) -> Any:
            if target.parent == tmp_path:
                raise OSError(13, "Permission denied")
            return real(path, target)

        monkeypatch.setattr(Path, "replace", replace)
        spend = ["--epsilon", "1", "--delta", "1e-6", "--out", str(tmp_path / "labels.csv")]
        code, said = ended("infer", model, *words, *spend)
        kept = re.search(r"it is kept in (\S+);", said)
        assert code == 2
        assert kept is not None
        assert len(Path(kept[1]).read_text().splitlines()) == 13
        assert f"ledger entry {entries(tmp_path)[-1]} counts as spent" in said

    def test_a_full_disk_is_seen_before_anything_is_spent(
        self, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Usage:
            free = 1 << 20

        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage)
        code, said = ended(*TRAIN, *words, "--out", str(tmp_path / "model"))
        assert code == 2
        assert "1 MB are free" in said
        assert entries(tmp_path) == []

    @pytest.mark.parametrize("option", ["--record", "--summary", "--ledger"])
    @pytest.mark.parametrize("where", ["model", "model/below", "other", "model/../model/x"])
    def test_nothing_private_goes_into_a_release(
        self, option: str, where: str, words: list[str], tmp_path: Path, ended: Any
    ) -> None:
        """Neither into the folder to be written nor into one that is there."""
        other = small_release().save(tmp_path / "other")
        before = {file.name: file.read_bytes() for file in other.iterdir()}
        place = words.index("--ledger")
        others = words if option != "--ledger" else [*words[:place], *words[place + 2 :]]
        code, said = ended(*TRAIN, *others, "--out", str(tmp_path / "model"), option, str(tmp_path / where / "file"))
        assert code == 2
        assert "may be given away" in said
        assert entries(tmp_path) == []
        assert {file.name: file.read_bytes() for file in other.iterdir()} == before

    def test_scores_are_their_owners_alone(self, words: list[str], tmp_path: Path, ended: Any) -> None:
        record, page = tmp_path / "run.json", tmp_path / "run.html"
        assert ended(*TRAIN, *words, "--record", str(record), "--summary", str(page))[0] == 0
        assert json.loads(record.read_text())["test"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in (record, page)} == {0o600}


MEMORY = [
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory: you tried to"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
]


class TestStopped:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
    @pytest.mark.parametrize("command", ["train", "release-graph", "infer"])
    def test_every_command_that_spends(
        self,
        command: str,
        error: BaseException,
        words: list[str],
        tmp_path: Path,
        ended: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        argv = {"train": TRAIN, "release-graph": [*RELEASE, "--out", str(tmp_path / "out")]}.get(command)
        if argv is None:
            assert ended(*TRAIN, *words, "--out", str(tmp_path / "model"))[0] == 0
            argv = ["infer", str(tmp_path / "model"), "--epsilon", "1", "--delta", "1e-6"]
        monkeypatch.setattr("graphveil.run.torch.manual_seed", fails(error))
        code, said = ended(*argv, *words)
        assert code == (130 if isinstance(error, KeyboardInterrupt) else 2)
        assert f"ledger entry {entries(tmp_path)[-1]} counts as spent; nothing was released" in said

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), *MEMORY], ids=["ctrl-c", "memory", "torch", "cuda"])
    def test_after_the_reservation(
        self, error: BaseException, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gv.methods.Gap, "fit", fails(error))
        code, said = ended(*TRAIN, *words, "--out", str(tmp_path / "model"))
        assert code == (130 if isinstance(error, KeyboardInterrupt) else 2)
        assert f"ledger entry {entries(tmp_path)[0]} counts as spent; nothing was released" in said
        assert not (tmp_path / "model").exists()

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
    def test_before_it(
        self, error: BaseException, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("graphveil.run.planned", fails(error))
        assert "nothing was read or reserved" in ended(*TRAIN, *words)[1]
        assert entries(tmp_path) == []

    def test_within_it(self, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whether the entry was written cannot be known here, and is not claimed."""
        monkeypatch.setattr(gv.Ledger, "reserve", fails(KeyboardInterrupt()))
        assert "tells whether it counts" in ended(*TRAIN, *words)[1]
        monkeypatch.setattr(gv.Ledger, "reserve", fails(gv.Overspent("Nothing was read or reserved")))
        assert ended(*TRAIN, *words)[1] == "error: Nothing was read or reserved"
        assert entries(tmp_path) == []

    def test_without_a_ledger(self, words: list[str], ended: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gv.methods.Gap, "fit", fails(KeyboardInterrupt()))
        place = words.index("--ledger")
        assert "no ledger was given, so nothing was reserved" in ended(*TRAIN, *words[:place], *words[place + 2 :])[1]

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
    def test_while_it_is_scored(
        self, error: BaseException, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("graphveil.release.record.record_of", fails(error))
        code, said = ended(*TRAIN, *words, "--out", str(tmp_path / "model"))
        assert code == (130 if isinstance(error, KeyboardInterrupt) else 2)
        assert f"ledger entry {entries(tmp_path)[0]} counts as spent" in said
        assert f"what was made is in {tmp_path / 'model'}" in said
        gv.load(tmp_path / "model")
        assert "what was made is lost" in ended(*TRAIN, *words)[1]

    def test_while_it_is_saved(
        self, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = small_release().save(tmp_path / "model")
        monkeypatch.setattr(folders, "_flush", fails(KeyboardInterrupt()))
        code, said = ended(*TRAIN, *words, "--force", "--out", str(old))
        assert code == 130
        assert f"ledger entry {entries(tmp_path)[0]} counts as spent; what was made is lost" in said
        assert gv.load(old).method.name() == "hearsay"

    def test_other_errors_of_ours_say_what_was_spent_too(
        self, words: list[str], tmp_path: Path, ended: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gv.methods.Gap, "fit", fails(gv.Unsupported("not this way")))
        code, said = ended(*TRAIN, *words)
        assert code == 2
        assert said == f"error: not this way; ledger entry {entries(tmp_path)[0]} counts as spent; nothing was released"

    def test_a_real_interrupt(self, words: list[str], tmp_path: Path) -> None:
        """Of a training that takes minutes and does not stop early."""
        book = gv.Ledger(tmp_path / "nodes")
        book.open(gv.Graph.from_edges(words[1], words[3], name="edges"), "node", epsilon=9.0, delta=1e-5)
        argv = ["train", "dpsgd", "--unit", "node", "--epsilon", "1", "--delta", "1e-6", "--steps", "1000000"]
        argv += [*words[:4], "--ledger", str(book.path), "--quiet", "--out", str(tmp_path / "model")]
        running = subprocess.Popen(
            [sys.executable, "-m", "graphveil", *argv],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Whoever runs in the background of a shell ignores Ctrl-C, and so would this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        until = time.monotonic() + 60
        while not book.entries() and running.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2)  # the entry is there before the reservation is over, and machines may be busy
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        assert running.returncode == 130
        assert (
            said.strip().splitlines()[-1].startswith(f"stopped: ledger entry {book.entries()[0]['id']} counts as spent")
        )
        assert "Traceback" not in said

    def test_other_errors_are_no_want_of_memory(self) -> None:
        assert all(map(out_of_memory, MEMORY))
        assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


class TestTerminal:
    def test_a_cell_that_an_error_quotes_is_escaped(self, tmp_path: Path, ended: Any) -> None:
        edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
        trick = "\x1b[2J\x1b[1;1Hverified: all is well\u202e"
        edges.write_text(f"source,target\nn0,{trick}\n")
        nodes.write_text("id,label,a\n" + "".join(f"n{i},{i % 2},{i}\n" for i in range(4)))
        for table in (["--edges", str(edges), "--nodes", str(nodes)],):
            code, said = ended(*TRAIN, *table)
            assert code == 2
            assert "verified" in said
            assert said.isprintable()

    def test_so_is_a_path(self, tmp_path: Path, ended: Any) -> None:
        code, said = ended("verify", str(tmp_path / "no\x1b[2J\nwhere"))
        assert code == 2
        assert said.isprintable()

    def test_so_are_lines_and_tables(self, capsys: pytest.CaptureFixture[str]) -> None:
        output.echo("one\ntwo\x1b[2J")
        output.print_table([{"name": "a\x1b[2J\nb"}])
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert "one\ntwo\\x1b[2J\n" in said
        assert "a\\x1b[2J\\nb" in said

    def test_pages_escape_names(self) -> None:
        graph = gv.datasets.load("chain-s")
        trick = "<script>alert(1)</script>"
        named = gv.Graph.from_pyg(graph.to_pyg(), name=trick).random_split()
        release = gv.train(named, gv.methods.Mlp(hidden=2, epochs=1), epsilon=1.0, unit="edge", seed=0)
        from graphveil.report import summary

        assert trick not in summary(release, [])

    def test_tracebacks_show_no_locals(self, tmp_path: Path) -> None:
        """What lies in local variables when something unforeseen breaks may be private data."""
        assert cli.app.pretty_exceptions_show_locals is False
        script = tmp_path / "breaks.py"
        script.write_text(
            "import sys\nimport graphveil as gv\nfrom graphveil import cli\n"
            "def broken(*_, **__):\n    secret = 'who is' + ' ill'\n    raise RuntimeError(len(secret))\n"
            "gv.train = broken\n"
            "sys.argv = ['graphveil', 'train', 'gap', 'chain-s', '--unit', 'edge', '--epsilon', '1']\ncli.main()\n"
        )
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert done.returncode == 1
        assert "RuntimeError" in done.stderr
        assert "who is ill" not in done.stderr
