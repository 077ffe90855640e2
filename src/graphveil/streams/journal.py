"""The private journal of a growing graph: which ends of edges were counted, and what was told of them.

An end is an arc, counted in the row of its target. It is counted once in its life: docs/streams.md proves what that
costs. The journal is a folder of its owner's alone that stays with the data. `head.json` names all other files with
their hashes and is replaced in one step, so that a period is there completely or not at all.

Ends are kept as sorted runs of whole numbers, of which each is at least twice as long as the next: a period reads and
writes in proportion to what is new, but for the hashes, which are checked over all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from torch import Tensor

from graphveil.checks import quoted
from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput, Tampered
from graphveil.privacy.ledger_file import require_one_machine
from graphveil.runtime.folders import require_apart, require_folder, write_file, write_whole
from graphveil.vocabulary import Plan

VERSION = 1
"""Of the folder."""

_HEAD = "head.json"
_LOCK = "lock"
_SHIFT = 32
"""An end is the number target << 32 | source, by the journal's own numbers of nodes."""
_MAX_NODES = 1 << 31
_OURS = re.compile(r"(ends|rows)-[0-9a-f]{16}|\.((ends|rows)-[0-9a-f]{16}|head\.json)\.[0-9a-f]{32}\.tmp")
"""Files of ends and rows, and what `write_file` leaves of any file if it is killed."""


@dataclass(frozen=True)
class StreamTerms:
    """What all periods of a stream have in common: which run, its plan, delta, classes, and kind of noise."""

    run: str
    plan: str
    delta: float
    classes: int
    secure: bool
    entry: str = ""
    """The ledger's entry; empty without a ledger."""

    @classmethod
    def of(cls, run: str, plan: Plan, delta: float, classes: int, secure: bool, entry: str = "") -> StreamTerms:
        """The terms of a plan."""
        return cls(run, json.dumps(plan.describe(), sort_keys=True), delta, classes, secure, entry)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was told of some nodes so far: counts int64 [n, c], sums of their increments; refreshes int64 [n]."""

    counts: Tensor
    refreshes: Tensor


@dataclass(frozen=True, eq=False)
class _Rows:
    """What is told and public of every node that the journal knows: [N, c], and int64 [N] each.

    born: the period in which a node came; names: its ids, or nothing where nodes go by their rows.
    """

    counts: Ids
    refreshes: Ids
    born: Ids
    names: tuple[str, ...] | None

    @classmethod
    def none(cls, classes: int, named: bool) -> _Rows:
        nobody = np.empty(0, np.int64)
        return cls(np.empty((0, classes), np.int64), nobody, nobody, () if named else None)

    def grown(self, count: int, names: tuple[str, ...] | None, period: int) -> _Rows:
        """With nodes that came in `period` behind those that are known, `count` in all."""
        more = count - len(self.born)
        return _Rows(
            np.concatenate([self.counts, np.zeros((more, self.counts.shape[1]), np.int64)]),
            np.concatenate([self.refreshes, np.zeros(more, np.int64)]),
            np.concatenate([self.born, np.full(more, period)]),
            names,
        )

    def to_bytes(self) -> bytes:
        arrays: dict[str, NDArray[Any]] = {"counts": self.counts, "refreshes": self.refreshes, "born": self.born}
        if self.names is not None:
            arrays["names"] = np.frombuffer(json.dumps(self.names).encode(), np.uint8)
        return save_arrays(arrays)

    @classmethod
    def from_bytes(cls, body: bytes) -> _Rows:
        arrays = load_arrays(body)
        names = tuple(json.loads(arrays.pop("names").tobytes())) if "names" in arrays else None
        return cls(**arrays, names=names)


@dataclass(frozen=True)
class _File:
    """A file of the folder: its name, its bytes and their SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class _Head:
    """What the folder holds; tokens: a random number for every period."""

    terms: StreamTerms
    tokens: tuple[str, ...]
    runs: tuple[_File, ...]
    rows: _File


