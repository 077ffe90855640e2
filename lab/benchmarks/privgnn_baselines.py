"""Baselines B1 to B4 of PrivGNN (Olatunji et al. 2023, sections 4 and D.4, D.5, G) and its ablations.

    python lab/benchmarks/privgnn_baselines.py                      # all but KNNREM: half an hour, resumable
    python lab/benchmarks/privgnn_baselines.py --datasets credit --seeds 0
    python lab/benchmarks/privgnn_baselines.py --knnrem             # with it: hours

Not methods: none of the baselines is private, and three of them read labels of the public graph, which no method can.

B1  the paper's network on all private nodes and arcs, applied to the public graph.
B2  the same network on the public graph with the true labels of its training nodes.
B3  one network on both graphs, every arc of each and none between them, with all private and those public labels.
B4  a noisy oracle: a student on true labels of |Q| query nodes, each one-hot plus Laplace(1/lambda) on every entry,
    negative entries set to zero, rows normalised. A row without a positive entry stays zero and teaches nothing.

What B4 reveals. One label moves two entries by 1, so its noisy row is 2 lambda-private; every node is asked once at
most, so all rows together are 2 lambda-private for the label of any one public node, whose presence, features and arcs
are not protected. Of the private graph B4 reads nothing. Whoever could move all labels at once would be protected by
|Q| times 2 lambda, or by less at a delta: `all labels` is the composition of 2 |Q| Laplace entries at delta 1e-4.

SINGLEGNN (section 5.5): one sample and one network for all queries. KNNREM: a sample and a network for each, without
choosing the nearest nodes. Both are settings of `privgnn`, and are listed with what is claimed and what is provable.

Every dataset and seed has a file of its own, written when it is done; what is there is not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

import graphveil as gv
from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.mechanisms.laplace import Laplace
from graphveil.methods.public_graph import privgnn
from graphveil.nn.features import Scaling
from graphveil.nn.gnn import mean_operator
from graphveil.nn.inductive import inductive
from graphveil.nn.sage_teacher import SageRecipe
from graphveil.nn.student import SageNet
from graphveil.nn.teachers import Known
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded, Stream
from graphveil.runtime.engine import Local, one_thread
from graphveil.vocabulary import Adjacency, Plan, Reading, Step
from graphveil_lab import kept_files
from privgnn_table import DELTA, LAMBDAS, PAPER, Remembered, against_lambda, found_or_made, spread

PRINTED: dict[str, dict[str, tuple[str, ...]]] = {
    "computers": {
        "B1": ("88 +- 2",),
        "B2": ("91 +- 2",),
        "B3": ("93 +- 2",),
        "B4": ("42 +- 5", "65 +- 4", "82 +- 3", "84 +- 5", "85 +- 7"),
    },
    "rutgers89": {
        "B1": ("69 +- 1",),
        "B2": ("80 +- 1",),
        "B3": ("83 +- 2",),
        "B4": ("28 +- 6", "47 +- 3", "63 +- 8", "74 +- 5", "83 +- 7"),
    },
    "credit": {
        "B1": ("81 +- 1",),
        "B2": ("81 +- 1",),
        "B3": ("81 +- 1",),
        "B4": ("65 +- 1", "71 +- 2", "73 +- 4", "79 +- 2", "80 +- 2"),
    },
}
"""Tables 8 and 9; Rutgers stands in the place of the paper's Facebook graph. Ablations are printed for other graphs."""
PRINTED_EPSILONS = (100, 200, 300, 400, 500)
"""Of B4 in Table 9, for every dataset."""


def network(x: Tensor, adj: Csr, ids: Ids, told: Tensor, recipe: SageRecipe, seed: int) -> Tensor:
    """Logits of all nodes [m, c] by the paper's network, trained on the whole graph; told: soft labels [k, c]."""
    torch.manual_seed(seed)
    operator, places = mean_operator(adj), torch.from_numpy(ids)
    net = SageNet(x.shape[1], recipe.hidden, told.shape[1], recipe.dropout)
    optimiser = torch.optim.Adam(net.parameters(), lr=recipe.learning_rate)
    for _ in range(recipe.epochs):
        optimiser.zero_grad()
        loss = -(told * torch.log_softmax(net(x, operator)[places], dim=1)).sum(dim=1).mean()
        loss.backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        logits: Tensor = net(x, operator)
    return logits


def side_by_side(first: Csr, second: Csr) -> Csr:
    """Both graphs as one, without an arc between them; the nodes of the first come first."""
    return Csr(
        np.concatenate([first.indptr, first.num_arcs + second.indptr[1:]]),
        np.concatenate([first.indices, first.num_nodes + second.indices]),
    )


def oracle(labels: Tensor, classes: int, strength: float, source: Stream) -> Tensor:
    """B4's soft labels [k, c]: one-hot rows plus Laplace(1 / strength), without negative entries, normalised."""
    exact = one_hot(labels, classes).double()
    noise = torch.from_numpy(source.laplace(exact.numel())).reshape(exact.shape)
    return normalize((exact + noise / strength).clamp(min=0), p=1, dim=1).float()


def all_labels(strength: float, queries: int) -> float:
    """Epsilon at `DELTA` for whoever could move every query label at once: two entries each, by 1."""
    act = Laplace(1 / strength)
    step = Step("labels", act, act.curve(1), 2 * queries, why="docs/methods/privgnn.md")
    return accounting.epsilon(Plan(Adjacency.of("label"), Reading.SOUND, (step,)), DELTA)


