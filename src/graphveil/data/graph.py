"""`Graph`, checked when it is made. The class is long: each public constructor and split has its signature there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.checks import require_printable
from graphveil.data import builders, identity, splits
from graphveil.data.arcs import Csr, Ids
from graphveil.data.lineage import PYG_ATTRIBUTE, GraphOrigin, to_text
from graphveil.data.matching import matched_public
from graphveil.data.parts import EdgeParts, ScatteredArcs
from graphveil.data.schema import Schema
from graphveil.data.sealing import FeatureRows, Public, PublicGraph, Sealed, _Cached, seal
from graphveil.data.tensors import degree_bounds
from graphveil.data.validity import require_valid
from graphveil.errors import InvalidInput
from graphveil.runtime.html import facts
from graphveil.vocabulary import ROLES, UNLABELLED, Adjacency

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    from graphveil.data.encoding import Declared
    from graphveil.data.tables import Table


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An attributed graph without self-loops or parallel arcs, valid by construction.

    x: float32 [n, d], or bfloat16 or float16 to take half the memory; y: int64 [n], -1 where unlabelled; train, val,
    test: bool [n], disjoint; all of them on one device, see `to`;
    an undirected graph holds both arcs of every edge; split: how the split was made, in words;
    public_graph: that of `with_public`, which no adjacency protects; lineage: the release that its edges come from.

    A split deals out ids, whether or not there is a record behind them: blank and unlabelled ids are in the masks.
    split_reads_labels: the split was drawn by looking at labels. every_id_present, degrees: what the data holder states
    of the fixed population, see `with_every_id_present` and `with_degrees`.
    schema: the names of columns and classes, which a graph from tables has; ids: Arrow text [n], of such a graph;
    cleaned: what was dropped from its edges, in words.
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
    _cached: dict[Adjacency, dict[str, _Cached]] = field(default_factory=dict, init=False)
    public_graph: Graph | None = None
    lineage: GraphOrigin | None = None
    split_reads_labels: bool = False
    every_id_present: bool = False
    degrees: Ids | None = None
    schema: Schema | None = None
    ids: Any = None
    cleaned: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.adj, Csr) and self.adj.origin is not None:
            object.__setattr__(self, "lineage", self.adj.origin)
        require_printable(self.name, "the name of a graph")
        require_printable(self.split, "the words about a split")
        require_valid(self)

    # From and to other libraries

    @classmethod
    def from_pyg(cls, data: Data, *, undirected: bool | None = None, clean: bool = False, name: str = "graph") -> Graph:
        """From a PyG `Data` with x, edge_index and y, and masks if it has them.

        `undirected=None` asks whether every arc's opposite is there; edge weights and other attributes are not read.
        """
        return builders.from_pyg(cls, data, undirected, clean, name)

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
        return builders.from_scipy(cls, adjacency, x, y, undirected, clean, name)

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
        return builders.from_networkx(cls, g, features, label, split, clean, name)

    @classmethod
    def from_edges(
        cls,
        edges: str | Path | NDArray[Any] | Table | Any | None,
        nodes: str | Path | NDArray[Any] | Table | Any,
        *,
        undirected: bool = True,
        clean: bool = False,
        label: str | None = None,
        id: str | None = None,
        split: str = "split",
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        drop: Sequence[str] = (),
        encode: str | None = None,
        categories: str | Path | Declared | None = None,
        encoding: str = "utf-8",
        name: str = "graph",
        classes: Sequence[int] | Sequence[str] | None = None,
        schema: Schema | None = None,
        in_parts: bool = False,
    ) -> Graph:
        """From two tables: CSV or Parquet files, data frames (pandas, polars), structured arrays, or columns by name.

        edges: source and target ids in the columns of that name, or in the only two there are (also a plain [m, 2]
        array); an undirected edge is listed once; None: no edges. weight: a column in which 0 means that there is no
        edge; other columns are not read. nodes: the columns `id` (ints or strings), `label` (ints or strings, mapped to
        sorted class ids; empty, NaN or -1 = unlabelled), maybe `split` (train, val, test or empty), and features;
        `drop` names columns that are none.
        Ids and labels are their exact text: 1 and 01 are two ids, and as labels in one column they are refused.
        classes: the labels in the order of their class ids, for a table that need not show them all, nor any.
        Features are finite numbers. categories declares what else columns hold (or a JSON file that does): a list of
        categories, "truth" or "date", with a question mark where cells may be empty ("number?"). encode="auto" reads
        that off the cells, which only units that leave features public allow. encoding: of CSV files.
        schema: that of a release, `release.schema`: columns and classes are matched by name and put in its order, and
        labels may be missing.
        in_parts: edges is a Parquet file or a pattern of them, "parts/*.parquet", whose rows are left where they are
        for the workers of an engine to count (docs/large-graphs.md); `graph.edge_parts` lists them, `graph.adj` has no
        arcs.
        """
        return builders.from_edges(
            cls,
            edges,
            nodes,
            undirected=undirected,
            clean=clean,
            label=label,
            id=id,
            split=split,
            source=source,
            target=target,
            weight=weight,
            drop=drop,
            encode=encode,
            categories=categories,
            encoding=encoding,
            name=name,
            classes=classes,
            schema=schema,
            in_parts=in_parts,
        )

    def to_pyg(self) -> Data:
        """As a PyG `Data` with x, edge_index, y and the three masks, and the lineage of a graph that has one."""
        from torch_geometric.data import Data

        masks = {f"{role}_mask": getattr(self, role) for role in ROLES}
        lineage = {} if self.lineage is None else {PYG_ATTRIBUTE: to_text(self.lineage)}
        return Data(x=self.x, edge_index=self.adj.edge_index(), y=self.y, **masks, **lineage)

    # Device and sizes

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.x.device

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Graph:
        """The same graph on `device`, its features rounded to `dtype`: bfloat16 and float16 take half the memory.

        Rounding is a function of one record, so neighbouring graphs stay neighbours and nothing is to be charged.
        """
        there = self.device if device is None else torch.device(device)
        kind = self.x.dtype if dtype is None else dtype
        if there == self.device and kind == self.x.dtype:
            return self
        # Copied once, for all runs.
        made: Graph | None = self._copies.get((there, kind))
        if made is None:
            parts = {name: getattr(self, name).to(there) for name in ("y", *ROLES)}
            beside = None if self.public_graph is None else self.public_graph.to(there, kind)
            made = replace(self, x=self.x.to(there, kind), adj=self.adj, public_graph=beside, **parts)
            self._copies[there, kind] = made
        return made

    @cached_property
    def _copies(self) -> dict[tuple[torch.device, torch.dtype], Graph]:
        return {}

    @property
    def num_nodes(self) -> int:
        """n."""
        return self.x.shape[0]

    @property
    def num_features(self) -> int:
        """d."""
        return self.x.shape[1]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """n, d and the number of classes: public under every unit."""
        return self.num_nodes, self.num_features, self.num_classes

    @property
    def num_edges(self) -> int:
        """Edges; an undirected one counts once."""
        return self.adj.num_arcs // 2 if self.undirected else self.adj.num_arcs

    @property
    def edge_parts(self) -> EdgeParts | None:
        """The files of edges that stay where they are (`from_edges(in_parts=True)`)."""
        return self.adj.parts if isinstance(self.adj, ScatteredArcs) else None

    def fingerprint(self) -> str:
        """SHA-256 of what is private under some unit; splits of one dataset share it, and so its budget."""
        return identity.fingerprint(self)

    def split_hash(self) -> str:
        """SHA-256 of the three masks."""
        return identity.split_digest(self)

    # The same graph with something else

    def with_split(self, train: Tensor, val: Tensor, test: Tensor, how: str, *, reads_labels: bool = False) -> Graph:
        """The same graph with other masks, each bool [n]; `how` says in words where they come from.

        `reads_labels`: they were drawn by looking at labels. Stated degrees are those of one split: state them again.
        """
        return replace(self, train=train, val=val, test=test, split=how, split_reads_labels=reads_labels, degrees=None)

    def with_arcs(self, adj: Csr) -> Graph:
        """The same nodes with other arcs; both graphs share what was computed from public data that both have.

        Degrees that were stated of the old arcs are not stated of the new ones.
        """
        made = replace(self, adj=adj, degrees=None)
        object.__setattr__(made, "_cached", self._cached)
        return made

    def with_schema(self, schema: Schema) -> Graph:
        """The same graph, of which you state that its numbers stand for these columns and classes, in this order."""
        return replace(self, schema=schema, num_classes=max(self.num_classes, len(schema.classes)))

    def with_every_id_present(self) -> Graph:
        """The same graph, of which you state that there is a record behind every id.

        Then its degrees are those of the fixed population, which methods that need public degrees count. If an id is
        blank, the statement is false and so are their certificates: use `with_degrees`.
        """
        return replace(self, every_id_present=True, degrees=None)

    def with_degrees(self, degrees: int | Sequence[int] | NDArray[Any] | Tensor) -> Graph:
        """The same graph and split, of which you state how many training ids each id points to at most.

        `degrees`: [n], or one number for all; public, and true whoever of the population is present. Do not count them
        in a graph with blank ids: that would publish who is blank. The closer they are, the better the model.
        """
        return replace(self, degrees=degree_bounds(degrees, self.num_nodes))

    def with_public(self, public: Graph) -> Graph:
        """The same private graph with a public one beside it, whose nodes are others and protected by nothing.

        The public graph needs no labels. Where it has some they score predictions, and no method reads them; its nodes
        outside val and test may be queried. A private graph without a split trains on all its ids.
        """
        if not isinstance(public, Graph):
            raise InvalidInput(f"the public graph must be a graphveil Graph, got {type(public).__name__}")
        beside = matched_public(self, public)
        kept = self if self.split != "none" else self._dealt(splits.all_train(self.num_nodes))
        return replace(kept, public_graph=beside)

    def stand_in(self, adjacency: Adjacency) -> Graph:
        """The public parts of this graph, with made-up private parts: for audits that anybody may see.

        Private features are random numbers, private labels go round the classes, and of private arcs there are none.
        """
        private = adjacency.private
        drawn = np.random.default_rng(0).standard_normal(self.x.shape).astype(np.float32) if "x" in private else None
        return replace(
            self,
            x=self.x if drawn is None else torch.from_numpy(drawn).to(self.x),
            y=torch.arange(self.num_nodes, device=self.device) % self.num_classes if "y" in private else self.y,
            adj=Csr.empty(self.num_nodes) if "edges" in private else self.adj,
        )

    # Splits

    def random_split(self, train: float = 0.75, val: float = 0.10, test: float = 0.15, seed: int = 0) -> Graph:
        """A random split of all ids into these fractions, labelled or not, so that no record moves another id.

        A split without any labelled training id is refused, before anything can be released.
        """
        return self._dealt(splits.random_split(self._labels, train, val, test, seed))

    def per_class_split(self, per_class: int = 20, val: int = 500, test: int = 1000, seed: int = 0) -> Graph:
        """`per_class` training nodes of every class, then `val` and `test` other labelled nodes: it looks at labels."""
        return self._dealt(splits.per_class_split(self._labels, self.num_classes, per_class, val, test, seed))

    def split_public(
        self, private: int, queries: int, test: int, seed: int = 0, balanced: bool = False, exchanged: bool = False
    ) -> Graph:
        """Two graphs out of one, for benchmarks: disjoint sets of ids drawn at random, and the edges inside each.

        The private graph has `private` nodes, which train. The public graph beside it has `queries` + `test` others:
        its `train` mask holds those that may be queried, its `test` mask those that score predictions. Edges
        between the two graphs are dropped, and so are ids that were not drawn. All ids are dealt out, labelled or not.
        `balanced` draws as many private nodes of every class, so it looks at labels; the rest of the ids is dealt out
        whatever their class.
        `exchanged` makes the same draw and then calls the `queries` + `test` nodes private and the others public, of
        which the same share is tested.
        """
        sizes = (private, queries, test)
        ours, others = splits.two_graphs(self._labels, self.num_classes, *sizes, seed, balanced, exchanged)
        return induced(self, ours, self.name).with_public(induced(self, others, f"{self.name}-public"))

    def _dealt(self, split: splits.Split) -> Graph:
        """The same graph with the masks of a split."""
        masks = torch.zeros(3, self.num_nodes, dtype=torch.bool)
        for mask, ids in zip(masks, split[:3], strict=True):
            mask[torch.from_numpy(ids)] = True
        train, val, test = masks.to(self.device)
        return self.with_split(train, val, test, split.how, reads_labels=split.reads_labels)

    @property
    def _labels(self) -> Ids:
        """y in this machine's memory."""
        return self.y.cpu().numpy()

    # Views

    def labelled(self, part: str) -> Tensor:
        """The ids of "train", "val" or "test" that have a label, bool [n]: who scores, and teaches at edge level."""
        return self._labelled_parts[part]

    @cached_property
    def _labelled_parts(self) -> dict[str, Tensor]:
        masks = {role: getattr(self, role) for role in ROLES}
        known = self.y.ne(UNLABELLED)
        # One object at all times, the mask itself where all have labels: caches of public data compare by identity.
        return {role: mask if bool(known[mask].all()) else mask & known for role, mask in masks.items()}

    @cached_property
    def _as_public(self) -> PublicGraph:
        """This public graph as methods see it, without labels; one object, since caches compare by identity."""
        return PublicGraph(self.x, self.adj, ~(self.val | self.test))

    def seal(self, adjacency: Adjacency) -> tuple[Public, Sealed]:
        """What anyone may see under this adjacency, and the locked rest."""
        return seal(self, adjacency, self._cached.setdefault(adjacency, {}))

    def feature_rows(self) -> FeatureRows:
        """x [n, d], to be read some rows at a time: features on disk then take little memory."""
        return FeatureRows(self.x)

    def __repr__(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        count = self.num_edges if self.edge_parts is None else f"{len(self.edge_parts.files)} files of"
        return (
            f"Graph({self.name!r}, {self.num_nodes} nodes, {count} {kind} edges, "
            f"{self.num_features} features, {self.num_classes} classes, split={self.split!r})"
        )

    def _repr_html_(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        roles = ", ".join(f"{int(getattr(self, role).sum()):,} {role}" for role in ROLES)
        rows = [
            ("nodes", f"{self.num_nodes:,}"),
            (f"{kind} edges", f"{self.num_edges:,}"),
            ("features", f"{self.num_features:,}"),
            ("classes", self.num_classes if self.schema is None else ", ".join(self.schema.classes)),
            ("split", f"{self.split}: {roles}"),
        ]
        return facts(f"Graph {self.name}", rows)


def induced(graph: Graph, split: splits.Split, name: str) -> Graph:
    """The nodes of a split, in the order of their ids, and the edges among them."""
    inside = np.zeros(graph.num_nodes, dtype=bool)
    inside[np.concatenate(split[:3])] = True
    ids = np.flatnonzero(inside)
    there = torch.from_numpy(ids).to(graph.device)
    train, val, test = (torch.from_numpy(np.isin(ids, part)).to(graph.device) for part in split[:3])
    return Graph(
        x=graph.feature_rows()[there],
        adj=graph.adj.within(inside),
        y=graph.y[there],
        num_classes=graph.num_classes,
        undirected=graph.undirected,
        train=train,
        val=val,
        test=test,
        name=name,
        split=split.how,
        lineage=graph.lineage,
        split_reads_labels=split.reads_labels,
        every_id_present=graph.every_id_present,
        schema=graph.schema,
        ids=None if graph.ids is None else graph.ids.take(ids),
    )
