"""How long an audit of the edge-level flagship takes: `hearsay` with its defaults on Cora at epsilon 1.

    python tests/speed/audit_speed.py [--jobs 2] [--json FILE]

The game is that of `graphveil audit`: an edge between two otherwise lone nodes, or its absence. Times include what is
learnt from public data once, worker processes and the evidence of every release; `audit` is the whole command, with the
pilot that chooses the pair. The bar is 1,000 runs in 120 seconds on two cores.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import graphveil as gv
from graphveil.auditing.attacks.canary_edge import CanaryEdge
from graphveil.auditing.audit import Claim
from graphveil.auditing.bounds import finding
from graphveil.auditing.game import Game
from graphveil.planning import Terms, planned
from graphveil.runtime.compute import Compute
from graphveil.runtime.folders import write_whole

EPSILON, DELTA = 1.0, 1e-5


def main() -> None:
    """Print one line per measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    graph, method = gv.datasets.load("cora", split="random"), gv.methods.Hearsay()
    claim = Claim.of_plan(planned(method, graph, Terms("edge", EPSILON, delta=DELTA)))
    measured = {}
    for name, runs in (("1,000 runs", 500), ("1,000 runs on each graph", 1000)):
        # A graph remembers what was learnt from it: take a fresh one.
        pair = CanaryEdge().pairs(replace(graph), claim.plan.adjacency, 0)[0]
        start = time.perf_counter()
        with Compute(jobs=given.jobs).opened() as run:
            scores = Game(pair, method, claim.plan).play(runs, 0, run=run)
        measured[name] = time.perf_counter() - start
        found = finding("canary_edge", scores, claim.epsilon, DELTA, law=claim.law)
        print(f"{name:<28} {measured[name]:6.1f} s   {found}", flush=True)
    start = time.perf_counter()
    found = gv.audit(
        method, replace(graph), epsilon=EPSILON, delta=DELTA, unit="edge", compute=gv.Compute(jobs=given.jobs)
    )
    measured["audit"] = time.perf_counter() - start
    print(f"{'audit':<28} {measured['audit']:6.1f} s   {found}")
    if given.json is not None:
        seconds = {name: round(value, 1) for name, value in measured.items()}
        write_whole(given.json, {"jobs": given.jobs, "seconds": seconds})


if __name__ == "__main__":
    main()
