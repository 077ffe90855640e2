"""Graphs, of a class that is given, from PyG, scipy, networkx and tables; the doors are classmethods of `Graph`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.data.arcs import Arcs, Csr
from graphveil.data.device_arcs import packed_on_device
from graphveil.data.lineage import PYG_ATTRIBUTE, GraphOrigin, from_text, of_file, with_origin
from graphveil.data.parts import EdgeParts, ScatteredArcs
from graphveil.data.schema import FeatureColumn, Schema
from graphveil.data.tensors import (
    as_tensor,
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
from graphveil.vocabulary import ROLES, UNLABELLED

# Arrow is imported where tables are read: training needs none.
if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    from graphveil.data.encoding import Declared
    from graphveil.data.graph import Graph
    from graphveil.data.tables import Table


def from_pyg(cls: type[Graph], data: Data, undirected: bool | None, clean: bool, name: str) -> Graph:
    """Of a PyG `Data`."""
    for part in ("x", "edge_index", "y"):
        if not isinstance(getattr(data, part, None), Tensor):
            raise InvalidInput(
                f"the PyG data has no tensor {part!r}; graphveil needs x, edge_index and y of one homogeneous graph"
            )
    x, y = real_features(data.x), class_ids(data.y)
    count: Any = getattr(data, "num_nodes", None)
    if count is not None and as_tensor(count, "num_nodes").reshape(-1).tolist() != [len(x)]:
        raise InvalidInput(f"num_nodes is {count}, but x has {len(x)} rows; they must agree")
    adj, known = _pyg_arcs(data.edge_index, x, undirected, clean)
    stored = {role: getattr(data, f"{role}_mask", None) for role in ROLES}
    masks = {role: role_mask(mask, role) for role, mask in stored.items() if mask is not None}
    text = getattr(data, PYG_ATTRIBUTE, None)
    return _assembled(cls, x, adj, y, known, name, masks, lineage=None if text is None else from_text(text))


def _pyg_arcs(edge_index: Tensor, x: Tensor, undirected: bool | None, clean: bool) -> tuple[Csr, bool]:
    """PyG's [2, m] as arcs, and whether they are undirected; packed on the GPU where x is, if they need no repair."""
    if x.device.type != "cpu" and not clean and edge_index.dtype in (torch.int32, torch.int64):
        try:
            packed = packed_on_device(edge_index.to(x.device), len(x))
            symmetric = packed.is_symmetric()
            if not packed.has_loops() and not (undirected and not symmetric):
                return packed, symmetric if undirected is None else undirected
        except InvalidInput:
            pass  # The checks below name the place.
    arcs = edge_index_arcs(edge_index, len(x))
    return _arcs_either_way(arcs, undirected, clean)


def _arcs_either_way(arcs: Arcs, undirected: bool | None, clean: bool) -> tuple[Csr, bool]:
    """Packed arcs, and whether they are undirected: as stated, else if every arc's opposite is there."""
    arcs.require_known_ids()
    known = arcs.is_symmetric() if undirected is None else undirected
    return arcs.to_csr(undirected=known, clean=clean), known


def from_scipy(
    cls: type[Graph], adjacency: Any, x: Any, y: Any, undirected: bool | None, clean: bool, name: str
) -> Graph:
    """Of a sparse matrix with features and labels."""
    features = real_features(x.toarray() if sp.issparse(x) else x)
    adj, known = _arcs_either_way(matrix_arcs(adjacency, len(features), clean), undirected, clean)
    return _assembled(cls, features, adj, class_ids(y), known, name)


def from_networkx(
    cls: type[Graph], g: networkx.Graph, features: str, label: str, split: str, clean: bool, name: str
) -> Graph:
    """Of a networkx graph whose nodes have attributes."""
    require_networkx(g)
    from graphveil.data.columns import class_names, classes_of, masks_of
    from graphveil.data.tables import text_column

    names = np.fromiter(g.nodes, dtype=object, count=len(g))
    position = {node: i for i, node in enumerate(g.nodes)}
    ends = np.array([[position[end] for end in edge[:2]] for edge in g.edges], dtype=np.int64).reshape(-1, 2)
    undirected = not g.is_directed()
    adj = _listed_arcs(Arcs(ends[:, 0], ends[:, 1], len(g), "edge", names), undirected, clean)
    labels, roles = (
        text_column([data.get(attribute) for _, data in g.nodes(data=True)], "node", attribute)
        for attribute in (label, split)
    )
    y, masks, x = classes_of(labels, "node"), masks_of(roles, "node"), node_features(g, features)
    columns = (FeatureColumn(features, size=x.shape[1]),) if x.shape[1] else ()
    schema = Schema(tuple(map(str, class_names(labels))), columns, label=label)
    return _assembled(cls, x, adj, y, undirected, name, masks, schema=schema)


