"""A module of one's own beside the built-in networks: seconds of a step, and test accuracy.

    python benchmarks/own_networks.py speed
    python benchmarks/own_networks.py accuracy --units node features label edge --datasets cora chain-s --seeds 3

speed: clipped gradients of 4,096 stars of about 5.5 nodes, one thread: network=gcn by the built-in engine, the same
network written with GCNConv by `own_gradients`, and a plain loop over subgraphs (on a sixteenth of them, scaled up).
Gradients of the first two agree, which is checked. accuracy: epsilon 4, delta 1e-5, seeded; a GAT, GraphSAGE with
attention pooling and a mixer beside what is built in; settings are the methods' own and nothing is searched.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, elu
from torch_geometric.nn import AttentionalAggregation, GATConv, GCNConv, SAGEConv

import graphveil as gv
from engine import stars
from graphveil.nn.own_gradients import OwnGradients, OwnModel
from graphveil.nn.subgraph import SubgraphModel, gradients
from graphveil.sampling.subgraphs import Subgraphs

BATCH, CLASSES, CLIP, SHARE = 4096, 10, 1.0, 16
SIZES = ((16, 32), (100, 32), (767, 32), (767, 128))
"""Features and hidden units."""


class Gcn(nn.Module):
    """What network=gcn computes."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv, self.lin = GCNConv(features, hidden), nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(elu(self.conv(x, edge_index)))


class Gat(nn.Module):
    """Attention, then a dense layer."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv, self.lin = GATConv(features, hidden // 4, heads=4), nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(elu(self.conv(x, edge_index)))


class SageAttention(nn.Module):
    """GraphSAGE, then attention over the nodes of the subgraph."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv, self.pool = SAGEConv(features, hidden), AttentionalAggregation(nn.Linear(hidden, 1))
        self.lin = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.lin(self.pool(elu(self.conv(x, edge_index)), batch))


class SageRows(SageAttention):
    """The same with a row for every node, its own beside what attention makes of all that it hears."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        h = elu(self.conv(x, edge_index))
        heard = self.pool(h[edge_index[0]], edge_index[1], dim_size=len(h))
        return self.lin(h + heard)


class Mixer(nn.Module):
    """Every node hears the mean of all nodes it is given; then a dense layer with a shortcut."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.start, self.mix, self.lin = (
            nn.Linear(features, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        h = self.start(x)
        h = h + h.mean(dim=0, keepdim=True)
        return self.lin(h + elu(self.mix(h)))


def built_in(known: SubgraphModel, model: OwnModel, batch: Subgraphs, x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    """The built-in engine at the module's weights."""
    named = model.made_up()
    weights = [named["conv.lin.weight"].T, named["conv.bias"], named["lin.weight"].T, named["lin.bias"]]
    return lambda: gradients(known, weights, batch, x, y).clipped_sum(CLIP)


def loop(model: OwnModel, batch: Subgraphs, x: Tensor, y: Tensor) -> None:
    """As one would write it: a subgraph at a time through the module, autograd, clip, add."""
    total = [torch.zeros_like(part, dtype=torch.float64) for part in model.start()]
    weights = list(model.module.parameters())
    for place in range(batch.count):
        first, last = batch.ptr[place], batch.ptr[place + 1]
        sources = torch.arange(1, last - first)
        out = model.module(x[first:last], torch.stack([sources, torch.zeros_like(sources)]))
        found = torch.autograd.grad(cross_entropy(out[:1], y[place : place + 1]), weights)
        length = float(torch.stack([part.double().norm() for part in found]).norm())
        for part, more in zip(total, found, strict=True):
            part += more.double() * (CLIP / max(length, CLIP))


def best(work: Callable[[], Any], rounds: int) -> float:
    """CPU seconds of the quickest of some runs, after a first one."""
    work()
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def speed(rounds: int) -> list[dict[str, float]]:
    """Seconds of one clipped sum, and the ratios."""
    torch.set_num_threads(1)
    rows = []
    for width, hidden in SIZES:
        torch.manual_seed(0)
        batch = stars(BATCH)
        x, y = torch.randn(len(batch.nodes), width), torch.randint(CLASSES, (BATCH,))
        model = OwnModel.of(Gcn(width, CLASSES, hidden))
        ours = built_in(SubgraphModel("gcn", 1, hidden, "elu", CLASSES, width), model, batch, x, y)
        own = OwnGradients(model, model.made_up(), batch, x, y, CLASSES, key=0)
        torch.testing.assert_close(own.clipped_sum(CLIP).norm(), ours().norm(), rtol=1e-4, atol=0.0)
        some = batch.take(np.arange(BATCH // SHARE))
        seconds = {
            "built in": best(ours, rounds),
            "own": best(partial(own.clipped_sum, CLIP), rounds),
            "loop": SHARE * best(partial(loop, model, some, x, y), 1),
        }
        ratios = {
            "own / built in": seconds["own"] / seconds["built in"],
            "loop / own": seconds["loop"] / seconds["own"],
        }
        rows.append({"features": width, "hidden": hidden, **seconds, **ratios})
        print(json.dumps({name: round(value, 3) for name, value in rows[-1].items()}), flush=True)
    return rows


def contenders(unit: str) -> dict[str, gv.Method]:
    """The networks of a unit, by name."""
    pooled, rows = gv.OwnNetwork.of(SageAttention), gv.OwnNetwork.of(SageRows)
    own = {"gat": gv.OwnNetwork.of(Gat), "sage, attention": pooled, "mixer": gv.OwnNetwork.of(Mixer)}
    if unit == "label":
        named = {"probe": None, **own, "sage, attention": rows}
        return {name: gv.methods.Probe(network=network) for name, network in named.items()}
    if unit == "edge":
        named = {"gcn": "gcn", "sage": "sage", **own, "sage, attention": rows}
        return {name: gv.methods.LapGraph(network=network) for name, network in named.items()}
    named = {"gcn": "gcn", "sage": "sage", **own}
    if unit == "features":
        return {name: gv.methods.Drw(network=network) for name, network in named.items()}
    small = gv.methods.HeterPoisson(hidden=32)
    return {
        name: small if name == "gcn" else gv.methods.HeterPoisson(network=network) for name, network in named.items()
    }


def accuracy(units: list[str], datasets: list[str], seeds: int, epsilon: float) -> None:
    """One line for every unit, dataset and network: mean and deviation over seeds, in per cent."""
    for unit in units:
        for dataset in datasets:
            for name, method in contenders(unit).items():
                scores, begin = [], time.perf_counter()
                for seed in range(seeds):
                    graph = gv.datasets.load(dataset, split="random", seed=seed)
                    release = gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit=unit, seed=seed)
                    scores.append(100 * release.evaluate("test")["accuracy"])
                spent = (time.perf_counter() - begin) / seeds
                row = {"unit": unit, "dataset": dataset, "method": method.name(), "network": name}
                said = {
                    "accuracy": round(float(np.mean(scores)), 1),
                    "deviation": round(float(np.std(scores, ddof=1)), 1),
                }
                print(json.dumps({**row, **said, "seconds": round(spent, 1)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["speed", "accuracy"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--units", nargs="+", default=["node", "features", "label", "edge"])
    parser.add_argument("--datasets", nargs="+", default=["cora", "chain-s"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=4.0)
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.rounds)
    else:
        accuracy(given.units, given.datasets, given.seeds, given.epsilon)


if __name__ == "__main__":
    main()
