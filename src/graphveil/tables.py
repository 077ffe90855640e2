"""Tables at the border: CSV and Parquet files, structured arrays and dicts, as checked columns."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.arcs import Arcs, Ids
from graphveil.core import InvalidInput, MissingExtra

Table = Mapping[str, NDArray[Any]]
"""Columns by name, all of one length."""

UNLABELLED = -1
ROLES = ("train", "val", "test")


def optional_strings(values: list[Any]) -> NDArray[Any]:
    """Values as a table column, with missing ones as empty strings; all-integer values stay integers."""
    if values and all(isinstance(value, int | np.integer) for value in values):
        return np.array(values, dtype=np.int64)
    return np.array(["" if value is None else str(value) for value in values], dtype=str)


def read_table(table: str | Path | NDArray[Any] | Table, what: str) -> Table:
    """Whatever holds the table, as columns of one length, each [rows] or, for features, [rows, k]."""
    if isinstance(table, str | Path):
        columns = _read_file(Path(table), what)
    elif isinstance(table, Mapping):
        columns = {name: np.asarray(column) for name, column in table.items()}
    elif isinstance(table, np.ndarray) and table.dtype.names is not None:
        columns = {name: table[name] for name in table.dtype.names}
    elif isinstance(table, np.ndarray) and table.ndim == 2 and what == "edges":
        columns = {f"column {k}": table[:, k] for k in range(table.shape[1])}
    else:
        raise InvalidInput(
            f"{what}: cannot read a {type(table).__name__} without column names; "
            "give a file, a structured array or a dict of columns"
        )
    lengths = {name: len(column) if column.ndim else -1 for name, column in columns.items()}
    if len(set(lengths.values())) > 1 or -1 in lengths.values():
        raise InvalidInput(f"{what}: the columns differ in length: {lengths}")
    return {name: _plain(column) for name, column in columns.items()}


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """Objects as strings (None as empty), strings without surrounding blanks."""
    if column.dtype.kind == "O":
        column = np.array(["" if value is None else str(value) for value in column], dtype=str)
    if column.dtype.kind == "S":
        column = column.astype(str)
    return np.strings.strip(column) if column.dtype.kind == "U" else column


def _read_file(path: Path, what: str) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise InvalidInput(f"{what}: there is no file {path}")
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".pq": _read_parquet}
    if path.suffix.lower() not in readers:
        raise InvalidInput(f"{what}: cannot read {path.name}; use a .csv or a .parquet file")
    return readers[path.suffix.lower()](path)


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    """A comma-separated UTF-8 file with one header line; every cell a string."""
    try:
        header = _check_csv(path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path.name} is not a comma-separated UTF-8 file: {error}") from None
    with path.open(encoding="utf-8-sig", newline="") as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*contained no data")
        next(csv.reader(file))
        cells = np.loadtxt(file, dtype=str, delimiter=",", quotechar='"', comments=None, ndmin=2)
    cells = cells.reshape(-1, len(header))
    return {name: cells[:, k] for k, name in enumerate(header)}


def _check_csv(path: Path) -> list[str]:
    """The header, once every row is known to be as wide; a streaming pass, so that errors name the row."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = (row for row in csv.reader(file) if row)
        header = [name.strip() for name in next(rows, [])]
        if not all(header) or not header or len(set(header)) != len(header):
            raise InvalidInput(
                f"{path.name}: the first line must name every column once, got {header}; "
                "with pandas, write it with to_csv(index=False)"
            )
        for number, row in enumerate(rows):
            if len(row) != len(header):
                raise InvalidInput(f"{path.name} row {number} has {len(row)} cells but the header has {len(header)}")
    return header


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    """A Parquet file; columns other than plain numbers come as strings, nulls as empty ones."""
    require_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise InvalidInput(f"{path.name} is not a Parquet file: {error}") from None
    return {name: _arrow_column(table[name]) for name in table.column_names}


