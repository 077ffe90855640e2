"""A view is learnt from public data, sees private rows one by one, and comes back from its state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.nn.public_embedding import PublicEmbedding


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social(300, 3, 12, 6.0)


@pytest.mark.parametrize("scale", ["rows", "columns", "shifted"])
def test_rows_have_length_one_and_the_state_gives_the_view_back(graph: Graph, scale: str) -> None:
    view = PublicEmbedding.of(graph.x, graph.adj, 5, scale)
    again = PublicEmbedding.restore(view.state(), scale)
    for one, other in (
        (view.context(graph.x, graph.adj), again.context(graph.x, graph.adj)),
        (view.alone(graph.x), again.alone(graph.x)),
    ):
        assert one.shape == (300, view.width)
        assert torch.allclose(one.norm(dim=1), torch.ones(300), atol=1e-5)
        assert torch.equal(one, other)


def test_a_row_seen_alone_does_not_depend_on_the_others(graph: Graph) -> None:
    view = PublicEmbedding.of(graph.x, graph.adj, 5)
    assert torch.allclose(view.alone(graph.x)[:7], view.alone(graph.x[:7]), atol=1e-6)


def test_features_alone_tell_much_of_the_context(graph: Graph) -> None:
    view = PublicEmbedding.of(graph.x, graph.adj, 5)
    likeness = (view.alone(graph.x) * view.context(graph.x, graph.adj)).sum(dim=1)
    assert float(likeness.mean()) > 0.4


@pytest.mark.parametrize("x", [torch.ones(4, 3), torch.zeros(4, 3), torch.eye(4)[:, :1], torch.eye(4)])
def test_poor_features_give_a_finite_view(x: Tensor) -> None:
    view = PublicEmbedding.of(x.contiguous(), Csr.empty(4), 8)
    assert 1 <= view.width <= 8
    assert bool(view.alone(x).isfinite().all())
    assert bool(view.context(x, Csr.empty(4)).isfinite().all())


def test_the_same_graph_gives_the_same_view(graph: Graph) -> None:
    one, other = (PublicEmbedding.of(graph.x, graph.adj, 4) for _ in range(2))
    assert all(torch.equal(a, other.state()[name]) for name, a in one.state().items())
    assert np.isfinite(one.directions.numpy()).all()
