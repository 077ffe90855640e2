"""Some of the subgraphs of a block are the very subgraphs they were."""

from __future__ import annotations

import numpy as np

from blocks_of import random_adj, require_valid, views
from graphveil.nn.sampling.bounded import neighbourhoods
from graphveil.nn.sampling.walks import partition


def test_take_keeps_subgraphs_whole() -> None:
    adj = random_adj(3)
    for block in (partition(adj, 3, 2, seed=1), neighbourhoods(adj, np.arange(adj.num_nodes), 2)):
        rng = np.random.default_rng(2)
        which = rng.permutation(block.count)[: block.count // 2]
        part = block.take(which)
        require_valid(part, adj, induced=True)
        assert np.array_equal(part.centres, block.centres[which])
        whole = views(block)
        assert views(part) == {centre: whole[centre] for centre in part.centres.tolist()}


def test_take_nothing_and_everything() -> None:
    block = partition(random_adj(4), 2, seed=0)
    assert block.take(np.empty(0, np.int64)).count == 0
    same = block.take(np.arange(block.count))
    for name in ("nodes", "ptr", "indptr", "indices"):
        assert np.array_equal(getattr(same, name), getattr(block, name))
