"""Speed of the subgraph samplers on three graph sizes, to show that time follows the arcs that are read.

    python lab/benchmarks/samplers.py

Prints JSON: for each size the best wall and CPU seconds after a warm-up, and the peak memory of the process so far.
One thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from functools import partial

import numba
import numpy as np
import torch

from graphveil.data.arcs import Csr, Ids
from graphveil.data.datasets.synthetic import social
from graphveil.nn.sampling import bounded, heterpoisson, walks

BATCH = 4_096
SIZES = (100_000, 300_000, 1_000_000)


def seconds(work: Callable[[], object], repeats: int = 5) -> dict[str, float]:
    """Best wall and CPU time of several runs after a warm-up."""
    work()
    best = {"wall_s": float("inf"), "cpu_s": float("inf")}
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
        best = {name: round(min(best[name], took[name]), 5) for name in best}
    return best


def heter_poisson(adj: Csr, centres: Ids, rng: np.random.Generator) -> dict[str, object]:
    """One batch, stars and induced subgraphs; drawing the uniforms is not part of it."""
    keep = heterpoisson.keep_probabilities(np.bincount(adj.indices, minlength=adj.num_nodes), 4.0)
    draws = rng.random(heterpoisson.draws_needed(adj, centres))
    work = partial(heterpoisson.sample, adj, centres, keep, draws)
    return {"draws": len(draws), "stars": seconds(work), "induced": seconds(partial(work, induced=True))}


def random_walks(adj: Csr) -> dict[str, object]:
    """Complete partitions."""
    return {
        "drw_length_4": seconds(partial(walks.partition, adj, 4, seed=0), 3),
        "drw_r_length_2_restarts_3": seconds(partial(walks.partition, adj, 2, 3, seed=0), 3),
    }


def bounded_occurrence(adj: Csr, centres: Ids) -> dict[str, object]:
    """Capping the whole graph once, then one batch of neighbourhoods."""
    capped = bounded.cap_out_arcs(adj, 5, seed=0)
    degrees = np.bincount(adj.indices, minlength=adj.num_nodes)
    return {
        "cap_5": seconds(partial(bounded.cap_out_arcs, adj, 5, seed=0), 3),
        "silence_10": seconds(partial(bounded.silence_hubs, adj, degrees, 10), 3),
        "batch_1_hop": seconds(partial(bounded.neighbourhoods, capped, centres, 1)),
        "batch_2_hops": seconds(partial(bounded.neighbourhoods, capped, centres, 2)),
    }


def measure(nodes: int) -> dict[str, object]:
    """All samplers on one social network of average degree 10."""
    adj, rng = social(num_nodes=nodes, num_features=1, average_degree=10.0).adj, np.random.default_rng(0)
    centres = np.flatnonzero(rng.random(nodes) < BATCH / nodes)
    return {
        "nodes": nodes,
        "arcs": adj.num_arcs,
        "centres": len(centres),
        "heterpoisson": heter_poisson(adj, centres, rng),
        "walks": random_walks(adj),
        "bounded": bounded_occurrence(adj, centres),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    print(json.dumps([measure(nodes) for nodes in SIZES], indent=2))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
