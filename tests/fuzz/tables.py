"""Damaged and odd tables at the border. Run: python tests/fuzz/tables.py {csv,parquet,pyg} [--count N] [--seed S].

Every case damages well-formed input (bytes, cells, structure, types) and asks for a graph. Allowed are a graphveil
error and a graph that an independent reading by Python alone agrees with. Counted are raw exceptions, silent
acceptances (a graph that differs from the reading, or one where it finds no table), hangs (20 s) and crashes; needless
refusals of a CSV file that reads well are counted beside them. Bytes of a Parquet file may change into another valid
file, so those cases are only asked for raw exceptions, hangs and crashes.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import decimal
import faulthandler
import io
import json
import math
import subprocess
import sys
import tempfile
import traceback
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch, Data, HeteroData

from graphveil.data.graph import Graph
from graphveil.data.tables import read_table
from graphveil.errors import GraphveilError

PATIENCE = 20
"""Seconds after which a case hangs."""

WORDS = [
    "",
    "0",
    "1",
    "01",
    "+1",
    "1.0",
    "1_0",
    "-1",
    "-5",
    "\uff11",
    "a",
    " a ",
    "na\u00efve",
    "nai\u0308ve",
    "NA",
    "null",
]
WORDS += [
    "nan",
    "inf",
    "1e5",
    "1e400",
    "true",
    "2020-01-01",
    "=1+1",
    "a,b",
    'say "x"',
    "two\nlines",
    "\r",
    "train",
    "x" * 300,
]
BITS = [
    b'"',
    b'""',
    b",",
    b"\n",
    b"\r\n",
    b"\r",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xc3",
    b"\xed\xa0\x80",
    b" ",
    b"-1",
]
BITS += [b",,", b'"\n', b"\n\n", b'",', b"\t", b";", b"1e5", b"id", b"label", "\uff11".encode(), b"9" * 30]

Seen = dict[str, Any]
"""How one case ended: `end`, and what is to be said about it."""


class Disagrees(Exception):
    """The graph is not the one that stands in the table."""


def case(kind: str, seed: int, number: int) -> Seen:
    """One case, from its seed alone."""
    rng = np.random.default_rng([seed, number])
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            return {"end": CASES[kind](rng, Path(folder))}
    except Disagrees as error:
        return {"end": "silent", "said": str(error)}
    except Exception as error:
        return {"end": "raw", "said": f"{type(error).__name__}: {error}"[:300], "at": traceback.format_exc()[-1500:]}


# CSV


def csv_case(rng: np.random.Generator, folder: Path) -> str:
    """A node and an edge table of which one, at least, is damaged."""
    nodes, edges = tables(rng)
    for name, rows in (("nodes", nodes), ("edges", edges)):
        damaged_cells(rng, rows)
        raw = rendered(rng, rows)
        (folder / f"{name}.csv").write_bytes(damaged_bytes(rng, raw) if rng.random() < 0.35 else raw)
    ends = [read_agrees(folder / f"{name}.csv") for name in ("nodes", "edges")]
    if "needless" in ends:
        return "needless"
    undirected = bool(rng.random() < 0.5)
    try:
        graph = Graph.from_edges(folder / "edges.csv", folder / "nodes.csv", undirected=undirected, clean=True)
    except GraphveilError:
        return "refused"
    known, pairs = by_python(folder / "nodes.csv"), by_python(folder / "edges.csv")
    if known is None or pairs is None:
        raise Disagrees("a graph of files that are no tables")
    agrees(graph, known, pairs, undirected)
    return "accepted"


def tables(rng: np.random.Generator) -> tuple[list[list[str]], list[list[str]]]:
    """A well-formed pair of tables as rows of text."""
    n, d = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    named = bool(rng.random() < 0.5)
    ids = [f"n{i}" if named else str(i * 7) for i in range(n)]
    labels = [str(rng.choice(["red", "green", ""])) if named else str(rng.integers(-1, 12)) for _ in range(n)]
    nodes = [["id", "label", "split", *(f"f{k}" for k in range(d))]]
    for i in range(n):
        role = str(rng.choice(["train", "val", ""])) if labels[i] not in ("", "-1") else ""
        nodes += [[ids[i], labels[i], role, *(repr(v) for v in rng.normal(size=d).tolist())]]
    edges = [["source", "target"]]
    edges += [[ids[int(a)], ids[int(b)]] for a, b in rng.integers(n, size=(int(rng.integers(8)), 2))]
    return nodes, edges


def damaged_cells(rng: np.random.Generator, rows: list[list[str]]) -> None:
    """Other cells, ragged rows, repeated and lost rows and names; often nothing."""
    for _ in range(int(rng.choice([0, 0, 0, 1, 1, 2]))):
        row = rows[int(rng.integers(len(rows)))]
        place = int(rng.integers(max(len(row), 1)))
        match int(rng.integers(12)):
            case 0:
                row.append(str(rng.choice(WORDS)))
            case 1:
                del row[place:]
            case 2:
                rows.insert(int(rng.integers(len(rows) + 1)), list(row))
            case 3 if len(rows) > 1:
                rows.remove(row)
            case _ if row:
                row[place] = str(rng.choice(WORDS))


def rendered(rng: np.random.Generator, rows: list[list[str]]) -> bytes:
    """As somebody would write it."""
    text = io.StringIO(newline="")
    ending, quoting = str(rng.choice(["\n", "\r\n", "\r"])), int(rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    csv.writer(text, lineterminator=ending, quoting=quoting).writerows(rows)
    return (b"\xef\xbb\xbf" if rng.random() < 0.2 else b"") + text.getvalue().encode()


def damaged_bytes(rng: np.random.Generator, raw: bytes, flips: bool = False) -> bytes:
    """Bytes changed, put in, taken out, repeated or cut off; `flips`: changed only, so that others stay in place."""
    body = bytearray(raw)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(body) + 1))
        end = min(len(body), place + int(rng.integers(1, 20)))
        match 0 if flips else int(rng.integers(6)):
            case 0 if place < len(body):
                body[place] ^= 1 << int(rng.integers(8))
            case 1:
                del body[place:end]
            case 2:
                body[place:place] = body[place:end]
            case 3:
                del body[place:]
            case _:
                body[place:place] = BITS[int(rng.integers(len(BITS)))]
    return bytes(body)


def by_python(path: Path) -> dict[str, list[str]] | None:
    """The table as Python's csv module reads it, cells without surrounding blanks; None where it is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    if "\0" in text or open_quote(text):
        return None
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    header = [name.strip() for name in rows[0]] if rows else []
    fine = (
        bool(header) and all(header) and len(set(header)) == len(header) and {len(row) for row in rows} == {len(header)}
    )
    return {name: [row[k].strip() for row in rows[1:]] for k, name in enumerate(header)} if fine else None


