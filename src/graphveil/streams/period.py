"""One period of a growing graph: counts the ends that were never counted, journals them, and only then tells.

The proof of what all periods together cost is docs/streams.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from graphveil.checks import quoted
from graphveil.data.arcs import Ids
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import GraphveilError, InvalidInput, PrivateAccess
from graphveil.mechanisms.geometric_count import Marks, Tally, ends
from graphveil.privacy.noise import Stream
from graphveil.privacy.session import Session
from graphveil.runtime.compute import HERE, Run
from graphveil.streams.journal import Evidence, Journal, StreamTerms
from graphveil.vocabulary import Plan, Query, SealedGraph

REFRESHES = ("doubling", "all", "new", "none")
"""Rules for which rows are refreshed. None of them looks at edges."""


@dataclass(frozen=True, eq=False)
class Period:
    """What one period may count, and where it writes that down.

    places: the journal's number of every node of the graph, int64 [n]; rows: positions of the nodes whose rows are
    refreshed, int64 [k], ascending, a public choice; announced: called before the journal has it; noted: called when it
    has it all, before anything is told.
    """

    journal: Journal
    terms: StreamTerms
    token: str
    places: Ids
    names: tuple[str, ...] | None
    rows: Ids
    announced: Callable[[], None] = lambda: None
    noted: Callable[[], None] = lambda: None
    _counted: list[tuple[Ids, Ids]] = field(default_factory=list, init=False)

    def marks(self, sealed: SealedGraph, said: Ids, classes: int) -> Marks:
        """The cells that ends of edges mark which were never counted: row among `rows` * classes + what is said.

        An edge is one contribution with a mark for either end; an end that is not to be counted marks nothing, -1.
        """
        sources, targets = ends(sealed.adj, sealed.public.undirected)
        place = np.full(len(self.places), -1)
        place[self.rows] = np.arange(len(self.rows))
        pairs = [(targets, sources), (sources, targets)] if sealed.public.undirected else [(targets, sources)]
        cells = np.full((len(sources), len(pairs)), -1)
        for mark, (rows, others) in enumerate(pairs):
            due = np.flatnonzero(place[rows] >= 0)
            due = due[self.journal.uncounted(self.places[rows[due]], self.places[others[due]])]
            cells[due, mark] = place[rows[due]] * classes + said[others[due]]
            self._counted.append((self.places[rows[due]], self.places[others[due]]))
        return Marks(cells, len(self.rows) * classes)

    def commit(self, told: Ids) -> Evidence:
        """Write down what was counted and is to be told, int64 [k, c]; gives all that was told of the graph's nodes."""
        targets, sources = (np.concatenate(each) for each in zip(*self._counted, strict=True))
        count = len(self.names) if self.names is not None else len(self.places)
        self.announced()
        self.journal.commit(self.terms, self.token, (targets, sources), self.places[self.rows], told, self.names, count)
        self.noted()
        return self.journal.evidence(self.places)


class PeriodSession(Session):
    """A session whose counts are those of one period."""

    def __init__(
        self, public: Public, sealed: Sealed, plan: Plan, source: Stream, period: Period, run: Run = HERE
    ) -> None:
        super().__init__(public, sealed, plan, source, run=run)
        self._period = period

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:  # noqa: ARG002
        """Refused: what is asked otherwise than by `count` is in no journal, and would cost again in every period."""
        raise PrivateAccess(f"step {name!r} of a growing graph is asked by count alone, which journals it")

    def count(self, name: str, said: Tensor, classes: int) -> Evidence:
        """Neighbours by what they say, int64 [n] of 0..classes-1: this period's with noise, and all that was told.

        The step `name` must be a `Tally` with a mark for either end.
        """
        marks, spoken = self.plan.act(name, Tally).marks, said.cpu().numpy()
        if marks != 1 + self.public.undirected:
            raise GraphveilError(f"step {name!r} charges {marks} mark(s), and an edge has {1 + self.public.undirected}")
        noisy = super().release(name, lambda sealed: self._period.marks(sealed, spoken, classes))
        told = self._period.commit(noisy.cpu().numpy().reshape(-1, classes))
        return Evidence(told.counts.to(said.device), told.refreshes.to(said.device))


def refreshed(rule: str | Iterable[str | int], graph: Graph, journal: Journal, places: Ids) -> Ids:
    """Positions of the nodes of `graph` whose rows are refreshed, int64 [k], ascending: never by a look at edges.

    rule: one of `REFRESHES`, or the ids of nodes that are asked about (rows of a graph without ids).
    """
    if not isinstance(rule, str):
        return _asked(rule, graph)
    if rule not in REFRESHES:
        raise InvalidInput(f"unknown refresh={rule!r}; use one of: {', '.join(REFRESHES)}, or give ids of nodes")
    ages, refreshes = journal.ages(places)
    never = refreshes == 0
    due = {"all": never | True, "new": never, "none": never & False, "doubling": never | (ages & (ages - 1) == 0)}
    return np.flatnonzero(due[rule])


def _asked(ids: Iterable[str | int], graph: Graph) -> Ids:
    """Positions of the nodes of these ids."""
    names = range(graph.num_nodes) if graph.ids is None else graph.ids.to_pylist()
    known = {name: position for position, name in enumerate(names)}
    if not isinstance(ids, Iterable):
        raise InvalidInput(f"refresh={ids!r} is no rule and no list of ids; use one of: {', '.join(REFRESHES)}")
    asked = list(ids)
    for each in asked:
        # True is 1 to Python, so that a mask would be read as the nodes 0 and 1.
        if isinstance(each, bool | np.bool_):
            raise InvalidInput("refresh: a mask is not taken; give the ids, or the rows of a graph without ids")
        if not isinstance(each, Hashable) or each not in known:
            raise InvalidInput(f"refresh: {quoted(each)} is no id of a node of {graph.name!r}")
    return np.unique(np.array([known[each] for each in asked], np.int64))
