"""Graphs: checked once at the border, then sealed into a public and a private part."""

from __future__ import annotations

import csv
import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.core import Adjacency, InvalidInput, MissingExtra, PrivateAccess, Unit

T = TypeVar("T")

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

Ids = NDArray[np.int64]
"""Node ids, or positions in an array of them."""

Table = Mapping[str, NDArray[Any]]
"""Columns by name, all of one length."""

UNLABELLED = -1
ROLES = ("train", "val", "test")


@dataclass(frozen=True)
class _Arcs:
    """Arcs as somebody listed them, with the words to point at one of them.

    sources, targets: int64 [m]; names: what the user calls each node, [n].
    """

    sources: Ids
    targets: Ids
    num_nodes: int
    where: str
    names: NDArray[Any] | None = None

    @property
    def keys(self) -> Ids:
        """One number per arc, ordered by target and then source, int64 [m]."""
        return self.targets * self.num_nodes + self.sources

    def at(self, row: int) -> str:
        """Words for one arc, such as `edges row 3 (a -> b)`."""
        source, target = self.sources[row], self.targets[row]
        if self.names is not None:
            source, target = self.names[source], self.names[target]
        return f"{self.where} {row} ({source} -> {target})"

    def mirrored(self) -> _Arcs:
        """Every arc turned round."""
        return replace(self, sources=self.targets, targets=self.sources)

    def select(self, rows: NDArray[Any]) -> _Arcs:
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
            raise InvalidInput(f"{self.at(int(loops[0]))}: self-loop; remove it or pass clean=True")

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
        raise InvalidInput(f"{self.at(row)}: duplicate of {self.where} {first}; list it once or pass clean=True")

    def is_symmetric(self) -> bool:
        """Whether every arc is listed in both directions."""
        return np.array_equal(np.sort(self.keys), np.sort(self.mirrored().keys))

    def require_symmetric(self) -> None:
        """Both directions of every edge are listed."""
        if self.is_symmetric():
            return
        row = int(np.flatnonzero(~np.isin(self.mirrored().keys, self.keys))[0])
        raise InvalidInput(
            f"{self.at(row)}: the opposite arc is missing, so the graph is not undirected; "
            "add it, pass undirected=False, or pass clean=True"
        )

    def cleaned(self, undirected: bool) -> _Arcs:
        """Without loops and duplicates, and with both directions if `undirected`."""
        arcs = self.select(self.sources != self.targets)
        if undirected:
            arcs = arcs.both_ways()
        return arcs.select(np.unique(arcs.keys, return_index=True)[1])

    def both_ways(self) -> _Arcs:
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

    indptr: int64 [n + 1]; indices: int64 [m].
    """

    indptr: Ids
    indices: Ids

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
        arcs = _arcs_of(sources, targets, num_nodes, "arc")
        arcs.require_known_ids()
        arcs.require_distinct(arcs.keys)
        return arcs.pack()

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

    def targets(self) -> Ids:
        """The target of each arc in the order of `indices`, int64 [m]."""
        return np.repeat(np.arange(self.num_nodes), self.in_degrees())

    def edge_index(self) -> Tensor:
        """PyG's form: row 0 the sources, row 1 the targets, int64 [2, m]."""
        return torch.from_numpy(np.stack([self.indices, self.targets()]))

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


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An attributed graph without self-loops or parallel arcs, valid by construction.

    x: float32 [n, d]; y: int64 [n], -1 where unlabelled; train, val, test: bool [n], disjoint;
    an undirected graph holds both arcs of every edge; split: how the split was made, in words.
    """

    x: Tensor
    adj: Csr
    y: Tensor
    num_classes: int
    undirected: bool
    train: Tensor
    val: Tensor
    test: Tensor
    name: str
    split: str

    def __post_init__(self) -> None:
        self._check_features()
        self._check_arcs()
        self._check_labels()
        self._check_masks()

    def _check_features(self) -> None:
        _check_tensor(self.x, "x", torch.float32, 2)
        if not self.x.shape[0]:
            raise InvalidInput("the graph has no nodes; give at least one row of features")
        if not self.x.shape[1]:
            raise InvalidInput("the nodes have no features; x needs at least one column")
        # A finite sum proves every entry finite without a mask as large as x; the converse fails on overflow.
        if not bool(self.x.sum().isfinite()) and not bool(self.x.isfinite().all()):
            row, column = (int(i) for i in (~self.x.isfinite()).nonzero()[0])
            raise InvalidInput(f"x row {row}, column {column} is {self.x[row, column].item()}; features must be finite")

    def _check_arcs(self) -> None:
        if not isinstance(self.adj, Csr):
            raise InvalidInput(f"adj must be a Csr, got {type(self.adj).__name__}")
        if self.adj.num_nodes != self.num_nodes:
            raise InvalidInput(f"adj has {self.adj.num_nodes} rows, but x has {self.num_nodes}; they must agree")
        arcs = _Arcs(self.adj.indices, self.adj.targets(), self.num_nodes, "arc")
        arcs.require_no_loops()
        if not self.undirected:
            return
        flipped = self.adj.transpose()
        # Transposing is linear in time; the search for the missing arc sorts, so it runs only on failure.
        if not np.array_equal(flipped.indices, self.adj.indices):
            arcs.require_symmetric()

    def _check_labels(self) -> None:
        _check_tensor(self.y, "y", torch.int64, 1)
        if len(self.y) != self.num_nodes:
            raise InvalidInput(f"y has {len(self.y)} entries, but x has {self.num_nodes} rows; they must agree")
        bad = ((self.y < UNLABELLED) | (self.y >= self.num_classes)).nonzero()
        if len(bad):
            row = int(bad[0])
            raise InvalidInput(
                f"y row {row} is {int(self.y[row])}; labels must lie in 0..{self.num_classes - 1}, "
                "or be -1 for an unlabelled node"
            )
        counts = torch.bincount(self.y[self.y >= 0], minlength=max(self.num_classes, 1))
        if not bool(counts.all()):
            empty = int((counts == 0).nonzero()[0])
            raise InvalidInput(f"class {empty} has no node; number the classes 0, 1, ... without gaps")

    def _check_masks(self) -> None:
        masks = [self.train, self.val, self.test]
        for role, mask in zip(ROLES, masks, strict=True):
            _check_tensor(mask, f"the {role} mask", torch.bool, 1)
            if len(mask) != self.num_nodes:
                raise InvalidInput(f"the {role} mask has {len(mask)} entries, but there are {self.num_nodes} nodes")
        times = torch.stack(masks).sum(0)
        if bool((times > 1).any()):
            row = int((times > 1).nonzero()[0])
            roles = [role for role, mask in zip(ROLES, masks, strict=True) if mask[row]]
            raise InvalidInput(f"node {row} is in more than one split ({', '.join(roles)}); keep one")
        bare = ((times > 0) & (self.y == UNLABELLED)).nonzero()
        if len(bare):
            raise InvalidInput(f"node {int(bare[0])} is in a split but has no label; drop it from the split")
        if bool(times.any()) and not bool(self.train.any()):
            raise InvalidInput("the train mask is empty but val or test is not; give some training nodes")

    @classmethod
    def from_pyg(cls, data: Data, *, undirected: bool | None = None, clean: bool = False, name: str = "graph") -> Graph:
        """From a PyG `Data` with x, edge_index and y, and masks if it has them.

        `undirected=None` asks the data; other attributes, such as edge weights, are not read.
        """
        for part in ("x", "edge_index", "y"):
            if not isinstance(getattr(data, part, None), Tensor):
                raise InvalidInput(f"the PyG data has no tensor {part!r}; graphveil needs x, edge_index and y")
        x, y = _features(data.x), _labels(data.y)
        arcs = _edge_index_arcs(data.edge_index, len(x))
        known = data.is_undirected() if undirected is None else undirected
        stored = {role: getattr(data, f"{role}_mask", None) for role in ROLES}
        masks = {role: _as_tensor(mask, f"the {role} mask") for role, mask in stored.items() if mask is not None}
        return cls._assemble(x, arcs.to_csr(undirected=known, clean=clean), y, known, name, masks)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        x: Any,
        y: Any,
        *,
        undirected: bool | None = None,
        clean: bool = False,
        name: str = "graph",
    ) -> Graph:
        """From a sparse [n, n] matrix of ones with A[i, j] for the arc i -> j, as in PyG and networkx.

        x: [n, d], dense or sparse; y: int [n]; `undirected=None` asks whether A is symmetric.
        """
        features = _features(x.toarray() if sp.issparse(x) else x)
        arcs = _matrix_arcs(adjacency, len(features), clean)
        arcs.require_known_ids()
        known = arcs.is_symmetric() if undirected is None else undirected
        return cls._assemble(features, arcs.to_csr(undirected=known, clean=clean), _labels(y), known, name)

    @classmethod
    def from_networkx(
        cls,
        g: networkx.Graph,
        *,
        features: str = "x",
        label: str = "y",
        split: str = "split",
        clean: bool = False,
        name: str = "graph",
    ) -> Graph:
        """From a networkx graph whose nodes carry a feature vector and, where known, a label and a split.

        Ids follow the order of `g.nodes`; labels are ints or strings, mapped to sorted class ids.
        """
        _require_networkx(g)
        names = np.fromiter(g.nodes, dtype=object, count=len(g))
        position = {node: i for i, node in enumerate(g.nodes)}
        ends = np.array([[position[end] for end in edge[:2]] for edge in g.edges], dtype=np.int64)
        ends = ends.reshape(-1, 2)
        arcs = _Arcs(ends[:, 0], ends[:, 1], len(g), "edge", names)
        undirected = not g.is_directed()
        adj = arcs.once_to_csr(clean=clean) if undirected else arcs.to_csr(undirected=False, clean=clean)
        columns = {part: [data.get(part) for _, data in g.nodes(data=True)] for part in (label, split)}
        y = _classes(_optional_strings(columns[label]), "node")
        masks = _masks(_optional_strings(columns[split]), "node")
        return cls._assemble(_node_features(g, features), adj, y, undirected, name, masks)

    @classmethod
    def from_edges(
        cls,
        edges: str | Path | NDArray[Any] | Table,
        nodes: str | Path | NDArray[Any] | Table,
        *,
        undirected: bool = True,
        clean: bool = False,
        label: str = "label",
        id: str = "id",
        split: str = "split",
        name: str = "graph",
    ) -> Graph:
        """From two tables: CSV or Parquet files, structured arrays, or columns by name.

        edges: source and target ids in the first two columns (also a plain [m, 2] array); an undirected
        edge is listed once. nodes: the columns `id` (ints or strings), `label` (ints or strings, mapped to
        sorted class ids; empty = unlabelled), maybe `split` (train, val, test or empty), and features.
        """
        node_table = _read_table(nodes, "nodes")
        for column in (id, label):
            if column not in node_table:
                raise InvalidInput(f"nodes: no column {column!r}; the columns are {', '.join(node_table)}")
        edge_table, ids = _read_table(edges, "edges"), node_table[id]
        _check_ids(ids)
        if str(edges).lower().endswith(".csv"):
            _require_header(edge_table, ids)
        arcs = _table_arcs(edge_table, ids)
        adj = arcs.once_to_csr(clean=clean) if undirected else arcs.to_csr(undirected=False, clean=clean)
        x = _feature_columns({key: node_table[key] for key in node_table if key not in (id, label, split)})
        y = _classes(node_table[label], "nodes row")
        masks = _masks(node_table[split], "nodes row") if split in node_table else None
        return cls._assemble(x, adj, y, undirected, name, masks)

    @classmethod
    def _assemble(
        cls,
        x: Tensor,
        adj: Csr,
        y: Tensor,
        undirected: bool,
        name: str,
        masks: Mapping[str, Tensor] | None = None,
    ) -> Graph:
        """The graph with whatever masks are known; those that are not are empty."""
        given = masks or {}
        full = {role: given.get(role, torch.zeros(len(x), dtype=torch.bool)) for role in ROLES}
        split = "given" if any(bool(mask.any()) for mask in given.values()) else "none"
        num_classes = int(y.max()) + 1 if len(y) else 0
        return cls(x, adj, y, num_classes, undirected, **full, name=name, split=split)

    def to_pyg(self) -> Data:
        """As a PyG `Data` with x, edge_index, y and the three masks."""
        from torch_geometric.data import Data

        masks = {f"{role}_mask": getattr(self, role) for role in ROLES}
        return Data(x=self.x, edge_index=self.adj.edge_index(), y=self.y, **masks)

    @property
    def num_nodes(self) -> int:
        """n."""
        return self.x.shape[0]

    @property
    def num_features(self) -> int:
        """d."""
        return self.x.shape[1]

    @property
    def num_edges(self) -> int:
        """Edges; an undirected one counts once."""
        return self.adj.num_arcs // 2 if self.undirected else self.adj.num_arcs

    def fingerprint(self) -> str:
        """SHA-256 of what is private under some unit; splits of one dataset share it, and so its budget."""
        arrays = (self.x.numpy(), self.adj.indptr, self.adj.indices, self.y.numpy())
        return _digest(*arrays, np.array(self.undirected))

    def split_hash(self) -> str:
        """SHA-256 of the three masks."""
        return _digest(self.train.numpy(), self.val.numpy(), self.test.numpy())

    def with_split(self, train: Tensor, val: Tensor, test: Tensor, how: str) -> Graph:
        """The same graph with other masks, each bool [n]; `how` says in words where they come from."""
        return replace(self, train=train, val=val, test=test, split=how)

    def random_split(self, train: float = 0.75, val: float = 0.10, test: float = 0.15, seed: int = 0) -> Graph:
        """A random split of the labelled nodes into these fractions."""
        fractions = {"train": train, "val": val, "test": test}
        for role, fraction in fractions.items():
            if not 0 <= fraction <= 1:
                raise InvalidInput(f"the {role} fraction must lie in 0..1, got {fraction}")
        if sum(fractions.values()) > 1 + 1e-9:
            raise InvalidInput(f"the fractions {train}, {val}, {test} add up to more than 1")
        order = self._shuffled(seed)
        sizes = [round(fraction * len(order)) for fraction in fractions.values()]
        if not sizes[0]:
            raise InvalidInput(
                f"a train fraction of {train} leaves none of the {len(order)} labelled nodes for training"
            )
        parts = np.split(order[: sum(sizes)], np.cumsum(sizes)[:2])
        return self._with_ids(parts, f"random({train:g},{val:g},{test:g},seed={seed})")

    def per_class_split(self, per_class: int = 20, val: int = 500, test: int = 1000, seed: int = 0) -> Graph:
        """`per_class` training nodes of every class, then `val` and `test` other labelled nodes."""
        if per_class < 1 or val < 0 or test < 0:
            raise InvalidInput(f"sizes must be positive, got per_class={per_class}, val={val}, test={test}")
        order = self._shuffled(seed)
        labels = self.y.numpy()[order]
        counts = np.bincount(labels, minlength=self.num_classes)
        if counts.min() < per_class:
            scarce = int(counts.argmin())
            raise InvalidInput(f"class {scarce} has {counts[scarce]} labelled nodes, fewer than {per_class}")
        by_class = np.argsort(labels, kind="stable")
        starts = np.cumsum(counts) - counts
        chosen = np.zeros(len(order), dtype=bool)
        chosen[by_class[(starts[:, None] + np.arange(per_class)).ravel()]] = True
        rest = order[~chosen]
        if len(rest) < val + test:
            raise InvalidInput(f"{len(rest)} labelled nodes are left after training; ask for fewer than {val} + {test}")
        parts = [order[chosen], rest[:val], rest[val : val + test]]
        return self._with_ids(parts, f"per_class({per_class},{val},{test},seed={seed})")

    def _shuffled(self, seed: int) -> Ids:
        if seed < 0:
            raise InvalidInput(f"a seed must not be negative, got {seed}")
        labelled = np.flatnonzero(self.y.numpy() != UNLABELLED)
        return np.random.Generator(np.random.PCG64(seed)).permutation(labelled)

    def _with_ids(self, parts: list[Ids], how: str) -> Graph:
        masks = torch.zeros(3, self.num_nodes, dtype=torch.bool)
        for mask, ids in zip(masks, parts, strict=True):
            mask[torch.from_numpy(ids)] = True
        return self.with_split(masks[0], masks[1], masks[2], how)

    def seal(self, adjacency: Adjacency) -> tuple[Public, Sealed]:
        """What anyone may see under this adjacency, and the locked rest."""
        if adjacency.unit is Unit.EDGE and adjacency.undirected != self.undirected:
            kind = {True: "undirected", False: "directed"}
            raise InvalidInput(
                f"the adjacency protects an {kind[adjacency.undirected]} edge, but graph {self.name!r} is "
                f"{kind[self.undirected]}; use Adjacency.of('edge', undirected={self.undirected})"
            )
        private = adjacency.private
        public = Public(
            num_nodes=self.num_nodes,
            num_features=self.num_features,
            num_classes=self.num_classes,
            undirected=self.undirected,
            x=None if "x" in private else self.x,
            y=None if "y" in private else self.y,
            adj=None if "edges" in private else self.adj,
            train=self.train,
            val=self.val,
            test=self.test,
        )
        return public, Sealed(self.x, self.y, self.adj, public)

    def __repr__(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        return (
            f"Graph({self.name!r}, {self.num_nodes} nodes, {self.num_edges} {kind} edges, "
            f"{self.num_features} features, {self.num_classes} classes, split={self.split!r})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Public:
    """What a plan may depend on: sizes, masks and the parts that the adjacency leaves open.

    x: float32 [n, d]; y: int64 [n]; each of x, y and adj is None where private; masks: bool [n].
    """

    num_nodes: int
    num_features: int
    num_classes: int
    undirected: bool
    x: Tensor | None
    y: Tensor | None
    adj: Csr | None
    train: Tensor
    val: Tensor
    test: Tensor

    @classmethod
    def blank(
        cls,
        num_nodes: int,
        num_features: int,
        num_classes: int,
        undirected: bool = True,
        num_train: int | None = None,
    ) -> Public:
        """Sizes alone, for planning a budget without data; the first `num_train` ids (75 %) train."""
        for what, size in (("nodes", num_nodes), ("features", num_features), ("classes", num_classes)):
            if size < 1:
                raise InvalidInput(f"the number of {what} must be at least 1, got {size}")
        count = round(0.75 * num_nodes) if num_train is None else num_train
        if not 0 <= count <= num_nodes:
            raise InvalidInput(f"num_train must lie in 0..{num_nodes}, got {count}")
        none = torch.zeros(num_nodes, dtype=torch.bool)
        train = torch.arange(num_nodes) < count
        return cls(num_nodes, num_features, num_classes, undirected, None, None, None, train, none, none)

    def features(self) -> Tensor:
        """x, float32 [n, d], if it is public."""
        return self.x if self.x is not None else _refuse("features (x)")

    def labels(self) -> Tensor:
        """y, int64 [n], if it is public."""
        return self.y if self.y is not None else _refuse("labels (y)")

    def arcs(self) -> Csr:
        """The arcs, if they are public."""
        return self.adj if self.adj is not None else _refuse("edges (adj)")

    def __repr__(self) -> str:
        parts = {"x": self.x, "y": self.y, "adj": self.adj}
        shown = ", ".join(name for name, part in parts.items() if part is not None) or "none"
        return f"Public({self.num_nodes} nodes, {self.num_classes} classes, public parts: {shown})"


class Sealed:
    """All parts of a graph, of which the private ones can be read only while the gate is open.

    It takes parts rather than a Graph so that a neighbouring graph, with a blanked node say, can be sealed
    beside the same public view; what is absent from `public` is private.
    """

    __slots__ = ("__adj", "__derived", "__open", "__x", "__y", "public")

    def __init__(self, x: Tensor, y: Tensor, adj: Csr, public: Public) -> None:
        self.__x, self.__y, self.__adj = x, y, adj
        self.__open = False
        self.__derived: dict[str, Any] = {}
        self.public = public

    @property
    def x(self) -> Tensor:
        """Features, float32 [n, d]."""
        self.__require_open(self.public.x is None, "features (x)")
        return self.__x

    @property
    def y(self) -> Tensor:
        """Labels, int64 [n]."""
        self.__require_open(self.public.y is None, "labels (y)")
        return self.__y

    @property
    def adj(self) -> Csr:
        """Arcs."""
        self.__require_open(self.public.adj is None, "edges (adj)")
        return self.__adj

    def derived(self, name: str, build: Callable[[Sealed], T]) -> T:
        """`build(self)`, computed once and kept behind the gate: private work shared by many releases."""
        self.__require_open(True, f"derived {name}")
        if name not in self.__derived:
            self.__derived[name] = build(self)
        kept: T = self.__derived[name]
        return kept

    def __require_open(self, private: bool, part: str) -> None:
        if private and not self.__open:
            raise PrivateAccess(f"the {part} are private and were read outside Session.release")

    @contextmanager
    def opened(self) -> Iterator[Sealed]:
        """Open the gate for one block; only `Session.release` calls this."""
        if self.__open:
            raise PrivateAccess("the sealed graph is already open; a release cannot run inside another")
        self.__open = True
        try:
            yield self
        finally:
            self.__open = False

    def __reduce__(self) -> NoReturn:
        raise PrivateAccess("a sealed graph cannot be pickled or copied; seal the graph where it is used")

    def __repr__(self) -> str:
        return f"Sealed({self.public.num_nodes} nodes, {'open' if self.__open else 'closed'})"


def _refuse(part: str) -> NoReturn:
    raise PrivateAccess(f"the {part} are private here; ask for them through Session.release")


def _digest(*arrays: NDArray[Any]) -> str:
    """SHA-256 of shapes, types and contents."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _check_tensor(tensor: Tensor, what: str, dtype: torch.dtype, dims: int) -> None:
    if not isinstance(tensor, Tensor):
        raise InvalidInput(f"{what} must be a torch tensor, got {type(tensor).__name__}")
    if tensor.dtype != dtype or tensor.dim() != dims:
        raise InvalidInput(f"{what} must be {dtype} with {dims} dimension(s), got {tensor.dtype} {list(tensor.shape)}")
    if tensor.device.type != "cpu" or tensor.requires_grad or not tensor.is_contiguous():
        raise InvalidInput(f"{what} must be contiguous, on the CPU and without gradient; detach and copy it")


