"""CPU seconds of one private step, end to end: sample, build, clipped gradients, noise, update.

    python tests/speed/step.py [--steps 30] [--layers 1] [--network sage] [--multiplier 6]

20,000 nodes, 300,000 directed arcs, 128 features, 4 classes; batches of about 4,096 HeterPoisson subgraphs, hidden 128.
With a multiplier of 6 subgraphs have about 6 nodes, with 1 about 2. The steps are those of `gv.train`. Prints JSON: CPU
seconds before the first step (sealing the graph, planning; compiled code is warm), and of a step, with seeded and with
cryptographic noise. One thread.
"""

from __future__ import annotations

import argparse
import json
import time
from unittest.mock import patch

import numba
import numpy as np
import torch

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.privacy.session import Session

NODES, ARCS, FEATURES, CLASSES, BATCH = 20_000, 300_000, 128, 4, 4096


def build() -> gv.Graph:
    """A random directed graph; every node trains."""
    rng = np.random.default_rng(0)
    keys = rng.choice(NODES * (NODES - 1), ARCS, replace=False)
    sources, targets = np.divmod(keys, NODES - 1)
    targets += targets >= sources
    x = torch.from_numpy(rng.standard_normal((NODES, FEATURES), dtype=np.float32))
    y = torch.from_numpy(rng.integers(0, CLASSES, NODES))
    none = torch.zeros(NODES, dtype=torch.bool)
    adj = Csr.from_edge_index(sources, targets, NODES)
    return gv.Graph(x, adj, y, CLASSES, False, ~none, none, none, "random", "all train", every_id_present=True)


def measure(graph: gv.Graph, method: gv.Method, seed: int | None) -> dict[str, float]:
    """CPU seconds before the first release, and between releases: the last holds no other work."""
    moments: list[float] = []
    release = Session.release

    def timed(self: Session, name: str, query: object) -> torch.Tensor:
        moments.append(time.process_time())
        return release(self, name, query)

    with patch.object(Session, "release", timed):
        begin = time.process_time()
        gv.train(graph, method, noise=1.0, unit="node", seed=seed)
    steps = np.diff([*moments, time.process_time()])
    return {
        "before_s": round(moments[0] - begin, 4),
        "first_step_s": round(float(steps[0]), 4),
        "median_step_s": round(float(np.median(steps)), 4),
        "best_step_s": round(float(steps.min()), 4),
    }


def main() -> None:
    """Warm up, then measure both kinds of noise."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--network", default="sage")
    parser.add_argument("--multiplier", type=float, default=6.0)
    words = parser.parse_args()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    graph = build()
    rate = BATCH / NODES

    def method(steps: int) -> gv.Method:
        given = {name: getattr(words, name) for name in ("network", "layers", "multiplier")}
        return gv.methods.HeterPoisson(**given, batch=BATCH, epochs=steps * rate)

    gv.train(graph, method(2), noise=1.0, unit="node", seed=0)
    kinds = {"seeded": 0, "cryptographic": None}
    found = {kind: measure(graph, method(words.steps), seed) for kind, seed in kinds.items()}
    print(json.dumps({"graph": repr(graph), "steps": words.steps, **found}, indent=2))


if __name__ == "__main__":
    main()
