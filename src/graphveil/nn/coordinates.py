"""Nodes as rows of a few coordinates: features averaged over hops, and the shape of the graph.

Of many nodes (`rows.WHOLE`) features are read block by block, fewer directions of them are sent over hops, and what
comes back is held once, in 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.nn.aggregate import COLUMNS, Operator, Walk, mean_matrix
from graphveil.nn.features import Scale, Scaling, unit_rows
from graphveil.nn.gnn import walk_operator
from graphveil.nn.rows import RowMap, Rows, blocks, column_means, gram, in_blocks, many, summed, whole
from graphveil.runtime.compute import HERE, Run

_KEPT = 128
"""Directions that are kept of the features at each hop."""
_SENT = 64
"""Directions of the features of many nodes that are sent over hops."""
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
_CPU = torch.device("cpu")
_LARGEST = 1e12
_SMALL = 1e-9


def scalings(x: Rows, block: int | None = None) -> tuple[Scaling, ...]:
    """Directions of rows; beside them, where features are few, every column as it is."""
    ways = (Scale.SHIFTED, Scale.COLUMNS) if x.shape[1] <= _FEW else (Scale.SHIFTED,)
    bounded = whole(RowMap(x, _bounded, x.shape[1])) if x.shape[0] else x[:0].new_zeros(1, x.shape[1])
    return tuple(Scaling.fit(bounded, how, block) for how in ways)


def scaled(x: Tensor, scaling: tuple[Scaling, ...]) -> Tensor:
    """[n, d] or [n, 2 d], one record at a time."""
    return torch.cat([one(_bounded(x)) for one in scaling], dim=1)


def scaled_rows(x: Rows, scaling: tuple[Scaling, ...]) -> Rows:
    """The same of all rows, made as they are read if they are many."""
    return whole(RowMap(x, lambda some: scaled(some, scaling), x.shape[1] * len(scaling)))


def _bounded(x: Tensor) -> Tensor:
    """Entries whose squares can be added up in float32: a record that overflowed would move everything."""
    return x.clamp(min=-_LARGEST, max=_LARGEST)


@dataclass(frozen=True, eq=False)
class Axes:
    """Rows -> (rows - mean) @ axes, one row at a time; mean: [d]; axes: [d, p]. Learnt from public rows."""

    mean: Tensor
    axes: Tensor

    @property
    def width(self) -> int:
        """p."""
        return self.axes.shape[1]

    @classmethod
    def leading(cls, rows: Rows, width: int = _KEPT, power: float = 1.0, block: int | None = None) -> Axes:
        """The `width` leading directions of `rows` [m, d], each scaled to its deviation^power, mean square length 1."""
        if many(rows.shape[0]):
            return cls._of_many(rows, width, power, block)
        rows = rows[:]
        mean = rows.mean(dim=0) if len(rows) else rows.new_zeros(rows.shape[1])
        centred, width = rows - mean, min(width, *rows.shape)
        if rows.shape[1] > 4 * width:
            # By a processor, as those below: what it draws, and signs, are then the same wherever a run is.
            _, lengths, axes = (part.to(rows.device) for part in torch.svd_lowrank(centred.cpu(), q=width, niter=3))
        else:
            values, vectors = _eigenvectors(centred.T @ centred)
            lengths, axes = values.flip(0)[:width].clamp(min=0).sqrt(), vectors.flip(1)[:, :width]
        some = lengths > 1e-4 * lengths[:1].clamp(min=_SMALL) if width else lengths > 0
        axes = axes[:, some] * (lengths[some] / lengths[some].max()) ** (power - 1) if bool(some.any()) else axes[:, :0]
        length = (centred @ axes).square().sum(dim=1).mean().sqrt() if axes.shape[1] else rows.new_ones(())
        return cls(mean, axes / length.clamp(min=_SMALL))

    @classmethod
    def _of_many(cls, rows: Rows, width: int, power: float, block: int | None) -> Axes:
        """The same from moments that are summed block by block in float64."""
        (count, columns), mean = rows.shape, column_means(rows, block).double()
        centred = RowMap(rows, lambda some: some.double() - mean, columns)
        width = min(width, columns)
        if columns > 4 * width:
            # Subspace iteration: moments of all columns would take longer.
            basis = torch.linalg.qr(torch.randn(columns, width, dtype=torch.float64).to(mean.device))[0]
            for _ in range(_PASSES):
                basis = torch.linalg.qr(summed(count, partial(_turned, centred, basis), block))[0]
            small = gram(RowMap(centred, lambda some: some @ basis, width), block)
        else:
            basis, small = torch.eye(columns, dtype=torch.float64, device=mean.device), gram(centred, block)
        values, vectors = _eigenvectors(small)
        squares = values.flip(0)[:width].clamp(min=0)
        some = squares > 1e-8 * squares[:1].clamp(min=_SMALL**2)
        squares, axes = squares[some], (basis @ vectors.flip(1)[:, :width])[:, some]
        factors = (squares / squares.max()) ** ((power - 1) / 2) if len(squares) else squares
        length = (squares @ factors.square() / count).sqrt().clamp(min=_SMALL)
        kind = torch.promote_types(rows[:0].dtype, torch.float32)
        return cls(mean.to(kind), (axes * factors / length).to(kind))

    def __call__(self, rows: Tensor) -> Tensor:
        """[k, p]."""
        moved: Tensor = (rows.to(self.mean.dtype) - self.mean) @ self.axes
        return moved

    def of(self, rows: Rows) -> Rows:
        """All rows, [n, p], made as they are read if they are many."""
        return whole(RowMap(rows, self, self.width))


_PASSES = 4
"""Looks at many rows for the subspace of their leading directions."""


def _turned(rows: Rows, basis: Tensor, part: slice) -> Tensor:
    """R^T R basis, [d, p], of a part of the rows."""
    some = rows[part]
    return some.T @ (some @ basis)


def _eigenvectors(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending eigenvalues [d] and eigenvectors [d, d]."""
    values, vectors = torch.linalg.eigh(moments.cpu())
    return values.to(moments.device), vectors.to(moments.device)


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of length at most 1 with a last one that counts: (axes(row), 1/2), over `cut` or what is longer."""

    axes: Axes
    cut: float

    @classmethod
    def of(cls, rows: Rows, width: int, block: int | None = None) -> Frame:
        """Learnt from public rows [m, d]."""
        precise = RowMap(rows, lambda some: some.double(), rows.shape[1])
        axes = Axes.leading(precise, width, _POWER, block)

        def length(part: slice) -> Tensor:
            found: Tensor = torch.linalg.vector_norm(_with_constant(axes(precise[part])), dim=1)
            return found

        lengths = in_blocks(rows.shape[0], length, block)
        return cls(axes, quantile(lengths, _WHOLE) if len(lengths) else 1.0)

    @property
    def width(self) -> int:
        """p + 1."""
        return self.axes.width + 1

    def rows(self, rows: Rows) -> Rows:
        """Those of all rows, made as they are read if they are many."""
        return whole(RowMap(rows, self, self.width))

    def __call__(self, rows: Tensor) -> Tensor:
        """Float64 [k, p + 1]. Row by row: none moves another."""
        augmented = _with_constant(self.axes(rows.double()))
        # Rounding must not make a row longer than 1.
        lengths: Tensor = torch.linalg.vector_norm(augmented, dim=1, keepdim=True) * (1 + _SMALL)
        bounded: Tensor = augmented / lengths.clamp(min=self.cut)
        return bounded


def _with_constant(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_full((len(rows), 1), _CONSTANT)], dim=1)


def quantile(values: Tensor, share: float) -> float:
    """The value below which a share of `values` [m] lies; torch's refuses many."""
    if not many(len(values)):
        return float(values.quantile(share))
    return float(values.kthvalue(max(round(share * len(values)), 1)).values)


