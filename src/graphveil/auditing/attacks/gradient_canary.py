"""Gradient canaries (HeterPoisson, Algorithm 5, after Nasr et al. 2023): a record whose gradient is like no other's.

Algorithm 5 looks at the projection <g_t, g_c> of every noisy gradient on the canary's. For noise that is not Gaussian a
projection loses: the length of SML noise orthogonal to the canary reveals its scale. So an audit looks at the whole
vector; `projected` is there to show what the paper's own audit could not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from graphveil.auditing.attacks.star_hub import speaker, told_apart
from graphveil.auditing.game import Canary, Pair
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Sealed
from graphveil.errors import Unsupported
from graphveil.mechanisms.additive import Additive
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling, log_mixture
from graphveil.mechanisms.poisson import Poisson
from graphveil.vocabulary import Adjacency, Mechanism, Query, Unit


@dataclass(frozen=True)
class GradientCanary(Canary):
    """A lone training node with all its weight on the feature that others use least."""

    units = frozenset({Unit.NODE, Unit.FEATURES, Unit.LABEL})

    def pairs(self, graph: Graph, adjacency: Adjacency, seed: int) -> Sequence[Pair]:  # noqa: ARG002
        node = speaker(graph)
        others = torch.arange(graph.num_nodes) != node
        row = torch.zeros_like(graph.x[node])
        row[int(graph.x[others].abs().sum(dim=0).argmin())] = max(float(graph.x.norm(dim=1).max()), 1.0)
        x = graph.x.clone()
        x[node] = row
        alone = replace(graph, x=x, adj=_without(graph, node))
        quiet = replace(alone, x=x.masked_fill(others[:, None], 0.0), adj=Csr.empty(graph.num_nodes))
        found = (
            told_apart(quiet, node, adjacency, "a lone node with one feature, the others without features"),
            told_apart(alone, node, adjacency, "a lone node with a feature of its own"),
        )
        return [pair for pair in found if pair is not None]


@dataclass(frozen=True)
class _Projected:
    """What <g, g_c> is compared with: the law of the noise, the sum without the canary, and its moves by chance."""

    inner: Additive
    base: Tensor
    moves: list[tuple[float, Tensor]]


def projected(act: Mechanism, here: Sealed, there: Sealed, query: Query, answer: Tensor, uses: int | None) -> float:
    """Algorithm 5: the attacker who looks at <g, g_c> alone, in the best way that the law of this number allows."""
    if uses is not None:
        raise Unsupported("a projection is of one noisy sum at a time")
    seen = _seen(act, here, there, query)
    direction = sum((weight * move for weight, move in seen.moves), torch.zeros_like(seen.base))
    length = float(direction.norm())
    if length == 0:
        return 0.0
    rest = ((answer.double() - seen.base) * direction).sum() / length
    along = [(weight, ((move * direction).sum() / length)[None]) for weight, move in seen.moves]
    return log_mixture(seen.inner, rest[None], along)


def _seen(act: Mechanism, here: Sealed, there: Sealed, query: Query) -> _Projected:
    if isinstance(act, HeterPoissonSampling):
        return _Projected(act.inner, *act.moves(here, there, query))
    if isinstance(act, Poisson) and isinstance(act.inner, Additive):
        everybody = partial(query, batch=torch.arange(act.population))
        high, low = (act.inner.bounded(world, everybody).double() for world in (here, there))
        return _Projected(act.inner, act.rate * low, [(act.rate, high - low)])
    if isinstance(act, Additive):
        high, low = (act.bounded(world, query).double() for world in (here, there))
        return _Projected(act, low, [(1.0, high - low)])
    raise Unsupported(f"{type(act).__name__} releases no noisy sum to project")


def _without(graph: Graph, node: int) -> Csr:
    """The arcs that do not touch `node`."""
    kept = (graph.adj.indices != node) & (graph.adj.targets() != node)
    return Csr.from_edge_index(graph.adj.indices[kept], graph.adj.targets()[kept], graph.num_nodes)
