"""What a data set is known by: SHA-256 of its features, edges, labels, ids and split, together or apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.transfer import BLOCK, host_blocks
from graphveil.vocabulary import Adjacency

if TYPE_CHECKING:
    from graphveil.data.graph import Graph

_PARTS: dict[str, Callable[[Graph], tuple[NDArray[Any] | Tensor, ...]]] = {
    "x": lambda graph: (graph.x,),
    "edges": lambda graph: (graph.adj.indptr, graph.adj.indices),
    "y": lambda graph: (graph.y,),
}
"""The arrays of each part that a unit may protect; read only when asked for, since private edges may lie elsewhere."""


def fingerprint(graph: Graph) -> str:
    """Digest of features, edges and labels; all splits of a data set share it, and so its budget."""
    return _parts_digest(graph, ("x", "edges", "y"), after=(np.array(graph.undirected),))


def public_digest(graph: Graph, adjacency: Adjacency) -> str:
    """Digest of the sizes and of the parts that the adjacency leaves public; splits share it."""
    public = [part for part in ("x", "y", "edges") if part not in adjacency.private]
    return _parts_digest(graph, public, before=(np.array([*graph.sizes, graph.undirected]),))


def public_graph_digest(graph: Graph) -> str:
    """Digest of the features and edges of the public graph beside this one; empty where there is none."""
    return "" if graph.public_graph is None else _parts_digest(graph.public_graph, ("x", "edges"))


def _parts_digest(
    graph: Graph, parts: Sequence[str], before: Sequence[NDArray[Any]] = (), after: Sequence[NDArray[Any]] = ()
) -> str:
    arrays = [array for part in parts for array in _PARTS[part](graph)]
    return digest(*before, *arrays, *after, between=graph.feature_rows().evict)


def arcs_digest(adj: Csr) -> str:
    """Digest of arcs."""
    return digest(adj.indptr, adj.indices)


def ids_digest(graph: Graph) -> str:
    """Digest of the ids in their order, which are public under every unit; empty where there are none."""
    return "" if graph.ids is None else names_digest(graph.ids.to_pylist())


def names_digest(names: Sequence[str]) -> str:
    """Digest of names in their order."""
    return hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()


def split_digest(graph: Graph) -> str:
    """Digest of the three masks."""
    return digest(graph.train, graph.val, graph.test)


def training_digest(graph: Graph) -> str:
    """Digest of the training mask."""
    return digest(graph.train)


def digest(*arrays: NDArray[Any] | Tensor, between: Callable[[], None] = lambda: None) -> str:
    """SHA-256 of types, shapes and contents, on whatever device they lie; `between` is called after every block."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{_type_name(array)}{tuple(array.shape)}".encode())
        for block in _byte_blocks(array):
            found.update(block.data)
            between()
    return found.hexdigest()


def _type_name(array: NDArray[Any] | Tensor) -> str:
    """numpy's name of the type, or torch's where numpy has none."""
    if isinstance(array, np.ndarray):
        return array.dtype.str
    return "bfloat16" if array.dtype is torch.bfloat16 else torch.empty(0, dtype=array.dtype).numpy().dtype.str


def _byte_blocks(array: NDArray[Any] | Tensor) -> Iterator[NDArray[np.uint8]]:
    """The contents, block by block."""
    if isinstance(array, Tensor) and (array.device.type != "cpu" or array.dtype is torch.bfloat16):
        parts = torch.split(array.detach().contiguous().flatten().view(torch.uint8), BLOCK)
        yield from (block.numpy() for block in host_blocks(parts))
        return
    contents = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    yield from (contents[start : start + BLOCK] for start in range(0, len(contents), BLOCK))
