"""A module of one's own beside the built-in networks: seconds of a step.

    python tests/speed/own_networks.py [--rounds 5] [--json FILE]

Clipped gradients of 4,096 subgraphs, one thread: network=gcn by the built-in engine, the same network written with
GCNConv by `own_gradients`, and a plain loop over subgraphs (on a sixteenth of them, scaled up); one layer on stars of
about 5.5 nodes, two on what HeterPoisson draws by default, arcs among neighbours too. CPU seconds, the least of some
rounds that take turns. Gradients of the first two agree, which is checked.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import torch
from engine import NODES, Step, seconds, stars  # type: ignore[import-not-found]  # beside this script
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, elu
from torch_geometric.nn import GCNConv

from graphveil.data.arcs import Arcs
from graphveil.nn.own_gradients import OwnGradients, OwnModel, arcs_of
from graphveil.nn.sampling.heterpoisson import draws_needed, sample
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph import gradients
from graphveil.nn.subgraph_model import SubgraphModel
from graphveil.runtime.folders import write_whole

BATCH, CLASSES, CLIP, SHARE = 4096, 10, 1.0, 16
SIZES = ((16, 32), (100, 32), (767, 32), (767, 128))
"""Features and hidden units."""


class Gcn(nn.Module):
    """What network=gcn computes with one layer."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv, self.lin = GCNConv(features, hidden), nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(elu(self.conv(x, edge_index)))


class Gcn2(Gcn):
    """What it computes with two."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__(features, classes, hidden)
        self.again = GCNConv(hidden, hidden)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(elu(self.again(elu(self.conv(x, edge_index)), edge_index)))


def neighbourhoods(count: int) -> Subgraphs:
    """Centres of a ring in which nodes know 4.8 others, each with about one of them, and all arcs among these."""
    rng = np.random.default_rng(0)
    near = [(np.arange(NODES), (np.arange(NODES) + step) % NODES, rng.random(NODES) < 0.4) for step in range(1, 7)]
    pairs = np.concatenate([np.stack([one[kept], other[kept]]) for one, other, kept in near], axis=1)
    adj = Arcs(pairs[0], pairs[1], NODES, "edge").cleaned(undirected=True).pack()
    centres = np.sort(rng.choice(NODES, count, replace=False))
    keep, draws = 1 / np.maximum(np.diff(adj.indptr), 1), rng.random(draws_needed(adj, centres))
    return sample(adj, centres, keep, draws, drop_centres=False, induced=True)


def built_in(known: SubgraphModel, model: OwnModel, batch: Subgraphs, x: Tensor, y: Tensor) -> Step:
    """The built-in engine at the module's weights."""
    named = model.initial_weights()
    layers = ("conv", "again")[: known.layers]
    weights = [part for layer in layers for part in (named[f"{layer}.lin.weight"].T, named[f"{layer}.bias"])]
    weights += [named["lin.weight"].T, named["lin.bias"]]
    return lambda: gradients(known, weights, batch, x, y).clipped_sum(CLIP)


def loop(model: OwnModel, batch: Subgraphs, x: Tensor, y: Tensor) -> None:
    """As one would write it: a subgraph at a time through the module, autograd, clip, add."""
    total = [torch.zeros_like(part, dtype=torch.float64) for part in model.start()]
    weights = list(model.module.parameters())
    for place in range(batch.count):
        first, last = batch.ptr[place], batch.ptr[place + 1]
        out = model.module(x[first:last], arcs_of(batch, place))
        found = torch.autograd.grad(cross_entropy(out[:1], y[place : place + 1]), weights)
        length = float(torch.stack([part.double().norm() for part in found]).norm())
        for part, more in zip(total, found, strict=True):
            part += more.double() * (CLIP / max(length, CLIP))


def timed(layers: int, width: int, hidden: int, rounds: int) -> dict[str, float]:
    """Seconds of one clipped sum of each kind, and the ratios."""
    torch.manual_seed(0)
    batch = stars(BATCH) if layers == 1 else neighbourhoods(BATCH)
    x, y = torch.randn(len(batch.nodes), width), torch.randint(CLASSES, (BATCH,))
    model = OwnModel.of((Gcn if layers == 1 else Gcn2)(width, CLASSES, hidden))
    ours = built_in(SubgraphModel("gcn", layers, hidden, "elu", CLASSES, width), model, batch, x, y)
    own = OwnGradients(model, model.initial_weights(), batch, x, y, CLASSES, key=0)
    torch.testing.assert_close(own.clipped_sum(CLIP).norm(), ours().norm(), rtol=1e-4, atol=0.0)
    took = seconds({"built in": ours, "own": partial(own.clipped_sum, CLIP)}, "cpu", rounds)
    some = batch.take(np.arange(BATCH // SHARE))
    took["loop"] = SHARE * seconds({"loop": partial(loop, model, some, x, y)}, "cpu", 2)["loop"]
    ratios = {"own / built in": took["own"] / took["built in"], "loop / own": took["loop"] / took["own"]}
    return {"layers": layers, "features": width, "hidden": hidden, **took, **ratios}


def speed(rounds: int) -> list[dict[str, float]]:
    """A row for each number of layers and size."""
    torch.set_num_threads(1)
    rows = []
    for layers in (1, 2):
        for width, hidden in SIZES:
            row = timed(layers, width, hidden, rounds)
            rows.append({name: float(f"{value:.3g}") if value % 1 else int(value) for name, value in row.items()})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also keep the rows")
    given = parser.parse_args()
    rows = speed(given.rounds)
    if given.json:
        write_whole(given.json, rows)


if __name__ == "__main__":
    main()
