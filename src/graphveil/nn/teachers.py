"""Teachers of PrivGNN (Olatunji et al., TMLR 2023, Algorithm 1): each answers one public query.

A teacher sees the private nodes that were chosen for its query, the arcs among them, and the public graph; nothing
else of the private graph. Its random numbers come from a public seed and the query's id, so its answer does not depend
on other queries or on what happened before.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numba
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.checks import require_positive
from graphveil.data.arcs import Csr, Ids
from graphveil.nn.aggregate import mean_matrix
from graphveil.nn.public_embedding import PublicEmbedding
from graphveil.nn.sage_teacher import Array, SageRecipe, SageTeacher, TeacherStart
from graphveil.runtime.engine import one_thread
from graphveil.vocabulary import Floats


@dataclass(frozen=True, eq=False)
class Known:
    """The private graph as teachers read it. x: [n, d]; y: int64 [n], -1 where unlabelled."""

    x: Tensor
    y: Tensor
    adj: Csr
    classes: int


class Teacher(Protocol):
    """Answers queries about public nodes from chosen private ones."""

    def answers(self, known: Known, chosen: Sequence[Ids], asked: Ids, seed: int) -> Tensor:
        """A posterior for every query, float64 [q, c]: entries of at least 0 that sum to 1.

        chosen: for every query the private nodes it may read, int64 [k_i] ascending; asked: public nodes, int64 [q].
        A query without a chosen labelled node is answered 1/c.
        """
        ...


def vertices(posteriors: Tensor) -> Tensor:
    """The nearest vertex of the simplex to every row [q, c]: all of a teacher's weight on its first choice.

    A noisy argmax costs the same for every function into the simplex, because its worst case is two vertices. With
    Gumbel noise of scale 1/lambda the first choice is released with odds e^{lambda (p_1 - p_j)} : 1 against j, and
    p_1 - p_j is largest, 1, at the vertex. So a vertex is answered best wherever the first choice is the best guess.
    Rows without a first choice, all entries equal, stay as they are.
    """
    best = torch.nn.functional.one_hot(posteriors.argmax(dim=1), posteriors.shape[1]).to(posteriors.dtype)
    even = posteriors.amax(dim=1, keepdim=True) == posteriors.amin(dim=1, keepdim=True)
    return torch.where(even, posteriors, best)


@dataclass(frozen=True, eq=False)
class VotingTeachers:
    """The light teacher: chosen nodes vote for their own class, the more the nearer they are to the query.

        posterior_k  ~  sum over chosen i of class k of e^{(cos(alone(x_i), seen_q) - 1) / temperature}

    in the coordinates of a public embedding. No training and no private arcs: twenty nodes can vote.
    x: public, [m, d]; adj: public arcs.
    """

    view: PublicEmbedding
    x: Tensor
    adj: Csr
    temperature: float = 0.1

    def __post_init__(self) -> None:
        require_positive(self.temperature, "temperature")

    def answers(self, known: Known, chosen: Sequence[Ids], asked: Ids, seed: int) -> Tensor:  # noqa: ARG002
        """See `Teacher`; nothing is random."""
        scores = np.full((len(asked), known.classes), 1 / known.classes)
        labels, seen = known.y.numpy(), self._seen
        for i, ids in enumerate(ids[labels[ids] >= 0] for ids in chosen):
            if len(ids):
                # One query at a time: a product rounds by its shape, and other queries' nodes must not show in it.
                alone = self.view.alone(known.x[torch.from_numpy(ids)]).numpy().astype(np.float64)
                cosines = alone @ seen[asked[i]]
                weights = np.exp((cosines - cosines.max()) / self.temperature)
                scores[i] = np.bincount(labels[ids], weights, known.classes) / weights.sum()
        return torch.from_numpy(scores)

    @cached_property
    def _seen(self) -> Floats:
        return self.view.context(self.x, self.adj).numpy().astype(np.float64)


@dataclass(frozen=True, eq=False)
class SageTeachers:
    """One two-layer GraphSAGE per query, trained on the arcs among its chosen nodes (Algorithm 1, lines 5-7).

    The query is answered inside its public neighbourhood (section 3.1.2). x: public, [m, d]; adj: public arcs.
    """

    x: Tensor
    adj: Csr
    recipe: SageRecipe = field(default_factory=SageRecipe)

    def answers(self, known: Known, chosen: Sequence[Ids], asked: Ids, seed: int) -> Tensor:
        """See `Teacher`."""

        def answer(node: int, ids: Ids) -> Floats:
            if not bool((labels[ids] >= 0).any()):
                return np.full(known.classes, 1 / known.classes)
            start = TeacherStart.draw(seed, node, known.x.shape[1], known.classes, self.recipe)
            teacher = SageTeacher.trained(known.x, known.y, known.adj, ids, start, self.recipe)
            return teacher.posterior(*self._surroundings(node))

        labels, threads = known.y.numpy(), numba.get_num_threads()
        # Compiled passes and matrix products let other threads run; each teacher computes on one, to the same bits.
        with one_thread(), ThreadPoolExecutor(threads) as pool:
            scores = list(pool.map(answer, asked.tolist(), chosen))
        return torch.from_numpy(np.stack(scores)) if scores else torch.empty(0, known.classes, dtype=torch.float64)

    def _surroundings(self, node: int) -> tuple[Array, Array]:
        """Features of a public node and its in-neighbours, [1 + k, d], and the means of the in-neighbours of each."""
        rows = np.concatenate([[node], self.adj.indices[self.adj.indptr[node] : self.adj.indptr[node + 1]]])
        return self.x.numpy()[rows], self._means[rows] @ self.x.numpy()

    @cached_property
    def _means(self) -> sp.csr_array:
        return mean_matrix(self.adj)
