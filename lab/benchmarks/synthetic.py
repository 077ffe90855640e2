"""Time and peak memory of the synthetic social network. Run: python lab/benchmarks/synthetic.py [nodes] [degree]."""

from __future__ import annotations

import resource
import sys
import time

from graphveil.data.datasets.synthetic import social


def main() -> None:
    """Make one graph and print what it took."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    degree = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    wall, cpu = time.perf_counter(), time.process_time()
    graph = social(num_nodes=nodes, average_degree=degree)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{graph}: {wall:.1f} s wall, {cpu:.1f} s CPU, {peak:.2f} GiB peak")


if __name__ == "__main__":
    main()
