"""Killed periods: `python tests/fuzz/kill_streams.py [COUNT] [SEED]` kills COUNT processes (200) that extend a release.

A process extends a growing graph again and again, saves each release, and tells that it did. It is killed by SIGKILL at
a random moment: half of them anywhere, half within some milliseconds of the journal being written. There is no noise,
so that what was told can be compared with what was counted. Then the journal must open, have counted every end once,
have told as many as it counted, have kept all that it had counted before, and go on from the release that is there.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

import graphveil as gv
from graphveil.data.arcs import Csr, Ids
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.streams.journal import Journal

ROUND = 20
"""So many processes are killed over one stream; then comes a fresh one."""

METHOD = gv.methods.Hearsay(folds=2, hidden=2, head=2)


def some(graph: Graph, draw: random.Random) -> Graph:
    """The graph with half of its edges: some vanish, some come back."""
    sources, targets = graph.adj.indices, graph.adj.targets()
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    kept = (low * 7919 + high * 104729 + draw.randrange(1000)) % 1000 < 500
    return graph.with_arcs(Csr.from_edge_index(sources[kept], targets[kept], graph.num_nodes))


def extend_for_ever(place: Path, graph: Graph, pipe: int, seed: int) -> None:
    """Extend and save, and tell; also that a journal is about to be written."""
    draw, commit = random.Random(seed), Journal.commit

    def commit_aloud(*given: Any) -> None:
        os.write(pipe, b"counts\n")
        commit(*given)

    Journal.commit = commit_aloud  # type: ignore[assignment, method-assign]  # in this process alone
    while True:
        rule: Any = draw.choice(["all", "doubling", "new", [draw.randrange(graph.num_nodes) for _ in range(9)]])
        made = gv.extend(gv.load(place / "release"), some(graph, draw), journal=place / "journal", refresh=rule, seed=1)
        made.save(place / "release")
        os.write(pipe, f"{made.certificate.provenance.period}\n".encode())


def killed(place: Path, graph: Graph, draw: random.Random) -> int:
    """A process that extends until it is killed; the last period that it told of."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            extend_for_ever(place, graph, writing, draw.randrange(2**31))
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(writing)
    words = b""
    if draw.random() < 0.5:
        wanted = draw.randrange(1, 3)
        while words.count(b"counts\n") < wanted:
            words += os.read(reading, 1)
        time.sleep(draw.uniform(0, 0.008))
    else:
        time.sleep(draw.uniform(0, 1.5))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as rest:
        words += rest.read()
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise AssertionError(f"a process ended by itself: {status}")
    told = [int(word) for word in words.split() if word.isdigit()]
    return max(told, default=0)


def ends_of(journal: Journal) -> Ids:
    """Every end that was counted, ascending."""
    return np.sort(np.concatenate([np.empty(0, np.int64), *journal._runs]))


def losses(place: Path, graph: Graph, told: int, before: Ids) -> tuple[list[str], Ids, bool]:
    """What is wrong after a kill, all ends that are counted, and whether a period was journalled and not released."""
    with Journal.held(place / "journal", fresh=False) as journal:
        ends, period = ends_of(journal), journal.period
        counts = journal.evidence(np.arange(graph.num_nodes)).counts.sum(dim=1).numpy()
    wrong = []
    if len(np.unique(ends)) != len(ends):
        wrong.append("an end was counted twice")
    if not np.array_equal(counts, np.bincount(ends >> 32, minlength=graph.num_nodes)):
        wrong.append("what was told is not what was counted")
    if not np.isin(before, ends).all():
        wrong.append("ends that were counted are lost from the journal")
    released = gv.load(place / "release").certificate.provenance.period
    if not max(told, released) <= period:
        wrong.append(f"period {max(told, released)} was told, and the journal has {period}")
    return wrong, ends, released < period


def run(count: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """How much was done and left behind, and what went wrong."""
    draw, graph = random.Random(seed), social(num_nodes=120).random_split(seed=0)
    counts = dict.fromkeys(("killed", "periods", "periods journalled and not released", "ends counted"), 0)
    wrong: list[str] = []
    while counts["killed"] < count:
        with tempfile.TemporaryDirectory() as folder:
            place, before = Path(folder), np.empty(0, np.int64)
            first = some(graph, draw)
            gv.train(first, METHOD, noise=0, unit="edge", seed=0, journal=place / "journal").save(place / "release")
            for _ in range(min(ROUND, count - counts["killed"])):
                told = killed(place, graph, draw)
                found, before, ahead = losses(place, graph, told, before)
                wrong += found
                counts["killed"] += 1
                counts["periods journalled and not released"] += ahead
            with Journal.held(place / "journal", fresh=False) as journal:
                counts["periods"] += journal.period
            counts["ends counted"] += len(before)
    return counts, wrong


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = [int(word) for word in sys.argv[1:]]
    counts, wrong = run(*(given + [200, 0][len(given) :]))
    print(*wrong, sep="\n")
    print(", ".join(f"{number} {what}" for what, number in counts.items()) + f"; {len(wrong)} wrong")
    sys.exit(bool(wrong))
