"""PrivGNN's teachers side by side against a plain loop over them with PyG layers, and the light teacher against both.

    python lab/benchmarks/teachers.py [--threads 2] [--plain 20] [--ours 40]

Amazon Computers with the sizes of PrivGNN's Table 11 (2,500 private nodes, 3,000 to ask about, 3,000 to test), 1,000
queries, gamma 0.3, K 750, 767 features, 200 epochs. Some teachers are timed, 1,000 extrapolated. The plain loop is
timed as anyone would write it; its labels are compared in a second pass, from the same first weights and dropout.
Prints JSON: wall and CPU seconds for 1,000 queries, ratios (the bars are 3 and 20), how many labels agree, and the
accuracy and the mean chance of the true class of both teachers on the queries that were timed. A quiet machine, please:
two OpenMP teams that share a core wait for each other.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numba
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu
from torch_geometric.nn import SAGEConv

import graphveil as gv
from graphveil.data.arcs import Csr, Ids
from graphveil.nn.nearest import nearest
from graphveil.nn.public_embedding import PublicEmbedding
from graphveil.nn.sage_batch import SageRecipe, TeacherStart, dropout_factors
from graphveil.nn.teachers import Known, SageTeachers, VotingTeachers

PRIVATE, ASK, TEST, QUERIES, RATE, NEAREST = 2500, 3000, 3000, 1000, 0.3, 750
RECIPE = SageRecipe()


class Net(nn.Module):
    """Two layers of PyG. The first has no bias: batch normalisation would take it out again."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.lower, self.norm = SAGEConv(width, RECIPE.hidden, bias=False), nn.BatchNorm1d(RECIPE.hidden)
        self.dropout, self.upper = nn.Dropout(RECIPE.dropout), SAGEConv(RECIPE.hidden, classes)

    def forward(self, x: Tensor, arcs: Tensor, factors: Tensor | None = None) -> Tensor:
        h = relu(self.norm(self.lower(x, arcs)))
        return self.upper(self.dropout(h) if factors is None else h * factors, arcs)

    def begin(self, start: TeacherStart) -> None:
        """From these first weights."""
        classes = len(start.bias)
        with torch.no_grad():
            self.lower.lin_r.weight.copy_(torch.from_numpy(start.own.T))
            self.lower.lin_l.weight.copy_(torch.from_numpy(start.near.T))
            self.upper.lin_r.weight.copy_(torch.from_numpy(start.upper[:classes]))
            self.upper.lin_l.weight.copy_(torch.from_numpy(start.upper[classes:]))
            self.upper.lin_l.bias.copy_(torch.from_numpy(start.bias))


def plain(known: Known, ids: Ids, public: tuple[Tensor, Csr], node: int, start: TeacherStart | None) -> Tensor:
    """One teacher's posterior [c]; with `start`, from its first weights and with its dropout."""
    inside = np.zeros(len(known.x), dtype=bool)
    inside[ids] = True
    x, y = known.x[torch.from_numpy(ids)], known.y[torch.from_numpy(ids)]
    arcs, net = known.adj.within(inside).edge_index(), Net(known.x.shape[1], known.classes)
    if start is not None:
        net.begin(start)
    optimiser = torch.optim.Adam(net.parameters(), lr=RECIPE.learning_rate)
    for epoch in range(RECIPE.epochs):
        factors = None
        if start is not None:
            factors = torch.from_numpy(dropout_factors(np.uint64(start.key), epoch, len(ids), RECIPE.hidden, 128))
        optimiser.zero_grad()
        cross_entropy(net(x, arcs, factors), y).backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        return around(net, *public, node)


def around(net: Net, x: Tensor, adj: Csr, node: int) -> Tensor:
    """The posterior of a public node, from its two-hop neighbourhood."""
    near = adj.indices[adj.indptr[node] : adj.indptr[node + 1]]
    inside = np.zeros(adj.num_nodes, dtype=bool)
    inside[node] = inside[near] = True
    for other in near:
        inside[adj.indices[adj.indptr[other] : adj.indptr[other + 1]]] = True
    arcs = adj.within(inside).edge_index()
    place = int(inside[:node].sum())
    return net(x[torch.from_numpy(np.flatnonzero(inside))], arcs)[place].double().softmax(dim=0)


def timed(work: Callable[[], Tensor], count: int) -> tuple[Tensor, dict[str, float]]:
    """What `work` gives, and the seconds that 1,000 queries would take."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return found, {name: seconds * QUERIES / count for name, seconds in took.items()}


def main() -> None:
    """Run all and print JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plain", type=int, default=20)
    parser.add_argument("--ours", type=int, default=40)
    words = parser.parse_args()
    torch.set_num_threads(words.threads)
    numba.set_num_threads(words.threads)
    graph = gv.datasets.load("computers").split_public(PRIVATE, ASK, TEST)
    beside = graph.public_graph
    assert beside is not None
    public = (beside.x, beside.adj)
    known = Known(graph.x, graph.y, graph.adj, graph.num_classes)
    rng = np.random.Generator(np.random.PCG64(0))
    asked = rng.permutation(beside.train.nonzero()[:, 0].numpy())[:QUERIES]
    samples = [np.flatnonzero(rng.random(graph.num_nodes) < RATE) for _ in asked]
    took = {}

    def choose() -> Tensor:
        found.extend(nearest(known.x, ids, beside.x[int(v)], NEAREST) for ids, v in zip(samples, asked, strict=True))
        return torch.empty(0)

    found: list[Ids] = []
    nearest(known.x, samples[0], beside.x[0], 1)
    _, took["nearest"] = timed(choose, QUERIES)
    SageTeachers(*public, SageRecipe(epochs=1)).answers(known, found[:2], asked[:2], 0)
    sage, few, many = SageTeachers(*public, RECIPE), asked[: words.plain], asked[: words.ours]
    ours, took["ours"] = timed(lambda: sage.answers(known, found[: words.ours], many, 0), words.ours)

    def loop(starts: list[TeacherStart | None]) -> Tensor:
        parts = zip(found, few, starts, strict=False)
        return torch.stack([plain(known, ids, public, int(v), start) for ids, v, start in parts])

    loop([None])
    _, took["plain"] = timed(lambda: loop([None] * words.plain), words.plain)
    width = known.x.shape[1]
    same = loop([TeacherStart.draw(0, int(v), width, known.classes, RECIPE) for v in few])
    light, took["light"] = timed(
        lambda: VotingTeachers(PublicEmbedding.of(*public), *public).answers(known, found, asked, 0), QUERIES
    )
    truth = beside.y[torch.from_numpy(many)]

    def quality(scores: Tensor) -> dict[str, float]:
        right = (scores.argmax(dim=1) == truth).double().mean()
        return {"accuracy": float(right), "true class": float(scores[torch.arange(len(truth)), truth].mean())}

    report = {
        "graph": repr(graph),
        "threads": words.threads,
        "seconds for 1,000 queries": took,
        "plain / ours": took["plain"]["wall"] / took["ours"]["wall"],
        "plain / light": took["plain"]["wall"] / took["light"]["wall"],
        "ours / light": took["ours"]["wall"] / took["light"]["wall"],
        "same labels": f"{int((same.argmax(1) == ours[: words.plain].argmax(1)).sum())} of {words.plain}",
        "largest gap of posteriors": float((same - ours[: words.plain]).abs().max()),
        "sage": quality(ours),
        "light": quality(light[: words.ours]),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
