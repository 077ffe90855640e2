"""The sound claim of a growing graph in court: one edge's whole life costs what one release costs.

Two streams of five periods differ in one edge, which arrives in the first, vanishes and comes back; its ends are
counted in different periods. The attacker knows everything else and weighs all that was told by its exact likelihood.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphveil.auditing.bounds import Scores
from graphveil.auditing.stream_game import Moment, released_counts, stream_plan
from graphveil.data.arcs import Ids
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil_lab.court.case import Case, Verdict

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where journals of games lie: they sync every write, and nobody pulls the plug here."""


@dataclass(frozen=True, eq=False)
class Lifetime(Case):
    """All periods of a stream together are charged as one release of `hearsay`; expected to stand.

    `drawn` is the share of the noise that is drawn: less than all of it must be caught.
    """

    name: str = "stream-edge"
    claim: str = "all periods of a growing graph hide an edge that came, vanished and came back"
    source: str = "docs/streams.md"
    delta: float = 0.05
    runs: int = 500
    quick: int = 8
    expected: Verdict = "consistent"
    noise: float = 1.0
    undirected: bool = True
    drawn: float = 1.0

    def claimed(self) -> float:
        return accounting.epsilon(stream_plan(streams()[0][0], self.undirected, self.noise), self.delta)

    def play(self, runs: int, seed: int) -> Scores:
        noise, seeds = self.drawn * self.noise, np.random.default_rng(seed).integers(2**62, size=(2, runs))
        with tempfile.TemporaryDirectory(dir=MEMORY) as place:
            exact = [
                released_counts(Path(place, f"exact-{at}"), each, self.undirected, 0.0, Seeded(0))
                for at, each in _both()
            ]
            worlds = []
            for at, each in _both():
                homes = (Path(place, f"{at}-{run}") for run in range(runs))
                answers = (
                    released_counts(home, each, self.undirected, noise, Seeded(int(one)))
                    for home, one in zip(homes, seeds[at], strict=True)
                )
                worlds.append(np.array([likelier(heard, exact, noise) for heard in answers]))
        return Scores(*worlds)


def _both() -> list[tuple[int, list[Moment]]]:
    return list(enumerate(streams()))


def likelier(heard: Sequence[Ids], exact: Sequence[Sequence[Ids]], noise: float) -> float:
    """By how much, as a logarithm, all answers are likelier where the edge is: sums of |x - b| - |x - a|, by noise."""
    parts = zip(heard, *exact, strict=True)
    return float(sum((abs(x - without) - abs(x - with_)).sum() for x, with_, without in parts)) / noise


def streams() -> tuple[list[Moment], list[Moment]]:
    """Two neighbours, with and without the edge (0, 1)."""
    life, others = (True, False, True, True, True), frozenset({(1, 2), (2, 3)})
    rows = ((0, 2), (0, 1, 2, 3), (0, 3), (1, 2), (0, 1, 2, 3))
    said = ((0, 1, 0, 1), (0, 1, 0, 1), (1, 1, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0))
    parts = list(zip(life, rows, said, strict=True))
    present = [Moment(others | {(0, 1)} if there else others, some, words) for there, some, words in parts]
    return present, [Moment(others, some, words) for _, some, words in parts]
