"""Products by table lookup are products."""

from __future__ import annotations

import numpy as np
import pytest

from graphveil.nn.bits import BLOCK, packed, product


@pytest.mark.parametrize(
    ("count", "columns", "hidden"), [(1, 1, 1), (5, 8, 3), (30, 64, 16), (17, 65, 4), (40, 767, 8)]
)
def test_bits_multiply_like_the_dense_matrix(count: int, columns: int, hidden: int) -> None:
    rng = np.random.default_rng(columns)
    ones = rng.random((count, columns)) < 0.4
    rows = rng.normal(size=(columns, hidden)).astype(np.float32)
    table = np.full((256 * BLOCK, hidden), np.nan, np.float32)
    out = np.empty((count, hidden), np.float32)
    product(packed(ones), rows, table, out)
    assert np.allclose(out, ones @ rows, atol=1e-4)


def test_bits_are_padded_to_whole_blocks() -> None:
    assert packed(np.ones((3, 65), dtype=bool)).shape == (3, 2 * BLOCK)
    assert packed(np.ones((0, 9), dtype=bool)).shape == (0, BLOCK)
