"""An audit of a whole stream: `python benchmarks/audit_streams.py [--runs 2000] [--epsilon 2] [--directed] [--broken]`.

Two streams of five periods differ in one edge, which arrives in the first, vanishes and comes back. Its ends are
counted in different periods. The attacker knows everything else, sees what every period tells, and weighs all of it by
the exact likelihood. The certified lower bound must stay below the claim of one release. With `--broken` the journal
forgets what was counted, so that the edge counts in every period: the same audit must refute the claim.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from graphveil.core import Adjacency, Reading
from graphveil.evidence.bounds import Scores, finding
from graphveil.graph.arcs import Csr, Ids
from graphveil.graph.graph import Graph
from graphveil.methods.hearsay import Hearsay
from graphveil.privacy import accounting
from graphveil.privacy.journal import Journal, StreamTerms
from graphveil.privacy.noise import Seeded, Stream
from graphveil.privacy.period import Period, PeriodSession
from graphveil.release.finding import Finding

Edge = tuple[int, int]


@dataclass(frozen=True)
class Moment:
    """One period: which edges there are, whose rows are refreshed, and what every node says."""

    edges: frozenset[Edge]
    rows: tuple[int, ...]
    said: tuple[int, ...]


@cache
def graph_of(moment: Moment, undirected: bool) -> Graph:
    """The graph of a period: everybody trains, and says its label."""
    ends = np.array(sorted(moment.edges), np.int64).reshape(-1, 2).T
    both = np.concatenate([ends, ends[::-1]], axis=1) if undirected else ends
    nodes, y = len(moment.said), torch.tensor(moment.said)
    train, none = torch.ones(nodes, dtype=torch.bool), torch.zeros(nodes, dtype=torch.bool)
    adj = Csr.from_edge_index(both[0], both[1], nodes)
    return Graph(torch.ones(nodes, 1), adj, y, 2, undirected, train, none, none, "stream", "all train")


def told(folder: Path, moments: Sequence[Moment], undirected: bool, noise: float, source: Stream) -> list[Ids]:
    """What each period of a stream tells, int64 [rows, classes] each, by the journal in `folder`, which is fresh."""
    answers = []
    for number, moment in enumerate(moments):
        graph = graph_of(moment, undirected)
        adjacency = Adjacency.of("edge", undirected)
        public, sealed = graph.seal(adjacency)
        plan = Hearsay().plan(public, adjacency, Reading.SOUND, noise)
        with Journal.held(folder, fresh=number == 0) as journal:
            places, names = journal.places(None, graph.num_nodes)
            terms = StreamTerms.of("audit", plan, 1e-5, 2, source.secure)
            before = journal.evidence(places).counts if number else torch.zeros(graph.num_nodes, 2, dtype=torch.int64)
            period = Period(journal, terms, str(number), places, names, np.array(moment.rows, np.int64))
            after = PeriodSession(public, sealed, plan, source, period).count("hop", graph.y, 2).counts
        answers.append((after - before)[list(moment.rows)].numpy())
    return answers


def streams() -> tuple[list[Moment], list[Moment]]:
    """Two neighbours, with and without the edge (0, 1)."""
    life, others = (True, False, True, True, True), frozenset({(1, 2), (2, 3)})
    rows = ((0, 2), (0, 1, 2, 3), (0, 3), (1, 2), (0, 1, 2, 3))
    said = ((0, 1, 0, 1), (0, 1, 0, 1), (1, 1, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0))
    parts = list(zip(life, rows, said, strict=True))
    present = [Moment(others | {(0, 1)} if there else others, some, words) for there, some, words in parts]
    return present, [Moment(others, some, words) for _, some, words in parts]


def audit(runs: int, epsilon: float, undirected: bool = True, broken: bool = False, seed: int = 0) -> Finding:
    """What `runs` runs on each of two neighbouring streams certify."""
    adjacency, present_absent = Adjacency.of("edge", undirected), streams()
    noise = (2 if undirected else 1) / epsilon * (1 + 1e-9)
    public, _ = graph_of(present_absent[0][0], undirected).seal(adjacency)
    claimed = accounting.epsilon(Hearsay().plan(public, adjacency, Reading.SOUND, noise), 1e-5)
    with ExitStack() as stack:
        # Nobody pulls the plug here.
        stack.enter_context(patch.object(os, "fsync", lambda _: None))
        if broken:
            stack.enter_context(patch.object(Journal, "uncounted", lambda _, rows, __: np.ones(len(rows), bool)))
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        exact = [
            told(place / f"exact{world}", each, undirected, 0.0, Seeded(0)) for world, each in enumerate(present_absent)
        ]

        def score(world: int, run: int) -> float:
            heard = told(
                place / f"{world}-{run}", present_absent[world], undirected, noise, Seeded(seed + 2 * run + world)
            )
            parts = zip(heard, *exact, strict=True)
            return float(sum((abs(x - without) - abs(x - with_)).sum() for x, with_, without in parts)) / noise

        scores = [np.array([score(world, run) for run in range(runs)]) for world in (0, 1)]
    return finding("the whole stream, by exact likelihood", Scores(*scores), claimed, 1e-5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--broken", action="store_true")
    given = parser.parse_args()
    found = audit(given.runs, given.epsilon, not given.directed, given.broken)
    print(f"claimed {found.claimed:.4f}, certified above {found.lower:.4f} over {found.runs} runs: {found.verdict}")