class Journal:
    """An open journal, whose lock is held; see `held`."""

    def __init__(self, folder: Path, head: _Head | None, lock: int) -> None:
        self.folder, self._head, self._lock = folder, head, lock
        self._runs = [] if head is None else [self._ends(file) for file in head.runs]
        self._rows = None if head is None else _Rows.from_bytes(self._checked(head.rows))

    @classmethod
    @contextmanager
    def held(cls, path: str | os.PathLike[str], *, fresh: bool) -> Iterator[Journal]:
        """The journal at `path`, which nobody else uses meanwhile; fresh: one that is to begin, and must not be there.

        Nothing that is there is changed before `commit`, but for who may look into the folder.
        """
        folder = Path(path)
        require_apart(folder)
        if fresh:
            require_folder(folder, folder, private=True)
            _require_vacant(folder)
        elif not (folder / _HEAD).is_file():
            raise InvalidInput(
                f"there is no journal at {folder}. Without it nobody knows which edges were counted, so the release "
                "cannot be extended: restore it, or train anew at a further cost"
            )
        require_one_machine(folder.resolve() / _LOCK)
        with _locked(folder) as lock:
            if fresh:
                _require_vacant(folder)
            head = None if fresh else _read_head(folder)
            _hide(folder)
            yield cls(folder, head, lock)

    @property
    def period(self) -> int:
        """How many periods were counted."""
        return len(self.tokens)

    @property
    def tokens(self) -> tuple[str, ...]:
        """A random number for every period that was counted."""
        return () if self._head is None else self._head.tokens

    @property
    def terms(self) -> StreamTerms:
        """What the stream was begun with."""
        assert self._head is not None
        return self._head.terms

    def require(self, terms: StreamTerms, period: int, token: str) -> None:
        """The journal is that of a release: of its stream, by its plan, and it went through the release's period."""
        mine, tokens = self.terms, self.tokens
        if mine.run != terms.run:
            raise InvalidInput(f"{self.folder} is the journal of another stream than the release's; give its own")
        if replace(mine, secure=terms.secure) != terms:
            raise Tampered(f"{self.folder} was begun with another plan than the release's: one of them was altered")
        if mine.secure != terms.secure:
            kind = "cryptographic" if mine.secure else "seeded"
            raise InvalidInput(f"this stream was begun with {kind} noise, and goes on with such noise alone")
        if period > len(tokens):
            raise Tampered(
                f"{self.folder} knows {len(tokens)} periods and the release is of period {period}: the journal is "
                "older than the release, and would count edges again. Restore the newest one"
            )
        if tokens[period - 1] != token:
            raise Tampered(
                f"{self.folder} and the release went different ways from period {period} on: somebody used a copy of "
                "the journal. Edges that the other copy counted are not known here; train anew at a further cost"
            )

    def places(self, ids: Sequence[str] | None, count: int) -> tuple[Ids, tuple[str, ...] | None]:
        """The journal's number of each of `count` nodes, int64 [count], and the names of all that it then knows.

        ids: of the nodes; None where they go by their rows. Nodes that are not known get the next numbers.
        """
        rows = self._rows
        known = 0 if rows is None else len(rows.born)
        names = None if rows is None else rows.names
        if rows is not None and (names is None) != (ids is None):
            raise InvalidInput("nodes go by ids or by rows in all periods of a stream; this graph is of the other kind")
        if ids is None:
            if count < known:
                raise InvalidInput(
                    f"this graph has {count} rows, and the stream had {known}: without ids nodes go by their rows, so "
                    "that none may leave. Read the graph from tables with ids"
                )
            return _few(np.arange(count)), None
        numbers = {name: number for number, name in enumerate(names or ())}
        if known and not any(name in numbers for name in ids):
            raise InvalidInput("no node of this graph is one of the stream's: it is another graph; use infer or train")
        _require_same_spelling(numbers.keys() - set(ids), [name for name in ids if name not in numbers])
        places = np.fromiter((numbers.setdefault(name, len(numbers)) for name in ids), np.int64, count)
        return _few(places), tuple(numbers)

    def turnover(self, places: Ids) -> tuple[int, int, int]:
        """How many nodes of a graph, by number, are known, how many new, and how many known ones are gone: public."""
        known = 0 if self._rows is None else len(self._rows.born)
        here = int((places < known).sum())
        return here, len(places) - here, known - here

    def ages(self, places: Ids) -> tuple[Ids, Ids]:
        """For nodes by number: how many periods they have been here, the coming one included, and their refreshes."""
        count = int(places.max(initial=-1)) + 1
        known = min(count, 0 if self._rows is None else len(self._rows.born))
        ages, refreshes = np.ones(count, np.int64), np.zeros(count, np.int64)
        if self._rows is not None:
            ages[:known] = self.period + 2 - self._rows.born[:known]
            refreshes[:known] = self._rows.refreshes[:known]
        return ages[places], refreshes[places]

    def uncounted(self, targets: Ids, sources: Ids) -> NDArray[np.bool_]:
        """Which of these ends, by number, were never counted, bool [m]. Private: for a query of a session alone."""
        ends = _ends_of(targets, sources)
        order = np.argsort(ends)
        ordered, seen = ends[order], np.zeros(len(ends), bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, ordered), max(len(run) - 1, 0))
            seen |= run[at] == ordered if len(run) else False
        found = np.empty(len(ends), bool)
        found[order] = ~seen
        return found

    def commit(
        self,
        terms: StreamTerms,
        token: str,
        counted: tuple[Ids, Ids],
        rows: Ids,
        told: Ids,
        names: tuple[str, ...] | None,
        count: int,
    ) -> None:
        """One period more, on the disk when this returns: its ends (targets, sources), and what is told of its rows.

        rows: numbers of the refreshed nodes, int64 [k]; told: their increments, int64 [k, c]; names, count: of all
        nodes that are known now.
        """
        fresh = _ends_of(*counted)
        if not self.uncounted(*counted).all() or len(np.unique(fresh)) != len(fresh):
            raise Tampered("an end would be counted twice; nothing was told")
        before = self._rows or _Rows.none(terms.classes, names is not None)
        after = before.grown(max(count, len(before.born)), names, self.period + 1)
        np.add.at(after.counts, rows, told)
        np.add.at(after.refreshes, rows, 1)
        self._keep(terms, token, _merged([*self._runs, np.sort(fresh)]), after)

    def evidence(self, places: Ids) -> Evidence:
        """What was told of nodes by number."""
        assert self._rows is not None
        parts = (torch.from_numpy(array[places]) for array in (self._rows.counts, self._rows.refreshes))
        return Evidence(*parts)

    def _keep(self, terms: StreamTerms, token: str, runs: list[Ids], rows: _Rows) -> None:
        old = {} if self._head is None else dict(zip(map(id, self._runs), self._head.runs, strict=True))
        files = tuple(old.get(id(run)) or self._written("ends", run.tobytes()) for run in runs)
        head = _Head(terms, (*self.tokens, token), files, self._written("rows", rows.to_bytes()))
        self._require_unchanged()
        # Whatever is written until here is not named anywhere; from here on all of it counts.
        said = asdict(head)
        write_whole(self.folder / _HEAD, {"version": VERSION, "sha256": _sha256(said), "head": said}, private=True)
        self._head, self._runs, self._rows = head, runs, rows
        self._sweep()

    def _require_unchanged(self) -> None:
        """The lock is still ours, and the head is the one that was read: nobody has counted meanwhile."""
        there = _read_head(self.folder) if (self.folder / _HEAD).exists() else None
        if not _is_at(self._lock, self.folder / _LOCK) or there != self._head:
            raise Tampered(
                f"{self.folder} was changed while it was used: its lock was removed, or it was replaced. Nothing was "
                "told; see that one process uses it, and try again"
            )

    def _written(self, kind: str, body: bytes) -> _File:
        file = _File(f"{kind}-{secrets.token_hex(8)}", len(body), hashlib.sha256(body).hexdigest())
        write_file(self.folder / file.name, body, private=True)
        return file

    def _ends(self, file: _File) -> Ids:
        return np.frombuffer(self._checked(file), np.int64)

    def _checked(self, file: _File) -> bytes:
        try:
            body = (self.folder / file.name).read_bytes()
        except OSError as error:
            raise Tampered(f"{self.folder / file.name} cannot be read: {error}; restore the newest journal") from error
        if len(body) != file.size or hashlib.sha256(body).hexdigest() != file.sha256:
            raise Tampered(f"{self.folder / file.name} was altered or truncated; restore the newest journal")
        return body

    def _sweep(self) -> None:
        """Away with what the head does not name: files of earlier periods, and leftovers of whoever was killed."""
        assert self._head is not None
        named = {file.name for file in (*self._head.runs, self._head.rows)}
        for path in self.folder.iterdir():
            if path.name not in named and _OURS.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()


