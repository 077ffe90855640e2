"""Options that name a graph, and the graph that they name."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.output import echo
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.data.graph import Graph
    from graphveil.data.schema import Schema
    from graphveil.data.tables import Table


@dataclass(frozen=True)
class GraphOptions:
    """A dataset or the user's own graph, from tables or packed; a public one beside it; what the user states of it."""

    dataset: Annotated[str | None, Argument(metavar="DATASET", help="Name of a dataset, or give your own graph.")] = (
        None
    )
    edges: Annotated[Path | None, Option(help="Your edge table, .csv or .parquet; or 'parts/*.parquet'.")] = None
    nodes: Annotated[Path | None, Option(help="Your node table: id, label, features, maybe split.")] = None
    packed: Annotated[Path | None, Option(help="Your own graph: folder written by `graphveil data pack`.")] = None
    public_edges: Annotated[Path | None, Option(help="Edge table of a public graph: not protected.")] = None
    public_nodes: Annotated[Path | None, Option(help="Node table of the public graph; labels may be missing.")] = None
    id: Annotated[str | None, Option(help="Column of the node table with the ids; default: id.")] = None
    label: Annotated[str | None, Option(help="Column of the node table with the labels; default: label.")] = None
    source: Annotated[str | None, Option(help="Column of the edge table with the sources; default: source.")] = None
    target: Annotated[str | None, Option(help="Column of the edge table with the targets; default: target.")] = None
    weight: Annotated[str | None, Option(help="Column of edge weights: 0 is no edge, others need --clean.")] = None
    drop: Annotated[list[str] | None, Option(help="Column of the node table that is no feature. Repeatable.")] = None
    encode: Annotated[str | None, Option(help="auto: text, dates and blanks of public features become numbers.")] = None
    categories: Annotated[
        Path | None, Option(help='JSON file that declares columns: {"branch": ["Basel", "Bern"], "opened": "date?"}.')
    ] = None
    encoding: Annotated[str, Option(help="Of CSV files: utf-8, latin-1, cp1252, ...")] = "utf-8"
    directed: options.Directed = False
    clean: Annotated[bool, Option("--clean", help="Drop self-loops and duplicates instead of refusing them.")] = False
    split: Annotated[
        str | None,
        Option(
            help="random (75/10/15), public, per_class, two_graphs (a private graph beside a public one) or none (to "
            "predict on a graph that was not trained on). A split column of your graph comes first. Default: random; "
            "with --public-nodes all nodes train."
        ),
    ] = None
    split_seed: Annotated[int, Option(help="Seed of the split.")] = 0
    split_reads_labels: Annotated[
        bool, Option("--split-reads-labels", help="You state that labels were read to make your graph's own split.")
    ] = False
    every_id_present: Annotated[bool, Option("--every-id-present", help="You state that no id is blank.")] = False
    population_degrees: Annotated[
        str | None,
        Option(
            metavar="NUMBER|TABLE",
            help="You state how many training ids each id points to at most, whoever is present: one number for all, "
            "or a table with the columns id and degree (a packed graph's or a dataset's ids are 0, 1, ...).",
        ),
    ] = None

    def tables(self, *left_out: str) -> dict[str, Any]:
        """How the tables are read, as arguments of `Graph.from_edges` other than those left out."""
        names = ("id", "label", "source", "target", "weight", "encode", "categories", "encoding", "clean")
        given = {name: getattr(self, name) for name in names if name not in left_out}
        return {**given, "drop": tuple(self.drop or ()), "undirected": not self.directed}

    def typed(self) -> list[str]:
        """The given options as words of a command line."""
        words = [] if self.dataset is None else [shlex.quote(self.dataset)]
        for item in fields(self):
            value, flag = getattr(self, item.name), f"--{item.name.replace('_', '-')}"
            if item.name != "dataset" and value is not None and value != item.default:
                many = value if isinstance(value, list) else [value]
                words += [flag] if value is True else [f"{flag} {shlex.quote(str(each))}" for each in many]
        return words

    @property
    def describes_tables(self) -> bool:
        """Whether an option describes tables."""
        given = {**self.tables(), "undirected": self.directed, "encoding": self.encoding != "utf-8"}
        return any(given.values())

    @property
    def names_private(self) -> bool:
        """Whether any part of a private graph is given."""
        return any(each is not None for each in (self.dataset, self.edges, self.nodes, self.packed))

    @property
    def names_public(self) -> bool:
        """Whether any part of a public graph is given."""
        return self.public_edges is not None or self.public_nodes is not None


