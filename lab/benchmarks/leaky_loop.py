"""CARIBOU's Algorithm 1 as printed, beside the loop that its printed accuracies come from, which leaks.

That loop applies A_hat once more, without noise, after every noisy step, and releases the result. The leak lives in
this file alone; `caribou` has no such option.

    python lab/benchmarks/leaky_loop.py accuracy --json lab/results/leaky-loop.json [--datasets cora photo] [--seeds 5]
    python lab/benchmarks/leaky_loop.py audit --json lab/results/leaky-loop-audit.json [--runs 100000] [--claimed 1 8]

`accuracy`: the authors' settings (2 hops, beta 10, alpha_1 1, C_L 0.6, 64 hidden units, 70/10/20 split) at epsilon 1,
delta 1e-5 with the noise of the printed Theorem 4 (D_min = 1); test accuracy, mean and standard deviation over seeds.
X_0 are the features or an encoder's 64 hidden units; the head reads X_K alone or [X_0 | X_K] (section 4.5).

`audit`: a canary edge between two nodes that have no other. A threshold on a score is chosen on half of the runs; on
the other half its two error rates give a lower bound on epsilon that is wrong in one case of a hundred at most
(Clopper-Pearson). A bound above the claimed epsilon refutes the claim. Two scores: the distance of the two ends' rows,
and the direction that `mechanisms/contractive.py` offers to auditors.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import beta as beta_law
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.mechanisms.contractive import Contractive, telling_direction
from graphveil.nn.aggregate import NeighbourSums, clip_rows
from graphveil.nn.features import unit_rows
from graphveil.nn.fit import Recipe, fit_rows
from graphveil.nn.mlp import Perceptron, predicted
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded, Stream
from graphveil.vocabulary import Adjacency, Floats, Plan, Reading
from graphveil_lab import kept_files

EPSILON, DELTA, CONFIDENCE = 1.0, 1e-5, 0.99
SETTINGS = gv.methods.Caribou(hops=2, lipschitz=0.6, alpha=1.0, beta=10.0, tau=1.0, loops=1.0, start="features")
Loop = Callable[[Contractive, NeighbourSums, Stream], Tensor]


def as_printed(act: Contractive, asked: NeighbourSums, source: Stream) -> Tensor:
    """Algorithm 1: X <- C_L A_hat X + beta X_0 + noise, projected; the last X leaves. Float64 [n, d]."""
    return loop(act, asked, source, leak=False)


def leaky(act: Contractive, asked: NeighbourSums, source: Stream) -> Tensor:
    """The same, but X <- A_hat X follows every noisy step."""
    return loop(act, asked, source, leak=True)


def loop(act: Contractive, asked: NeighbourSums, source: Stream, leak: bool) -> Tensor:
    """K steps written plainly, alpha_1 = 1; without the leak it draws what the mechanism draws."""
    start = clip_rows(asked.rows.double(), 1.0)
    # One silent hop without the residual is C_L A_hat X, whatever X in the ball.
    bare = replace(act, std=0.0, hops=1, beta=0.0)
    rows = start
    for _ in range(act.hops):
        rows = bare.silent(NeighbourSums(asked.adj, clip_rows(rows, 1.0))) + act.beta * start
        rows = rows + act.std * torch.from_numpy(source.normal(rows.numel())).reshape(rows.shape)
        if leak:
            rows = bare.silent(NeighbourSums(asked.adj, clip_rows(rows, 1.0))) / act.lipschitz
    return rows


def calibrated(reading: Reading, epsilon: float = EPSILON) -> Contractive:
    """The authors' hops with the least noise that `reading` allows at epsilon."""

    def plan(noise: float) -> Plan:
        return SETTINGS.plan(Public.blank(100, 5, 3), Adjacency.of("edge"), reading, noise)

    act = plan(accounting.calibrate(plan, epsilon, DELTA).noise).steps[0].act
    assert isinstance(act, Contractive)
    return act


