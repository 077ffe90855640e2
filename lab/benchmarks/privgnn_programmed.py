"""PrivGNN as its authors' program has it: Laplace noise on log-softmax outputs, whose range nothing bounds.

    PAGE=docs/methods/privgnn.md
    python lab/benchmarks/privgnn_programmed.py accuracy --json lab/results/privgnn-programmed.json --page $PAGE
    python lab/benchmarks/privgnn_programmed.py accuracy --networks paper --seeds 0 --share 3/16    # some of the teachers
    python lab/benchmarks/privgnn_programmed.py audit --json lab/results/privgnn-audit.json --page $PAGE
    python lab/benchmarks/privgnn_programmed.py accuracy --quick                                    # seconds, to try it out

Algorithm 1 adds Laplace(1 / lambda) to the posterior, a point of the simplex; the program
(github.com/iyempissy/privGnn) to its logarithm. That lives in this file alone; `privgnn` has no such option. The first
command takes hours (minutes on a GPU), the second minutes.

`accuracy`: 1,000 queries on Computers, 750 of 2,500 private nodes for each. One set of teachers is asked in both ways,
at every lambda of Table 5. `--networks program`: three layers, 500 epochs, raw features, as the program's settings say;
`paper`: two layers, 200 epochs, as the paper says. Teachers are trained side by side, `TURN` queries at a time, and
every turn has a file of its own; what is there is not run again.

`audit`: a private graph without edges, 2,499 nodes of class 0 that are all alike, and a canary of class 1 whose
features no other has. Public nodes that look like the canary are asked about. The teacher's three kinds of samples are
trained with the program's own network from `RESTARTS` first weights each, and noise is drawn as the program draws it.
The score of a run is how many labels are 1; `rank_test` gives a lower bound on epsilon that is wrong in one case of a
hundred at most, and that is never above ln(runs). `proven` has no such limit: it follows from the teachers' log
posteriors and the tails of the noise.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

import graphveil as gv
from edge_attacks import fill, line, share_of
from graphveil.auditing.bounds import Scores, rank_test
from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.nn.features import Scaling
from graphveil.nn.nearest import nearest
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded, Stream
from graphveil.runtime.engine import one_thread
from graphveil.vocabulary import Adjacency, Floats, Reading
from graphveil_lab import kept_files
from privgnn_table import LAMBDAS, PAPER, PRINTED, found_or_made, spread

DELTA, CONFIDENCE = 1e-3, 0.99
"""The delta at which the printed budgets come out; the program says 10e-4."""
RATE, NEIGHBOURS, HIDDEN = 0.3, 750, 64
TURN, RESTARTS = 50, 20
SIZES = Public.blank(2500, 767, 10, num_train=2500)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KINDS = ("logarithms", "probabilities")
Mean = Callable[[Tensor], Tensor]
"""[t, n, h] -> what each node hears in the mean, [t, n, h]."""


@dataclass(frozen=True)
class Networks:
    """What teachers and student are."""

    layers: int
    epochs: int
    scale: str


NETWORKS = {
    "program": Networks(3, 500, "none"),
    "paper": Networks(2, 200, "rows"),
    "quick": Networks(2, 20, "rows"),
}


class SideBySide(nn.Module):
    """t GraphSAGE networks at once, with batch normalisation and dropout: [t, n, d] -> [t, n, c]."""

    def __init__(self, count: int, width: int, classes: int, layers: int) -> None:
        super().__init__()
        sizes = [width, *[HIDDEN] * (layers - 1), classes]
        shapes = list(pairwise(sizes))
        self.own, self.near = (nn.ParameterList(_drawn(count, a, a, b) for a, b in shapes) for _ in range(2))
        self.bias = nn.ParameterList(_drawn(count, a, 1, b) for a, b in shapes)
        self.scale = nn.ParameterList(torch.ones(count, 1, HIDDEN) for _ in shapes[:-1])
        self.shift = nn.ParameterList(torch.zeros(count, 1, HIDDEN) for _ in shapes[:-1])
        self.register_buffer(
            "running",
            torch.stack([torch.zeros(count, 1, HIDDEN), torch.ones(count, 1, HIDDEN)]).repeat(layers - 1, 1, 1, 1, 1),
        )

    def forward(self, x: Tensor, mean: Mean, which: slice = slice(None)) -> Tensor:
        """Logits of the networks `which`."""
        for i, (own, near, bias) in enumerate(zip(self.own, self.near, self.bias, strict=True)):
            x = x @ own[which] + mean(x @ near[which]) + bias[which]
            if i + 1 < len(self.own):
                normal = self._normal(i, x, which) * self.scale[i][which] + self.shift[i][which]
                x = dropout(normal.relu(), 0.5, self.training)
        return x

    def _normal(self, layer: int, x: Tensor, which: slice) -> Tensor:
        """Batch normalisation over nodes, as PyTorch's with its usual settings."""
        if not self.training:
            centre, variance = self.running[layer][:, which]  # type: ignore[index]
            return (x - centre) / (variance + 1e-5).sqrt()
        centre, variance = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
        seen = torch.stack([centre, variance * x.shape[1] / max(x.shape[1] - 1, 1)]).detach()
        self.running[layer] = 0.9 * self.running[layer] + 0.1 * seen  # type: ignore[index]
        return (x - centre) / (variance + 1e-5).sqrt()


