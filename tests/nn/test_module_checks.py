"""What the check on made-up subgraphs lets through, and what it refuses by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphveil.errors import InvalidInput, Unsupported
from graphveil.nn.module_checks import require_independent, require_rows
from graphveil.nn.own_network import OwnNetwork
from own_modules import FRIENDLY, HOSTILE, Gat, LateCache, Mixer, PooledGcn, RowsOnly, SageAttention


@pytest.mark.parametrize("make", FRIENDLY.values(), ids=FRIENDLY)
def test_ordinary_networks_pass(make: Any) -> None:
    before = torch.get_rng_state()
    require_independent(OwnNetwork.of(make), 4, 3)
    assert torch.equal(torch.get_rng_state(), before), "the check must not use up the run's chance"


@pytest.mark.parametrize(("make", "culprit"), HOSTILE.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_networks_that_keep_or_read_other_subgraphs_are_refused_by_name(make: Any, culprit: str) -> None:
    with pytest.raises(Unsupported) as refused:
        require_independent(OwnNetwork.of(make), 4, 3)
    assert culprit in str(refused.value)
    assert "GraphNorm" in str(refused.value)


def test_two_classes_of_one_name_are_two() -> None:
    def made(layer: type[nn.Module]) -> Any:
        class Net(nn.Module):
            def __init__(self, features: int, classes: int) -> None:
                super().__init__()
                self.norm, self.lin = layer(features), nn.Linear(features, classes)

            def forward(self, x: Tensor) -> Tensor:
                return self.lin(self.norm(x))

        return Net

    require_independent(OwnNetwork.of(made(nn.LayerNorm)), 4, 3)
    with pytest.raises(Unsupported, match="BatchNorm1d"):
        require_independent(OwnNetwork.of(made(nn.BatchNorm1d)), 4, 3)


def test_the_check_cannot_see_everything() -> None:
    """A cache that wakes up late passes: the engine sees to it (test_own_gradients.py)."""
    require_independent(OwnNetwork.of(LateCache), 4, 3)


class _Odd(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.lin = nn.Linear(features, classes)


class _Deviation(_Odd):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x / x.std(dim=0))


class _Fussy(_Odd):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x[[1]])


class _Narrow(_Odd):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x)[:, :2]


class _Deaf(_Odd):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x).detach()


class _Pair(_Odd):
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:  # noqa: ARG002
        return self.lin(x), x


class _Whole(_Odd):
    def forward(self, data: Any) -> Any:
        return self.lin(data.x)


class _Weighted(_Odd):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_Deviation, "NaN or infinity for a made-up subgraph of 1 node"),
        (_Fussy, "failed on a made-up subgraph of 1 node.*IndexError"),
        (_Narrow, r"gave \[1, 2\] for a subgraph of 1 nodes"),
        (_Deaf, "depend on none of its weights"),
        (_Pair, "gave tuple"),
        (_Whole, "write forward"),
        (_Weighted, "write forward"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_networks_that_cannot_be_used_say_why(make: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        require_independent(OwnNetwork.of(make), 4, 3)


def test_on_public_or_released_graphs_rows_may_be_mixed_and_every_node_needs_one() -> None:
    for make in (Gat, Mixer, RowsOnly):
        require_rows(OwnNetwork.of(make), 4, 3)
    for pooling in (PooledGcn, SageAttention):
        with pytest.raises(InvalidInput, match="a row of 3 scores for every node"):
            require_rows(OwnNetwork.of(pooling), 4, 3)
    with pytest.raises(InvalidInput, match="no arcs"):
        require_rows(OwnNetwork.of(Gat), 4, 3, rows_alone=True)
