"""GIN without privacy (Xu et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from graphveil.data.arcs import Csr
from graphveil.methods.baseline.parts.exposed_gnn import ExposedGnn
from graphveil.nn.aggregate import Operator
from graphveil.nn.gnn import GinLayer, sum_operator


@dataclass(frozen=True)
class Gin(ExposedGnn):
    """X' = MLP((1 + lambda) X + A X)."""

    subtitle = "graph isomorphism network, without privacy"

    def layer(self) -> type[nn.Module]:
        return GinLayer

    def operator(self, adj: Csr) -> Operator:
        return sum_operator(adj)
