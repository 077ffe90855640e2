"""How well edges are told from trained models: Table 4 of CARIBOU (LinkTeller), figures 7, 10 and 11 of Eclipse.

    python lab/benchmarks/edge_attacks.py                          # all of it: hours on two cores, resumable
    python lab/benchmarks/edge_attacks.py --quick                  # Cora, one seed, two epsilons
    python lab/benchmarks/edge_attacks.py --datasets cora --seeds 0 1 2 --results lab/results/edge-attacks.json
    python lab/benchmarks/edge_attacks.py --parts "figure 11" --seeds 0       # the attacks by rank, on Cora
    python lab/benchmarks/edge_attacks.py --share 3/16             # the third of sixteen machines
    python lab/benchmarks/edge_attacks.py --show --results lab/results/edge-attacks.json --page docs/attacks.md

Every run has a file of its own, written when it is done; what is there, or in `lab/results/edge-attacks.json`, is not run
again while the code is the same (making.py). Each AUC is to be read beside the floors: the similarity of public
features, and LPA against `mlp`, which never reads an edge. The last command keeps all that is done.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import torch

import graphveil as gv
from graphveil.auditing.attacks.feature_similarity import FeatureSimilarity
from graphveil.auditing.attacks.linkteller import LinkTeller
from graphveil.auditing.attacks.lpa import Lpa
from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Target
from graphveil.data.graph import Graph
from graphveil.methods.method import Method, PredictionReads
from graphveil.release.release import Release
from graphveil.runtime.engine import Local, one_thread
from graphveil.runtime.folders import write_whole
from graphveil.tasks.class_scores import judged
from graphveil.vocabulary import Reading, Unit
from graphveil_lab import kept_files

PAIRS, QUERIES = 500, 150
"""Edges, and as many pairs that are none, for LPA and the floors, and for LinkTeller, which asks once for each."""

CARIBOU = gv.methods.Caribou(hops=2, lipschitz=0.6, beta=10.0, tau=1.0, loops=1.0, hidden=64, head=64)
"""Settings of the authors' code for Cora, but that nodes tell their class posteriors instead of all features."""

SINGULAR = gv.methods.Eclipse(basis="singular", use="graph", rank=20, scale="rows", weight_decay=5e-3, epochs=300)
"""Algorithm 1 of Eclipse with the settings for Cora."""

TABLE_4 = {
    "facebook": (0.977, 0.463, 0.483, 0.482, 0.478, 0.472, 0.462),
    "pubmed": (0.981, 0.446, 0.442, 0.441, 0.445, 0.442, 0.449),
    "cora": (0.998, 0.427, 0.448, 0.399, 0.443, 0.451, 0.450),
    "photo": (0.962, 0.475, 0.404, 0.421, 0.428, 0.417, 0.434),
    "computers": (0.860, 0.367, 0.364, 0.372, 0.363, 0.361, 0.384),
}
"""LinkTeller's AUC as printed. Its Facebook graph (26,406 nodes) is not held."""
TABLE_4_EPSILONS = (math.inf, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)

FIGURE_7 = ("cora", "citeseer", "chameleon-undirected", "pubmed", "facebook")
FIGURE_7_EPSILONS = (0.1, 1.0, 4.0, 8.0)
PRINTED = {
    ("cora", "eclipse, Algorithm 1", 1.0): {"LPA": 0.798, "LinkTeller": 0.596},
}
"""Attack AUC that the authors' program expects; the figure itself prints no number."""
PRINTED_FLOOR = {"cora": 0.821, "citeseer": 0.902, "chameleon-undirected": 0.571, "pubmed": 0.902, "facebook": 0.636}
"""Eclipse's Table 3: similarity of features alone."""

COUNTRIES = ("twitch-de", "twitch-fr", "twitch-ru", "twitch-en", "twitch-pt")
FIGURE_10_EPSILONS = (1.0, 8.0)
"""Figure 10: trained on Twitch of Spain, attacked on another country; two of the epsilons from 0.1 to 8 there."""

RANKS = (10, 20, 50, 100, 200)
FIGURE_11_EPSILONS = (0.1, 1.0, 10.0)
"""Figure 11, with three of its five epsilons, on Cora: the paper speaks of three datasets and names this one."""

