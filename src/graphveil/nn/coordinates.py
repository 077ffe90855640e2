"""Nodes as rows of a few coordinates: features averaged over hops, and the shape of the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.graph.arcs import Csr
from graphveil.nn.aggregate import Operator
from graphveil.nn.features import Scale, Scaling, unit_rows
from graphveil.nn.gnn import walk_operator

_KEPT = 128
"""Directions that are kept of the features at each hop."""
_SPECTRAL = 64
"""Coordinates of the shape of a graph."""
_TURNS = 24
"""Rounds of subspace iteration; what has not settled by then hardly differs in its eigenvalue."""
_SPECTRAL_LENGTH = 0.7
"""Of these coordinates, beside 1 for the features at a hop."""
_POWER = 0.8
"""Directions keep this power of their standard deviation: 1 leaves them, 0 makes all equally long."""
_CONSTANT = 0.5
"""The coordinate that counts nodes, beside rows of mean square length 1."""
_WHOLE = 0.8
"""Share of the rows that keep their length; longer ones are cut, which costs less than making all of them shorter."""
_FEW = 64
"""Features up to which their lengths are kept beside their directions."""
_LARGEST = 1e12
_SMALL = 1e-9


def scalings(x: Tensor) -> tuple[Scaling, ...]:
    """Directions of rows; beside them, where features are few, every column as it is."""
    ways = (Scale.SHIFTED, Scale.COLUMNS) if x.shape[1] <= _FEW else (Scale.SHIFTED,)
    x = _bounded(x) if len(x) else x.new_zeros(1, x.shape[1])
    return tuple(Scaling.fit(x, how) for how in ways)


def scaled(x: Tensor, scaling: tuple[Scaling, ...]) -> Tensor:
    """[n, d] or [n, 2 d], one record at a time."""
    return torch.cat([one(_bounded(x)) for one in scaling], dim=1)


def _bounded(x: Tensor) -> Tensor:
    """Entries whose squares can be added up in float32: a record that overflowed would move everything."""
    return x.clamp(min=-_LARGEST, max=_LARGEST)


@dataclass(frozen=True, eq=False)
class Axes:
    """Rows -> (rows - mean) @ axes, one row at a time; mean: [d]; axes: [d, p]. Learnt from public rows."""

    mean: Tensor
    axes: Tensor

    @classmethod
    def leading(cls, rows: Tensor, width: int = _KEPT, power: float = 1.0) -> Axes:
        """The `width` leading directions of `rows` [m, d], each scaled to its deviation^power, mean square length 1."""
        mean = rows.mean(dim=0) if len(rows) else rows.new_zeros(rows.shape[1])
        centred, width = rows - mean, min(width, *rows.shape)
        if rows.shape[1] > 4 * width:
            _, lengths, axes = torch.svd_lowrank(centred, q=width, niter=3)
        else:
            values, vectors = torch.linalg.eigh(centred.T @ centred)
            lengths, axes = values.flip(0)[:width].clamp(min=0).sqrt(), vectors.flip(1)[:, :width]
        some = lengths > 1e-4 * lengths[:1].clamp(min=_SMALL) if width else lengths > 0
        axes = axes[:, some] * (lengths[some] / lengths[some].max()) ** (power - 1) if bool(some.any()) else axes[:, :0]
        length = (centred @ axes).square().sum(dim=1).mean().sqrt() if axes.shape[1] else rows.new_ones(())
        return cls(mean, axes / length.clamp(min=_SMALL))

    def __call__(self, rows: Tensor) -> Tensor:
        """[k, p]."""
        moved: Tensor = (rows - self.mean) @ self.axes
        return moved


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of length at most 1 with a last one that counts: (axes(row), 1/2), over `cut` or what is longer."""

    axes: Axes
    cut: float

    @classmethod
    def of(cls, rows: Tensor, width: int) -> Frame:
        """Learnt from public rows [m, d]."""
        axes = Axes.leading(rows.double(), width, _POWER)
        lengths = torch.linalg.vector_norm(_counted(axes(rows.double())), dim=1)
        return cls(axes, float(lengths.quantile(_WHOLE)) if len(rows) else 1.0)

    def __call__(self, rows: Tensor) -> Tensor:
        """Float64 [k, p + 1]. Row by row: none moves another."""
        told = _counted(self.axes(rows.double()))
        # Rounding must not make a row longer than 1.
        lengths: Tensor = torch.linalg.vector_norm(told, dim=1, keepdim=True) * (1 + _SMALL)
        bounded: Tensor = told / lengths.clamp(min=self.cut)
        return bounded


def _counted(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_full((len(rows), 1), _CONSTANT)], dim=1)


def smoothed(x: Tensor, adj: Csr, hops: int) -> list[Tensor]:
    """S x, S^2 x, ... with S = D^-1/2 (A + I) D^-1/2, [n, d] each."""
    looped = sp.csr_array(adj.to_scipy() + sp.eye_array(adj.num_nodes, dtype=np.float32, format="csr"))
    scale = sp.diags_array((np.diff(looped.indptr) ** -0.5).astype(np.float32))
    step, found = Operator.of(sp.csr_array(scale @ looped @ scale)), [x]
    for _ in range(hops):
        found.append(step @ found[-1])
    return found[1:]


