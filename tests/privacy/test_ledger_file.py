"""A ledger's file: its owner's alone, on locks that hold, refused when anything in or beside it is not as written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import forked
import graphveil as gv
from fuzz import kill_ledgers
from fuzz import ledgers as damage
from fuzz.ledgers import Specimen, page, undoing
from graphveil.data.graph import Graph
from graphveil.errors import GraphveilError, InvalidInput, Overspent, Tampered, Unsupported
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.privacy import accounting, ledger_file
from graphveil.privacy.ledger import Ledger
from graphveil.privacy.ledger_file import LedgerFile
from graphveil.vocabulary import Plan
from plans import plan_of

DELTA = 1e-5


@pytest.fixture
def graph() -> Graph:
    return gv.datasets.load("chain-s")


@pytest.fixture
def path(tmp_path: Path, graph: Graph) -> Path:
    """A ledger with two budgets, two entries, one of them committed."""
    book = Ledger(tmp_path / "ledger.db")
    book.open(graph, "node", epsilon=3.0, delta=DELTA)
    book.open(gv.datasets.load("chain-m"), "edge", epsilon=1.0, delta=DELTA)
    book.commit(book.reserve(graph, small(), "gap"))
    book.reserve(graph, small(0.2), "gap")
    return book.path


@pytest.fixture
def seen_by_all() -> Iterator[Path]:
    """A folder that another user can look into."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "_PATIENCE", 0.2)