NAME = "edge-attacks"
QUIET = gv.Compute(quiet=True)
PARTS = ("table 4", "figure 7", "figure 10", "figure 11")
DATASETS = tuple(dict.fromkeys([*TABLE_4, *FIGURE_7, "twitch-es"]))
SEEDS = (0, 1, 2)
Item = TypeVar("Item")


@dataclass(frozen=True)
class Cell:
    """One training run and the attacks on it; with `there`, on what it releases of that graph instead of its own."""

    part: str
    dataset: str
    label: str
    method: Method
    epsilon: float
    seed: int
    reading: Reading = Reading.SOUND
    there: str = ""

    @property
    def file(self) -> str:
        words = (self.part, self.dataset, *filter(None, [self.there]), self.label, self.epsilon, self.seed)
        return "-".join(str(word).replace(",", "").replace(" ", "-") for word in words) + ".json"

    @property
    def key(self) -> tuple[str, ...]:
        """What its record says of it, see `key_of`."""
        graph = f"{self.dataset} -> {self.there}" if self.there else self.dataset
        return self.part, graph, self.label, str(_plain(self.epsilon)), str(self.seed)

    def split(self) -> str:
        """As in the papers."""
        if self.part == "table 4":
            return "random_80_20"
        if self.part == "figure 10":
            return "random"
        return "per_class" if self.dataset == "facebook" else "public"

    def interfaces(self) -> tuple[str, ...]:
        """What LinkTeller may ask: of a graph that was released no more than influences on it.

        Where counts or a core were released, predictions are fixed; asking again with old noise is another question.
        """
        if self.part == "figure 10":
            return ("served",) if self.label in ("eclipse", "lpgnet") else ("rerun",)
        if self.part == "figure 11":
            return ("rerun",)
        if self.part == "figure 7":
            return ("served", "rerun") if self.label in ("eclipse", "lpgnet") else ("rerun",)
        if self.epsilon == math.inf:
            return ("rerun",)
        return ("anew", "rerun") if self.epsilon in (1.0, 8.0) else ("anew",)


def cells(datasets: list[str], seeds: list[int], quick: bool) -> list[Cell]:
    """What is to be run, the quickest datasets first."""
    found = []
    order = ("cora", "citeseer", "chameleon-undirected", "twitch-es", "photo", "pubmed", "computers", "facebook")
    for seed in seeds:
        for dataset in (name for name in order if name in datasets):
            if dataset in TABLE_4 and dataset != "facebook":
                epsilons = (math.inf, 1.0) if quick else TABLE_4_EPSILONS
                found += [Cell("table 4", dataset, "caribou", CARIBOU, e, seed, Reading.PUBLISHED) for e in epsilons]
            if dataset in FIGURE_7:
                found += _figure_7(dataset, (1.0,) if quick else FIGURE_7_EPSILONS, seed)
            if dataset == "twitch-es":
                found += _figure_10(seed)
            if dataset == "cora" and not quick:
                found += _figure_11(dataset, seed)
    return found


def _figure_10(seed: int) -> list[Cell]:
    """The runs of figure 10, with the settings of the experiment `eclipse-twitch`."""
    singular = gv.methods.Eclipse(basis="singular", use="graph", rank=20, network="first_order")
    methods = {
        "eclipse": gv.methods.Eclipse(),
        "lpgnet": gv.methods.LpgNet(),
        "lapgraph": gv.methods.LapGraph(network="first_order"),
        "edgerand": gv.methods.EdgeRand(network="first_order", most=200_000),
    }
    # Without any lie edgerand releases the graph itself.
    gcn = gv.methods.EdgeRand(network="first_order")
    made = []
    for there in COUNTRIES:
        spain = partial(Cell, "figure 10", "twitch-es", seed=seed, there=there)
        made += [spain("gcn, first order", gcn, math.inf), spain("mlp", gv.methods.Mlp(), math.inf)]
        for e in FIGURE_10_EPSILONS:
            made.append(spain("eclipse, Algorithm 1", singular, e, reading=Reading.PUBLISHED))
            made += [spain(label, method, e) for label, method in methods.items()]
    return made


def _figure_11(dataset: str, seed: int) -> list[Cell]:
    """The runs of figure 11 on one dataset."""
    made = []
    for e in FIGURE_11_EPSILONS:
        for rank in RANKS:
            method = replace(SINGULAR, rank=rank)
            made.append(Cell("figure 11", dataset, f"Algorithm 1, rank {rank}", method, e, seed, Reading.PUBLISHED))
    return made


