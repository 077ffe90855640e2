"""Logits of all rows at once are those of every row taken for the centre."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from blocks_of import graph_of
from graphveil.nn.sampling.blocks import induce
from graphveil.nn.subgraph_model import Kind, SubgraphModel, logits, logits_at_rows, start


@pytest.mark.parametrize(("kind", "layers"), list(itertools.product(("gcn", "sage", "gin"), (1, 2))))
def test_every_row_is_answered_as_a_centre(kind: Kind, layers: int) -> None:
    rng, count = np.random.default_rng(0), 9
    adj = graph_of((rng.random((count, count)) < 0.3) & ~np.eye(count, dtype=bool))
    model = SubgraphModel(kind, layers, 5, "elu", 3, 4)
    weights = [torch.randn(part.shape, dtype=torch.float64) for part in start(model)]
    x = torch.randn(count, 4, dtype=torch.float64)
    ptr = np.array([0, count])
    together = logits_at_rows(model, weights, induce(adj, np.arange(count), ptr), x)
    for node in range(count):
        order = np.roll(np.arange(count), -node)
        alone = logits(model, weights, induce(adj, order, ptr), x[torch.from_numpy(order)])
        assert torch.allclose(together[node], alone[0])