def hop_means(x: Tensor, known: Tensor, adj: Csr, hops: int) -> list[Tensor]:
    """Features averaged over the nodes 1, 2, ... hops away whose features are known, [n, d] each.

    x: [n, d]; known: bool [n]. A node's own features are in none of the first two.
    """
    mean = mean_of_neighbours(adj)
    reach = Operator.of(mean)
    # What comes back after two hops.
    back = torch.from_numpy(np.asarray(mean.multiply(mean.T).sum(axis=1), dtype=np.float32))[:, None]
    weight = known.float()[:, None]
    own = torch.cat([x * weight, weight], dim=1)
    here, found = own, []
    for hop in range(hops):
        here = reach @ here
        if hop == 1:
            here = here - back * own
        found.append(here[:, :-1] / here[:, -1:].clamp(min=1e-3))
    return found


def spectral_rows(adj: Csr) -> Tensor:
    """Up to 64 leading eigenvectors of D^-1/2 A D^-1/2 as rows of one length: nodes that short walks join are close."""
    return unit_rows(_leading_vectors(adj, _SPECTRAL)) * _SPECTRAL_LENGTH


def _leading_vectors(adj: Csr, count: int) -> Tensor:
    """Orthonormal columns [n, count] by subspace iteration; scipy's solvers take minutes where values are repeated."""
    walk = walk_operator(adj)
    basis = torch.linalg.qr(torch.randn(adj.num_nodes, min(count, adj.num_nodes)))[0]
    for _ in range(_TURNS):
        # Half a step: eigenvalues in [0, 1], so that those near -1 do not come first.
        basis = torch.linalg.qr(walk @ basis + basis)[0]
    settled: Tensor = basis
    return settled


def look_random(x: Tensor, adj: Csr) -> bool:
    """Whether edges look like drawn at random: they join nodes regardless of features x [n, d], and form no groups.

    Judged by two numbers, each against graphs in which every node keeps its degree and gets other neighbours: how far
    features go with the mean of the neighbours' (|x^T D^-1 A x|), and how large the leading eigenvalues are.
    """
    if adj.num_arcs < _FEWEST * adj.num_nodes:
        return True
    rows = Axes.leading(x, 32)(x)
    real = _goes_together(rows, adj)
    others = [_rewired(adj) for _ in range(_OTHERS)]
    chance = torch.tensor([_goes_together(rows, other) for other in others])
    if real > float(chance.mean()) + _FAR * float(chance.std()):
        return False
    grouped = torch.stack([_grouped(other) for other in others[:2]]).amax(dim=0)
    return bool((_grouped(adj) < _MORE * grouped).all())


def alike_if_linked(x: Tensor, adj: Csr) -> float:
    """Chance that the features x [n, d] of linked nodes are more alike, by their angle, than those of two others.

    Of some arcs, drawn by a fixed seed: the answer belongs to the graph.
    """
    chance = torch.Generator().manual_seed(0)
    drawn = torch.randperm(adj.num_arcs, generator=chance)[:_PAIRS]
    targets, sources = torch.from_numpy(adj.targets())[drawn], torch.from_numpy(adj.indices.astype(np.int64))[drawn]
    others = torch.randint(max(adj.num_nodes, 1), (len(drawn),), generator=chance)
    rows = unit_rows(x - x.mean(dim=0))
    linked, other = ((rows[targets] * rows[ends]).sum(dim=1) for ends in (sources, others))
    return float((linked > other).double().mean()) if len(drawn) else 0.5


_PAIRS = 20_000
_FEWEST = 0.25
"""Arcs a node, below which edges tell too little to be worth a coordinate."""
_OTHERS = 5
_FAR = 6.0
"""Standard deviations beyond chance."""
_MORE = 1.1


def _goes_together(rows: Tensor, adj: Csr) -> float:
    return float(torch.linalg.matrix_norm(rows.T @ (Operator.of(mean_of_neighbours(adj)) @ rows)))


def _rewired(adj: Csr) -> Csr:
    """Every node keeps its degree, as far as arcs do not fall together, and gets other neighbours."""
    targets = torch.from_numpy(adj.targets()).numpy()
    shuffled = targets[torch.randperm(len(targets)).numpy()]
    apart = targets != shuffled
    pairs = np.unique(np.sort(np.stack([targets[apart], shuffled[apart]]), axis=0), axis=1)
    # Every undirected edge was there twice, and each of its ends has met another end.
    pairs = pairs[:, torch.randperm(pairs.shape[1]).numpy()[: pairs.shape[1] // 2 or 1]]
    sources, ends = np.concatenate([pairs, pairs[::-1]], axis=1)
    return Csr.from_edge_index(sources, ends, adj.num_nodes)


def _grouped(adj: Csr) -> Tensor:
    """Sums of the 1, 2, ... leading eigenvalues of D^-1/2 A D^-1/2, but for the first, which says nothing.

    In a few groups only the first sums tell: those of chance have many eigenvalues that are hardly smaller.
    """
    walk, basis = walk_operator(adj), _leading_vectors(adj, 16)
    values = torch.linalg.eigvalsh(basis.T @ (walk @ basis))
    sums: Tensor = values.flip(0)[1:].clamp(min=0).cumsum(dim=0)
    return sums


def both_ways(adj: Csr) -> Csr:
    """The same links without a direction."""
    if adj.is_symmetric():
        return adj
    joined = sp.coo_array(adj.to_scipy() + adj.to_scipy().T)
    targets, sources = joined.coords
    return Csr.from_edge_index(sources.astype(np.int64), targets.astype(np.int64), adj.num_nodes)


def mean_of_neighbours(adj: Csr) -> sp.csr_array:
    """D^-1 A, [n, n]; the row of a node without neighbours is 0."""
    factors = (1 / np.maximum(np.diff(adj.indptr), 1)).astype(np.float32)
    return sp.csr_array(sp.diags_array(factors) @ adj.to_scipy())
