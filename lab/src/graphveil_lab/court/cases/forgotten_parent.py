"""A certificate of served weights states the serving and forgets the training that they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.graph import Graph
from graphveil.methods.edge.gap import Gap
from graphveil.release.release import Release
from graphveil.run import infer, train
from graphveil.runtime.compute import Compute
from graphveil.vocabulary import Floats, State, Unit
from graphveil_lab.court.case import Case

_METHOD = Gap(hidden=0, head=4)
_QUIET = Compute(quiet=True)
_EPSILON, _DELTA = 0.1, 1e-5
"""What is asked for the serving."""
_NODES = 12


@dataclass(frozen=True, eq=False)
class ForgottenParent(Case):
    """Weights that were trained on edges tell of them, however little the predictions that are made with them cost.

    GAP is trained on a graph without any noise, and its weights then serve the same graph at epsilon 0.1. The folder
    of the second release holds new noisy sums and the old weights, and its own plan charges the sums alone. Whoever
    has the folder trains on both graphs and looks whose weights they are: a first version of this library wrote 0.1
    on such folders, and an edge was read off 25 of 25. A certificate now names its parents and charges them:
    `Certificate.guarantees` says infinity here (docs/sharp-edges.md).
    """

    name: str = "forgotten-parent"
    claim: str = "weights that serve the graph of their training cost what the serving costs; epsilon 0.1"
    source: str = "graphveil itself before certificates named their parents; pipelines that state their last step"
    delta: float = _DELTA
    runs: int = 300
    quick: int = 60

    def claimed(self) -> float:
        return _served(_trained(_pair().graph), _pair().graph, 0).certificate.plan_epsilon

    def play(self, runs: int, seed: int) -> Scores:
        pair = _pair()
        here, there = pair.graph, replace(pair.graph, adj=pair.adj)
        parents = _trained(here), _trained(there)
        known = [_weights(parent.state) for parent in parents]
        drawn = np.random.default_rng(seed).integers(2**31, size=(2, runs)) + 1
        present, absent = (
            _nearer(known, parent, graph, seeds)
            for parent, graph, seeds in zip(parents, (here, there), drawn, strict=True)
        )
        return Scores(present, absent)


def _pair() -> Pair:
    """Two opposite nodes, joined or not, beside ten others without edges."""
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((_NODES, 4)).astype(np.float32))
    x[1] = -x[0]
    return Pair.without_edge(small_graph([(0, 1)], x, torch.arange(_NODES) % 3), 0, 1)


def _trained(graph: Graph) -> Release:
    return train(graph, _METHOD, noise=0.0, delta=_DELTA, unit=Unit.EDGE, seed=0, compute=_QUIET)


def _served(parent: Release, graph: Graph, seed: int) -> Release:
    return infer(parent, graph, epsilon=_EPSILON, delta=_DELTA, seed=seed, compute=_QUIET)


def _nearer(known: Sequence[Tensor], parent: Release, graph: Graph, seeds: Floats) -> Floats:
    """By how much the weights of each served release are nearer to those that the edge makes, [k]."""
    found = [_weights(_served(parent, graph, int(seed)).state) for seed in seeds]
    return np.array([float(torch.dist(seen, known[1]) - torch.dist(seen, known[0])) for seen in found])


def _weights(state: State) -> Tensor:
    """What a release keeps of its training, flat."""
    return torch.cat([part.flatten() for name, part in state.items() if name.startswith("head")])
