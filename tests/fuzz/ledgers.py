"""Damaged ledgers: `python tests/fuzz/ledgers.py [COUNT] [SEED]` damages one COUNT times (1,000) and reads it.

A damaged ledger is refused by an error of ours, or says exactly what it said before: every budget, entry and total. It
prints how many were refused or read alike, and the raw exceptions, silent acceptances and hangs, of which none may be.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import graphveil as gv
from graphveil.data.graph import Graph
from graphveil.errors import GraphveilError, Overspent
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.privacy import ledger_file
from graphveil.privacy.ledger import Ledger
from graphveil.vocabulary import Adjacency, Plan, Reading, Step

PAGE = 4096
DELTA = 1e-5
MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Of a rollback journal."""


def small_plan(mu: float = 0.1) -> Plan:
    """One Gaussian release, with many words, so that a ledger has many pages."""
    step = Step("sums", Gaussian(1.0), GaussianCurve(mu), 1, why="a ledger of several pages " * 40)
    return Plan(Adjacency.of("node"), Reading.SOUND, (step,))


def contents(path: Path) -> Any:
    """All that a ledger tells."""
    book = Ledger(path)
    return json.loads(json.dumps([[vars(item) for item in book.accounts()], book.entries()], default=str))


@dataclass
class Specimen:
    """A ledger of `entries` entries, as it was after each of them, and a stranger of the same kind."""

    states: list[bytes]
    stranger: bytes
    graph: Graph

    @classmethod
    def made(cls, folder: Path, entries: int = 8) -> Specimen:
        graph, other = (gv.datasets.load(name) for name in ("chain-s", "chain-m"))
        bodies: list[list[bytes]] = []
        for number, name in enumerate(("own.db", "stranger.db")):
            path = folder / name
            book = Ledger(path)
            book.open(graph, "node", epsilon=3.0, delta=DELTA)
            book.open(other, "node", epsilon=5.0, delta=DELTA)
            bodies.append([path.read_bytes()])
            for turn in range(entries):
                entry = book.reserve(graph if turn % 3 else other, small_plan(0.1 + 0.01 * (turn % 2 + number)), "gap")
                if turn % 2:
                    book.commit(entry)
                bodies[-1].append(path.read_bytes())
        return cls(bodies[0], bodies[1][-1], graph)

    @property
    def body(self) -> bytes:
        return self.states[-1]


