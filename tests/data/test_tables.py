"""Tables at the border: text stays text, memory follows the file, and what is no table is refused by name."""

from __future__ import annotations

import csv
import datetime
import decimal
import importlib
import io
import math
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphveil as gv
from graphveil.data import tables
from graphveil.data.tables import read_table
from graphveil.errors import InvalidInput

CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=6) | st.sampled_from(
    ["01", "1e5", "NA", "null", "", " true ", "2020-01-01", "nan", 'say "x"', "two\nlines", "a,b", "\ufeff", "'", "\r"]
)


@st.composite
def sheets(draw: st.DrawFn) -> tuple[list[list[str]], bytes]:
    """Rows of cells below a header, and a file that Python's csv module made of them."""
    width = draw(st.integers(1, 4))
    head = [f"c{k}" for k in range(width)]
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=6))
    text = io.StringIO(newline="")
    ending = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    # With "\r" at the end of lines some versions leave "\n" unquoted in a cell.
    quoting = csv.QUOTE_ALL if ending == "\r" else draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    csv.writer(text, lineterminator=ending, quoting=quoting).writerows([head, *rows])
    return rows, draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.getvalue().encode()


def cells(table: tables.Table) -> list[list[str]]:
    return [list(row) for row in zip(*(column.to_pylist() for column in table.values()), strict=True)]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(sheets())
def test_a_file_that_pythons_csv_module_wrote_is_read_as_it_reads_it(
    tmp_path_factory: pytest.TempPathFactory, sheet: tuple[list[list[str]], bytes]
) -> None:
    rows, raw = sheet
    path = tmp_path_factory.mktemp("sheet") / "t.csv"
    path.write_bytes(raw)
    assert cells(read_table(path, "nodes")) == [[cell.strip() for cell in row] for row in rows]


def test_blocks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file longer than one block gives the same cells, also where a block ends within quotes."""
    rows = [[str(i), f'{i} "quoted"\n{"x" * (i % 17)},', "\r\n" if i % 3 else ""] for i in range(300)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "c"], *rows])
    expected = [[cell.strip() for cell in row] for row in rows]
    for block in (60, 61, 64, 100, 1000):
        monkeypatch.setattr(tables, "BLOCK", block)
        assert cells(read_table(tmp_path / "t.csv", "nodes")) == expected


def test_text_is_not_guessed_at(tmp_path: Path) -> None:
    words = ["01", "1e5", "NA", "null", '""', " true ", "2020-01-01", "nan", "-0", "0x1", "1_0", "\uff11", "N/A"]
    (tmp_path / "t.csv").write_text("w,v\n" + "".join(f"{word},1\n" for word in words))
    found = read_table(tmp_path / "t.csv", "nodes")["w"].to_pylist()
    assert found == ["" if word == '""' else word.strip() for word in words]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "first line must name every column"),
        (b"\n\n", "first line must name every column"),
        (b"\xef\xbb\xbf", "first line must name every column"),
        (b"a,b,a\n1,2,3\n", "every column once"),
        (b"a, a \n1,2\n", "every column once"),
        (b"a,\n1,2\n", "every column once"),
        (b"a,b\n1,2\n3\n", r"t\.csv row 1 has 1 cells but the header has 2"),
        (b"a,b\n\n1,2\n\n3,4,5\n", r"t\.csv row 1 has 3 cells but the header has 2"),
        (b'a,b\n"1\n\n1",2\n3,4\n5\n', r"t\.csv row 2 has 1 cells"),
        (b"a,b\n1,2\n  \n", r"t\.csv row 1 has 1 cells"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "a quote that opens in row 1 is never closed"),
        (b'a,b\n1,2\n3,"4""', "a quote that opens in row 1 is never closed"),
        (b'a,b,c\n1,"2,3\n4,5,6\n', "a quote that opens in row 0 is never closed"),
        (b'a,"b\n1,2\n', "a quote that opens in the header is never closed"),
        (b'a,"' + b"b" * 200_000, "the first line cannot be read: field larger"),
        (b"a,b\n1,2\n3,\xff\n", "line 3 is not UTF-8"),
        (b"\xff,b\n1,2\n", "line 1 is not UTF-8"),
        (b"a,b\n1,\xed\xa0\x80\n", "line 2 is not UTF-8"),
        (b"a,b\n1,2\n3,\x00\n", "line 3 holds a NUL byte"),
        ("a,b\n1,2\n".encode("utf-16"), "line 1 is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "line 1 holds a NUL byte"),
    ],
)
def test_what_is_no_csv_file_is_refused_by_line_or_row(tmp_path: Path, raw: bytes, words: str) -> None:
    (tmp_path / "t.csv").write_bytes(raw)
    with pytest.raises(InvalidInput, match=words):
        read_table(tmp_path / "t.csv", "nodes")


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name in ("folder.csv", "absent.parquet", "x" * 300 + ".csv"):
        with pytest.raises(InvalidInput):
            read_table(tmp_path / name, "nodes")


SIZES = """
import os, resource, sys
from pathlib import Path
from graphveil.data.tables import read_table

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