def baselines(graph: Graph, scale: str, queries: int, seed: int, recipe: SageRecipe) -> Iterator[tuple[str, float]]:
    """(name, test accuracy) of B1, B2, B3, and of B4 for every lambda."""
    public, classes = graph.public_graph, graph.num_classes
    assert public is not None
    scaling = Scaling.fit(public.x, scale)
    ours, theirs = scaling(graph.x), scaling(public.x)
    taught, asked = (part.train.nonzero().flatten().numpy() for part in (graph, public))

    def accuracy(logits: Tensor) -> float:
        return float((logits.argmax(dim=1) == public.y)[public.test].double().mean())

    known = Known(ours, graph.y, graph.adj, classes)
    yield "B1", accuracy(inductive(known, taught, theirs, public.adj, recipe, True, seed))

    truth = one_hot(public.y[public.train], classes).float()
    yield "B2", accuracy(network(theirs, public.adj, asked, truth, recipe, seed))

    both = torch.cat([one_hot(graph.y[graph.train], classes).float(), truth])
    ids = np.concatenate([taught, graph.num_nodes + asked])
    joint = side_by_side(graph.adj, public.adj)
    yield "B3", accuracy(network(torch.cat([ours, theirs]), joint, ids, both, recipe, seed)[graph.num_nodes :])

    torch.manual_seed(seed)
    drawn = asked[torch.randperm(len(asked))[:queries].numpy()]
    for strength in LAMBDAS:
        told = oracle(public.y[torch.from_numpy(drawn)], classes, strength, Seeded(seed))
        yield f"B4 {strength}", accuracy(network(theirs, public.adj, drawn, told, recipe, seed))


def ablation(graph: Graph, scale: str, queries: int, seed: int, single: bool) -> dict[str, dict[str, float]]:
    """SINGLEGNN, or else KNNREM, for every lambda, with claimed and provable epsilon; KNNREM's teachers train once."""
    method = gv.methods.PrivGnn(queries=queries, scale=scale, neighbours=0, single=single, **PAPER)
    with patch.object(privgnn, "SageTeachers", Remembered):
        rows = against_lambda(graph, method, seed)
    Remembered.kept.clear()
    return rows


def measure(shared: tuple[Path, int, bool], item: tuple[str, int]) -> dict[str, Any]:
    """All accuracies of one dataset and seed."""
    (folder, queries, knnrem), (dataset, seed) = shared, item
    scale = "columns" if dataset == "credit" else "rows"

    def first() -> dict[str, Any]:
        graph = gv.datasets.load(dataset, split="two_graphs", seed=seed)
        return {
            "dataset": dataset,
            "seed": seed,
            "queries": queries,
            "baselines": dict(baselines(graph, scale, queries, seed, SageRecipe())),
            "single": ablation(graph, scale, queries, seed, single=True),
        }

    def second() -> dict[str, Any]:
        graph = gv.datasets.load(dataset, split="two_graphs", seed=seed)
        return {"knnrem": ablation(graph, scale, queries, seed, single=False)}

    result: dict[str, Any] = found_or_made(folder / f"{dataset}-{seed}-{queries}.json", first)
    return result | (found_or_made(folder / f"{dataset}-{seed}-{queries}-knnrem.json", second) if knnrem else {})


def show(results: list[dict[str, Any]]) -> None:
    """A table for every dataset, with what the paper prints."""
    for dataset in dict.fromkeys(result["dataset"] for result in results):
        runs = [result for result in results if result["dataset"] == dataset]
        printed = PRINTED.get(dataset, {})
        print(f"\n{dataset}, {len(runs)} seed(s)\n    accuracy  printed")
        for name in ("B1", "B2", "B3"):
            print(f"{name}  {spread([run['baselines'][name] for run in runs])}  {printed.get(name, ('',))[0]}")
        print("B4: lambda  one label  all labels  printed epsilon  accuracy  printed")
        for place, strength in enumerate(LAMBDAS):
            bounds = f"{2 * strength:9.1f}  {all_labels(strength, runs[0]['queries']):10.1f}"
            reached = spread([run["baselines"][f"B4 {strength}"] for run in runs])
            told = printed["B4"][place] if "B4" in printed else ""
            print(f"    {strength:<6}  {bounds}  {PRINTED_EPSILONS[place]:15}  {reached}  {told}")
        for name, key in (("SINGLEGNN", "single"), ("KNNREM", "knnrem")):
            if any(key not in run for run in runs):
                continue
            print(f"{name}: lambda  claimed  provable  accuracy")
            for strength in LAMBDAS:
                cells = [run[key][str(strength)] for run in runs]
                bounds = f"{cells[0]['claimed']:7.2f}  {cells[0]['provable']:8.2f}"
                print(f"    {strength:<6}  {bounds}  {spread([cell['accuracy'] for cell in cells])}")


def again(run: dict[str, Any]) -> dict[str, Any]:
    """A kept run, made anew."""
    with TemporaryDirectory() as folder:
        return measure((Path(folder), run["queries"], "knnrem" in run), (run["dataset"], run["seed"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["computers", "credit", "rutgers89"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--knnrem", action="store_true", help="KNNREM too: 1,000 networks for every seed")
    parser.add_argument("--json", type=Path, help="write all runs there, sorted")
    given = parser.parse_args()
    given.out = given.out or kept_files.records_folder("privgnn-baselines")
    items = sorted((dataset, seed) for dataset in given.datasets for seed in given.seeds)
    with one_thread():
        found = dict(Local(given.jobs).stream(measure, (given.out, given.queries, given.knnrem), items))
    results = [found[place] for place in range(len(items))]
    show(results)
    if given.json:
        kept_files.write(given.json, results)


if __name__ == "__main__":
    main()
