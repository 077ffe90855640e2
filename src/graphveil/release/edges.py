"""A released graph with its certificate: an edge list that any tool reads, saved together or not at all."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from graphveil.checks import parse
from graphveil.data.arcs import Csr, arcs_of
from graphveil.data.graph import Graph
from graphveil.data.identity import arcs_digest, names_digest
from graphveil.data.lineage import PARQUET_KEY, PYG_ATTRIBUTE, GraphOrigin, to_text
from graphveil.errors import InvalidInput, MissingExtra, Tampered
from graphveil.methods.described import rebuild_method
from graphveil.methods.method import Method
from graphveil.release.card import require_card
from graphveil.release.certificate import Certificate, described_method
from graphveil.runtime.folders import CARD, MANIFEST, read_public, require_only, settled, write_public
from graphveil.runtime.safe_json import parse_json, require_agreement, require_fits
from graphveil.vocabulary import Unit

if TYPE_CHECKING:
    from torch_geometric.data import Data

SCHEMA = 1
"""Version of the folder. Raise it when its layout, or the wording of the card, changes."""

_BYTES = 64
"""What a node or an edge takes at most while the folder is read."""

_IDS = "positions 0, 1, ... of the nodes: the rows of the node table in their order"


class Format(StrEnum):
    """How the edge list is written."""

    PARQUET = "parquet"
    CSV = "csv"

    @property
    def file(self) -> str:
        """The name of the file with the edge list."""
        return f"edges.{self.value}"

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the folder but its manifest."""
        return (self.file, "graph.json", "certificate.json", CARD)