for path in sys.argv[1:]:
    if not os.fork():
        before = peak()
        read_table(path, "nodes")
        print(path, peak() - before, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted as Linux does")
def test_memory_follows_the_size_of_the_file(tmp_path: Path) -> None:
    """Ten times the file, 4 KiB for every column, and 64 MiB."""
    shapes = {"wide": (20_000, 3), "wider": (100_000, 3), "long": (10, 1_000_000), "cell": (2, 1000)}
    for name, (width, rows) in shapes.items():
        line = ",".join(["0.25"] * width) + "\n"
        with (tmp_path / f"{name}.csv").open("w") as file:
            file.write(",".join(f"c{k}" for k in range(width)) + "\n")
            file.writelines([line * (rows // 1000)] * 1000 if rows > 1000 else [line] * rows)
            file.write("1," + "x" * 50_000_000 + "\n" if name == "cell" else "")
    paths = {str(tmp_path / f"{name}.csv"): width for name, (width, _) in shapes.items()}
    done = subprocess.run([sys.executable, "-c", SIZES, *paths], capture_output=True, text=True, check=True)
    grown = {path: int(taken) for path, taken in (line.split() for line in done.stdout.splitlines())}
    assert list(grown) == list(paths)
    for path, width in paths.items():
        assert grown[path] < 10 * Path(path).stat().st_size + (width << 12) + (64 << 20), (path, grown[path])


# Parquet


def parquet(folder: Path, *columns: Any, names: tuple[str, ...] = ("a",)) -> Path:
    pq.write_table(pa.Table.from_arrays(list(columns), list(names)), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["x", None, " y "]), ["x", "", "y"]),
        (pa.array(["x", None, "y "], pa.large_string()), ["x", "", "y"]),
        (pa.array(["x", None, "y"], pa.string_view()), ["x", "", "y"]),
        (pa.array([b"x", None, b"y"]), ["x", "", "y"]),
        (pa.array(["x", "x ", None]).dictionary_encode(), ["x", "x", ""]),
        (pa.array([1, 1, None]).dictionary_encode(), [1, 1, None]),
        (pa.array([2**64 - 1, 2**63, None], pa.uint64()), [2**64 - 1, 2**63, None]),
        (pa.array([True, False, None]), [True, False, None]),
        (pa.array(np.array([1.5, 2.5], np.float16)), [1.5, 2.5]),
        (pa.array([decimal.Decimal(12), decimal.Decimal(-3)], pa.decimal128(9, 0)), ["12", "-3"]),
        (pa.array([decimal.Decimal("1.25")], pa.decimal256(50, 2)), [1.25]),
        (pa.nulls(2), ["", ""]),
        (pa.array([], pa.int64()), []),
        (pa.array(["x\0"]), ["x\0"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_parquet_types_that_are_columns(tmp_path: Path, column: Any, expected: list[Any]) -> None:
    assert read_table(parquet(tmp_path, column), "nodes")["a"].to_pylist() == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2, 3]]),
        pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
        pa.array([{"a": 1}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([datetime.date(2020, 1, 1)]),
        pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("ns", "UTC")),
        pa.array([datetime.time(1)]),
        pa.array([datetime.timedelta(1)]),
        pa.array([b"ab"], pa.binary(2)),
        pa.array([uuid.UUID(int=1).bytes], pa.uuid()),
    ],
    ids=lambda column: str(column.type),
)
def test_parquet_types_that_are_none(tmp_path: Path, column: Any) -> None:
    with pytest.raises(InvalidInput, match=r"column 'a' must be numeric or text, got .*; convert it or leave it out"):
        read_table(parquet(tmp_path, column), "nodes")


def test_other_parquet_files_that_are_no_tables(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    for column in (bad, bad.dictionary_encode(), pa.array([b"\xff"])):
        with pytest.raises(InvalidInput, match=r"column 'a' cannot be read: .*UTF8"):
            read_table(parquet(tmp_path, column), "nodes")
    with pytest.raises(InvalidInput, match="a name of its own"):
        read_table(parquet(tmp_path, pa.array([1]), pa.array([2]), names=("a", "a")), "nodes")
    assert not read_table(parquet(tmp_path, names=()), "nodes")
    path = parquet(tmp_path, pa.array(range(1000)))
    body = path.read_bytes()
    for damaged in (b"", b"PAR1", body[:-9], body[4:], body[:200] + bytes(300) + body[500:], b"PAR1" + body[8:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match=r"t\.parquet is not a Parquet file that can be read"):
            read_table(path, "nodes")


def test_only_the_columns_that_are_wanted_are_read(tmp_path: Path) -> None:
    """A column of times beside the ends of an edge is nobody's business."""
    path = parquet(tmp_path, pa.array([1]), pa.array([datetime.time(1)]), names=("a", "a.b"))
    assert read_table(path, "edges", lambda _: ["a"])["a"].to_pylist() == [1]
    (tmp_path / "t.csv").write_text("a , b\n1,2\n")
    assert cells(read_table(tmp_path / "t.csv", "edges", lambda _: ["b", "a"])) == [["2", "1"]]


def test_a_text_that_is_stored_once_stays_stored_once(tmp_path: Path) -> None:
    """100 KB of file that would be 200 GB of text."""
    codes = pa.array(np.zeros(2_000_000, np.int32))
    path = parquet(tmp_path, pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 100_000])))
    column = read_table(path, "nodes")["a"]
    assert len(column) == 2_000_000
    assert column.nbytes < 32 << 20


