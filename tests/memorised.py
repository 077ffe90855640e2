"""Small targets for membership attacks: models that learnt their nodes by heart, and ones that never saw them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from communities import communities
from graphveil import methods
from graphveil.auditing.attacks.parts.membership import AttackContext, answers
from graphveil.auditing.game import Target
from graphveil.data.graph import Graph
from graphveil.vocabulary import Unit

SAGE = methods.Sage(hidden=32, epochs=60, dropout=0.0, weight_decay=0.0, scale="none")


@lru_cache
def heart() -> Target:
    """GraphSAGE without dropout on 60 of 240 nodes whose features say little: it remembers them."""
    graph = communities(240, 0, width=40, lift=1.0).random_split(0.25, 0.0, 0.75, seed=0)
    return Target(graph, SAGE, Unit.NODE, noise=0.0)


def never_seen(scene: AttackContext) -> AttackContext:
    """The same, but asked of a model that was made of other people: nothing of these nodes can be in it."""
    others = communities(240, 1, width=40, lift=1.0).random_split(0.25, 0.0, 0.75, seed=0)
    release = replace(scene.target, graph=others, seed=5).release()
    return replace(scene, release=release, posteriors=answers(release, scene.graph, 5))


@lru_cache
def strangers(seed: int = 0) -> Graph:
    """80 private nodes with a public graph of 400 beside them, few edges, and features that say little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 480)
    links = np.triu(rng.random((480, 480)) < np.where(y[:, None] == y, 0.012, 0.002), 1)
    x = rng.standard_normal((480, 40)) + np.eye(40)[y]
    return Graph.from_scipy(sp.csr_array((links | links.T).astype(float)), x, y).split_public(80, 200, 200, seed=0)
