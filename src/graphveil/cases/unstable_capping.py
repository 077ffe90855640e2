"""Degrees are capped by keeping K random arcs of those that are present (as by GAP at node level)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphveil.arcs import Csr
from graphveil.bounds import Scores
from graphveil.core import Floats
from graphveil.court import Case, as_charged
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.sampling.bounded import cap_out_arcs, most_occurrences

_CAP, _SENDERS = 1, 100
_MOVED = 2 * most_occurrences(_CAP, 1)
"""Published: so many subgraphs hold the node, and in each a clipped gradient leaves and another one enters."""


@dataclass(frozen=True, eq=False)
class UnstableCapping(Case):
    """A new hub changes which other arcs its in-neighbours keep, and so subgraphs in which it never occurs.

    100 nodes send to one centre each. A hub that all of them send to as well takes half of their places, if every node
    keeps K = 1 of its arcs at random: half of the centres hear nobody any more. The sum of what centres say (+1 if they
    hear somebody, -1 if not: one clip) moves by about 100, where the claim counts the 1 + K subgraphs that hold the
    hub, two clips each. No rule that caps by present arcs can do better: docs/sampling.md.
    """

    name: str = "unstable-capping"
    claim: str = "with K random arcs kept per node, a node moves the 1 + K subgraphs in which it occurs; K = 1"
    source: str = "GAP's degree bound with the occurrence count of Daigavane et al. (2021)"
    delta: float = 0.05
    runs: int = 1000
    quick: int = 200

    def claimed(self) -> float:
        # Full batch, noise as large as the claimed move: mu = 1.
        return as_charged(GaussianCurve(1.0), 1, self.delta)

    def play(self, runs: int, seed: int) -> Scores:
        rng = np.random.default_rng(seed)
        senders = np.arange(_SENDERS)
        centres, hub = senders + _SENDERS, np.full(_SENDERS, 2 * _SENDERS)
        without = Csr.from_edge_index(senders, centres, 2 * _SENDERS + 1)
        hubbed = Csr.from_edge_index(np.tile(senders, 2), np.concatenate([centres, hub]), 2 * _SENDERS + 1)
        # A high score says that the hub is there.
        return Scores(-_noisy_sums(hubbed, runs, rng), -_noisy_sums(without, runs, rng))


def _noisy_sums(adj: Csr, runs: int, rng: np.random.Generator) -> Floats:
    seeds = rng.integers(2**62, size=runs)
    kept = (cap_out_arcs(adj, _CAP, int(seed)).in_degrees()[_SENDERS : 2 * _SENDERS] for seed in seeds)
    sums = np.array([np.where(heard > 0, 1.0, -1.0).sum() for heard in kept])
    return np.asarray(sums + _MOVED * rng.standard_normal(runs))
