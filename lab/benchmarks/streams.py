"""Growing graphs: accuracy of `extend`.

    python lab/benchmarks/streams.py --jobs 2 --json lab/results/streams.json
    python lab/benchmarks/streams.py [--datasets cora,drift] [--epsilon 4] [--seeds 3] [--periods 12]

Edges of a real graph arrive in a random order, a twelfth in each period; or those of a made-up one (drift)
whose nodes move between communities, 2 % in each period, with their labels and features. Test accuracy in per cent
after two thirds and at the end, mean and half of the 95 % interval over seeds, of

    extend, all         every row is refreshed in every period;
    extend, doubling    rows are refreshed in periods 1, 2, 4 and 8;
    extend, on demand   rows are refreshed at first and when predictions are asked for, in those two periods;
    divided             a training with a twelfth of epsilon in each period;
    once                a single training with all of epsilon, in that very period and no other;
    not private         hearsay without noise;
    mlp                 no edges at all.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

import graphveil as gv
from graphveil.data.arcs import Arcs, Ids
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.runtime.engine import Local, one_thread
from graphveil_lab import kept_files

DELTA = 1e-5
Grown = Callable[[int], Graph]
"""The graph of a period, from 1 on."""


def arriving(name: str, seed: int, periods: int) -> Grown:
    """A real graph whose edges arrive in a random order."""
    whole = gv.datasets.load(name, split="random", seed=seed)
    sources, targets = whole.adj.indices, whole.adj.targets()
    once = sources < targets
    order = np.random.default_rng(seed).permutation(int(once.sum()))
    pairs = np.stack([sources[once], targets[once]])[:, order]

    def grown(period: int) -> Graph:
        some = pairs[:, : round(pairs.shape[1] * period / periods)]
        return whole.with_arcs(Arcs(some[0], some[1], whole.num_nodes, "edge").once_to_csr(clean=False))

    return grown


def drifting(seed: int, periods: int, nodes: int = 3000, degree: float = 24.0, moved: float = 0.02) -> Grown:
    """Communities that nodes move between, with their labels and features; edges stay, and new ones follow the new."""
    draw, base = np.random.default_rng(seed), social(num_nodes=nodes, average_degree=1.0, seed=seed)
    homes, features = base.y.numpy().copy(), base.x.numpy().copy()
    centres = np.stack([features[homes == home].mean(axis=0) for home in range(base.num_classes)])
    split = base.random_split(seed=seed)
    graphs, pairs = [], np.empty((2, 0), np.int64)
    for _ in range(periods):
        movers = np.flatnonzero(draw.random(nodes) < moved)
        fresh = draw.integers(0, base.num_classes, len(movers))
        features[movers] += (centres[fresh] - centres[homes[movers]]).astype(np.float32)
        homes[movers] = fresh
        pairs = np.concatenate([pairs, _edges(homes, round(nodes * degree / 2 / periods), draw)], axis=1)
        adj = Arcs(pairs[0], pairs[1], nodes, "edge").cleaned(undirected=True).pack()
        x, y = torch.from_numpy(features.copy()), torch.from_numpy(homes.copy())
        masks = (split.train, split.val, split.test)
        graphs.append(Graph(x, adj, y, base.num_classes, True, *masks, "drift", split.split))
    return lambda period: graphs[period - 1]


def _edges(homes: Ids, count: int, draw: np.random.Generator, homophily: float = 0.7) -> Ids:
    """Both ends of edges, int64 [2, count]: within a community with the chance `homophily`, else anywhere."""
    sources, targets = draw.integers(0, len(homes), (2, count))
    order = np.argsort(homes, kind="stable")
    starts = np.searchsorted(homes[order], np.arange(homes.max() + 2))
    low, high = starts[homes[sources]], starts[homes[sources] + 1]
    within = order[low + (draw.random(count) * (high - low)).astype(np.int64)]
    return np.stack([sources, np.where(draw.random(count) < homophily, within, targets)])


def accuracies(grown: Grown, epsilon: float, seed: int, periods: int) -> dict[tuple[str, int], float]:
    """Test accuracy by line and period."""
    asked, found = (2 * periods // 3, periods), {}
    schedules = {"all": lambda _: "all", "doubling": lambda _: "doubling"}
    schedules["on demand"] = lambda period: "all" if period in asked else "none"

    def train(period: int, method: gv.methods.Hearsay | gv.methods.Mlp, budget: float, **more: Path) -> gv.Release:
        return gv.train(grown(period), method, epsilon=budget, delta=DELTA, unit="edge", seed=seed, **more)

    def score(release: gv.Release) -> float:
        return float(release.evaluate("test")["accuracy"])

    for name, rule in schedules.items():
        with tempfile.TemporaryDirectory() as folder:
            journal = Path(folder) / "journal"
            release = train(1, gv.methods.Hearsay(), epsilon, journal=journal)
            for period in range(2, periods + 1):
                release = gv.extend(release, grown(period), journal=journal, refresh=rule(period), seed=seed)
                if period in asked:
                    found[f"extend, {name}", period] = score(release)
    for period in asked:
        found["divided", period] = score(train(period, gv.methods.Hearsay(), epsilon / periods))
        found["once", period] = score(train(period, gv.methods.Hearsay(), epsilon))
        found["not private", period] = score(train(period, gv.methods.Hearsay(), float("inf")))
        found["mlp", period] = score(train(period, gv.methods.Mlp(), epsilon))
    return found


def measured(shared: tuple[float, int], case: tuple[str, int]) -> list[dict[str, Any]]:
    """A row for every line and period of one graph and seed."""
    (epsilon, periods), (name, seed) = shared, case
    grown = drifting(seed, periods) if name == "drift" else arriving(name, seed, periods)
    found = accuracies(grown, epsilon, seed, periods)
    told = {"graph": name, "seed": seed, "epsilon": epsilon}
    return [{**told, "line": line, "period": f"period {at}", "accuracy": share} for (line, at), share in found.items()]


def accuracy(names: list[str], epsilon: float, seeds: int, periods: int, jobs: int) -> list[dict[str, Any]]:
    """Prints the table, and returns the rows that it is made of."""
    cases = [(name, seed) for name in names for seed in range(seeds)]
    with one_thread():
        found = dict(Local(jobs).stream(measured, (epsilon, periods), cases))
    rows = [row for place in range(len(cases)) for row in found[place]]
    scores = defaultdict(list)
    for row in rows:
        scores[row["graph"], row["line"], row["period"]].append(100 * row["accuracy"])
    columns = [f"period {2 * periods // 3}", f"period {periods}"]
    print(f"| graph | line | {' | '.join(columns)} |\n|---|---|---|---|")
    for name, line in dict.fromkeys((name, line) for name, line, _ in scores):
        print(f"| {name} | {line} | {' | '.join(_shown(scores[name, line, column]) for column in columns)} |")
    return rows


def _shown(values: list[float]) -> str:
    mean = f"{np.mean(values):.1f}"
    if len(values) < 2:
        return mean
    wide = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean} ± {wide:.1f}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="drift,cora,photo,facebook")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--periods", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also keep every run")
    given = parser.parse_args()
    found = accuracy(given.datasets.split(","), given.epsilon, given.seeds, given.periods, given.jobs)
    if given.json:
        kept_files.write(given.json, found)