def undoing(before: bytes, after: bytes) -> bytes:
    """The journal that takes `after` back to `before`, as a writer that was killed at the last moment leaves it."""
    pages = [number for number in range(len(before) // PAGE) if page(before, number) != page(after, number)]
    records = [(number + 1).to_bytes(4, "big") + page(before, number) + _sum(page(before, number)) for number in pages]
    sizes = (len(records), 7, len(before) // PAGE, 512, PAGE)
    header = MAGIC + b"".join(value.to_bytes(4, "big") for value in sizes)
    return header.ljust(512, b"\0") + b"".join(records)


def _sum(content: bytes) -> bytes:
    """SQLite's checksum of a journal's record, for the nonce 7."""
    return ((7 + sum(content[PAGE - 200 : 0 : -200])) % 2**32).to_bytes(4, "big")


def page(body: bytes, number: int) -> bytes:
    return body[number * PAGE : (number + 1) * PAGE]


def logged(body: bytes, folder: Path) -> bytes:
    """The write-ahead log that another program would leave beside `body`: it holds two writes."""
    path = folder / "logged.db"
    path.write_bytes(body)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("DELETE FROM entry WHERE number > 3")
        database.execute("UPDATE head SET count = 3")
        made = Path(f"{path}-wal").read_bytes()
    path.unlink()
    return made


def flipped(body: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(body)
    for place in rng.integers(len(damaged), size=int(rng.choice([1, 1, 2, 8, 64]))):
        damaged[place] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def early_flip(body: bytes, rng: np.random.Generator) -> bytes:
    """In the header, or where a page starts: the bytes that mean most to SQLite."""
    damaged = bytearray(body)
    damaged[int(rng.integers(len(body) // PAGE)) * PAGE + int(rng.integers(112))] = int(rng.integers(256))
    return bytes(damaged)


def cut(body: bytes, rng: np.random.Generator) -> bytes:
    length = int(rng.integers(len(body)))
    return body[: length - length % PAGE if rng.random() < 0.5 else length]


def lengthened(body: bytes, rng: np.random.Generator) -> bytes:
    return body + rng.bytes(int(rng.integers(1, 3 * PAGE)))


def overwritten(body: bytes, rng: np.random.Generator) -> bytes:
    start, length = int(rng.integers(len(body))), int(rng.integers(1, 2 * PAGE))
    with_ = rng.bytes(length) if rng.random() < 0.5 else bytes(length)
    return (body[:start] + with_ + body[start + length :])[: len(body)]


def swapped(body: bytes, rng: np.random.Generator) -> bytes:
    pages = [page(body, number) for number in range(len(body) // PAGE)]
    one, two = rng.integers(len(pages), size=2)
    pages[one], pages[two] = pages[two], pages[one]
    return b"".join(pages)


def replaced(body: bytes, rng: np.random.Generator) -> bytes:
    return [b"", b"\n", rng.bytes(5000), body[:16], b"SQLite format 3\0" + rng.bytes(5000)][rng.integers(5)]


BYTES: list[Callable[[bytes, np.random.Generator], bytes]] = [
    flipped, flipped, early_flip, cut, lengthened, overwritten, swapped, replaced,
]  # fmt: skip

STATEMENTS = [
    "DROP TABLE entry", "DROP TABLE head", "DROP TABLE budget", "DELETE FROM entry", "DELETE FROM head",
    "DELETE FROM entry WHERE number = {row}", "DELETE FROM entry WHERE kind = 'reservation'",
    "DELETE FROM entry WHERE number = (SELECT MAX(number) FROM entry)",
    "UPDATE entry SET number = number + 100 WHERE number = {row}",
    "UPDATE entry SET number = -number WHERE number = {row}",
    "UPDATE entry SET body = replace(body, '3.0', '9.0') WHERE kind = 'budget'",
    "UPDATE entry SET body = replace(body, '0.1', '0.0') WHERE number = {row}",
    "UPDATE entry SET body = CAST(body AS BLOB) || x'ff' WHERE number = {row}",
    "UPDATE entry SET body = '{{' WHERE number = {row}", "UPDATE entry SET kind = 'commit' WHERE number = {row}",
    "UPDATE entry SET digest = '' WHERE number = {row}", "UPDATE entry SET kind = 7, body = 8 WHERE number = {row}",
    "UPDATE entry SET body = (SELECT body FROM entry WHERE number = 1) WHERE number = {row}",
    "INSERT INTO entry SELECT number + 100, kind, body, digest FROM entry WHERE number = {row}",
    "INSERT INTO head SELECT * FROM head", "UPDATE head SET count = count - 1", "UPDATE head SET count = 'many'",
    "UPDATE head SET digest = salt", "UPDATE head SET salt = digest", "UPDATE head SET salt = ''",
    "PRAGMA user_version = {row}", "PRAGMA user_version = 0", "PRAGMA application_id = {row}", "VACUUM",
    "CREATE TABLE other (number)", "CREATE TRIGGER quiet AFTER INSERT ON entry BEGIN DELETE FROM entry; END",
    "CREATE INDEX quick ON entry (kind)", "ALTER TABLE entry RENAME COLUMN kind TO sort", "PRAGMA journal_mode = WAL",
]  # fmt: skip


def edited(path: Path, rng: np.random.Generator) -> str:
    """One edit by SQL."""
    statement = str(rng.choice(STATEMENTS)).format(row=int(rng.integers(1, 12)))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)
    return statement


def left_beside(path: Path, specimen: Specimen, rng: np.random.Generator) -> str:
    """A journal or a log that is not of the last write, maybe damaged itself, beside a ledger that may be damaged."""
    kinds = ("noise", "stranger's", "older", "other's log", "stranger's log", "empty log")
    kind = str(rng.choice(kinds))
    one, two = sorted(rng.choice(len(specimen.states), size=2, replace=False))
    body, suffix = {
        "noise": (rng.bytes(int(rng.integers(1, 3 * PAGE))), str(rng.choice(["-journal", "-wal"]))),
        "stranger's": (undoing(specimen.stranger, specimen.body), "-journal"),
        "older": (undoing(specimen.states[one], specimen.states[two]), "-journal"),
        "other's log": (logged(specimen.body, path.parent), "-wal"),
        "stranger's log": (logged(specimen.stranger, path.parent), "-wal"),
        "empty log": (b"", "-wal"),
    }[kind]
    if body and rng.random() < 0.3:
        body = flipped(body, rng)
    Path(f"{path}{suffix}").write_bytes(body)
    if rng.random() < 0.3:
        path.write_bytes(early_flip(path.read_bytes(), rng))
    return kind


def damage(path: Path, specimen: Specimen, rng: np.random.Generator) -> str:
    """Damage the ledger at `path` in one of many ways, and say which."""
    draw = rng.random()
    if draw < 0.55:
        way = BYTES[rng.integers(len(BYTES))]
        path.write_bytes(way(path.read_bytes(), rng))
        return way.__name__
    return edited(path, rng) if draw < 0.75 else left_beside(path, specimen, rng)


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Or it hangs."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def verdict(path: Path, truth: Any, graph: Graph) -> str:
    """What became of the ledger: refused, alike (and it counts on), silent, hang, or a raw exception."""
    try:
        with within(60):
            if contents(path) != truth:
                return "silent"
            try:
                entry = Ledger(path).reserve(graph, small_plan())
            except Overspent:
                return "silent"
            told = contents(path)[1]
            return "alike" if [item for item in told if item["id"] != entry] == truth[1] else "silent"
    except GraphveilError:
        return "refused"
    except TimeoutError:
        return "hang"
    except Exception as error:
        return f"raw {type(error).__name__}: {error}"


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """The verdicts, and the ways that were neither refused nor alike."""
    rng = np.random.default_rng(seed)
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    patience, ledger_file._PATIENCE = ledger_file._PATIENCE, 0.5
    try:
        with tempfile.TemporaryDirectory() as scratch:
            specimen = Specimen.made(Path(scratch))
            truth = contents(Path(scratch) / "own.db")
            for turn in range(count):
                folder = Path(scratch) / f"{turn}"
                folder.mkdir()
                path = folder / "ledger.db"
                path.write_bytes(specimen.body)
                way = damage(path, specimen, rng)
                found = verdict(path, truth, specimen.graph)
                verdicts[found.split()[0]] += 1
                if found not in ("refused", "alike"):
                    wrong.append(f"{turn}: {way}: {found}")
                shutil.rmtree(folder)
    finally:
        ledger_file._PATIENCE = patience
    return verdicts, wrong


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    verdicts, wrong = run(*(given + [1000, 0][len(given) :]))
    print(*wrong, sep="\n")
    print(", ".join(f"{verdicts[kind]} {kind}" for kind in ("refused", "alike", "silent", "raw", "hang")))
    sys.exit(bool(wrong))