_PUBLIC, _SPLIT = {"public_edges", "public_nodes"}, {"split", "split_seed"}
_STATED = {"split_reads_labels", "every_id_present", "population_degrees"}
EvidenceGraph = Annotated[GraphOptions, {"split_reads_labels"}]
InferGraph = Annotated[GraphOptions, _STATED]
EdgesGraph = Annotated[GraphOptions, _PUBLIC, _STATED]
PackGraph = Annotated[GraphOptions, _PUBLIC, {"packed"}]
AdviseGraph = Annotated[GraphOptions, _PUBLIC, {"split_reads_labels"}]
LedgerGraph = Annotated[GraphOptions, _PUBLIC, _STATED, _SPLIT]
CheckGraph = Annotated[GraphOptions, _PUBLIC, _STATED, _SPLIT, {"dataset", "packed"}]


def graph_of(given: GraphOptions, *, in_parts: bool = False, quiet: bool = False) -> Graph:
    """The private graph, the user's public one beside it if there is one, and what the user states of it.

    in_parts: edges in many files stay there, for the workers of a cluster; quiet: no progress is shown.
    """
    split = given.split or (None if given.names_public else "random")
    graph = private_graph(given, split, in_parts=in_parts, quiet=quiet)
    if given.names_public:
        graph = graph.with_public(public_graph(given, graph.schema, graph.num_classes))
    return _stated(graph, given)


def advised_graph(given: GraphOptions, edges_are_private: bool, quiet: bool = False) -> Graph:
    """The graph that advice is for. A table of private edges is not opened, and need not be there."""
    from graphveil.data.datasets.source import drawn

    if given.nodes is None or not edges_are_private or given.dataset is not None or given.packed is not None:
        return graph_of(given, quiet=quiet)
    if given.edges is not None and not given.edges.is_file():
        raise InvalidInput(f"there is no file {given.edges}; correct --edges, or leave it out")
    name = (given.edges or given.nodes).stem
    graph = gv.Graph.from_edges(None, given.nodes, name=name, **given.tables("clean"))
    return _stated(graph if graph.split != "none" else drawn(graph, given.split or "random", given.split_seed), given)


def private_graph(
    given: GraphOptions,
    split: str | None,
    schema: Schema | None = None,
    labels_are_public: bool = False,
    *,
    in_parts: bool = False,
    quiet: bool = False,
) -> Graph:
    """A named dataset, or the user's own tables or packed graph, split as asked unless it comes with a split.

    schema: that of a release, by whose names the tables are read; in_parts, quiet: see `graph_of`. Where labels are
    public, a graph without labels is not split, since it has no scores. Elsewhere the split, which is public, must not
    depend on whether there are labels.
    """
    from graphveil.data.datasets.source import drawn

    named = [str(each) for each in (given.dataset, given.edges, given.packed) if each is not None]
    if len(named) != 1:
        wanted = "name one dataset, or give your own graph with --edges and --nodes, or with --packed"
        several = f"; {' and '.join(named)} are {len(named)} graphs" if named else ""
        alone = given.nodes is not None and not named
        needs = "--nodes needs --edges, a table with the columns source and target: " if alone else ""
        raise InvalidInput(f"{needs}{wanted}{several}")
    if given.dataset is not None:
        if given.dataset.lower() not in gv.datasets.names() and Path(given.dataset).exists():
            raise InvalidInput(
                f"{given.dataset} is a file or a folder, not the name of a dataset: give your own graph with --edges "
                "and --nodes, or a packed one with --packed"
            )
        return gv.datasets.load(given.dataset, split=split or "random", seed=given.split_seed)
    graph = _own_graph(given, schema, in_parts, quiet)
    unlabelled = labels_are_public and bool((graph.y < 0).all())
    if split is None or split == "none" or graph.split != "none" or unlabelled:
        return graph
    return drawn(graph, split, given.split_seed)


