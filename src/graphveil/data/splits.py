"""Dealing ids out to the parts of a split, by a seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphveil.checks import require_seed
from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput


def first_of_each_class(y: NDArray[np.int64], num_classes: int, order: Ids, count: int) -> NDArray[np.bool_]:
    """Which of the labelled nodes `order`, int64 [k], are among the first `count` of their class in y, bool [k]."""
    labels = y[order]
    counts = np.bincount(labels, minlength=num_classes)
    if counts.min() < count:
        scarce = int(counts.argmin())
        raise InvalidInput(f"class {scarce} has {counts[scarce]} labelled nodes, fewer than {count}")
    by_class = np.argsort(labels, kind="stable")
    starts = np.cumsum(counts) - counts
    chosen = np.zeros(len(order), dtype=bool)
    chosen[by_class[(starts[:, None] + np.arange(count)).ravel()]] = True
    return chosen


def shuffled(ids: Ids, seed: int) -> Ids:
    return generator(seed).permutation(ids)


def exchange_sides(ours: Ids, asked: Ids, scored: Ids, rng: np.random.Generator) -> tuple[Ids, Ids, Ids]:
    """Private, query and test ids of two graphs in each other's place; of the public one the same share is tested."""
    tested = round(len(ours) * len(scored) / (len(asked) + len(scored)))
    if not 0 < tested < len(ours):
        raise InvalidInput(f"a public graph of {len(ours)} nodes is too small to ask and to test; draw more")
    # Shuffled: the rare classes of a balanced draw stand at its end.
    public = rng.permutation(ours)
    return np.concatenate([asked, scored]), public[tested:], public[:tested]


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(require_seed(seed)))
