"""The file of a ledger: lines in one chain of checksums, refused when damaged and never read as nothing spent.

SQLite keeps it, with a rollback journal, so that every lock is on the file itself: a write-ahead log has its index in
memory that two hosts do not share. SQLite's own documentation calls locks on network file systems unreliable, and one
host cannot test them, so nothing is written there.

Hand-written is what SQLite does not do: checksums, files of the owner alone, and distrust. It would take in any journal
or log that lies beside the file, as if a crash had left it there. What it would make of one is first tried on a copy.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import hmac
import json
import os
import re
import secrets
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphveil.errors import GraphveilError, InvalidInput, Tampered, Unsupported

VERSION = 1
"""Of the tables below."""

_APPLICATION = 0x67764C31
_TABLES = (
    "CREATE TABLE head (salt TEXT NOT NULL, count INTEGER NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL)",
)

_PATIENCE = 30.0
"""Seconds to wait for another writer."""
_MAGIC = b"SQLite format 3\0"
_ROLLBACK, _LOG = b"\1\1", b"\2\2"
"""Bytes 18 and 19 of an SQLite file: which journal it uses."""
_LOCKS = (512, 1 << 30)
"""Length and start of the bytes that SQLite locks."""
_NETWORK = {
    "9p", "acfs", "afs", "afp", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "fuse", "gfs2", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb2", "smb3",
    "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs",
}  # fmt: skip
_CONTAINER = "fuse.fuse-overlayfs"
"""The one file system in user space that is known to be of one machine."""
_RESTORE = "restore the latest backup; what was released since then is spent all the same"

_TURN = threading.Lock()
"""One use of a ledger at a time in a process: closing any handle of a file gives up all the process's locks on it. A
fork waits for its end, so that no child inherits half of one."""
os.register_at_fork(before=_TURN.acquire, after_in_parent=_TURN.release, after_in_child=_TURN.release)


@dataclass(frozen=True)
class Line:
    """One thing that was noted, as JSON."""

    kind: str
    body: str

    @classmethod
    def of(cls, kind: str, **said: Any) -> Line:
        """The line that says so."""
        return cls(kind, json.dumps(said))

    @property
    def said(self) -> dict[str, Any]:
        """What `of` was told."""
        return dict(json.loads(self.body))


@dataclass(frozen=True)
class Book:
    """Every line of a ledger, checked."""

    salt: str
    lines: tuple[Line, ...]

    def known(self, fingerprint: str) -> str:
        """How this file calls a dataset: two files, or a plain hash of a guess, cannot be compared with it."""
        return hmac.new(bytes.fromhex(self.salt), fingerprint.encode(), hashlib.sha256).hexdigest()

    def within(self, other: Book) -> bool:
        """Whether `other` says all that this one says."""
        return self.salt == other.salt and set(self.lines) <= set(other.lines)

    def digests(self) -> list[str]:
        """Of nothing, and of every line together with all before it: [count + 1]."""
        chain = [hashlib.sha256(f"graphveil ledger {VERSION}\n{self.salt}".encode()).hexdigest()]
        for number, line in enumerate(self.lines, 1):
            chain.append(hashlib.sha256(f"{chain[-1]}\n{number}\n{line.kind}\n{line.body}".encode()).hexdigest())
        return chain


Append = Callable[[Line], None]


class LedgerFile:
    """The ledger at `path`, which need not be there yet."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.shown = Path(path)

    @property
    def path(self) -> Path:
        """Where it truly lies: SQLite looks for the journal beside that."""
        return Path(os.path.realpath(self.shown))

    @property
    def exists(self) -> bool:
        """Whether anything is there."""
        return os.path.lexists(self.path)

    def create(self, lines: Callable[[Book], list[Line]]) -> bool:
        """Make the file with its first lines, whole or not at all; False if there is one already."""
        with _TURN, self._explained("No budget was opened."):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_local(self.path, _mounts())
            handle, scratch = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.", suffix=".new")
            try:
                os.fchmod(handle, 0o600)
                with closing(_connect(Path(scratch), "rw")) as database:
                    database.execute("PRAGMA journal_mode = OFF")
                    database.execute("BEGIN IMMEDIATE")
                    book = Book(secrets.token_hex(32), ())
                    _write(database, Book(book.salt, tuple(lines(book))))
                    database.execute("COMMIT")
                os.fsync(handle)
                # Unlike a rename this never replaces what another has made meanwhile.
                os.link(scratch, self.path)
            except FileExistsError:
                return False
            finally:
                os.close(handle)
                Path(scratch).unlink(missing_ok=True)
            _sync(self.path.parent)
        return True

    def read(self) -> Book:
        """Every line, without the write lock and without write access."""
        with _TURN, self._explained(""):
            return self._read()

    @contextmanager
    def written(self, otherwise: str) -> Iterator[tuple[Book, Append]]:
        """Under the write lock: every line, and how to add one. `otherwise` tells what is so if that fails."""
        with _TURN:
            with self._explained(otherwise):
                self._inspect(write=True)
                database = _connect(self.path, "rw")
            with closing(database):
                with self._explained(otherwise):
                    database.execute("BEGIN IMMEDIATE")
                    book = self._checked(database)
                added: list[Line] = []
                yield book, added.append
                if not added:
                    return
                try:
                    _store(database, Book(book.salt, (*book.lines, *added)), len(book.lines))
                    database.execute("COMMIT")
                    return
                except sqlite3.Error as error:
                    failed = error
            raise self._fate(failed, book, otherwise) from failed

    def _read(self) -> Book:
        while True:
            self._inspect(write=False)
            try:
                with closing(_connect(self.path, "ro")) as database:
                    database.execute("BEGIN")
                    return self._checked(database)
            except sqlite3.OperationalError as error:
                # A writer was killed since we looked: what it left has to be settled.
                if _code(error) != sqlite3.SQLITE_READONLY_ROLLBACK:
                    raise

    def _fate(self, failed: sqlite3.Error, before: Book, otherwise: str) -> GraphveilError:
        """A write that failed late may have been made: look."""
        with suppress(GraphveilError, sqlite3.Error, UnicodeDecodeError, OSError):
            if self._read().lines == before.lines:
                return self._typed(failed, otherwise)
        return self._typed(failed, "What `graphveil ledger show --entries` lists counts as spent.")

    @contextmanager
    def _explained(self, otherwise: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._typed(error, otherwise) from error
        except UnicodeDecodeError as error:
            # Python decodes what SQLite says, and that may quote the damage.
            raise self._damaged("its tables are not text") from error
        except OSError as error:
            raise InvalidInput(
                f"{self.shown} cannot be used: {error.strerror or error}. {otherwise}".strip()
            ) from error

    def _typed(self, error: sqlite3.Error, otherwise: str) -> GraphveilError:
        """What SQLite says, what is so now, and what to do."""
        code = _code(error) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return self._damaged(str(error))
        if not self.exists:
            return self._missing(otherwise)
        said, advice = {
            sqlite3.SQLITE_BUSY: (f"is locked: another process has used it for {_PATIENCE:g} s", "Try again later"),
            sqlite3.SQLITE_FULL: ("cannot be written: its disk is full", "Make room and try again"),
            sqlite3.SQLITE_READONLY: ("cannot be written: it is read-only", "Get write access to it and its folder"),
            sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Get read and write access to it and its folder"),
            sqlite3.SQLITE_IOERR: (f"cannot be used: {error}", "Check the disk and try again"),
        }.get(code, (f"is not a usable ledger: {error}", "Check its disk"))
        return InvalidInput(" ".join(f"{self.shown} {said}. {otherwise} {advice}.".split()))

    def _damaged(self, what: str) -> Tampered:
        return Tampered(f"{self.shown} is damaged or was altered ({what}) and is not trusted: {_RESTORE}")

    def _missing(self, otherwise: str = "") -> InvalidInput:
        said = f"there is no ledger at {self.shown}. {otherwise} If it was deleted or moved, {_RESTORE}. If there was "
        return InvalidInput(" ".join(f"{said} none, make it with `graphveil ledger open` or Ledger.open(...)".split()))

    def _inspect(self, write: bool) -> None:
        """Refuse what SQLite would take for a ledger, or for a part of this one, and should not."""
        path = self.path
        try:
            found = path.stat()
        except FileNotFoundError:
            raise self._missing() from None
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInput(f"{self.shown} is not a usable ledger: it is not a plain file")
        with path.open("rb") as file:
            header = file.read(100)
        if not header:
            raise InvalidInput(
                f"{self.shown} is not a usable ledger: it is empty, and holds no budget. If it was a ledger, "
                f"{_RESTORE}; otherwise delete it"
            )
        if header[:16] != _MAGIC:
            raise InvalidInput(f"{self.shown} is not a usable ledger: it is no SQLite file. If it was one, {_RESTORE}")
        if write:
            self._require_own(path)
        elif _wide(found):
            with suppress(OSError):
                path.chmod(0o600)
        if header[18:20] == _LOG:
            raise Tampered(
                f"{self.shown} was given a write-ahead log by another program. Run sqlite3 {self.shown} "
                "'PRAGMA journal_mode = DELETE'; what it holds then is checked"
            )
        if header[18:20] != _ROLLBACK:
            raise InvalidInput(f"{self.shown} is not a usable ledger: its header is damaged. If it was one, {_RESTORE}")
        if _beside(path, "-wal"):
            raise Tampered(f"{self.shown}-wal is no part of this ledger; move it away")
        if _beside(path, "-journal"):
            self._settle_journal(path)

    def _require_own(self, path: Path) -> None:
        """One name, one owner, on a disk whose locks hold."""
        _require_local(path, _mounts())
        if path.stat().st_nlink > 1:
            for scratch in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
                # Left by a `create` that was killed between its last two steps.
                if path.samefile(scratch):
                    scratch.unlink(missing_ok=True)
        found = path.stat()
        if found.st_nlink > 1:
            raise Unsupported(
                f"{self.shown} has another name (a hard link): what a crash leaves beside one name is not found beside "
                "the other. Delete one of them"
            )
        if _wide(found):
            try:
                path.chmod(0o600)
            except OSError:
                raise Unsupported(
                    f"{self.shown} can be used by others than its owner, who alone can mend it: chmod 600 {self.shown}"
                ) from None

    def _settle_journal(self, path: Path) -> None:
        """Wait for whoever writes; what a killed writer, or a stranger, has left may only make the ledger say more.

        SQLite would undo the last write. If the file is whole without the journal, it stays as it is: a reservation
        that was about to be made counts.
        """
        own = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        if own:
            self._require_own(path)
        deadline = time.monotonic() + _PATIENCE
        while _beside(path, "-journal"):
            if own and self._journal_settled(path):
                return
            if time.monotonic() > deadline:
                advice = "" if own else "; if its writer was killed, run `graphveil ledger show` once with write access"
                raise InvalidInput(f"{self.shown} is locked: somebody has written to it for {_PATIENCE:g} s{advice}")
            time.sleep(0.005)

    def _journal_settled(self, path: Path) -> bool:
        journal = Path(f"{path}-journal")
        with _alone(path) as handle:
            if handle is None:
                return False
            if not _beside(path, "-journal"):
                return True
            bare, mended, undone = self._tried(handle, path)
            if bare is not None and (mended is None or mended.within(bare)):
                os.fsync(handle)
                journal.unlink()
                _sync(path.parent)
                return True
            # A journal undoes one write at most.
            if mended is None or not (undone in (0, 1) if bare is None else bare.within(mended)):
                raise self._damaged(f"{journal.name} does not belong to it, or it to the journal")
        _touch(path)
        return True

    def _tried(self, handle: int, path: Path) -> tuple[Book | None, Book | None, int]:
        """On copies: the ledger without the journal beside it, and with it; and how many writes that undoes.

        SQLite counts the writes in the file. What becomes a ledger whose salt the file does not hold is another's.
        """
        body = os.pread(handle, os.fstat(handle).st_size, 0)
        journal = Path(f"{path}-journal")
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            bare, whole = Path(folder) / "bare", Path(folder) / "whole"
            bare.write_bytes(body)
            whole.write_bytes(body)
            if journal.exists():
                Path(f"{whole}-journal").write_bytes(journal.read_bytes())
            alone, together = self._attempt(bare), self._attempt(whole)
            own = together is not None and together.salt.encode() in body
            return alone, together if own else None, _writes(body) - _writes(whole.read_bytes())

    def _attempt(self, path: Path) -> Book | None:
        with suppress(sqlite3.Error, UnicodeDecodeError, GraphveilError), closing(_connect(path, "rw")) as database:
            return self._checked(database)
        return None

    def _checked(self, database: sqlite3.Connection) -> Book:
        """Every line, if each checksum, their chain and its head are as they were written."""
        if database.execute("PRAGMA integrity_check(1)").fetchone() != (b"ok",):
            raise self._damaged("its tables do not hold together")
        application, version = (
            database.execute(f"PRAGMA {n}").fetchone()[0] for n in ("application_id", "user_version")
        )
        if application != _APPLICATION:
            raise InvalidInput(f"{self.shown} is not a usable ledger: graphveil did not make it. If it did, {_RESTORE}")
        if version != VERSION:
            raise Tampered(f"{self.shown} is of version {version}; this graphveil reads version {VERSION}: update it")
        tables = {row[0] for row in database.execute("SELECT sql FROM sqlite_master")}
        if tables != {sql.encode() for sql in _TABLES}:
            raise self._damaged("its tables are not those of a ledger")
        heads = database.execute("SELECT salt, count, digest FROM head").fetchall()
        rows = database.execute("SELECT number, kind, body, digest FROM entry ORDER BY number").fetchall()
        if len(heads) != 1 or heads[0][1] != len(rows):
            raise self._damaged(f"its head does not count {len(rows)} lines")
        try:
            book = Book(heads[0][0].decode(), tuple(Line(row[1].decode(), row[2].decode()) for row in rows))
            stored = [row[3].decode() for row in rows]
        except (UnicodeDecodeError, AttributeError) as error:
            raise self._damaged("a line is not text") from error
        chain = book.digests()
        for number, (row, is_, was) in enumerate(zip(rows, chain[1:], stored, strict=True), 1):
            if row[0] != number or is_ != was:
                raise self._damaged(f"line {number} has another checksum")
        if heads[0][2] != chain[-1].encode():
            raise self._damaged("its head has another checksum")
        return book


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Never creates a file. Text stays bytes, so that broken text is ours to refuse."""
    database = sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, timeout=_PATIENCE, isolation_level=None)
    database.text_factory = bytes
    try:
        # The last also syncs the folder when the journal is deleted, without which a power cut can undo a commit.
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "synchronous = EXTRA"):
            database.execute(f"PRAGMA {pragma}")
    except BaseException:
        database.close()
        raise
    return database


def _code(error: sqlite3.Error) -> int:
    """SQLite's number for it; Python raises a few of its own, without one."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR))


def _touch(path: Path) -> None:
    """Let SQLite undo what a journal says."""
    with closing(_connect(path, "rw")) as database:
        database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()


def _write(database: sqlite3.Connection, book: Book) -> None:
    """The tables, and every line."""
    for statement in (*_TABLES, f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {VERSION}"):
        database.execute(statement)
    database.execute("INSERT INTO head VALUES (?, 0, '')", (book.salt,))
    _store(database, book, 0)


def _store(database: sqlite3.Connection, book: Book, kept: int) -> None:
    """The lines after the first `kept`, and the head."""
    chain = book.digests()
    for number, line in enumerate(book.lines[kept:], kept + 1):
        database.execute("INSERT INTO entry VALUES (?, ?, ?, ?)", (number, line.kind, line.body, chain[number]))
    database.execute("UPDATE head SET count = ?, digest = ?", (len(book.lines), chain[-1]))


def _writes(body: bytes) -> int:
    """How often an SQLite file was written to."""
    return int.from_bytes(body[24:28], "big")


def _wide(found: os.stat_result) -> bool:
    return bool(stat.S_IMODE(found.st_mode) & 0o077)


def _beside(path: Path, suffix: str) -> bool:
    """Whether something lies there; an empty journal means nothing."""
    try:
        found = Path(f"{path}{suffix}").lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise Tampered(f"{path}{suffix} is not a plain file, and no part of the ledger; move it away")
    return suffix != "-journal" or found.st_size > 0


@contextmanager
def _alone(path: Path) -> Iterator[int | None]:
    """A handle that holds every lock of SQLite's, or None if somebody else has one. Nobody else opens the file then."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, *_LOCKS)
            alone = True
        except (BlockingIOError, PermissionError):
            alone = False
        yield handle if alone else None
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mounts() -> str:
    """What Linux says is mounted where; elsewhere nothing is known."""
    try:
        return Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""


def require_one_machine(path: Path) -> None:
    """Refuse a file or folder whose locks other hosts may not see."""
    _require_local(path, _mounts())


def _require_local(path: Path, mounts: str) -> None:
    """Refuse a network file system, and a file that is mounted alone: others would not find its journal."""
    place, kind = "", ""
    for line in mounts.splitlines():
        fields, _, device = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields.split()[4])
        if path.is_relative_to(point) and len(point) >= len(place):
            place, kind = point, device.split()[0]
    if place == str(path):
        raise Unsupported(f"{path} is mounted as a single file; mount its folder, where its journal has to be")
    if kind in _NETWORK or (kind.startswith("fuse.") and kind != _CONTAINER):
        raise Unsupported(
            f"{path} lies on a network file system ({kind}), where SQLite's locks are not reliable and two hosts can "
            "spend one budget twice. Keep the ledger on a disk of one machine, and train there"
        )