def _as_tensor(value: Any, what: str) -> Tensor:
    """A detached CPU tensor of whatever was given."""
    try:
        tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value, order="C"))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be numeric: {error}") from None
    return tensor.detach().cpu()


def _features(value: Any) -> Tensor:
    """Real numbers [n, d] as float32."""
    tensor = _as_tensor(value, "x")
    if tensor.is_complex() or tensor.layout != torch.strided or tensor.dim() != 2:
        raise InvalidInput(
            f"x must be dense and real of shape [n, d], got {tensor.dtype} {list(tensor.shape)} ({tensor.layout})"
        )
    return tensor.to(torch.float32).contiguous()


def _labels(value: Any) -> Tensor:
    """Class ids [n] as int64."""
    tensor = _as_tensor(value, "y")
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dim() != 1:
        raise InvalidInput(
            f"y must hold integer class ids of shape [n], got {tensor.dtype} {list(tensor.shape)}; "
            "convert it with .long() and flatten it"
        )
    return tensor.to(torch.int64).contiguous()


def _arcs_of(sources: Any, targets: Any, num_nodes: int, where: str) -> _Arcs:
    """Two integer arrays [m] as arcs."""
    ends = [np.asarray(array) for array in (sources, targets)]
    for what, array in zip(("sources", "targets"), ends, strict=True):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidInput(
                f"{what} must be a one-dimensional integer array, got {array.dtype} of shape {array.shape}"
            )
    if len(ends[0]) != len(ends[1]):
        raise InvalidInput(f"there are {len(ends[0])} sources but {len(ends[1])} targets; they must pair up")
    return _Arcs(ends[0].astype(np.int64), ends[1].astype(np.int64), num_nodes, where)


