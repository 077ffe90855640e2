"""CPU seconds of every flagship beside the non-private `gcn`, one thread, taking turns on one graph.

    python tests/speed/flagship_speed.py [--dataset rutgers89] [--epsilon 2] [--rounds 3]

The whole of `gv.train` with defaults on a fresh graph: planning, calibration, what is made of public data, training.
Prints JSON: the best of the rounds for each (the first compiles), and its share of `gcn`'s. A flagship must not take
longer than `gcn`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace

import numba
import torch

import graphveil as gv
from graphveil.methods import flagship
from graphveil.vocabulary import Unit


def seconds(graph: gv.Graph, method: gv.Method, unit: str, epsilon: float) -> float:
    """CPU seconds of one training."""
    fresh = replace(graph)  # a graph remembers what was made of its public parts
    begin = time.process_time()
    gv.train(fresh, method, epsilon=epsilon, delta=1e-5, unit=unit, seed=0)
    return time.process_time() - begin


def main() -> None:
    """Run all and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="rutgers89")
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    words = parser.parse_args()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    graph = gv.datasets.load(words.dataset, split="random", seed=0)
    works: dict[str, tuple[gv.Method, str, float]] = {"gcn": (gv.methods.Gcn(), "edge", math.inf)}
    for unit in Unit:
        method = flagship(unit)()
        works[f"{method.name()} ({unit.value})"] = (method, unit.value, words.epsilon)
    rounds = [{name: seconds(graph, *work) for name, work in works.items()} for _ in range(words.rounds)]
    best = {name: min(taken[name] for taken in rounds) for name in works}
    report = {
        name: {"cpu_seconds": round(took, 2), "of_gcn": round(took / best["gcn"], 2)} for name, took in best.items()
    }
    print(json.dumps({"graph": repr(graph), "epsilon": words.epsilon, **report}, indent=2))


if __name__ == "__main__":
    main()
