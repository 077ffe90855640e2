"""What is refused before any private data is read or any budget spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphveil.checks import parse
from graphveil.data.graph import Graph
from graphveil.data.schema import listed
from graphveil.data.tensors import is_pyg
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods.method import Method
from graphveil.planning import Terms
from graphveil.privacy.ledger import Ledger
from graphveil.runtime.compute import Compute
from graphveil.runtime.distributed import Workers
from graphveil.vocabulary import Adjacency, Reading, Unit

if TYPE_CHECKING:
    from torch_geometric.data import Data


def split_graph(given: Graph | Data) -> Graph:
    """A graph as it is; PyG's with its masks as the split, which must be there: who trains is for the user to say."""
    if not is_pyg(given):
        return given
    made = Graph.from_pyg(given)
    if made.split == "none":
        raise InvalidInput(
            "the PyG data has no train_mask with anybody in it; add masks, or train on "
            "gv.Graph.from_pyg(data).random_split()"
        )
    return made


def require_kinds(graph: Graph, method: Method, ledger: Ledger | None) -> None:
    """A graph, a method whose own networks have their code, and a ledger."""
    if not isinstance(graph, Graph) or not isinstance(method, Method):
        raise InvalidInput("give a graphveil Graph and a method, e.g. gv.methods.Gap(); train also takes PyG's Data")
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise InvalidInput(f"ledger must be a ledger: gv.Ledger({ledger!r})")
    for own in method.networks():
        own.known_make()


def require_declared(graph: Graph, adjacency: Adjacency) -> None:
    """Where features are private, how they are encoded was declared: a list of categories tells what cells hold.

    An encoding that a release brought along is public already.
    """
    read = graph.schema.fitted if graph.schema is not None and "x" in adjacency.private else ()
    if read:
        raise Unsupported(
            f"the encoding of {listed(read)} was read off the features, which unit {adjacency.unit.value} protects: "
            "declare what these columns hold (--categories FILE, categories=), from what anybody may know"
        )


def require_alike(graph: Graph, workers: Workers) -> None:
    """All processes of a run hold the same graphs."""
    workers.require_alike(graph.fingerprint, "graphs")
    workers.require_alike(graph.split_hash, "splits")
    workers.require_alike(
        lambda: "" if graph.public_graph is None else graph.public_graph.fingerprint(), "public graphs"
    )


def require_countable(graph: Graph, method: Method, ledger: Ledger | None) -> None:
    """Edges in parts are ones that `method` can have counted there, each listed once; said before anything is spent."""
    if graph.edge_parts is None:
        return
    if not method.counts_in_parts():
        raise Unsupported(
            f"{method.name()} with these settings reads the arcs themselves, and the edges of {graph.name!r} lie in "
            "parts: use hearsay (channel counts or sums), gap or lpgnet, or read the graph as a whole (--engine local)"
        )
    if ledger is not None:
        raise Unsupported(
            "a ledger knows a graph by its edges, and no single process reads these: leave the ledger out and write "
            "down what is spent, or read the graph as a whole (--engine local)"
        )
    graph.edge_parts.require_clean()


def require_stream(graph: Graph, method: Method, terms: Terms, compute: Compute) -> None:
    """What a growing graph needs, said before anything is read or reserved."""
    if not method.counts_once():
        raise Unsupported(
            f"{method.name()} with these settings reads edges otherwise than by counting each once, so that later "
            "periods would cost again: use hearsay (channel=counts, hops=1) for a graph that grows"
        )
    if (
        parse(Unit, terms.unit, "unit") is not Unit.EDGE
        or parse(Reading, terms.reading, "reading") is not Reading.SOUND
    ):
        raise Unsupported("a journal is kept at unit edge and under the sound reading")
    if graph.lineage is not None or graph.public_graph is not None or graph.edge_parts is not None:
        raise Unsupported(
            "a journal is kept of a private graph that is read as a whole, without released edges and without a public "
            "graph beside it"
        )
    if compute.workers.size > 1:
        raise Unsupported("a journal is kept by one process: leave torchrun out")
