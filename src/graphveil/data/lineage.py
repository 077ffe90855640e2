"""How a graph knows that its edges were released: `GraphOrigin`, which it carries through every form it takes.

A network that is trained on a released graph reveals what that release revealed, whatever its own plan says. So the
released graph's certificate stays with the edges: in the `Graph`, its PyG `Data`, its packed folder, and the files of
the release itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from graphveil.data.arcs import Csr
from graphveil.data.identity import arcs_digest
from graphveil.errors import InvalidInput

PYG_ATTRIBUTE = "graphveil_lineage"
"""Where a PyG `Data` keeps the lineage of its edges, as text."""

PARQUET_KEY = b"graphveil lineage"
"""Where the Parquet file of a released graph keeps its own."""

_MAX_BYTES = 1 << 22
"""Size above which a file cannot be a certificate."""


@dataclass(frozen=True)
class GraphOrigin:
    """One release that a graph descends from.

    certificate: its JSON, checked when the graph is used; arcs: SHA-256 of the arcs that were released, which are
    public. The arcs themselves carry it (`Csr.origin`): a graph that gets others still descends from the release, and
    those are private. Private arcs are never compared with released ones, for the answer would reveal something.
    """

    certificate: str
    arcs: str


def with_origin(adj: Csr, lineage: GraphOrigin | None) -> Csr:
    """Arcs that were read with a lineage; marked as released if they are the very arcs of that release."""
    return adj if lineage is None or lineage.arcs != arcs_digest(adj) else Csr(adj.indptr, adj.indices, lineage)


def to_text(lineage: GraphOrigin) -> str:
    """For files and other libraries' objects; `from_text` inverts it."""
    return json.dumps(asdict(lineage))


def from_text(text: object) -> GraphOrigin:
    """Inverse of `to_text`; a lineage that cannot be read is an error, since it must not be lost."""
    try:
        stored = json.loads(str(text))
        return GraphOrigin(str(stored["certificate"]), str(stored["arcs"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(
            f"the lineage of this graph cannot be read ({error!r}); make the graph again from the release it came from"
        ) from None


def of_file(path: Path) -> GraphOrigin | None:
    """The release that an edge list on disk comes from, by its Parquet metadata or the folder it lies in."""
    resolved = path.resolve()
    return _from_metadata(resolved) or _from_folder(resolved)


def _from_folder(path: Path) -> GraphOrigin | None:
    """Of the folder of a released graph."""
    facts, certificate = path.with_name("graph.json"), path.with_name("certificate.json")
    if not certificate.is_file():
        return None
    if certificate.stat().st_size > _MAX_BYTES:
        raise InvalidInput(f"{certificate} is too large to be the certificate of {path.name}; move the edge list away")
    try:
        arcs = str(json.loads(facts.read_bytes())["arcs"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        # The folder was altered: its edges still descend from the certificate beside them.
        arcs = ""
    return GraphOrigin(certificate.read_text(errors="replace"), arcs)


def _from_metadata(path: Path) -> GraphOrigin | None:
    """Of a Parquet file with our metadata, wherever it was moved."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        return None
    import pyarrow.parquet as pq

    found = (pq.read_schema(path).metadata or {}).get(PARQUET_KEY)
    return None if found is None else from_text(found.decode(errors="replace"))