def _edge_index_arcs(edge_index: Tensor, num_nodes: int) -> _Arcs:
    """PyG's [2, m] as arcs with known ends."""
    pairs = edge_index.detach().cpu()
    if pairs.dim() != 2 or pairs.shape[0] != 2:
        raise InvalidInput(f"edge_index must have shape [2, m], got {list(pairs.shape)}")
    arcs = _arcs_of(pairs[0].numpy(), pairs[1].numpy(), num_nodes, "edge_index column")
    arcs.require_known_ids()
    return arcs


def _matrix_arcs(adjacency: Any, num_nodes: int, clean: bool) -> _Arcs:
    """The entries of a sparse matrix as arcs; weights are refused unless cleaned away."""
    if not sp.issparse(adjacency):
        raise InvalidInput(f"adjacency must be a scipy sparse matrix, got {type(adjacency).__name__}")
    if adjacency.shape != (num_nodes, num_nodes):
        raise InvalidInput(f"adjacency is {adjacency.shape}, but x has {num_nodes} rows; they must agree")
    entries = adjacency.tocoo()
    stored = entries.data != 0
    values, rows, columns = entries.data[stored], entries.row[stored], entries.col[stored]
    weighted = np.flatnonzero(values != 1)
    if weighted.size and not clean:
        k = weighted[0]
        raise InvalidInput(
            f"adjacency entry ({rows[k]}, {columns[k]}) is {values[k]}; edges carry no weights here: "
            "store ones, or pass clean=True to drop the weights"
        )
    return _arcs_of(rows, columns, num_nodes, "adjacency entry")


