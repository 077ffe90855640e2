"""Table 5 of PrivGNN (Olatunji et al. 2023): Algorithm 1 with the paper's own networks, against lambda and epsilon.

    python lab/benchmarks/privgnn_table.py                          # all of it: hours on two cores, resumable
    python lab/benchmarks/privgnn_table.py --datasets credit --seeds 0

A private node's part in a query, and so every teacher, is the same for all lambdas of one seed: teachers are trained
once and answer with less and less noise. Every dataset and seed has a file of its own, written when it is done; what is
there is not run again. The paper varies lambda: epsilon is what it claims for it, and what is provable, at delta 1e-4.
Below, the same algorithm at provable epsilons, to be put beside `graphveil bench run privgnn`; and PATE as the paper
has it (LNMax, its student), whose votes too are cast once for all lambdas.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Ids
from graphveil.data.graph import Graph
from graphveil.methods.method import Method
from graphveil.methods.public_graph import pate, privgnn
from graphveil.nn.inductive import inductive
from graphveil.nn.teachers import Known, SageTeachers
from graphveil.runtime.engine import Local, one_thread
from graphveil.runtime.folders import write_whole
from graphveil_lab import kept_files

LAMBDAS = (0.1, 0.2, 0.4, 0.8, 1.0)
DELTA = 1e-4
QUIET = gv.Compute(quiet=True)
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
PRINTED = {
    "computers": (0.40, 0.64, 0.80, 0.82, 0.83),
    "rutgers89": (0.24, 0.45, 0.60, 0.72, 0.80),
}
"""Table 1, the largest K; Rutgers stands in the place of the paper's Facebook graph."""
PRINTED_PATE = {
    "computers": {"PATEM": (0.28, 0.46, 0.65, 0.70, 0.71), "PATEG": (0.16, 0.16, 0.15, 0.18, 0.20)},
    "rutgers89": {"PATEM": (0.03, 0.10, 0.25, 0.37, 0.38), "PATEG": (0.02, 0.02, 0.03, 0.04, 0.10)},
}
"""Table 5, in the same places."""
PAPER = {"spend": "noise", "argmax": "laplace", "sharp": False, "teacher": "sage", "student": "sage"}


class Remembered(SageTeachers):
    """Teachers that keep what they answered: a query with the same chosen nodes has the same teacher."""

    kept: ClassVar[dict[tuple[int, int, bytes], Tensor]] = {}

    def answers(self, known: Known, chosen: Sequence[Ids], asked: Ids, seed: int) -> Tensor:
        keys = [(seed, int(node), ids.tobytes()) for node, ids in zip(asked, chosen, strict=True)]
        new = [i for i, key in enumerate(keys) if key not in self.kept]
        if new:
            found = super().answers(known, [chosen[i] for i in new], asked[new], seed)
            self.kept.update((keys[i], row) for i, row in zip(new, found, strict=True))
        return torch.stack([self.kept[key] for key in keys])