def open_quote(text: str) -> bool:
    """Whether the text ends within quotes: they open at the start of a cell only, and a doubled one is a character."""
    state = "start"
    for character in text:
        if state == "quoted":
            state = "closing" if character == '"' else "quoted"
        elif state == "closing" and character == '"':
            state = "quoted"
        elif character in ",\n\r":
            state = "start"
        else:
            state = "quoted" if state == "start" and character == '"' else "plain"
    return state == "quoted"


def read_agrees(path: Path) -> str:
    """Our reading of a file against Python's."""
    expected = by_python(path)
    try:
        found = read_table(path, "nodes")
    except GraphveilError:
        return "refused" if expected is None else "needless"
    if expected != {name: column.to_pylist() for name, column in found.items()}:
        raise Disagrees(f"{path.name} was read as something else")
    return "accepted"


def agrees(graph: Graph, nodes: dict[str, list[str]], edges: dict[str, list[str]], undirected: bool) -> None:
    """The graph against the cells: ids and labels as text, features as Python's floats, edges without loops, once."""
    place = {name: i for i, name in enumerate(nodes["id"])}
    if len(place) != len(nodes["id"]) or "" in place:
        raise Disagrees("ids are not distinct and present")
    sides = ("source", "target") if {"source", "target"} <= set(edges) else tuple(edges)
    pairs = {(place.get(a, -1), place.get(b, -1)) for a, b in zip(edges[sides[0]], edges[sides[1]], strict=True)}
    same_arcs(graph, pairs, undirected)
    rest = [name for name in nodes if name not in ("id", "label", "split")]
    same_features(graph, [[float(nodes[name][i]) for name in rest] for i in range(len(place))])
    same_classes(graph, nodes["label"])
    for role in ("train", "val", "test"):
        expected = [cell == role for cell in nodes.get("split", [""] * len(place))]
        if getattr(graph, role).tolist() != expected:
            raise Disagrees(f"the {role} mask differs")