def _figure_7(dataset: str, epsilons: tuple[float, ...], seed: int) -> list[Cell]:
    """The runs of figure 7 on one dataset."""
    singular = SINGULAR
    if dataset == "citeseer":
        singular = replace(singular, learning_rate=0.05, weight_decay=1e-2)
    if dataset == "pubmed":
        singular = replace(singular, network="first_order")
    methods = {
        "eclipse": gv.methods.Eclipse(),
        "lpgnet": gv.methods.LpgNet(),
        "lapgraph": gv.methods.LapGraph(),
        "edgerand": gv.methods.EdgeRand(most=100_000),
    }
    made = [
        Cell("figure 7", dataset, "gcn", gv.methods.Gcn(), math.inf, seed),
        Cell("figure 7", dataset, "mlp", gv.methods.Mlp(), math.inf, seed),
    ]
    for e in epsilons:
        made.append(Cell("figure 7", dataset, "eclipse, Algorithm 1", singular, e, seed, Reading.PUBLISHED))
        made += [Cell("figure 7", dataset, label, method, e, seed) for label, method in methods.items()]
    return made


def done(folder: Path, wanted: list[Cell]) -> list[Cell]:
    """Those with a file."""
    return [cell for cell in wanted if (folder / cell.file).exists()]


def key_of(run: dict[str, Any]) -> tuple[str, ...]:
    """Which cell a record is of."""
    return tuple(str(run[name]) for name in ("part", "dataset", "method", "epsilon", "seed"))


def unpack(runs: list[dict[str, Any]], folder: Path) -> None:
    """A file for every run that is kept and has none."""
    held = {key_of(run): run for run in runs}
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells(list(DATASETS), list(SEEDS), False):
        if cell.key in held and not (folder / cell.file).exists():
            write_whole(folder / cell.file, held[cell.key])


def again(run: dict[str, Any]) -> dict[str, Any]:
    """A kept run, made anew."""
    [cell] = [cell for cell in cells(list(DATASETS), [run["seed"]], False) if cell.key == key_of(run)]
    with TemporaryDirectory() as folder:
        return measure(Path(folder), cell)


def share_of(wanted: list[Item], share: str) -> list[Item]:
    """The k-th of n parts, for "k/n"."""
    part, parts = map(int, share.split("/"))
    return wanted[part - 1 :: parts]


