"""`dpsgd` beside the largest class and beside its old default (learning_rate = 64): is the floor a floor?

    python lab/benchmarks/floors.py --jobs 2 --json lab/results/floors.json
    python lab/benchmarks/floors.py [--graphs NAME ...] [--epsilons E ...] [--seeds S ...] [--unit node]

Prints a Markdown table: accuracy in per cent on test nodes, mean over seeds; the last number of a cell is the old
default. Made-up graphs have no edges, since the method reads none: two unequal classes, sixty classes, ten features,
and features that say nothing. Real ones need GRAPHVEIL_DATA. `--json` keeps every run.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

import graphveil as gv
from graphveil.data.graph import Graph
from graphveil.runtime.engine import Local, one_thread
from graphveil_lab import kept_files

REAL = ("cora", "chameleon-undirected", "twitch-de", "photo")
SHAPES: dict[str, tuple[list[float], int, float]] = {
    "78/22": ([0.78, 0.22], 50, 0.15),
    "95/5": ([0.95, 0.05], 50, 0.15),
    "60 classes": ([1 / rank for rank in range(1, 61)], 100, 0.5),
    "ten features": ([0.5, 0.2, 0.15, 0.1, 0.05], 10, 0.7),
    "nothing told": ([0.6, 0.4], 50, 0.0),
    "nothing told, wide": ([0.6, 0.4], 1500, 0.0),
}
"""Weights of classes, features, and how far the means of classes lie from one another in a feature."""


def made_up(name: str, seed: int, nodes: int = 4000) -> Graph:
    """A graph without edges of the shape `name`."""
    weights, width, tells = SHAPES[name]
    draw = torch.Generator().manual_seed(1000 + seed)
    y = torch.multinomial(torch.tensor(weights), nodes, replacement=True, generator=draw)
    means = tells * torch.randn(len(weights), width, generator=draw)
    x: Tensor = means[y] + torch.randn(nodes, width, generator=draw)
    return Graph.from_pyg(Data(x, torch.zeros(2, 0, dtype=torch.int64), y=y), undirected=True, name=name)


def scored(unit: str, case: tuple[str, float, int]) -> dict[str, Any]:
    """Test accuracy of the largest training class, of the default, and of the old one."""
    name, epsilon, seed = case
    graph = (made_up(name, seed) if name in SHAPES else gv.datasets.load(name)).random_split(seed=seed)
    largest = int(torch.bincount(graph.y[graph.train].clamp(min=0)).argmax())
    found = {"largest class": float((graph.y[graph.test] == largest).double().mean())}
    for label, method in (("default", gv.methods.DpSgd()), ("rate 64", gv.methods.DpSgd(learning_rate=64.0))):
        release = gv.train(
            graph, method, epsilon=epsilon, delta=1e-5, unit=unit, seed=seed, compute=gv.Compute(quiet=True)
        )
        found[label] = release.evaluate("test")["accuracy"]
    return {"graph": name, "unit": unit, "epsilon": epsilon, "seed": seed, **found}


def table(rows: list[dict[str, Any]]) -> str:
    """A row for every graph: the largest class, and the default with the old one in brackets."""
    epsilons = sorted({row["epsilon"] for row in rows})
    lines = [
        "| graph | largest class | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " |",
        "| --- " * (2 + len(epsilons)) + "|",
    ]
    for name in dict.fromkeys(row["graph"] for row in rows):
        mine = [row for row in rows if row["graph"] == name]
        cells = [f"{100 * fmean(row['largest class'] for row in mine):.1f}"]
        for epsilon in epsilons:
            here = [row for row in mine if row["epsilon"] == epsilon]
            new, old = (100 * fmean(row[label] for row in here) for label in ("default", "rate 64"))
            cells.append(f"{new:.1f} ({old:.1f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and keep the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=[*SHAPES, *REAL])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--unit", default="node", choices=["node", "features", "label"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cases = list(product(given.graphs, given.epsilons, given.seeds))
    with one_thread():
        found = dict(Local(given.jobs).stream(scored, given.unit, cases))
    rows = [found[place] for place in range(len(cases))]
    print(table(rows))
    if given.json:
        kept_files.write(given.json, rows)


if __name__ == "__main__":
    main()