def _require_networkx(g: Any) -> None:
    try:
        import networkx
    except ImportError:
        raise MissingExtra("networkx is not installed; run `pip install graphveil[networkx]`") from None
    if not isinstance(g, networkx.Graph):
        raise InvalidInput(f"expected a networkx graph, got {type(g).__name__}")


def _node_features(g: networkx.Graph, attribute: str) -> Tensor:
    """The nodes' feature vectors, stacked; a bare number is a vector of length one."""
    rows: list[NDArray[Any]] = []
    for node, data in g.nodes(data=True):
        try:
            rows.append(np.asarray(data[attribute], dtype=np.float64).reshape(-1))
        except KeyError:
            raise InvalidInput(f"node {node!r} has no attribute {attribute!r}; give every node one") from None
        except (TypeError, ValueError):
            raise InvalidInput(f"node {node!r}: attribute {attribute!r} is not a vector of numbers") from None
        if len(rows[-1]) != len(rows[0]):
            raise InvalidInput(f"node {node!r} has {len(rows[-1])} features but the first node has {len(rows[0])}")
    return _features(np.stack(rows) if rows else np.empty((0, 0)))


def _optional_strings(values: list[Any]) -> NDArray[Any]:
    """Values as a table column, with missing ones as empty strings; all-integer values stay integers."""
    if values and all(isinstance(value, int | np.integer) for value in values):
        return np.array(values, dtype=np.int64)
    return np.array(["" if value is None else str(value) for value in values], dtype=str)


