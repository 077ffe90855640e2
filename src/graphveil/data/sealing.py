"""A graph under an adjacency: the parts that are public, and the private rest, which only a session can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from graphveil.checks import quoted
from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput, PrivateAccess, Unsupported
from graphveil.vocabulary import ROLES, Adjacency, Unit

if TYPE_CHECKING:
    from graphveil.data.graph import Graph

T = TypeVar("T")

PUBLIC_GRAPH_APART = "no node of the public graph is a private one, and nothing in it was made from private nodes"
"""What a step assumes whose method reads the public graph beside a private one."""

OUTSIDE_UNPROTECTED = (
    "nodes outside training are not protected: their features and the edges among them are read freely, and whatever "
    "is released may tell them; another run on the same data must not train on them"
)
"""What a step assumes whose method reads `Public.outside_training`."""

PUBLIC_DEGREES = "how many training ids each id points to, with every id of the fixed population present, is public"
"""What a NODE-level step assumes when it reads `Public.out_degrees`; see `Public.degrees_assumed`."""

_COUNTED = f"{PUBLIC_DEGREES}: counted in this graph, in which every id is present, as the data holder states"
_STATED = f"{PUBLIC_DEGREES}: bounds stated by the data holder, which hold whoever is present"

_MAX_PLANNED = 500_000_000
"""Nodes that a budget is planned for without data: a graph of more does not fit the memory anyway."""


@dataclass(frozen=True, eq=False)
class _Cached:
    """What was computed from public `parts` under a seed."""

    seed: int
    parts: tuple[Any, ...]
    made: Any


@dataclass(frozen=True, eq=False)
class PublicGraph:
    """The public graph beside a private one, without labels; nothing of it is private.

    x: float32 [m, d]; adj: all its arcs; queryable: bool [m], the nodes whose labels a method may query.
    """

    x: Tensor
    adj: Csr
    queryable: Tensor

    @property
    def num_nodes(self) -> int:
        """m."""
        return self.x.shape[0]


@dataclass(frozen=True, eq=False)
class Outside:
    """The nodes outside training, without labels, where only training nodes are protected.

    nodes: their ids, int64 [m]; x: float32 [m, d]; adj: the arcs among them, by position.
    """

    nodes: Ids
    x: Tensor
    adj: Csr


class Pages(Protocol):
    """The memory that mirrors a file."""

    def evict(self) -> None:
        """Free it, if it is much."""


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features x [n, d], read some rows at a time. Knows nothing else of a graph.

    pages: of features on disk; known_finite: all values were seen to be finite when the file was read.
    """

    x: Tensor
    pages: Pages | None = None
    known_finite: bool = False

    @property
    def shape(self) -> torch.Size:
        """(n, d)."""
        return self.x.shape

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        """The rows `which`, float32: ids int64 [*] give [*, d], a slice [m, d]."""
        if isinstance(which, slice) or self.pages is None:
            self.evict()
            return self.x[which].to(torch.float32)
        ids = which.flatten()
        found = torch.empty(len(ids), self.x.shape[1])
        # In the order of the file, so that few pages are in memory at a time.
        for part in torch.split(ids.argsort(), ROWS):
            found[part] = self.x[ids[part]].to(torch.float32)
            self.evict()
        return found.view(*which.shape, self.x.shape[1])

    def evict(self) -> None:
        """Free the pages that were read from a file, if they are many."""
        if self.pages is not None:
            self.pages.evict()

    def __reduce__(self) -> tuple[type[FeatureRows], tuple[Tensor]]:
        """A copy elsewhere has the features, and no file."""
        return FeatureRows, (self.x,)


ROWS = 256
"""Rows that are gathered at a time: each may load the huge page around it, 2 MB."""


class OpenOutside:
    """Gives the nodes outside training, which NODE and FEATURES leave unprotected, and nothing else of a graph.

    A copy, or one sent to another process, holds these nodes and leaves the graph behind.
    """

    __slots__ = ("__graph", "__shown")

    def __init__(self, graph: Graph | None, shown: Outside | None = None) -> None:
        self.__graph, self.__shown = graph, shown

    def __call__(self) -> Outside:
        if self.__shown is None:
            assert self.__graph is not None
            outside = ~self.__graph.train.cpu().numpy()
            nodes = np.flatnonzero(outside)
            x = self.__graph.feature_rows()[torch.from_numpy(nodes).to(self.__graph.device)]
            self.__shown = Outside(nodes, x, self.__graph.adj.within(outside))
        return self.__shown

    def of_same_graph(self, other: OpenOutside) -> bool:
        """Whether both read the same features and arcs; masks are public."""
        mine, theirs = self.__graph, other.__graph
        if mine is None or theirs is None:
            return self.__shown is other.__shown
        return mine.x is theirs.x and mine.adj is theirs.adj

    def __reduce__(self) -> tuple[type[OpenOutside], tuple[None, Outside]]:
        return OpenOutside, (None, self())


