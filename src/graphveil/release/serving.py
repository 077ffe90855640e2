"""What a prediction reads: the one place that asks how a method predicts."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.data.identity import ids_digest, names_digest
from graphveil.data.matching import matched as matched_graph
from graphveil.data.schema import Schema
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods.method import Method, PredictionReads
from graphveil.release.certificate import Certificate
from graphveil.vocabulary import State

_BLOCK = 1 << 16
"""Nodes that are scored at a time, so that copies of their features stay small."""


_OUTSIDE_DATA = {"name", "split", "split's ids"}
"""Differences that two forms of the same data may show."""


def cost(method: Method, certificate: Certificate) -> str:
    """What a prediction reads and what that costs, in words."""
    what, private = method.reads.value, "x" in certificate.plan.adjacency.private
    if method.reads is PredictionReads.OWN_FEATURES and private:
        return (
            f"epsilon 0 for the training nodes: reads {what}; it tells something about the queried node itself, so "
            "give it to that node only"
        )
    if method.reads.public_nodes:
        return f"epsilon 0 for the private nodes: reads {what}, which gets no protection"
    if method.reads.outside_training and private:
        return (
            f"epsilon 0 for the training nodes: reads {what}; it tells something about those nodes outside training, "
            "which the certificate does not cover there (a training node is scored from its own features alone: give "
            "that to that node only); the graph must have the split of the training"
        )
    return f"epsilon 0 beyond the certificate: reads {what}"


def matched(certificate: Certificate, graph: Graph) -> Graph:
    """`graph` with its columns and classes where the release has them, by name.

    A release that keeps no names can only go by position: that is said.
    """
    if certificate.schema is not None:
        return matched_graph(graph, certificate.schema)
    if graph.schema is not None:
        warnings.warn(
            f"this release keeps no names of columns and classes: those of {graph.name!r} are taken in the order in "
            "which they stand. See that it is the order of the training",
            stacklevel=4,
        )
        return graph
    # A graph without names may show fewer classes, or none.
    classes = certificate.provenance.sizes[2]
    return replace(graph, num_classes=classes) if graph.num_classes < classes else graph


def later(method: Method) -> str:
    """What predictions will need one day, in words: for the nodes of the training, and for another graph."""
    if method.reads.public_nodes:
        return "predictions are for nodes of public graphs: their features and edges, which get no protection"
    if method.reads.outside_training:
        return "predictions read the features of nodes outside training and the edges among them, for free"
    if not method.reads.stored:
        return "predictions read a node's own columns, of any graph, for free: the node table is enough"
    own = "predictions for these nodes are part of the release"
    if type(method).serve is Method.serve:
        return f"{own}; another graph, such as next month's, needs a training of its own"
    grown = "; the same graph, grown, is extended at no further cost if a journal is kept (train --journal)"
    return (
        f"{own}; another graph, such as next month's, needs its edges, the same columns by name and a budget of its "
        "own (infer --epsilon). It may be without labels: then all nodes speak by belief"
        f"{grown if method.counts_once() else ''}"
    )


def scores(
    method: Method, state: State, certificate: Certificate, graph: Graph | None, trained: Graph | None
) -> Tensor:
    """The scores of all nodes of `graph`, or of the graph of the training, [n, c]; trained: None after loading."""
    if graph is trained:
        graph = None
    if method.reads.stored:
        if graph is not None:
            _require_same_nodes(method, certificate, graph)
        return method.logits(state, Tensor(), Csr.empty(0))
    subject = graph if graph is not None else trained
    if subject is not None:
        # Released weights are in this machine's memory.
        subject, trained = subject.to("cpu"), None if trained is None else trained.to("cpu")
    if subject is None:
        raise InvalidInput("this release was loaded from disk; call predict(graph) with the nodes to label")
    if method.reads.outside_training:
        _require_same_training(certificate, subject, trained)
        return _held_out(method, state, subject)
    if method.reads.public_nodes:
        public = predicted_graph(method, certificate, subject, trained)
        return method.logits(state, public.x, public.adj)
    return _alone(method, state, subject, np.arange(subject.num_nodes))


def scored_table(method: Method, state: State, certificate: Certificate, nodes: Any) -> tuple[list[str], Tensor]:
    """Ids and scores [n, c] of the nodes of a table, without any edge."""
    schema = certificate.schema
    if schema is None:
        raise InvalidInput("this release keeps no names of columns, so that no table can be read by it; give a graph")
    if method.reads.stored:
        ids = _same_ids(certificate, schema, nodes)
        return ids, method.logits(state, Tensor(), Csr.empty(0))
    if method.reads.outside_training or method.reads.public_nodes:
        raise InvalidInput(f"{method.name()} reads {method.reads.value}: give the graph, not its nodes alone")
    graph = Graph.from_edges(None, nodes, schema=schema)
    return graph.ids.to_pylist(), scores(method, state, certificate, graph, None)


def _same_ids(certificate: Certificate, schema: Schema, nodes: Any) -> list[str]:
    """The ids of a node table, if they are those of the run in their order: predictions were released by row."""
    from graphveil.data.columns import node_ids
    from graphveil.data.tables import read_table

    def only_ids(names: list[str]) -> list[str]:
        if schema.id not in names:
            raise InvalidInput(f"nodes: no column {schema.id!r}, which had the ids in training")
        return [schema.id]

    ids: list[str] = node_ids(read_table(nodes, "nodes", only_ids)[schema.id]).to_pylist()
    if names_digest(ids) != certificate.provenance.ids_digest:
        raise InvalidInput(
            f"the {len(ids):,} ids of this table are not those of the training, {certificate.provenance.sizes[0]:,} in "
            "their order: predictions were released for those rows. Give the node table of the training as it was"
        )
    return ids


def predicted_graph(method: Method, certificate: Certificate, graph: Graph, trained: Graph | None) -> Graph:
    """The graph whose nodes get labels: `graph`, or the public one beside it if the method reads that."""
    if not method.reads.public_nodes:
        return graph
    if graph.public_graph is not None:
        return graph.public_graph
    same = trained is not None and graph.x.shape == trained.x.shape and torch.equal(graph.x, trained.x)
    if same or graph.name == certificate.provenance.dataset:
        raise Unsupported(
            f"{method.name()} labels public nodes, and {graph.name!r} is the private graph of the training; give that "
            "with its public graph beside it, or a public graph of another name"
        )
    return graph


def scoring_graph(method: Method, graph: Graph) -> Graph:
    """Whose nodes score a release: those of the public graph, where there is one that the method can label."""
    return graph if graph.public_graph is None or method.reads.stored else graph.public_graph


def remarks(method: Method, graph: Graph) -> str:
    """What is not read of a graph that was given, as the end of a sentence; empty if all of it is read."""
    if method.reads.stored:
        return "; predictions are for the graph as it was in training, the edges given now were not read"
    if method.reads.outside_training and bool(graph.train.any()):
        return (
            f"; {int(graph.train.sum()):,} training nodes are predicted from their own features alone (--split none: a "
            "graph that the model was not trained on)"
        )
    return ""


def _alone(method: Method, state: State, graph: Graph, nodes: Ids) -> Tensor:
    """Scores of some nodes, int64 [k], each from its own features, a block at a time to spare memory."""
    rows, blocks = graph.feature_rows(), np.split(nodes, range(_BLOCK, len(nodes), _BLOCK))
    return torch.cat([method.logits(state, rows[torch.from_numpy(block)], Csr.empty(len(block))) for block in blocks])


def _held_out(method: Method, state: State, graph: Graph) -> Tensor:
    """Nodes outside training read one another; training nodes are not there, and are scored alone."""
    training = graph.train.numpy()
    outside = np.flatnonzero(~training)
    alone = _alone(method, state, graph, np.flatnonzero(training))
    found = alone.new_empty(graph.num_nodes, alone.shape[1])
    found[graph.train] = alone
    if len(outside):
        # The arcs first: finding them takes memory that the features would be in the way of.
        visible = graph.adj.within(~training)
        found[~graph.train] = method.logits(state, graph.feature_rows()[torch.from_numpy(outside)], visible)
    return found


def _require_same_nodes(method: Method, certificate: Certificate, graph: Graph) -> None:
    strange = certificate.differences(graph)
    if not strange:
        return
    origin = certificate.provenance
    said = (
        f"{method.name()} released predictions for {origin.dataset!r} as it was, and {graph.name!r} differs in "
        f"{strange}"
    )
    free = "call predict() without a graph (on the command line, leave it out), which is free"
    same_ids = bool(origin.ids_digest) and origin.ids_digest == ids_digest(graph)
    if set(strange.split(", ")) <= _OUTSIDE_DATA or same_ids or graph.name == origin.dataset:
        raise Unsupported(
            f"{said}. As far as that can be told it is the same graph, whose predictions are in the release: {free}. "
            "To spend on it again would reveal more about it"
        )
    raise Unsupported(
        f"{said}. For the nodes of the training {free}; a graph of other data needs graphveil.infer(release, graph, "
        "epsilon=...), which spends that graph's own budget"
    )


def _require_same_training(certificate: Certificate, graph: Graph, known: Graph | None) -> None:
    """On the dataset of the training the split must be that of the training, as far as that can be told."""
    origin = certificate.provenance
    if graph.name != origin.dataset:
        return
    moved = known is not None and graph.num_nodes == known.num_nodes and not torch.equal(graph.train, known.train)
    other = known is None and origin.split_hash not in ("", graph.split_hash())
    if graph.split != origin.split or moved or other:
        raise Unsupported(
            f"{graph.name!r} is split as {graph.split!r}, but the release was trained on {origin.split!r}, or on other "
            "ids: its training nodes would be read as if they were outside training; give the split of the training"
        )
