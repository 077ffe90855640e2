"""How `hearsay`'s time grows with nodes and with edges. One thread, or a GPU.

    python tests/speed/growth.py [--nodes 10000,100000,1000000] [--degrees 2,20,200] [--seeds 3]
    python tests/speed/growth.py --device cuda --nodes 1000000,10000000,100000000 --degrees "" --seeds 1

Trains `hearsay` at epsilon 1 on made-up networks of 32 features and 4 classes, each in a fresh process: graphs of so
many nodes with 6 edges a node, and graphs of 100,000 nodes (a million on a GPU) with so many arcs a node. Prints JSON:
CPU seconds of `gv.train` (on a GPU wall seconds, with cryptographic noise, after a small run that compiles; best of the
seeds), accuracy (mean and spread over the seeds), peak memory, and growth as exponents: the slope of a line through
log(time), of all sizes and of the two largest. `tests/speed/against.py` runs it beside another checkout.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

NODES = {"cpu": 100_000, "cuda": 1_000_000}
"""Of the graphs whose edges grow."""


def measure(nodes: int, degree: float, seeds: int, device: str) -> dict[str, Any]:
    """In this process: train and score."""
    import numba
    import torch

    import graphveil as gv

    torch.set_num_threads(1)
    numba.set_num_threads(1)
    graph, seconds, right = made(nodes, degree, device), [], []
    if device != "cpu":
        gv.train(made(200_000, degree, device), gv.methods.Hearsay(), epsilon=1, unit="edge")
    for seed in range(seeds):
        fresh, begin = replace(graph), clock(device)
        release = gv.train(fresh, gv.methods.Hearsay(), epsilon=1, unit="edge", seed=seed if device == "cpu" else None)
        seconds.append(clock(device) - begin)
        right.append(100 * release.evaluate("test")["accuracy"])
    return {
        "nodes": nodes,
        "edges": graph.num_edges,
        "best_s": round(min(seconds), 2),
        "accuracy": round(float(np.mean(right)), 2),
        "spread": round(float(np.std(right, ddof=min(1, seeds - 1))), 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6),
    }


def made(nodes: int, degree: float, device: str) -> Any:
    """A graph, on its device."""
    if device == "cpu":
        from graphveil.data.datasets.synthetic import social

        return social(num_nodes=nodes, average_degree=degree).random_split()
    from graphveil.data.datasets.planted import planted

    return planted(nodes, round(nodes * degree / 2), 4, 32, device=device)


def clock(device: str) -> float:
    """CPU seconds, or wall seconds once the GPU is done."""
    if device == "cpu":
        return time.process_time()
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def child(nodes: int, degree: float, seeds: int, device: str) -> dict[str, Any]:
    """The same in a fresh process."""
    words = [sys.executable, __file__, "--one", f"{nodes},{degree}", "--seeds", str(seeds), "--device", device]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exponents(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Slopes of log(time) against log(size)."""
    sizes, times = ([math.log(row[name]) for row in rows] for name in (key, "best_s"))
    slopes = {"all sizes": slice(None), "two largest": slice(-2, None)}
    return {words: round(float(np.polyfit(sizes[part], times[part], 1)[0]), 2) for words, part in slopes.items()}


def main() -> None:
    """Run all sizes and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="10000,100000,1000000")
    parser.add_argument("--degrees", default="2,20,200")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=list(NODES))
    parser.add_argument("--one", help="nodes,degree: one process's part")
    words = parser.parse_args()
    if words.one:
        nodes, degree = words.one.split(",")
        print(json.dumps(measure(int(nodes), float(degree), words.seeds, words.device)))
        return
    report: dict[str, Any] = {}
    series = {
        "nodes": [(int(nodes), 12.0) for nodes in words.nodes.split(",") if nodes],
        "edges": [(NODES[words.device], float(degree)) for degree in words.degrees.split(",") if degree],
    }
    for key, sizes in series.items():
        rows = []
        for nodes, degree in sizes:
            rows.append(child(nodes, degree, words.seeds, words.device))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        report[f"by {key}"] = rows
        if len(rows) > 1:
            report[f"growth with {key}"] = exponents(rows, key)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
