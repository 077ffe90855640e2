"""Attacks on nodes: the G-MIA half of Table 4 of CARIBOU (Zheng et al. 2025), and figure 4 of PrivGNN (appendix C).

    python lab/benchmarks/node_attacks.py                           # all of it: hours on one core, resumable
    python lab/benchmarks/node_attacks.py --quick                   # Cora and Credit, one seed, the cheapest rows
    python lab/benchmarks/node_attacks.py --part table4 --datasets cora --seeds 0
    python lab/benchmarks/node_attacks.py --share 3/16              # the third of sixteen machines
    python lab/benchmarks/node_attacks.py --report --json lab/results/node-attacks.json --page docs/attacks.md
    python lab/benchmarks/node_attacks.py --part figure4 --teachers # with the paper's own teachers: an hour for each seed

Table 4. A quarter of the nodes trains the target, on the subgraph of these nodes; as many others are scored beside
them; a shadow model gets another quarter, and its classifier the last one. The model is asked about the full graph
(TSTF). The paper does not say which level its epsilons are of, nor the sizes of the split.
caribou, edges: the published settings and reading, which protects edges and leaves nodes, features and labels open.
caribou, nodes: the published reading of node level, which has no sound cost. gcn, dpsgd, heterpoisson: node level.
LiRA, with 16 shadow models a cell, is run on the `--lira` datasets, for caribou at two epsilons.

Figure 4. B1: GraphSAGE on the private graph. privgnn: the paper's student, lambda = 1; teachers that vote in the place
of the paper's networks unless `--teachers` is given. Attack 1: who is private; attack 2: who was asked about.
Private and public nodes are not alike in the published splits. `control`: attack 1 where all are drawn alike, on a
model of the private nodes and on a model of other nodes, which cannot tell and shows what the graphs alone give away.

Every cell has a file of its own, written when it is done; what is there, or in `lab/results/node-attacks.json`, is not run
again while the code is the same (making.py). The last command but one keeps all that is done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import graphveil as gv
from edge_attacks import fill, line, share_of
from graphveil.auditing.attacks.asked_nodes import AskedNodes
from graphveil.auditing.attacks.gmia import Gmia
from graphveil.auditing.attacks.lira import Lira
from graphveil.auditing.attacks.parts.membership import NodeInference, answers
from graphveil.auditing.attacks.private_nodes import PrivateNodes
from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Target
from graphveil.data.graph import Graph, induced
from graphveil.data.splits import Split
from graphveil.methods.method import Method
from graphveil.runtime.engine import Local, one_thread
from graphveil.runtime.folders import write_whole
from graphveil.vocabulary import Reading, Unit
from graphveil_lab import kept_files

NAME = "node-attacks"
EPSILONS = (math.inf, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
PRINTED: dict[str, tuple[float, ...]] = {
    "facebook": (0.567, 0.587, 0.587, 0.587, 0.583, 0.587, 0.588),
    "pubmed": (0.600, 0.599, 0.598, 0.598, 0.601, 0.601, 0.605),
    "cora": (0.645, 0.500, 0.500, 0.500, 0.500, 0.500, 0.500),
    "photo": (0.678, 0.677, 0.682, 0.682, 0.678, 0.672, 0.676),
    "computers": (0.702, 0.701, 0.661, 0.707, 0.708, 0.711, 0.701),
}
"""G-MIA in Table 4. The paper's Facebook graph is another one than that of page links here."""
DELTA = 1e-4
QUIET = gv.Compute(quiet=True)
CARIBOU = {"hops": 2, "lipschitz": 0.6, "beta": 10.0, "tau": 1.0, "loops": 1.0, "start": "features", "head": 64}
STUDENT = {"spend": "noise", "argmax": "laplace", "sharp": False, "student": "sage"}
ROWS: dict[str, tuple[float, ...]] = {
    "gcn": (math.inf,),
    "caribou, edges": EPSILONS,
    "dpsgd": (math.inf, 1.0, 8.0),
    "heterpoisson": (math.inf, 1.0, 8.0),
    "caribou, nodes": (1.0, 8.0, 32.0),
}
LIRA: dict[str, tuple[float, ...]] = {"caribou, edges": (math.inf, 1.0), "caribou, nodes": ()}
"""Where LiRA runs, if not everywhere."""
TITLES = {
    "table 4": "| dataset | row | epsilon | printed | seeds | G-MIA | low / high | TPR | LiRA | low / high | TPR "
    "| threshold | features alone |",
    "figure 4": "| dataset | model | seeds | attack | AUC | low / high | TPR | threshold | features alone |",
    "control": "| dataset | model | seeds | attack 1 | low / high | TPR | same attack, model of other nodes "
    "| threshold | features alone |",
}
FOUR = ("B1", "privgnn, voting teachers, no noise", "privgnn, voting teachers", "privgnn, default", "census")
CONTROLS = ("B1", "privgnn, default", "census")
TEACHERS = "privgnn, paper's teachers"


