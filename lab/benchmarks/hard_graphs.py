"""Graphs on which a flagship could do harm: each beside its own part without edges and beside the largest class.

    python lab/benchmarks/hard_graphs.py [--graphs NAME ...] [--flagships NAME ...] [--epsilons 0.5 1 2 4 8] [--seeds 0 1 2]
                                     [--json FILE]

Made-up graphs (`datasets/block_models.py`): classes of very unequal size, edges or features that say nothing, classes
that avoid each other, few features, many nodes, many classes, few edges or hardly any. Every flagship is trained with
its defaults on 75/10/15 splits. Without edges it is trained on the same graph whose edges were taken away; at edge
level that is `mlp`, which reads no edge and spends nothing. HURTS marks a mean over the seeds that is more than 0.5
below the better of the two, and below by more than the 95 % interval of the difference. With --json every line is kept
as soon as it is known, and lines that are there are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.block_models import BlockModel

DELTA = 1e-5
SLACK = 0.5
"""Points that a flagship may be below."""
FLOORS = ("without_edges", "largest_class")


EQUAL = (1.0,) * 5
GRAPHS = {
    "95/5": BlockModel((95, 5), assortative=0.0),
    "95/5, telling edges": BlockModel((95, 5)),
    "78/22": BlockModel((78, 22), assortative=0.0),
    "78/22, telling edges": BlockModel((78, 22)),
    "silent edges": BlockModel(EQUAL, assortative=0.0),
    "classes that avoid each other": BlockModel(EQUAL, assortative=-1.0),
    "bipartite": BlockModel((1, 1), assortative=-1.0),
    "ten features": BlockModel(EQUAL, features=10, signal=0.5),
    "60 classes": BlockModel((1,) * 60, assortative=0.8, signal=0.5),
    "silent features": BlockModel(EQUAL, signal=0.0),
    "hardly any edges": BlockModel(EQUAL, degree=0.1),
    "few links": BlockModel(EQUAL, degree=4),
    "few links, telling features": BlockModel(EQUAL, degree=4, features=20, assortative=0.94, signal=1.0),
    "few silent links, telling features": BlockModel(EQUAL, degree=4, features=20, assortative=0.0, signal=1.0),
    "30,000 nodes": BlockModel(EQUAL, nodes=30_000),
}


@dataclass(frozen=True)
class Flagship:
    """A method for a unit, and what stands for it without edges."""

    unit: str
    method: Callable[[], gv.Method]
    without: Callable[[], gv.Method]


FLAGSHIPS = {
    "hearsay (edge)": Flagship("edge", gv.methods.Hearsay, gv.methods.Mlp),
    "probe (label)": Flagship("label", gv.methods.Probe, gv.methods.Probe),
    "probe (features)": Flagship("features", gv.methods.Probe, gv.methods.Probe),
    "whisper (node)": Flagship("node", gv.methods.Whisper, gv.methods.Whisper),
}


def largest(graph: gv.Graph) -> float:
    """Test accuracy in per cent of naming the class that has most training nodes."""
    named = graph.y[graph.train].bincount(minlength=graph.num_classes).argmax()
    return 100 * float((graph.y[graph.test] == named).float().mean())


def accuracy(graph: gv.Graph, method: gv.Method, unit: str, epsilon: float, seed: int) -> float:
    """Test accuracy in per cent."""
    release = gv.train(graph, method, epsilon=epsilon, delta=DELTA, unit=unit, seed=seed)
    return 100 * release.evaluate("test")["accuracy"]


@lru_cache(maxsize=1)
def mlp_accuracy(graph: gv.Graph, seed: int) -> float:
    """It spends nothing, so that one training serves every epsilon."""
    return accuracy(graph, gv.methods.Mlp(), "edge", 1.0, seed)


def runs(names: list[str], flagships: list[str], epsilons: list[float], seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Everything that must be known, in an order in which graphs are made once."""
    for name in names:
        for seed in seeds:
            for flagship in flagships:
                yield from (
                    {"graph": name, "flagship": flagship, "epsilon": epsilon, "seed": seed} for epsilon in epsilons
                )


@lru_cache(maxsize=1)
def made(name: str, seed: int) -> tuple[gv.Graph, gv.Graph]:
    """A graph, and the same without edges."""
    graph = GRAPHS[name].graph(name, seed).random_split(seed=seed)
    return graph, replace(graph.with_arcs(Csr.empty(graph.num_nodes)), name=f"{name}, no edges")


def measured(run: dict[str, Any]) -> dict[str, Any]:
    """One line: test accuracies in per cent, and CPU seconds of the flagship's training."""
    graph, bare = made(run["graph"], run["seed"])
    flagship, epsilon, seed = FLAGSHIPS[run["flagship"]], run["epsilon"], run["seed"]
    begin = time.process_time()
    reached = accuracy(graph, flagship.method(), flagship.unit, epsilon, seed)
    seconds = time.process_time() - begin
    free = flagship.without is gv.methods.Mlp
    alone = mlp_accuracy(graph, seed) if free else accuracy(bare, flagship.without(), flagship.unit, epsilon, seed)
    found = {"accuracy": reached, "without_edges": alone, "largest_class": largest(graph), "cpu_seconds": seconds}
    return run | {key: round(value, 2) for key, value in found.items()}


def judged(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The seeds of one graph, flagship and epsilon taken together."""
    means = {key: float(np.mean([line[key] for line in lines])) for key in ("accuracy", *FLOORS)}
    best = max(FLOORS, key=means.__getitem__)
    below = np.array([line[best] - line["accuracy"] for line in lines])
    half = float(student.ppf(0.975, len(below) - 1) * below.std(ddof=1) / len(below) ** 0.5) if len(below) > 1 else 0.0
    hurts = below.mean() > max(SLACK, half)
    return means | {"below": float(below.mean()), "half": half, "hurts": bool(hurts)}


def main() -> None:
    """Print a line for every graph, flagship and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS)
    parser.add_argument("--flagships", nargs="+", default=list(FLAGSHIPS), choices=FLAGSHIPS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--json", type=Path, help="keep every line here")
    words = parser.parse_args()
    torch.set_num_threads(1)
    wanted = list(runs(words.graphs, words.flagships, words.epsilons, words.seeds))
    kept = json.loads(words.json.read_text()) if words.json and words.json.exists() else []
    for run in wanted:
        if not any(run.items() <= line.items() for line in kept):
            kept.append(measured(run))
            if words.json:
                words.json.write_text(json.dumps(kept, indent=1) + "\n")
    show(kept, wanted)


def show(kept: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """The table of what was wanted."""
    print(f"{'graph':30} {'flagship':18} {'eps':>4} {'reached':>8} {'no edges':>9} {'largest':>8} {'below':>14}")
    cells: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for run in wanted:
        line = next(line for line in kept if run.items() <= line.items())
        cells.setdefault((run["graph"], run["flagship"], run["epsilon"]), []).append(line)
    for cell, lines in cells.items():
        found = judged(lines)
        print(
            f"{cell[0]:30} {cell[1]:18} {cell[2]:4g} {found['accuracy']:8.1f} {found['without_edges']:9.1f}"
            f" {found['largest_class']:8.1f} {found['below']:6.1f} ± {found['half']:5.1f}"
            f"{'  HURTS' if found['hurts'] else ''}"
        )


if __name__ == "__main__":
    main()
