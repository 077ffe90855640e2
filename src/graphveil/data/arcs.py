"""Arcs: as the user listed them (`Arcs`, with errors that point at one), and packed by target (`Csr`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.data.lineage import GraphOrigin

Ids = NDArray[np.int64]
"""Node ids, or positions in an array of them."""


@dataclass(frozen=True)
class Arcs:
    """Arcs as the user listed them, and how errors name them.

    sources, targets: int64 [m]; names: what the user calls each node, [n].
    """

    sources: Ids
    targets: Ids
    num_nodes: int
    where: str
    names: Any = None

    @classmethod
    def none(cls, num_nodes: int) -> Arcs:
        """No arc among so many nodes."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), num_nodes, "edges row")

    @property
    def keys(self) -> Ids:
        """One number per arc, ordered by target and then source, int64 [m]."""
        return self.targets * self.num_nodes + self.sources

    def at(self, row: int) -> str:
        """One arc for an error message, such as `edges row 3 (a -> b)`."""
        source, target = self.sources[row], self.targets[row]
        if self.names is not None:
            source, target = self.names[source], self.names[target]
        return f"{self.where} {row} ({source} -> {target})"

    def mirrored(self) -> Arcs:
        """Every arc turned round."""
        return replace(self, sources=self.targets, targets=self.sources)

    def select(self, rows: NDArray[Any]) -> Arcs:
        """Some of the arcs, by mask or position."""
        return replace(self, sources=self.sources[rows], targets=self.targets[rows])

    def require_known_ids(self) -> None:
        """Every end is a node."""
        outside = [(ends < 0) | (ends >= self.num_nodes) for ends in (self.sources, self.targets)]
        bad = np.flatnonzero(outside[0] | outside[1])
        if bad.size:
            row = int(bad[0])
            ends = f"({self.sources[row]} -> {self.targets[row]})"
            raise InvalidInput(
                f"{self.where} {row} {ends}: node ids must lie in 0..{self.num_nodes - 1}; "
                "correct the id or add the node"
            )

    def require_no_loops(self) -> None:
        """No node points at itself."""
        loops = np.flatnonzero(self.sources == self.targets)
        if loops.size:
            raise InvalidInput(
                f"{self.at(int(loops[0]))}: self-loop; remove it, or clean the table (--clean, clean=True)"
            )

    def require_distinct(self, keys: Ids) -> None:
        """No two rows share a key."""
        ordered = np.sort(keys)
        if not np.any(ordered[1:] == ordered[:-1]):
            return
        # The rows are looked up only now: a stable argsort costs several times a plain sort.
        order = np.argsort(keys, kind="stable")
        repeats = order[1:][keys[order[1:]] == keys[order[:-1]]]
        row = int(repeats.min())
        first = int(np.flatnonzero(keys == keys[row])[0])
        raise InvalidInput(
            f"{self.at(row)}: duplicate of {self.where} {first}; list it once, or clean the table (--clean, clean=True)"
        )

    def is_symmetric(self) -> bool:
        """Whether every arc is listed in both directions, however often."""
        return np.array_equal(np.unique(self.keys), np.unique(self.mirrored().keys))

    def require_symmetric(self) -> None:
        """Both directions of every edge are listed."""
        if self.is_symmetric():
            return
        row = int(np.flatnonzero(~np.isin(self.mirrored().keys, self.keys))[0])
        raise InvalidInput(
            f"{self.at(row)}: the opposite arc is missing, so the graph is not undirected; "
            "add it, pass undirected=False, or pass clean=True"
        )

    def cleaned(self, undirected: bool) -> Arcs:
        """Without loops and duplicates, and with both directions if `undirected`."""
        arcs = self.select(self.sources != self.targets)
        if undirected:
            arcs = arcs.both_ways()
        targets, sources = np.divmod(np.unique(arcs.keys), self.num_nodes)
        return replace(arcs, sources=sources, targets=targets)

    def repairs(self, undirected: bool) -> str:
        """What `cleaned` drops of a list that names each edge once, in words; empty if nothing."""
        loops = int((self.sources == self.targets).sum())
        rest = self.select(self.sources != self.targets)
        if undirected:
            low, high = np.minimum(rest.sources, rest.targets), np.maximum(rest.sources, rest.targets)
            rest = replace(rest, sources=low, targets=high)
        repeats = len(rest.sources) - len(np.unique(rest.keys))
        words = [f"{loops:,} self-loops"] * bool(loops) + [f"{repeats:,} repeated edges"] * bool(repeats)
        return f"{' and '.join(words)} of {len(self.sources):,} rows" if words else ""

    def both_ways(self) -> Arcs:
        """Every arc, then every arc turned round."""
        sources = np.concatenate([self.sources, self.targets])
        targets = np.concatenate([self.targets, self.sources])
        return replace(self, sources=sources, targets=targets)

    def to_csr(self, *, undirected: bool, clean: bool) -> Csr:
        """The graph of these arcs, an undirected edge being listed in both directions."""
        self.require_known_ids()
        if clean:
            return self.cleaned(undirected).pack()
        self.require_no_loops()
        self.require_distinct(self.keys)
        if undirected:
            self.require_symmetric()
        return self.pack()

    def once_to_csr(self, *, clean: bool) -> Csr:
        """The undirected graph of these arcs, each edge being listed once, in either direction."""
        self.require_known_ids()
        if clean:
            return self.cleaned(undirected=True).pack()
        self.require_no_loops()
        low, high = np.minimum(self.sources, self.targets), np.maximum(self.sources, self.targets)
        self.require_distinct(replace(self, sources=low, targets=high).keys)
        return self.both_ways().pack()

    def pack(self) -> Csr:
        """Sort into rows; the arcs are known to be distinct and within range."""
        counts = np.bincount(self.targets, minlength=self.num_nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Csr(indptr, np.sort(self.keys) % max(self.num_nodes, 1))


@dataclass(frozen=True, eq=False, repr=False)
class Csr:
    """Arcs by target: row i lists, strictly increasing, the sources j of the arcs j -> i.

    indptr: int64 [n + 1]; indices: int64 [m]; origin: the release that these very arcs come from, if any.
    """

    indptr: Ids
    indices: Ids
    origin: GraphOrigin | None = None
    _copies: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for name, array in (("indptr", self.indptr), ("indices", self.indices)):
            if not (isinstance(array, np.ndarray) and array.dtype == np.int64 and array.ndim == 1):
                raise InvalidInput(f"Csr.{name} must be a one-dimensional int64 numpy array")
        self._check_rows()
        self._check_columns()

    def _check_rows(self) -> None:
        ends = (0, len(self.indices))
        if not self.indptr.size or (self.indptr[0], self.indptr[-1]) != ends:
            raise InvalidInput(f"Csr.indptr must start at {ends[0]} and end at {ends[1]}, the number of arcs")
        shrinking = np.flatnonzero(np.diff(self.indptr) < 0)
        if shrinking.size:
            raise InvalidInput(f"Csr.indptr decreases after row {shrinking[0]}; it must never decrease")

    def _check_columns(self) -> None:
        outside = np.flatnonzero((self.indices < 0) | (self.indices >= self.num_nodes))
        if outside.size:
            raise InvalidInput(
                f"Csr.indices[{outside[0]}] is {self.indices[outside[0]]}; node ids must lie in 0..{self.num_nodes - 1}"
            )
        falls = np.flatnonzero(np.diff(self.indices) <= 0) + 1
        inside = falls[~np.isin(falls, self.indptr)]
        if inside.size:
            raise InvalidInput(
                f"Csr.indices[{inside[0]}] repeats or breaks the order of its row; rows must be strictly increasing"
            )

    @classmethod
    def from_edge_index(cls, sources: Ids, targets: Ids, num_nodes: int) -> Csr:
        """Arcs sources[k] -> targets[k], in any order; both int [m]. Self-loops are kept."""
        arcs = arcs_of(sources, targets, num_nodes, "arc")
        arcs.require_known_ids()
        arcs.require_distinct(arcs.keys)
        return arcs.pack()

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """`indptr` int64 [n + 1] and `indices` [m] on `device`, copied there once.

        Elsewhere than in this machine's memory, ids that fit are int32: half the bytes of the largest thing there is.
        """
        if device not in self._copies:
            short = device.type != "cpu" and self.num_nodes < 1 << 31
            indices = torch.from_numpy(self.indices.astype(np.int32 if short else np.int64, copy=False))
            self._copies[device] = torch.from_numpy(self.indptr).to(device), indices.to(device)
        return self._copies[device]

    @property
    def num_nodes(self) -> int:
        """n."""
        return len(self.indptr) - 1

    @property
    def num_arcs(self) -> int:
        """m; an undirected edge counts twice."""
        return len(self.indices)

    def in_degrees(self) -> Ids:
        """How many messages each node receives, int64 [n]."""
        return np.diff(self.indptr)

    def targets(self, part: slice = slice(None)) -> Ids:
        """The target of each arc in the order of `indices`, int64 [m]; part: of some consecutive arcs only."""
        first, last, _ = part.indices(self.num_arcs)
        low, high = np.searchsorted(self.indptr, first, side="right") - 1, np.searchsorted(self.indptr, last)
        return np.repeat(np.arange(low, high), np.diff(self.indptr[low : high + 1].clip(first, last)))

    def edge_index(self) -> Tensor:
        """PyG's form: row 0 the sources, row 1 the targets, int64 [2, m]."""
        return torch.from_numpy(np.stack([self.indices, self.targets()]))

    @classmethod
    def empty(cls, num_nodes: int) -> Csr:
        """No arcs."""
        return cls(np.zeros(num_nodes + 1, np.int64), np.empty(0, np.int64))

    def select(self, kept: NDArray[np.bool_]) -> Csr:
        """Some of the arcs among the same nodes; kept: bool [m]."""
        before = np.concatenate([[0], np.cumsum(kept)])
        return Csr(before[self.indptr], self.indices[kept])

    def within(self, inside: NDArray[np.bool_]) -> Csr:
        """The arcs among the nodes of a mask, bool [n], which are renumbered 0, 1, ... in order."""
        rows = np.flatnonzero(inside)
        kept = inside[self.indices] & np.repeat(inside, np.diff(self.indptr))
        before = np.concatenate([[0], np.cumsum(kept)])
        sizes = before[self.indptr[rows + 1]] - before[self.indptr[rows]]
        fresh = np.cumsum(inside) - 1
        return Csr(np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]), fresh[self.indices[kept]], self.origin)

    def has_loops(self) -> bool:
        """Whether some node points at itself; needs no memory."""
        return bool(_has_loops(self.indptr, self.indices))

    def is_symmetric(self) -> bool:
        """Whether every arc's opposite is there; linear in time, and n numbers of memory."""
        return bool(_is_symmetric(self.indptr, self.indices, self.indptr[:-1].copy()))

    def transpose(self) -> Csr:
        """Every arc turned round."""
        flipped = self.to_scipy().tocsc()
        return Csr(flipped.indptr.astype(np.int64), flipped.indices.astype(np.int64))

    def to_scipy(self) -> sp.csr_array:
        """A with A[i, j] = 1 for the arc j -> i, so that A @ x sums messages; float32 [n, n]."""
        ones = np.ones(self.num_arcs, dtype=np.float32)
        return sp.csr_array((ones, self.indices, self.indptr), shape=(self.num_nodes, self.num_nodes))

    def __repr__(self) -> str:
        return f"Csr(num_nodes={self.num_nodes}, num_arcs={self.num_arcs})"


