"""A module of one's own beside the built-in networks: test accuracy.

    python lab/benchmarks/own_networks.py accuracy [--units node label] [--datasets cora] [--methods drw]
                                               [--networks "own gat"] [--seeds 0 1 2]
    python lab/benchmarks/own_networks.py merge --results lab/results/own-networks.json

accuracy: epsilon 4, delta 1e-5, seeded, 75/10/15 splits; a GAT, GraphSAGE with attention pooling and a mixer beside
what is built in, at every unit that takes them. Settings are the methods' own, widths too, and nothing is searched.
Every training leaves a record, and is not run again while a record of the same method is there. merge: the table.
tests/speed/own_networks.py measures seconds of a step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, elu
from torch_geometric.nn import AttentionalAggregation, GATConv, SAGEConv

import graphveil as gv
from graphveil.codec import plain
from graphveil.runtime.folders import write_whole
from graphveil_lab import kept_files
from graphveil_lab.bench import revisions
from graphveil_lab.bench.kept import KeptLine

EPSILON, DELTA = 4.0, 1e-5
UNITS = {
    "node": ("cora", "facebook"),
    "features": ("cora", "facebook"),
    "label": ("cora", "social"),
    "edge": ("cora", "social"),
}
"""Every unit with two graphs. On a whole graph, attention over the arcs of facebook takes minutes to an hour a run."""
SEEDS = (0, 1, 2)


class Gat(nn.Module):
    """Attention, then a dense layer."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv, self.lin = GATConv(features, hidden // 4, heads=4), nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(elu(self.conv(x, edge_index)))


class GatRows(nn.Module):
    """Two layers of attention with dropout, as GAT is used on a whole graph."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv, self.out = GATConv(features, hidden // 4, heads=4), GATConv(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = elu(self.conv(dropout(x, 0.5, self.training), edge_index))
        return self.out(dropout(h, 0.5, self.training), edge_index)


class SageAttention(nn.Module):
    """GraphSAGE, then attention over the nodes of the subgraph."""

    def __init__(self, features: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.conv, self.pool = SAGEConv(features, hidden), AttentionalAggregation(nn.Linear(hidden, 1))
        self.lin = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.lin(self.pool(elu(self.conv(x, edge_index)), batch))


class SageRows(SageAttention):
    """The same with a row for every node, its own beside what attention makes of all that it hears, and dropout."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        h = elu(self.conv(dropout(x, 0.5, self.training), edge_index))
        heard = self.pool(h[edge_index[0]], edge_index[1], dim_size=len(h))
        return self.lin(dropout(h + heard, 0.5, self.training))


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


class MixerHead(Mixer):
    """The same where there are rows and no arcs."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x)


@dataclass(frozen=True)
class Cell:
    """One training of a method in which `network` stands."""

    unit: str
    dataset: str
    method: gv.Method
    network: str
    seed: int

    def file(self, records: Path) -> Path:
        words = self.unit, self.dataset, self.method.name(), self.network, self.seed
        return records / ("-".join(map(str, words)).replace(" ", "_") + ".json")

    def record(self, records: Path) -> dict[str, Any] | None:
        """What an earlier run left, if its method was the same and of the same revision."""
        file = self.file(records)
        held = json.loads(file.read_text()) if file.exists() else {}
        same = held.get("method") == plain(self.method.describe()) and held.get("made_by") == self.made_by
        return held if same else None

    @property
    def made_by(self) -> str:
        """The revision of the method; what is one's own is this file."""
        return revisions.made_by(self.method.name())

    def run(self, records: Path) -> dict[str, Any]:
        """Train, test, and leave a record."""
        begin = time.process_time()
        graph = gv.datasets.load(self.dataset, split="random", seed=self.seed)
        release = gv.train(graph, self.method, epsilon=EPSILON, delta=DELTA, unit=self.unit, seed=self.seed)
        record = {
            "method": plain(self.method.describe()),
            "test": release.evaluate("test")["accuracy"],
            "epsilon": release.certificate.epsilon,
            "sound_epsilon": release.certificate.sound_epsilon,
            "seconds": time.process_time() - begin,
            "made_by": self.made_by,
            "data": graph.fingerprint(),
        }
        write_whole(self.file(records), record)
        return record


