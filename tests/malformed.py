"""Graphs with exactly one defect, for any test that must see them refused."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import strategies as st

from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph

Attempt = tuple[str, Callable[[], Graph]]
"""`kind: words that the error must contain`, and a call that must raise it."""


@dataclass(frozen=True)
class Parts:
    """A valid undirected graph in pieces; edges [m, 2] lists each edge once, source below target."""

    x: np.ndarray
    edges: np.ndarray
    y: np.ndarray
    roles: np.ndarray

    @property
    def n(self) -> int:
        return len(self.x)

    def arcs(self) -> np.ndarray:
        return np.concatenate([self.edges, self.edges[:, ::-1]])

    def direct(self, **changed: Any) -> Graph:
        """Through the bare constructor."""
        arcs = self.arcs()
        fields = {
            "x": torch.from_numpy(self.x),
            "adj": Csr.from_edge_index(arcs[:, 0], arcs[:, 1], self.n),
            "y": torch.from_numpy(self.y),
            "num_classes": 2,
            "undirected": True,
            "train": torch.from_numpy(self.roles == 1),
            "val": torch.from_numpy(self.roles == 2),
            "test": torch.from_numpy(self.roles == 3),
            "name": "test",
            "split": "given",
        }
        return Graph(**(fields | changed))

    def pyg(self, arcs: np.ndarray) -> Graph:
        """Through PyG's `Data`."""
        from torch_geometric.data import Data

        pairs = torch.from_numpy(np.ascontiguousarray(arcs.T))
        return Graph.from_pyg(
            Data(x=torch.from_numpy(self.x), edge_index=pairs, y=torch.from_numpy(self.y)), undirected=True
        )

    def scipy(self, arcs: np.ndarray, weights: np.ndarray | None = None) -> Graph:
        """Through a sparse matrix."""
        values = np.ones(len(arcs)) if weights is None else weights
        matrix = sp.coo_array((values, (arcs[:, 0], arcs[:, 1])), shape=(self.n, self.n))
        return Graph.from_scipy(matrix, self.x, self.y, undirected=True)

    def rows(self) -> list[list[str]]:
        """The node table with ids n0, n1, ... as text."""
        names = ["", "train", "val", "test"]
        head = ["id", "label", "split", *(f"f{k}" for k in range(self.x.shape[1]))]
        body = [
            [f"n{i}", str(self.y[i]), names[self.roles[i]], *(repr(float(v)) for v in self.x[i])] for i in range(self.n)
        ]
        return [head, *body]

    def pairs(self) -> list[list[str]]:
        """The edge table as text."""
        return [["source", "target"], *([f"n{a}", f"n{b}"] for a, b in self.edges)]


