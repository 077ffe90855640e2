"""How much of `paircounts` comes from its release about edges: a control without that release.

    python lab/benchmarks/control.py [--epsilon 4] [--seeds 0 1 2] [--homophily 0.7]

Trains the method as `graphveil bench run heterpoisson` does, at the learning rates chosen there, and predicts from the
same weights with other pair counts in the place of the released ones: an untrained matrix that says "a neighbour has my
class with probability `homophily`, else any other", with the released class shares and with uniform ones. Prints JSON:
test accuracies in per cent, mean over the seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace

import torch
from torch import Tensor

import graphveil as gv
from graphveil.vocabulary import State

RATES = {"facebook": 256.0, "rutgers89": 64.0}
"""`learning_rate` of each dataset, chosen on validation (lab/results/heterpoisson.json)."""
MANY = 1e6
"""Counts so large that no floor of the noise changes them."""


def untrained(classes: int, homophily: float) -> Tensor:
    """Counts of label pairs, [c, c]."""
    pairs = torch.full((classes, classes), (1 - homophily) / (classes - 1))
    return MANY * pairs.fill_diagonal_(homophily)


def variants(state: State, homophily: float) -> dict[str, State]:
    """The states to predict from."""
    classes = len(state["pairs.classes"])
    pairs = {**state, "pairs.counts": untrained(classes, homophily)}
    both = {**pairs, "pairs.classes": torch.full((classes,), MANY), "pairs.noise": torch.tensor(1.0)}
    return {"released": state, "untrained pairs": pairs, "untrained pairs, uniform classes": both}


def accuracies(name: str, epsilon: float, seed: int, homophily: float) -> dict[str, float]:
    """Test accuracy of every variant."""
    graph = gv.datasets.load(name, split="random_80_20", seed=seed)
    method = gv.methods.PairCounts(learning_rate=RATES[name])
    release = gv.train(graph, method, epsilon=epsilon, delta=graph.num_nodes**-1.1, unit="node", seed=seed)
    made = {what: replace(release, state=state) for what, state in variants(release.state, homophily).items()}
    return {what: 100 * one.evaluate("test")["accuracy"] for what, one in made.items()}


def main() -> None:
    """Run all and print JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--homophily", type=float, default=0.7)
    words = parser.parse_args()
    torch.set_num_threads(1)
    report = {}
    for name in RATES:
        found = [accuracies(name, words.epsilon, seed, words.homophily) for seed in words.seeds]
        report[name] = {what: round(statistics.mean(one[what] for one in found), 1) for what in found[0]}
    print(json.dumps({"epsilon": words.epsilon, "homophily": words.homophily, **report}, indent=2))


if __name__ == "__main__":
    main()
