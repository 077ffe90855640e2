"""Noise on the singular values of the adjacency matrix, and none on its singular vectors (Eclipse, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.sparse.linalg
import torch

from graphveil.checks import require_cost, require_whole
from graphveil.errors import InvalidInput
from graphveil.mechanisms.unprotected import ExposedCurve
from graphveil.vocabulary import Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor

    from graphveil.data.arcs import Csr
    from graphveil.vocabulary import Floats


@dataclass(frozen=True)
class SingularValues(Mechanism):
    """Query: `query(sealed) -> Csr`, symmetric. Releases U, V [n, rank] and s + N(0, std^2) as float64 [2n + 1, rank].

    A ~ U diag(s) V^T is the best approximation of rank `rank`. The vectors leave as they are: nothing is protected.
    """

    std: float
    rank: int

    def __post_init__(self) -> None:
        require_cost(self.std, "std")
        require_whole(self, "rank")
        if self.rank < 1:
            raise InvalidInput(f"rank must be at least 1, got {self.rank}")

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        values, vectors = leading(query(sealed), self.rank)
        noisy = source.add_gaussian(torch.from_numpy(np.abs(values)), self.std, unit=1.0).double()
        left = torch.from_numpy(vectors)
        return torch.cat([left, left * torch.from_numpy(np.sign(values)), noisy[None, :]])

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        # The vectors carry no noise: only the graph that was asked spans them.
        size = (len(answer) - 1) // 2
        released = answer[:size].numpy()
        released = released @ released.T
        here_, there_ = (vectors @ vectors.T for _, vectors in (leading(query(s), self.rank) for s in (here, there)))
        return float(np.linalg.norm(released - there_) - np.linalg.norm(released - here_))

    def curve(self, sensitivity: float) -> ExposedCurve:  # noqa: ARG002
        """Infinite: an edge can be read off the vectors (docs/methods/eclipse.md)."""
        return ExposedCurve()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(1.0, 2),)


def leading(adj: Csr, rank: int) -> tuple[Floats, Floats]:
    """The eigenvalues [r] of largest magnitude and their vectors [n, r], r = min(rank, n)."""
    matrix, size = adj.to_scipy().astype(np.float64), adj.num_nodes
    if not adj.num_arcs:
        return np.zeros(min(rank, size)), np.eye(size, min(rank, size))
    if 2 * rank < size and size > 64:
        # A fixed start makes it a function of the graph.
        values, vectors = scipy.sparse.linalg.eigsh(matrix, k=rank, which="LM", v0=np.ones(size))
    else:
        values, vectors = np.linalg.eigh(matrix.toarray())
    order = np.argsort(-np.abs(values), kind="stable")[:rank]
    return values[order], np.ascontiguousarray(vectors[:, order])
