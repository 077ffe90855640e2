"""Graphs, checked once at the border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.checks import require_printable
from graphveil.data.arcs import Arcs, Csr, Ids
from graphveil.data.device_arcs import packed_on_device
from graphveil.data.lineage import (
    PYG_ATTRIBUTE,
    GraphOrigin,
    digest,
    from_text,
    handed_down,
    names_digest,
    of_file,
    to_text,
)
from graphveil.data.parts import EdgeParts, ScatteredArcs
from graphveil.data.schema import FeatureColumn, Schema
from graphveil.data.sealing import FeatureRows, Public, PublicGraph, Sealed, _Cached, out_degrees, seal
from graphveil.data.splits import exchange_sides, first_of_each_class, generator, shuffled
from graphveil.data.tensors import (
    SHORT,
    as_tensor,
    check_tensor,
    class_ids,
    count_classes,
    edge_index_arcs,
    matrix_arcs,
    node_features,
    real_features,
    require_networkx,
    role_mask,
)
from graphveil.errors import InvalidInput
from graphveil.runtime.html import facts
from graphveil.vocabulary import ROLES, UNLABELLED, Adjacency

_NOBODY: tuple[Ids, Ids] = (np.empty(0, np.int64), np.empty(0, np.int64))

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    from graphveil.data.encoding import Declared
    from graphveil.data.tables import Table


def _told_by_file(edges: Path, in_parts: bool) -> GraphOrigin | None:
    """The lineage of a table of edges; a release tells its edges in one file, which is read as a whole."""
    from graphveil.data.tables import part_files

    files = part_files(edges, "edges")
    told = [of_file(file) for file in files]
    if (in_parts or len(files) > 1) and any(told):
        raise InvalidInput("edges: a release told these edges; give its one file, and read it as a whole")
    return told[0]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An attributed graph without self-loops or parallel arcs, valid by construction.

    x: float32 [n, d], or bfloat16 or float16 to take half the memory; y: int64 [n], -1 where unlabelled; train, val,
    test: bool [n], disjoint; all of them on one device, see `to`;
    an undirected graph holds both arcs of every edge; split: how the split was made, in words;
    public_graph: that of `with_public`, which no adjacency protects; lineage: the release that told its edges.

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
        self._check_features()
        self._check_arcs()
        self._check_labels()
        self._check_masks()
        self._check_degrees()
        self._check_names()

    def _check_features(self) -> None:
        check_tensor(self.x, "x", self.x.dtype if self.x.dtype in SHORT else torch.float32, 2)
        if not self.x.shape[0]:
            raise InvalidInput("the graph has no nodes; give at least one row of features")
        if not self.x.shape[1]:
            raise InvalidInput("the nodes have no features; x needs at least one column")
        self._check_values()

    def _check_values(self) -> None:
        # A finite sum proves every entry finite without a mask as large as x; the converse fails on overflow.
        if not bool(self.x.sum().isfinite()) and not bool(self.x.isfinite().all()):
            row, column = (int(i) for i in (~self.x.isfinite()).nonzero()[0])
            raise InvalidInput(f"x row {row}, column {column} is {self.x[row, column].item()}; features must be finite")

    def _check_arcs(self) -> None:
        if not isinstance(self.adj, Csr):
            raise InvalidInput(f"adj must be a Csr, got {type(self.adj).__name__}")
        if self.adj.num_nodes != self.num_nodes:
            raise InvalidInput(f"adj has {self.adj.num_nodes} rows, but x has {self.num_nodes}; they must agree")
        if isinstance(self.adj, ScatteredArcs) and self.adj.parts.undirected != self.undirected:
            # Plans charge an edge by what the graph says, and workers read it as the parts say.
            said = "undirected" if self.adj.parts.undirected else "directed"
            raise InvalidInput(f"the edges in parts were opened as {said} ones; open them again to read them otherwise")
        if self.adj.has_loops() or (self.undirected and not self.adj.is_symmetric()):
            # Finding the arc to point at takes copies of all arcs, so it is left for failures.
            arcs = Arcs(self.adj.indices, self.adj.targets(), self.num_nodes, "arc")
            arcs.require_no_loops()
            arcs.require_symmetric()

    def _check_labels(self) -> None:
        check_tensor(self.y, "y", torch.int64, 1)
        if len(self.y) != self.num_nodes:
            raise InvalidInput(f"y has {len(self.y)} entries, but x has {self.num_nodes} rows; they must agree")
        bad = ((self.y < UNLABELLED) | (self.y >= self.num_classes)).nonzero()
        if len(bad):
            row = int(bad[0])
            raise InvalidInput(
                f"y row {row} is {int(self.y[row])}; labels must lie in 0..{self.num_classes - 1}, "
                "or be -1 for an unlabelled node"
            )

    def _check_masks(self) -> None:
        masks = [self.train, self.val, self.test]
        places = {str(part.device) for part in (self.x, self.y, *masks)}
        if len(places) > 1:
            raise InvalidInput(f"x, y and the masks lie on different devices ({', '.join(sorted(places))}); use one")
        for role, mask in zip(ROLES, masks, strict=True):
            check_tensor(mask, f"the {role} mask", torch.bool, 1)
            if len(mask) != self.num_nodes:
                raise InvalidInput(f"the {role} mask has {len(mask)} entries, but there are {self.num_nodes} nodes")
        times = torch.stack(masks).sum(0)
        if bool((times > 1).any()):
            row = int((times > 1).nonzero()[0])
            roles = [role for role, mask in zip(ROLES, masks, strict=True) if mask[row]]
            raise InvalidInput(f"node {row} is in more than one split ({', '.join(roles)}); keep one")

    def _check_degrees(self) -> None:
        """Stated degrees are at least those of the arcs that are here: with fewer, the statement is false.

        This looks at private arcs. It is said to the data holder, before anything is charged or released, and never for
        a graph of the population that was stated: docs/methods/heterpoisson.md.
        """
        if self.degrees is None:
            return
        if not isinstance(self.degrees, np.ndarray) or self.degrees.dtype != np.int64:
            raise InvalidInput("the degrees must be a numpy array of int64")
        if self.degrees.shape != (self.num_nodes,) or bool((self.degrees < 0).any()):
            raise InvalidInput(f"the degrees must be {self.num_nodes} whole numbers of at least 0, one for every id")
        over = np.flatnonzero(out_degrees(self) > self.degrees)
        if len(over):
            raise InvalidInput(
                f"id {over[0]} points to more training ids than the {self.degrees[over[0]]} that were stated: the "
                "statement is not true of this population; state degrees that hold with every id present"
            )

    def _check_names(self) -> None:
        if self.ids is not None and len(self.ids) != self.num_nodes:
            raise InvalidInput(f"there are {len(self.ids)} ids, but {self.num_nodes} nodes; they must agree")
        if self.schema is None:
            return
        named, found = (self.schema.width, len(self.schema.classes)), (self.num_features, self.num_classes)
        if named != found:
            raise InvalidInput(
                f"the schema names {named[0]} features and {named[1]} classes; the graph has {found[0]} and {found[1]}"
            )

    @classmethod
    def from_pyg(cls, data: Data, *, undirected: bool | None = None, clean: bool = False, name: str = "graph") -> Graph:
        """From a PyG `Data` with x, edge_index and y, and masks if it has them.

        `undirected=None` asks whether every arc's opposite is there; edge weights and other attributes are not read.
        """
        for part in ("x", "edge_index", "y"):
            if not isinstance(getattr(data, part, None), Tensor):
                raise InvalidInput(
                    f"the PyG data has no tensor {part!r}; graphveil needs x, edge_index and y of one homogeneous graph"
                )
        x, y = real_features(data.x), class_ids(data.y)
        said: Any = getattr(data, "num_nodes", None)
        if said is not None and as_tensor(said, "num_nodes").reshape(-1).tolist() != [len(x)]:
            raise InvalidInput(f"num_nodes is {said}, but x has {len(x)} rows; they must agree")
        adj, known = _pyg_arcs(data.edge_index, x, undirected, clean)
        stored = {role: getattr(data, f"{role}_mask", None) for role in ROLES}
        masks = {role: role_mask(mask, role) for role, mask in stored.items() if mask is not None}
        told = getattr(data, PYG_ATTRIBUTE, None)
        lineage = None if told is None else from_text(told)
        return cls._assemble(x, adj, y, known, name, masks, lineage=lineage)

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
        features = real_features(x.toarray() if sp.issparse(x) else x)
        arcs = matrix_arcs(adjacency, len(features), clean)
        arcs.require_known_ids()
        known = arcs.is_symmetric() if undirected is None else undirected
        return cls._assemble(features, arcs.to_csr(undirected=known, clean=clean), class_ids(y), known, name)

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
        require_networkx(g)
        from graphveil.data.columns import class_names, classes_of, masks_of
        from graphveil.data.tables import text_column

        names = np.fromiter(g.nodes, dtype=object, count=len(g))
        position = {node: i for i, node in enumerate(g.nodes)}
        ends = np.array([[position[end] for end in edge[:2]] for edge in g.edges], dtype=np.int64)
        ends = ends.reshape(-1, 2)
        arcs = Arcs(ends[:, 0], ends[:, 1], len(g), "edge", names)
        undirected = not g.is_directed()
        adj = arcs.once_to_csr(clean=clean) if undirected else arcs.to_csr(undirected=False, clean=clean)
        columns = {part: [data.get(part) for _, data in g.nodes(data=True)] for part in (label, split)}
        labels = text_column(columns[label], "node", label)
        y = classes_of(labels, "node")
        masks = masks_of(text_column(columns[split], "node", split), "node")
        made = cls._assemble(node_features(g, features), adj, y, undirected, name, masks)
        numbers = (FeatureColumn(features, size=made.num_features),)
        return replace(made, schema=Schema(tuple(map(str, class_names(labels))), numbers, label=label))

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
        schema: that of a release, `release.schema`: columns and classes are found by its names and put in its order,
        whatever theirs is here, and labels may be missing.
        in_parts: edges is a Parquet file or a pattern of them, "parts/*.parquet", whose rows are left where they are
        for the workers of an engine to count (docs/large-graphs.md); `graph.edge_parts` knows them, and no arc is here.
        """
        # Arrow is loaded where tables are read: training needs none.
        from graphveil.data.columns import (
            class_names,
            classes_of,
            kept_columns,
            masks_of,
            no_column,
            node_ids,
            read_edges,
        )
        from graphveil.data.encoding import encoded_columns, feature_columns, read_declared
        from graphveil.data.tables import read_table

        if encode not in (None, "auto"):
            raise InvalidInput(f"unknown encode={encode!r}; use auto, or declare columns with categories")
        if schema is not None and (encode is not None or categories is not None or classes is not None):
            raise InvalidInput(
                "a schema says how columns and classes are read; leave encode, categories and classes out"
            )
        known = schema or Schema((), ())
        id, label = id or known.id, label or known.label
        dates = any(each is not None for each in (encode, categories, schema))
        table = read_table(nodes, "nodes", kept_columns(drop, "nodes"), encoding, dates)
        for holds, column in {"id": id, **({"label": label} if classes is None and schema is None else {})}.items():
            if column not in table:
                raise InvalidInput(no_column(column, holds, list(table)))
        ids = node_ids(table[id])
        arcs, adj = Arcs.none(len(ids)), Csr.empty(len(ids))
        if in_parts:
            if not isinstance(edges, str | Path) or weight is not None:
                raise InvalidInput("edges in parts are Parquet files, without weights: --edges 'parts/*.parquet'")
            adj = ScatteredArcs(EdgeParts.of(edges, ids, source, target, undirected=undirected, clean=clean))
        elif edges is not None:
            arcs = read_edges(edges, ids, source, target, weight, clean=clean, encoding=encoding)
            adj = arcs.once_to_csr(clean=clean) if undirected else arcs.to_csr(undirected=False, clean=clean)
        features = {key: table[key] for key in table if key not in (id, label, split)}
        if schema is None:
            declared = read_declared(categories) if isinstance(categories, str | Path) else categories or {}
            columns = encoded_columns(features, declared, auto=encode == "auto")
        else:
            schema.require_columns(list(features), "nodes: the table")
            columns = schema.columns
        x = feature_columns(features, len(ids), columns)
        given = classes if schema is None else schema.classes
        y = classes_of(table[label], "nodes row", given) if label in table else torch.full((len(ids),), UNLABELLED)
        names = given if given is not None else class_names(table[label])
        masks = masks_of(table[split], "nodes row") if split in table else None
        lineage = _told_by_file(Path(edges), in_parts) if isinstance(edges, str | Path) else None
        made = cls._assemble(x, adj, y, undirected, name, masks, len(names), lineage)
        words = arcs.repairs(undirected) if clean and not in_parts else ""
        return replace(made, schema=Schema(tuple(map(str, names)), columns, id, label), ids=ids, cleaned=words)

    @classmethod
    def _assemble(
        cls,
        x: Tensor,
        adj: Csr,
        y: Tensor,
        undirected: bool,
        name: str,
        masks: Mapping[str, Tensor] | None = None,
        classes: int | None = None,
        lineage: GraphOrigin | None = None,
    ) -> Graph:
        """The graph with whatever masks are known; those that are not are empty. Labels show how many classes."""
        given = masks or {}
        train, val, test = (given.get(role, torch.zeros(len(x), dtype=torch.bool, device=x.device)) for role in ROLES)
        split = "given" if any(bool(mask.any()) for mask in given.values()) else "none"
        count = count_classes(y) if classes is None else classes
        told = handed_down(adj, lineage)
        return cls(x, told, y, count, undirected, train, val, test, name, split, lineage=lineage)

    def to_pyg(self) -> Data:
        """As a PyG `Data` with x, edge_index, y and the three masks, and the lineage of a graph that has one."""
        from torch_geometric.data import Data

        masks = {f"{role}_mask": getattr(self, role) for role in ROLES}
        told = {} if self.lineage is None else {PYG_ATTRIBUTE: to_text(self.lineage)}
        return Data(x=self.x, edge_index=self.adj.edge_index(), y=self.y, **masks, **told)

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
        # What is sent there is sent once, for all runs.
        made: Graph | None = self._elsewhere.get((there, kind))
        if made is None:
            parts = {name: getattr(self, name).to(there) for name in ("y", *ROLES)}
            beside = None if self.public_graph is None else self.public_graph.to(there, kind)
            made = replace(self, x=self.x.to(there, kind), adj=self.adj, public_graph=beside, **parts)
            self._elsewhere[there, kind] = made
        return made

    @cached_property
    def _elsewhere(self) -> dict[tuple[torch.device, torch.dtype], Graph]:
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
        """Where the edges lie, if that is not here (`from_edges(in_parts=True)`)."""
        return self.adj.parts if isinstance(self.adj, ScatteredArcs) else None

    def fingerprint(self) -> str:
        """SHA-256 of what is private under some unit; splits of one dataset share it, and so its budget."""
        arrays = (self.x, self.adj.indptr, self.adj.indices, self.y)
        return digest(*arrays, np.array(self.undirected), after=self.let_go)

    def public_digest(self, adjacency: Adjacency) -> str:
        """SHA-256 of the sizes and of those parts that the adjacency leaves public; splits share it."""
        sizes = np.array([*self.sizes, self.undirected])
        # Arcs are asked for only where they are public: private ones may lie elsewhere.
        parts = {"x": (self.x,), "y": (self.y,), "edges": () if "edges" in adjacency.private else self._arcs}
        open_parts: list[Any] = [
            array for part, arrays in parts.items() if part not in adjacency.private for array in arrays
        ]
        return digest(sizes, *open_parts, after=self.let_go)

    @property
    def _arcs(self) -> tuple[Ids, Ids]:
        return self.adj.indptr, self.adj.indices

    def public_graph_digest(self) -> str:
        """SHA-256 of the public graph beside this one; empty where there is none."""
        seen = self.public_graph
        return "" if seen is None else digest(seen.x, seen.adj.indptr, seen.adj.indices, after=seen.let_go)

    def arcs_were_released(self) -> bool:
        """Whether the arcs are those that the release of the lineage told: they know it, nobody compares them."""
        return self.adj.origin is not None

    def ids_digest(self) -> str:
        """SHA-256 of the ids in their order, which are public under every unit; empty where there are none."""
        return "" if self.ids is None else names_digest(self.ids.to_pylist())

    def split_hash(self) -> str:
        """SHA-256 of the three masks."""
        return digest(self.train, self.val, self.test)

    def training_hash(self) -> str:
        """SHA-256 of the training mask."""
        return digest(self.train)

    def with_split(self, train: Tensor, val: Tensor, test: Tensor, how: str, *, reads_labels: bool = False) -> Graph:
        """The same graph with other masks, each bool [n]; `how` says in words where they come from.

        `reads_labels`: they were drawn by looking at labels. Stated degrees are those of one split: state them again.
        """
        return replace(self, train=train, val=val, test=test, split=how, split_reads_labels=reads_labels, degrees=None)

    def with_arcs(self, adj: Csr) -> Graph:
        """The same nodes with other arcs. What was learnt from public data that both have is found by both.

        Degrees that were stated of the old arcs are not said of the new ones.
        """
        made = replace(self, adj=adj, degrees=None)
        object.__setattr__(made, "_cached", self._cached)
        return made

    def with_schema(self, schema: Schema) -> Graph:
        """The same graph, of which you state that its numbers stand for these columns and classes, in this order."""
        return replace(self, schema=schema, num_classes=max(self.num_classes, len(schema.classes)))

    def matched(self, schema: Schema) -> Graph:
        """The same graph with the columns and classes of `schema`, by name; refused where they cannot be told."""
        where = f"the graph {self.name!r}"
        if self.schema is None:
            raise InvalidInput(
                f"{where} has no names of columns and classes, and those of the release go by name: read its tables "
                "with Graph.from_edges(..., schema=release.schema), or state that the numbers stand in the same order "
                "with graph.with_schema(release.schema)"
            )
        order, classes = schema.order_of(self.schema, where), schema.classes_of(self.schema, where)
        in_order = np.array_equal(order, np.arange(len(order)))
        y = torch.from_numpy(np.append(classes, UNLABELLED)[self.y.cpu().numpy()]).to(self.device)
        return replace(
            self,
            x=self.x if in_order else self.x[:, torch.from_numpy(order).to(self.device)].contiguous(),
            y=self.y if torch.equal(y, self.y) else y,
            num_classes=len(schema.classes),
            schema=schema,
            public_graph=None if self.public_graph is None else self.public_graph._alike(self.schema).matched(schema),
        )

    def _alike(self, schema: Schema) -> Graph:
        """This public graph with names: its own, or those of the private one, whose order `with_public` took it for."""
        return self if self.schema is not None else self.with_schema(schema)

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
        try:
            given = np.asarray(degrees)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidInput(f"the degrees must be whole numbers, one for every id or one for all: {error}") from None
        if given.dtype.kind not in "iu" or given.ndim > 1 or (given.size and int(given.max()) > np.iinfo(np.int64).max):
            raise InvalidInput("the degrees must be whole numbers, one for every id or one for all")
        shared = np.full(self.num_nodes, given) if given.ndim == 0 else given
        return replace(self, degrees=shared.astype(np.int64))

    def stand_in(self, adjacency: Adjacency) -> Graph:
        """A graph that shows what this one shows, with private parts that are made up: for audits anybody may see.

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

    def random_split(self, train: float = 0.75, val: float = 0.10, test: float = 0.15, seed: int = 0) -> Graph:
        """A random split of all ids into these fractions, labelled or not: nobody's record moves anybody.

        That no training id has a label at all is said to the data holder, before anything can be released.
        """
        fractions = {"train": train, "val": val, "test": test}
        for role, fraction in fractions.items():
            if not 0 <= fraction <= 1:
                raise InvalidInput(f"the {role} fraction must lie in 0..1, got {fraction}")
        if sum(fractions.values()) > 1 + 1e-9:
            raise InvalidInput(f"the fractions {train}, {val}, {test} add up to more than 1")
        order = shuffled(np.arange(self.num_nodes), seed)
        sizes = [round(fraction * len(order)) for fraction in fractions.values()]
        parts = np.split(order[: sum(sizes)], np.cumsum(sizes)[:2])
        if not self._known[parts[0]].any():
            raise InvalidInput(f"a train fraction of {train} leaves no labelled node for training")
        return self._with_ids(parts, f"random({train:g},{val:g},{test:g},seed={seed})")

    def per_class_split(self, per_class: int = 20, val: int = 500, test: int = 1000, seed: int = 0) -> Graph:
        """`per_class` training nodes of every class, then `val` and `test` other labelled nodes: it looks at labels."""
        if per_class < 1 or val < 0 or test < 0:
            raise InvalidInput(f"sizes must be positive, got per_class={per_class}, val={val}, test={test}")
        order = shuffled(np.flatnonzero(self._known), seed)
        chosen = first_of_each_class(self.y.cpu().numpy(), self.num_classes, order, per_class)
        rest = order[~chosen]
        if len(rest) < val + test:
            raise InvalidInput(f"{len(rest)} labelled nodes are left after training; ask for fewer than {val} + {test}")
        parts = [order[chosen], rest[:val], rest[val : val + test]]
        return self._with_ids(parts, f"per_class({per_class},{val},{test},seed={seed})", reads_labels=True)

    def with_public(self, public: Graph) -> Graph:
        """The same private graph with a public one beside it, whose nodes are others and protected by nothing.

        The public graph needs no labels. Where it has some they score predictions, and no method reads them; its nodes
        outside val and test may be asked about. A private graph without a split trains on all its ids.
        """
        if not isinstance(public, Graph):
            raise InvalidInput(f"the public graph must be a graphveil Graph, got {type(public).__name__}")
        if public.public_graph is not None or (public.x.shape == self.x.shape and torch.equal(public.x, self.x)):
            raise InvalidInput("the public graph must be another graph than the private one, with none beside it")
        if public.schema is not None and self.schema is not None:
            public = public.matched(self.schema)
        if public.num_features != self.num_features:
            raise InvalidInput(
                f"the public graph has {public.num_features} features, but the private one has {self.num_features}; "
                "give both the same columns"
            )
        if public.undirected != self.undirected:
            raise InvalidInput("one of the private and the public graph is directed, the other is not; make them alike")
        if public.num_classes > self.num_classes:
            raise InvalidInput(
                f"the public graph has {public.num_classes} classes, but the private one has {self.num_classes}: "
                "nobody could teach the others"
            )
        name = f"{public.name}-public" if public.name == self.name else public.name
        kept = self if self.split != "none" else self._with_ids([np.arange(self.num_nodes), *_NOBODY], "all train")
        return replace(kept, public_graph=replace(public, num_classes=self.num_classes, name=name, schema=self.schema))

    def split_public(
        self, private: int, queries: int, test: int, seed: int = 0, balanced: bool = False, exchanged: bool = False
    ) -> Graph:
        """Two graphs out of one, for benchmarks: disjoint sets of ids drawn at random, and the edges inside each.

        The private graph has `private` nodes, which train. The public graph beside it has `queries` + `test` others:
        its `train` mask holds those that may be asked about, its `test` mask those that score predictions. Edges
        between the two graphs are dropped, and so are ids that were not drawn. All ids are dealt out, labelled or not.
        `balanced` draws as many private nodes of every class, so it looks at labels; the rest of the ids is dealt out
        whatever their class.
        `exchanged` makes the same draw and then calls the `queries` + `test` nodes private and the others public, of
        which the same share is tested.
        """
        sizes = {"private": private, "query": queries, "test": test}
        if min(sizes.values()) < 1 or sum(sizes.values()) > self.num_nodes:
            wanted = ", ".join(f"{size} {role}" for role, size in sizes.items())
            raise InvalidInput(f"cannot draw {wanted} nodes from {self.num_nodes}; each needs at least one")
        rng = generator(seed)
        order = rng.permutation(np.arange(self.num_nodes))
        if balanced:
            if private % max(self.num_classes, 1):
                raise InvalidInput(f"{private} private nodes cannot be shared equally among {self.num_classes} classes")
            known = order[self._known[order]]
            ours = known[
                first_of_each_class(self.y.cpu().numpy(), self.num_classes, known, private // self.num_classes)
            ]
            # Shuffled again: what the first of every class left of the rare ones stands at the end.
            order = np.concatenate([ours, rng.permutation(np.setdiff1d(order, ours))])
        how = f"two_graphs({private}{' balanced' * balanced},{queries},{test}{',exchanged' * exchanged},seed={seed})"
        ours, asked, scored = np.split(order[: private + queries + test], [private, private + queries])
        if exchanged:
            ours, asked, scored = exchange_sides(ours, asked, scored, rng)
        kept = self.induced([ours, *_NOBODY], self.name, how, reads_labels=balanced)
        if not bool(kept.labelled("train").any()):
            raise InvalidInput(f"none of the {len(ours)} private nodes has a label; draw more")
        return kept.with_public(self.induced([asked, _NOBODY[0], scored], f"{self.name}-public", how))

    def induced(self, parts: list[Ids], name: str, how: str, *, reads_labels: bool = False) -> Graph:
        """The train, val and test nodes of three disjoint parts, int64 [k], by their ids, and the edges among them."""
        inside = np.zeros(self.num_nodes, dtype=bool)
        inside[np.concatenate(parts)] = True
        ids = np.flatnonzero(inside)
        train, val, test = (torch.from_numpy(np.isin(ids, part)).to(self.device) for part in parts)
        return Graph(
            x=self.rows(ids),
            adj=self.adj.within(inside),
            y=self.y[torch.from_numpy(ids).to(self.device)],
            num_classes=self.num_classes,
            undirected=self.undirected,
            train=train,
            val=val,
            test=test,
            name=name,
            split=how,
            lineage=self.lineage,
            split_reads_labels=reads_labels,
            every_id_present=self.every_id_present,
            schema=self.schema,
            ids=None if self.ids is None else self.ids.take(ids),
        )

    @cached_property
    def _seen(self) -> PublicGraph:
        """This public graph as methods see it; the same object each time, so that what was learnt from it is found."""
        return PublicGraph(self.x, self.adj, ~(self.val | self.test))

    def labelled(self, part: str) -> Tensor:
        """The ids of "train", "val" or "test" that have a label, bool [n]: who scores, and teaches at edge level."""
        return self._labelled_parts[part]

    @cached_property
    def _labelled_parts(self) -> dict[str, Tensor]:
        masks = {role: getattr(self, role) for role in ROLES}
        known = self.y.ne(UNLABELLED)
        # The same object where all have labels, and each time: what was learnt from public data is found by it.
        return {role: mask if bool(known[mask].all()) else mask & known for role, mask in masks.items()}

    @property
    def _known(self) -> NDArray[np.bool_]:
        """Which ids have a label, bool [n]."""
        known: NDArray[np.bool_] = self.y.cpu().numpy() != UNLABELLED
        return known

    def _with_ids(self, parts: list[Ids], how: str, *, reads_labels: bool = False) -> Graph:
        masks = torch.zeros(3, self.num_nodes, dtype=torch.bool)
        for mask, ids in zip(masks, parts, strict=True):
            mask[torch.from_numpy(ids)] = True
        masks = masks.to(self.device)
        return self.with_split(masks[0], masks[1], masks[2], how, reads_labels=reads_labels)

    def seal(self, adjacency: Adjacency) -> tuple[Public, Sealed]:
        """What anyone may see under this adjacency, and the locked rest."""
        return seal(self, adjacency, self._cached.setdefault(adjacency, {}))

    def rows(self, nodes: Ids) -> Tensor:
        """Features of some nodes, float32 [k, d]; a graph on disk reads them with little memory. nodes: int64 [k]."""
        return self.feature_rows()[torch.from_numpy(nodes).to(self.device)]

    def feature_rows(self) -> FeatureRows:
        """x [n, d], for whoever reads it row by row."""
        return FeatureRows(self.x)

    def let_go(self) -> None:
        """Give back memory that only mirrors files; a graph in memory has none. Called after every release."""
        self.feature_rows().let_go()

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


def _pyg_arcs(edge_index: Tensor, x: Tensor, undirected: bool | None, clean: bool) -> tuple[Csr, bool]:
    """PyG's [2, m] as arcs, and whether they are taken for undirected; on a GPU they are packed there if they can."""
    if x.device.type != "cpu" and not clean and edge_index.dtype in (torch.int32, torch.int64):
        try:
            packed = packed_on_device(edge_index.to(x.device), len(x))
            symmetric = packed.is_symmetric()
            if not packed.has_loops() and not (undirected and not symmetric):
                return packed, symmetric if undirected is None else undirected
        except InvalidInput:
            pass  # told in words below, with the place
    arcs = edge_index_arcs(edge_index, len(x))
    arcs.require_known_ids()
    known = arcs.is_symmetric() if undirected is None else undirected
    return arcs.to_csr(undirected=known, clean=clean), known
