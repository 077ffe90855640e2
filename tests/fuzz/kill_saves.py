"""Processes that are killed while they save or train: what was there is there, or what is new, and never a half.

    python tests/fuzz/kill_saves.py [--saves 450] [--trains 50] [--seed 0]

Saves: a process saves a release over another and is sent SIGKILL at a random moment. Trains: a process runs `graphveil
train` with a ledger, on a tiny graph, and is killed likewise. Those that end before they are killed are not counted.
Prints JSON: how many runs there were, how many were killed, and

half         folders that cannot be read;
lost         folders that held a release before and hold none now;
litter       what else lies beside the folder and is not taken away by the next save;
overspent    ledgers that count more than their budget, or less than was released.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphveil as gv
from graphveil import cli

FASTER = 0.9
"""A job that ended before it was killed was timed when the machine had more to do: the next is killed earlier."""


def child(job: Callable[[], Any]) -> int:
    """`job` in a process of its own, silent; its number."""
    number = os.fork()
    if number == 0:
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            job()
        finally:
            os._exit(0)
    return number


def killed(job: Callable[[], Any], after: float) -> bool:
    """Whether SIGKILL came before the end of `job`."""
    number = child(job)
    time.sleep(after)
    os.kill(number, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(number, 0)[1])


def seconds(job: Callable[[], Any]) -> float:
    """How long `job` takes if nobody kills it."""
    start = time.perf_counter()
    os.waitpid(child(job), 0)
    return time.perf_counter() - start


def state_of(folder: Path, before: str) -> tuple[str, str]:
    """When the release in the folder was made, "" if there is none, and what is wrong with the folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of folders that are put back
        try:
            return gv.load(folder).certificate.provenance.created, ""
        except gv.Tampered:
            there = folder.exists()
    return "", "half" if there else "lost" if before else ""


def kill_saves(home: Path, count: int, rng: np.random.Generator) -> Counter[str]:
    """Two releases take turns in one folder; now and then it is a fresh one."""
    graph = gv.datasets.load("chain-s")
    for seed in (0, 1):
        made = home / f"made-{seed}"
        os.waitpid(child(lambda made=made, seed=seed: trained(graph, seed).save(made)), 0)
    releases = [gv.load(home / f"made-{seed}") for seed in (0, 1)]
    usual = float(np.median([seconds(lambda: releases[0].save(home / "usual")) for _ in range(9)]))
    found: Counter[str] = Counter()
    folder, before = home / "model", ""
    for turn in itertools.takewhile(lambda _: found["killed"] < count, itertools.count()):
        found["runs"] += 1
        if turn % 25 == 0:
            folder, before = home / f"place-{turn}" / "model", ""
        newer = releases[turn % 2]
        hit = killed(lambda newer=newer, folder=folder: newer.save(folder), rng.uniform(0, usual))
        found["killed"] += hit
        usual *= 1.0 if hit else FASTER
        before, wrong = state_of(folder, before)
        found[wrong] += 1
        if turn % 25 == 24:
            releases[0].save(folder)
            found["litter"] += len(list(folder.parent.iterdir())) - 1
    return found


def trained(graph: gv.Graph, seed: int) -> gv.Release:
    """A small release."""
    return gv.train(graph, gv.methods.DpSgd(steps=2), epsilon=1.0, delta=1e-5, unit="node", seed=seed)


def kill_trains(home: Path, count: int, rng: np.random.Generator) -> Counter[str]:
    """Ten trainings at most share a budget that holds about six."""
    edges, nodes = home / "edges.csv", home / "nodes.csv"
    edges.write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12)))
    nodes.write_text("id,label,a,b\n" + "".join(f"n{i},{'xy'[i % 2]},{i}.5,{-i}\n" for i in range(12)))
    graph = gv.Graph.from_edges(edges, nodes, name="edges")
    found: Counter[str] = Counter()
    usual = 0.0
    folder, book, before = home / "model", home / "ledger.db", ""
    for turn in itertools.takewhile(lambda _: found["killed"] < count, itertools.count()):
        found["runs"] += 1
        if turn % 10 == 0:
            folder, book, before = home / f"model-{turn}", home / f"ledger-{turn}.db", ""
            gv.Ledger(book).open(graph, "edge", epsilon=3.0, delta=1e-5)
        words = f"train gap --edges {edges} --nodes {nodes} --unit edge --epsilon 0.5 --delta 1e-6 --epochs 2 --quiet"
        argv = ["graphveil", *words.split(), "--ledger", str(book), "--out", str(folder)]

        def command(argv: list[str] = argv) -> None:
            sys.argv = argv
            cli.main()

        usual = usual or seconds(command)
        hit = killed(command, rng.uniform(0.2, 1.1) * usual)
        found["killed"] += hit
        usual *= 1.0 if hit else FASTER
        before, wrong = state_of(folder, before)
        found[wrong] += 1
        entries = {entry["id"] for entry in gv.Ledger(book).entries()}
        counted = not before or gv.load(folder).certificate.provenance.ledger_entry in entries
        found["overspent"] += any(each.spent > each.epsilon for each in gv.Ledger(book).accounts()) or not counted
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=450)
    parser.add_argument("--trains", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    told = {}
    for what, count, kill in (("saves", given.saves, kill_saves), ("trains", given.trains, kill_trains)):
        with tempfile.TemporaryDirectory() as scratch:
            found = kill(Path(scratch), count, rng)
        told[what] = {key: found[key] for key in ("runs", "killed", "half", "lost", "litter", "overspent")}
    print(json.dumps(told, indent=1))
    sys.exit(any(part[key] for part in told.values() for key in ("half", "lost", "litter", "overspent")))


if __name__ == "__main__":
    main()