@dataclass(frozen=True)
class Cell:
    """One attacked model."""

    part: str
    dataset: str
    row: str
    epsilon: float
    seed: int
    lira: bool = False

    def place(self, folder: Path) -> Path:
        """Its file."""
        said = json.dumps({**asdict(self), "epsilon": str(self.epsilon)}, sort_keys=True)
        return folder / f"{self.part}-{self.dataset}-{hashlib.sha256(said.encode()).hexdigest()[:16]}.json"


def table_target(graph: Graph, cell: Cell) -> Target:
    """The attacked model of Table 4."""
    if cell.row.startswith("caribou"):
        unit = Unit.NODE if cell.row.endswith("nodes") else Unit.EDGE
        degrees = graph.adj.in_degrees()
        own: dict[str, Any] = {"most_degree": int(degrees.max()), "scale": "none"} if unit is Unit.NODE else {}
        method: Method = gv.methods.Caribou(**CARIBOU, **own)
        return Target(
            graph, method, unit, epsilon=cell.epsilon, reading=Reading.PUBLISHED, seed=cell.seed, compute=QUIET
        )
    known: dict[str, Callable[[], Method]] = {
        "gcn": gv.methods.Gcn,
        "dpsgd": gv.methods.DpSgd,
        "heterpoisson": gv.methods.HeterPoisson,
    }
    return Target(graph, known[cell.row](), Unit.NODE, epsilon=cell.epsilon, seed=cell.seed)


def figure_target(graph: Graph, cell: Cell) -> Target:
    """The attacked model of figure 4."""
    scale = "columns" if cell.dataset == "credit" else "rows"
    if cell.row == "B1":
        # Two GraphSAGE layers of 64 units, 200 epochs, dropout 1/2 (appendix G), on the private graph alone.
        return Target(
            graph, gv.methods.Sage(weight_decay=0.0, scale=scale), Unit.NODE, noise=0.0, seed=cell.seed, compute=QUIET
        )
    if cell.row in ("privgnn, default", "census"):
        kind = gv.methods.PrivGnn if cell.row.startswith("privgnn") else gv.methods.Census
        return Target(graph, kind(scale=scale), Unit.NODE, epsilon=4.0, delta=DELTA, seed=cell.seed)
    teacher = "sage" if cell.row == TEACHERS else "votes"
    method = gv.methods.PrivGnn(scale=scale, teacher=teacher, **STUDENT)
    noise = 0.0 if cell.row.endswith("no noise") else 1.0
    reading = Reading.SOUND if cell.row.endswith("no noise") else Reading.PUBLISHED
    return Target(graph, method, Unit.NODE, noise=noise, delta=DELTA, reading=reading, seed=cell.seed)


def drawn_alike(dataset: str, seed: int) -> tuple[Graph, Graph]:
    """Two private graphs of a quarter of the nodes each, with the same public one, all drawn alike, beside them."""
    graph = gv.datasets.load(dataset)
    parts = np.array_split(np.random.default_rng(seed).permutation(graph.num_nodes), 8)
    asked, scored = np.concatenate(parts[4:6]), np.concatenate(parts[6:])
    public = induced(graph, Split(asked, test=scored, how="drawn alike"), f"{dataset}-public")
    ours, theirs = (
        induced(graph, Split(np.concatenate(pair), how="drawn alike"), dataset) for pair in (parts[:2], parts[2:4])
    )
    return ours.with_public(public), theirs.with_public(public)


def told(scores: Scores) -> dict[str, float]:
    """What is reported of an attack."""
    degrees = {name: group.auc() for name, group in scores.by_degree().items()}
    return {"auc": scores.auc(), "tpr_0.1%": scores.tpr_at(0.001), "tpr_1%": scores.tpr_at(0.01), **degrees}