def _own_graph(given: GraphOptions, schema: Schema | None, in_parts: bool, quiet: bool) -> Graph:
    """The user's packed graph, or the one of both tables; edges in many files stay there on a cluster."""
    if given.packed is not None:
        if given.nodes is not None or given.describes_tables:
            raise InvalidInput(
                "--nodes, --directed, --clean and options of columns are for tables; a packed graph is ready as it is"
            )
        return gv.open_packed(given.packed, quiet=quiet)
    if given.edges is None or given.nodes is None:
        raise InvalidInput("--edges needs --nodes, a table with the columns id, label and the features")
    parts = "*" in given.edges.name
    name, in_parts = given.edges.absolute().parent.name if parts else given.edges.stem, in_parts and parts
    graph = gv.Graph.from_edges(given.edges, given.nodes, name=name, schema=schema, in_parts=in_parts, **given.tables())
    if given.clean and graph.edge_parts is None:
        echo(f"--clean dropped {graph.cleaned or 'nothing'}", err=True)
    return graph


def node_table(given: GraphOptions, schema: Schema | None) -> Table:
    """The user's node table alone, its ids in the column that the release knows."""
    from graphveil.data.columns import kept_columns
    from graphveil.data.tables import read_table

    assert given.nodes is not None
    table = dict(read_table(given.nodes, "nodes", kept_columns(given.drop or (), "nodes"), given.encoding, dates=True))
    if schema is not None and given.id is not None and given.id in table:
        table[schema.id] = table.pop(given.id)
    return table


def public_graph(given: GraphOptions, schema: Schema | None, classes: int) -> Graph:
    """The user's public graph, by the names of the private one or of a release; without names labels are numbers."""
    from graphveil.data.tables import read_table

    edges, nodes = given.public_edges, given.public_nodes
    if edges is None or nodes is None:
        raise InvalidInput("--public-edges and --public-nodes go together: the two tables of one graph")
    table = read_table(nodes, "public nodes", encoding=given.encoding, dates=schema is not None)
    if schema is None and not classes:
        # Without classes to compare them with, labels are of no use.
        table = {key: column for key, column in table.items() if key not in (given.label or "label", "split")}
    named = range(classes) if schema is None else None
    how = given.tables("encode", "categories")
    return gv.Graph.from_edges(edges, table, name=edges.stem, schema=schema, classes=named, **how)


def _stated(graph: Graph, given: GraphOptions) -> Graph:
    """The graph with what the user states of it beside its tables."""
    if given.every_id_present and given.population_degrees is not None:
        raise InvalidInput("give --every-id-present or --population-degrees: with every id present degrees are counted")
    if given.split_reads_labels:
        if graph.split != "given":
            raise InvalidInput("--split-reads-labels is about the split column of your own graph, and it has none")
        graph = graph.with_split(graph.train, graph.val, graph.test, graph.split, reads_labels=True)
    graph = graph.with_every_id_present() if given.every_id_present else graph
    degrees = given.population_degrees
    return graph if degrees is None else graph.with_degrees(_degrees(degrees, graph))


def _degrees(given: str, graph: Graph) -> int | list[int]:
    """One number for all, or the column `degree` of a table, in the order of the graph's ids."""
    from graphveil.data.tables import read_table

    if given.isascii() and given.isdigit():
        return int(given)
    table = read_table(Path(given), "population degrees")
    if not {"id", "degree"} <= set(table):
        raise InvalidInput(f"{given}: the columns id and degree are needed; got {', '.join(table)}")
    order = list(map(str, range(graph.num_nodes))) if graph.ids is None else graph.ids.to_pylist()
    degrees = dict(zip(map(str, table["id"].tolist()), map(str, table["degree"].tolist()), strict=True))
    if len(degrees) != len(table["id"]) or degrees.keys() != set(order):
        raise InvalidInput(f"{given} must have one row for every id of the graph, present or blank, and no others")
    try:
        return [int(degrees[node]) for node in order]
    except ValueError as error:
        raise InvalidInput(f"{given}: a degree is a whole number: {error}") from None