def condensed(rows: Rows, block: int | None = None) -> Tensor:
    """The leading directions of many rows, as few as are sent over hops, in 16 bits, [n, p]."""
    axes = Axes.leading(rows, _SENT, block=block)
    return in_blocks(rows.shape[0], lambda part: axes(rows[part]).clamp(-_MAX_HALF, _MAX_HALF).half(), block)


_MAX_HALF = 6e4
"""The largest numbers of 16 bits are a little larger."""


def by_columns(x: Tensor, hops: int, how: Callable[[Tensor], list[Tensor]]) -> list[Tensor]:
    """`how` of x [n, d], which makes one matrix a hop, [n, d] each, column by column; of many nodes in 16 bits."""
    if not many(len(x)):
        return how(x)
    found = [torch.empty_like(x) for _ in range(hops)]
    for part in blocks(x.shape[1], COLUMNS):
        for whole_hop, columns in zip(found, how(x[:, part].float()), strict=True):
            whole_hop[:, part] = columns
    return found


def smoothed(x: Tensor, adj: Csr, hops: int) -> list[Tensor]:
    """S x, S^2 x, ... with S = D^-1/2 (A + I) D^-1/2, [n, d] each."""
    step, found = _smoothing(adj), [x]
    for _ in range(hops):
        found.append(step @ found[-1])
    return found[1:]