def _drawn(count: int, inputs: int, *shape: int) -> Tensor:
    """Uniform first weights within 1 / sqrt(inputs), [count, *shape]."""
    return (2 * torch.rand(count, *shape) - 1) / math.sqrt(inputs)


def trained(net: SideBySide, x: Tensor, mean: Mean, places: Tensor, labels: Tensor, epochs: int) -> SideBySide:
    """All networks after Adam on the labels [t, k] of the nodes `places` [k]."""
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    net.train()
    for _ in range(epochs):
        optimiser.zero_grad()
        told = net(x, mean)[:, places]
        # A sum over networks: Adam moves each of them as if it were alone.
        (cross_entropy(told.flatten(0, 1), labels.flatten()) * len(told)).backward()
        optimiser.step()
    return net.eval()


def dense_mean(adj: Csr, chosen: list[Ids], device: str) -> Mean:
    """Means over the arcs among each teacher's nodes; all have as many."""
    inside = np.zeros(adj.num_nodes, dtype=bool)
    blocks = torch.zeros(len(chosen), len(chosen[0]), len(chosen[0]))
    for block, ids in zip(blocks, chosen, strict=True):
        inside[ids] = True
        sub = adj.within(inside)
        inside[ids] = False
        block[
            torch.from_numpy(np.repeat(np.arange(len(ids)), np.diff(sub.indptr))), torch.from_numpy(sub.indices).long()
        ] = 1
    blocks = (blocks / blocks.sum(2, keepdim=True).clamp(min=1)).to(device)
    return lambda rows: blocks @ rows


def sparse_mean(adj: Csr, device: str) -> Mean:
    """Means over the arcs of a whole graph."""
    degrees = np.diff(adj.indptr)
    places = np.stack([np.repeat(np.arange(adj.num_nodes), degrees), adj.indices])
    weights = torch.from_numpy(np.repeat(1 / np.maximum(degrees, 1), degrees)).float()
    shape = (adj.num_nodes, adj.num_nodes)
    matrix = (
        torch.sparse_coo_tensor(torch.from_numpy(places), weights, shape, check_invariants=True).coalesce().to(device)
    )

    def mean(rows: Tensor) -> Tensor:
        flat = rows.transpose(0, 1).reshape(rows.shape[1], -1)
        return torch.sparse.mm(matrix, flat).reshape(rows.shape[1], len(rows), -1).transpose(0, 1)

    return mean


def scaled(graph: Graph, networks: Networks) -> tuple[Tensor, Tensor]:
    """Private and public features, as the networks see them."""
    assert graph.public_graph is not None
    scaling = Scaling.fit(graph.public_graph.x, networks.scale)
    return scaling(graph.x), scaling(graph.public_graph.x)


def asked_nodes(graph: Graph, queries: int, seed: int) -> Ids:
    """Public nodes in random order, as many as are asked about."""
    assert graph.public_graph is not None
    ids = graph.public_graph.train.nonzero().flatten().numpy()
    return np.random.default_rng(seed).permutation(ids)[:queries]