def measure(folder: Path, cell: Cell) -> dict[str, Any]:
    """All attackers of one cell."""
    place = cell.place(folder)
    if place.exists():
        done: dict[str, Any] = json.loads(place.read_text())
        return done
    began = time.monotonic()
    found: dict[str, dict[str, float]] = {}
    if cell.part == "table4":
        graph = gv.datasets.load(cell.dataset).random_split(0.25, 0.0, 0.75, seed=cell.seed)
        target, lead = table_target(graph, cell), Gmia()
        runs: list[tuple[NodeInference, list[NodeInference]]] = [(lead, [Lira()] if cell.lira else [])]
    elif cell.part == "control":
        first, second = drawn_alike(cell.dataset, cell.seed)
        target, runs = figure_target(first, cell), [(PrivateNodes(), [])]
    else:
        graph = gv.datasets.load(cell.dataset, split="two_graphs", seed=cell.seed)
        target = figure_target(graph, cell)
        runs = [(PrivateNodes(), [])] + ([(AskedNodes(), [])] if cell.row.startswith("privgnn") else [])
    for attack, more in runs:
        scene = attack.scene(target, cell.seed)
        named = {attack.name(): attack, **{other.name(): other for other in more}}
        floors = {f"{attack.name()}: {name}": floor for name, floor in attack.floors().items()}
        for name, each in (named | floors).items():
            assert isinstance(each, NodeInference)
            found[name] = told(each.on(scene))
    if cell.part == "control":
        other = figure_target(second, cell).release()
        blind = replace(scene, release=other, posteriors=answers(other, scene.graph, cell.seed))
        found["private_nodes: model of others"] = told(PrivateNodes().on(blind))
    epsilon = scene.release.certificate.epsilon
    result = {
        **asdict(cell),
        "epsilon": str(cell.epsilon),
        "charged": str(epsilon),
        "sound": str(scene.release.certificate.sound_epsilon),
        "scored": [len(scene.present), len(scene.absent)],
        "attacks": found,
        "seconds": round(time.monotonic() - began, 1),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(place, result)
    return result


def cells(given: argparse.Namespace) -> list[Cell]:
    """What is asked for, the first seed of everything first."""
    found = []
    for seed in given.seeds:
        if given.part in ("all", "table4"):
            for dataset in [name for name in PRINTED if name in given.datasets]:
                for row, epsilons in ROWS.items():
                    kept = [epsilon for epsilon in epsilons if epsilon in given.epsilons]
                    far = LIRA.get(row, epsilons) if dataset in given.lira else ()
                    found += [Cell("table4", dataset, row, epsilon, seed, epsilon in far) for epsilon in kept]
        if given.part in ("all", "control"):
            shown = [name for name in ("computers", "rutgers89", "credit") if name in given.datasets]
            found += [Cell("control", dataset, row, math.nan, seed) for dataset in shown for row in CONTROLS]
        if given.part in ("all", "figure4"):
            for dataset in [name for name in ("credit", "computers", "rutgers89") if name in given.datasets]:
                rows = (*FOUR, TEACHERS) if given.teachers else FOUR
                found += [Cell("figure4", dataset, row, math.nan, seed) for row in rows]
    return found


def unpack(runs: list[dict[str, Any]], folder: Path) -> None:
    """A file for every run that is kept and has none."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        place = cell_of(run).place(folder)
        if not place.exists():
            write_whole(place, run)


def cell_of(run: dict[str, Any]) -> Cell:
    """Which cell a record is of."""
    said = {name: run[name] for name in ("part", "dataset", "row", "seed", "lira")}
    return Cell(**said, epsilon=float(run["epsilon"]))


def again(run: dict[str, Any]) -> dict[str, Any]:
    """A kept run, made anew."""
    with TemporaryDirectory() as folder:
        return measure(Path(folder), cell_of(run))


def spread(values: list[float]) -> str:
    """Mean and deviation of AUCs."""
    more = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{more}" if values else ""


def tables(results: list[dict[str, Any]]) -> dict[str, str]:
    """Every table in Markdown, by the name that pages ask for."""
    groups: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["part"], result["dataset"], result["row"], result["epsilon"]), []).append(result)
    made = {
        "table 4": [TITLES["table 4"], "|---" * 13 + "|"],
        "figure 4": [TITLES["figure 4"], "|---" * 9 + "|"],
        "control": [TITLES["control"], "|---" * 9 + "|"],
    }
    for (part, dataset, row, epsilon), runs in groups.items():
        if part == "table4":
            made["table 4"].append(_table_row(dataset, row, epsilon, runs))
        elif part == "control":
            blind = spread(values(runs, "private_nodes: model of others", "auc"))
            first = (*judged(runs, "private_nodes"), blind, *floors(runs, "private_nodes"))
            made["control"].append(line(dataset, row, len(runs), *first))
        else:
            for number, attack in enumerate(("private_nodes", "asked_nodes"), start=1):
                if attack in runs[0]["attacks"]:
                    columns = (*judged(runs, attack), *floors(runs, attack))
                    made["figure 4"].append(line(dataset, row, len(runs), number, *columns))
    return {name: "\n".join(lines) for name, lines in made.items()}


def _table_row(dataset: str, row: str, epsilon: str, runs: list[dict[str, Any]]) -> str:
    printed = ""
    if row.startswith("caribou"):
        printed = f"{PRINTED[dataset][EPSILONS.index(float(epsilon))]:.3f}"
    attacks = (*judged(runs, "gmia"), *judged(runs, "lira"), *floors(runs, "gmia"))
    return line(dataset, row, f"{float(epsilon):g}", printed, len(runs), *attacks)


def values(runs: list[dict[str, Any]], attack: str, what: str) -> list[float]:
    """One value for every run that has it."""
    return [run["attacks"][attack][what] for run in runs if what in run["attacks"].get(attack, {})]


def judged(runs: list[dict[str, Any]], attack: str) -> tuple[str, str, str]:
    """AUC, AUC by degree, and TPR at 0.1 % and 1 % in per cent."""
    if not values(runs, attack, "auc"):
        return "", "", ""
    low, high = (f"{np.mean(values(runs, attack, what)):.3f}" for what in ("low", "high"))
    rates = [f"{100 * np.mean(values(runs, attack, what)):.1f}" for what in ("tpr_0.1%", "tpr_1%")]
    return spread(values(runs, attack, "auc")), f"{low} / {high}", " / ".join(rates)


def floors(runs: list[dict[str, Any]], attack: str) -> tuple[str, str]:
    """What needs no shadow, and what needs no model."""
    threshold, alone = (values(runs, f"{attack}: {name}", "auc") for name in ("confidence threshold", "features alone"))
    return spread(threshold), spread(alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["all", "table4", "figure4", "control"], default="all")
    parser.add_argument("--datasets", nargs="+", default=[*PRINTED, "credit", "rutgers89"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS), help="of Table 4")
    parser.add_argument("--lira", nargs="*", default=["cora"], help="datasets of Table 4 on which LiRA runs too")
    parser.add_argument("--teachers", action="store_true", help="PrivGNN with the paper's own teachers too")
    parser.add_argument("--quick", action="store_true", help="Cora and Credit, one seed")
    parser.add_argument("--report", action="store_true", help="what is there already, without running anything")
    parser.add_argument("--share", default="1/1", help="run the k-th of n parts alone, for K/N")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--json", type=Path, help="write all runs there, sorted")
    parser.add_argument("--page", type=Path, help="write the tables into the marks of this page")
    given = parser.parse_args()
    if given.quick:
        given.datasets, given.seeds, given.lira, given.epsilons = ["cora", "credit"], [0], [], [math.inf, 1.0]
    given.out = given.out or kept_files.records_folder(NAME)
    unpack(kept_files.runs_of(NAME), given.out)
    wanted = share_of(cells(given), given.share)
    wanted = [cell for cell in wanted if not given.report or cell.place(given.out).exists()]
    found = {}
    with one_thread():
        for place, result in Local(given.jobs).stream(measure, given.out, wanted):
            found[place] = result
            best = {name: round(one["auc"], 3) for name, one in result["attacks"].items()}
            said = (result[key] for key in ("part", "dataset", "row", "epsilon", "seed", "seconds"))
            print(*said, best, flush=True)
    results = [found[place] for place in range(len(wanted))]
    made = tables(results)
    print("\n\n".join(made.values()))
    if given.json:
        kept_files.write(given.json, results)
    if given.page:
        fill(given.page, NAME, made)


if __name__ == "__main__":
    main()
