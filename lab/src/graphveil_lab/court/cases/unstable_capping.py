"""Degrees are capped by keeping K random arcs of those that are present (as by GAP at node level)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphveil.auditing.bounds import Scores
from graphveil.data.arcs import Csr
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.nn.sampling.bounded import cap_out_arcs
from graphveil.vocabulary import Floats
from graphveil_lab.court.case import Case, as_charged

_CAP, _SENDERS = 1, 100
_MOVED = math.sqrt(_CAP)
"""Published: a node has K out-arcs, so it moves K rows of the sum, by one clip each."""


@dataclass(frozen=True, eq=False)
class UnstableCapping(Case):
    """A new hub changes which other arcs its in-neighbours keep, and so rows that it never adds to.

    100 nodes send to one centre each, which hears a row of length 1. A hub that all of them send to as well takes half
    of their places, if every node keeps K = 1 of its out-arcs at random: about 50 rows of the sum move by 1, where
    sqrt(K) = 1 is charged for all of them. No rule that caps by present arcs can do better: docs/sampling.md.
    """

    name: str = "unstable-capping"
    claim: str = "where every node keeps K random out-arcs, a node moves a hop by sqrt(K) clips at most; K = 1"
    source: str = "GAP (2023), node level: out-degrees bounded by sampling, as its program does and charges it"
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
    kept = [int(cap_out_arcs(adj, _CAP, int(seed)).in_degrees()[_SENDERS : 2 * _SENDERS].sum()) for seed in seeds]
    # One number of noise for every centre's row; their sum is all that the score reads.
    return np.asarray(kept + _MOVED * math.sqrt(_SENDERS) * rng.standard_normal(runs))