def _read_table(table: str | Path | NDArray[Any] | Table, what: str) -> Table:
    """Whatever holds the table, as columns of one length, each [rows] or, for features, [rows, k]."""
    if isinstance(table, str | Path):
        columns = _read_file(Path(table), what)
    elif isinstance(table, Mapping):
        columns = {name: np.asarray(column) for name, column in table.items()}
    elif isinstance(table, np.ndarray) and table.dtype.names is not None:
        columns = {name: table[name] for name in table.dtype.names}
    elif isinstance(table, np.ndarray) and table.ndim == 2 and what == "edges":
        columns = {f"column {k}": table[:, k] for k in range(table.shape[1])}
    else:
        raise InvalidInput(
            f"{what}: cannot read a {type(table).__name__} without column names; "
            "give a file, a structured array or a dict of columns"
        )
    lengths = {name: len(column) if column.ndim else -1 for name, column in columns.items()}
    if len(set(lengths.values())) > 1 or -1 in lengths.values():
        raise InvalidInput(f"{what}: the columns differ in length: {lengths}")
    return {name: _plain(column) for name, column in columns.items()}


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """Objects as strings (None as empty), strings without surrounding blanks."""
    if column.dtype.kind == "O":
        column = np.array(["" if value is None else str(value) for value in column], dtype=str)
    if column.dtype.kind == "S":
        column = column.astype(str)
    return np.strings.strip(column) if column.dtype.kind == "U" else column


