"""Packed graphs: a folder of plain arrays that are mapped into memory, so that a graph may exceed it.

The folder holds the private data itself, readable by its owner alone. `manifest.json` gives every file's size and
SHA-256; opening compares both and looks at every feature by reading the files block by block, so that the mapping
stays untouched until rows are asked for.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import mmap
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.lineage import from_text, to_text, with_origin
from graphveil.data.schema import Schema
from graphveil.data.sealing import FeatureRows
from graphveil.errors import InvalidInput, Tampered
from graphveil.runtime.folders import require_only, require_room, settled, written_whole
from graphveil.runtime.progress import Progress
from graphveil.runtime.safe_json import MAX_TEXT, opened, plain_json, read_plain
from graphveil.vocabulary import ROLES

SCHEMA = 1
"""Version of the folder. Raise it when its layout changes."""

BLOCK = 1 << 24
"""Bytes that are written, hashed and checked at a time: a multiple of every item's size."""

_KINDS = {"x": "<f4", "indptr": "<i8", "indices": "<i8", "y": "<i8", **dict.fromkeys(ROLES, "|b1"), "degrees": "<i8"}
_DEGREES = "degrees.npy"
"""Present if the data holder stated degrees."""
_FILES = ("graph.json", *(f"{name}.npy" for name in _KINDS if name != "degrees"))
_MANIFEST = "manifest.json"
_FACTS = {
    "name": str,
    "split": str,
    "num_classes": int,
    "undirected": bool,
    "split_reads_labels": bool,
    "every_id_present": bool,
}

# Without this flag Linux reserves memory for a copy-on-write mapping, and refuses one that exceeds the machine's.
# Python names it from 3.13 on; other systems reserve nothing.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)

LIMIT = 1 << 29
"""Bytes of mapped pages that may stay in memory before they are freed."""


class _Pages:
    """The pages of a mapped array, which stay in memory once they were used."""

    def __init__(self, array: NDArray[Any]) -> None:
        base: object = array.base
        self._mapped = base if isinstance(base, mmap.mmap) else None
        self._start = _mapped_bytes()

    def evict(self) -> None:
        """Free the pages once there are many. The next use reads them again, from the system's cache."""
        if self._mapped is not None and _mapped_bytes() - self._start > LIMIT:
            self._mapped.madvise(mmap.MADV_DONTNEED)
            self._start = _mapped_bytes()


