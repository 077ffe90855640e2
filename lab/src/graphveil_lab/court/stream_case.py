"""The sound claim of a growing graph in court: one edge's whole life costs what one release costs.

Two streams of five periods differ in one edge, which arrives in the first, vanishes and comes back; its ends are
counted in different periods. The attacker knows everything else and weighs all that was told by its exact likelihood.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from graphveil.auditing.bounds import Scores
from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.methods.edge.hearsay import Hearsay
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded, Stream
from graphveil.streams.journal import Journal, StreamTerms
from graphveil.streams.period import Period, PeriodSession
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit
from graphveil_lab.court.case import Case, Verdict

Edge = tuple[int, int]

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where journals of games lie: they sync every write, and nobody pulls the plug here."""


@dataclass(frozen=True)
class Moment:
    """One period: which edges there are, whose rows are refreshed, and what every node says."""

    edges: frozenset[Edge]
    rows: tuple[int, ...]
    said: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Lifetime(Case):
    """All periods of a stream together are charged as one release of `hearsay`; expected to stand.

    `drawn` is the share of the noise that is drawn: less than all of it must be caught.
    """

    name: str = "stream-edge"
    claim: str = "all periods of a growing graph hide an edge that came, vanished and came back"
    source: str = "docs/streams.md"
    delta: float = 0.05
    runs: int = 500
    quick: int = 8
    expected: Verdict = "consistent"
    noise: float = 1.0
    undirected: bool = True
    drawn: float = 1.0

    def claimed(self) -> float:
        return accounting.epsilon(_plan(streams()[0][0], self.undirected, self.noise), self.delta)

    def play(self, runs: int, seed: int) -> Scores:
        noise, seeds = self.drawn * self.noise, np.random.default_rng(seed).integers(2**62, size=(2, runs))
        with tempfile.TemporaryDirectory(dir=MEMORY) as place:
            exact = [told(Path(place, f"exact-{at}"), each, self.undirected, 0.0, Seeded(0)) for at, each in _both()]
            worlds = []
            for at, each in _both():
                homes = (Path(place, f"{at}-{run}") for run in range(runs))
                answers = (
                    told(home, each, self.undirected, noise, Seeded(int(one)))
                    for home, one in zip(homes, seeds[at], strict=True)
                )
                worlds.append(np.array([likelier(heard, exact, noise) for heard in answers]))
        return Scores(*worlds)


def _both() -> list[tuple[int, list[Moment]]]:
    return list(enumerate(streams()))


def likelier(heard: Sequence[Ids], exact: Sequence[Sequence[Ids]], noise: float) -> float:
    """By how much, as a logarithm, all answers are likelier where the edge is: sums of |x - b| - |x - a|, by noise."""
    parts = zip(heard, *exact, strict=True)
    return float(sum((abs(x - without) - abs(x - with_)).sum() for x, with_, without in parts)) / noise


def streams() -> tuple[list[Moment], list[Moment]]:
    """Two neighbours, with and without the edge (0, 1)."""
    life, others = (True, False, True, True, True), frozenset({(1, 2), (2, 3)})
    rows = ((0, 2), (0, 1, 2, 3), (0, 3), (1, 2), (0, 1, 2, 3))
    said = ((0, 1, 0, 1), (0, 1, 0, 1), (1, 1, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0))
    parts = list(zip(life, rows, said, strict=True))
    present = [Moment(others | {(0, 1)} if there else others, some, words) for there, some, words in parts]
    return present, [Moment(others, some, words) for _, some, words in parts]


@cache
def graph_of(moment: Moment, undirected: bool) -> Graph:
    """The graph of a period: everybody trains, and says its label."""
    ends = np.array(sorted(moment.edges), np.int64).reshape(-1, 2).T
    both = np.concatenate([ends, ends[::-1]], axis=1) if undirected else ends
    nodes, y = len(moment.said), torch.tensor(moment.said)
    train, none = torch.ones(nodes, dtype=torch.bool), torch.zeros(nodes, dtype=torch.bool)
    adj = Csr.from_edge_index(both[0], both[1], nodes)
    return Graph(torch.ones(nodes, 1), adj, y, 2, undirected, train, none, none, "stream", "all train")


def _plan(moment: Moment, undirected: bool, noise: float) -> Plan:
    adjacency = Adjacency.of(Unit.EDGE, undirected)
    return Hearsay().plan(graph_of(moment, undirected).seal(adjacency)[0], adjacency, Reading.SOUND, noise)


def told(folder: Path, moments: Sequence[Moment], undirected: bool, noise: float, source: Stream) -> list[Ids]:
    """What each period of a stream tells, int64 [rows, classes] each, by the journal in `folder`, which is fresh."""
    answers = []
    for number, moment in enumerate(moments):
        graph, plan = graph_of(moment, undirected), _plan(moment, undirected, noise)
        public, sealed = graph.seal(plan.adjacency)
        with Journal.held(folder, fresh=number == 0) as journal:
            places, names = journal.places(None, graph.num_nodes)
            terms = StreamTerms.of("audit", plan, 1e-5, 2, source.secure)
            before = journal.evidence(places).counts if number else torch.zeros(graph.num_nodes, 2, dtype=torch.int64)
            period = Period(journal, terms, str(number), places, names, np.array(moment.rows, np.int64))
            after = PeriodSession(public, sealed, plan, source, period).count("hop", graph.y, 2).counts
        answers.append((after - before)[list(moment.rows)].numpy())
    return answers