def _read_file(path: Path, what: str) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise InvalidInput(f"{what}: there is no file {path}")
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".pq": _read_parquet}
    if path.suffix.lower() not in readers:
        raise InvalidInput(f"{what}: cannot read {path.name}; use a .csv or a .parquet file")
    return readers[path.suffix.lower()](path)


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    """A comma-separated UTF-8 file with one header line; every cell a string."""
    try:
        header = _check_csv(path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path.name} is not a comma-separated UTF-8 file: {error}") from None
    with path.open(encoding="utf-8-sig", newline="") as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*contained no data")
        next(csv.reader(file))
        cells = np.loadtxt(file, dtype=str, delimiter=",", quotechar='"', comments=None, ndmin=2)
    cells = cells.reshape(-1, len(header))
    return {name: cells[:, k] for k, name in enumerate(header)}


def _check_csv(path: Path) -> list[str]:
    """The header, once every row is known to be as wide; a streaming pass, so that errors name the row."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = (row for row in csv.reader(file) if row)
        header = [name.strip() for name in next(rows, [])]
        if not all(header) or not header or len(set(header)) != len(header):
            raise InvalidInput(
                f"{path.name}: the first line must name every column once, got {header}; "
                "with pandas, write it with to_csv(index=False)"
            )
        for number, row in enumerate(rows):
            if len(row) != len(header):
                raise InvalidInput(f"{path.name} row {number} has {len(row)} cells but the header has {len(header)}")
    return header


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    """A Parquet file; columns other than plain numbers come as strings, nulls as empty ones."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("pyarrow is not installed; run `pip install graphveil[parquet]`") from None
    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise InvalidInput(f"{path.name} is not a Parquet file: {error}") from None
    return {name: _arrow_column(table[name]) for name in table.column_names}