def same_arcs(graph: Graph, pairs: set[tuple[int, int]], undirected: bool) -> None:
    wanted = {(a, b) for a, b in pairs if a != b}
    wanted |= {(b, a) for a, b in wanted} if undirected else set()
    if {tuple(arc) for arc in graph.adj.edge_index().T.tolist()} != wanted:
        raise Disagrees("the edges differ")


def same_features(graph: Graph, rows: list[list[float]]) -> None:
    if not np.array_equal(graph.x.numpy(), np.array(rows, dtype=np.float64).astype(np.float32)):
        raise Disagrees("the features differ")


def same_classes(graph: Graph, labels: list[str]) -> None:
    """Two nodes share a class exactly if their labels are the same text; "" and -1 are none; 2 comes before 10."""
    classes: dict[int, str] = {}
    for found, label in zip(graph.y.tolist(), labels, strict=True):
        if (found == -1) != (label in ("", "-1")) or (found >= 0 and classes.setdefault(found, label) != label):
            raise Disagrees(f"the label {label} became {found}")
    names = [classes[place] for place in sorted(classes)]
    numbers = all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names)
    if names != sorted(set(names), key=int if numbers else str):
        raise Disagrees(f"the classes are {names}")


# Parquet


def parquet_case(rng: np.random.Generator, folder: Path) -> str:
    """Columns of odd types, or damaged bytes."""
    n = int(rng.integers(0, 9))
    kinds = odd_columns(rng, n)
    nodes = {
        "id": pa.array([f"n{i}" for i in range(n)]),
        "label": pa.array(rng.integers(3, size=n)),
        "f": pa.array(rng.normal(size=n)),
    }
    m = int(rng.integers(0, 6)) if n else 0
    edges = {
        side: pa.array([f"n{i}" for i in rng.integers(max(n, 1), size=m)], pa.string()) for side in ("source", "target")
    }
    names = ["id", "label", "split", "f", "extra"]
    for _ in range(int(rng.integers(0, 3))):
        nodes[str(rng.choice(names))] = kinds[str(rng.choice(sorted(kinds)))]
    if rng.random() < 0.3:
        others = odd_columns(rng, m)
        edges[str(rng.choice(["source", "target", "weight"]))] = others[str(rng.choice(sorted(others)))]
    damage = rng.random() < 0.5
    for name, columns in (("nodes", nodes), ("edges", edges)):
        raw = written(rng, columns)
        (folder / f"{name}.parquet").write_bytes(damaged_bytes(rng, raw, rng.random() < 0.7) if damage else raw)
    try:
        graph = Graph.from_edges(folder / "edges.parquet", folder / "nodes.parquet", clean=True)
    except GraphveilError:
        return "refused"
    if not damage:
        cells = {name: as_text(column) for name, column in nodes.items()}
        agrees(graph, cells, {name: as_text(column) for name, column in edges.items()}, True)
    return "accepted"