def answers(graph: Graph, networks: Networks, asked: Ids, seed: int, device: str) -> list[list[float]]:
    """Log posteriors of one teacher for each query: a sample of fixed size, its nearest nodes, a network."""
    public = graph.public_graph
    assert public is not None
    ours, theirs = scaled(graph, networks)
    rng = np.random.default_rng([seed, int(asked[0])])
    torch.manual_seed(int(rng.integers(2**62)))
    present = graph.train.nonzero().flatten().numpy()
    samples = [np.sort(rng.choice(present, int(RATE * len(present)), replace=False)) for _ in asked]
    chosen = [nearest(ours, ids, theirs[node], NEIGHBOURS) for ids, node in zip(samples, asked, strict=True)]
    places = torch.from_numpy(np.stack(chosen))
    net = SideBySide(len(asked), ours.shape[1], graph.num_classes, networks.layers).to(device)
    every = torch.arange(places.shape[1], device=device)
    trained(
        net,
        ours[places].to(device),
        dense_mean(graph.adj, chosen, device),
        every,
        graph.y[places].to(device),
        networks.epochs,
    )
    mean, shown = sparse_mean(public.adj, device), theirs[None].to(device)
    with torch.no_grad():
        told = [net(shown, mean, slice(i, i + 1))[0, node] for i, node in enumerate(asked.tolist())]
    rows: list[list[float]] = torch.stack(told).double().log_softmax(1).cpu().numpy().round(6).tolist()
    return rows


def noisy_labels(logs: Floats, kind: str, strength: float, source: Stream) -> Tensor:
    """What is named of log posteriors [q, c] with Laplace(1 / strength) on them, or on the posteriors; int64 [q]."""
    rows = logs if kind == "logarithms" else np.exp(logs)
    return torch.from_numpy((rows + source.laplace(rows.size).reshape(rows.shape) / strength).argmax(axis=1))


def students(graph: Graph, networks: Networks, asked: Ids, labels: Tensor, seed: int, device: str) -> list[float]:
    """Test accuracy of a student for each row of labels [t, q]."""
    public = graph.public_graph
    assert public is not None
    torch.manual_seed(seed)
    shown, mean = scaled(graph, networks)[1][None].to(device), sparse_mean(public.adj, device)
    net = SideBySide(len(labels), shown.shape[2], graph.num_classes, networks.layers).to(device)
    trained(net, shown, mean, torch.from_numpy(asked).to(device), labels.to(device), networks.epochs)
    with torch.no_grad():
        right = net(shown, mean).argmax(2).cpu() == public.y
    shares: list[float] = right[:, public.test].double().mean(1).tolist()
    return shares


def learnt(graph: Graph, networks: Networks, asked: Ids, logs: Floats, seed: int, device: str) -> dict[str, Any]:
    """How far the teachers' log posteriors reach, and what students learn from them for every lambda, both ways."""
    public = graph.public_graph
    assert public is not None
    truth, cells = public.y[torch.from_numpy(asked)], [(kind, strength) for kind in KINDS for strength in LAMBDAS]
    labels = torch.stack([noisy_labels(logs, *cell, Seeded(seed)) for cell in cells])
    right = (labels == truth).double().mean(1).tolist()
    found: dict[str, Any] = {kind: {} for kind in KINDS}
    for (kind, strength), share, accuracy in zip(
        cells, right, students(graph, networks, asked, labels, seed, device), strict=True
    ):
        found[kind][str(strength)] = {"labels": share, "accuracy": accuracy}
    reach = logs.max(axis=1) - logs.min(axis=1)
    return {
        "teachers": float((torch.from_numpy(logs.argmax(axis=1)) == truth).double().mean()),
        "reach": {"median": float(np.median(reach)), "largest": float(reach.max())},
        **found,
    }


def measure(folder: Path, dataset: str, name: str, seed: int, queries: int, share: str, device: str) -> dict[str, Any]:
    """One seed; where `share` is not all, a part of its teachers alone, which gives {}."""
    networks, stem = NETWORKS[name], f"{dataset}-{name}-{queries}-{seed}"
    done = folder / f"{stem}.json"
    if done.exists():
        held: dict[str, Any] = json.loads(done.read_text())
        return held
    graph = gv.datasets.load(dataset, split="two_graphs", seed=seed)
    asked = asked_nodes(graph, queries, seed)
    turns = list(enumerate(np.split(asked, range(TURN, len(asked), TURN))))
    logs = []
    for place, turn in share_of(turns, share):
        logs += found_or_made(
            folder / f"{stem}-{place}.json", lambda turn=turn: answers(graph, networks, turn, seed, device)
        )
        print(f"{stem}: turn {place + 1} of {len(turns)}", flush=True)
    if len(logs) < len(asked):
        return {}
    said = {"dataset": dataset, "networks": name, "seed": seed, "queries": queries}
    result: dict[str, Any] = found_or_made(
        done, lambda: {**said, **learnt(graph, networks, asked, np.array(logs), seed, device)}
    )
    return result


