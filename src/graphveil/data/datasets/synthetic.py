"""A generated social network: communities, a few very connected people, noisy profiles."""

from __future__ import annotations

import numpy as np
import torch

from graphveil.checks import require_positive
from graphveil.data.arcs import Csr, Ids
from graphveil.data.datasets.source import Generated
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Floats

TAIL = 2.5
"""Exponent of the Pareto law of sociability: degrees are heavy-tailed but their mean is finite."""

NOISE = 0.66
"""Spread of a profile around its community's: alone it gives the community in about two cases of three."""


def social(
    num_nodes: int = 3000,
    num_classes: int = 4,
    num_features: int = 32,
    average_degree: float = 12.0,
    homophily: float = 0.7,
    seed: int = 0,
) -> Graph:
    """A degree-corrected stochastic block model with Gaussian features, without a split.

    An edge starts at a node drawn by sociability, stays in its class with probability `homophily` and ends
    at a node drawn by sociability. Loops and repeats are dropped, so the mean degree is slightly lower.
    """
    _check(num_nodes, num_classes, num_features, average_degree, homophily)
    rng = np.random.Generator(np.random.PCG64(seed))
    y = rng.permutation(np.arange(num_nodes) % num_classes)
    sources, targets = _draw_edges(y, num_classes, round(num_nodes * average_degree / 2), homophily, rng)
    centres = rng.standard_normal((num_classes, num_features))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    x = rng.standard_normal((num_nodes, num_features), dtype=np.float32) * np.float32(NOISE)
    x += centres.astype(np.float32)[y]
    none = torch.zeros(num_nodes, dtype=torch.bool)
    adj = both_ways(sources, targets, num_nodes)
    labels = torch.from_numpy(y.astype(np.int64))
    parts = (torch.from_numpy(x), adj, labels, num_classes, True, none, none, none)
    return Graph(*parts, "social", "none", every_id_present=True)


def _check(nodes: int, classes: int, features: int, degree: float, homophily: float) -> None:
    if not (2 <= classes <= nodes and features >= 1):
        raise InvalidInput(
            f"need 2 <= num_classes <= num_nodes and num_features >= 1, got {classes}, {nodes}, {features}"
        )
    if require_positive(degree, "average_degree") > (nodes - 1) / 2:
        raise InvalidInput(f"average_degree {degree} is too dense for {nodes} nodes; stay below half of them")
    if not 0 <= homophily <= 1:
        raise InvalidInput(f"homophily is a probability, got {homophily}")


def _draw_edges(y: Ids, classes: int, count: int, homophily: float, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Both ends of `count` edges, int64 [count] each."""
    sociability = rng.pareto(TAIL, len(y)) + 1
    by_class = np.argsort(y, kind="stable")
    starts = np.concatenate([[0.0], np.cumsum(sociability[by_class])])
    borders = starts[np.concatenate([[0], np.cumsum(np.bincount(y, minlength=classes))])]
    # The order of the edges is free, and sorted spots are found several times faster.
    sources = by_class[pick(starts, np.sort(rng.random(count)) * starts[-1])]
    leaves = rng.random(count) >= homophily
    shift = rng.integers(1, classes, count)
    goal = np.where(leaves, (y[sources] + shift) % classes, y[sources])
    spot = borders[goal] + rng.random(count) * (borders[goal + 1] - borders[goal])
    return sources, by_class[pick(starts, spot)]


def pick(starts: Floats, spots: Floats) -> Ids:
    """Which of the consecutive intervals [starts[i], starts[i + 1]) holds each spot."""
    return np.minimum(np.searchsorted(starts, spots, side="right") - 1, len(starts) - 2)


def both_ways(sources: Ids, targets: Ids, num_nodes: int) -> Csr:
    """Both arcs of every edge, without loops and repeats."""
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    keys = np.sort((low * num_nodes + high)[low != high])
    low, high = np.divmod(keys[np.diff(keys, prepend=-1) > 0], num_nodes)
    return Csr.from_edge_index(np.r_[low, high], np.r_[high, low], num_nodes)


SOURCES = {
    "social": Generated(
        origin="synthetic social network",
        nodes=3_000,
        edges=17_785,
        splits=("random", "per_class"),
        make=social,
    )
}
