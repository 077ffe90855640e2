"""Budgets per dataset: reserve before private data is read, commit after, count all plans together.

Later plans may be chosen in view of earlier releases, so they are counted by `accounting.epsilon_of_chosen`.

One SQLite file that stays with the data holder. A reservation counts as spent from the moment it is
written, so a crash can only waste budget, never overspend it.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphveil import accounting
from graphveil.certificate import describe_plan, rebuild_plan
from graphveil.core import (
    Adjacency,
    InvalidInput,
    Overspent,
    Plan,
    Reading,
    Relation,
    Tampered,
    Unit,
    require_delta,
    require_positive,
)
from graphveil.graph import Graph

_TABLES = """
CREATE TABLE IF NOT EXISTS budget (
    fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL, adjacency TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, opened TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entry (
    id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL REFERENCES budget(fingerprint), method TEXT NOT NULL,
    plan TEXT NOT NULL, committed INTEGER NOT NULL, made TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Account:
    """The state of one dataset's budget. `entries` counts reservations, `open` those never committed.

    `spent` counts towards the budget. What is promised of releases that were chosen one after the other is the budget.
    """

    dataset: str
    fingerprint: str
    adjacency: Adjacency
    epsilon: float
    delta: float
    spent: float
    entries: int
    open: int

    @property
    def left(self) -> float:
        """Epsilon not yet spent at the budget's delta; as epsilons do not simply add up, more or less may fit."""
        return max(self.epsilon - self.spent, 0.0)


class Ledger:
    """Opens (and creates if needed) the ledger file at `path`. Safe for many processes at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._transaction() as database:
                for statement in _TABLES.split(";"):
                    database.execute(statement)
        except (sqlite3.DatabaseError, OSError) as error:
            raise InvalidInput(f"{self.path} is not a usable ledger: {error}") from error

    def open(self, graph: Graph, unit: Unit | str, *, epsilon: float, delta: float) -> None:
        """Give a dataset its budget, once. One dataset is protected under ONE adjacency.

        Releases under another adjacency would not be counted in this one's total, so a second budget
        for the same data is refused.
        """
        require_positive(epsilon, "epsilon")
        require_delta(delta)
        adjacency = Adjacency.of(unit, graph.undirected)
        key = graph.fingerprint()
        with self._transaction() as database:
            if _budget(database, key) is not None:
                raise InvalidInput(
                    f"{graph.name!r} already has a budget ({_adjacency_of(database, key)}); budgets are opened once"
                )
            database.execute(
                "INSERT INTO budget VALUES (?, ?, ?, ?, ?, ?)",
                (key, graph.name, json.dumps(asdict(adjacency)), epsilon, delta, _now()),
            )

    def reserve(self, graph: Graph, plan: Plan, method: str = "") -> str:
        """Count `plan` as spent on `graph`, or raise `Overspent` and change nothing. Returns the entry's id."""
        key, entry = graph.fingerprint(), uuid.uuid4().hex
        with self._transaction() as database:
            row = _budget(database, key)
            if row is None:
                raise InvalidInput(
                    f"{graph.name!r} has no budget in {self.path}; open one with `graphveil ledger open`, "
                    "or Ledger.open(graph, unit, epsilon=..., delta=...)"
                )
            if plan.reading is not Reading.SOUND:
                raise InvalidInput("a budget counts what is proven: reserve the plan of the sound reading")
            near = _adjacency_of(database, key)
            if plan.adjacency != near:
                raise InvalidInput(
                    f"the budget of {graph.name!r} protects {near}; this plan protects {plan.adjacency}. "
                    "Guarantees under different adjacencies do not add up"
                )
            spent = accounting.epsilon_of_chosen([*_plans(database, key), plan], row["epsilon"], row["delta"])
            if not spent <= row["epsilon"]:
                why = "" if spent < math.inf else ": a plan protects nothing, or delta is too small to share out"
                raise Overspent(
                    f"{graph.name!r} has a budget of epsilon {row['epsilon']:g} at delta {row['delta']:g}; "
                    f"with this plan it would spend {spent:.6g}{why}. Nothing was read or reserved"
                )
            database.execute(
                "INSERT INTO entry VALUES (?, ?, ?, ?, 0, ?)",
                (entry, key, method, json.dumps(describe_plan(plan)), _now()),
            )
        return entry

    def commit(self, entry: str) -> None:
        """Note that the release of a reservation was made. It was already counted as spent."""
        with self._transaction() as database:
            if database.execute("UPDATE entry SET committed = 1 WHERE id = ?", (entry,)).rowcount != 1:
                raise InvalidInput(f"no reservation {entry!r} in {self.path}")

    def accounts(self) -> list[Account]:
        """Every dataset's budget and what its entries together have spent."""
        with self._transaction() as database:
            keys = [row["fingerprint"] for row in database.execute("SELECT fingerprint FROM budget ORDER BY opened")]
            return [_account(database, key) for key in keys]

    def account(self, graph: Graph) -> Account:
        """The budget of one dataset."""
        with self._transaction() as database:
            if _budget(database, graph.fingerprint()) is None:
                raise InvalidInput(f"{graph.name!r} has no budget in {self.path}")
            return _account(database, graph.fingerprint())

    def entries(self) -> list[dict[str, Any]]:
        """Every reservation, oldest first, as plain values; `epsilon` is what its plan alone spends."""
        with self._transaction() as database:
            rows = database.execute(
                "SELECT id, name AS dataset, method, plan, delta, committed, made FROM entry JOIN budget "
                "USING (fingerprint) ORDER BY made, entry.rowid"
            ).fetchall()
        return [_entry(row) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Take the write lock first (IMMEDIATE): readers that later write would deadlock otherwise."""
        database = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
        database.row_factory = sqlite3.Row
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
        finally:
            database.close()


def _entry(row: sqlite3.Row) -> dict[str, Any]:
    spent = accounting.epsilon(rebuild_plan(json.loads(row["plan"])), row["delta"])
    told = {name: row[name] for name in ("id", "dataset", "method")}
    return {**told, "epsilon": spent, "committed": bool(row["committed"]), "made": row["made"]}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _budget(database: sqlite3.Connection, key: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = database.execute("SELECT * FROM budget WHERE fingerprint = ?", (key,)).fetchone()
    return row


def _adjacency_of(database: sqlite3.Connection, key: str) -> Adjacency:
    row = _budget(database, key)
    if row is None:
        raise Tampered(f"the ledger lost the budget of {key}")
    near = json.loads(row["adjacency"])
    return Adjacency(Unit(near["unit"]), Relation(near["relation"]), near["undirected"])


def _plans(database: sqlite3.Connection, key: str) -> list[Plan]:
    rows = database.execute("SELECT plan FROM entry WHERE fingerprint = ? ORDER BY rowid", (key,)).fetchall()
    return [rebuild_plan(json.loads(row["plan"])) for row in rows]


def _account(database: sqlite3.Connection, key: str) -> Account:
    row = _budget(database, key)
    if row is None:
        raise Tampered(f"the ledger lost the budget of {key}")
    counts = database.execute(
        "SELECT COUNT(*) AS entries, COALESCE(SUM(1 - committed), 0) AS open FROM entry WHERE fingerprint = ?",
        (key,),
    ).fetchone()
    return Account(
        dataset=row["name"],
        fingerprint=key,
        adjacency=_adjacency_of(database, key),
        epsilon=row["epsilon"],
        delta=row["delta"],
        spent=accounting.epsilon_of_chosen(_plans(database, key), row["epsilon"], row["delta"]),
        entries=counts["entries"],
        open=counts["open"],
    )
