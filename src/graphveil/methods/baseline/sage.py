"""GraphSAGE with mean aggregation, without privacy (Hamilton et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from graphveil.data.arcs import Csr
from graphveil.methods.baseline.parts.exposed_gnn import ExposedGnn
from graphveil.nn.aggregate import Operator
from graphveil.nn.gnn import SageLayer, mean_operator


@dataclass(frozen=True)
class Sage(ExposedGnn):
    """X' = relu(X W_own + mean over neighbours(X) W_near)."""

    subtitle = "GraphSAGE with mean aggregation, without privacy"

    def layer(self) -> type[nn.Module]:
        return SageLayer

    def operator(self, adj: Csr) -> Operator:
        return mean_operator(adj)