def written(rng: np.random.Generator, columns: dict[str, Any]) -> bytes:
    """A Parquet file, now and then with a name twice, several groups or checksums."""
    names, arrays = list(columns), list(columns.values())
    if rng.random() < 0.05:
        names, arrays = [*names, names[0]], [*arrays, arrays[0]]
    sink = io.BytesIO()
    options = {"row_group_size": int(rng.integers(1, 9)), "write_page_checksum": bool(rng.random() < 0.3)}
    codec = str(rng.choice(["none", "snappy", "zstd", "gzip"]))
    pq.write_table(
        pa.Table.from_arrays(arrays, names), sink, compression=codec, use_dictionary=bool(rng.random() < 0.5), **options
    )
    return sink.getvalue()


def odd_columns(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Columns [n] of every type that a file may have."""
    some = lambda values: [values[int(k)] for k in rng.integers(len(values), size=n)]  # noqa: E731
    numbers = rng.integers(0, 5, size=n)
    return {
        "text": pa.array(some(["red", "blue", " red", "", None, "1", "01", "\uff11", "nan"]), pa.string()),
        "distinct text": pa.array([f"{i} {WORDS[i % len(WORDS)]}" for i in range(n)], pa.large_string()),
        "views": pa.array(some(["a", "b", None]), pa.string_view()),
        "bytes": pa.array(some([b"a", b"1", b"\xff"]), pa.binary()),
        "byte views": pa.array(some([b"a", b"1"]), pa.binary_view()),
        "fixed bytes": pa.array(some([b"ab", b"cd"]), pa.binary(2)),
        "bad text": pa.Array.from_buffers(pa.string(), n, pa.array([b"\xff"] * n, pa.binary()).buffers()),
        "coded": pa.array(some(["x", "y", None]), pa.string()).dictionary_encode(),
        "coded, not used": pa.DictionaryArray.from_arrays(pa.array(numbers % 2), pa.array(["x", "y", "never"])),
        "coded numbers": pa.array(numbers).dictionary_encode(),
        "int8": pa.array(numbers, pa.int8()),
        "int64 with nulls": pa.array(some([0, 1, None]), pa.int64()),
        "uint64": pa.array(some([0, 2**63, 2**64 - 1]), pa.uint64()),
        "float16": pa.array(rng.normal(size=n).astype(np.float16)),
        "float with nan": pa.array(some([0.0, 1.0, math.nan, None]), pa.float64()),
        "bool": pa.array(some([True, False]), pa.bool_()),
        "bool with nulls": pa.array(some([True, None]), pa.bool_()),
        "decimal": pa.array(some([decimal.Decimal("1.50"), decimal.Decimal("-2.25")]), pa.decimal128(9, 2)),
        "whole decimal": pa.array(some([decimal.Decimal(1), decimal.Decimal(12)]), pa.decimal128(9, 0)),
        "wide decimal": pa.array(some([decimal.Decimal(10) ** 40]), pa.decimal256(60, 0)),
        "nothing": pa.nulls(n),
        "dates": pa.array([datetime.date(2020, 1, 1)] * n, pa.date32()),
        "times": pa.array([datetime.time(1)] * n, pa.time64("us")),
        "stamps": pa.array([datetime.datetime(2020, 1, 1)] * n, pa.timestamp("us", "UTC")),
        "durations": pa.array([datetime.timedelta(1)] * n, pa.duration("us")),
        "lists": pa.array(some([[1], [2, 3], None, []]), pa.list_(pa.int64())),
        "vectors": pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32(), 2)),
        "structs": pa.array([{"a": 1}] * n, pa.struct([("a", pa.int64())])),
        "maps": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
        "uuids": pa.array([uuid.UUID(int=i).bytes for i in range(n)], pa.uuid()),
    }


def as_text(column: Any) -> list[str]:
    """What stands in a column, in words: whole numbers in decimal, truth values as 0 and 1, nothing as empty text."""
    cells = ["" if cell is None else cell.decode() if isinstance(cell, bytes) else cell for cell in column.to_pylist()]
    return [str(int(cell) if isinstance(cell, bool) else cell).strip() for cell in cells]


# PyG, scipy and networkx


def pyg_case(rng: np.random.Generator, _: Path) -> str:
    """Odd tensors, matrices and attributes in one of the three forms."""
    n = int(rng.integers(2, 7))
    pairs = {(int(a), int(b)) for a, b in rng.integers(n, size=(int(rng.integers(9)), 2)) if a != b}
    x, y = rng.normal(size=(n, 2)).astype(np.float32), rng.permutation(np.arange(n) % 2)
    form = [from_pyg, from_scipy, from_networkx][int(rng.choice([0, 0, 1, 2]))]
    try:
        graph, expected = form(rng, x, y, sorted(pairs))
    except GraphveilError:
        return "refused"
    if expected is None:
        raise Disagrees(f"{form.__name__}: a graph where there is none")
    rows, classes, linked = expected
    same_arcs(graph, linked, graph.undirected)
    same_features(graph, np.asarray(rows, dtype=np.float64).tolist())
    if graph.y.tolist() != classes:
        raise Disagrees(f"{form.__name__}: the labels differ: {graph.y.tolist()} for {classes}")
    return "accepted"


Expected = tuple[Any, list[int], set[tuple[int, int]]] | None


class Named(torch.Tensor):
    """A subclass, as libraries make them."""


TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sparse COO": lambda t: t.to_sparse(),
    "sparse CSR": lambda t: (t if t.dim() == 2 else t[:, None]).to_sparse_csr(),
    "quantised": lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
    "meta": lambda t: t.to("meta"),
    "nested": lambda t: torch.nested.nested_tensor([t.float(), t[:1].float()]),
    "complex": lambda t: t.to(torch.complex64),
    "imaginary": lambda t: torch.complex(t.float(), t.float()).conj().imag,
    "gradient": lambda t: t.float().requires_grad_(),
    "parameter": lambda t: torch.nn.Parameter(t.float()),
    "subclass": lambda t: t.as_subclass(Named),
    "transposed": lambda t: t.T.contiguous().T if t.dim() == 2 else t.flip(0),
    "strided": lambda t: t.repeat_interleave(2, 0)[::2],
    "expanded": lambda t: t[:1].expand(len(t), *t.shape[1:]),
    "zero-dimensional": lambda t: t.reshape(-1)[0],
    "one more dimension": lambda t: t[..., None],
    "one row less": lambda t: t[1:],
    "one row more": lambda t: torch.cat([t, t[:1]]),
    "empty": lambda t: t[:0],
    "no columns": lambda t: t.reshape(len(t), -1)[:, :0],
    "flat": lambda t: t.reshape(-1),
    "one-hot": lambda t: torch.eye(8)[t.long().clamp(0, 7).reshape(-1)],
    "nan": lambda t: t.float() * math.nan,
    "infinite": lambda t: t.float() + math.inf,
    "huge": lambda t: t.double() * 1e300,
    "negative": lambda t: -1 - t,
    "far": lambda t: t + 2**40,
    "array": lambda t: t.numpy(),
    "list": lambda t: t.tolist(),
    "none": lambda _: None,
    "text": lambda _: "x",
    **{str(kind): lambda t, kind=kind: t.to(kind) for kind in (
        torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.uint8, torch.int16,
        torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64, torch.bool,
    )},
    "uint64 beyond": lambda t: t.to(torch.uint64).view(torch.int64).sub(1).view(torch.uint64),
    "bits": lambda t: t.to(torch.uint8).view(torch.bits8),
}  # fmt: skip


def odd_tensor(rng: np.random.Generator, tensor: torch.Tensor) -> Any:
    """The tensor in another form, or one that is like it."""
    try:
        return TENSORS[str(rng.choice(sorted(TENSORS)))](tensor)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return tensor


def listed(value: Any) -> list[Any] | None:
    """The numbers of a tensor, or nothing where only a conversion would tell them."""
    if not isinstance(value, torch.Tensor) or value.is_meta or value.is_quantized or value.is_nested:
        return None
    return value.detach().tolist() if value.layout == torch.strided else None


def from_pyg(rng: np.random.Generator, x: Any, y: Any, pairs: list[tuple[int, int]]) -> tuple[Graph, Expected]:
    """Through `Data`, a batch or something like them."""
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    parts: dict[str, Any] = {"x": torch.from_numpy(x), "y": torch.from_numpy(y), "edge_index": torch.from_numpy(ends)}
    if rng.random() < 0.4:
        parts["train_mask"] = torch.from_numpy(rng.random(len(x)) < 0.5)
    for name in list(parts):
        if rng.random() < 0.4:
            parts[name] = odd_tensor(rng, parts[name])
    if rng.random() < 0.1:
        parts["num_nodes"] = int(rng.integers(0, 9))
    data: Any = Data(**parts)
    odd = rng.random()
    if odd < 0.03:
        data = HeteroData({"person": parts})
    elif odd < 0.06:
        data = parts
    elif odd < 0.12:
        try:
            data = Batch.from_data_list([data, data])
        except Exception:
            data = Data(**parts)
    graph = Graph.from_pyg(data, clean=bool(rng.random() < 0.5), undirected=[None, True, False][int(rng.integers(3))])
    said_x, said_y, said_ends = (listed(getattr(data, part, None)) for part in ("x", "y", "edge_index"))
    if said_x is None or said_y is None or said_ends is None:
        return graph, None
    mask = listed(getattr(data, "train_mask", None))
    if mask is not None and (data.train_mask.dtype != torch.bool or mask != graph.train.tolist()):
        raise Disagrees("the training mask differs")
    return graph, (said_x, [int(label) for label in said_y], set(zip(*said_ends, strict=True)))


def from_scipy(rng: np.random.Generator, x: Any, y: Any, pairs: list[tuple[int, int]]) -> tuple[Graph, Expected]:
    """Through matrices of every format and type."""
    n, clean = len(x), bool(rng.random() < 0.5)
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    values: Any = np.ones(len(ends))
    if len(ends) and rng.random() < 0.3:
        ends, values = np.concatenate([ends, ends[:1]]), np.append(values, rng.choice([1.0, -1.0, 0.0]))
    if len(ends) and rng.random() < 0.2:
        values[0] = rng.choice([0.0, 0.5, math.nan, math.inf, -1.0])
    kind = rng.choice(["f8", "f4", "i1", "u8", "?", "c16", "O", "i8"])
    shape = str(rng.choice(["coo", "csr", "csc", "lil", "dok", "dia", "bsr"]))
    matrix: Any = sp.coo_array((values, ends.T), shape=(n, n))
    try:
        matrix = matrix.astype(np.dtype(kind)) if kind != "O" else matrix.astype(object)
        matrix = matrix if shape == "coo" else matrix.asformat(shape)
    except (ValueError, TypeError, NotImplementedError):
        pass
    odd = rng.random()
    if odd < 0.1:
        matrix = [
            matrix[:-1] if shape in ("csr", "lil") else sp.coo_array((n, n + 1)),
            sp.coo_array((n,)),
            matrix.toarray(),
            None,
        ][int(rng.integers(4))]
    given_x: Any = [
        x,
        x,
        x.astype(">f4"),
        sp.csr_array(x),
        x.tolist(),
        x.astype(object),
        x[::-1][::-1],
        np.ma.array(x, mask=x > 0),
        x[:, 0],
        "x",
    ][int(rng.integers(10))]
    given_y: Any = [
        y,
        y,
        y.tolist(),
        y.astype(float),
        y.astype("U1"),
        y.astype(np.uint64) - 1,
        np.eye(2)[y],
        y.astype(">i4"),
        None,
    ][int(rng.integers(9))]
    graph = Graph.from_scipy(matrix, given_x, given_y, clean=clean)
    if np.ma.isMaskedArray(given_x) or not sp.issparse(matrix) or matrix.shape != (n, n):
        return graph, None
    sums: Counter[tuple[int, int]] = Counter()
    entries = matrix.tocoo()
    for row, column, value in zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True):
        if value != value or (not clean and value not in (0, 1)):
            raise Disagrees(f"a weight of {value}")
        sums[row, column] += value
    if np.asarray(given_y).dtype == np.uint64 and (given_y > n).any():
        raise Disagrees("labels beyond 64 bits")
    found = {pair for pair, value in sums.items() if value != 0}
    return graph, (x, [int(label) for label in np.asarray(given_y).tolist()], found)


def from_networkx(rng: np.random.Generator, x: Any, y: Any, pairs: list[tuple[int, int]]) -> tuple[Graph, Expected]:
    """Through a graph whose nodes carry odd attributes."""
    kinds = [nx.Graph, nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]
    g = kinds[int(rng.integers(len(kinds)))]()
    names = [f"n{i}" for i in range(len(x))]
    labels: list[Any] = [["no", "yes"][label] for label in y]
    rows: list[Any] = [row.tolist() for row in x]
    odd: list[Any] = [
        None,
        math.nan,
        "red",
        1,
        1.0,
        True,
        b"no",
        b"\xff",
        [1],
        {"a": 1},
        torch.tensor(1),
        10**400,
        "\ud800",
        np.int64(1),
    ]
    if rng.random() < 0.4:
        labels[int(rng.integers(len(labels)))] = odd[int(rng.integers(len(odd)))]
    if rng.random() < 0.3:
        vectors = [
            None,
            "red",
            ["1", "2"],
            [1],
            [[1, 2]],
            torch.tensor([1.0, 2.0]),
            torch.ones(2).requires_grad_(),
            torch.ones(2).to_sparse(),
            [10**400, 1],
            [1j, 2],
            [None, 1],
            math.nan,
            np.array([1, 2]),
        ]
        rows[int(rng.integers(len(rows)))] = vectors[int(rng.integers(len(vectors)))]
    for name, row, label in zip(names, rows, labels, strict=True):
        g.add_node(name, x=row, y=label)
    g.add_edges_from((names[a], names[b]) for a, b in pairs)
    if rng.random() < 0.1:
        g.nodes[names[0]].pop("x")
    if rng.random() < 0.05:
        g = {"a": g}
    graph = Graph.from_networkx(g, clean=True)
    means = np.array(
        [np.asarray(row.detach() if isinstance(row, torch.Tensor) else row, dtype=np.float64) for row in rows]
    )
    said = [
        "" if label is None or label != label else label.decode() if isinstance(label, bytes) else str(label)
        for label in labels
    ]
    same_classes(graph, said)
    return graph, (means, graph.y.tolist(), set(pairs))


CASES = {"csv": csv_case, "parquet": parquet_case, "pyg": pyg_case}


# Running


def work(kind: str, seed: int, start: int, stop: int) -> None:
    """Print how each case ends; one that hangs ends the process, even where it hangs in C."""
    for number in range(start, stop):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        print(json.dumps({"number": number, **case(kind, seed, number)}), flush=True)
        faulthandler.cancel_dump_traceback_later()


def run(kind: str, seed: int, count: int) -> Iterator[Seen]:
    """All cases in processes of their own, so that a crash costs one case."""
    done = 0
    while done < count:
        words = [sys.executable, __file__, kind, "--seed", str(seed), "--start", str(done), "--count", str(count)]
        child = subprocess.run([*words, "--worker"], capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        yield from lines
        done += len(lines)
        if done < count:
            end = "hang" if "Timeout" in child.stderr else "crash"
            yield {"number": done, "end": end, "at": child.stderr[-1500:]}
            done += 1


def main() -> None:
    """Count the ends, and show every bad one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=CASES)
    for name, default in (("--count", 1000), ("--seed", 0), ("--start", 0)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work(asked.kind, asked.seed, asked.start, asked.count)
        return
    ends: Counter[str] = Counter()
    for seen in run(asked.kind, asked.seed, asked.count):
        ends[seen["end"]] += 1
        if seen["end"] not in ("accepted", "refused"):
            print(json.dumps(seen, indent=2))
    order = ("accepted", "refused", "raw", "silent", "hang", "crash", "needless")
    print(f"{asked.kind}, seed {asked.seed}: " + ", ".join(f"{ends[end]} {end}" for end in order))


if __name__ == "__main__":
    main()