def small(mu: float = 0.1) -> Plan:
    return plan_of((GaussianCurve(mu), 1))


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def told(path: Path) -> Any:
    book = Ledger(path)
    return book.accounts(), book.entries()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestModes:
    @pytest.mark.parametrize("umask", [0, 0o022, 0o777])
    def test_the_file_is_its_owners_whatever_the_umask(self, tmp_path: Path, graph: Graph, umask: int) -> None:
        (tmp_path / "books").mkdir()
        before = os.umask(umask)
        try:
            Ledger(tmp_path / "books" / "ledger.db").open(graph, "node", epsilon=1.0, delta=DELTA)
        finally:
            os.umask(before)
        assert [item.name for item in (tmp_path / "books").iterdir()] == ["ledger.db"]
        assert mode_of(tmp_path / "books" / "ledger.db") == 0o600

    def test_it_never_was_anybody_elses(self, tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        """Seen whenever anything is written: every file in the folder."""
        modes = set()
        store = ledger_file._store

        def seen(*arguments: Any) -> None:
            store(*arguments)
            modes.update((item.suffix, mode_of(item)) for item in tmp_path.iterdir())

        monkeypatch.setattr(ledger_file, "_store", seen)
        before = os.umask(0)
        try:
            book = Ledger(tmp_path / "ledger.db")
            book.open(graph, "node", epsilon=1.0, delta=DELTA)
            book.reserve(graph, small())
        finally:
            os.umask(before)
        assert modes == {(".new", 0o600), (".db", 0o600), (".db-journal", 0o600)}

    def test_a_wider_file_is_tightened(self, path: Path, graph: Graph) -> None:
        for use in (lambda: Ledger(path), lambda: Ledger(path).reserve(graph, small())):
            path.chmod(0o664)
            use()
            assert mode_of(path) == 0o600

    def test_a_wider_file_of_somebody_else_is_not_written(self, path: Path, seen_by_all: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs two users")
        copy = seen_by_all / "ledger.db"
        shutil.copy(path, copy)
        copy.chmod(0o666)

        def attempt() -> str:
            with pytest.raises(Unsupported, match="chmod 600"), LedgerFile(copy).written(""):
                pass
            return "refused"

        assert forked.without_rights(attempt) == "refused"


class TestFingerprints:
    def test_the_file_holds_no_plain_hash_of_a_dataset(self, path: Path, graph: Graph) -> None:
        assert graph.fingerprint().encode() not in path.read_bytes()
        assert graph.fingerprint()[:12].encode() not in path.read_bytes()
        assert bytes.fromhex(graph.fingerprint()) not in path.read_bytes()

    def test_two_ledgers_call_one_dataset_by_two_names(self, path: Path, graph: Graph, tmp_path: Path) -> None:
        other = Ledger(tmp_path / "other.db")
        other.open(graph, "node", epsilon=3.0, delta=DELTA)
        assert other.account(graph).fingerprint != Ledger(path).account(graph).fingerprint
        assert Ledger(path).account(graph).fingerprint == Ledger(path).accounts()[0].fingerprint


class TestDamage:
    @pytest.mark.parametrize(
        "statement",
        [
            "DROP TABLE entry", "DROP TABLE head", "DELETE FROM entry", "DELETE FROM head",
            "DELETE FROM entry WHERE number = 5", "DELETE FROM entry WHERE number = 3",
            "UPDATE entry SET number = 9 WHERE number = 5", "UPDATE entry SET kind = 'note' WHERE number = 5",
            "UPDATE entry SET body = replace(body, '3.0', '9.0')", "UPDATE entry SET digest = '' WHERE number = 2",
            "UPDATE entry SET body = CAST(x'ff' AS TEXT) WHERE number = 3", "UPDATE head SET count = 4",
            "UPDATE head SET digest = (SELECT digest FROM entry WHERE number = 4)", "UPDATE head SET salt = ''",
            "INSERT INTO head SELECT * FROM head", "CREATE TABLE more (number)", "PRAGMA user_version = 3",
            "CREATE TRIGGER quiet AFTER INSERT ON entry BEGIN DELETE FROM entry; END", "PRAGMA user_version = 0",
        ],
    )  # fmt: skip
    def test_what_was_edited_is_refused_and_kept(self, path: Path, graph: Graph, statement: str) -> None:
        held = Ledger(path)
        edit(path, statement)
        body = path.read_bytes()
        uses: list[Callable[[], Any]] = [
            lambda: Ledger(path), held.accounts, held.entries, lambda: held.reserve(graph, small()),
            lambda: held.open(gv.datasets.load("social"), "edge", epsilon=1.0, delta=DELTA),
        ]  # fmt: skip
        for use in uses:
            with pytest.raises(Tampered):
                use()
        assert path.read_bytes() == body

    def test_swapped_lines_are_refused(self, path: Path) -> None:
        edit(
            path,
            "UPDATE entry SET number = -3 WHERE number = 3",
            "UPDATE entry SET number = 3 WHERE number = 5",
            "UPDATE entry SET number = 5 WHERE number = -3",
        )
        with pytest.raises(Tampered, match="line 3"):
            Ledger(path)

    def test_the_last_line_and_its_head_do_not_go_unnoticed(self, path: Path) -> None:
        edit(path, "DELETE FROM entry WHERE number = 5", "UPDATE head SET count = 4")
        with pytest.raises(Tampered, match="head has another checksum"):
            Ledger(path)

    def test_tables_that_would_break_at_the_next_write_are_refused(self, path: Path) -> None:
        """Every line reads as it was, and a page of them is listed as free."""
        body = bytearray(path.read_bytes())
        body[32:40] = (2).to_bytes(4, "big") + (1).to_bytes(4, "big")
        path.write_bytes(body)
        with pytest.raises(Tampered, match="do not hold together"):
            Ledger(path)

    def test_damage_that_sqlite_quotes_is_refused(self, path: Path, graph: Graph) -> None:
        """Its words are no text then, which Python does not forgive."""
        held, body = Ledger(path), path.read_bytes()
        path.write_bytes(body.replace(b"CREATE TABLE head", b"CREATE TABL\xc5 head"))
        for use in (lambda: Ledger(path), lambda: held.reserve(graph, small()), held.accounts):
            with pytest.raises(Tampered, match="damaged"):
                use()
        Path(f"{path}-journal").write_bytes(b"left by somebody")
        with pytest.raises(Tampered, match="damaged"):
            Ledger(path)

    def test_a_newer_version_says_so(self, path: Path) -> None:
        edit(path, "PRAGMA user_version = 7")
        with pytest.raises(Tampered, match="version 7; this graphveil reads version 1: update"):
            Ledger(path)

    def test_another_programs_database_is_no_ledger(self, tmp_path: Path, graph: Graph) -> None:
        edit(tmp_path / "other.db", "CREATE TABLE budget (number)")
        for use in (lambda: Ledger(tmp_path / "other.db"), lambda: self.opened(tmp_path / "other.db", graph)):
            with pytest.raises(InvalidInput, match="not a usable ledger: graphveil did not make it"):
                use()

    def test_a_database_without_tables_is_not_nothing_spent(self, tmp_path: Path, graph: Graph) -> None:
        edit(tmp_path / "bare.db", "CREATE TABLE budget (number)", "DROP TABLE budget")
        with pytest.raises(InvalidInput, match="not a usable ledger"):
            self.opened(tmp_path / "bare.db", graph)

    def opened(self, path: Path, graph: Graph) -> None:
        Ledger(path).open(graph, "node", epsilon=1.0, delta=DELTA)

    def test_an_empty_file_is_not_nothing_spent(self, path: Path, graph: Graph) -> None:
        held = Ledger(path)
        path.write_bytes(b"")
        for use in (lambda: Ledger(path), lambda: held.reserve(graph, small()), lambda: self.reopened(held, graph)):
            with pytest.raises(InvalidInput, match=r"is empty.*restore the latest backup"):
                use()
        assert path.read_bytes() == b""

    def reopened(self, held: Ledger, graph: Graph) -> None:
        held.open(graph, "node", epsilon=9.0, delta=DELTA)

    def test_a_deleted_file_is_told_and_not_made_again(self, path: Path, graph: Graph) -> None:
        held = Ledger(path)
        path.unlink()
        uses = (held.accounts, held.entries, lambda: held.reserve(graph, small()), lambda: held.commit("x"))
        for use in uses:
            with pytest.raises(InvalidInput, match=r"no ledger at.*deleted.*restore the latest backup.*ledger open"):
                use()
        assert not path.exists()

    @pytest.mark.parametrize("kind", ["folder", "pipe", "loop"])
    def test_what_is_no_file_is_no_ledger(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "ledger.db"
        {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "loop": lambda: path.symlink_to(path)}[kind]()
        with pytest.raises(InvalidInput, match=r"not a usable ledger|cannot be used"):
            Ledger(path)

    def test_an_impossible_path_is_typed(self, path: Path, graph: Graph) -> None:
        with pytest.raises(InvalidInput, match=r"cannot be used: .*No budget was opened"):
            Ledger(path / "below" / "ledger.db").open(graph, "node", epsilon=1.0, delta=DELTA)


class TestLeftBeside:
    """Journals and logs that a crash has left, or that somebody has put there."""

    @pytest.fixture
    def specimen(self, tmp_path: Path) -> Specimen:
        (tmp_path / "made").mkdir()
        return Specimen.made(tmp_path / "made", entries=4)

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Callable[..., Path]]:
        def put(body: bytes, **beside: bytes) -> Path:
            path = tmp_path / "ledger.db"
            path.write_bytes(body)
            for suffix, content in beside.items():
                Path(f"{path}-{suffix}").write_bytes(content)
            return path

        yield put
        assert not [item.name for item in tmp_path.iterdir() if item.name.startswith(".")]

    def test_an_older_journal_does_not_bring_an_older_ledger_back(
        self, specimen: Specimen, place: Callable[..., Path]
    ) -> None:
        older = undoing(specimen.states[1], specimen.body)
        with closing(sqlite3.connect(place(specimen.body, journal=older))) as database:
            lines = database.execute("SELECT COUNT(*) FROM entry").fetchone()[0]
        assert lines == 3, "SQLite itself takes it for its own"
        before = told(place(specimen.body))
        assert told(place(specimen.body, journal=older)) == before

    def test_a_torn_write_is_undone(self, specimen: Specimen, place: Callable[..., Path]) -> None:
        before, after = specimen.states[0], specimen.states[1]
        truth = told(place(before))
        pages = range(len(after) // damage.PAGE)
        changed = [number for number in pages if page(before, number) != page(after, number)]
        assert len(changed) > 2
        for count in range(1, len(changed)):
            written = set(changed[:count])
            torn = b"".join(page(after if number in written else before, number) for number in pages)
            path = place(torn, journal=undoing(before, after))
            assert told(path) == truth
            assert not Path(f"{path}-journal").exists()

    def test_a_write_that_was_whole_counts(self, specimen: Specimen, place: Callable[..., Path]) -> None:
        before, after = specimen.states[0], specimen.states[1]
        truth = told(place(after))
        path = place(after, journal=undoing(before, after))
        assert told(path) == truth
        assert not Path(f"{path}-journal").exists()

    def test_a_writer_that_is_killed_while_we_look_is_settled(
        self, specimen: Specimen, place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, after = specimen.states[0], specimen.states[1]
        truth, inspect = told(place(before)), LedgerFile._inspect
        torn = page(after, 0) + page(after, 1) + before[2 * damage.PAGE :]

        def too_early(self: LedgerFile, write: bool) -> None:
            monkeypatch.setattr(LedgerFile, "_inspect", inspect)
            inspect(self, write)
            place(torn, journal=undoing(before, after))

        path = place(before)
        monkeypatch.setattr(LedgerFile, "_inspect", too_early)
        assert told(path) == truth

    def test_a_torn_file_is_not_mended_by_an_older_or_a_strangers_journal(
        self, specimen: Specimen, place: Callable[..., Path]
    ) -> None:
        torn = bytearray(specimen.body)
        torn[3 * damage.PAGE + 8 :] = bytes(len(torn) - 3 * damage.PAGE - 8)
        for back in (specimen.states[1], specimen.stranger):
            journal = undoing(back, bytes(torn).ljust(len(back), b"\0"))
            path = place(bytes(torn), journal=journal)
            with pytest.raises(Tampered, match="journal does not belong to it"):
                Ledger(path)
            assert path.read_bytes() == bytes(torn), "evidence is kept"
            assert Path(f"{path}-journal").read_bytes() == journal

    def test_a_foreign_log_is_refused(self, specimen: Specimen, place: Callable[..., Path], tmp_path: Path) -> None:
        for log in (damage.logged(specimen.body, tmp_path), b"", b"noise" * 2000):
            path = place(specimen.body, wal=log)
            held = path.read_bytes()
            with pytest.raises(Tampered, match="wal is no part of this ledger; move it away"):
                Ledger(path)
            assert path.read_bytes() == held
            Path(f"{path}-wal").unlink()
            assert len(Ledger(path).entries()) == 4

    def test_what_another_program_put_into_a_log_of_its_own_is_checked(
        self, specimen: Specimen, place: Callable[..., Path]
    ) -> None:
        path = place(specimen.body)
        truth = told(path)
        edit(path, "PRAGMA journal_mode = WAL")
        with pytest.raises(Tampered, match="PRAGMA journal_mode = DELETE"):
            Ledger(path)
        edit(path, "PRAGMA journal_mode = DELETE")
        assert told(path) == truth
        edit(path, "PRAGMA journal_mode = WAL", "DELETE FROM entry WHERE number = 6", "PRAGMA journal_mode = DELETE")
        with pytest.raises(Tampered, match="its head does not count"):
            Ledger(path)

    def test_a_journal_that_is_a_link_or_a_pipe_is_refused(self, path: Path) -> None:
        for put in (os.mkfifo, lambda name: Path(name).symlink_to(path)):
            put(f"{path}-journal")
            with pytest.raises(Tampered, match="not a plain file"):
                Ledger(path)
            Path(f"{path}-journal").unlink()

    @pytest.mark.usefixtures("impatient")
    def test_a_live_writers_journal_is_left_alone(self, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE head SET count = 77")
            body = Path(f"{path}-journal").read_bytes()

            def attempt() -> str:
                with pytest.raises(InvalidInput, match="locked"):
                    Ledger(path)
                return "waited"

            assert forked.finish(forked.start(attempt)) == "waited"
            assert Path(f"{path}-journal").read_bytes() == body
            database.execute("ROLLBACK")
        assert len(Ledger(path).entries()) == 2


class TestSharedDisks:
    def test_it_uses_a_rollback_journal_and_leaves_nothing_beside(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert [item.name for item in path.parent.iterdir()] == [path.name]

    def test_two_hosts_spend_one_budget_once(self, tmp_path: Path, graph: Graph) -> None:
        """Two hosts share a disk and its locks, and not the memory in which a log has its index."""
        cap = accounting.adaptive_epsilon([small()] * 19, 2.0, DELTA) * (1 + 1e-9)
        (tmp_path / "disk").mkdir()
        book = Ledger(tmp_path / "disk" / "ledger.db")
        book.open(graph, "node", epsilon=cap, delta=DELTA)
        memory = Path(f"{book.path}-shm")
        memory.touch()

        def host(number: int) -> Callable[[], int]:
            def work() -> int:
                forked.own_mounts()
                own = tmp_path / f"memory{number}"
                own.touch()
                forked.bind(own, memory)
                return granted(book.path, graph, 20)

            return work

        hosts = [forked.start(host(number)) for number in range(2)]
        assert sum(forked.finish(started) for started in hosts) == 19
        assert book.account(graph).entries == 19
        assert book.account(graph).spent <= cap

    def test_two_paths_to_one_file_share_its_locks(self, tmp_path: Path, graph: Graph) -> None:
        cap = accounting.adaptive_epsilon([small()] * 11, 2.0, DELTA) * (1 + 1e-9)
        (tmp_path / "disk").mkdir()
        (tmp_path / "way").symlink_to(tmp_path / "disk")
        (tmp_path / "link.db").symlink_to(tmp_path / "way" / "ledger.db")
        paths = [tmp_path / "disk" / "ledger.db", tmp_path / "way" / "ledger.db", tmp_path / "link.db"]
        Ledger(paths[2]).open(graph, "node", epsilon=cap, delta=DELTA)

        def worker(path: Path) -> Callable[[], int]:
            return lambda: granted(path, graph, 8)

        workers = [forked.start(worker(path)) for path in paths]
        assert sum(forked.finish(started) for started in workers) == 11
        assert Ledger(paths[0]).account(graph).entries == 11

    def test_threads_and_processes_share_the_budget_exactly(self, tmp_path: Path, graph: Graph) -> None:
        """A thread that closes the file must not give up the locks of another; children are forked in between."""
        cap = accounting.adaptive_epsilon([small()] * 19, 2.0, DELTA) * (1 + 1e-9)
        book = Ledger(tmp_path / "ledger.db")
        book.open(graph, "node", epsilon=cap, delta=DELTA)
        won: list[int] = []
        threads = [threading.Thread(target=lambda: won.append(granted(book.path, graph, 4))) for _ in range(4)]
        for thread in threads:
            thread.start()
        children = [forked.start(lambda: granted(book.path, graph, 6)) for _ in range(3)]
        for thread in threads:
            thread.join()
        assert sum(won) + sum(forked.finish(child) for child in children) == book.account(graph).entries == 19

    def test_a_second_name_is_refused(self, path: Path, graph: Graph) -> None:
        other = path.with_name("other.db")
        os.link(path, other)
        for name in (path, other):
            with pytest.raises(Unsupported, match="hard link"):
                Ledger(name).reserve(graph, small())
            assert len(Ledger(name).entries()) == 2, "reading harms nobody"

    def test_a_name_left_by_a_killed_maker_is_taken_away(self, path: Path, graph: Graph) -> None:
        scratch = path.with_name(f".{path.name}.abc.new")
        os.link(path, scratch)
        Ledger(path).reserve(graph, small())
        assert not scratch.exists()

    def test_two_makers_make_one_ledger(self, tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other comes first, just when this one has found no file."""
        path, other = tmp_path / "ledger.db", gv.datasets.load("chain-m")
        create = LedgerFile.create

        def late(self: LedgerFile, lines: Any) -> bool:
            monkeypatch.setattr(LedgerFile, "create", create)
            Ledger(path).open(other, "node", epsilon=2.0, delta=DELTA)
            return create(self, lines)

        monkeypatch.setattr(LedgerFile, "create", late)
        Ledger(path).open(graph, "node", epsilon=1.0, delta=DELTA)
        assert [account.epsilon for account in Ledger(path).accounts()] == [2.0, 1.0]

    @pytest.mark.parametrize(
        ("kind", "allowed"),
        [
            ("ext4", True), ("xfs", True), ("btrfs", True), ("zfs", True), ("tmpfs", True), ("overlay", True),
            ("fuseblk", True), ("fuse.fuse-overlayfs", True), ("nfs", False), ("nfs4", False), ("cifs", False),
            ("smb3", False), ("9p", False), ("fuse.sshfs", False), ("fuse.unheard-of", False), ("lustre", False),
            ("gpfs", False), ("beegfs", False), ("ceph", False), ("virtiofs", False),
        ],
    )  # fmt: skip
    def test_network_file_systems_are_refused(
        self, path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch, kind: str, allowed: bool
    ) -> None:
        mounts = f"1 0 8:1 / / rw - nfs4 host:/ rw\n2 1 8:2 / {path.parent} rw shared:1 - {kind} disk rw\n"
        monkeypatch.setattr(ledger_file, "_mounts", lambda: mounts)
        if allowed:
            Ledger(path).reserve(graph, small())
            return
        new = path.with_name("new.db")
        for use in (
            lambda: Ledger(path).reserve(graph, small()),
            lambda: Ledger(path).commit("x"),
            lambda: Ledger(new).open(graph, "node", epsilon=1.0, delta=DELTA),
        ):
            with pytest.raises(Unsupported, match=rf"network file system \({kind}\).*disk of one machine"):
                use()
        assert not new.exists()
        assert len(Ledger(path).entries()) == 2, "reading harms nobody"

    def test_the_nearest_mount_counts_and_names_may_have_blanks(self) -> None:
        mounts = (
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /data\\040set rw - nfs host:/ rw\n"
            "3 1 8:2 / /data\\040set/here rw - xfs /dev/b rw\n4 1 8:2 / /data rw - nfs host:/ rw\n"
        )
        for local in ("/ledger.db", "/data set/here/ledger.db", "/data set too/ledger.db", "/database/ledger.db"):
            ledger_file._require_local(Path(local), mounts)
        for shared in ("/data set/ledger.db", "/data set/hereby/ledger.db", "/data/ledger.db"):
            with pytest.raises(Unsupported, match="network"):
                ledger_file._require_local(Path(shared), mounts)

    def test_a_file_that_is_mounted_alone_is_refused(self, path: Path, graph: Graph, tmp_path: Path) -> None:
        target = tmp_path / "mounted.db"
        target.touch()

        def work() -> str:
            forked.own_mounts()
            forked.bind(path, target)
            with pytest.raises(Unsupported, match="single file; mount its folder"):
                Ledger(target).reserve(graph, small())
            return "refused"

        assert forked.finish(forked.start(work)) == "refused"


def granted(path: Path, graph: Graph, asked: int) -> int:
    won = 0
    for _ in range(asked):
        with suppress(Overspent):
            Ledger(path).reserve(graph, small())
            won += 1
    return won


class TestErrors:
    def test_a_commit_survives_a_power_cut(self, path: Path) -> None:
        """EXTRA also syncs the folder after the journal is deleted."""
        with closing(ledger_file._connect(path, "rw")) as database:
            assert database.execute("PRAGMA synchronous").fetchone() == (3,)

    def test_showing_needs_no_write_access(self, path: Path, seen_by_all: Path) -> None:
        truth, copy = told(path), seen_by_all / "ledger.db"
        shutil.copy(path, copy)
        if os.geteuid() == 0:
            os.chown(copy, forked.NOBODY, forked.NOBODY)
        copy.chmod(0o400)
        seen_by_all.chmod(0o555)

        def show() -> Any:
            with pytest.raises(OSError, match="denied"):
                (seen_by_all / "probe").touch()
            with pytest.raises(InvalidInput, match="Nothing was reserved"):
                Ledger(copy).reserve(gv.datasets.load("chain-s"), small())
            return told(copy)

        try:
            assert forked.without_rights(show) == truth
        finally:
            seen_by_all.chmod(0o755)

    @pytest.mark.usefixtures("impatient")
    def test_what_only_a_writer_can_settle_is_told(self, path: Path, seen_by_all: Path) -> None:
        copy = seen_by_all / "ledger.db"
        Path(f"{copy}-journal").write_bytes(b"left by somebody")
        shutil.copy(path, copy)
        if os.geteuid() == 0:
            os.chown(copy, forked.NOBODY, forked.NOBODY)
        copy.chmod(0o400)
        seen_by_all.chmod(0o555)

        def show() -> str:
            with pytest.raises(InvalidInput, match="run `graphveil ledger show` once with write access"):
                Ledger(copy)
            return "told"

        try:
            assert forked.without_rights(show) == "told"
        finally:
            seen_by_all.chmod(0o755)
        copy.chmod(0o600)
        assert len(Ledger(copy).entries()) == 2

    @pytest.mark.usefixtures("impatient")
    def test_showing_does_not_wait_for_the_write_lock_and_writing_says_it_is_locked(
        self, path: Path, graph: Graph
    ) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            assert len(Ledger(path).entries()) == 2
            with pytest.raises(InvalidInput, match=r"is locked.*Nothing was reserved\. Try again later"):
                Ledger(path).reserve(graph, small())
            database.execute("ROLLBACK")
            database.execute("BEGIN EXCLUSIVE")
            with pytest.raises(InvalidInput, match="is locked"):
                Ledger(path)
        assert len(Ledger(path).entries()) == 2

    def test_nobody_else_writes_between_reading_and_writing(self, path: Path) -> None:
        with LedgerFile(path).written(""), closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            assert other.execute("SELECT COUNT(*) FROM entry").fetchone() == (5,)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")

    def test_a_full_disk_reserves_nothing_and_says_so(self, tmp_path: Path, graph: Graph) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()

        def work() -> list[str]:
            forked.own_mounts()
            forked.mount_small_disk(disk, 256)
            book = Ledger(disk / "ledger.db")
            book.open(graph, "node", epsilon=3.0, delta=DELTA)
            entry = book.reserve(graph, small())
            before = told(book.path)
            with suppress(OSError), (disk / "filling").open("wb") as file:
                while True:
                    file.write(b"0" * 512)
                    file.flush()
            said = []
            for use in (
                lambda: book.reserve(graph, small()),
                lambda: book.commit(entry),
                lambda: Ledger(disk / "more.db").open(graph, "node", epsilon=3.0, delta=DELTA),
            ):
                with pytest.raises(InvalidInput) as refused:
                    use()
                said.append(str(refused.value))
            assert told(book.path) == before
            (disk / "filling").unlink()
            book.commit(entry)
            return said

        reserving, committing, opening = forked.finish(forked.start(work))
        assert "full" in reserving
        assert "Nothing was reserved" in reserving
        assert "stays uncommitted, and counts as spent" in committing
        assert "No budget was opened" in opening

    @pytest.mark.parametrize(
        ("code", "kind", "words"),
        [
            ("SQLITE_IOERR", InvalidInput, "disk"),
            ("SQLITE_IOERR_FSYNC", InvalidInput, "disk"),
            ("SQLITE_CANTOPEN", InvalidInput, "access to it and its folder"),
            ("SQLITE_READONLY", InvalidInput, "read-only"),
            ("SQLITE_CORRUPT", Tampered, "restore the latest backup"),
            ("SQLITE_NOTADB", Tampered, "restore the latest backup"),
            ("SQLITE_PROTOCOL", InvalidInput, "not a usable ledger"),
        ],
    )
    def test_every_failure_of_sqlite_is_typed(
        self, path: Path, code: str, kind: type[GraphveilError], words: str
    ) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = getattr(sqlite3, code)
        with pytest.raises(kind, match=words), LedgerFile(path)._explained("Nothing was reserved."):
            raise error

    def test_a_write_that_failed_late_is_looked_up(
        self, path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The disk fails after the commit was made: then it counts, and nobody says otherwise."""
        book, store = Ledger(path), ledger_file._store

        def failing(made: bool) -> Callable[..., None]:
            def write(database: sqlite3.Connection, *rest: Any) -> None:
                store(database, *rest)
                if made:
                    database.execute("COMMIT")
                raise sqlite3.OperationalError("disk I/O error")

            return write

        monkeypatch.setattr(ledger_file, "_store", failing(made=False))
        with pytest.raises(InvalidInput, match="Nothing was reserved"):
            book.reserve(graph, small())
        assert len(book.entries()) == 2
        monkeypatch.setattr(ledger_file, "_store", failing(made=True))
        with pytest.raises(InvalidInput, match="ledger show --entries` lists counts as spent"):
            book.reserve(graph, small())
        assert len(book.entries()) == 3


def test_a_hundred_damaged_ledgers_are_refused_or_read_alike() -> None:
    verdicts, wrong = damage.run(100, seed=17)
    assert wrong == []
    assert min(verdicts["refused"], verdicts["alike"]) > 5


def test_the_fuzzer_sees_a_ledger_that_lost_an_entry(tmp_path: Path) -> None:
    specimen = Specimen.made(tmp_path, entries=3)
    truth = damage.contents(tmp_path / "own.db")
    (tmp_path / "older.db").write_bytes(specimen.states[-2])
    assert damage.verdict(tmp_path / "older.db", truth, specimen.graph) == "silent"
    assert damage.verdict(tmp_path / "own.db", truth, specimen.graph) == "alike"


def test_killed_writers_lose_and_overspend_nothing() -> None:
    counts, wrong = kill_ledgers.run(20, seed=17)
    assert wrong == []
    assert counts["killed"] == 20
    assert min(counts["opened"], counts["reserved"]) > 0
