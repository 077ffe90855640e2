"""The border: round trips, refusals, splits and the seal."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphveil as gv
from graphveil.auditing.game import Pair
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import PUBLIC_DEGREES, Public, Sealed, out_degrees
from graphveil.errors import InvalidInput, MissingExtra, PrivateAccess
from graphveil.vocabulary import Adjacency, Unit
from malformed import DEFECTS, Attempt, Parts, build_csv, malformed_graphs, parts

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def same(a: Graph, b: Graph) -> bool:
    return a.fingerprint() == b.fingerprint() and a.split_hash() == b.split_hash()


def small(n: int = 40, classes: int = 3, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((n, n)) < 0.2, 1))
    y = torch.from_numpy(rng.permutation(np.arange(n) % classes))
    return Graph.from_scipy(
        sp.coo_array((np.ones(2 * len(edges)), np.concatenate([edges, edges[:, ::-1]]).T), shape=(n, n)),
        rng.standard_normal((n, 4)).astype(np.float32),
        y.numpy(),
    )


# Csr


@st.composite
def arcs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    n = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), unique=True))
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1], n


@QUICK
@given(arcs())
def test_csr_agrees_with_scipy(given_arcs: tuple[np.ndarray, np.ndarray, int]) -> None:
    sources, targets, n = given_arcs
    csr = Csr.from_edge_index(sources, targets, n)
    dense = np.zeros((n, n), dtype=np.float32)
    dense[targets, sources] = 1
    expected = sp.csr_array(dense)
    assert np.array_equal(csr.indptr, expected.indptr)
    assert np.array_equal(csr.indices, expected.indices)
    assert csr.to_scipy().dtype == np.float32
    assert np.array_equal(csr.to_scipy().toarray(), dense)
    assert np.array_equal(csr.transpose().to_scipy().toarray(), dense.T)
    assert np.array_equal(csr.in_degrees(), dense.sum(1))
    assert csr.has_loops() == bool(np.diag(dense).any())
    assert csr.is_symmetric() == np.array_equal(dense, dense.T)
    both = np.maximum(dense, dense.T).nonzero()
    assert Csr.from_edge_index(both[0], both[1], n).is_symmetric()
    assert (csr.num_nodes, csr.num_arcs) == (n, len(sources))


@QUICK
@given(arcs())
def test_csr_round_trips_through_edge_index(given_arcs: tuple[np.ndarray, np.ndarray, int]) -> None:
    sources, targets, n = given_arcs
    csr = Csr.from_edge_index(sources, targets, n)
    edge_index = csr.edge_index()
    assert edge_index.dtype == torch.int64
    assert {tuple(arc) for arc in edge_index.T.tolist()} == set(zip(sources, targets, strict=True))
    again = Csr.from_edge_index(edge_index[0].numpy(), edge_index[1].numpy(), n)
    assert np.array_equal(again.indices, csr.indices)
    assert np.array_equal(again.indptr, csr.indptr)


@pytest.mark.parametrize(
    ("indptr", "indices", "words"),
    [
        ([0, 1], [0], "int64"),
        (np.array([0, 2]), np.array([0]), "end at 1"),
        (np.array([1, 1]), np.array([0]), "start at 0"),
        (np.array([], dtype=np.int64), np.array([], dtype=np.int64), "start at 0"),
        (np.array([0, 2, 1, 2]), np.array([0, 1]), "after row 1"),
        (np.array([0, 1]), np.array([3]), r"indices\[0\] is 3"),
        (np.array([0, 2, 2]), np.array([1, 0]), r"indices\[1\]"),
        (np.array([0, 2, 2]), np.array([1, 1]), r"indices\[1\]"),
    ],
)
def test_csr_refuses_a_broken_layout(indptr: Any, indices: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Csr(indptr, indices)


def test_csr_rows_may_fall_at_borders_and_be_empty() -> None:
    csr = Csr(np.array([0, 1, 1, 2]), np.array([2, 0]))
    assert csr.in_degrees().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("sources", "targets", "words"),
    [
        ([0.0], [1.0], "integer"),
        ([0, 1], [1], "pair up"),
        ([0, 0], [1, 1], "arc 1 .*duplicate of arc 0"),
        ([0], [9], "arc 0 "),
    ],
)
def test_from_edge_index_refuses(sources: list[Any], targets: list[Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Csr.from_edge_index(np.array(sources), np.array(targets), 3)


# Construction


@QUICK
@given(parts())
def test_every_constructor_builds_the_same_graph(p: Parts) -> None:
    graph = p.direct()
    assert same(graph, Graph.from_pyg(graph.to_pyg()))
    matrix = graph.adj.to_scipy().T
    from_scipy = Graph.from_scipy(matrix, graph.x, graph.y)
    assert same(graph, from_scipy.with_split(graph.train, graph.val, graph.test, "copied"))
    assert same(graph, build_csv(p.rows(), p.pairs()))


def test_networkx_round_trip() -> None:
    nx = pytest.importorskip("networkx")
    graph = small().random_split(seed=1)
    roles = np.array(["", "train", "val", "test"])[graph.train.numpy() + 2 * graph.val.numpy() + 3 * graph.test.numpy()]
    g = nx.Graph()
    for i in range(graph.num_nodes):
        g.add_node(f"person {i}", x=graph.x[i].tolist(), y="abc"[int(graph.y[i])], split=roles[i])
    g.add_edges_from((f"person {a}", f"person {b}") for a, b in graph.adj.edge_index().T.tolist())
    assert same(graph, Graph.from_networkx(g))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: g.nodes["b"].pop("x"), "node 'b' has no attribute 'x'"),
        (lambda g: g.nodes["b"].update(x=[1, 2]), "node 'b' has 2 features"),
        (lambda g: g.nodes["b"].update(x="red"), "node 'b'.*not a vector"),
        (lambda g: g.add_edge("b", "b"), r"edge 2 \(b -> b\): self-loop"),
        (lambda g: g.nodes["b"].update(split="maybe"), "node 1: split is maybe"),
    ],
)
def test_networkx_errors_name_the_node(change: Callable[[Any], Any], words: str) -> None:
    nx = pytest.importorskip("networkx")
    g = nx.path_graph(["a", "b", "c"])
    for node in g:
        g.nodes[node].update(x=[1.0], y=int(node == "a"))
    change(g)
    with pytest.raises(InvalidInput, match=words):
        Graph.from_networkx(g)


def test_networkx_multigraph_needs_cleaning_and_digraph_is_directed() -> None:
    nx = pytest.importorskip("networkx")
    g = nx.MultiGraph([("a", "b"), ("a", "b")])
    nx.set_node_attributes(g, {"a": {"x": 1.0, "y": 0}, "b": {"x": 2.0, "y": 1}})
    with pytest.raises(InvalidInput, match="duplicate of edge 0"):
        Graph.from_networkx(g)
    assert Graph.from_networkx(g, clean=True).num_edges == 1
    directed = nx.DiGraph(g)
    directed.remove_edge("b", "a")
    graph = Graph.from_networkx(directed)
    assert not graph.undirected
    assert graph.adj.edge_index().tolist() == [[0], [1]]


def test_direction_is_source_to_target_everywhere() -> None:
    from torch_geometric.data import Data

    x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 0])
    matrix = sp.coo_array(([1], ([0], [2])), shape=(3, 3))
    data = Data(x=torch.from_numpy(x), y=torch.from_numpy(y), edge_index=torch.tensor([[0], [2]]))
    nodes = {"id": np.array(["a", "b", "c"]), "label": y, "x": x}
    graphs = [
        Graph.from_scipy(matrix, x, y),
        Graph.from_pyg(data),
        Graph.from_edges(np.array([["a", "c"]]), nodes, undirected=False),
    ]
    assert len({graph.fingerprint() for graph in graphs}) == 1
    for graph in graphs:
        assert not graph.undirected
        assert graph.adj.in_degrees().tolist() == [0, 0, 1]
        assert graph.adj.indices.tolist() == [0]


def test_parquet_round_trip(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    graph = small()
    upper = graph.adj.edge_index()
    upper = upper[:, upper[0] < upper[1]]
    labels = [int(label) if i else None for i, label in enumerate(graph.y)]
    columns = {"id": list(range(graph.num_nodes)), "label": labels}
    columns |= {f"f{k}": graph.x[:, k].tolist() for k in range(graph.num_features)}
    pq.write_table(pa.table(columns), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"a": upper[0].tolist(), "b": upper[1].tolist()}), tmp_path / "edges.parquet")
    read = Graph.from_edges(tmp_path / "edges.parquet", tmp_path / "nodes.parquet")
    y = graph.y.clone()
    y[0] = -1
    assert torch.equal(read.x, graph.x)
    assert torch.equal(read.y, y)
    assert np.array_equal(read.adj.indices, graph.adj.indices)
    columns["f0"][3] = None
    pq.write_table(pa.table(columns), tmp_path / "nodes.parquet")
    with pytest.raises(InvalidInput, match="nodes row 3: feature 'f0' is nan"):
        Graph.from_edges(tmp_path / "edges.parquet", tmp_path / "nodes.parquet")
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(InvalidInput, match=r"nodes\.parquet is not a Parquet file"):
        Graph.from_edges(tmp_path / "edges.parquet", tmp_path / "nodes.parquet")


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtra, match=r"pip install graphveil\[networkx\]"):
        Graph.from_networkx(object())


def test_labels_sort_as_numbers_or_as_words_and_may_be_empty() -> None:
    head = [["id", "label", "f"]]
    pairs = [["source", "target"], ["a", "b"]]
    numbers = build_csv([*head, ["a", "10", "1"], ["b", "9", "1"], ["c", "", "1"]], pairs)
    assert numbers.y.tolist() == [1, 0, -1]
    words = build_csv([*head, ["a", "red", "1"], ["b", "blue", "1"], ["c", "", "1"]], pairs)
    assert words.y.tolist() == [1, 0, -1]


def test_minus_one_is_no_label_as_in_pyg() -> None:
    head, pairs = [["id", "label", "f"]], [["source", "target"], ["a", "b"]]
    assert build_csv([*head, ["a", "2", "1"], ["b", "-1", "1"], ["c", "7", "1"]], pairs).y.tolist() == [0, -1, 1]
    with pytest.raises(InvalidInput, match="row 1: the label -2; whole numbers start at 0"):
        build_csv([*head, ["a", "2", "1"], ["b", "-2", "1"]], pairs)
    with pytest.raises(InvalidInput, match="name the classes 0 and 1"):
        build_csv([*head, ["a", "1", "1"], ["b", "-1", "1"]], pairs)
    nx = pytest.importorskip("networkx")
    g = nx.Graph([(0, 1), (1, 2)])
    for node, label in enumerate([1, -1, 0]):
        g.nodes[node].update(x=[1.0], y=label)
    assert Graph.from_networkx(g).y.tolist() == [1, -1, 0]


@pytest.mark.parametrize("what", ["weights", "duplicate", "loop"])
def test_both_directions_make_an_undirected_graph_whatever_else_is_there(what: str) -> None:
    """Taken for directed, an edge would be protected as one arc, with half the noise that two need."""
    from torch_geometric.data import Data

    ends = [[0, 1, 1, 2], [1, 0, 2, 1]]
    extra = {"weights": ([], []), "duplicate": ([0], [1]), "loop": ([2], [2])}[what]
    pairs = torch.tensor([ends[0] + extra[0], ends[1] + extra[1]])
    data = Data(x=torch.rand(3, 2), edge_index=pairs, y=torch.tensor([0, 1, 0]))
    if what == "weights":
        data.edge_attr = torch.arange(4.0)
    assert Graph.from_pyg(data, clean=True).undirected
    matrix = sp.coo_array((np.ones(pairs.shape[1]), pairs.numpy()), shape=(3, 3))
    assert Graph.from_scipy(matrix, data.x.numpy(), data.y.numpy(), clean=True).undirected


def test_csv_keeps_quoted_commas_comments_and_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text('\ufeffid,label,f\n"Doe, J",0,1\n#2,1,2\n\n', encoding="utf-8")
    (tmp_path / "edges.csv").write_text('source,target,since\n"Doe, J",#2,1999\n')
    graph = Graph.from_edges(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    assert graph.num_edges == 1
    assert graph.x.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "first line must name every column"),
        (b",id,label,f\n0,a,0,1\n", "index=False"),
        (b"id,id,label\na,a,0\n", "every column once"),
        (b"id,label,f\n\xff,0,1\n", "UTF-8"),
    ],
)
def test_unreadable_csv(tmp_path: Path, text: bytes, words: str) -> None:
    (tmp_path / "nodes.csv").write_bytes(text)
    with pytest.raises(InvalidInput, match=words):
        Graph.from_edges(np.zeros((0, 2), dtype=int), tmp_path / "nodes.csv")


@pytest.mark.parametrize("name", ["absent.csv", "table.xlsx"])
def test_unreadable_file_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "table.xlsx").touch()
    with pytest.raises(InvalidInput, match=name):
        Graph.from_edges(tmp_path / name, tmp_path / name)


def test_structured_arrays_and_dicts_are_tables() -> None:
    nodes = np.array([(5, "u", 1.5), (3, "v", 2.5)], dtype=[("id", int), ("label", "U1"), ("f", float)])
    edges = np.array([[3, 5]])
    graph = Graph.from_edges(edges, nodes)
    as_dict = {"id": nodes["id"], "label": nodes["label"], "f": nodes["f"]}
    assert same(graph, Graph.from_edges({"a": edges[:, 0], "b": edges[:, 1]}, as_dict))
    assert graph.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (np.zeros((2, 2)), "without column names"),
        ([1, 2], "cannot read a list"),
        ({"id": np.arange(2), "label": np.arange(3), "f": np.ones(2)}, "differ in length"),
        ({"id": np.arange(2) / 2, "label": np.arange(2), "f": np.ones(2)}, "ids must be integers or strings"),
        ({"id": np.arange(2), "label": np.arange(2) / 2, "f": np.ones(2)}, "the label 0.5 is no whole number"),
        ({"id": np.arange(2), "label": np.array(["", ""]), "f": np.ones(2)}, "no label at all"),
        ({"id": np.arange(2), "label": np.arange(2)}, "no features"),
        ({"id": np.arange(2), "label": np.arange(2), "f": np.ones(2) * 1j}, "'f' must be numeric"),
        ({"id": np.arange(2), "label": np.arange(2), "f": np.array([1.0, 1e39])}, "nodes row 1: feature 'f'"),
    ],
)
def test_bad_node_tables(nodes: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Graph.from_edges(np.array([[0, 1]]), nodes)


@pytest.mark.parametrize("part", ["x", "edge_index", "y"])
def test_pyg_data_without_a_part(part: str) -> None:
    data = small().to_pyg()
    del data[part]
    with pytest.raises(InvalidInput, match=f"no tensor '{part}'"):
        Graph.from_pyg(data)


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("y", torch.full((40,), 0.5), "y row 0 is 0.5, no whole number"),
        ("y", torch.full((40,), math.inf), "y row 0 is inf, no whole number"),
        ("y", torch.zeros(40, dtype=torch.cfloat), "y must hold integer class ids"),
        ("y", torch.zeros(40, 1, dtype=torch.long), "flatten"),
        ("x", torch.rand(40), "shape"),
        ("x", torch.rand(40, 2) * 1j, "real"),
        ("edge_index", torch.zeros(3, 4, dtype=torch.long), r"shape \[2, m\]"),
        ("edge_index", torch.zeros(2, 4), "integer"),
        ("train_mask", torch.zeros(40, 10, dtype=torch.bool), "train mask"),
    ],
)
def test_pyg_data_with_a_bad_part(part: str, value: torch.Tensor, words: str) -> None:
    data = small().to_pyg()
    data[part] = value
    with pytest.raises(InvalidInput, match=words):
        Graph.from_pyg(data)


class Named(torch.Tensor):
    """A subclass, as libraries make them."""


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x.double(),
        lambda x: x.requires_grad_(),
        lambda x: torch.nn.Parameter(x),
        lambda x: x.as_subclass(Named),
        lambda x: x.T.contiguous().T,
        lambda x: x.repeat_interleave(2, 0)[::2],
        lambda x: torch.complex(x, -x).conj().imag,
        lambda x: torch.complex(x, x).real,
    ],
)
def test_a_view_of_the_same_numbers_is_the_same_graph(form: Callable[[torch.Tensor], torch.Tensor]) -> None:
    graph = small()
    data = graph.to_pyg()
    data.x = form(data.x.clone())
    data.y, data.edge_index = data.y.to(torch.int8), data.edge_index.int()
    assert same(graph, Graph.from_pyg(data))


@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_whole_numbers_in_floats_are_labels_and_nan_is_none(kind: torch.dtype) -> None:
    from torch_geometric.data import Data

    data = Data(x=torch.rand(4, 2), edge_index=torch.empty(2, 0, dtype=torch.long))
    data.y = torch.tensor([0.0, math.nan, 1.0, -1.0], dtype=kind)
    assert Graph.from_pyg(data).y.tolist() == [0, -1, 1, -1]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.uint8])
def test_features_of_any_width_are_read(kind: torch.dtype) -> None:
    data = small().to_pyg()
    data.x = (data.x.abs() * 4).to(kind)
    assert torch.equal(Graph.from_pyg(data).x, data.x.float())


def test_expanded_features_are_written_out() -> None:
    data = small().to_pyg()
    data.x = data.x[:1].expand(40, 4)
    assert Graph.from_pyg(data).x.unique(dim=0).shape == (1, 4)


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("x", torch.rand(40, 2).to_sparse(), "x is sparse or nested"),
        ("x", lambda: torch.rand(40, 2).to_sparse_csr(), "x is sparse or nested"),
        ("x", lambda: torch.nested.nested_tensor([torch.rand(2), torch.rand(3)]), "x is sparse or nested"),
        ("x", lambda: torch.quantize_per_tensor(torch.rand(40, 2), 0.1, 0, torch.qint8), "x is quantised"),
        ("x", torch.rand(40, 2, device="meta"), "x is without values"),
        ("x", torch.rand(()), r"shape \[n, d\], got torch.float32 \[\]"),
        ("x", torch.zeros(40, 2, dtype=torch.uint8).view(torch.bits8), "x cannot be read as torch.float32"),
        ("x", torch.full((40, 2), math.nan), "x row 0, column 0 is nan"),
        ("x", torch.full((40, 2), 1e300, dtype=torch.float64), "x row 0, column 0 is inf"),
        ("y", torch.eye(40)[:, :3], r"take argmax\(1\) if it is one-hot"),
        ("y", torch.full((40,), 2**64 - 1, dtype=torch.uint64), "y row 0 is beyond 64-bit integers"),
        ("y", torch.zeros(40, device="meta"), "y is without values"),
        ("edge_index", torch.eye(40).to_sparse(), "edge_index is sparse"),
        ("edge_index", torch.full((2, 3), math.nan), "edge_index must hold integer ids, got torch.float32"),
        ("edge_index", torch.ones(2, 3, dtype=torch.bool), "edge_index must hold integer ids, got torch.bool"),
        ("edge_index", torch.full((2, 3), 2**64 - 1, dtype=torch.uint64), "edge_index column 0"),
        ("train_mask", torch.zeros(40, dtype=torch.uint8), r"must be bool, got torch.uint8; convert 0 and 1 with"),
        ("train_mask", torch.zeros(40), "train mask must be bool"),
        ("train_mask", torch.zeros(40, 10, dtype=torch.bool), r"holds 10 splits; keep one, say train_mask\[:, 0\]"),
        ("train_mask", torch.zeros(40, dtype=torch.bool, device="meta"), "train mask is without values"),
        ("train_mask", torch.zeros(39, dtype=torch.bool), "train mask has 39 entries"),
        ("num_nodes", 41, "num_nodes is 41, but x has 40 rows"),
        ("num_nodes", torch.tensor([40, 40]), "but x has 40 rows"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_odd_tensors_are_refused_by_name(part: str, value: Any, words: str) -> None:
    data = small().to_pyg()
    data[part] = value() if callable(value) else value
    with pytest.raises(InvalidInput, match=words):
        Graph.from_pyg(data)


def test_only_homogeneous_data_is_a_graph() -> None:
    from torch_geometric.data import Batch, HeteroData

    data = small().to_pyg()
    hetero = HeteroData()
    hetero["person"].x = data.x
    for other in (hetero, None, {"x": data.x}, data.to_dict()):
        with pytest.raises(InvalidInput, match="homogeneous"):
            Graph.from_pyg(other)
    batch = Graph.from_pyg(Batch.from_data_list([data, data]))
    assert (batch.num_nodes, batch.num_edges) == (80, 2 * small().num_edges)


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("kind", [np.float32, np.int8, np.uint64, bool])
def test_every_sparse_format_is_the_same_graph(form: str, kind: Any) -> None:
    graph = small()
    matrix = graph.adj.to_scipy().T.astype(kind).asformat(form)
    for given_matrix in (matrix, sp.csr_matrix(matrix)):
        assert same(graph, Graph.from_scipy(given_matrix, graph.x.numpy().astype(">f8"), graph.y.numpy().astype(">i2")))


@pytest.mark.parametrize(
    ("entries", "words", "cleaned"),
    [
        ([(0, 1, 1.0), (0, 1, 1.0)], "duplicate of adjacency entry 0", 1),
        ([(0, 1, 1.0), (0, 1, -1.0)], r"adjacency entry \(0, 1\) is -1.0", 0),
        ([(0, 1, 0.0), (1, 2, 1.0)], None, 1),
        ([(0, 1, 0.5)], r"adjacency entry \(0, 1\) is 0.5", 1),
        ([(0, 1, math.inf)], r"adjacency entry \(0, 1\) is inf", 1),
        ([(0, 1, math.nan)], r"adjacency entry \(0, 1\) is nan", None),
        ([(0, 1, 1)] * 256, "duplicate of adjacency entry 0", 1),
    ],
)
def test_entries_of_a_matrix_add_up(entries: list[Any], words: str | None, cleaned: int | None) -> None:
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    kind = np.int8 if values.dtype.kind == "i" else np.float64
    matrix = sp.coo_array((values.astype(kind), (rows, columns)), shape=(3, 3))
    x, y = np.eye(3), np.array([0, 1, 0])
    if words is not None:
        with pytest.raises(InvalidInput, match=words):
            Graph.from_scipy(matrix, x, y, undirected=False)
    if cleaned is None:
        with pytest.raises(InvalidInput, match="is nan: an edge or none"):
            Graph.from_scipy(matrix, x, y, undirected=False, clean=True)
    else:
        assert Graph.from_scipy(matrix, x, y, undirected=False, clean=True).num_edges == cleaned
        assert matrix.nnz == len(entries), "the matrix is the user's"


@pytest.mark.parametrize(
    ("matrix", "x", "y", "words"),
    [
        (sp.eye_array(2, dtype=complex), np.eye(2), [0, 1], "adjacency must hold real numbers, got complex128"),
        (sp.eye_array(2).astype(object), np.eye(2), [0, 1], "adjacency must hold real numbers, got object"),
        (sp.coo_array((2,)), np.eye(2), [0, 1], "they must agree"),
        (sp.coo_array((2, 3)), np.eye(2), [0, 1], "they must agree"),
        (np.eye(2), np.eye(2), [0, 1], "must be a scipy sparse matrix"),
        (sp.coo_array((2, 2)), np.ma.array(np.eye(2), mask=np.eye(2)), [0, 1], "masked arrays are not read"),
        (sp.coo_array((2, 2)), np.eye(2).astype("U"), [0, 1], "x must be numeric"),
        (sp.coo_array((2, 2)), np.eye(2), ["a", "b"], "y must be numeric"),
        (sp.coo_array((2, 2)), np.eye(2), [0.0, 0.5], "y row 1 is 0.5, no whole number"),
        (sp.coo_array((2, 2)), np.eye(2), np.array([0, 2**64 - 1], np.uint64), "y row 1 is beyond 64-bit"),
        (sp.coo_array((2, 2)), [[1], [2, 3]], [0, 1], "x must be numeric"),
    ],
)
def test_matrices_that_are_no_graphs(matrix: Any, x: Any, y: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Graph.from_scipy(matrix, x, y)


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("x", torch.ones(1).requires_grad_(), "not a vector of numbers"),
        ("x", torch.ones(1).to_sparse(), "not a vector of numbers"),
        ("x", [10**400], "not a vector of numbers"),
        ("x", [[1.0]], "not a vector of numbers"),
        ("x", None, "x row 1, column 0 is nan"),
        ("y", [1], "node 1: y is a list"),
        ("y", torch.tensor(1), "node 1: y is a Tensor"),
        ("y", b"\xff", "not Unicode"),
        ("y", 1.0, "labels 1 and 1.0 are one number"),
        ("split", {}, "node 1: split is a dict"),
    ],
)
def test_odd_attributes_are_refused_by_node(attribute: str, value: Any, words: str) -> None:
    nx = pytest.importorskip("networkx")
    g = nx.path_graph(3)
    for node in g:
        g.nodes[node].update(x=[1.0], y=1 - node % 2)
    g.nodes[1][attribute] = value
    g.nodes[2]["y"] = "z" if attribute == "y" and value == 1.0 else 0
    with pytest.raises(InvalidInput, match=words):
        Graph.from_networkx(g)


def test_a_missing_label_of_a_node_is_none() -> None:
    nx = pytest.importorskip("networkx")
    g = nx.path_graph(4)
    for node, label in enumerate(["a", None, math.nan, "b"]):
        g.nodes[node].update(x=[1.0], y=label)
    assert Graph.from_networkx(g).y.tolist() == [0, -1, -1, 1]


def test_clean_repairs_only_when_asked() -> None:
    from torch_geometric.data import Data

    pairs = torch.tensor([[0, 0, 1, 2], [1, 1, 1, 0]])
    data = Data(x=torch.rand(3, 2), edge_index=pairs, y=torch.tensor([0, 1, 0]))
    undirected = Graph.from_pyg(data, undirected=True, clean=True)
    assert undirected.adj.edge_index().T.tolist() == [[1, 0], [2, 0], [0, 1], [0, 2]]
    directed = Graph.from_pyg(data, undirected=False, clean=True)
    assert directed.adj.edge_index().T.tolist() == [[2, 0], [0, 1]]
    with pytest.raises(InvalidInput):
        Graph.from_pyg(data, undirected=False)


def test_a_graph_without_edges_is_a_graph() -> None:
    graph = Graph.from_scipy(sp.coo_array((2, 2)), np.ones((2, 1)), np.array([0, 1]))
    assert graph.num_edges == 0
    assert graph.adj.transpose().num_arcs == 0
    assert same(graph, Graph.from_pyg(graph.to_pyg()))


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__.strip("_"))
def test_malformed_graphs_are_refused_by_name(defect: Any) -> None:
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(malformed_graphs((defect,)))
    def check(attempt: Attempt) -> None:
        description, build = attempt
        with pytest.raises(InvalidInput) as caught:
            build()
        assert description.split(": ", 1)[1] in str(caught.value)

    check()


# Identity


def test_fingerprint_ignores_the_split_and_sees_everything_else() -> None:
    graph = small()
    split = graph.random_split(seed=3)
    assert graph.fingerprint() == split.fingerprint()
    assert graph.split_hash() != split.split_hash()
    x = graph.x.clone()
    x[0, 0] += 1
    y = graph.y.roll(1)
    ends = graph.adj.edge_index().numpy()[:, 1:]
    others = [
        Graph.from_pyg(graph.to_pyg().update({"x": x})),
        Graph.from_pyg(graph.to_pyg().update({"y": y})),
        Graph.from_pyg(graph.to_pyg(), undirected=False),
        Graph.from_pyg(graph.to_pyg().update({"edge_index": torch.from_numpy(ends)}), undirected=False),
    ]
    assert len({graph.fingerprint(), *(other.fingerprint() for other in others)}) == 5


def test_repr_shows_sizes_not_data() -> None:
    graph = small()
    assert "40 nodes" in repr(graph)
    assert "tensor" not in repr(graph)
    assert "tensor" not in repr(graph.seal(Adjacency.of("node"))[0])


# Splits


@QUICK
@given(st.integers(10, 80), st.floats(0.2, 0.6), st.floats(0, 0.2), st.floats(0, 0.2), st.integers(0, 99))
def test_random_split(n: int, train: float, val: float, test: float, seed: int) -> None:
    graph = small(n)
    split = graph.random_split(train, val, test, seed)
    sizes = [round(fraction * n) for fraction in (train, val, test)]
    assert [int(mask.sum()) for mask in (split.train, split.val, split.test)] == sizes
    assert split.split_hash() == graph.random_split(train, val, test, seed).split_hash()
    assert split.split == f"random({train:g},{val:g},{test:g},seed={seed})"


def test_splits_keep_every_id_and_seeds_differ() -> None:
    data = small().to_pyg()
    data.y[:10] = -1
    graph = Graph.from_pyg(data)
    split = graph.random_split()
    assert bool((split.train | split.val | split.test).all())
    assert split.split_hash() != graph.random_split(seed=1).split_hash()
    for role in ("train", "val", "test"):
        assert torch.equal(split.labelled(role), getattr(split, role) & (split.y >= 0))


@pytest.mark.parametrize("node", [0, 7, 20, 39])
def test_no_split_tells_who_has_a_record(node: int) -> None:
    """The masks, their hash and their sizes are those of the neighbour in which one id is blank."""
    whole = small()
    fewer = blanked(whole, node)
    public = replace(small(seed=1), name="public")
    for draw in (
        lambda graph: graph.random_split(seed=2),
        lambda graph: graph.split_public(20, 10, 10, seed=2),
        lambda graph: graph.with_public(public),
        lambda graph: graph.with_split(*torch.eye(3, 40).bool(), "mine"),
    ):
        here, there = draw(whole), draw(fewer)
        assert here.split_hash() == there.split_hash()
        assert (here.split, here.split_reads_labels) == (there.split, there.split_reads_labels)


def blanked(graph: Graph, node: int) -> Graph:
    """The neighbour in which there is no record behind an id: no features, no label, no edges."""
    pair = Pair.without_node(graph, node)
    return replace(graph, x=pair.x, y=pair.y, adj=pair.adj)


def test_splits_say_whether_they_looked_at_labels() -> None:
    graph = small(60)
    assert not graph.random_split().split_reads_labels
    assert graph.per_class_split(5, 10, 20).split_reads_labels
    assert not graph.per_class_split(5, 10, 20).random_split().split_reads_labels
    assert graph.split_public(30, 10, 10, balanced=True).split_reads_labels
    assert not graph.split_public(30, 10, 10).split_reads_labels
    masks = (graph.random_split().train, *torch.zeros(2, 60, dtype=torch.bool))
    assert not graph.with_split(*masks, "mine").split_reads_labels
    assert graph.with_split(*masks, "mine", reads_labels=True).split_reads_labels


def test_blank_ids_may_be_in_a_split_column(tmp_path: Path) -> None:
    rows = "id,label,split,a\n0,x,train,1\n1,,train,0\n2,y,test,2\n3,,test,0\n"
    (tmp_path / "nodes.csv").write_text(rows)
    (tmp_path / "edges.csv").write_text("source,target\n0,2\n")
    graph = Graph.from_edges(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    assert graph.train.tolist() == [True, True, False, False]
    assert graph.labelled("train").tolist() == [True, False, False, False]


# The population


def test_degrees_are_public_only_where_somebody_says_so() -> None:
    graph, node = small().random_split(), Adjacency.of("node")
    bare = graph.seal(node)[0]
    assert bare.degrees is None
    with pytest.raises(InvalidInput, match=r"with_degrees\(degrees\).*with_every_id_present\(\)"):
        bare.degrees_assumed()
    counted = graph.with_every_id_present().seal(node)[0]
    heard = graph.adj.to_scipy().toarray()[graph.train.numpy()].sum(axis=0)
    assert counted.out_degrees().tolist() == heard.tolist()
    stated = graph.with_degrees(30).seal(node)[0]
    assert stated.out_degrees().tolist() == [30] * 40
    assert graph.with_every_id_present().with_degrees(30).seal(node)[0].out_degrees().max() == 30
    assert graph.with_degrees(30).with_every_id_present().seal(node)[0].out_degrees().tolist() == heard.tolist()
    said = [public.degrees_assumed() for public in (counted, stated, Public.blank(40, 4, 3))]
    assert all(line.startswith(PUBLIC_DEGREES) for line in said)
    assert len(set(said)) == 3
    for unit in ("edge", "features", "label"):
        assert graph.with_degrees(30).seal(Adjacency.of(unit))[0].degrees is None


def test_stated_degrees_do_not_depend_on_who_is_present() -> None:
    whole, node = small().random_split(), Adjacency.of("node")
    degrees = out_degrees(whole)
    for gone in range(whole.num_nodes):
        there = blanked(whole, gone).with_degrees(degrees).seal(node)[0]
        assert np.array_equal(there.out_degrees(), degrees)
    counted = blanked(whole, gone).with_every_id_present().seal(node)[0]
    assert not np.array_equal(counted.out_degrees(), degrees), "counted where an id is blank, they tell who it is"


def test_degrees_are_stated_of_one_split_and_one_set_of_arcs() -> None:
    graph = small().random_split().with_degrees(40)
    assert graph.random_split(seed=1).degrees is None
    assert graph.with_arcs(graph.adj).degrees is None
    assert replace(graph, name="other").degrees is not None
    present = small().with_every_id_present()
    assert present.random_split().every_id_present
    assert present.with_arcs(present.adj).every_id_present
    assert beside(present.split_public(20, 10, 10)).every_id_present
    assert present.stand_in(Adjacency.of("node")).every_id_present
    assert not small().random_split().every_id_present


def beside(graph: Graph) -> Graph:
    assert graph.public_graph is not None
    return graph.public_graph


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda rows: np.array(rows, dtype=np.uint8)])
def test_degrees_come_in_any_row_of_whole_numbers(kind: Callable[[list[int]], Any]) -> None:
    assert small().random_split().with_degrees(kind([20] * 40)).degrees.tolist() == [20] * 40


@pytest.mark.parametrize(
    ("degrees", "words"),
    [
        ([20] * 39, "40 whole numbers"),
        ([20] * 39 + [-1], "at least 0"),
        ([20.0] * 40, "whole numbers"),
        ([[20] * 40], "whole numbers"),
        ([True] * 40, "whole numbers"),
        (["a"] * 40, "whole numbers"),
        ([[1], [2, 3]], "whole numbers"),
        (2**70, "whole numbers"),
        (np.full(40, 2**64 - 1, dtype=np.uint64), "whole numbers"),
        (torch.zeros(40, dtype=torch.int64, device="meta"), "whole numbers"),
        (None, "whole numbers"),
        (1, "points to more training ids than the 1 that were stated"),
    ],
)
def test_false_degrees_are_refused(degrees: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        small().random_split().with_degrees(degrees)


def test_arcs_beyond_what_was_stated_are_refused() -> None:
    graph = replace(small().random_split(), adj=Csr.empty(40)).with_degrees(0)
    with pytest.raises(InvalidInput, match="more training ids than the 0 that were stated"):
        replace(graph, adj=small().adj)
    with pytest.raises(InvalidInput, match="int64"):
        replace(graph, degrees=np.zeros(40))


def test_random_split_never_overlaps_when_rounding_up() -> None:
    split = small(10).random_split()
    assert [int(mask.sum()) for mask in (split.train, split.val, split.test)] == [8, 1, 1]


@pytest.mark.parametrize("fractions", [(0.8, 0.2, 0.2), (-0.1, 0.5, 0.5), (float("nan"), 0, 0), (0.0, 0.5, 0.5)])
def test_bad_fractions(fractions: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput):
        small().random_split(*fractions)


def test_negative_seed() -> None:
    with pytest.raises(InvalidInput, match="seed"):
        small().random_split(seed=-1)
    with pytest.raises(InvalidInput, match="seed"):
        small().random_split(seed=True)


def test_per_class_split() -> None:
    graph = small(60)
    split = graph.per_class_split(per_class=5, val=10, test=20, seed=4)
    assert torch.bincount(split.y[split.train]).tolist() == [5, 5, 5]
    assert (int(split.val.sum()), int(split.test.sum())) == (10, 20)
    assert split.split_hash() == graph.per_class_split(per_class=5, val=10, test=20, seed=4).split_hash()
    assert split.split == "per_class(5,10,20,seed=4)"


@pytest.mark.parametrize(
    ("sizes", "words"), [((30, 1, 1), "class 0 has 20"), ((5, 40, 40), "45 labelled"), ((0, 1, 1), "positive")]
)
def test_impossible_per_class_split(sizes: tuple[int, int, int], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        small(60).per_class_split(*sizes)


# The seal


@pytest.mark.parametrize(
    ("unit", "private"),
    [("edge", {"adj"}), ("node", {"x", "y", "adj"}), ("features", {"x", "y"}), ("label", {"y"})],
)
def test_seal_hides_what_the_unit_protects(unit: str, private: set[str]) -> None:
    graph = small().random_split()
    public, sealed = graph.seal(Adjacency.of(unit))
    accessors = {"x": public.features, "y": public.labels, "adj": public.arcs}
    for part in ("x", "y", "adj"):
        if part in private:
            assert getattr(public, part) is None
            with pytest.raises(PrivateAccess, match="private"):
                accessors[part]()
            with pytest.raises(PrivateAccess, match=r"outside Session\.release"):
                getattr(sealed, part)
        else:
            assert accessors[part]() is getattr(graph, part)
            assert getattr(sealed, part) is getattr(graph, part)
        with sealed.opened():
            assert getattr(sealed, part) is getattr(graph, part)
    some = np.array([3, 1])
    if "x" in private:
        with pytest.raises(PrivateAccess, match=r"outside Session\.release"):
            sealed.rows(some)
    with sealed.opened():
        assert torch.equal(sealed.rows(some), graph.x[[3, 1]])
    assert sealed.public is public
    assert public.train is graph.train
    assert (public.num_nodes, public.num_features, public.num_classes) == (40, 4, 3)


@pytest.mark.parametrize("unit", ["edge", "node", "features", "label"])
def test_masks_hold_unlabelled_ids_unless_labels_are_public(unit: str) -> None:
    graph = small().random_split()
    y = graph.y.clone()
    y[::4] = -1
    bare = replace(graph, y=y)
    public, again = (bare.seal(Adjacency.of(unit))[0] for _ in range(2))
    for role in ("train", "val", "test"):
        shown = getattr(public, role)
        assert torch.equal(shown, getattr(graph, role) & (y >= 0) if unit == "edge" else getattr(graph, role))
        assert shown is getattr(again, role), "what was learnt from public data is found by it"


@pytest.mark.parametrize("unit", [unit for unit in Unit if unit is not Unit.NODE])
def test_degrees_are_shown_under_unit_node_alone(unit: Unit) -> None:
    """At edge level they are private; elsewhere whoever wants them counts the public arcs."""
    public, _ = small().with_every_id_present().seal(Adjacency.of(unit))
    assert public.degrees is None
    with pytest.raises(PrivateAccess, match="unit node only"):
        public.out_degrees()


def closed(sealed: Sealed) -> bool:
    try:
        _ = sealed.adj
    except PrivateAccess:
        return True
    return False


def test_the_gate_closes_again_even_after_an_error() -> None:
    _, sealed = small().seal(Adjacency.of("edge"))
    with pytest.raises(RuntimeError), sealed.opened():
        raise RuntimeError
    assert closed(sealed)
    with sealed.opened():
        assert not closed(sealed)
        with pytest.raises(PrivateAccess, match="already open"), sealed.opened():
            pass
        assert not closed(sealed)
    assert closed(sealed)


@pytest.mark.parametrize("leak", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_sealed_graph_cannot_be_taken_away(leak: Callable[[Any], Any]) -> None:
    _, sealed = small().seal(Adjacency.of("node"))
    with pytest.raises(PrivateAccess), sealed.opened():
        leak(sealed)
    assert not hasattr(sealed, "__dict__")
    assert "tensor" not in repr(sealed)


def test_edge_adjacency_must_agree_with_the_graph() -> None:
    graph = small()
    with pytest.raises(InvalidInput, match="undirected=True"):
        graph.seal(Adjacency.of("edge", undirected=False))
    directed = Graph.from_pyg(graph.to_pyg(), undirected=False)
    directed.seal(Adjacency.of("edge", undirected=False))
    directed.seal(Adjacency.of("node", undirected=True))


def test_blank_public_is_enough_for_planning() -> None:
    public = Public.blank(100, 10, 3)
    assert int(public.train.sum()) == 75
    assert not (public.val | public.test).any()
    assert int(Public.blank(100, 10, 3, num_train=7).train.sum()) == 7
    for accessor in (public.features, public.labels, public.arcs):
        with pytest.raises(PrivateAccess):
            accessor()
    with pytest.raises(InvalidInput, match="nodes"):
        Public.blank(0, 10, 3)
    with pytest.raises(InvalidInput, match="num_train"):
        Public.blank(5, 10, 3, num_train=6)


class TestLearnt:
    """What is made of public data is made once for each seed and each set of public parts."""

    def test_found_again_under_the_same_seed_only(self) -> None:
        public, _ = gv.datasets.load("chain-s").seal(Adjacency.of("edge"))
        calls: list[float] = []

        def build() -> float:
            calls.append(float(torch.rand(())))
            return calls[-1]

        with torch.random.fork_rng(devices=[]):
            for seed in (0, 0, 1, 1, 0):
                torch.manual_seed(seed)
                before = torch.get_rng_state()
                public.cache_public("draw", build)
                assert torch.equal(torch.get_rng_state(), before), "the stream goes on as if nothing was drawn"
        assert len(calls) == 3
        assert calls[0] == calls[2] != calls[1]

    def test_other_labels_features_masks_or_units_share_nothing(self) -> None:
        graph = gv.datasets.load("chain-s")
        public, _ = graph.seal(Adjacency.of("edge"))
        assert public.cache_public("what", lambda: 1) == 1
        assert graph.seal(Adjacency.of("edge"))[0].cache_public("what", lambda: 2) == 1
        others = [
            replace(public, y=public.labels().clone()),
            replace(public, train=public.val, val=public.train),
            graph.seal(Adjacency.of("node"))[0],
            graph.random_split(seed=9).seal(Adjacency.of("edge"))[0],
        ]
        for number, other in enumerate(others):
            assert other.cache_public("what", lambda number=number: 10 + number) == 10 + number


def test_targets_of_a_part_are_a_part_of_the_targets() -> None:
    adj = Csr(np.array([0, 0, 3, 3, 4, 4, 6, 6]), np.array([0, 2, 3, 1, 1, 2]))
    whole = adj.targets()
    assert whole.tolist() == [1, 1, 1, 3, 5, 5]
    for first in range(8):
        for last in range(first, 9):
            assert adj.targets(slice(first, last)).tolist() == whole[first:last].tolist()
    assert Csr.empty(3).targets().tolist() == []