def _mapped_bytes() -> int:
    """Pages of files in this process's memory; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE
    except OSError:
        return 0


@dataclass(frozen=True, eq=False, repr=False)
class _Packed(Graph):
    """A graph whose arrays are mapped; `mapped`: its features as they were opened."""

    mapped: FeatureRows | None = None

    def feature_rows(self) -> FeatureRows:
        if self.mapped is not None and self.x is self.mapped.x:
            return self.mapped
        return FeatureRows(self.x)


def pack(graph: Graph, folder: str | os.PathLike[str], *, quiet: bool = False) -> Path:
    """Write `graph` as a folder that `open_packed` maps into memory; x is streamed, never copied.

    The folder holds the private data: it is made readable by its owner alone. It appears complete or not at all,
    and replaces nothing but another packed graph. quiet: no progress is shown.
    """
    if graph.public_graph is not None:
        raise InvalidInput("a folder holds one graph: pack the private one before with_public, or the public one alone")
    target = Path(folder)
    require_replaceable(target)
    require_room(target, sum(array.nbytes for array in _arrays(graph).values()))
    with written_whole(target, require_replaceable) as fresh:
        _write(graph, fresh, Progress(not quiet))
    return target


def open_packed(folder: str | os.PathLike[str], *, quiet: bool = False) -> Graph:
    """The graph that `pack` wrote, its arrays mapped: rows of x are read from disk when they are used.

    Sizes, hashes and values are checked first. Do not write to the arrays: the files would never change, and what
    was written would be forgotten. Leave the folder alone while the graph is in use; packing over it is safe. quiet: no
    progress is shown.
    """
    home = settled(Path(folder))
    stated = _read_manifest(home)
    for name, entry in stated.items():
        _require_size(home / name, entry)
    arrays = {name: map_array(home / f"{name}.npy") for name in _KINDS if f"{name}.npy" in stated}
    for name, array in arrays.items():
        if array.dtype.str != _KINDS[name]:
            raise Tampered(f"{home / name}.npy holds {array.dtype.str}, not {_KINDS[name]}; pack the graph again")
    finite = _require_contents(home, stated, arrays["x"].nbytes, Progress(not quiet))
    facts = _read_facts(home)
    tensors: dict[str, Any] = {name: torch.from_numpy(arrays[name]) for name in ("x", "y", *ROLES)}
    return _Packed(
        **tensors,
        **facts,
        adj=with_origin(Csr(arrays["indptr"], arrays["indices"]), facts["lineage"]),
        degrees=arrays.get("degrees"),
        mapped=FeatureRows(tensors["x"], _Pages(arrays["x"]), finite),
    )


def map_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a .npy file, mapped copy-on-write: it may exceed memory, and the file never changes."""
    try:
        with opened(Path(path)) as file:
            shape, dtype = _read_header(file)
            start, size = file.tell(), os.fstat(file.fileno()).st_size
            if size != start + math.prod(shape) * dtype.itemsize:
                raise ValueError(f"{size} bytes do not hold {dtype} {list(shape)}")
            flags = mmap.MAP_PRIVATE | _NO_RESERVE
            mapped = mmap.mmap(file.fileno(), size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    # numpy lets the errors of Python's own tokenizer and parser through: whatever breaks, the file did it.
    except Exception as error:
        raise InvalidInput(f"{path} is not a plain .npy array: {error}") from error
    return np.ndarray(shape, dtype, buffer=mapped, offset=start)


def require_replaceable(path: Path) -> None:
    """`path` is free, an empty folder, or holds exactly a packed graph: packing there loses nothing else."""
    stated = (_DEGREES,) if (path / _DEGREES).exists() and (path / _MANIFEST).exists() else ()
    require_only(path, (*_FILES, *stated, _MANIFEST), "a packed graph")


def _write(graph: Graph, folder: Path, progress: Progress) -> None:
    """All files, the manifest last."""
    facts = {name: getattr(graph, name) for name in _FACTS}
    if graph.lineage is not None:
        facts["lineage"] = to_text(graph.lineage)
    if graph.schema is not None:
        facts["schema"] = graph.schema.to_text()
    arrays = _arrays(graph)
    digests = {name: hashlib.sha256() for name in ("graph.json", *arrays)}

    def append(name: str, body: bytes | memoryview) -> None:
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
            file.write(body)
        if name in digests:
            digests[name].update(body)

    append("graph.json", json.dumps(facts, indent=2).encode())
    for name, array in arrays.items():
        append(name, _header(array))
    rows = {name: array.reshape(-1).view(np.uint8) for name, array in arrays.items()}
    blocks = list(_blocks({name: len(row) for name, row in rows.items()}))
    for name, start in progress.track(blocks, f"packing {graph.name}"):
        append(name, rows[name][start : start + BLOCK].data)
    stated = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": digest.hexdigest()}
        for name, digest in digests.items()
    }
    append(_MANIFEST, json.dumps({"schema": SCHEMA, "packed": stated}, indent=2).encode())


def _arrays(graph: Graph) -> dict[str, NDArray[Any]]:
    """Contiguous arrays by file name, little-endian."""
    parts = {
        "x": graph.x.cpu().numpy(),
        "indptr": graph.adj.indptr,
        "indices": graph.adj.indices,
        "y": graph.y.cpu().numpy(),
    }
    parts |= {role: getattr(graph, role).cpu().numpy() for role in ROLES}
    parts |= {} if graph.degrees is None else {"degrees": graph.degrees}
    return {f"{name}.npy": np.ascontiguousarray(array, dtype=_KINDS[name]) for name, array in parts.items()}