def claimed(strength: float, queries: int) -> float:
    """What the authors charge, at `DELTA`."""
    method = gv.methods.PrivGnn(queries=queries, rate=RATE, **PAPER)
    return accounting.epsilon(method.plan(SIZES, Adjacency.of("node"), Reading.PUBLISHED, 1 / strength), DELTA)


def accuracy_table(results: list[dict[str, Any]]) -> str:
    """Labels that are right and what students reach, in per cent, beside what is printed."""
    rows = [line("networks", "noise on", "seeds", "", *(f"λ = {strength:g}" for strength in LAMBDAS)), "|---" * 9 + "|"]
    for dataset, name, queries in dict.fromkeys((run["dataset"], run["networks"], run["queries"]) for run in results):
        runs = [run for run in results if (run["dataset"], run["networks"], run["queries"]) == (dataset, name, queries)]
        for kind, what in product(KINDS, ("labels", "accuracy")):
            cells = [spread([run[kind][str(strength)][what] for run in runs]) for strength in LAMBDAS]
            said = f"{queries} labels right" if what == "labels" else "student"
            rows.append(line(name, kind, len(runs), said, *cells).replace("+-", "±"))
        if dataset in PRINTED:
            rows.append(
                line("printed, Amazon", "", "", "student", *(f"{100 * share:.0f}" for share in PRINTED[dataset]))
            )
    return "\n".join(rows)


def reach_table(results: list[dict[str, Any]]) -> str:
    """How often teachers are right without noise, and the range of their log posteriors."""
    rows = [line("networks", "seeds", "teachers right", "range of log posteriors, median", "largest"), "|---" * 5 + "|"]
    for name in dict.fromkeys(run["networks"] for run in results):
        runs = [run for run in results if run["networks"] == name]
        usual, most = np.mean([run["reach"]["median"] for run in runs]), max(run["reach"]["largest"] for run in runs)
        right = spread([run["teachers"] for run in runs]).replace("+-", "±")
        rows.append(line(name, len(runs), right, f"{usual:.1f}", f"{most:.1f}"))
    return "\n".join(rows)


def audit_table(rows: list[dict[str, Any]]) -> str:
    """Claims beside what is certified."""
    titles = ("λ", "queries", "claimed ε", "certified, at least", "proven, at least", "claim")
    made = [line(*titles), "|---:" * 5 + "|---|"]
    for row in rows:
        verdict = "refuted" if max(row["certified"], row["proven"]) > row["claimed"] else "not refuted"
        bounds = (f"{row['claimed']:.2f}", f"{row['certified']:.2f}", f"{row['proven']:.1f}")
        made.append(line(f"{row['lambda']:g}", row["queries"], *bounds, verdict))
    return "\n".join(made)


def canary_answers(networks: Networks, nodes: int = 2500, classes: int = 10) -> dict[str, Floats]:
    """Log posteriors of a node like the canary, [RESTARTS, c], for the three kinds of samples a teacher can get."""
    torch.manual_seed(0)
    own, others = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    size, fewer = int(RATE * nodes), int(RATE * (nodes - 1))
    samples = {"without": (fewer, 0), "left out": (size, 0), "sampled": (size - 1, 1)}
    found = {}
    for name, (many, one) in samples.items():
        x = torch.cat([others.expand(many, 2), own.expand(one, 2)]).expand(RESTARTS, -1, -1)
        labels = torch.cat([torch.zeros(many), torch.ones(one)]).long().expand(RESTARTS, -1)
        net = SideBySide(RESTARTS, 2, classes, networks.layers)
        trained(net, x, torch.zeros_like, torch.arange(many + one), labels, networks.epochs)
        with torch.no_grad():
            logits = net(own.expand(RESTARTS, 1, 2), torch.zeros_like)[:, 0]
        found[name] = logits.double().log_softmax(1).numpy()
    return found


def beaten(gaps: Floats) -> Floats:
    """ln Pr[N - N' >= gap] of two standard Laplace variables: (2 + gap) e^-gap / 4, for gaps of at least 0."""
    return np.log((2 + gaps) / 4) - gaps


