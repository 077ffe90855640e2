"""Budgets per dataset: reserve before private data is read, commit after, count all plans together.

Later plans may be chosen in view of earlier releases, so they are counted by `accounting.adaptive_epsilon`.

One file (`ledger_file`) that stays with the data holder. A reservation counts as spent from the moment it is
written, so a crash can only waste budget, never overspend it.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from graphveil.checks import require_delta, require_positive
from graphveil.codec import rounded
from graphveil.data.graph import Graph
from graphveil.data.identity import training_digest
from graphveil.data.sealing import OUTSIDE_UNPROTECTED
from graphveil.errors import GraphveilError, InvalidInput, Overspent, Tampered
from graphveil.mechanisms.described import rebuild_plan
from graphveil.privacy import accounting
from graphveil.privacy.ledger_file import Book, LedgerFile, Line
from graphveil.runtime.html import listing
from graphveil.vocabulary import Adjacency, Plan, Reading, Relation, Unit

_TURNS = 4
"""So often a total is computed outside the write lock. If others write each time, it is computed within."""


@dataclass(frozen=True)
class Account:
    """The state of one dataset's budget. `entries` counts reservations, `open` those never committed.

    `spent` counts towards the budget. What is promised of releases that were chosen one after the other is the budget.
    `fingerprint` is the dataset's hash with the salt of this ledger: no other file has it.
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
    """The ledger file at `path`, made when the first budget is opened. Safe for many processes of a machine at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file = LedgerFile(path)
        if self._file.exists:
            self._budgets(self._file.read())

    def open(self, graph: Graph, unit: Unit | str, *, epsilon: float, delta: float) -> None:
        """Give a dataset its budget, once. One dataset is protected under ONE adjacency.

        Releases under another adjacency would not be counted in this one's total, so a second budget
        for the same data is refused.
        """
        near = Adjacency.of(unit, graph.undirected)
        limit = {"epsilon": require_positive(epsilon, "epsilon"), "delta": require_delta(delta)}
        content = graph.fingerprint()

        def line(book: Book) -> Line:
            said = {"name": graph.name, "adjacency": asdict(near), **limit, "made": _now()}
            return Line.of("budget", dataset=book.known(content), **said)

        if not self._file.exists and self._file.create(lambda book: [line(book)]):
            return
        with self._file.written("No budget was opened.") as (book, append):
            budget = self._budgets(book).get(book.known(content))
            if budget is not None:
                raise InvalidInput(
                    f"{graph.name!r} already has a budget ({budget.adjacency}); budgets are opened once: `graphveil "
                    "ledger show` says what is left of it"
                )
            append(line(book))

    def reserve(self, graph: Graph, plan: Plan, method: str = "") -> str:
        """Count `plan` as spent on `graph`, or raise `Overspent` and change nothing. Returns the entry's id.

        What all plans spend is computed before the write lock is taken, and holds if no other was reserved meanwhile.
        """
        content, entry, text = graph.fingerprint(), uuid.uuid4().hex, _text_of(plan)
        turn = 0
        while True:
            before = self._covering(self._file.read(), graph, content, plan, text)
            with self._file.written("Nothing was reserved.") as (book, append):
                turn += 1
                if turn == _TURNS or self._budget(book, graph, content).plans == before.plans:
                    self._covering(book, graph, content, plan, text)
                    said = {"dataset": book.known(content), "method": method, "plan": text, "made": _now()}
                    append(Line.of("reservation", id=entry, train=training_digest(graph), **said))
                    return entry

    def commit(self, entry: str) -> None:
        """Note that the release of a reservation was made. It was already counted as spent."""
        with self._file.written(f"{entry} stays uncommitted, and counts as spent.") as (book, append):
            found = {key: done for budget in self._budgets(book).values() for key, done in budget.committed.items()}
            if entry not in found:
                raise InvalidInput(f"no reservation {entry!r} in {self.path}")
            if not found[entry]:
                append(Line.of("commit", id=entry, made=_now()))

    def require_stream(self, entry: str, graph: Graph, tokens: Sequence[str]) -> None:
        """The reservation `entry` is that of a stream whose journal has these tokens, and may go on on `graph`."""
        self._stream(self._file.read(), entry, graph, graph.fingerprint(), tokens)

    def note_grown(self, entry: str, graph: Graph, tokens: Sequence[str]) -> None:
        """Note that `graph` is the data of the reservation `entry`, grown: all that runs on either is one budget's.

        Costs nothing: in a stream every edge is counted once (docs/streams.md), which was reserved at its beginning.
        Said before the journal has the period, so that whoever is killed in between leaves no graph unknown.
        """
        content = graph.fingerprint()
        with self._file.written("The grown graph was not noted.") as (book, append):
            if self._stream(book, entry, graph, content, tokens) is None:
                append(Line.of("grown", id=entry, dataset=book.known(content), made=_now()))

    def note_period(self, entry: str, graph: Graph, tokens: Sequence[str]) -> None:
        """Note the last of a journal's `tokens`: whatever journal has another there is no longer this stream's."""
        content = graph.fingerprint()
        with self._file.written("The period was not noted.") as (book, append):
            self._stream(book, entry, graph, content, tokens[:-1])
            said = {"number": len(tokens), "token": tokens[-1], "made": _now()}
            append(Line.of("period", id=entry, dataset=book.known(content), **said))

    def accounts(self) -> list[Account]:
        """Every dataset's budget and what its entries together have spent; the graphs of a stream are one dataset."""
        budgets = self._budgets(self._file.read()).items()
        return [_account(key, budget) for key, budget in budgets if key == budget.key]

    def account(self, graph: Graph) -> Account:
        """The budget of one dataset."""
        book, content = self._file.read(), graph.fingerprint()
        budget = self._budget(book, graph, content)
        return _account(budget.key, budget)

    def entries(self) -> list[dict[str, Any]]:
        """Every reservation, oldest first, as plain values; `epsilon` is what its plan alone spends."""
        book = self._file.read()
        budgets = self._budgets(book)
        said = [line.said for line in book.lines if line.kind == "reservation"]
        return [_entry(item, budgets[item["dataset"]]) for item in said]

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Every budget; a file that is not there yet has none."""
        rows = [
            (
                one.dataset,
                str(one.adjacency),
                rounded(one.epsilon),
                rounded(one.spent),
                rounded(one.left, up=False),
                f"{one.delta:.3g}",
                one.entries,
            )
            for one in (self.accounts() if self._file.exists else ())
        ]
        columns = ("dataset", "protects", "epsilon", "spent", "left", "delta", "entries")
        return listing(f"Ledger {self.path}", columns, rows)

    def _budgets(self, book: Book) -> dict[str, _Budget]:
        """Every budget by its dataset, oldest first, with what was reserved of it."""
        budgets: dict[str, _Budget] = {}
        try:
            for line in book.lines:
                _note(budgets, line)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise Tampered(f"{self.path} holds a line that makes no sense: {error!r}") from error
        return budgets

    def _budget(self, book: Book, graph: Graph, content: str) -> _Budget:
        found = self._budgets(book).get(book.known(content))
        if found is None:
            raise InvalidInput(
                f"{graph.name!r} has no budget in {self.path}; open one with `graphveil ledger open`, "
                "or Ledger.open(graph, unit, epsilon=..., delta=...)"
            )
        return found

    def _stream(self, book: Book, entry: str, graph: Graph, content: str, tokens: Sequence[str]) -> _Budget | None:
        """The budget that `graph` has, which is none or that of the stream `entry`.

        All periods that were noted of the stream are among `tokens`, those of its journal, each at its place.
        """
        budgets = self._budgets(book)
        mine = next((budget for budget in budgets.values() if entry in budget.committed), None)
        if mine is None:
            raise InvalidInput(f"no reservation {entry!r} in {self.path}: give the ledger that the stream began with")
        noted = mine.periods.get(entry, {})
        if (last := max(noted, default=1)) > len(tokens):
            raise Tampered(
                f"{self.path} knows {last} periods of this stream, and its journal {len(tokens)}: it is an older copy, "
                "and would count edges again. Restore the newest one"
            )
        if other := [number for number, token in noted.items() if tokens[number - 1] != token]:
            raise Tampered(
                f"{self.path} and the journal went different ways from period {other[0]} on or before: somebody used a "
                "copy of the journal. Edges that the other copy counted are not known here; go on with that one"
            )
        found = budgets.get(book.known(content))
        if found is not None and found is not mine:
            raise InvalidInput(
                f"{graph.name!r} has a budget of its own in {self.path}, and a stream's graphs share that of its "
                "beginning: what was spent on either would not be counted on the other"
            )
        return found

    def _covering(self, book: Book, graph: Graph, content: str, plan: Plan, text: str) -> _Budget:
        """The budget of `graph`, if it covers `plan` too."""
        budget = self._budget(book, graph, content)
        if plan.reading is not Reading.SOUND:
            raise InvalidInput("a budget counts what is proven: reserve the plan of the sound reading")
        if plan.adjacency != budget.adjacency:
            raise InvalidInput(
                f"the budget of {graph.name!r} protects {_whole(budget.adjacency)}; this plan protects "
                f"{_whole(plan.adjacency)}. Guarantees under different adjacencies do not add up"
            )
        budget.require_same_outsiders(graph, plan)
        spent = _spent((*budget.plans, text), budget.epsilon, budget.delta)
        if not spent <= budget.epsilon:
            why = "" if spent < math.inf else ": a plan protects nothing, or delta is too small to share out"
            raise Overspent(
                f"{graph.name!r} has a budget of epsilon {budget.epsilon:g} at delta {budget.delta:g}; "
                f"with this plan it would spend {spent:.6g}{why}. Nothing was read or reserved"
            )
        return budget


@dataclass
class _Budget:
    """One dataset's budget; `plans` as JSON, hashes of their training masks, and `committed` of every entry's id, all
    oldest first. `periods`: tokens of a stream by number, by its entry's id. `key`: the dataset as it was first.
    """

    key: str
    name: str
    adjacency: Adjacency
    epsilon: float
    delta: float
    plans: list[str] = field(default_factory=list)
    trains: list[str] = field(default_factory=list)
    committed: dict[str, bool] = field(default_factory=dict)
    periods: dict[str, dict[int, str]] = field(default_factory=dict)

    def require_same_outsiders(self, graph: Graph, plan: Plan) -> None:
        """Who is read freely by one plan, being outside its training, is not to be protected by another."""
        mine = training_digest(graph)
        for text, train in zip(self.plans, self.trains, strict=True):
            if train != mine and OUTSIDE_UNPROTECTED in (*plan.assumes, *_plan_of(text).assumes):
                raise InvalidInput(
                    f"the budget of {graph.name!r} was used with other training nodes, and in one of both runs those "
                    "outside training are not protected: somebody would be promised what the other run has told. Keep "
                    "to one split for all runs of a dataset, or use methods that read training nodes alone, such as "
                    "dpsgd. Nothing was read or reserved"
                )


def _note(budgets: dict[str, _Budget], line: Line) -> None:
    """One line more; what contradicts the lines before it is an error."""
    said = line.said
    if line.kind == "budget" and said["dataset"] not in budgets:
        near = said["adjacency"]
        adjacency = Adjacency(Unit(near["unit"]), Relation(near["relation"]), bool(near["undirected"]))
        epsilon, delta = require_positive(said["epsilon"], "epsilon"), require_delta(said["delta"])
        budgets[said["dataset"]] = _Budget(said["dataset"], str(said["name"]), adjacency, epsilon, delta)
    elif line.kind == "reservation" and not any(said["id"] in budget.committed for budget in budgets.values()):
        budget = budgets[said["dataset"]]
        budget.plans.append(said["plan"])
        budget.trains.append(str(said["train"]))
        budget.committed[said["id"]] = False
    elif line.kind == "commit":
        (budget,) = {id(each): each for each in budgets.values() if said["id"] in each.committed}.values()
        budget.committed[said["id"]] = True
    elif line.kind in ("grown", "period"):
        (budget,) = {id(each): each for each in budgets.values() if said["id"] in each.committed}.values()
        if budgets.setdefault(said["dataset"], budget) is not budget:
            raise ValueError("a period of another budget's data")
        if line.kind == "period":
            noted = budget.periods.setdefault(said["id"], {})
            if not max(noted, default=1) < int(said["number"]):
                raise ValueError("a period twice")
            noted[int(said["number"])] = str(said["token"])
    else:
        raise ValueError(f"{line.kind!r} twice, or unknown")


def _text_of(plan: Plan) -> str:
    """The plan as the ledger keeps it, from which it must come back: else it could not be counted later."""
    text = json.dumps(plan.describe())
    try:
        same = _plan_of(text) == plan
    except GraphveilError as error:
        raise InvalidInput(f"a ledger could not count this plan again: {error}") from error
    if not same:
        raise InvalidInput("a ledger could not count this plan again: it is not what its description says")
    return text


@lru_cache(maxsize=4096)
def _plan_of(text: str) -> Plan:
    try:
        return rebuild_plan(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Tampered(f"the ledger holds a plan that makes no sense: {error!r}") from error


@lru_cache(maxsize=256)
def _spent(plans: tuple[str, ...], epsilon: float, delta: float) -> float:
    """What `plans` use of a budget: a function of what the ledger's checksums cover, so that it can be kept."""
    return accounting.adaptive_epsilon([_plan_of(text) for text in plans], epsilon, delta)


def _account(key: str, budget: _Budget) -> Account:
    return Account(
        dataset=budget.name,
        fingerprint=key,
        adjacency=budget.adjacency,
        epsilon=budget.epsilon,
        delta=budget.delta,
        spent=_spent(tuple(budget.plans), budget.epsilon, budget.delta),
        entries=len(budget.committed),
        open=sum(not done for done in budget.committed.values()),
    )


def _entry(said: dict[str, Any], budget: _Budget) -> dict[str, Any]:
    return {
        "id": said["id"],
        "dataset": budget.name,
        "method": said["method"],
        "epsilon": accounting.epsilon(_plan_of(said["plan"]), budget.delta),
        "committed": budget.committed[said["id"]],
        "made": said["made"],
    }


def _whole(adjacency: Adjacency) -> str:
    """In words that differ wherever adjacencies do."""
    return f"{adjacency} ({'un' if adjacency.undirected else ''}directed graph)"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