def trained(graph: Graph, inputs: Tensor, seed: int) -> Perceptron:
    """A perceptron with 64 hidden units on rows [n, d]."""
    torch.manual_seed(seed)
    net = Perceptron((inputs.shape[1], 64, graph.num_classes), dropout=0.5)
    fit_rows(net, inputs, graph.y, graph.train, graph.val, Recipe(200, 0.01, 5e-4, patience=50))
    return net


def accuracy(graph: Graph, inputs: Tensor, seed: int) -> float:
    """Test accuracy of a head on rows [n, d]."""
    right = predicted(trained(graph, inputs, seed), inputs).argmax(dim=1) == graph.y
    return float(right[graph.test].double().mean())


def embedding(graph: Graph, seed: int) -> Tensor:
    """Unit rows of an encoder's hidden layer, [n, 64]: it reads public features and labels."""
    rows = unit_rows(graph.x)
    return unit_rows(predicted(trained(graph, rows, seed).layers[0], rows).relu())


def measure(names: list[str], seeds: int) -> list[dict[str, Any]]:
    """Print the table of accuracies, and return what it is made of."""
    found: list[dict[str, Any]] = []
    act = calibrated(Reading.PUBLISHED)
    print(f"epsilon {EPSILON:g}, delta {DELTA:g}, noise as published {act.std:.4f}; test accuracy in per cent")
    print(f"{'dataset':<10}{'X_0':<12}{'loop':<26}{'head on X_K':>14}{'on [X_0 | X_K]':>18}")
    loops: list[tuple[str, Loop]] = [("Algorithm 1 as printed", as_printed), ("with a noiseless hop", leaky)]
    for name in names:
        graphs = [gv.datasets.load(name, split="random_80_20", seed=seed) for seed in range(seeds)]
        alone = [accuracy(graph, unit_rows(graph.x), seed) for seed, graph in enumerate(graphs)]
        found += kept(name, "features", "no edges", "X_K", alone)
        print(f"{name:<10}{'features':<12}{'no edges':<26}{told(alone):>14}", flush=True)
        for start in ("features", "embedding"):
            encoded = start == "embedding"
            known = [embedding(g, seed) if encoded else unit_rows(g.x) for seed, g in enumerate(graphs)]
            for title, run in loops:
                heads: tuple[list[float], list[float]] = ([], [])
                for seed, (graph, rows) in enumerate(zip(graphs, known, strict=True)):
                    last = unit_rows(run(act, NeighbourSums(graph.adj, rows), Seeded(seed)).float())
                    heads[0].append(accuracy(graph, last, seed))
                    heads[1].append(accuracy(graph, torch.cat([rows, last], dim=1), seed))
                for head, shares in zip(("X_K", "X_0 and X_K"), heads, strict=True):
                    found += kept(name, start, title, head, shares)
                print(f"{name:<10}{start:<12}{title:<26}{told(heads[0]):>14}{told(heads[1]):>18}", flush=True)
    return found


def kept(name: str, start: str, title: str, head: str, shares: list[float]) -> list[dict[str, Any]]:
    """A row for every seed."""
    said = {"dataset": name, "X_0": start, "loop": title, "head": head}
    return [{**said, "seed": seed, "accuracy": share} for seed, share in enumerate(shares)]


def told(shares: list[float]) -> str:
    spread = statistics.stdev(shares) if len(shares) > 1 else 0.0
    return f"{100 * statistics.fmean(shares):.1f} ± {100 * spread:.1f}"


def certified_epsilon(inside: Floats, outside: Floats) -> float:
    """A lower bound on epsilon that holds with 99 % confidence, from scores with and without the canary.

    Any event S has Pr[S | with] <= e^epsilon Pr[S | without] + delta, and the same with the worlds and S turned round.
    The threshold comes from the first halves; the second halves, which do not know it, bound both shares
    (Clopper-Pearson, half of the error each).
    """
    half = len(inside) // 2
    best, cut, turned = -math.inf, 0.0, False
    for threshold in np.quantile(np.r_[inside[:half], outside[:half]], np.linspace(0.001, 0.999, 400)):
        for flip in (False, True):
            bound = _bound(inside[:half], outside[:half], float(threshold), flip)
            if bound > best:
                best, cut, turned = bound, float(threshold), flip
    return max(_bound(inside[half:], outside[half:], cut, turned), 0.0)