def _header(array: NDArray[Any]) -> bytes:
    """What precedes the data in a .npy file; its length is a multiple of 64 bytes."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    return head.getvalue()


def _read_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type; the file then stands at the first item."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it has another version of the format")
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if by_column or dtype.hasobject:
        raise ValueError("it holds Python objects or is stored by columns")
    if file.tell() % 64:
        raise ValueError("its items are not aligned")
    return shape, dtype


def _blocks(sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Where the blocks of every file begin."""
    for name, size in sizes.items():
        for start in range(0, size, BLOCK):
            yield name, start


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and hash of every file."""
    if not (folder / _MANIFEST).is_file():
        raise InvalidInput(f"{folder} is not a packed graph; `graphveil data pack` writes one")
    manifest = _parse(folder / _MANIFEST)
    if "packed" not in manifest:
        raise InvalidInput(f"{folder} is not a packed graph; `graphveil data pack` writes one")
    if manifest.get("schema") != SCHEMA:
        raise Tampered(f"{folder} has the unknown version {manifest.get('schema')!r}; this graphveil reads {SCHEMA}")
    stated = manifest["packed"]
    if not isinstance(stated, dict) or set(stated) - {_DEGREES} != set(_FILES):
        raise Tampered(f"{folder / _MANIFEST} does not list exactly the files {', '.join(_FILES)}")
    for name, entry in stated.items():
        if not isinstance(entry, dict) or set(entry) != {"bytes", "sha256"}:
            raise Tampered(f"{folder / _MANIFEST} does not give the size and the hash of {name}")
    return stated


def _require_size(path: Path, entry: Mapping[str, Any]) -> None:
    try:
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
    except Tampered as error:
        raise Tampered(f"{error}; pack the graph again") from None
    if size != entry["bytes"]:
        raise Tampered(f"{path} has {size} bytes instead of {entry['bytes']}; pack the graph again")


def _require_contents(folder: Path, stated: Mapping[str, Mapping[str, Any]], features: int, progress: Progress) -> bool:
    """Compare every hash; whether all sums of the features are finite, which proves that every feature is.

    features: the bytes of x, which are the last ones of its file.
    """
    digests = {name: hashlib.sha256() for name in stated}
    head = stated["x.npy"]["bytes"] - features
    finite = True
    blocks = list(_blocks({name: entry["bytes"] for name, entry in stated.items()}))
    for name, start in progress.track(blocks, f"checking {folder.name}"):
        try:
            with opened(folder / name) as file:
                block = np.fromfile(file, np.uint8, BLOCK, offset=start)
        except OSError as error:
            raise Tampered(f"{folder / name} cannot be read: {error.strerror or error}") from None
        digests[name].update(block.data)
        if name == "x.npy":
            values = torch.from_numpy(block[0 if start else head :]).view(torch.float32)
            finite = finite and bool(values.sum().isfinite())
    for name, digest in digests.items():
        if digest.hexdigest() != stated[name]["sha256"]:
            raise Tampered(f"{folder / name} was altered after it was packed; pack the graph again")
    return finite


def _read_facts(folder: Path) -> dict[str, Any]:
    """Name, split, number of classes, direction, what the data holder states; lineage and names if there are any."""
    facts = _parse(folder / "graph.json")
    lineage = from_text(facts.pop("lineage")) if "lineage" in facts else None
    schema = Schema.from_text(facts.pop("schema")) if "schema" in facts else None
    if set(facts) != set(_FACTS) or any(type(facts[key]) is not kind for key, kind in _FACTS.items()):
        raise Tampered(f"{folder / 'graph.json'} does not hold exactly {', '.join(_FACTS)}; pack the graph again")
    return {**facts, "lineage": lineage, "schema": schema}


def _parse(path: Path) -> dict[str, Any]:
    try:
        parsed = plain_json(read_plain(path, MAX_TEXT))
    except Tampered as error:
        raise Tampered(f"{path} cannot be read ({error}); pack the graph again") from None
    if not isinstance(parsed, dict):
        raise Tampered(f"{path} does not hold a JSON object; pack the graph again")
    return parsed
