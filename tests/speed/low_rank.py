"""The largest entries of a low-rank matrix without an n x n matrix: time and peak memory as n grows.

    python tests/speed/low_rank.py [--json FILE] [--threads 1] [--sizes 12500 25000 50000 100000]

Prints a Markdown row for each case: random rows of rank 64 with eight edges a node; Facebook page-page through the
`eclipse` basis (features, rank 64) and as Algorithm 1 prints it (singular, rank 20, with the decomposition). Every case
has a process of its own, so that its peak memory is its own; importing everything is 0.3 GB of it. Noise is left out:
it takes no time beside the rest.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import graphveil as gv
from graphveil.mechanisms.singular_values import leading
from graphveil.nn.basis import Basis, Directions
from graphveil.nn.features import Scaling
from graphveil.nn.low_rank import Core, largest_pairs, unflat
from graphveil.runtime.folders import write_whole

RANK, PRINTED_RANK, DEGREE = 64, 20, 8


def random_rows(nodes: int) -> tuple[str, int, int]:
    """Gaussian rows, fixed by a seed."""
    left, right = torch.randn(2, nodes, RANK, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = largest_pairs(left, right, DEGREE * nodes, undirected=True)
    return f"random rows, rank {RANK}", nodes, found.shape[1]


def features() -> tuple[str, int, int]:
    """What `eclipse` does with `use="graph"`: basis, core, largest entries."""
    graph = gv.datasets.load("facebook")
    x = Scaling.fit(graph.x, "shifted")(graph.x)
    rows = Directions.fit(x, Basis.FEATURES, RANK).rows(x)
    core = unflat(Core(graph.adj, rows, undirected=True).clipped_sum(1.0), RANK)
    found = largest_pairs(rows.double() @ core, rows.double(), graph.num_edges, undirected=True)
    return f"Facebook page-page, `features`, rank {RANK}", graph.num_nodes, found.shape[1]


def singular() -> tuple[str, int, int]:
    """What Algorithm 1 does: decomposition, largest entries."""
    graph = gv.datasets.load("facebook")
    values, vectors = leading(graph.adj, PRINTED_RANK)
    left, right = torch.from_numpy(vectors * values), torch.from_numpy(vectors)
    found = largest_pairs(left, right, graph.num_edges, undirected=True)
    name = f"Facebook page-page, `singular`, rank {PRINTED_RANK} (with the decomposition)"
    return name, graph.num_nodes, found.shape[1]


def one(case: str, threads: int) -> dict[str, Any]:
    """What, nodes, edges, wall and CPU seconds, peak memory."""
    torch.set_num_threads(threads)
    wall, cpu = time.perf_counter(), time.process_time()
    name, nodes, edges = {"features": features, "singular": singular}.get(case, lambda: random_rows(int(case)))()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"case": name, "nodes": nodes, "edges": edges, "wall": wall, "cpu": cpu, "peak GB": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="*", default=[12_500, 25_000, 50_000, 100_000])
    parser.add_argument("--case", help="one case in this process: features, singular or a number of nodes")
    parser.add_argument("--json", type=Path, help="also keep what was measured")
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(one(asked.case, asked.threads)))
        return
    rows = []
    print("| | nodes | edges | seconds | CPU seconds | peak memory of the process |\n|---|---|---|---|---|---|")
    for case in ["features", "singular", *map(str, asked.sizes)]:
        command = [sys.executable, __file__, "--case", case, "--threads", str(asked.threads)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        measured = f"{row['wall']:.1f} | {row['cpu']:.1f} | {row['peak GB']:.2f} GB"
        print(f"| {row['case']} | {row['nodes']:,} | {row['edges']:,} | {measured} |", flush=True)
        rows.append(row)
    if asked.json:
        write_whole(asked.json, rows)


if __name__ == "__main__":
    main()
