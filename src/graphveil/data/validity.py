"""What makes a graph valid: each part by itself, and all parts of one size on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from graphveil.data.arcs import Arcs, Csr
from graphveil.data.parts import ScatteredArcs
from graphveil.data.sealing import out_degrees
from graphveil.data.tensors import SHORT, check_tensor
from graphveil.errors import InvalidInput
from graphveil.vocabulary import ROLES, UNLABELLED

if TYPE_CHECKING:
    from graphveil.data.graph import Graph


def require_valid(graph: Graph) -> None:
    """Raise `InvalidInput` unless every part is well formed and all parts agree."""
    _require_features(graph)
    _require_arcs(graph)
    _require_labels(graph)
    _require_masks(graph)
    _require_degrees(graph)
    _require_names(graph)


def _require_features(graph: Graph) -> None:
    x = graph.x
    check_tensor(x, "x", x.dtype if x.dtype in SHORT else torch.float32, 2)
    if not x.shape[0]:
        raise InvalidInput("the graph has no nodes; give at least one row of features")
    if not x.shape[1]:
        raise InvalidInput("the nodes have no features; x needs at least one column")
    # Summing features on disk again, for every new split, would bring all of them into memory.
    if graph.feature_rows().known_finite:
        return
    # A finite sum proves every entry finite without a mask as large as x; the converse fails on overflow.
    if not bool(x.sum().isfinite()) and not bool(x.isfinite().all()):
        row, column = (int(i) for i in (~x.isfinite()).nonzero()[0])
        raise InvalidInput(f"x row {row}, column {column} is {x[row, column].item()}; features must be finite")


def _require_arcs(graph: Graph) -> None:
    adj = graph.adj
    if not isinstance(adj, Csr):
        raise InvalidInput(f"adj must be a Csr, got {type(adj).__name__}")
    if adj.num_nodes != graph.num_nodes:
        raise InvalidInput(f"adj has {adj.num_nodes} rows, but x has {graph.num_nodes}; they must agree")
    if isinstance(adj, ScatteredArcs) and adj.parts.undirected != graph.undirected:
        # Plans charge an edge by the direction of the graph, and workers read it by that of the parts.
        kind = "undirected" if adj.parts.undirected else "directed"
        raise InvalidInput(f"the edges in parts were opened as {kind} ones; open them again to read them otherwise")
    if adj.has_loops() or (graph.undirected and not adj.is_symmetric()):
        # Finding the arc to point at takes copies of all arcs, so it is left for failures.
        arcs = Arcs(adj.indices, adj.targets(), graph.num_nodes, "arc")
        arcs.require_no_loops()
        arcs.require_symmetric()


def _require_labels(graph: Graph) -> None:
    y = graph.y
    check_tensor(y, "y", torch.int64, 1)
    if len(y) != graph.num_nodes:
        raise InvalidInput(f"y has {len(y)} entries, but x has {graph.num_nodes} rows; they must agree")
    bad = ((y < UNLABELLED) | (y >= graph.num_classes)).nonzero()
    if len(bad):
        row = int(bad[0])
        raise InvalidInput(
            f"y row {row} is {int(y[row])}; labels must lie in 0..{graph.num_classes - 1}, "
            "or be -1 for an unlabelled node"
        )


def _require_masks(graph: Graph) -> None:
    masks = [graph.train, graph.val, graph.test]
    devices = {str(part.device) for part in (graph.x, graph.y, *masks)}
    if len(devices) > 1:
        raise InvalidInput(f"x, y and the masks lie on different devices ({', '.join(sorted(devices))}); use one")
    for role, mask in zip(ROLES, masks, strict=True):
        check_tensor(mask, f"the {role} mask", torch.bool, 1)
        if len(mask) != graph.num_nodes:
            raise InvalidInput(f"the {role} mask has {len(mask)} entries, but there are {graph.num_nodes} nodes")
    times = torch.stack(masks).sum(0)
    if bool((times > 1).any()):
        row = int((times > 1).nonzero()[0])
        roles = [role for role, mask in zip(ROLES, masks, strict=True) if mask[row]]
        raise InvalidInput(f"node {row} is in more than one split ({', '.join(roles)}); keep one")


def _require_degrees(graph: Graph) -> None:
    """Stated degrees are at least those of the arcs that are here: with fewer, the statement is false.

    This reads private arcs. The data holder learns it before anything is charged or released, and never for a graph of
    the population that was stated: docs/methods/heterpoisson.md.
    """
    if graph.degrees is None:
        return
    if not isinstance(graph.degrees, np.ndarray) or graph.degrees.dtype != np.int64:
        raise InvalidInput("the degrees must be a numpy array of int64")
    if graph.degrees.shape != (graph.num_nodes,) or bool((graph.degrees < 0).any()):
        raise InvalidInput(f"the degrees must be {graph.num_nodes} whole numbers of at least 0, one for every id")
    over = np.flatnonzero(out_degrees(graph) > graph.degrees)
    if len(over):
        raise InvalidInput(
            f"id {over[0]} points to more training ids than the {graph.degrees[over[0]]} that were stated: the "
            "statement is not true of this population; state degrees that hold with every id present"
        )


def _require_names(graph: Graph) -> None:
    if graph.ids is not None and len(graph.ids) != graph.num_nodes:
        raise InvalidInput(f"there are {len(graph.ids)} ids, but {graph.num_nodes} nodes; they must agree")
    if graph.schema is None:
        return
    named, found = (graph.schema.width, len(graph.schema.classes)), (graph.num_features, graph.num_classes)
    if named != found:
        raise InvalidInput(
            f"the schema names {named[0]} features and {named[1]} classes; the graph has {found[0]} and {found[1]}"
        )
