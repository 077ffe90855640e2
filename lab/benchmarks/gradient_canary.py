"""Figure 8 of HeterPoisson (Xiang, Wang & Wang, S&P 2024) again: its audit by projection, and one by the whole vector.

    python lab/benchmarks/gradient_canary.py [--runs 20000] [--json lab/results/heterpoisson-audit.json]

Algorithm 5 inserts the canary gradient (k, 0, ..., 0) into the noisy sums of a training, k being one half with
probability q (the node is central) and else 1 with probability q (its only out-neighbour is central and keeps it), in
units of two clips, and looks at the first coordinate of every sum. Here the other gradients are zero, which an
attacker may arrange, so that only the noise and k matter. Of SML noise in d dimensions the first coordinate and the
length of the rest say everything about k; these two numbers are drawn from their exact law, with the plan's noise, q
and steps and the network's d. `projection` reads the first coordinate alone, as the paper does; `vector` reads both.

Per dataset and epsilon (2, 4, 8, 16; delta n^-1.1, 95 % confidence as in the paper): accuracy of the better guess
which of two trainings had the canary (figure 8a), and the certified lower bound on epsilon (figure 8b). `runs` are
trainings with, and as many without. A bound never exceeds ln(runs) or so, however much is told. `gaussian` is our own
noise law at the same epsilon. `ndp` is NDP with its published claim (figures 8c, 8d): a fixed number of subgraphs is
drawn, of which the canary's node is in j with the chances of its claim; a Gaussian's first coordinate says everything.
"""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import graphveil as gv
from graphveil.auditing.bounds import Scores, finding
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.mechanisms.renyi import RenyiCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.sml import Sml
from graphveil.nn.subgraph_model import start
from graphveil.planning import Terms, planned
from graphveil.vocabulary import Floats, Reading
from graphveil_lab import kept_files

