"""GCN without privacy (Kipf & Welling 2017): what the edges are worth when nobody is protected."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from graphveil.data.arcs import Csr
from graphveil.methods.baseline.parts.exposed_gnn import ExposedGnn
from graphveil.nn.aggregate import Operator
from graphveil.nn.gnn import GcnLayer, symmetric_operator


@dataclass(frozen=True)
class Gcn(ExposedGnn):
    """X' = relu(A_hat X W), A_hat with self-loops and symmetric normalisation."""

    subtitle = "graph convolutional network, without privacy"

    def layer(self) -> type[nn.Module]:
        return GcnLayer

    def operator(self, adj: Csr) -> Operator:
        return symmetric_operator(adj)
