"""Killed writers: `python tests/fuzz/kill_ledgers.py [COUNT] [SEED]` kills COUNT processes (200) that write to one.

Two processes at a time open budgets, reserve and commit, and tell each time that it was done. Each is killed by SIGKILL
at a random moment. Then the ledger must open, hold all that was told, and have spent no more than its budgets.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from graphveil.auditing.stream_game import small_graph
from graphveil.data.graph import Graph
from graphveil.errors import GraphveilError, Overspent
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.privacy.ledger import Ledger
from graphveil.vocabulary import Adjacency, Plan, Reading, Step

DELTA = 1e-5
BUDGET = 2.0
ROUND = 20
"""So many processes are killed over one ledger; then comes a fresh one."""


def datasets(count: int = 12) -> list[Graph]:
    return [small_graph([(0, 1)], torch.full((3, 1), float(number)), torch.arange(3) % 2) for number in range(count)]


def plan() -> Plan:
    step = Step("sums", Gaussian(1.0), GaussianCurve(0.05), 1, why="a ledger of several pages " * 20)
    return Plan(Adjacency.of("node"), Reading.SOUND, (step,))


@dataclass
class Told:
    """What the processes said was done: fingerprints of datasets, and ids of entries."""

    opened: set[str] = field(default_factory=set)
    reserved: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)

    def hear(self, words: str) -> None:
        for line in words.split("\n")[:-1]:
            verb, what = line.split()
            getattr(self, verb).add(what)


def write_for_ever(path: Path, graphs: list[Graph], pipe: int, seed: int) -> None:
    """Open, reserve and commit at random, and tell; a line in the pipe is whole or not there."""

    def tell(words: str) -> None:
        os.write(pipe, f"{words}\n".encode())

    draw, small, ready = random.Random(seed), plan(), []
    while True:
        graph = draw.choice(graphs)
        with suppress(Overspent):
            if not path.exists() or draw.random() < 0.2:
                try:
                    Ledger(path).open(graph, "node", epsilon=BUDGET, delta=DELTA)
                    tell(f"opened {graph.fingerprint()}")
                except GraphveilError as error:
                    if "opened once" not in str(error):
                        raise
            elif ready and draw.random() < 0.4:
                entry = ready.pop()
                Ledger(path).commit(entry)
                tell(f"committed {entry}")
            else:
                try:
                    ready.append(Ledger(path).reserve(graph, small, "killed"))
                    tell(f"reserved {ready[-1]}")
                except GraphveilError as error:
                    if "has no budget" not in str(error):
                        raise


def killed(path: Path, graphs: list[Graph], told: Told, draw: random.Random) -> None:
    """Two processes that write until they are killed, one after the other, some after a few words of theirs."""
    children = [started(path, graphs, draw.randrange(2**31)) for _ in range(2)]
    for child, pipe in children:
        words = heard(pipe, draw.choice([0, 0, 1, 4]))
        time.sleep(draw.choice([draw.uniform(0, 0.01), draw.uniform(0, 0.1)]))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with os.fdopen(pipe) as rest:
            told.hear(words + rest.read())
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise AssertionError(f"a writer ended by itself: {status}")


def heard(pipe: int, lines: int) -> str:
    """So many lines of a writer, or what it has told in ten seconds."""
    words = ""
    while words.count("\n") < lines and select.select([pipe], [], [], 10)[0]:
        words += os.read(pipe, 4096).decode()
    return words


def started(path: Path, graphs: list[Graph], seed: int) -> tuple[int, int]:
    """A forked writer, and the pipe in which it tells."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write_for_ever(path, graphs, writing, seed)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(writing)
    return child, reading


def losses(path: Path, graphs: list[Graph], told: Told) -> list[str]:
    """What is wrong with the ledger after the kills."""
    if not path.exists():
        return ["the ledger is gone"] if told.opened else []
    book = Ledger(path)
    entries = {item["id"]: item["committed"] for item in book.entries()}
    accounts = book.accounts()
    known = set()
    for graph in graphs:
        with suppress(GraphveilError):
            book.account(graph)
            known.add(graph.fingerprint())
    wrong = [f"overspent: {account}" for account in accounts if not account.spent <= account.epsilon]
    wrong += [f"lost budget {key}" for key in told.opened - known]
    wrong += [f"lost reservation {key}" for key in told.reserved - set(entries)]
    wrong += [f"lost commit {key}" for key in told.committed if not entries.get(key)]
    return wrong


def run(count: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """How much was done and left behind, and what went wrong."""
    draw, graphs = random.Random(seed), datasets()
    counts = dict.fromkeys(("killed", "journals left", "opened", "reserved", "committed"), 0)
    wrong: list[str] = []
    while counts["killed"] < count:
        with tempfile.TemporaryDirectory() as folder:
            path, told, kills = Path(folder) / "ledger.db", Told(), 0
            while kills < ROUND and counts["killed"] < count:
                killed(path, graphs, told, draw)
                kills, counts["killed"] = kills + 2, counts["killed"] + 2
                counts["journals left"] += Path(f"{path}-journal").exists()
                wrong += losses(path, graphs, told)
            for verb in ("opened", "reserved", "committed"):
                counts[verb] += len(getattr(told, verb))
    return counts, wrong


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    counts, wrong = run(*(given + [200, 0][len(given) :]))
    print(*wrong, sep="\n")
    print(", ".join(f"{number} {what}" for what, number in counts.items()) + f"; {len(wrong)} wrong")
    sys.exit(bool(wrong))
