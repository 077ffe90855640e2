"""Graphs from tables, PyG, scipy and networkx: round trips, and refusals that name the place."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings

from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, MissingExtra
from malformed import DEFECTS, Attempt, Parts, build_csv, malformed_graphs, parts
from small_graph import QUICK, same, small


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
    columns: dict[str, Any] = {"id": list(range(graph.num_nodes)), "label": labels}
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