def found_or_made(place: Path, make: Callable[[], Any]) -> Any:
    """What the file holds, or else what `make` makes, which it holds from then on."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, make())
    return json.loads(place.read_text())


def against_lambda(graph: Graph, method: Method, seed: int) -> dict[str, dict[str, float]]:
    """Accuracy for every lambda, with claimed and provable epsilon."""
    rows = {}
    for strength in LAMBDAS:
        release = gv.train(
            graph, method, noise=1 / strength, delta=DELTA, unit="node", reading="published", seed=seed, compute=QUIET
        )
        rows[str(strength)] = {
            "accuracy": release.evaluate("test")["accuracy"],
            "claimed": release.certificate.epsilon,
            "provable": release.certificate.sound_epsilon,
        }
    return rows


def measure(shared: tuple[Path, int], item: tuple[str, int]) -> dict[str, Any]:
    """The paper's algorithm and PATE on one dataset with one seed."""
    (folder, queries), (dataset, seed) = shared, item
    given = {"queries": queries, "scale": "columns" if dataset == "credit" else "rows"}

    def own() -> dict[str, Any]:
        graph, method = gv.datasets.load(dataset, split="two_graphs", seed=seed), gv.methods.PrivGnn(**given, **PAPER)
        with patch.object(privgnn, "SageTeachers", Remembered):
            rows = against_lambda(graph, method, seed)
            sound = {
                str(epsilon): gv.train(
                    graph, method, epsilon=epsilon, delta=DELTA, unit="node", seed=seed, compute=QUIET
                )
                for epsilon in EPSILONS
            }
        Remembered.kept.clear()
        scores = {epsilon: release.evaluate("test") for epsilon, release in sound.items()}
        return {"dataset": dataset, "seed": seed, "queries": queries, "lambdas": rows, "sound": scores}

    def votes() -> dict[str, Any]:
        graph = gv.datasets.load(dataset, split="two_graphs", seed=seed)
        rows = {}
        for name, teacher in (("PATEM", "mlp"), ("PATEG", "gnn")):
            method = gv.methods.Pate(**given, teacher=teacher, aggregate="lnmax", student="sage")
            # A teacher is told by its seed, which comes last; its nodes are the same for every lambda.
            with patch.object(pate, "inductive", KeptBySeed()):
                rows[name] = against_lambda(graph, method, seed)
        return rows

    name = f"{dataset}-{seed}-{queries}"
    done: dict[str, Any] = found_or_made(folder / f"{name}.json", own)
    return done | {"pate": found_or_made(folder / f"{name}-pate.json", votes)}


class KeptBySeed(dict[int, Tensor]):
    """`inductive`, which trains every teacher once."""

    def __call__(self, *given: Any) -> Tensor:
        if given[-1] not in self:
            self[given[-1]] = inductive(*given)
        return self[given[-1]]


def spread(values: list[float]) -> str:
    """Mean and standard deviation of shares, in per cent."""
    shares = 100 * torch.tensor(values)
    return f"{shares.mean():.1f}" + (f" +- {shares.std():.1f}" if len(values) > 1 else "")


def show(results: list[dict[str, Any]]) -> None:
    """Both tables of every dataset."""
    for dataset in dict.fromkeys(result["dataset"] for result in results):
        runs = [result for result in results if result["dataset"] == dataset]
        print(f"\n{dataset}, {len(runs)} seed(s)\nlambda  claimed  provable  accuracy  printed")
        for place, strength in enumerate(LAMBDAS):
            cells = [run["lambdas"][str(strength)] for run in runs]
            printed = f"{100 * PRINTED[dataset][place]:.0f}" if dataset in PRINTED else ""
            bounds = f"{cells[0]['claimed']:7.2f}  {cells[0]['provable']:8.2f}"
            print(f"{strength:<6}  {bounds}  {spread([cell['accuracy'] for cell in cells])}  {printed}")
        for name in ("PATEM", "PATEG"):
            print(f"{name}: lambda  claimed  provable  accuracy  printed")
            for place, strength in enumerate(LAMBDAS):
                cells = [run["pate"][name][str(strength)] for run in runs]
                printed = f"{100 * PRINTED_PATE[dataset][name][place]:.0f}" if dataset in PRINTED_PATE else ""
                bounds = f"{cells[0]['claimed']:7.2f}  {cells[0]['provable']:8.2f}"
                print(f"       {strength:<6}  {bounds}  {spread([cell['accuracy'] for cell in cells])}  {printed}")
        print("provable epsilon  accuracy")
        for epsilon in EPSILONS:
            print(f"{epsilon:<16}  {spread([run['sound'][str(epsilon)]['accuracy'] for run in runs])}")


def again(run: dict[str, Any]) -> dict[str, Any]:
    """A kept run, made anew."""
    with TemporaryDirectory() as folder:
        return measure((Path(folder), run["queries"]), (run["dataset"], run["seed"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["computers", "rutgers89", "credit"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--json", type=Path, help="write all runs there, sorted")
    given = parser.parse_args()
    given.out = given.out or kept_files.records_folder("privgnn-table")
    items = [(dataset, seed) for dataset in given.datasets for seed in given.seeds]
    with one_thread():
        found = dict(Local(given.jobs).stream(measure, (given.out, given.queries), items))
    results = sorted(found.values(), key=lambda run: (run["dataset"], run["seed"]))
    if given.json:
        kept_files.write(given.json, results)
    show(results)


if __name__ == "__main__":
    main()
