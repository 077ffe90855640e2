"""Induced arcs: both ways of finding them, loops, overlaps."""

from __future__ import annotations

import numpy as np
import pytest

from blocks_of import graph_of, random_adj, require_valid
from graphveil.data.arcs import Csr
from graphveil.errors import InvalidInput
from graphveil.nn.sampling.blocks import induce, require_centres


@pytest.mark.parametrize("density", [0.02, 0.2, 0.9])
def test_arcs_are_those_of_the_graph_in_any_order_of_overlapping_nodes(density: float) -> None:
    rng = np.random.default_rng(0)
    adj = random_adj(1, density=density)
    parts = [rng.permutation(40)[: rng.integers(1, 41)] for _ in range(60)]
    ptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    require_valid(induce(adj, np.concatenate(parts), ptr), adj, induced=True)


def test_self_loops_are_left_to_the_model() -> None:
    adj = Csr.from_edge_index(np.array([0, 1, 1]), np.array([0, 0, 1]), 2)
    for nodes in ([0, 1], [1, 0]):
        block = induce(adj, np.array(nodes), np.array([0, 2]))
        assert len(block.indices) == 1


@pytest.mark.parametrize("centres", [[1, 1], [2, 1], [-1, 1], [0, 9]])
def test_bad_centres_are_refused(centres: list[int]) -> None:
    with pytest.raises(InvalidInput, match="centres"):
        require_centres(graph_of(np.zeros((3, 3), dtype=bool)), np.array(centres))
