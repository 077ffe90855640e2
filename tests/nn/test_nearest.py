"""The nearest nodes are the nearest, and ties are settled by id."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphveil.nn.nearest import nearest


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 40), st.booleans())
def test_nearest_is_a_sort_by_distance_and_then_id(seed: int, nodes: int, count: int, binary: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(2, size=(nodes, 3)) if binary else rng.normal(size=(nodes, 3))
    rows, point = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(x[0].astype(np.float32))
    sampled = rng.permutation(nodes)[: rng.integers(nodes + 1)]
    far = {int(i): float(((rows[i].double() - point.double()) ** 2).sum()) for i in sampled}
    wanted = sorted(sorted(far, key=lambda i: (far[i], i))[:count])
    assert nearest(rows, sampled, point, count).tolist() == wanted


def test_a_node_that_was_not_sampled_is_never_read() -> None:
    rows = torch.tensor([[0.0], [1.0], [5.0], [2.0]])
    sampled = np.array([3, 2, 1])
    found = nearest(rows, sampled, torch.zeros(1), 2)
    rows[0] = torch.nan
    assert np.array_equal(nearest(rows, sampled, torch.zeros(1), 2), found)
    assert found.tolist() == [1, 3]