def require_parquet() -> None:
    """Parquet needs an extra: say which one."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MissingExtra("pyarrow is not installed; run `pip install graphveil[parquet]`") from None


def _arrow_column(column: Any) -> NDArray[Any]:
    """Floats with nulls as NaN, full integer columns as they are, everything else as strings."""
    import pyarrow as pa

    integer = pa.types.is_integer(column.type) and not column.null_count
    if integer or pa.types.is_boolean(column.type) or pa.types.is_floating(column.type):
        values: NDArray[Any] = column.to_numpy()
        return values
    return np.array(column.cast(pa.string()).fill_null("").to_pylist(), dtype=str)


def table_arcs(edges: Table, ids: NDArray[Any]) -> Arcs:
    """The columns `source` and `target`, or the only two there are, ids replaced by positions in the node table."""
    named = {"source", "target"} <= set(edges)
    if not named and len(edges) != 2:
        raise InvalidInput(f"edges: the columns source and target are needed; got {', '.join(edges)}")
    source, target = ("source", "target") if named else tuple(edges)
    ends = [_positions(edges[source], ids, source), _positions(edges[target], ids, target)]
    return Arcs(ends[0], ends[1], len(ids), "edges row", ids)


def require_header(edges: Table, ids: NDArray[Any]) -> None:
    """A text file without a header would lose its first edge without a word."""
    first = list(edges)[:2]
    if np.isin(first, ids.astype(str)).all():
        raise InvalidInput(
            f"edges: the first line {','.join(first)} is an edge, not a header; add the line source,target"
        )


def check_ids(ids: NDArray[Any]) -> None:
    """There are node ids; they are ints or strings, present and distinct."""
    if not len(ids):
        raise InvalidInput("nodes: the table has no rows; give at least one node")
    if ids.dtype.kind not in "iuU" or ids.ndim != 1:
        raise InvalidInput(f"nodes: ids must be integers or strings, got {ids.dtype}")
    if ids.dtype.kind == "U" and np.any(ids == ""):
        raise InvalidInput(f"nodes row {np.flatnonzero(ids == '')[0]}: the id is empty; give every node one")
    distinct, first = np.unique(ids, return_index=True)
    if len(distinct) != len(ids):
        row = int(np.setdiff1d(np.arange(len(ids)), first)[0])
        raise InvalidInput(f"nodes row {row}: id {ids[row]} occurs before; ids must be unique")


def _positions(ends: NDArray[Any], ids: NDArray[Any], column: str) -> Ids:
    """Where each id stands in the node table, int64 [m]."""
    if ends.dtype.kind not in "iuU" or ends.ndim != 1:
        raise InvalidInput(f"edges: column {column!r} must hold integer or string ids, got {ends.dtype}")
    if ends.dtype.kind == "U" or ids.dtype.kind == "U":
        ends, ids = ends.astype(str), ids.astype(str)
    order = np.argsort(ids)
    places = np.searchsorted(ids, ends, sorter=order)
    found = order[np.minimum(places, len(ids) - 1)]
    strangers = np.flatnonzero(ids[found] != ends)
    if strangers.size:
        row = int(strangers[0])
        raise InvalidInput(f"edges row {row}: {column} {ends[row]!s} is not in the node table; add the node")
    return found.astype(np.int64)


def feature_columns(columns: Table) -> NDArray[np.float32]:
    """The remaining columns as one float32 matrix [n, d]."""
    parts = [_feature_column(column, name) for name, column in columns.items()]
    return np.column_stack(parts) if parts else np.empty((1, 0), dtype=np.float32)


def _feature_column(column: NDArray[Any], name: str) -> NDArray[np.float32]:
    """One column of finite numbers, or an error that names the cell."""
    if column.dtype.kind not in "fiubU":
        raise InvalidInput(f"nodes: feature column {name!r} must be numeric, got {column.dtype}")
    try:
        values = column.astype(np.float64)
    except ValueError:
        row = next(row for row, cell in enumerate(column) if not _is_number(cell))
        raise InvalidInput(
            f"nodes row {row}: feature {name!r} is {column[row]!s}, not a number; encode or drop the column"
        ) from None
    bad = np.argwhere(~(np.abs(values) <= np.finfo(np.float32).max))
    if len(bad):
        row = int(bad[0][0])
        raise InvalidInput(f"nodes row {row}: feature {name!r} is {column[row]}; features must be finite")
    return values.astype(np.float32)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def classes_of(
    column: NDArray[Any], where: str, classes: Sequence[int] | Sequence[str] | NDArray[Any] | None = None
) -> Tensor:
    """Class ids [n] of integer or string labels: places among `classes`, else in sorted order; "" and -1 are none."""
    y = np.full(len(column), UNLABELLED, dtype=np.int64)
    known, values = _known_labels(column, where)
    if classes is None:
        if not known.any():
            raise InvalidInput(f"{where}: no label at all; at least one node must have one")
        y[known] = np.unique(values, return_inverse=True)[1]
        return torch.from_numpy(y)
    places = {str(name): place for place, name in enumerate(classes)}
    # "01" is the class 1 among numbers, and a name of its own among names.
    said = values if all(isinstance(name, int | np.integer) for name in classes) else column[known]
    y[known] = [places.get(str(value), len(places)) for value in said]
    strange = np.flatnonzero(y == len(places))
    if strange.size:
        row = strange[0]
        raise InvalidInput(f"{where} {row}: the label {column[row]!s} is not among the classes: {', '.join(places)}")
    return torch.from_numpy(y)


def class_names(column: NDArray[Any]) -> NDArray[Any]:
    """The labels [c] in the order of the class ids that `classes_of` gives them."""
    return np.unique(_known_labels(column, "nodes row")[1])


def _known_labels(column: NDArray[Any], where: str) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which rows have a label, bool [n], and their labels, integers where all of them are; -1 is none, as in PyG."""
    if column.dtype.kind not in "iubU" or column.ndim != 1:
        raise InvalidInput(f"{where}: labels must be integers or strings, got {column.dtype}")
    known = column != "" if column.dtype.kind == "U" else np.ones(len(column), dtype=bool)
    values = column[known]
    if values.dtype.kind == "U":
        # Integers in a text file sort as numbers, so that class 10 comes after class 9.
        try:
            values = values.astype(np.int64)
        except (ValueError, OverflowError):
            return known, values
    values = values.astype(np.int64)
    if np.any(values < -1):
        row = int(np.flatnonzero(known)[np.argmax(values < -1)])
        raise InvalidInput(f"{where} {row}: the label {column[row]!s}; whole numbers start at 0, and -1 means no label")
    if np.array_equal(np.unique(values), [-1, 1]):
        raise InvalidInput(f"{where}: the labels are -1 and 1, and -1 means no label; name the classes 0 and 1")
    known[known] = values >= 0
    return known, values[values >= 0]


def masks_of(column: NDArray[Any], where: str) -> dict[str, Tensor]:
    """The split column as one mask [n] per role."""
    names = column.astype(str)
    strange = np.flatnonzero(~np.isin(names, [*ROLES, ""]))
    if strange.size:
        row = int(strange[0])
        raise InvalidInput(f"{where} {row}: split is {names[row]!s}; use train, val, test or leave it empty")
    return {role: torch.from_numpy(names == role) for role in ROLES}
