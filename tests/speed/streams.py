"""Seconds of a period of a growing graph, as its journal grows.

    python tests/speed/streams.py [--edges 1000000] [--nodes 100000] [--periods 100]

Edges of a random graph arrive in equal shares, and only what is new is given. Seconds of every part of a period.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import graphveil as gv
from graphveil.data.arcs import Arcs
from graphveil.data.graph import Graph
from graphveil.privacy.noise import Secure
from graphveil.streams.journal import Journal, StreamTerms
from graphveil.streams.period import Period, PeriodSession
from graphveil.vocabulary import Adjacency, Reading

DELTA = 1e-5


def speed(edges: int, nodes: int, periods: int) -> None:
    """Seconds of a period, but for the training of beliefs and heads, which reads nodes and no edge."""
    draw, classes, share = np.random.default_rng(0), 4, edges // periods
    adjacency, y = Adjacency.of("edge"), torch.from_numpy(draw.integers(0, classes, nodes))
    train, none = torch.ones(nodes, dtype=torch.bool), torch.zeros(nodes, dtype=torch.bool)
    asked = np.sort(draw.choice(nodes, nodes // periods, replace=False))
    print(
        "| periods | ends in the journal | all rows, s | a row in a hundred, s | journal, MB |\n|---|---|---|---|---|"
    )
    seconds: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "journal"
        for number in range(periods):
            ends = draw.integers(0, nodes, (2, share))
            took = []
            # The first half of a period's edges for all rows, the second half for some: what is new is equal.
            for part, rows in ((slice(None, share // 2), np.arange(nodes)), (slice(share // 2, None), asked)):
                adj = Arcs(ends[0, part], ends[1, part], nodes, "edge").cleaned(undirected=True).pack()
                graph = Graph(torch.ones(nodes, 1), adj, y, classes, True, train, none, none, "speed", "all train")
                public, sealed = graph.seal(adjacency)
                plan = gv.methods.Hearsay().plan(public, adjacency, Reading.SOUND, 0.5)
                start = time.perf_counter()
                with Journal.held(place, fresh=not place.exists()) as journal:
                    places, names = journal.places(None, nodes)
                    terms = StreamTerms.of("speed", plan, DELTA, classes, True)
                    period = Period(journal, terms, str(number), places, names, rows)
                    PeriodSession(public, sealed, plan, Secure(), period).count("hop", y, classes)
                    counted = sum(map(len, journal._runs))
                took.append(time.perf_counter() - start)
            seconds.append((took[0], took[1]))
            if (number + 1) % (periods // 10 or 1) == 0:
                last = np.array(seconds[-(periods // 10 or 1) :]).mean(axis=0)
                size = sum(file.stat().st_size for file in os.scandir(place)) / 1e6
                print(f"| {number + 1} | {counted:,} | {last[0]:.2f} | {last[1]:.2f} | {size:.0f} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--periods", type=int, default=100)
    given = parser.parse_args()
    speed(given.edges, given.nodes, given.periods)