DATASETS = ("facebook", "twitch-de", "computers", "pubmed")
EPSILONS = (2.0, 4.0, 8.0, 16.0)
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Insertion:
    """Algorithm 5: `steps` noisy sums in `size` dimensions, SML or Gaussian; the canary moves one with some chances.

    Noise and moves are in units of two clips.
    """

    noise: float
    moves: tuple[float, ...]
    chances: tuple[float, ...]
    steps: int
    size: int
    sml: bool

    @classmethod
    def of(cls, plan: gv.Plan, size: int) -> Insertion:
        """The plan of a subgraph network. Under NDP the node is in j of the drawn subgraphs, and each moves the sum."""
        (step,) = plan.steps
        act = step.act
        if isinstance(act, HeterPoissonSampling):
            chances = act.rate, (1 - act.rate) * act.rate
            return cls(act.inner.std / 2, (0.5, 1.0), chances, step.times, size, isinstance(act.inner, Sml))
        assert isinstance(act, FixedSize)
        mixture = step.claim.base if isinstance(step.claim, RenyiCurve) else step.claim
        assert isinstance(mixture, RevealedMixture)
        times = tuple(float(j) for j in range(1, len(mixture.weights)))
        return cls(act.inner.std / 2, times, mixture.weights[1:], step.times, size, False)  # type: ignore[attr-defined]

    def observed(self, present: bool, runs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """First coordinate and squared length of the rest, each [runs, steps]."""
        shape = runs, self.steps
        drawn = np.searchsorted(np.cumsum(self.chances), rng.random(shape), side="right")
        moved = np.array([*self.moves, 0.0])[drawn] * present
        scale = self.noise * (np.sqrt(rng.exponential(size=shape)) if self.sml else 1.0)
        first = moved + scale * rng.standard_normal(shape)
        return first, scale**2 * rng.chisquare(self.size - 1, shape)

    def told(self, first: Floats, rest: Floats, projected: bool) -> Floats:
        """Log likelihood ratio of the trainings, [runs]: of first coordinates alone, or of whole vectors."""
        ratio = self._by_projection if projected or not self.sml else self._by_vector
        told = np.full_like(first, math.log1p(-sum(self.chances)))
        for chance, move in zip(self.chances, self.moves, strict=True):
            told = np.logaddexp(told, math.log(chance) + ratio(first, rest, move))
        return told.sum(axis=1)

    def _by_projection(self, first: Floats, _: Floats, move: float) -> Floats:
        if self.sml:
            return math.sqrt(2) / self.noise * (np.abs(first) - np.abs(first - move))
        return (move * first - move**2 / 2) / self.noise**2

    def _by_vector(self, first: Floats, rest: Floats, move: float) -> Floats:
        near, far = (log_density((rest + x**2) / (2 * self.noise**2), self.size) for x in (first - move, first))
        return near - far


def log_density(squared: Floats, size: int) -> Floats:
    """ln int_0^inf w^(-size/2) e^(-squared/w - w) dw = ln 2 s^(-v/2) K_v(2 sqrt s), v = size/2 - 1, but for a constant.

    Bessel's K by its uniform expansion (Abramowitz & Stegun 9.7.8): right to v^-2.
    """
    order = size / 2 - 1
    z = 2 * np.sqrt(squared) / order
    root = np.sqrt(1 + z**2)
    p = 1 / root
    series = np.log1p(-(3 * p - 5 * p**3) / (24 * order))
    return -order / 2 * np.log(squared) - order * (root + np.log(z / (1 + root))) - np.log(root) / 2 + series


def accuracy(scores: Scores) -> float:
    """Of the better guess between two trainings, one with and one without the canary, at the best threshold."""
    values = np.concatenate([scores.present, scores.absent])
    order = np.argsort(values)
    inside = np.concatenate([np.ones(len(scores.present)), np.zeros(len(scores.absent))])[order]
    right = np.cumsum(1 - inside) / len(scores.absent) + 1 - np.cumsum(inside) / len(scores.present)
    return float(max(right.max(), 1.0) / 2)


def audited(game: Insertion, claimed: float, delta: float, runs: int, seed: int) -> dict[str, dict[str, Any]]:
    """What both attackers find in the same trainings."""
    rng = np.random.default_rng(seed)
    here, there = game.observed(True, runs, rng), game.observed(False, runs, rng)
    found = {}
    for name, projected in (("projection", True), ("vector", False)):
        scores = Scores(game.told(*here, projected), game.told(*there, projected))
        result = finding(name, scores, claimed, delta, CONFIDENCE)
        found[name] = {"accuracy": accuracy(scores), "lower": result.lower, "verdict": result.verdict}
    return found


LAWS = (("sml", Reading.PUBLISHED), ("gaussian", Reading.SOUND), ("ndp", Reading.PUBLISHED))
"""The published method and claim, Gaussian noise with ours, and NDP with its own claim."""


def measured(name: str, epsilon: float, law: str, reading: Reading, runs: int) -> dict[str, Any]:
    """A row: one dataset, epsilon and noise law."""
    graph = gv.datasets.load(name, split="random_80_20")
    delta = graph.num_nodes**-1.1
    method: gv.methods.HeterPoisson | gv.methods.Ndp = gv.methods.Ndp()
    if law != "ndp":
        method = gv.methods.HeterPoisson(network="gcn", noise_law=law, exact_term=law == "sml")
    found = planned(method, graph, Terms("node", epsilon, delta=delta, reading=reading))
    size = sum(part.numel() for part in start(method.model(graph.num_features, graph.num_classes)))
    game = Insertion.of(found.plan, size)
    result = audited(game, found.epsilon, delta, runs, seed=0)
    return {"dataset": name, "epsilon": epsilon, "noise_law": law, "steps": game.steps, **result}


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    told = (f"{row[who]['accuracy']:10.3f} {row[who]['lower']:8.3f} {row[who]['verdict']:<11}" for who in ATTACKERS)
    return f"{row['dataset']:<10} {row['noise_law']:<9} {row['epsilon']:7g} {' '.join(told)}"


ATTACKERS = ("projection", "vector")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(
        f"{'dataset':<10} {'noise':<9} {'claimed':>7} {'projection: accuracy, above':<32} whole vector: accuracy, above"
    )
    usable = given.json is not None and given.json.exists()
    kept = kept_files.read(given.json).content["rows"] if usable else []
    found = []
    for law, reading in LAWS:
        for name, epsilon in itertools.product(given.datasets, EPSILONS):
            wanted = {"dataset": name, "epsilon": epsilon, "noise_law": law, "runs": given.runs}
            known = [row for row in kept if wanted.items() <= row.items()]
            row = known[0] if known else {**wanted, **measured(name, epsilon, law, reading, given.runs)}
            found.append(row)
            print(line(row), flush=True)
            if given.json is not None and not known:
                # After every row: what is there already is not computed again.
                kept_files.write(given.json, {"confidence": CONFIDENCE, "rows": found})


if __name__ == "__main__":
    main()