def build_csv(nodes: list[list[str]], edges: list[list[str]], **options: Any) -> Graph:
    """Write both tables and read them back through `from_edges`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("nodes", nodes), ("edges", edges)):
            with Path(folder, f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows(rows)
        return Graph.from_edges(f"{folder}/edges.csv", f"{folder}/nodes.csv", **options)


@st.composite
def parts(draw: st.DrawFn) -> Parts:
    """4 to 9 nodes, 2 classes, a path plus random chords, some nodes in splits."""
    n = draw(st.integers(4, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    path = np.stack([np.arange(n - 1), np.arange(1, n)], 1)
    chords = np.argwhere(np.triu(rng.random((n, n)) < 0.2, 2))
    x = rng.standard_normal((n, draw(st.integers(1, 3)))).astype(np.float32)
    roles = rng.permutation(np.arange(n) % 4)
    return Parts(x, np.concatenate([path, chords]), rng.permutation(np.arange(n) % 2), roles)


def _bad_feature(draw: st.DrawFn, p: Parts) -> Attempt:
    row, column = draw(st.integers(0, p.n - 1)), draw(st.integers(0, p.x.shape[1] - 1))
    x = p.x.copy()
    x[row, column] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    bad = replace(p, x=x)
    tables = draw(st.booleans())
    if tables:
        return f"feature in a table: nodes row {row}: feature 'f{column}'", lambda: build_csv(bad.rows(), p.pairs())
    return f"feature: x row {row}, column {column}", bad.direct


def _text_feature(draw: st.DrawFn, p: Parts) -> Attempt:
    row = draw(st.integers(0, p.n - 1))
    rows = p.rows()
    rows[row + 1][3] = draw(st.sampled_from(["", "red", "1,5", "--"]))
    return f"text feature: nodes row {row}: feature 'f0'", lambda: build_csv(rows, p.pairs())


def _id_out_of_range(draw: st.DrawFn, p: Parts) -> Attempt:
    arcs = p.arcs()
    row, end = draw(st.integers(0, len(arcs) - 1)), draw(st.integers(0, 1))
    arcs[row, end] = draw(st.sampled_from([-1, p.n, p.n + 7, 2**40]))
    return f"id out of range: edge_index column {row} ", lambda: p.pyg(arcs)


def _unknown_id(draw: st.DrawFn, p: Parts) -> Attempt:
    pairs = p.pairs()
    row, end = draw(st.integers(0, len(p.edges) - 1)), draw(st.integers(0, 1))
    pairs[row + 1][end] = draw(st.sampled_from(["zed", "", "N1", "-1"]))
    return f"unknown id: edges row {row}: {('source', 'target')[end]}", lambda: build_csv(p.rows(), pairs)


def _self_loop(draw: st.DrawFn, p: Parts) -> Attempt:
    node = draw(st.integers(0, p.n - 1))
    arcs = np.concatenate([p.arcs(), [[node, node]]])
    way = draw(st.sampled_from(["pyg", "csv", "direct"]))
    if way == "pyg":
        return f"self-loop: edge_index column {len(arcs) - 1} ({node} -> {node})", lambda: p.pyg(arcs)
    if way == "csv":
        pairs = [*p.pairs(), [f"n{node}", f"n{node}"]]
        return f"self-loop: edges row {len(p.edges)} (n{node} -> n{node})", lambda: build_csv(p.rows(), pairs)
    adj = Csr.from_edge_index(arcs[:, 0], arcs[:, 1], p.n)
    return f"self-loop: ({node} -> {node}): self-loop", lambda: p.direct(adj=adj)


def _duplicate(draw: st.DrawFn, p: Parts) -> Attempt:
    row = draw(st.integers(0, len(p.edges) - 1))
    if draw(st.booleans()):
        arcs = np.concatenate([p.arcs(), p.edges[row : row + 1]])
        return f"duplicate: duplicate of edge_index column {row};", lambda: p.pyg(arcs)
    again = p.pairs()[row + 1]
    pairs = [*p.pairs(), again[:: draw(st.sampled_from([1, -1]))]]
    return f"duplicate: duplicate of edges row {row};", lambda: build_csv(p.rows(), pairs)


def _asymmetric(draw: st.DrawFn, p: Parts) -> Attempt:
    gone = draw(st.integers(0, len(p.edges) - 1))
    source, target = p.edges[gone][::-1]
    arcs = np.delete(p.arcs(), gone, axis=0)
    way = draw(st.sampled_from(["pyg", "scipy", "direct"]))
    needle = f"asymmetric: ({source} -> {target}): the opposite arc is missing"
    if way == "direct":
        adj = Csr.from_edge_index(arcs[:, 0], arcs[:, 1], p.n)
        return needle, lambda: p.direct(adj=adj)
    return needle, lambda: getattr(p, way)(arcs)


def _weighted(draw: st.DrawFn, p: Parts) -> Attempt:
    arcs = p.arcs()
    row = draw(st.integers(0, len(arcs) - 1))
    weights = np.ones(len(arcs))
    weights[row] = draw(st.sampled_from([0.5, 2.0, -1.0, np.nan]))
    source, target = arcs[row]
    return f"weight: adjacency entry ({source}, {target}) is {weights[row]}", lambda: p.scipy(arcs, weights)


def _label_out_of_range(draw: st.DrawFn, p: Parts) -> Attempt:
    row, y = draw(st.integers(0, p.n - 1)), p.y.copy()
    y[row] = draw(st.sampled_from([-2, 2, 99, -(2**40)]))
    return f"label: y row {row} is {y[row]};", replace(p, y=y).direct


def _empty_class(draw: st.DrawFn, p: Parts) -> Attempt:
    gap = draw(st.integers(2, 2**40))
    return "empty class: class 1 has no node", lambda: replace(p, y=p.y * gap).pyg(p.arcs())


def _overlap(draw: st.DrawFn, p: Parts) -> Attempt:
    row = int(draw(st.sampled_from(list(np.flatnonzero(p.roles == 1)))))
    mask = torch.from_numpy(p.roles == 2)
    mask[row] = True
    return f"overlap: node {row} is in more than one split (train, val)", lambda: p.direct(val=mask)


def _understated_degree(draw: st.DrawFn, p: Parts) -> Attempt:
    heard = np.bincount(p.arcs()[p.roles[p.arcs()[:, 1]] == 1, 0], minlength=p.n)
    row = int(draw(st.sampled_from(list(np.flatnonzero(heard)))))
    degrees = heard.copy()
    degrees[row] -= 1
    return f"degrees: id {row} points to more training ids", lambda: p.direct().with_degrees(degrees)


def _strange_split(draw: st.DrawFn, p: Parts) -> Attempt:
    row, rows = draw(st.integers(0, p.n - 1)), p.rows()
    rows[row + 1][2] = draw(st.sampled_from(["Train", "valid", "1", "x"]))
    return f"split name: nodes row {row}: split is {rows[row + 1][2]}", lambda: build_csv(rows, p.pairs())


def _repeated_id(draw: st.DrawFn, p: Parts) -> Attempt:
    row, rows = draw(st.integers(1, p.n - 1)), p.rows()
    rows[row + 1][0] = rows[row][0]
    return f"repeated id: nodes row {row}: id n{row - 1} occurs before", lambda: build_csv(rows, p.pairs())


def _empty_id(draw: st.DrawFn, p: Parts) -> Attempt:
    row, rows = draw(st.integers(0, p.n - 1)), p.rows()
    rows[row + 1][0] = draw(st.sampled_from(["", "  "]))
    return f"empty id: nodes row {row}: the id is empty", lambda: build_csv(rows, p.pairs())


def _ragged(draw: st.DrawFn, p: Parts) -> Attempt:
    row, rows = draw(st.integers(0, p.n - 1)), p.rows()
    rows[row + 1] = draw(st.sampled_from([rows[row + 1][:-1], [*rows[row + 1], "1"]]))
    return f"ragged: nodes.csv row {row} has {len(rows[row + 1])} cells", lambda: build_csv(rows, p.pairs())


def _spelt_twice(draw: st.DrawFn, p: Parts) -> Attempt:
    rows = p.rows()
    row = int(draw(st.sampled_from(list(np.flatnonzero(p.y == 1)))))
    rows[row + 1][1] = draw(st.sampled_from(["01", "+1", "\uff11", "1.0"]))
    first = next(int(i) for i in np.flatnonzero(p.y == 1) if i != row)
    one, other = ("1", rows[row + 1][1]) if first < row else (rows[row + 1][1], "1")
    return f"two spellings: the labels {one} and {other} are one number", lambda: build_csv(rows, p.pairs())


def _open_quote(draw: st.DrawFn, p: Parts) -> Attempt:
    row = draw(st.integers(0, p.n - 1))
    lines = [",".join(cells) for cells in p.rows()]
    lines[row + 1] = lines[row + 1].replace(",", ',"', 1)

    def build() -> Graph:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "nodes.csv").write_text("\n".join(lines))
            return Graph.from_edges(p.edges, f"{folder}/nodes.csv")

    return f"open quote: nodes.csv: a quote that opens in row {row} is never closed", build


def _missing_end(draw: st.DrawFn, p: Parts) -> Attempt:
    ends = p.edges.astype(object)
    row, end = draw(st.integers(0, len(ends) - 1)), draw(st.integers(0, 1))
    ends[row, end] = draw(st.sampled_from([None, np.nan, ""]))
    nodes = {"id": np.arange(p.n), "label": p.y, "f": p.x}
    return f"missing end: edges row {row}: column {end} is empty", lambda: Graph.from_edges(ends, nodes)


def _odd_tensor(draw: st.DrawFn, p: Parts) -> Attempt:
    from torch_geometric.data import Data

    forms: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "is sparse or nested": torch.Tensor.to_sparse,
        "is without values": lambda tensor: tensor.to("meta"),
        "is quantised": lambda tensor: torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8),
    }
    parts = {"x": p.x, "edge_index": p.arcs().T.copy(), "y": p.y, "train_mask": p.roles == 1}
    part, form = draw(st.sampled_from(sorted(parts))), draw(st.sampled_from(sorted(forms)))
    tensors = {name: torch.from_numpy(array) for name, array in parts.items()}
    tensors[part] = forms[form](tensors[part])
    said = "the train mask" if part == "train_mask" else part
    return f"tensor: {said} {form}", lambda: Graph.from_pyg(Data(**tensors))


def _wrong_type(draw: st.DrawFn, p: Parts) -> Attempt:
    x, y, mask = torch.from_numpy(p.x), torch.from_numpy(p.y), torch.from_numpy(p.roles == 1)
    changes: dict[str, Any] = {
        "x must be torch.float32": {"x": draw(st.sampled_from([x.double(), x.half(), x.long(), x[0]]))},
        "y must be torch.int64": {"y": draw(st.sampled_from([y.int(), y.float(), y[:, None], y.bool()]))},
        "the train mask must be torch.bool": {"train": draw(st.sampled_from([mask.int(), mask[:, None]]))},
        "x must be a torch tensor": {"x": p.x},
        "x must be contiguous": {"x": torch.from_numpy(p.x.repeat(2, 1))[:, ::2]},
        "adj must be a Csr": {"adj": sp.eye_array(p.n)},
    }
    needle = draw(st.sampled_from(sorted(changes)))
    return f"type: {needle}", lambda: p.direct(**changes[needle])


def _wrong_length(draw: st.DrawFn, p: Parts) -> Attempt:
    part = draw(st.sampled_from(["y", "val", "adj"]))
    short: Any = {
        "y": torch.from_numpy(p.y[1:]),
        "val": torch.zeros(p.n + 1, dtype=torch.bool),
        "adj": Csr.from_edge_index(np.array([0]), np.array([1]), p.n + 1),
    }
    needle = {"y": f"y has {p.n - 1} entries", "val": "the val mask has", "adj": f"adj has {p.n + 1} rows"}
    return f"length: {needle[part]}", lambda: p.direct(**{part: short[part]})


def _empty(draw: st.DrawFn, p: Parts) -> Attempt:
    attempts: dict[str, Callable[[], Graph]] = {
        "no nodes": lambda: p.direct(x=torch.zeros(0, 3)),
        "no features": lambda: p.direct(x=torch.zeros(p.n, 0)),
        "the table has no rows": lambda: build_csv(p.rows()[:1], p.pairs()),
        "no column 'label'": lambda: build_csv([[*row[:1], *row[2:]] for row in p.rows()], p.pairs()),
        "no header": lambda: build_csv(p.rows(), p.pairs()[1:]),
    }
    needle = draw(st.sampled_from(sorted(attempts)))
    shown = "not a header" if needle == "no header" else needle
    return f"empty: {shown}", attempts[needle]


DEFECTS = (
    _bad_feature,
    _text_feature,
    _id_out_of_range,
    _unknown_id,
    _self_loop,
    _duplicate,
    _asymmetric,
    _weighted,
    _label_out_of_range,
    _empty_class,
    _overlap,
    _understated_degree,
    _strange_split,
    _repeated_id,
    _empty_id,
    _ragged,
    _spelt_twice,
    _open_quote,
    _missing_end,
    _odd_tensor,
    _wrong_type,
    _wrong_length,
    _empty,
)


@st.composite
def malformed_graphs(draw: st.DrawFn, kinds: tuple[Any, ...] = DEFECTS) -> Attempt:
    """One attempt to build a graph that has one defect of one of the kinds."""
    return draw(st.sampled_from(kinds))(draw, draw(parts()))  # type: ignore[no-any-return]
