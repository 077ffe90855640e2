"""Loopy belief propagation (Pearl 1988; Murphy, Weiss & Jordan 1999) on class labels: scores of neighbours add up.

Every node starts from its own class posterior; along every arc j -> i the message is the log of how much more likely
each class of i is, given what j believes without i's own message:
    m_ji(a) = log sum_b ratio[a, b] softmax(b_j - m_ij)(b),   b_i = u_i + sum_j m_ji,
with ratio[a, b] = P(centre a, neighbour b) / (P(a) P(b)). Hand-written: libraries offer it for general factor graphs
only, an edge at a time.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import log_softmax, softmax

from graphveil.data.arcs import Csr, Ids
from graphveil.vocabulary import Floats

_SMALLEST_CHANCE = 1e-9
"""A message never rules a class out: ratios are estimates."""
_MATCHING = 5
"""Rounds in which class offsets are fitted to the prior; they settle in three or four."""


def propagate(own: Floats, visible_arcs: Csr, joint: Floats, shares: Floats, rounds: int) -> Floats:
    """Beliefs [n, c] after `rounds` of messages.

    own: log posteriors [n, c]; joint: P(class of a node, class of whom it hears) [c, c]; shares: P(class) [c]. After
    every round class offsets bring the mean belief to `shares`: loopy messages count the same evidence twice, and the
    largest class would swallow the others.
    """
    if visible_arcs.num_arcs == 0:
        return own
    ratio = joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))
    sources = visible_arcs.indices
    back = _opposite(visible_arcs)
    collect = sp.csr_array((np.ones(len(sources)), np.arange(len(sources)), visible_arcs.indptr))
    start = _matched(own, shares)
    beliefs, messages = start, np.zeros((len(sources), own.shape[1]))
    for _ in range(rounds):
        said = np.where(back[:, None] >= 0, messages[back], 0.0)
        messages = np.log(np.maximum(softmax(beliefs[sources] - said, axis=1) @ ratio.T, _SMALLEST_CHANCE))
        beliefs = _matched(start + collect @ messages, shares)
    return beliefs


def _opposite(visible_arcs: Csr) -> Ids:
    """The place of the arc i -> j for every arc j -> i, or -1 where there is none, int64 [m]."""
    size = np.int64(visible_arcs.num_nodes)
    # Rows ascend and so do the sources within a row: keys are sorted.
    keys = visible_arcs.targets() * size + visible_arcs.indices
    wanted = visible_arcs.indices * size + visible_arcs.targets()
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def _matched(beliefs: Floats, shares: Floats) -> Floats:
    """Beliefs plus class offsets that make their mean over the nodes equal to `shares` [c]."""
    for _ in range(_MATCHING):
        beliefs = beliefs + np.log(shares) - np.log(np.maximum(softmax(beliefs, axis=1).mean(axis=0), _SMALLEST_CHANCE))
    return np.asarray(log_softmax(beliefs, axis=1))