def test_a_small_file_must_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path, pa.array(np.zeros(1_000_000)))
    read_table(path, "nodes")
    monkeypatch.setattr(tables, "MAX_DECODED", 1 << 20)
    with pytest.raises(InvalidInput, match=r"would need about 0\.0 GiB decoded"):
        read_table(path, "nodes")


# Arrays and objects


class NAType:
    """What pandas puts where a value is missing."""


def test_what_is_missing_is_empty_and_never_a_word() -> None:
    held = ["red", None, math.nan, NAType(), np.float32("nan"), decimal.Decimal("nan"), ""]
    for given_column in (held, np.array(held, dtype=object)):
        assert read_table({"a": given_column}, "nodes")["a"].to_pylist() == ["red"] + [""] * 6
    assert read_table({"a": ["red", math.nan]}, "nodes")["a"].to_pylist() == ["red", ""]
    masked = np.ma.array(["red", "blue"], mask=[False, True])
    assert read_table({"a": masked}, "nodes")["a"].to_pylist() == ["red", ""]
    assert read_table({"a": np.ma.array([1, 2], mask=[False, True])}, "nodes")["a"].to_pylist() == [1, None]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array([1, 256], ">i4"), [1, 256]),
        (np.array([1.5, 2.5], np.longdouble), [1.5, 2.5]),
        (np.array([b"x ", b"y"]), ["x", "y"]),
        (np.array(["x ", "y"], ">U3"), ["x", "y"]),
        (np.array(["x ", "y"], np.dtypes.StringDType()), ["x", "y"]),
        (np.arange(6)[::-2], [5, 3, 1]),
        (pa.chunked_array([["x "], ["y"]]), ["x", "y"]),
        ([1, "1", 10**30, True, uuid.UUID(int=1)], ["1", "1", "1" + "0" * 30, "True", str(uuid.UUID(int=1))]),
        (np.ones((2, 3)), [[1.0] * 3] * 2),
    ],
)
def test_arrays_of_any_kind_are_columns(column: Any, expected: list[Any]) -> None:
    assert read_table({"a": column}, "nodes")["a"].to_pylist() == expected


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (np.array([1j]), "'a' must be numeric or text, got complex128"),
        (np.array(["2020-01-01"], "M8[D]"), "'a' must be numeric or text, got date32"),
        (np.array([[1], {}], dtype=object), "nodes row 0: a is a list"),
        ([[1], [2, 3]], "'a' is no array"),
        (np.array(5), "'a' must have one dimension"),
        (np.ones((2, 0)), "'a' must have one dimension"),
        (np.ones((2, 2, 2)), "'a' must have one dimension"),
        (np.array([["x"]]), "'a' must have one dimension"),
        (["\ud800"], "not Unicode"),
        (np.array(["x\ud800"]), "not Unicode"),
        (np.array([b"\xff"]), "not Unicode"),
        (["x", 10**5000], "nodes row 1: a cannot be written as text"),
        (pa.array([[1], [2, 3]]), "'a' must be numeric or text"),
    ],
)
def test_arrays_that_are_no_columns(column: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_table({"a": column}, "nodes")
    with pytest.raises(InvalidInput, match="column names must be text, got 0"):
        read_table({0: column}, "nodes")  # type: ignore[dict-item]


def test_long_values_are_cut_in_errors(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",".join(["x"] * 100_000))
    with pytest.raises(InvalidInput) as caught:
        read_table(tmp_path / "t.csv", "nodes")
    assert len(str(caught.value)) < 500


# Dialects and data frames


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        ("id;city\n1;Zürich, West\n2;Bern\n".encode(), "utf-8"),
        ('"id";"city"\n1;"Zürich, West"\n2;Bern\n'.encode(), "utf-8"),
        ("id\tcity\n1\tZürich, West\n2\tBern\n".encode(), "utf-8"),
        ('id,city\n1,"Zürich, West"\n2,Bern\n'.encode("utf-8-sig"), "utf-8"),
        ("id;city\r\n1;Zürich, West\r\n2;Bern\r\n".encode("utf-8-sig"), "utf-8"),
        ("id;city\n1;Zürich, West\n2;Bern\n".encode("latin-1"), "latin-1"),
        ("id\tcity\n1\tZürich, West\n2\tBern\n".encode("utf-16"), "utf-16"),
    ],
)
def test_files_as_people_have_them(tmp_path: Path, raw: bytes, encoding: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_bytes(raw)
    found = read_table(path, "nodes", encoding=encoding)
    assert {name: column.to_pylist() for name, column in found.items()} == {
        "id": ["1", "2"],
        "city": ["Zürich, West", "Bern"],
    }


def test_an_encoding_is_named_and_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_bytes("id,city\n1,Zürich\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"line 2 is not UTF-8.*--encoding latin-1"):
        read_table(path, "nodes")
    with pytest.raises(InvalidInput, match="unknown encoding 'klingon'"):
        read_table(path, "nodes", encoding="klingon")
    with pytest.raises(InvalidInput, match="is not ascii"):
        read_table(path, "nodes", encoding="ascii")


class Frame:
    """What a pandas frame shows of itself: names, columns by name that numpy reads, and an index that is no column."""

    def __init__(self, **columns: Any) -> None:
        self.held = columns
        self.columns = list(columns)
        self.index = [7, 8, 9]

    def __getitem__(self, name: str) -> Any:
        return self.held[name]


class Series:
    """A column that Arrow reads, as those of polars."""

    def __init__(self, values: Any) -> None:
        self.values = pa.chunked_array([values])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.values.__arrow_c_stream__(requested_schema)


def test_data_frames_are_tables() -> None:
    texts = np.array(["a", float("nan"), None], dtype=object)
    found = read_table(Frame(id=np.arange(3), label=texts, x=Series(pa.array([1, None, 3]))), "nodes")
    assert [column.to_pylist() for column in found.values()] == [[0, 1, 2], ["a", "", ""], [1, None, 3]]
    table = pa.table({"id": [1, 2], "city": ["Bern", None]})
    assert [column.to_pylist() for column in read_table(table, "nodes").values()] == [[1, 2], ["Bern", ""]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_libraries_are_tables(library: str) -> None:
    frames = importlib.import_module(library)
    frame = frames.DataFrame({"id": ["a", "b", "c"], "label": ["x", None, "y"], "f": [1.5, 2.5, 3.5]})
    if library == "pandas":
        frame = frame[frame["id"] != "z"].set_index(frame["f"] * 2)
    found = read_table(frame, "nodes")
    assert [column.to_pylist() for column in found.values()] == [["a", "b", "c"], ["x", "", "y"], [1.5, 2.5, 3.5]]


LABELS = ["x", "y", None]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pd.Categorical(LABELS), ("x", "y")),
        (pd.array(LABELS, dtype="string"), ("x", "y")),
        (pd.array(LABELS, dtype="string[pyarrow]"), ("x", "y")),
        (pd.array([0, 1, None], dtype="Int64"), ("0", "1")),
        (np.array([0.0, 1.0, np.nan]), ("0", "1")),
        (pd.array([True, False, None], dtype="boolean"), ("0", "1")),
        (pl.Series(["x", "y", None], dtype=pl.Categorical), ("x", "y")),
        (pl.Series([0.0, 1.0, float("nan")]), ("0", "1")),
    ],
    ids=["category", "string", "arrow", "Int64", "float", "boolean", "polars-category", "polars-nan"],
)
def test_missing_labels_of_frames_are_no_class(labels: Any, classes: tuple[str, ...]) -> None:
    of = pl.DataFrame if isinstance(labels, pl.Series) else pd.DataFrame
    graph = gv.Graph.from_edges(None, of({"id": ["a", "b", "c"], "label": labels, "f": [1.0, 2.0, 3.0]}))
    assert graph.schema is not None
    assert graph.schema.classes == classes
    assert (graph.y < 0).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pd.Categorical(["u", "v", None]), "category"),
        (pd.to_datetime(["2020-01-01", None, "2021-05-05"]), "date"),
        (pd.to_datetime(["2020-01-01", "2020-02-01", "2021-05-05"]).tz_localize("UTC"), "date"),
        (pd.array([1.5, None, 2], dtype="Float64"), "number"),
        (pd.array([True, None, False], dtype="boolean"), "truth"),
        (pl.Series(["u", "v", None], dtype=pl.Enum(["u", "v"])), "category"),
        (pl.Series([datetime.date(2020, 1, 1), None, datetime.date(2021, 1, 1)]), "date"),
    ],
)
def test_cells_of_frames_are_encoded_by_their_kind(cells: Any, kind: str) -> None:
    of = pl.DataFrame if isinstance(cells, pl.Series) else pd.DataFrame
    frame = of({"id": ["a", "b", "c"], "label": ["x", "y", "x"], "f": cells})
    schema = gv.Graph.from_edges(None, frame, encode="auto").schema
    assert schema is not None
    assert [column.kind for column in schema.columns] == [kind]


def test_a_lazy_frame_is_refused_and_told_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="collect it first"):
        read_table(pl.DataFrame({"id": ["a"]}).lazy(), "nodes")
