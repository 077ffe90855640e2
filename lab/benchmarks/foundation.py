"""Speed of the foundation, each figure beside a named reference in the same run.

    python lab/benchmarks/foundation.py

Prints JSON: composing 10,000 steps, drawing secure noise (against torch.randn), summing over neighbours
(against scipy and torch CSR). One thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numba
import torch

from graphveil.data.datasets.synthetic import social
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.poisson import Poisson
from graphveil.nn.aggregate import neighbour_sum
from graphveil.privacy import accounting
from graphveil.privacy.noise import Secure
from graphveil.vocabulary import Adjacency, Plan, Reading, Step


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Best CPU time of several runs after a warm-up."""
    work()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def composition() -> dict[str, float]:
    """epsilon of 10,000 Poisson-subsampled Gaussian steps, q = .01, sigma = 1, delta = 1e-5: target < 2 s."""
    act = Poisson(Gaussian(1.0), 0.01, 10_000)
    plan = Plan(Adjacency.of("node"), Reading.SOUND, (Step("step", act, act.curve(1.0), 10_000, why=""),))
    fresh = accounting._epsilon.__wrapped__
    claims = accounting._claims(plan.steps)
    return {"epsilon": accounting.epsilon(plan, 1e-5), "seconds": seconds(lambda: fresh(claims, 1e-5), 3)}


def noise(count: int = 10_000_000) -> dict[str, float]:
    """Ten million Gaussians."""
    ours, plain = seconds(lambda: Secure().normal(count), 3), seconds(lambda: torch.randn(count), 3)
    return {"secure_seconds": ours, "torch_randn_seconds": plain, "ratio": ours / plain}


def sums() -> dict[str, float]:
    """22,000 nodes, 340,000 arcs, 128 dimensions; ours accumulates in float64."""
    adj = social(22_000, average_degree=16.0).adj
    rows = torch.randn(22_000, 128)
    matrix = adj.to_scipy()
    csr = torch.sparse_csr_tensor(torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices), matrix.data)
    dense = rows.numpy()
    times = {
        "ours": seconds(lambda: neighbour_sum(adj, rows)),
        "scipy": seconds(lambda: matrix @ dense),
        "torch_csr": seconds(lambda: csr @ rows),
    }
    return times | {"ratio_to_torch_csr": times["ours"] / times["torch_csr"]}


def main() -> None:
    """Run all and print JSON."""
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    print(json.dumps({"composition": composition(), "noise": noise(), "neighbour_sums": sums()}, indent=2))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