def _same(one: Any, other: Any) -> bool:
    """Whether two public parts are one and the same."""
    if isinstance(one, OpenOutside) and isinstance(other, OpenOutside):
        return one.of_same_graph(other)
    return one is other


@dataclass(frozen=True, eq=False, repr=False)
class Public:
    """What a plan may depend on: sizes, masks and the parts that the adjacency leaves public.

    x: float32 [n, d]; y: int64 [n]; each of x, y and adj is None where private; masks: bool [n], with blank and
    unlabelled ids where labels are private, of labelled ones where they are public; degrees, degrees_basis: see
    `out_degrees` and `degrees_assumed`; public_graph: see `require_public_graph`; outside: see `outside_training`;
    rows: see `feature_rows`.
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
    degrees: Ids | None = None
    degrees_basis: str = ""
    _cached: dict[str, _Cached] = field(default_factory=dict)
    public_graph: PublicGraph | None = None
    outside: OpenOutside | None = None
    rows: FeatureRows | None = None

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
            if not _is_size(size) or not 1 <= size <= _MAX_PLANNED:
                raise InvalidInput(f"the number of {what} must lie in 1..{_MAX_PLANNED:,}, got {quoted(size)}")
        count = round(0.75 * num_nodes) if num_train is None else num_train
        if not _is_size(count) or not 0 <= count <= num_nodes:
            raise InvalidInput(f"num_train must lie in 0..{num_nodes}, got {quoted(count)}")
        none, train = torch.zeros(2, num_nodes, dtype=torch.bool)
        train[:count] = True
        sizes = (num_nodes, num_features, num_classes, undirected)
        return cls(*sizes, None, None, None, train, none, none, degrees_basis=PUBLIC_DEGREES)

    def features(self) -> Tensor:
        """x, float32 [n, d], if it is public."""
        return self.x if self.x is not None else _refuse("features (x)")

    def feature_rows(self) -> FeatureRows:
        """x, [n, d], if it is public, to be read some rows at a time: features on disk then take little memory."""
        if self.rows is not None and self.rows.x is self.x:
            return self.rows
        return FeatureRows(self.features())

    def labels(self) -> Tensor:
        """y, int64 [n], if it is public."""
        return self.y if self.y is not None else _refuse("labels (y)")

    def arcs(self) -> Csr:
        """The arcs, if they are public."""
        return self.adj if self.adj is not None else _refuse("edges (adj)")

    def require_public_graph(self) -> PublicGraph:
        """The public graph beside the private one, if there is one."""
        if self.public_graph is None:
            raise InvalidInput(
                "there is no public graph beside the private one; give it with graph.with_public(public), or on the "
                "command line with --public-edges and --public-nodes, or --split two_graphs for a named dataset"
            )
        return self.public_graph

    def outside_training(self) -> Outside:
        """The nodes outside training, where labels are private and so training nodes alone are protected.

        They are public by assumption alone: a step that reads them lists `OUTSIDE_UNPROTECTED` in what it assumes.
        """
        if self.outside is None:
            raise PrivateAccess("nodes outside training are open under units node and features only")
        return self.outside()

    def cache_public(self, what: str, build: Callable[[], T]) -> T:
        """What `build` computes from public data under torch's present seed, cached for the next runs on this graph.

        Random draws of `build` leave torch's stream alone, so that a run is the same with and without the cache.
        """
        seed, parts = (
            torch.initial_seed(),
            (self.x, self.y, self.adj, self.train, self.val, self.test, self.public_graph, self.outside),
        )
        kept = self._cached.get(what)
        if kept is None or kept.seed != seed or not all(map(_same, kept.parts, parts)):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                kept = self._cached[what] = _Cached(seed, parts, build())
        made: T = kept.made
        return made

    def out_degrees(self) -> Ids:
        """How many training ids each id sends an arc to at most, whoever is present, int64 [n]; unit NODE only.

        Under NODE the arcs are private, and these numbers are public by assumption alone: a step that reads them lists
        `degrees_assumed` in what it assumes.
        """
        if self.degrees is None:
            raise PrivateAccess(
                "public out-degrees exist under unit node only, and only where the data holder of a graph states them"
            )
        return self.degrees

    def degrees_assumed(self) -> str:
        """What a step assumes that reads `out_degrees`: that they are public, and who states it.

        Refused where nobody states it: degrees that are counted in a graph with blank ids reveal who is blank.
        """
        if not self.degrees_basis:
            raise InvalidInput(
                "this method needs public degrees: how many training ids each id points to with every id of the "
                "population present. State them with graph.with_degrees(degrees) (--population-degrees), or state that "
                "no id of this graph is blank with graph.with_every_id_present() (--every-id-present). Where degrees "
                "are not public, use dpsgd"
            )
        return self.degrees_basis

    def __repr__(self) -> str:
        parts = {"x": self.x, "y": self.y, "adj": self.adj}
        shown = ", ".join(name for name, part in parts.items() if part is not None) or "none"
        return f"Public({self.num_nodes} nodes, {self.num_classes} classes, public parts: {shown})"


class Sealed:
    """All parts of a graph, of which the private ones can be read only while the gate is open.

    It takes parts rather than a Graph so that a neighbouring graph, with a blanked node say, can be sealed
    beside the same public view; what is absent from `public` is private.
    """

    __slots__ = ("__adj", "__derived", "__open", "__owner", "__rows", "__y", "public")

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        adj: Csr,
        public: Public,
        rows: FeatureRows | None = None,
    ) -> None:
        self.__rows, self.__y, self.__adj = FeatureRows(x) if rows is None else rows, y, adj
        self.__open = False
        self.__derived: dict[str, Any] = {}
        self.__owner = ""
        self.public = public

    @property
    def x(self) -> Tensor:
        """Features, float32 [n, d]."""
        self.__require_open(self.public.x is None, "features (x)")
        return self.__rows.x

    def rows(self, nodes: Ids) -> Tensor:
        """Features of some nodes, float32 [k, d]; nodes: int64 [k]. Unlike `x[...]`, it evicts pages of a file."""
        self.__require_open(self.public.x is None, "features (x)")
        return self.__rows[torch.from_numpy(nodes).to(self.__rows.x.device)]

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
        """`build(self)`, computed once and cached behind the gate: private work shared by many releases."""
        self.__require_open(True, f"derived {name}")
        if name not in self.__derived:
            self.__derived[name] = build(self)
        kept: T = self.__derived[name]
        return kept

    def derive_for(self, owner: str) -> None:
        """Drop what was derived for another owner, where a name may mean something else, under other bounds."""
        if owner != self.__owner:
            self.__derived.clear()
            self.__owner = owner

    def __require_open(self, private: bool, part: str) -> None:
        if private and not self.__open:
            raise PrivateAccess(f"the {part} are private and were read outside Session.release")

    @contextmanager
    def opened(self) -> Iterator[Sealed]:
        """Open the gate for one block: for `Session.release`, and for attackers on graphs that they know."""
        if self.__open:
            raise PrivateAccess("the sealed graph is already open; a release cannot run inside another")
        self.__open = True
        try:
            yield self
        finally:
            self.__open = False
            self.__rows.evict()

    def __reduce__(self) -> NoReturn:
        raise PrivateAccess("a sealed graph cannot be pickled or copied; seal the graph where it is used")

    def __repr__(self) -> str:
        return f"Sealed({self.public.num_nodes} nodes, {'open' if self.__open else 'closed'})"


def seal(graph: Graph, adjacency: Adjacency, cached: dict[str, _Cached]) -> tuple[Public, Sealed]:
    """The public part under this adjacency, and the locked rest; cached: see `Public.cache_public`."""
    if adjacency.unit is Unit.EDGE and adjacency.undirected != graph.undirected:
        kind = {True: "undirected", False: "directed"}
        raise InvalidInput(
            f"the adjacency protects an {kind[adjacency.undirected]} edge, but graph {graph.name!r} is "
            f"{kind[graph.undirected]}; use Adjacency.of('edge', undirected={graph.undirected})"
        )
    private = adjacency.private
    if graph.edge_parts is not None and adjacency.unit is not Unit.EDGE:
        raise Unsupported(
            f"the edges of {graph.name!r} lie in parts, which are counted at unit edge only; read the graph as a whole"
        )
    # Where labels are public so is who has one. Elsewhere a mask without blank ids would reveal who is blank.
    train, val, test = (getattr(graph, role) if "y" in private else graph.labelled(role) for role in ROLES)
    degrees, degrees_basis = _population_degrees(graph) if adjacency.unit is Unit.NODE else (None, "")
    public = Public(
        num_nodes=graph.num_nodes,
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        undirected=graph.undirected,
        x=None if "x" in private else graph.x,
        y=None if "y" in private else graph.y,
        adj=None if "edges" in private else graph.adj,
        train=train,
        val=val,
        test=test,
        degrees=degrees,
        degrees_basis=degrees_basis,
        _cached=cached,
        public_graph=None if graph.public_graph is None else graph.public_graph._as_public,
        # Not cached with the rest: graphs that share it may differ in these arcs.
        outside=OpenOutside(graph) if "x" in private else None,
        rows=None if "x" in private else graph.feature_rows(),
    )
    return public, Sealed(graph.x, graph.y, graph.adj, public, graph.feature_rows())


def _population_degrees(graph: Graph) -> tuple[Ids | None, str]:
    """How many training ids each id points to in the population, as the data holder states, and how; or nothing."""
    if graph.degrees is not None:
        return graph.degrees, _STATED
    return (out_degrees(graph), _COUNTED) if graph.every_id_present else (None, "")


def out_degrees(graph: Graph) -> Ids:
    """How many training ids each id sends an arc to here, int64 [n]."""
    of_training = np.repeat(graph.train.cpu().numpy(), np.diff(graph.adj.indptr))
    return np.bincount(graph.adj.indices[of_training], minlength=graph.num_nodes)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse(part: str) -> NoReturn:
    raise PrivateAccess(f"the {part} are private here; ask for them through Session.release")