def proven(found: dict[str, Floats], strength: float, queries: int) -> float:
    """A lower bound on epsilon without any run, from the event that one label at least is 1.

    Without the canary class 1 must beat class 0 in one query of all. With it, it is enough that one query samples the
    canary and that no class beats class 1 there.
    """
    rare = math.log(queries) + math.log(np.exp(beaten(strength * _ahead(found["without"], 0, 1))).mean() or 1e-300)
    behind = np.stack([np.exp(beaten(strength * _ahead(found["sampled"], 1, j))) for j in range(10) if j != 1])
    told = float(np.maximum(1 - behind.sum(axis=0), 0).mean())
    likely = 1 - (1 - RATE * told) ** queries
    return max(math.log(likely - DELTA) - rare, 0.0) if likely > DELTA else 0.0


def _ahead(logs: Floats, first: int, second: int) -> Floats:
    """By how much one class is ahead of another, 0 where it is not."""
    return np.maximum(logs[:, first] - logs[:, second], 0.0)


def counted(
    found: dict[str, Floats], present: bool, strength: float, queries: int, runs: int, source: Stream
) -> Floats:
    """How many labels are 1, [runs], each with a sample, first weights and noise of its own."""
    counts = np.empty(runs)
    worlds = np.stack([found["left out"], found["sampled"]]) if present else np.stack([found["without"]] * 2)
    step = max(1_000_000 // queries, 1)
    for first in range(0, runs, step):
        many = min(step, runs - first) * queries
        sampled, weights = (source.uniform(many) < RATE).astype(int), (source.uniform(many) * RESTARTS).astype(int)
        rows = worlds[sampled, weights]
        labels = noisy_labels(rows, "logarithms", strength, source).numpy()
        counts[first : first + step] = (labels == 1).reshape(-1, queries).sum(axis=1)
    return counts


def audit(runs: int, numbers: list[int]) -> list[dict[str, Any]]:
    """Certified lower bounds on epsilon beside the claim, for every lambda and number of queries."""
    found, rows = canary_answers(NETWORKS["program"]), []
    for strength, queries in product(LAMBDAS, numbers):
        scores = Scores(
            counted(found, True, strength, queries, runs, Seeded(1)),
            counted(found, False, strength, queries, runs, Seeded(2)),
        )
        rows.append(
            {
                "lambda": strength,
                "queries": queries,
                "claimed": claimed(strength, queries),
                "certified": rank_test(scores, DELTA, CONFIDENCE),
                "proven": proven(found, strength, queries),
                "gap": float(_ahead(found["without"], 0, 1).min()),
                "runs": runs,
            }
        )
        print(rows[-1], flush=True)
    return rows


def again(run: dict[str, Any]) -> dict[str, Any]:
    """A kept run, made anew."""
    with TemporaryDirectory() as folder:
        said = (run[name] for name in ("dataset", "networks", "seed", "queries"))
        return measure(Path(folder), *said, "1/1", DEVICE)  # type: ignore[call-arg]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["accuracy", "audit"])
    parser.add_argument("--dataset", default="computers")
    parser.add_argument("--networks", nargs="+", default=["program", "paper"], choices=list(NETWORKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--share", default="1/1", help="train the k-th of n parts of the teachers alone, for K/N")
    parser.add_argument("--runs", type=int, default=25_000, help="of the audit, in either world")
    parser.add_argument("--numbers", type=int, nargs="+", default=[1, 1000], help="of queries in the audit")
    parser.add_argument("--quick", action="store_true", help="20 queries, 20 epochs; an audit of 2,000 runs")
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--json", type=Path, help="write what was found there")
    parser.add_argument("--page", type=Path, help="write the tables into the marks of this page")
    given = parser.parse_args()
    given.out = given.out or kept_files.records_folder("privgnn-programmed")
    if given.quick:
        given.seeds, given.queries, given.networks = [0], 20, ["quick"]
        given.runs, given.numbers = 2_000, [1, 100]
    with one_thread():
        if given.what == "audit":
            found = audit(given.runs, given.numbers)
            made = {"audit": audit_table(found)}
        else:
            cells = [(name, seed) for name in given.networks for seed in given.seeds]
            runs = [
                measure(given.out, given.dataset, name, seed, given.queries, given.share, DEVICE)
                for name, seed in cells
            ]
            found = [run for run in runs if run]
            made = {"accuracy": accuracy_table(found), "reach": reach_table(found)}
    if given.json:
        kept_files.write(given.json, found)
    if given.page:
        fill(given.page, "privgnn-programmed", made)
    print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
