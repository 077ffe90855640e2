"""How a graph knows that its edges were released: `GraphOrigin`, which it carries through every form it takes.

A network that is trained on a released graph reveals what that release revealed, whatever its own plan says. So the
released graph's certificate stays with the edges: in the `Graph`, its PyG `Data`, its packed folder, and the files of
the release itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.errors import InvalidInput

PYG_ATTRIBUTE = "graphveil_lineage"
"""Where a PyG `Data` keeps the lineage of its edges, as text."""

PARQUET_KEY = b"graphveil lineage"
"""Where the Parquet file of a released graph keeps its own."""

_BLOCK = 1 << 24
"""Bytes that are hashed at a time."""

_MAX_BYTES = 1 << 22
"""A certificate is no larger; a file that is larger is none of ours."""


@dataclass(frozen=True)
class GraphOrigin:
    """One release that a graph descends from.

    certificate: its JSON, checked when the graph is used; arcs: SHA-256 of the arcs that were released, which are
    public. The arcs themselves carry it (`Csr.origin`): a graph that gets others still descends from the release, and
    those are private. What is private is never compared with what was released, for the answer would tell.
    """

    certificate: str
    arcs: str


def digest(*arrays: NDArray[Any] | Tensor, after: Callable[[], None] = lambda: None) -> str:
    """SHA-256 of shapes, types and contents, wherever they are; `after` is called now and then."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{_type_of(array)}{tuple(array.shape)}".encode())
        for block in _bytes_of(array):
            found.update(block.data)
            after()
    return found.hexdigest()


def _type_of(array: NDArray[Any] | Tensor) -> str:
    """numpy's name of the type, or torch's where numpy has none."""
    if isinstance(array, np.ndarray):
        return array.dtype.str
    return "bfloat16" if array.dtype is torch.bfloat16 else torch.empty(0, dtype=array.dtype).numpy().dtype.str


def _bytes_of(array: NDArray[Any] | Tensor) -> Iterator[NDArray[np.uint8]]:
    """The contents, block by block."""
    if isinstance(array, Tensor) and (array.device.type != "cpu" or array.dtype is torch.bfloat16):
        parts = torch.split(array.detach().contiguous().flatten().view(torch.uint8), _BLOCK)
        yield from (block.numpy() for block in brought(parts))
        return
    contents = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    yield from (contents[start : start + _BLOCK] for start in range(0, len(contents), _BLOCK))


def brought(blocks: Sequence[Tensor]) -> Iterator[Tensor]:
    """Tensors in this machine's memory, one after the other; from a GPU the next is under way meanwhile.

    What is yielded is good until the one after the next is asked for.
    """
    if not blocks or blocks[0].device.type == "cpu":
        yield from blocks
        return
    sides = [torch.empty(len(blocks[0]), dtype=blocks[0].dtype, pin_memory=True) for _ in range(2)]
    events = [torch.cuda.Event() for _ in sides]  # type: ignore[no-untyped-call]  # torch does not type it

    def send(place: int) -> None:
        block, side = blocks[place], place % 2
        sides[side][: len(block)].copy_(block, non_blocking=True)
        events[side].record()

    send(0)
    for place, block in enumerate(blocks):
        if place + 1 < len(blocks):
            send(place + 1)
        events[place % 2].synchronize()
        yield sides[place % 2][: len(block)]


def fetched(tensor: Tensor) -> Tensor:
    """The same in this machine's memory; from a GPU by blocks, which all cores copy to their place."""
    if tensor.device.type == "cpu":
        return tensor
    out = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    parts = torch.split(tensor.detach().contiguous().flatten(), _BLOCK)
    for place, block in zip(torch.split(out.flatten(), _BLOCK), brought(parts), strict=True):
        place.copy_(block)
    return out


def names_digest(names: Sequence[str]) -> str:
    """SHA-256 of a list of names in its order."""
    return hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()


def arcs_digest(adj: Csr) -> str:
    """SHA-256 of arcs."""
    return digest(adj.indptr, adj.indices)


def handed_down(adj: Csr, lineage: GraphOrigin | None) -> Csr:
    """Arcs that were read with a lineage: told by the release if they are the very ones."""
    return adj if lineage is None or lineage.arcs != arcs_digest(adj) else Csr(adj.indptr, adj.indices, lineage)


def to_text(lineage: GraphOrigin) -> str:
    """For files and other libraries' objects; `from_text` inverts it."""
    return json.dumps(asdict(lineage))


def from_text(text: object) -> GraphOrigin:
    """The lineage that `to_text` wrote, or an error: one that cannot be read must not be lost."""
    try:
        told = json.loads(str(text))
        return GraphOrigin(str(told["certificate"]), str(told["arcs"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(
            f"the lineage of this graph cannot be read ({error!r}); make the graph again from the release it came from"
        ) from None


def of_file(path: Path) -> GraphOrigin | None:
    """What an edge list on disk descends from: the release that wrote it, or in whose folder it lies."""
    place = path.resolve()
    return _inside(place) or _beside(place)


def _beside(path: Path) -> GraphOrigin | None:
    """Of the folder of a released graph."""
    facts, certificate = path.with_name("graph.json"), path.with_name("certificate.json")
    if not certificate.is_file():
        return None
    if certificate.stat().st_size > _MAX_BYTES:
        raise InvalidInput(f"{certificate} is too large to be the certificate of {path.name}; move the edge list away")
    try:
        arcs = str(json.loads(facts.read_bytes())["arcs"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        # A folder of an older version, or altered: its edges still descend from the certificate beside them.
        arcs = ""
    return GraphOrigin(certificate.read_text(errors="replace"), arcs)


def _inside(path: Path) -> GraphOrigin | None:
    """Of a Parquet file with our metadata, wherever it went."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        return None
    import pyarrow.parquet as pq

    found = (pq.read_schema(path).metadata or {}).get(PARQUET_KEY)
    return None if found is None else from_text(found.decode(errors="replace"))
