"""How `hearsay`'s time grows with nodes and with edges, and how it compares with another checkout. One thread.

    python benchmarks/growth.py [--nodes 10000,100000,1000000] [--degrees 2,20,200] [--against OTHER/src] [--seeds 3]

Trains `hearsay` at epsilon 1 on synthetic social networks of 32 features and 4 classes, each in a fresh process:
graphs of so many nodes with 6 edges a node, and graphs of 100,000 nodes with so many arcs a node. `--against` runs the
package in another folder on the same graphs, in turns. Prints JSON: CPU seconds of `gv.train` (best of the seeds, the
first of which compiles), accuracy (mean and spread over the seeds), peak memory, the ratio of the other's time to this
one's, and growth as exponents: the slope of a line through log(time), of all sizes and of the two largest.
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
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1] / "src"
NODES = 100_000
"""Of the graphs whose edges grow."""


def measure(nodes: int, degree: float, seeds: int) -> dict[str, Any]:
    """In this process: train and score."""
    import numba
    import torch

    import graphveil as gv
    from graphveil.datasets.synthetic import social

    torch.set_num_threads(1)
    numba.set_num_threads(1)
    graph = social(num_nodes=nodes, average_degree=degree).random_split()
    seconds, right = [], []
    for seed in range(seeds):
        fresh, begin = replace(graph), time.process_time()
        release = gv.train(fresh, gv.methods.Hearsay(), epsilon=1, unit="edge", seed=seed)
        seconds.append(time.process_time() - begin)
        right.append(100 * release.evaluate("test")["accuracy"])
    return {
        "nodes": nodes,
        "edges": graph.num_edges,
        "cpu_s": round(min(seconds), 2),
        "accuracy": round(float(np.mean(right)), 2),
        "spread": round(float(np.std(right, ddof=min(1, seeds - 1))), 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6),
    }


def child(source: Path, nodes: int, degree: float, seeds: int) -> dict[str, Any]:
    """The same in a fresh process, with the package in `source`."""
    words = [sys.executable, __file__, "--one", f"{nodes},{degree}", "--seeds", str(seeds)]
    env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exponents(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Slopes of log(time) against log(size)."""
    sizes, times = ([math.log(row[name]) for row in rows] for name in (key, "cpu_s"))
    slopes = {"all sizes": slice(None), "two largest": slice(-2, None)}
    return {words: round(float(np.polyfit(sizes[part], times[part], 1)[0]), 2) for words, part in slopes.items()}


def main() -> None:
    """Run all sizes and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="10000,100000,1000000")
    parser.add_argument("--degrees", default="2,20,200")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--one", help="nodes,degree: one process's part")
    words = parser.parse_args()
    if words.one:
        nodes, degree = words.one.split(",")
        print(json.dumps(measure(int(nodes), float(degree), words.seeds)))
        return
    report: dict[str, Any] = {}
    series = {
        "nodes": [(int(nodes), 12.0) for nodes in words.nodes.split(",") if nodes],
        "edges": [(NODES, float(degree)) for degree in words.degrees.split(",") if degree],
    }
    for key, sizes in series.items():
        rows = []
        for nodes, degree in sizes:
            row = child(HERE, nodes, degree, words.seeds)
            if words.against is not None and key == "nodes":
                other = child(words.against, nodes, degree, words.seeds)
                row |= {f"other_{name}": other[name] for name in ("cpu_s", "accuracy", "spread", "peak_mb")}
                row["times_faster"] = round(other["cpu_s"] / row["cpu_s"], 2)
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
        report[f"by {key}"] = rows
        if len(rows) > 1:
            report[f"growth with {key}"] = exponents(rows, key)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
