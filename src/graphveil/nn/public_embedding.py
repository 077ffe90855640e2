"""A few coordinates for nodes of both graphs, learnt from the public graph without a label.

Public nodes are seen in context: features averaged over two hops and cut to their leading directions. A private node is
seen alone, because the nodes around it must not speak for it: a linear map guesses from its features what the context
of a public node like it would be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.nn.features import Scale, Scaling, unit_rows
from graphveil.vocabulary import Floats, State

_HOPS = 2
_RIDGE = 0.3
"""Penalty of the map, in mean variances of a feature."""
_WHITENED = 0.5
"""Directions are divided by their deviation to this power: 0 leaves them, 1 makes all equally long."""
_SMALLEST_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class PublicEmbedding:
    """Unit rows for nodes: of a public graph's in `context`, of any other node's `alone`.

    With Z the scaled public features less their mean and S = (D + I)^-1 (A + I), the context is R = S^2 Z. V holds the
    p leading eigenvectors of R^T R, each divided by (its standard deviation)^(1/2): context R V, and the map
        M = argmin |Z M - R V|^2 + ridge |M|^2,    alone(x) = (scaled x - mean) M.
    mean: [d]; directions: V, [d, p]; into: M, [d, p].
    """

    scaling: Scaling
    mean: Tensor
    directions: Tensor
    into: Tensor

    @classmethod
    def of(cls, x: Tensor, adj: Csr, width: int = 32, scale: Scale | str = Scale.ROWS) -> PublicEmbedding:
        """Learnt from public features x [m, d] and arcs; `scale` is fitted to x."""
        scaling = Scaling.fit(x, scale)
        scaled = scaling(x)
        mean = scaled.mean(dim=0)
        own = (scaled - mean).numpy().astype(np.float64)
        around = _surroundings(adj, own)
        directions = _directions(around, width)
        gram = own.T @ own / len(own)
        gram[np.diag_indices_from(gram)] += _RIDGE * max(float(np.trace(gram)) / len(gram), _SMALLEST_SHARE)
        into = scipy.linalg.solve(gram, own.T @ (around @ directions) / len(own), assume_a="pos")
        return cls(scaling, mean, _float(directions), _float(into))

    @property
    def width(self) -> int:
        """p."""
        return self.directions.shape[1]

    def context(self, x: Tensor, adj: Csr) -> Tensor:
        """Unit rows of the nodes of a graph, seen with two hops around them, [m, p]."""
        short = (self.scaling(x) - self.mean) @ self.directions
        return unit_rows(_float(_surroundings(adj, short.numpy())))

    def alone(self, x: Tensor) -> Tensor:
        """Unit rows of nodes that are seen by their features x [k, d] alone, [k, p]. Row by row: none moves another."""
        return unit_rows((self.scaling(x) - self.mean) @ self.into)

    def state(self) -> State:
        """To be released with what was learnt on it."""
        parts = {"view.mean": self.mean, "view.directions": self.directions, "view.into": self.into}
        return parts | dict(self.scaling.state())

    @classmethod
    def restore(cls, state: State, scale: Scale | str = Scale.ROWS) -> PublicEmbedding:
        """Inverse of `state`."""
        scaling = Scaling.restore(state, scale)
        return cls(scaling, state["view.mean"], state["view.directions"], state["view.into"])


def learnt_view(public: Public, width: int, scale: str) -> PublicEmbedding:
    """The view of the public graph beside a private one, made once for many runs."""
    public_graph = public.require_public_graph()
    return public.cache_public(
        f"view {width} {scale}", lambda: PublicEmbedding.of(public_graph.x, public_graph.adj, width, scale)
    )


def _surroundings(adj: Csr, rows: Floats) -> Floats:
    """S^2 rows, [m, k]."""
    looped = sp.csr_array(adj.to_scipy().astype(np.float64) + sp.eye_array(adj.num_nodes, format="csr"))
    step = sp.csr_array(sp.diags_array(1 / looped.sum(axis=1)) @ looped)
    for _ in range(_HOPS):
        rows = step @ rows
    return rows


def _directions(context: Floats, width: int) -> Floats:
    """V, [d, p]."""
    moments = context.T @ context / len(context)
    kept = min(width, len(moments))
    values, vectors = scipy.linalg.eigh(moments, subset_by_index=[len(moments) - kept, len(moments) - 1])
    values, vectors = values[::-1], vectors[:, ::-1]
    some = values > _SMALLEST_SHARE * max(values[0], _SMALLEST_SHARE)
    # An eigenvector has no sign of its own: the largest entry is made positive.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(kept)])
    scaled: Floats = (vectors * signs * np.maximum(values, _SMALLEST_SHARE) ** (-_WHITENED / 2))[:, some]
    return scaled if some.any() else vectors[:, :1]


def _float(array: Floats) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
