"""Graphs that mean the same columns and classes: matched by the names of a schema."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from graphveil.data.schema import Schema
from graphveil.errors import InvalidInput
from graphveil.vocabulary import UNLABELLED

if TYPE_CHECKING:
    from graphveil.data.graph import Graph


def matched(graph: Graph, schema: Schema) -> Graph:
    """The same graph with the columns and classes of `schema`, by name."""
    where = f"the graph {graph.name!r}"
    if graph.schema is None:
        raise InvalidInput(
            f"{where} has no names of columns and classes, and those of the release go by name: read its tables "
            "with Graph.from_edges(..., schema=release.schema), or state that the numbers stand in the same order "
            "with graph.with_schema(release.schema)"
        )
    order, classes = schema.order_of(graph.schema, where), schema.classes_of(graph.schema, where)
    in_order = np.array_equal(order, np.arange(len(order)))
    y = torch.from_numpy(np.append(classes, UNLABELLED)[graph.y.cpu().numpy()]).to(graph.device)
    beside = graph.public_graph
    if beside is not None:
        # Without names of its own, `with_public` took its columns for those of the private graph.
        beside = matched(beside if beside.schema is not None else beside.with_schema(graph.schema), schema)
    return replace(
        graph,
        x=graph.x if in_order else graph.x[:, torch.from_numpy(order).to(graph.device)].contiguous(),
        y=graph.y if torch.equal(y, graph.y) else y,
        num_classes=len(schema.classes),
        schema=schema,
        public_graph=beside,
    )


def matched_public(private: Graph, public: Graph) -> Graph:
    """The public graph with the columns, the classes and, if it has none of its own, a name after the private one."""
    if public.public_graph is not None or (public.x.shape == private.x.shape and torch.equal(public.x, private.x)):
        raise InvalidInput("the public graph must be another graph than the private one, with none beside it")
    if public.schema is not None and private.schema is not None:
        public = matched(public, private.schema)
    if public.num_features != private.num_features:
        raise InvalidInput(
            f"the public graph has {public.num_features} features, but the private one has {private.num_features}; "
            "give both the same columns"
        )
    if public.undirected != private.undirected:
        raise InvalidInput("one of the private and the public graph is directed, the other is not; make them alike")
    if public.num_classes > private.num_classes:
        raise InvalidInput(
            f"the public graph has {public.num_classes} classes, but the private one has {private.num_classes}: "
            "nobody could teach the others"
        )
    name = f"{public.name}-public" if public.name == private.name else public.name
    return replace(public, num_classes=private.num_classes, name=name, schema=private.schema)