def from_edges(
    cls: type[Graph],
    edges: str | Path | NDArray[Any] | Table | Any | None,
    nodes: str | Path | NDArray[Any] | Table | Any,
    *,
    undirected: bool,
    clean: bool,
    label: str | None,
    id: str | None,
    split: str,
    source: str | None,
    target: str | None,
    weight: str | None,
    drop: Sequence[str],
    encode: str | None,
    categories: str | Path | Declared | None,
    encoding: str,
    name: str,
    classes: Sequence[int] | Sequence[str] | None,
    schema: Schema | None,
    in_parts: bool,
) -> Graph:
    """Of an edge table and a node table: see `Graph.from_edges`."""
    from graphveil.data.columns import class_names, classes_of, kept_columns, masks_of, no_column, node_ids, read_edges
    from graphveil.data.encoding import feature_columns
    from graphveil.data.tables import read_table

    if encode not in (None, "auto"):
        raise InvalidInput(f"unknown encode={encode!r}; use auto, or declare columns with categories")
    if schema is not None and (encode is not None or categories is not None or classes is not None):
        raise InvalidInput("a schema says how columns and classes are read; leave encode, categories and classes out")
    id, label = id or (schema.id if schema else "id"), label or (schema.label if schema else "label")
    dates = any(each is not None for each in (encode, categories, schema))
    table = read_table(nodes, "nodes", kept_columns(drop, "nodes"), encoding, dates)
    needed = {"id": id, **({"label": label} if classes is None and schema is None else {})}
    for holds, column in needed.items():
        if column not in table:
            raise InvalidInput(no_column(column, holds, list(table)))
    ids = node_ids(table[id])
    if in_parts:
        if not isinstance(edges, str | Path) or weight is not None:
            raise InvalidInput("edges in parts are Parquet files, without weights: --edges 'parts/*.parquet'")
        parts = EdgeParts.of(edges, ids, source, target, undirected=undirected, clean=clean)
        adj: Csr = ScatteredArcs(parts)
        cleaned = ""
    else:
        arcs = Arcs.none(len(ids))
        if edges is not None:
            arcs = read_edges(edges, ids, source, target, weight, clean=clean, encoding=encoding)
        adj, cleaned = _listed_arcs(arcs, undirected, clean), arcs.repairs(undirected) if clean else ""
    features = {key: table[key] for key in table if key not in (id, label, split)}
    columns = _feature_kinds(features, encode, categories, schema)
    x = feature_columns(features, len(ids), columns)
    given = classes if schema is None else schema.classes
    y = classes_of(table[label], "nodes row", given) if label in table else torch.full((len(ids),), UNLABELLED)
    names = tuple(map(str, given if given is not None else class_names(table[label])))
    masks = masks_of(table[split], "nodes row") if split in table else None
    lineage = _edges_lineage(Path(edges), in_parts) if isinstance(edges, str | Path) else None
    return _assembled(
        cls, x, adj, y, undirected, name, masks, lineage, Schema(names, columns, id, label), ids=ids, cleaned=cleaned
    )


def _listed_arcs(arcs: Arcs, undirected: bool, clean: bool) -> Csr:
    """Packed arcs of a table that lists an undirected edge once."""
    return arcs.once_to_csr(clean=clean) if undirected else arcs.to_csr(undirected=False, clean=clean)


def _feature_kinds(
    features: Table, encode: str | None, categories: str | Path | Declared | None, schema: Schema | None
) -> tuple[FeatureColumn, ...]:
    """What each feature column holds: as the schema or the user declares, else inferred or plain numbers."""
    from graphveil.data.encoding import encoded_columns, read_declared

    if schema is not None:
        schema.require_columns(list(features), "nodes: the table")
        return schema.columns
    declared = read_declared(categories) if isinstance(categories, str | Path) else categories or {}
    return encoded_columns(features, declared, auto=encode == "auto")


def _edges_lineage(edges: Path, in_parts: bool) -> GraphOrigin | None:
    """The release that a file of edges comes from; released edges are one file, which is read as a whole."""
    from graphveil.data.tables import part_files

    origins = [of_file(file) for file in part_files(edges, "edges")]
    if (in_parts or len(origins) > 1) and any(origins):
        raise InvalidInput("edges: a release told these edges; give its one file, and read it as a whole")
    return origins[0]


def _assembled(
    cls: type[Graph],
    x: Tensor,
    adj: Csr,
    y: Tensor,
    undirected: bool,
    name: str,
    masks: Mapping[str, Tensor] | None = None,
    lineage: GraphOrigin | None = None,
    schema: Schema | None = None,
    **names: Any,
) -> Graph:
    """With empty masks where none are known; without a schema, the labels show how many classes there are."""
    given = masks or {}
    train, val, test = (given.get(role, torch.zeros(len(x), dtype=torch.bool, device=x.device)) for role in ROLES)
    split = "given" if any(bool(mask.any()) for mask in given.values()) else "none"
    classes, arcs = count_classes(y) if schema is None else len(schema.classes), with_origin(adj, lineage)
    parts = (x, arcs, y, classes, undirected, train, val, test, name, split)
    return cls(*parts, lineage=lineage, schema=schema, **names)
