"""The coming period of a growing graph: its journal, open, and the ledger that counts it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import Tampered
from graphveil.privacy.ledger import Ledger
from graphveil.privacy.noise import Stream
from graphveil.runtime.compute import Run
from graphveil.streams.journal import Journal, StreamTerms
from graphveil.streams.period import Period, PeriodSession, refreshed
from graphveil.vocabulary import Plan


@dataclass(frozen=True, eq=False)
class Growth:
    """refresh: whose rows the period counts anew; ledger: that of a stream which is counted; graph: as it knows it."""

    journal: Journal
    refresh: str | Iterable[str | int]
    ledger: Ledger | None
    graph: Graph
    period: int = field(init=False)
    """The number of the coming one, from 1 on."""

    def __post_init__(self) -> None:
        # Kept: the journal moves on while the period is counted.
        object.__setattr__(self, "period", self.journal.period + 1)

    @property
    def goes_on(self) -> bool:
        """Whether there was a period before, whose reservation pays for all later ones."""
        return self.period > 1

    @property
    def stopped(self) -> str:
        """What a run that is stopped leaves, in words."""
        if self.goes_on:
            return "; what the journal has counted stays counted, and the next extend tells it"
        return "; a first period that is stopped cannot be resumed: begin another stream in an empty folder"

    def origin(self) -> dict[str, Any]:
        """What the provenance of a release of the period says beside the rest: all periods are one run."""
        facts: dict[str, Any] = {"period": self.period, "period_token": secrets.token_hex(16)}
        if self.goes_on:
            facts |= {"run": self.journal.terms.run, "ledger_entry": self.journal.terms.entry}
        return facts

    def tell(self, say: Callable[[Ledger, str, Graph, Sequence[str]], None]) -> None:
        """Have the ledger, if one counts the stream, check or note something about a later period."""
        if self.goes_on and self.ledger is not None:
            say(self.ledger, self.journal.terms.entry, self.graph, self.journal.tokens)

    def session(
        self,
        graph: Graph,
        public: Public,
        sealed: Sealed,
        plan: Plan,
        source: Stream,
        terms: StreamTerms,
        token: str,
        run: Run,
    ) -> PeriodSession:
        """One that counts for the period on `graph`; the ledger notes the graph, and then the period."""
        if self.goes_on and terms != self.journal.terms:
            raise Tampered("this graph leads to another plan than the stream's: the release was altered")
        ids = None if graph.ids is None else graph.ids.to_pylist()
        places, names = self.journal.places(ids, graph.num_nodes)
        if self.goes_on:
            known, new, gone = (f"{count:,}" for count in self.journal.turnover(places))
            said = f"{known} nodes are known, {new} are new, {gone} known ones are gone"
            run.progress.note(f"period {self.period}: {said}")
        rows = refreshed(self.refresh, graph, self.journal, places)
        grown, counted = partial(self.tell, Ledger.note_grown), partial(self.tell, Ledger.note_period)
        period = Period(self.journal, terms, token, places, names, rows, grown, counted)
        return PeriodSession(public, sealed, plan, source, period, run)