def _smoothing(adj: Csr) -> Operator | Walk:
    """S."""
    if many(adj.num_nodes):
        factors = 1 / np.sqrt(adj.in_degrees() + 1.0)
        return Walk(adj, factors, factors, loops=True)
    looped = sp.csr_array(adj.to_scipy() + sp.eye_array(adj.num_nodes, dtype=np.float32, format="csr"))
    scale = sp.diags_array((np.diff(looped.indptr) ** -0.5).astype(np.float32))
    return Operator.of(sp.csr_array(scale @ looped @ scale))


def hop_means(x: Tensor, known: Tensor, adj: Csr, hops: int) -> list[Tensor]:
    """Features averaged over the nodes 1, 2, ... hops away whose features are known, [n, d] each.

    x: [n, d]; known: bool [n]. A node's own features are in none of the first two.
    """
    reach, back = averaging(adj, x.device)
    weight = known.float()[:, None]
    own = torch.cat([x * weight, weight], dim=1)
    here, found = own, []
    for hop in range(hops):
        here = reach @ here
        if hop == 1:
            here = here - back * own
        found.append(here[:, :-1] / here[:, -1:].clamp(min=1e-3))
    return found


def averaging(adj: Csr, device: torch.device = _CPU) -> tuple[Operator | Walk, Tensor]:
    """D^-1 A, by which rows are multiplied, and how much of a row comes back after two hops, float32 [n, 1]."""
    if not many(adj.num_nodes):
        mean = mean_matrix(adj)
        back = np.asarray(mean.multiply(mean.T).sum(axis=1), dtype=np.float32)
        return Operator.of(mean), torch.from_numpy(back).to(device)[:, None]
    shares = 1 / np.maximum(adj.in_degrees(), 1)
    reach = Walk(adj, np.empty(0), shares)
    return reach, reach @ torch.tensor(shares, dtype=torch.float32, device=device)[:, None]


def spectral_rows(adj: Csr, run: Run = HERE) -> Tensor:
    """Up to 64 leading eigenvectors of D^-1/2 A D^-1/2 as rows of one length: nodes that short walks join are close."""
    if not many(adj.num_nodes):
        return unit_rows(_leading_vectors(adj, _SPECTRAL).to(run.device)) * _SPECTRAL_LENGTH
    basis = _leading_of_many(adj, min(_SPECTRAL, adj.num_nodes), run)
    return in_blocks(adj.num_nodes, lambda part: (unit_rows(basis[part]) * _SPECTRAL_LENGTH).half(), run.block)


def _leading_of_many(adj: Csr, count: int, run: Run) -> Tensor:
    """The same in place, a few columns of all nodes at a time: nothing but the result is held whole."""
    factors = 1 / np.sqrt(np.maximum(adj.in_degrees(), 1.0))
    walk, basis = Walk(adj, factors, factors), torch.randn(adj.num_nodes, count).to(run.device)
    for _ in range(_TURNS):
        for part in blocks(count, COLUMNS):
            basis[:, part] += walk @ basis[:, part].contiguous()
        moments = gram(RowMap(basis, lambda some: some.double(), count), run.block).cpu() / adj.num_nodes
        # Q = B R^-1 with R^T R = B^T B: columns of mean square 1, as long as they were drawn.
        moments.diagonal().add_(_SMALL)
        turn = torch.linalg.inv(torch.linalg.cholesky(moments).T).float().to(basis.device)
        for part in blocks(adj.num_nodes, run.block):
            basis[part] = basis[part] @ turn
    return basis


def _leading_vectors(adj: Csr, count: int) -> Tensor:
    """Orthonormal columns [n, count] by subspace iteration; scipy's solvers take minutes where values are repeated."""
    walk = walk_operator(adj)
    # By a processor: where many vectors have one eigenvalue, rounding decides among them, and is the same everywhere.
    basis: Tensor = torch.linalg.qr(torch.randn(adj.num_nodes, min(count, adj.num_nodes)))[0]
    for _ in range(_TURNS):
        # Half a step: eigenvalues in [0, 1], so that those near -1 do not come first.
        basis = torch.linalg.qr(walk @ basis + basis)[0]
    return basis


def room_of_rows(nodes: int, features: int, hops: int) -> tuple[int, int, int]:
    """(entries of a node's coordinates, bytes that are held of a node, bytes of a node in a block).

    Features as they are and scaled, those sent over so many hops, and the shape of the graph with what it is made of.
    """
    scaled_width = 2 * features if features <= _FEW else features
    if not many(nodes):
        width = (1 + hops) * min(scaled_width, _KEPT) + _SPECTRAL
        return width, 4 * ((2 + hops) * scaled_width + 2 * width), 8 * width
    sent = min(scaled_width, _SENT)
    width = min(scaled_width, _KEPT) + hops * sent + _SPECTRAL
    return width, 2 * ((1 + hops) * sent + _SPECTRAL) + 4 * _SPECTRAL, 4 * (2 * scaled_width + width) + 8 * width