@numba.njit(cache=True, nogil=True)
def _has_loops(indptr: Any, indices: Any) -> bool:
    for target in range(len(indptr) - 1):
        for arc in range(indptr[target], indptr[target + 1]):
            if indices[arc] == target:
                return True
    return False


@numba.njit(cache=True, nogil=True)
def _is_symmetric(indptr: Any, indices: Any, ahead: Any) -> bool:
    """ahead: copy of indptr[:-1], the first arc of every row that has not met its opposite.

    Targets come in ascending order and rows ascend, so the opposite of j -> i is the next arc of row j, or absent.
    """
    for target in range(len(indptr) - 1):
        for arc in range(indptr[target], indptr[target + 1]):
            source = indices[arc]
            if ahead[source] == indptr[source + 1] or indices[ahead[source]] != target:
                return False
            ahead[source] += 1
    return True


def arcs_of(sources: Any, targets: Any, num_nodes: int, where: str) -> Arcs:
    """Two integer arrays [m] as arcs."""
    ends = [np.asarray(array) for array in (sources, targets)]
    for what, array in zip(("sources", "targets"), ends, strict=True):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidInput(
                f"{what} must be a one-dimensional integer array, got {array.dtype} of shape {array.shape}"
            )
    if len(ends[0]) != len(ends[1]):
        raise InvalidInput(f"there are {len(ends[0])} sources but {len(ends[1])} targets; they must pair up")
    return Arcs(ends[0].astype(np.int64), ends[1].astype(np.int64), num_nodes, where)