def _arrow_column(column: Any) -> NDArray[Any]:
    """Floats with nulls as NaN, full integer columns as they are, everything else as strings."""
    import pyarrow as pa

    integer = pa.types.is_integer(column.type) and not column.null_count
    if integer or pa.types.is_boolean(column.type) or pa.types.is_floating(column.type):
        values: NDArray[Any] = column.to_numpy()
        return values
    return np.array(column.cast(pa.string()).fill_null("").to_pylist(), dtype=str)


def _table_arcs(edges: Table, ids: NDArray[Any]) -> _Arcs:
    """The first two columns of the edge table, ids replaced by positions in the node table."""
    if len(edges) < 2:
        raise InvalidInput(f"edges: two columns, source and target, are needed; got {', '.join(edges)}")
    (source, sources), (target, targets), *_ = edges.items()
    ends = [_positions(sources, ids, source), _positions(targets, ids, target)]
    return _Arcs(ends[0], ends[1], len(ids), "edges row", ids)


def _require_header(edges: Table, ids: NDArray[Any]) -> None:
    """A text file without a header would lose its first edge without a word."""
    first = list(edges)[:2]
    if np.isin(first, ids.astype(str)).all():
        raise InvalidInput(
            f"edges: the first line {','.join(first)} is an edge, not a header; add the line source,target"
        )


