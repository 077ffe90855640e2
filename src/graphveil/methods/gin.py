"""GIN without privacy (Xu et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from graphveil.arcs import Csr
from graphveil.nn.aggregate import Operator
from graphveil.nn.exposed import ExposedGnn
from graphveil.nn.gnn import GinLayer, sum_operator


@dataclass(frozen=True)
class Gin(ExposedGnn):
    """X' = MLP((1 + lambda) X + A X)."""

    layer = GinLayer

    def operator(self, adj: Csr) -> Operator:
        return sum_operator(adj)
