"""The constants of privgnn's rule (docs/methods/privgnn.md), one varied at a time, without a look at test nodes.

    python lab/benchmarks/privgnn_rule.py --jobs 2 --json lab/results/privgnn-rule.json

Accuracy on the public nodes that may be asked about and were not: their labels are known to the benchmark alone. Splits
are those of seeds that no table uses.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

import graphveil as gv
from graphveil.methods.public_graph import privgnn
from graphveil.runtime.engine import Local, one_thread
from graphveil_lab import kept_files

CHOSEN = {"odds": 2.0, "least": 20, "fewest": 10}
VARIED = {"odds": (0.5, 1.0, 2.0, 4.0), "least": (10, 20, 40), "fewest": (5, 10, 20)}
Setting = tuple[str, float]


@contextmanager
def with_constants(odds: float, fewest: float) -> Iterator[None]:
    """The rule with other constants."""
    with patch.object(privgnn, "_ODDS", odds), patch.object(privgnn, "_FEWEST", fewest):
        yield


def measure(epsilons: tuple[float, ...], item: tuple[str, int, Setting]) -> list[float]:
    """Accuracy at every epsilon on nodes that were neither asked nor are for testing."""
    dataset, seed, (name, value) = item
    constants = {**CHOSEN, name: value}
    graph = gv.datasets.load(dataset, split="two_graphs", seed=seed)
    public = graph.public_graph
    assert public is not None
    asked = public.train.nonzero().flatten()
    kept = []
    with with_constants(constants["odds"], constants["fewest"]):
        # Half of the nodes may be asked about, and the other half is what the choice is scored on.
        half = asked[torch.from_numpy(np.random.default_rng(seed).permutation(len(asked)))[: len(asked) // 2]]
        train = torch.zeros_like(public.train)
        train[half] = True
        split = graph.with_public(public.with_split(train, public.val, public.test, "half"))
        scored = public.train & ~train
        method = gv.methods.PrivGnn(least=int(constants["least"]))
        for epsilon in epsilons:
            release = gv.train(
                split, method, epsilon=epsilon, delta=1e-4, unit="node", seed=seed, compute=gv.Compute(quiet=True)
            )
            kept.append(float((release.predict(split)[scored] == public.y[scored]).double().mean()))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["computers", "rutgers89"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 4.0, 16.0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also keep every run")
    given = parser.parse_args()
    settings = [(name, value) for name, values in VARIED.items() for value in values]
    items = [(dataset, seed, one) for dataset in given.datasets for one in settings for seed in given.seeds]
    with one_thread():
        found = dict(Local(given.jobs).stream(measure, tuple(given.epsilons), items))
    print(f"{'dataset':10s} {'constant':8s} {'value':>5s}  " + "  ".join(f"epsilon {e:<8g}" for e in given.epsilons))
    for first in range(0, len(items), len(given.seeds)):
        dataset, _, (name, value) = items[first]
        shares = 100 * np.array([found[first + place] for place in range(len(given.seeds))])
        cells = "  ".join(f"{m:.1f} +- {s:.1f}    " for m, s in zip(shares.mean(0), shares.std(0, ddof=1), strict=True))
        mark = "*" if value == CHOSEN[name] else " "
        print(f"{dataset:10s} {name:8s} {value:5g}{mark} {cells}")
    if given.json:
        kept_files.write(
            given.json, [row for place, item in enumerate(items) for row in kept(item, given.epsilons, found[place])]
        )


def kept(item: tuple[str, int, Setting], epsilons: list[float], shares: list[float]) -> list[dict[str, str | float]]:
    """A row for every epsilon of a run."""
    dataset, seed, (name, value) = item
    told: dict[str, str | float] = {"dataset": dataset, "constant": f"{name} {value:g}", "seed": seed}
    return [{**told, "epsilon": epsilon, "accuracy": share} for epsilon, share in zip(epsilons, shares, strict=True)]


if __name__ == "__main__":
    main()