def _check_ids(ids: NDArray[Any]) -> None:
    """There are node ids; they are ints or strings, present and distinct."""
    if not len(ids):
        raise InvalidInput("nodes: the table has no rows; give at least one node")
    if ids.dtype.kind not in "iuU" or ids.ndim != 1:
        raise InvalidInput(f"nodes: ids must be integers or strings, got {ids.dtype}")
    if ids.dtype.kind == "U" and np.any(ids == ""):
        raise InvalidInput(f"nodes row {np.flatnonzero(ids == '')[0]}: the id is empty; give every node one")
    distinct, first = np.unique(ids, return_index=True)
    if len(distinct) != len(ids):
        row = int(np.setdiff1d(np.arange(len(ids)), first)[0])
        raise InvalidInput(f"nodes row {row}: id {ids[row]} occurs before; ids must be unique")


def _positions(ends: NDArray[Any], ids: NDArray[Any], column: str) -> Ids:
    """Where each id stands in the node table, int64 [m]."""
    if ends.dtype.kind not in "iuU" or ends.ndim != 1:
        raise InvalidInput(f"edges: column {column!r} must hold integer or string ids, got {ends.dtype}")
    if ends.dtype.kind == "U" or ids.dtype.kind == "U":
        ends, ids = ends.astype(str), ids.astype(str)
    order = np.argsort(ids)
    places = np.searchsorted(ids, ends, sorter=order)
    found = order[np.minimum(places, len(ids) - 1)]
    strangers = np.flatnonzero(ids[found] != ends)
    if strangers.size:
        row = int(strangers[0])
        raise InvalidInput(f"edges row {row}: {column} {ends[row]!s} is not in the node table; add the node")
    return found.astype(np.int64)


def _feature_columns(columns: Table) -> Tensor:
    """The remaining columns as one float32 matrix [n, d]."""
    parts = [_feature_column(column, name) for name, column in columns.items()]
    return _features(np.column_stack(parts) if parts else np.empty((1, 0), dtype=np.float32))


def _feature_column(column: NDArray[Any], name: str) -> NDArray[np.float32]:
    """One column of finite numbers, or an error that names the cell."""
    if column.dtype.kind not in "fiubU":
        raise InvalidInput(f"nodes: feature column {name!r} must be numeric, got {column.dtype}")
    try:
        values = column.astype(np.float64)
    except ValueError:
        row = next(row for row, cell in enumerate(column) if not _is_number(cell))
        raise InvalidInput(
            f"nodes row {row}: feature {name!r} is {column[row]!s}, not a number; encode or drop the column"
        ) from None
    bad = np.argwhere(~(np.abs(values) <= np.finfo(np.float32).max))
    if len(bad):
        row = int(bad[0][0])
        raise InvalidInput(f"nodes row {row}: feature {name!r} is {column[row]}; features must be finite")
    return values.astype(np.float32)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _classes(column: NDArray[Any], where: str) -> Tensor:
    """Sorted class ids [n] of integer or string labels; empty strings are unlabelled."""
    if column.dtype.kind not in "iubU" or column.ndim != 1:
        raise InvalidInput(f"{where}: labels must be integers or strings, got {column.dtype}")
    known = column != "" if column.dtype.kind == "U" else np.ones(len(column), dtype=bool)
    if not known.any():
        raise InvalidInput(f"{where}: no label at all; at least one node must have one")
    values = column[known]
    if values.dtype.kind == "U":
        # Integers in a text file sort as numbers, so that class 10 comes after class 9.
        try:
            values = values.astype(np.int64)
        except (ValueError, OverflowError):
            values = column[known]
    y = np.full(len(column), UNLABELLED, dtype=np.int64)
    y[known] = np.unique(values, return_inverse=True)[1]
    return torch.from_numpy(y)


def _masks(column: NDArray[Any], where: str) -> dict[str, Tensor]:
    """The split column as one mask [n] per role."""
    names = column.astype(str)
    strange = np.flatnonzero(~np.isin(names, [*ROLES, ""]))
    if strange.size:
        row = int(strange[0])
        raise InvalidInput(f"{where} {row}: split is {names[row]!s}; use train, val, test or leave it empty")
    return {role: torch.from_numpy(names == role) for role in ROLES}