def methods_of(unit: str) -> list[gv.Method]:
    """What takes own networks at a unit, as it is without."""
    return {
        "node": [gv.methods.HeterPoisson()],
        "features": [gv.methods.Drw(), gv.methods.Ndp()],
        "label": [gv.methods.Probe()],
        "edge": [gv.methods.PrivGraph(), gv.methods.Hearsay()],
    }[unit]


def contenders(method: Any) -> dict[str, gv.Method]:
    """The method with each network that can stand in it, built-in ones first; own ones are as wide."""
    own: dict[str, type[nn.Module]] = {"own gat": Gat, "own sage, attention": SageAttention, "own mixer": Mixer}
    whole = {**own, "own gat": GatRows, "own sage, attention": SageRows}
    if isinstance(method, gv.methods.Hearsay):
        built, own, width = {"built in": method}, {"own mixer": MixerHead}, method.head
    elif isinstance(method, gv.methods.Probe):
        built, own, width = {"built in": method}, whole, 64
    else:
        built = {f"built-in {name}": replace(method, network=name) for name in ("gcn", "sage")}
        own, width = whole if isinstance(method, gv.methods.PrivGraph) else own, method.hidden
    made = {name: replace(method, network=gv.OwnNetwork.of(make, hidden=width)) for name, make in own.items()}
    return {**built, **made}


def cells(given: argparse.Namespace) -> Iterator[Cell]:
    """The trainings that were asked for."""
    for unit in given.units:
        for plain_method in methods_of(unit):
            if given.methods and plain_method.name() not in given.methods:
                continue
            for dataset in given.datasets or UNITS[unit]:
                for network, method in contenders(plain_method).items():
                    if not given.networks or network in given.networks:
                        yield from (Cell(unit, dataset, method, network, seed) for seed in given.seeds)


def accuracy(given: argparse.Namespace) -> None:
    """Run what has no record."""
    torch.set_num_threads(1)
    given.records.mkdir(parents=True, exist_ok=True)
    for cell in cells(given):
        if cell.record(given.records) is None:
            done = cell.run(given.records)
            print(cell.file(given.records).stem, f"{100 * done['test']:.1f} in {done['seconds']:.0f} s", flush=True)


def merged(given: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for every unit, dataset and network of which all seeds have a record."""
    lines: dict[tuple[str, str, str], list[tuple[Cell, dict[str, Any]]]] = {}
    for cell in cells(given):
        held = cell.record(given.records)
        if held is None:
            raise SystemExit(f"{cell.file(given.records)} is missing, or of another method: run accuracy first")
        lines.setdefault((cell.unit, f"{cell.method.name()}, {cell.network}", cell.dataset), []).append((cell, held))
    return [_line(label, runs) for (_, label, _), runs in lines.items()]


def _line(label: str, runs: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    cell, records = runs[0][0], [record for _, record in runs]
    scores = [record["test"] for record in records]
    described = dict(records[0]["method"])
    described.pop("kind")
    line = KeptLine(
        dataset=cell.dataset,
        method=label,
        unit=cell.unit,
        reading="sound",
        epsilon=EPSILON,
        delta=DELTA,
        selection="fixed",
        params=described,
        tuned={},
        seeds=len(runs),
        test=statistics.fmean(scores),
        std=statistics.stdev(scores) if len(scores) > 1 else None,
        certificate_epsilon=max(record["epsilon"] for record in records),
        sound_epsilon=max(record["sound_epsilon"] for record in records),
        published=None,
        source="",
        failed=0,
        failure="",
        split="random",
        seconds=min(record["seconds"] for record in records),
        made_by=cell.made_by,
        data=records[0]["data"],
    )
    return line.model_dump()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["accuracy", "merge"])
    parser.add_argument("--records", type=Path, help="folder of the runs; by default another one for other code")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--units", nargs="+", default=list(UNITS))
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--networks", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    given = parser.parse_args()
    given.records = given.records or kept_files.records_folder("own-networks")
    if given.what == "accuracy":
        accuracy(given)
        return
    rows = merged(given)
    if given.results:
        kept_files.write(given.results, rows, "lines")


if __name__ == "__main__":
    main()
