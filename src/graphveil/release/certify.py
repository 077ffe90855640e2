"""The certificate of a run that is about to begin."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from importlib.metadata import version

from graphveil.data.graph import Graph
from graphveil.data.identity import ids_digest, public_digest, public_graph_digest
from graphveil.errors import InvalidInput, Unsupported
from graphveil.planning import Planned
from graphveil.privacy.noise import Stream
from graphveil.release.certificate import Certificate, described_method
from graphveil.release.provenance import Provenance
from graphveil.runtime.safe_json import MAX_TEXT
from graphveil.vocabulary import Adjacency

_MAX_NAMES = MAX_TEXT // 4
"""Bytes of names that a release may keep: its file takes them twice as long, beside the rest."""


def certify(
    made: Planned, graph: Graph, source: Stream, seed: int | None, weights: tuple[Certificate, ...] = ()
) -> Certificate:
    """What the planned run on `graph` will reveal, with noise of this source.

    weights: the certificate of the release whose weights are part of the result.
    """
    parents = (*_graph_parents(graph, made.plan.adjacency), *weights)
    certificate = Certificate(made.plan, made.delta, _provenance(graph, made, source, seed), made.sound, parents)
    size = sum(len(one.provenance.schema) for one in certificate.ancestry)
    if size > _MAX_NAMES:
        # A release that nobody can load must not be paid for.
        raise InvalidInput(
            f"the names of columns, classes and categories take {size:,} bytes, and a release keeps {_MAX_NAMES:,}; "
            "give many features as one two-dimensional column, or drop some"
        )
    return certificate


def _graph_parents(graph: Graph, adjacency: Adjacency) -> list[Certificate]:
    """The certificates of the releases that told the graph's edges, or those of the public graph beside it."""
    lines = [each.lineage for each in (graph, graph.public_graph) if each is not None and each.lineage is not None]
    parents = [Certificate.from_json(line.certificate) for line in lines]
    if graph.lineage is not None and parents[0].plan.adjacency != adjacency:
        raise Unsupported(
            f"the edges of {graph.name!r} were released under another protection ({parents[0].plan.adjacency}) than "
            f"this one ({adjacency}): guarantees under different adjacencies do not add up. Take the same unit"
        )
    return parents


def _provenance(graph: Graph, made: Planned, source: Stream, seed: int | None) -> Provenance:
    adjacency = made.plan.adjacency
    return Provenance(
        dataset=graph.name,
        split=graph.split,
        split_hash="" if graph.split_reads_labels and "y" in adjacency.private else graph.split_hash(),
        noise=made.noise,
        source=source.label,
        secure=source.secure,
        seed=seed,
        version=version("graphveil"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        public=""
        if graph.public_graph is None
        else f"{graph.public_graph.name}, {graph.public_graph.num_nodes:,} nodes",
        public_graph_digest=public_graph_digest(graph),
        run=secrets.token_hex(16),
        method=described_method(made.method),
        sizes=graph.sizes,
        public_digest=public_digest(graph, adjacency),
        descends=graph.lineage is not None,
        released=graph.adj.origin is not None,
        split_reads_labels=graph.split_reads_labels,
        schema="" if graph.schema is None else graph.schema.to_text(),
        ids_digest=ids_digest(graph),
        others=made.others,
    )
