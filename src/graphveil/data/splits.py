"""Random splits of ids by a seed: functions of ids and labels, which `Graph` turns into masks and subgraphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphveil.checks import require_seed
from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput
from graphveil.vocabulary import ROLES, UNLABELLED

NOBODY: Ids = np.empty(0, np.int64)


class Split(NamedTuple):
    """Disjoint ids, int64 [k] each, how they were drawn, in words, and whether labels were read to draw them."""

    train: Ids
    val: Ids = NOBODY
    test: Ids = NOBODY
    how: str = ""
    reads_labels: bool = False


def all_train(num_nodes: int) -> Split:
    """Every id trains."""
    return Split(np.arange(num_nodes), how="all train")


def random_split(y: Ids, train: float, val: float, test: float, seed: int) -> Split:
    """All ids in these fractions, labelled or not."""
    fractions = (train, val, test)
    for role, fraction in zip(ROLES, fractions, strict=True):
        if not 0 <= fraction <= 1:
            raise InvalidInput(f"the {role} fraction must lie in 0..1, got {fraction}")
    if sum(fractions) > 1 + 1e-9:
        raise InvalidInput(f"the fractions {train}, {val}, {test} add up to more than 1")
    order = _generator(seed).permutation(len(y))
    sizes = [round(fraction * len(order)) for fraction in fractions]
    ours, validating, testing = np.split(order[: sum(sizes)], np.cumsum(sizes)[:2])
    if not (y[ours] != UNLABELLED).any():
        raise InvalidInput(f"a train fraction of {train} leaves no labelled node for training")
    return Split(ours, validating, testing, f"random({train:g},{val:g},{test:g},seed={seed})")


def per_class_split(y: Ids, num_classes: int, per_class: int, val: int, test: int, seed: int) -> Split:
    """`per_class` training ids of every class, then `val` and `test` other labelled ids."""
    if per_class < 1 or val < 0 or test < 0:
        raise InvalidInput(f"sizes must be positive, got per_class={per_class}, val={val}, test={test}")
    order = _generator(seed).permutation(np.flatnonzero(y != UNLABELLED))
    chosen = _first_of_each_class(y, num_classes, order, per_class)
    rest = order[~chosen]
    if len(rest) < val + test:
        raise InvalidInput(f"{len(rest)} labelled nodes are left after training; ask for fewer than {val} + {test}")
    how = f"per_class({per_class},{val},{test},seed={seed})"
    return Split(order[chosen], rest[:val], rest[val : val + test], how, reads_labels=True)


def two_graphs(
    y: Ids, num_classes: int, private: int, queries: int, test: int, seed: int, balanced: bool, exchanged: bool
) -> tuple[Split, Split]:
    """Ids of a private graph, which train, and of a public one: queries in `train`, scored ones in `test`."""
    sizes = {"private": private, "query": queries, "test": test}
    if min(sizes.values()) < 1 or sum(sizes.values()) > len(y):
        wanted = ", ".join(f"{size} {role}" for role, size in sizes.items())
        raise InvalidInput(f"cannot draw {wanted} nodes from {len(y)}; each needs at least one")
    rng = _generator(seed)
    order = rng.permutation(len(y))
    if balanced:
        if private % max(num_classes, 1):
            raise InvalidInput(f"{private} private nodes cannot be shared equally among {num_classes} classes")
        known = order[y[order] != UNLABELLED]
        ours = known[_first_of_each_class(y, num_classes, known, private // num_classes)]
        # Shuffled again: what the first of every class left of the rare ones stands at the end.
        order = np.concatenate([ours, rng.permutation(np.setdiff1d(order, ours))])
    ours, queried, scored = np.split(order[: private + queries + test], [private, private + queries])
    if exchanged:
        ours, queried, scored = _exchanged(ours, queried, scored, rng)
    if not (y[ours] != UNLABELLED).any():
        raise InvalidInput(f"none of the {len(ours)} private nodes has a label; draw more")
    how = f"two_graphs({private}{' balanced' * balanced},{queries},{test}{',exchanged' * exchanged},seed={seed})"
    return Split(ours, how=how, reads_labels=balanced), Split(queried, test=scored, how=how)


def _exchanged(ours: Ids, queried: Ids, scored: Ids, rng: np.random.Generator) -> tuple[Ids, Ids, Ids]:
    """Private, query and test ids of two graphs in each other's place; of the public one the same share is tested."""
    tested = round(len(ours) * len(scored) / (len(queried) + len(scored)))
    if not 0 < tested < len(ours):
        raise InvalidInput(f"a public graph of {len(ours)} nodes is too small to ask and to test; draw more")
    # Shuffled: the rare classes of a balanced draw stand at its end.
    public = rng.permutation(ours)
    return np.concatenate([queried, scored]), public[tested:], public[:tested]


def _first_of_each_class(y: Ids, num_classes: int, order: Ids, count: int) -> NDArray[np.bool_]:
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


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(require_seed(seed)))