def measure(folder: Path, cell: Cell) -> dict[str, Any]:
    """The accuracy of one model, and what every attack makes of it."""
    place = folder / cell.file
    if place.exists():
        held: dict[str, Any] = json.loads(place.read_text())
        return held
    began = time.process_time()
    graph = gv.datasets.load(cell.dataset, split=cell.split(), seed=cell.seed)
    target = Target(graph, cell.method, Unit.EDGE, cell.epsilon, None, 1e-5, cell.reading, cell.seed, QUIET)
    release = target.release()
    if cell.there:
        target, release = elsewhere(target, release, gv.datasets.load(cell.there))
    # As in the paper: all pairs among 500 nodes of another country, else as many edges as pairs that are none.
    natural = bool(cell.there)
    # Posteriors of two classes, less their mean, all lie on one line: their correlation is 1 or -1.
    distance = "euclidean" if graph.num_classes == 2 else "correlation"
    attacks = {
        "features alone": FeatureSimilarity(PAIRS, natural).scores(target, cell.seed),
        "lpa": Lpa(PAIRS, natural, distance).judged(target, release, cell.seed),
    }
    for interface in cell.interfaces():
        attack = LinkTeller(PAIRS if natural else QUERIES, natural, interface=interface)
        attacks[f"linkteller {interface}"] = attack.judged(target, release, cell.seed)
    result: dict[str, Any] = {
        "part": cell.part,
        "dataset": cell.key[1],
        "method": cell.label,
        "epsilon": _plain(cell.epsilon),
        "sound epsilon": min(release.certificate.sound_epsilon, 1e9),
        "seed": cell.seed,
        **(rare(release, target.graph) if cell.there else {"accuracy": release.evaluate("test")["accuracy"]}),
        "attacks": {name: told(scores) for name, scores in attacks.items()},
        "seconds": round(time.process_time() - began, 1),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(place, result)
    print(cell.file, f"accuracy {result['accuracy']:.3f}", _brief(result["attacks"]), flush=True)
    return result


def elsewhere(target: Target, release: Release, graph: Graph) -> tuple[Target, Release]:
    """What a release says about another private graph, at that graph's own expense, as the target of attacks."""
    # The noise of training must not come again.
    there = replace(target, graph=graph, seed=1_000 + target.seed)
    if release.method.reads is PredictionReads.RELEASED:
        return there, gv.infer(
            release, graph, epsilon=target.epsilon, delta=target.delta, seed=there.seed, compute=QUIET
        )
    return there, replace(release, _graph=graph)


def rare(release: Release, graph: Graph) -> dict[str, float]:
    """Accuracy over all labelled nodes, and the F1 of the rarer class, which is what Eclipse measures on Twitch."""
    known = graph.y >= 0
    said, truth = release.predict(graph)[known], graph.y[known]
    found = judged(said, truth, graph.num_classes)
    return {
        "accuracy": found["accuracy"],
        "rare f1": found["classes"][int(torch.bincount(truth).argmin())]["f1"] or 0.0,
    }


def told(scores: Scores) -> dict[str, float]:
    """AUC, also by degree, and TPR at small FPR, to four digits."""
    groups = {f"auc {name}": group.auc() for name, group in scores.by_degree().items()}
    rates = {"tpr at 0.1 %": scores.tpr_at(0.001), "tpr at 1 %": scores.tpr_at(0.01)}
    return {name: round(float(value), 4) for name, value in {"auc": scores.auc(), **groups, **rates}.items()}


def _brief(attacks: dict[str, dict[str, float]]) -> str:
    return ", ".join(f"{name} {values['auc']:.3f}" for name, values in attacks.items())


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation over seeds, one entry per dataset, method and epsilon."""
    keys = list(dict.fromkeys((r["part"], r["dataset"], r["method"], r["epsilon"]) for r in results))
    rows = []
    for key in keys:
        runs = [r for r in results if (r["part"], r["dataset"], r["method"], r["epsilon"]) == key]
        attacks = {}
        for name in runs[0]["attacks"]:
            values = {what for run in runs for what in run["attacks"][name]}
            attacks[name] = {
                what: spread([run["attacks"][name][what] for run in runs if what in run["attacks"][name]])
                for what in sorted(values)
            }
        part, dataset, method, epsilon = key
        row = {"part": part, "dataset": dataset, "method": method, "epsilon": epsilon, "seeds": len(runs)}
        sound, accuracy = float(np.mean([r["sound epsilon"] for r in runs])), spread([r["accuracy"] for r in runs])
        if "rare f1" in runs[0]:
            row["rare f1"] = spread([r["rare f1"] for r in runs])
        rows.append({**row, "sound epsilon": sound, "accuracy": accuracy, "attacks": attacks})
    return rows


def spread(values: list[float]) -> dict[str, float]:
    """Mean and standard deviation of one value a seed."""
    more = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": round(float(np.mean(values)), 4), "std": round(more, 4)}


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Every table in Markdown, printed figures beside ours, by the name that pages ask for."""
    parts = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    makers = {"table 4": _table_4, "figure 7": _figure_7_table, "floors": _floors}
    makers |= {"figure 10": _figure_10_table, "figure 11": _figure_11_table}
    return {name: "\n".join(make(parts.get(name, parts["figure 7"]))) for name, make in makers.items()}


def _table_4(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| dataset | epsilon | anew | printed | same noise | LPA | features | accuracy | seeds |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        printed = TABLE_4[row["dataset"]][[_plain(e) for e in TABLE_4_EPSILONS].index(row["epsilon"])]
        columns = (_auc(row, "linkteller anew"), f"{printed:.3f}", _auc(row, "linkteller rerun"), _auc(row, "lpa"))
        last = (_auc(row, "features alone"), _mean(row["accuracy"]), row["seeds"])
        yield line(row["dataset"], row["epsilon"], *columns, *last)


def _figure_7_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    titles = ("dataset", "method", "epsilon", "accuracy", "LPA", "low / high degree", "TPR at 0.1 / 1 %", "LinkTeller")
    yield line(*titles, "same noise", "printed", "seeds")
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---|---:|"
    for row in rows:
        lpa = row["attacks"]["lpa"]
        degrees = f"{_mean(lpa.get('auc low'))} / {_mean(lpa.get('auc high'))}"
        rates = f"{_mean(lpa['tpr at 0.1 %'])} / {_mean(lpa['tpr at 1 %'])}"
        known = PRINTED.get((row["dataset"], row["method"], row["epsilon"]), {})
        printed = ", ".join(f"{name} {value:.3f}" for name, value in known.items())
        teller = [_auc(row, f"linkteller {name}") for name in ("served", "rerun")]
        columns = (_mean(row["accuracy"]), _auc(row, "lpa"), degrees, rates, *(teller if teller[0] else teller[::-1]))
        yield line(row["dataset"], row["method"], row["epsilon"], *columns, printed, row["seeds"])


def _floors(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| dataset | features alone | printed (Table 3) | mlp posteriors |"
    yield "|---|---:|---:|---:|"
    for row in (row for row in rows if row["method"] == "mlp"):
        printed = f"{PRINTED_FLOOR[row['dataset']]:.3f}"
        yield line(row["dataset"], _auc(row, "features alone"), printed, _auc(row, "lpa"))


def _figure_10_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    titles = ("dataset", "method", "epsilon", "rare F1", "LPA", "low degree", "LinkTeller", "low degree", "features")
    yield line(*titles, "seeds")
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        teller = next(name for name in ("linkteller served", "linkteller rerun") if name in row["attacks"])
        columns = [(_auc(row, name), _mean(row["attacks"][name].get("auc low"))) for name in ("lpa", teller)]
        f1, floor = _mean(row["rare f1"]), _auc(row, "features alone")
        yield line(row["dataset"], row["method"], row["epsilon"], f1, *columns[0], *columns[1], floor, row["seeds"])


def _figure_11_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    epsilons = sorted({row["epsilon"] for row in rows})
    yield line("rank", *(title for e in epsilons for title in (f"accuracy, ε = {e:g}", "LPA", "LinkTeller")), "seeds")
    yield "|---:" * (3 * len(epsilons) + 2) + "|"
    cells = {(row["method"], row["epsilon"]): row for row in rows}
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [cells[method, e] for e in epsilons]
        columns = [(_mean(row["accuracy"]), _auc(row, "lpa"), _auc(row, "linkteller rerun")) for row in own]
        yield line(method.split()[-1], *(value for triple in columns for value in triple), own[0]["seeds"])


def fill(page: Path, name: str, made: dict[str, str]) -> None:
    """Write tables between `<!-- name: table -->` and `<!-- /name -->`."""
    text = page.read_text(encoding="utf-8")
    for title, table in made.items():
        mark = re.compile(rf"(<!-- {name}: {title} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = mark.sub(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)
    page.write_text(text, encoding="utf-8")


def line(*columns: Any) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(str(column) for column in columns) + " |"


def _auc(row: dict[str, Any], attack: str) -> str:
    return _mean(row["attacks"].get(attack, {}).get("auc"), row["seeds"] > 1)


def _mean(value: dict[str, float] | None, with_spread: bool = False) -> str:
    if value is None:
        return ""
    return f"{value['mean']:.3f}" + (f" ± {value['std']:.3f}" if with_spread else "")


def _plain(epsilon: float) -> float | str:
    return "inf" if epsilon == math.inf else epsilon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--quick", action="store_true", help="Cora, one seed, epsilon 1.")
    parser.add_argument("--show", action="store_true", help="Run nothing: show what is done.")
    parser.add_argument("--share", default="1/1", help="Run the k-th of n parts alone, for K/N.")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--results", type=Path, help="Write all runs that are done there, as JSON.")
    parser.add_argument("--page", type=Path, help="Write the tables of all runs into the marks of this page.")
    given = parser.parse_args()
    given.out = given.out or kept_files.records_folder(NAME)
    unpack(kept_files.runs_of(NAME), given.out)
    wanted = cells(["cora"], [0], True) if given.quick else cells(given.datasets, given.seeds, False)
    wanted = share_of([cell for cell in wanted if cell.part in given.parts], given.share)
    if given.show:
        wanted = done(given.out, wanted)
    with one_thread():
        found = dict(Local(given.jobs).stream(measure, given.out, wanted))
    # Of all, so that a part does not replace the whole.
    every = [measure(given.out, cell) for cell in done(given.out, cells(list(DATASETS), list(SEEDS), False))]
    if given.results:
        kept_files.write(given.results, sorted(every, key=key_of))
    if given.page:
        fill(given.page, NAME, tables(summary(every)))
    print("\n\n".join(tables(summary([found[place] for place in range(len(wanted))])).values()))


if __name__ == "__main__":
    main()