def _require_same_spelling(gone: Set[str], new: Sequence[str]) -> None:
    """No known node seems to have come back under another spelling of its id: all its edges would be counted again."""
    spelt = {_plain(name): name for name in gone}
    if drifted := [(spelt[_plain(name)], name) for name in new if _plain(name) in spelt]:
        was, now = map(quoted, drifted[0])
        raise InvalidInput(
            f"{len(drifted)} known node(s) are gone and come back spelt otherwise, such as {was} as {now}: their edges "
            "would be counted again. Write ids as before (leading zeros, spaces, composed letters); if they are other "
            "nodes, keep the known ones in the node table too"
        )


def _plain(name: str) -> str:
    """An id without what programs change silently when they read and write tables."""
    return unicodedata.normalize("NFC", name).strip().lstrip("0")


def _few(places: Ids) -> Ids:
    if len(places) and int(places.max()) >= _MAX_NODES:
        raise InvalidInput(f"a journal numbers fewer than {_MAX_NODES:,} nodes")
    return places


def _ends_of(targets: Ids, sources: Ids) -> Ids:
    return targets << _SHIFT | sources


def _merged(runs: list[Ids]) -> list[Ids]:
    """The same numbers in sorted runs, each at least twice as long as the next; empty ones are left out."""
    runs = [run for run in runs if len(run)]
    while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
        last = np.concatenate(runs[-2:])
        # A stable sort of numbers merges sorted runs in linear time.
        runs = [*runs[:-2], np.sort(last, kind="stable")]
    return runs