def look_random(x: Rows, adj: Csr) -> bool:
    """Whether edges look random: they join nodes regardless of their features x [n, d], and form no groups.

    Two numbers are compared with graphs in which every node keeps its degree and gets other neighbours: how far
    features correlate with the mean of the neighbours' (|x^T D^-1 A x|), and how large the leading eigenvalues are.
    """
    if adj.num_arcs < _FEWEST * adj.num_nodes:
        return True
    if many(adj.num_nodes):
        # Among many nodes uninformative coordinates cost little, and rewiring all arcs takes long.
        return False
    rows = Axes.leading(x, 32)(x[:])
    real = _correlation(rows, adj)
    others = [_rewired(adj) for _ in range(_OTHERS)]
    random = torch.tensor([_correlation(rows, other) for other in others], device="cpu")
    if real > float(random.mean()) + _FAR * float(random.std()):
        return False
    grouped = torch.stack([_leading_sums(other) for other in others[:2]]).amax(dim=0)
    return bool((_leading_sums(adj) < _MORE * grouped).all())


def alike_if_linked(x: Rows, adj: Csr, block: int | None = None) -> float:
    """Share of links whose ends have more similar features x [n, d], by their angle, than one end and a random node.

    Of some arcs, drawn by a fixed seed: the answer belongs to the graph.
    """
    generator = torch.Generator().manual_seed(0)
    if not many(adj.num_nodes):
        drawn = torch.randperm(adj.num_arcs, generator=generator)[:_PAIRS].cpu().numpy()
    else:
        drawn = torch.randint(max(adj.num_arcs, 1), (_PAIRS,), generator=generator)[: adj.num_arcs].cpu().numpy()
    where, mean = x[:0].device, column_means(x, block)
    targets = torch.from_numpy(np.searchsorted(adj.indptr, drawn, side="right") - 1).to(where)
    sources = torch.from_numpy(adj.indices[drawn]).to(where)
    others = torch.randint(max(adj.num_nodes, 1), (len(drawn),), generator=generator).to(where)
    own, linked, other = (unit_rows(x[ends] - mean) for ends in (targets, sources, others))
    closer = (own * linked).sum(dim=1) > (own * other).sum(dim=1)
    return float(closer.double().mean()) if len(drawn) else 0.5


_PAIRS = 20_000
_FEWEST = 0.25
"""Arcs per node, below which edges carry too little information to be worth a coordinate."""
_OTHERS = 5
_FAR = 6.0
"""Standard deviations above random graphs."""
_MORE = 1.1


def _correlation(rows: Tensor, adj: Csr) -> float:
    return float(torch.linalg.matrix_norm(rows.T @ (Operator.of(mean_matrix(adj)) @ rows)))


def _rewired(adj: Csr) -> Csr:
    """Every node keeps its degree, as far as arcs do not fall together, and gets other neighbours."""
    targets = torch.from_numpy(adj.targets()).numpy()
    shuffled = targets[torch.randperm(len(targets)).cpu().numpy()]
    apart = targets != shuffled
    pairs = np.unique(np.sort(np.stack([targets[apart], shuffled[apart]]), axis=0), axis=1)
    # Every undirected edge was there twice, and each of its ends has met another end.
    pairs = pairs[:, torch.randperm(pairs.shape[1]).cpu().numpy()[: pairs.shape[1] // 2 or 1]]
    sources, ends = np.concatenate([pairs, pairs[::-1]], axis=1)
    return Csr.from_edge_index(sources, ends, adj.num_nodes)


def _leading_sums(adj: Csr) -> Tensor:
    """Sums of the 1, 2, ... leading eigenvalues of D^-1/2 A D^-1/2, without the first, which is always 1.

    With few groups only the first sums stand out: random graphs have many eigenvalues that are hardly smaller.
    """
    walk, basis = walk_operator(adj), _leading_vectors(adj, 16)
    values = torch.linalg.eigvalsh(basis.T @ (walk @ basis))
    sums: Tensor = values.flip(0)[1:].clamp(min=0).cumsum(dim=0)
    return sums


def both_ways(adj: Csr) -> Csr:
    """The same links without a direction."""
    if adj.is_symmetric():
        return adj
    joined = sp.csr_array(adj.to_scipy() + adj.to_scipy().T)
    joined.sort_indices()
    return Csr(joined.indptr.astype(np.int64), joined.indices.astype(np.int64))