@dataclass(frozen=True, eq=False)
class ReleasedEdges:
    """The edges that a method released, and what they can reveal about the private ones.

    edges: int64 [2, m], row 0 the sources, row 1 the targets, in ascending order, so that the order tells nothing;
    an undirected edge is listed once, source < target. num_nodes is public, and counts nodes without edges too.
    """

    method: Method
    edges: Tensor
    num_nodes: int
    certificate: Certificate

    def __post_init__(self) -> None:
        if self.certificate.plan.adjacency.unit is not Unit.EDGE:
            raise InvalidInput("released edges need a certificate that protects edges")
        if self.edges.dtype != torch.int64 or self.edges.ndim != 2 or self.edges.shape[0] != 2:
            raise InvalidInput(f"edges must be int64 [2, m], got {self.edges.dtype} {list(self.edges.shape)}")
        if not torch.equal(_listed(self._arcs(), self.undirected), self.edges):
            raise InvalidInput("edges must be listed once and in ascending order, source < target if undirected")

    @classmethod
    def of(cls, method: Method, arcs: Csr, certificate: Certificate) -> ReleasedEdges:
        """From the arcs that `method` released under `certificate`."""
        return cls(method, _listed(arcs, certificate.plan.adjacency.undirected), arcs.num_nodes, certificate)

    @property
    def undirected(self) -> bool:
        """Whether an edge stands for both directions."""
        return self.certificate.plan.adjacency.undirected

    def arcs(self) -> Csr:
        """As arcs by target, which know that they were released; an undirected edge gives both."""
        return replace(self._arcs(), origin=self.lineage())

    def _arcs(self) -> Csr:
        listed = arcs_of(self.edges[0].numpy(), self.edges[1].numpy(), self.num_nodes, "released edge")
        return listed.once_to_csr(clean=False) if self.undirected else listed.to_csr(undirected=False, clean=False)

    def to_graph(self, graph: Graph) -> Graph:
        """`graph` with these edges in place of its own. Features, labels and split, public at edge level, stay.

        What is trained on it descends from this release, and its certificate says so.
        """
        if (graph.num_nodes, graph.undirected) != (self.num_nodes, self.undirected):
            raise InvalidInput(f"the released edges are of {self._size()}; {graph} does not fit them")
        name = f"{graph.name} released by {self.method.name()}"
        return replace(graph.with_arcs(self.arcs()), name=name)

    def lineage(self) -> GraphOrigin:
        """What a graph with these edges descends from."""
        return GraphOrigin(self.certificate.to_json(), arcs_digest(self._arcs()))

    def to_pyg(self, ids: Iterable[str] | None = None) -> Data:
        """As a PyG `Data` with edge_index and num_nodes; `to_graph(graph).to_pyg()` has features and labels too.

        The lineage goes with it: a `Graph` that is made of the data knows that its edges were released. ids: those of
        the nodes in their order, such as `graph.ids`, which are checked and kept as `data.ids`.
        """
        from torch_geometric.data import Data

        told: dict[str, Any] = {PYG_ATTRIBUTE: to_text(self.lineage())}
        if ids is not None:
            told["ids"] = list(map(str, ids))
            if names_digest(told["ids"]) != self.certificate.provenance.ids_digest:
                raise InvalidInput("the ids are not those of the run, in their order")
        return Data(edge_index=self.arcs().edge_index(), num_nodes=self.num_nodes, **told)

    def card(self) -> str:
        """The certificate in words, and what the edge list holds."""
        lines = [
            self.certificate.card(),
            f"  released    {self._size()} by {self.method.name()}",
            f"  ids         {_IDS}",
        ]
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str], format: Format | str = Format.PARQUET) -> Path:
        """Write the folder: edge list (columns source, target), certificate and card, sealed by content hashes."""
        target, kind = Path(path), parse(Format, format, "format")
        described = json.dumps(self._describe(), indent=2).encode()
        inside = {b"graphveil": described, b"graphveil card": self.card().encode()}
        inside[PARQUET_KEY] = to_text(self.lineage()).encode()
        contents = {
            kind.file: _parquet(self.edges, inside) if kind is Format.PARQUET else _csv(self.edges),
            "graph.json": described,
            "certificate.json": self.certificate.to_json().encode(),
            CARD: (self.card() + "\n").encode(),
        }
        write_public(target, contents, SCHEMA, partial(require_writable, format=kind))
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReleasedEdges:
        """Read the folder, checking every hash, the certificate's arithmetic and the edges. Runs no code from it."""
        folder = settled(Path(path))
        kind = Format.CSV if (folder / Format.CSV.file).exists() else Format.PARQUET
        contents = read_public(folder, kind.files, SCHEMA)
        described = parse_json(contents["graph.json"], SCHEMA)
        try:
            _require_sizes(described["nodes"], described["edges"])
            certificate = Certificate.from_json(contents["certificate.json"])
            edges = _from_parquet(contents, described) if kind is Format.PARQUET else _from_csv(contents[kind.file])
            made = cls(rebuild_method(described["method"]), edges, described["nodes"], certificate)
        except (Tampered, MissingExtra):
            raise
        # Whatever else breaks, the file did it: pyarrow and torch raise several kinds.
        except Exception as error:
            raise Tampered(f"{folder} is incomplete or altered: {error}") from error
        if certificate.provenance.method != described_method(made.method):
            raise Tampered(f"{folder} is of {made.method.name()}, and its certificate of another method")
        require_agreement(described, made._describe(), f"{folder / 'graph.json'}")
        require_card(contents[CARD], made.card())
        return made

    def _describe(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "method": self.method.describe(),
            "nodes": self.num_nodes,
            "edges": self.edges.shape[1],
            "undirected": self.undirected,
            "ids": _IDS,
            "arcs": arcs_digest(self._arcs()),
        }

    def _size(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        return f"{self.num_nodes} nodes, {self.edges.shape[1]} {kind} edges"


def require_writable(path: Path, format: Format) -> None:
    """`path` is free, empty, or holds a released graph of this format."""
    require_only(path, (*format.files, MANIFEST), f"a released graph with {format.file}")


def _listed(arcs: Csr, undirected: bool) -> Tensor:
    """Arcs by source, then target; of an undirected edge the one with source < target. int64 [2, m]."""
    by_source = arcs.transpose()
    pairs = np.stack([by_source.targets(), by_source.indices])
    return torch.from_numpy(pairs[:, pairs[0] < pairs[1]] if undirected else pairs)


def _parquet(edges: Tensor, inside: dict[bytes, bytes]) -> bytes:
    """What is said of the edges travels inside too: nodes without edges, warnings and lineage must not stay behind."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"source": edges[0].numpy(), "target": edges[1].numpy()})
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(inside), sink)
    return sink.getvalue()


def _from_parquet(contents: Mapping[str, bytes], described: Mapping[str, Any]) -> Tensor:
    """Looked at before it is unpacked: a small file can hold very many edges."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(io.BytesIO(contents[Format.PARQUET.file]))
    schema, rows = file.schema_arrow, file.metadata.num_rows
    told = {name: words for name, words in (schema.metadata or {}).items() if name.startswith(b"graphveil")}
    due = {b"graphveil": contents["graph.json"], b"graphveil card": contents[CARD].removesuffix(b"\n")}
    due[PARQUET_KEY] = to_text(GraphOrigin(contents["certificate.json"].decode(), described["arcs"])).encode()
    if told != due:
        raise ValueError("what edges.parquet says of itself is not what the other files say")
    if schema.names != ["source", "target"] or set(schema.types) != {pa.int64()}:
        raise ValueError("edges.parquet must have the columns source and target, whole numbers")
    if rows != described["edges"]:
        raise ValueError(f"edges.parquet has {rows:,} rows, and graph.json says {described['edges']:,}")
    table = file.read()
    return torch.from_numpy(np.stack([table["source"].to_numpy(), table["target"].to_numpy()]))


def _csv(edges: Tensor) -> bytes:
    sink = io.BytesIO()
    np.savetxt(sink, edges.numpy().T, fmt="%d", delimiter=",", header="source,target", comments="")
    return sink.getvalue()


_LISTED = re.compile(rb"source,target\n(?:(?:0|[1-9][0-9]{0,18}),(?:0|[1-9][0-9]{0,18})\n)*+")
"""An edge list as it is written: no other way to write the same numbers is read."""


def _from_csv(body: bytes) -> Tensor:
    if _LISTED.fullmatch(body) is None:
        raise ValueError("edges.csv must have the first line source,target and then two whole numbers a line")
    if body.count(b"\n") == 1:
        return torch.empty(2, 0, dtype=torch.int64)
    rows = np.loadtxt(io.BytesIO(body), np.int64, delimiter=",", skiprows=1, ndmin=2)
    return torch.from_numpy(rows.T.copy())


def _require_sizes(nodes: object, edges: object) -> None:
    """Lists of so many nodes and edges fit into this machine's memory."""
    for count, what in ((nodes, "nodes"), (edges, "edges")):
        if type(count) is not int or count < 0:
            raise Tampered(f"graph.json must give the number of {what}")
        require_fits(_BYTES * count, f"a graph of {count:,} {what}")