def _require_vacant(folder: Path) -> None:
    if (folder / _HEAD).exists():
        raise InvalidInput(
            f"{folder} holds the journal of a stream: go on with `extend` from a release of it, or choose another "
            "folder for a new stream, which costs a second time. If its first training was stopped, there is no "
            "release and none can be made of it: nothing was told, so the folder may go and another stream may begin; "
            "what a ledger reserved for it stays spent"
        )
    if any(path.name != _LOCK and not _OURS.fullmatch(path.name) for path in folder.iterdir()):
        raise InvalidInput(f"{folder} holds other files; choose an empty folder for the journal")


def _read_head(folder: Path) -> _Head:
    try:
        told = json.loads((folder / _HEAD).read_bytes())
        if told["version"] != VERSION:
            raise ValueError(f"this graphveil reads version {VERSION}")
        said = told["head"]
        if _sha256(said) != told["sha256"]:
            raise ValueError("another checksum")
        files = tuple(_File(**file) for file in said["runs"])
        return _Head(StreamTerms(**said["terms"]), tuple(said["tokens"]), files, _File(**said["rows"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Tampered(f"{folder / _HEAD} cannot be read ({error!r}); restore the newest journal") from error


def _sha256(said: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _hide(folder: Path) -> None:
    """The folder is its owner's alone."""
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise InvalidInput(f"the journal {folder} cannot be used: {error.strerror or error}") from None


def _is_at(lock: int, path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """The folder is ours until the block ends; the lock of a process that was killed is free."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidInput(f"the journal {folder} cannot be used: {error.strerror or error}") from None
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            raise InvalidInput(f"{folder / _LOCK} is not a plain file; move it away")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(f"another process uses the journal {folder}; wait until it is done") from None
        if not _is_at(lock, folder / _LOCK):
            raise InvalidInput(f"another process removed the lock of the journal {folder}; try again")
        yield lock
    finally:
        os.close(lock)