def _bound(inside: Floats, outside: Floats, cut: float, flip: bool) -> float:
    """Is the score above the cut (with the canary), or at most the cut (without it, if `flip`)?"""
    hits, misses = ((outside <= cut), (inside <= cut)) if flip else ((inside > cut), (outside > cut))
    error = (1 - CONFIDENCE) / 2
    least = float(beta_law.ppf(error, hits.sum(), len(hits) - hits.sum() + 1)) if hits.any() else 0.0
    most = float(beta_law.ppf(1 - error, misses.sum() + 1, len(misses) - misses.sum())) if not misses.all() else 1.0
    return math.log((least - DELTA) / most) if least > DELTA else -math.inf


def canary(copies: int) -> tuple[NeighbourSums, NeighbourSums]:
    """Nodes 0 and 1 with opposite features, joined or not, beside a ring of six; side by side in so many copies.

    X_0 is public at edge level. With alpha_1 = 1 no copy hears of another, so one run on all is a run on each.
    """
    ring, pair = np.arange(2, 8), np.array([0, 1])
    here = (np.r_[ring, np.roll(ring, 1), pair], np.r_[np.roll(ring, 1), ring, pair[::-1]])
    there = (here[0][:-2], here[1][:-2])
    rows = torch.zeros(8, 1, dtype=torch.float64)
    rows[:2, 0] = torch.tensor([1.0, -1.0])
    shift = 8 * np.arange(copies)[:, None]
    graphs = [Csr.from_edge_index(*((shift + ends).ravel() for ends in one), 8 * copies) for one in (here, there)]
    return NeighbourSums(graphs[0], rows.repeat(copies, 1)), NeighbourSums(graphs[1], rows.repeat(copies, 1))


def audit(runs: int, claimed: list[float]) -> list[dict[str, Any]]:
    """Print and return certified lower bounds on epsilon for both loops under both calibrations and two scores."""
    print(f"delta {DELTA:g}; lower bounds on epsilon at {CONFIDENCE:.0%} confidence, {runs} runs in either world")
    print(f"{'claimed':>7}  {'loop':<26}{'noise':<20}{'rows differ':>12}{'direction':>11}  verdict")
    loops: list[tuple[str, Loop]] = [("Algorithm 1 as printed", as_printed), ("with a noiseless hop", leaky)]
    rows = []
    for epsilon, (title, run), reading in product(claimed, loops, (Reading.PUBLISHED, Reading.SOUND)):
        act = calibrated(reading, epsilon)
        direction = telling_direction(act, *reversed(canary(1)))
        worlds = [run(act, asked, Seeded(seed)).reshape(runs, 8, 1) for seed, asked in enumerate(canary(runs))]
        # The joined ends hear the same after a noiseless hop: their rows are equal to the last digit.
        apart = [-(world[:, 0] - world[:, 1]).norm(dim=1).numpy() for world in worlds]
        along = [(world * direction).sum((1, 2)).numpy() for world in worlds]
        bounds = [certified_epsilon(*scores) for scores in (apart, along)]
        verdict = "refuted" if max(bounds) > epsilon else "not refuted"
        noise = f"{reading.value} {act.std:.4f}"
        print(f"{epsilon:7g}  {title:<26}{noise:<20}{bounds[0]:12.3f}{bounds[1]:11.3f}  {verdict}", flush=True)
        said = {"epsilon": epsilon, "loop": title, "calibration": reading.value, "noise": act.std, "verdict": verdict}
        rows.append({**said, "rows differ": bounds[0], "direction": bounds[1]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["accuracy", "audit"])
    parser.add_argument("--datasets", nargs="+", default=["cora", "photo"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--claimed", type=float, nargs="+", default=[1.0, 8.0])
    parser.add_argument("--json", type=Path, help="also keep what was found")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    accurate = asked.what == "accuracy"
    found = measure(asked.datasets, asked.seeds) if accurate else audit(asked.runs, asked.claimed)
    if asked.json:
        kept_files.write(asked.json, found)


if __name__ == "__main__":
    main()
