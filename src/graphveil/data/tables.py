"""CSV and Parquet files, data frames, structured arrays and dicts as checked Arrow columns.

Nothing is guessed from text: it is kept as written, without surrounding blanks, and ids are compared as text.
A CSV file's first line shows whether commas, semicolons or tabs separate its cells; its encoding is UTF-8 or named.
Arrow parses, and needs memory in proportion to the file; only the header is read with Python's `csv`.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput

Table = Mapping[str, Any]
"""Columns by name, all of one length; what `read_table` gives are Arrow arrays."""

Pick = Callable[[list[str]], Sequence[str]]
"""Which of a table's columns are wanted, by name."""

EXPANSION = 100
"""How many times its own size a Parquet file may need once it is decoded, if that is more than `MAX_DECODED`."""

MAX_DECODED = 1 << 30
"""Bytes that any Parquet file may need once it is decoded."""

BLOCK = 1 << 30
"""Bytes of a CSV file that are parsed at once; no row may be longer."""

TEXT = pa.large_string()

MISSING = ("", "nan", "NaN", "<NA>", "NaT")
"""What a missing value is written as: no text, or what numpy and pandas write."""

MARK = "\0"
"""A byte that no CSV file may hold, appended to mark its end."""

_FIRST_LINE = re.compile(rb"[\r\n]*([^\r\n]*)")

_BAD_FILE = (pa.ArrowException, OSError, UnicodeDecodeError)


def read_table(
    table: str | Path | NDArray[Any] | Table, what: str, pick: Pick = list, encoding: str = "utf-8", dates: bool = False
) -> Table:
    """The columns that `pick` wants, as Arrow arrays of one length, from whatever holds the table.

    encoding: of a CSV file; dates: columns of dates are read too, as their text.

    They hold whole numbers, floats, truth values or text (plain, or coded by a dictionary) in which the empty text
    stands for what is missing; a two-dimensional array, for features, has a list of k numbers for each row.
    """
    if isinstance(table, str | Path):
        columns = _read_file(Path(table), what, pick, encoding, dates)
    else:
        given = _by_name(table, what)
        columns = {name: _from_array(given[name], what, name) for name in pick(list(given))}
    if dates:
        columns = {name: _written_dates(column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"{what}: the columns differ in length: {shown(lengths)}")
    return {name: _plain(column, f"{what}: column {name!r}") for name, column in columns.items()}


def shown(value: object) -> str:
    """A value for an error message, cut where it is long."""
    text = str(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


# Files


def part_files(path: Path, what: str) -> list[Path]:
    """The file of that name, or all that match a pattern such as parts/*.parquet, by name."""
    if "*" not in path.name or path.exists():
        return [path]
    found = sorted(path.parent.glob(path.name))
    if not found:
        raise InvalidInput(f"{what}: no file matches {path}")
    if any(part.suffix.lower() not in (".parquet", ".pq") for part in found):
        raise InvalidInput(f"{what}: only Parquet files may come in parts; {path} matches others too")
    return found


def _read_file(path: Path, what: str, pick: Pick, encoding: str, dates: bool) -> dict[str, Any]:
    parts = part_files(path, what)
    if parts != [path]:
        read = [_read_file(part, what, pick, encoding, dates) for part in parts]
        if any(list(one) != list(read[0]) for one in read):
            raise InvalidInput(f"{what}: the files of {path} differ in their columns; write all parts alike")
        return {name: _chunks([one[name] for one in read], f"{what}: column {name!r}") for name in read[0]}
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq"):
        raise InvalidInput(f"{what}: cannot read {path.name}; use a .csv or a .parquet file")
    try:
        if not path.is_file():
            raise InvalidInput(f"{what}: there is no file {path}")
        if path.suffix.lower() in (".csv", ".tsv"):
            return _read_csv(path, pick, encoding)
        return _read_parquet(path, pick, dates)
    except OSError as error:
        raise InvalidInput(f"{what}: {path.name} cannot be read: {error}") from None


def _chunks(columns: list[Any], what: str) -> Any:
    """The same column of several files as one."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    try:
        return pa.chunked_array(chunks, columns[0].type)
    except pa.ArrowException:
        raise InvalidInput(f"{what} has different types in different parts; write all parts alike") from None


def _read_csv(path: Path, pick: Pick, encoding: str) -> dict[str, Any]:
    """A text file with one header line; every cell is text, and may span lines within quotes."""
    raw = _as_utf8(path.read_bytes(), path.name, encoding)
    delimiter = _delimiter(raw)
    header = _header(raw, path.name, delimiter)
    names = [name.strip() for name in header]
    if not names:
        raise InvalidInput(f"{path.name} is empty; the first line must name every column")
    if not all(names) or len(set(names)) != len(names):
        raise InvalidInput(
            f"{path.name}: the first line must name every column once, got {shown(names)}; "
            "with pandas, write it with to_csv(index=False)"
        )
    written = dict(zip(names, header, strict=True))
    wanted = [written[name] for name in pick(names)]
    table = _parse_csv(raw, path.name, header, wanted, delimiter)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return {name.strip(): columns[name] for name in wanted}


def _as_utf8(raw: bytes, name: str, encoding: str) -> bytes:
    """The text of a file in UTF-8."""
    try:
        known = codecs.lookup(encoding).name
        if known != "utf-8":
            raw = raw.decode(known).encode()
    except LookupError:
        raise InvalidInput(f"unknown encoding {encoding!r}; use utf-8, latin-1, cp1252 or utf-16") from None
    except UnicodeError as error:
        raise InvalidInput(f"{name} is not {encoding}: {shown(error)}; name its encoding (--encoding)") from None
    _require_text(raw, name)
    return raw


def _delimiter(raw: bytes) -> str:
    """A comma, unless the first line has none and is separated by semicolons or tabs."""
    first = _FIRST_LINE.match(raw)
    bare = re.sub(rb'"[^"]*"', b"", first[1] if first else b"").decode(errors="replace")
    return "," if "," in bare else max(";\t,", key=lambda sign: (bare.count(sign), sign == ","))


def _require_text(raw: bytes, name: str) -> None:
    """Valid UTF-8 without NUL, or an error that names the line."""
    bad = raw.find(0)
    reason = "holds a NUL byte"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        bad, reason = error.start, f"is not UTF-8: {error.reason}"
    if bad >= 0:
        line = raw.count(b"\n", 0, bad) + 1
        raise InvalidInput(
            f"{name} is not a comma-separated UTF-8 file: line {line} {reason}; save it as UTF-8, or name its encoding "
            "(--encoding latin-1)"
        )


def _header(raw: bytes, name: str, delimiter: str) -> list[str]:
    """The cells of the first row that is not empty."""
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")
    try:
        cells = next(row for row in csv.reader(chain(lines, [MARK]), delimiter=delimiter) if row)
    except csv.Error as error:
        raise InvalidInput(f"{name}: the first line cannot be read: {error}; is a quote never closed?") from None
    if cells == [MARK]:
        return []
    if cells[-1].endswith(MARK):
        raise InvalidInput(_unclosed(name, "the header"))
    return cells


def _parse_csv(raw: bytes, name: str, header: list[str], wanted: list[str], delimiter: str) -> Any:
    """The wanted columns below the header, or an error that names the row.

    Parsers take a quote that is never closed for a cell that goes on to the end. A last row of our own, which begins
    with `MARK`, detects it: it becomes part of such a cell.
    """
    malformed: list[Any] = []

    def note(row: Any) -> str:
        malformed.append(row)
        return "error"

    whole = raw + f"\n{MARK}{delimiter * (len(header) - 1)}\n".encode()
    try:
        table = pcsv.read_csv(
            pa.BufferReader(whole),
            # Rows are numbered only when a single thread reads.
            pcsv.ReadOptions(use_threads=False, block_size=min(len(whole), BLOCK)),
            pcsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note),
            pcsv.ConvertOptions(
                column_types=dict.fromkeys(header, TEXT),
                include_columns=list(dict.fromkeys([header[0], *wanted])),
                # Every column keeps its own copy of these lists, which text does not need.
                null_values=[],
                true_values=[],
                false_values=[],
            ),
        )
    except pa.ArrowException as error:
        if not malformed:
            raise InvalidInput(f"{name} is not a comma-separated UTF-8 file: {shown(error)}") from None
        # The header is Arrow's row 1.
        row = f"row {malformed[0].number - 2}"
        if MARK in malformed[0].text:
            raise InvalidInput(_unclosed(name, row)) from None
        raise InvalidInput(
            f"{name} {row} has {malformed[0].actual_columns} cells but the header has {len(header)}"
        ) from None
    last = table.num_rows - 1
    if table[header[0]][last].as_py() != MARK:
        raise InvalidInput(_unclosed(name, f"row {last}"))
    return table.slice(0, last)


def _unclosed(name: str, where: str) -> str:
    return f"{name}: a quote that opens in {where} is never closed; close it, or double it if it is part of the text"


def _read_parquet(path: Path, pick: Pick, dates: bool) -> dict[str, Any]:
    """The wanted columns of a Parquet file; text comes coded by a dictionary, as it does in the file."""
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            if len(set(schema.names)) != len(schema.names):
                raise InvalidInput(f"{path.name}: every column must have a name of its own, got {shown(schema.names)}")
            wanted = list(pick(schema.names))
            for name in wanted:
                kind = schema.field(name).type
                if not (dates and _is_date(kind)):
                    _require_scalars(kind, f"{path.name}: column {name!r}")
            _require_decodable(file.metadata, path)
            coded = [name for name in wanted if is_text(schema.field(name).type)]
        # A text that is stored once for a million cells stays stored once.
        with pq.ParquetFile(path, read_dictionary=coded, page_checksum_verification=True) as file:
            table = file.read(wanted, use_threads=False)
        return {name: table[name] for name in wanted}
    except _BAD_FILE as error:
        raise InvalidInput(f"{path.name} is not a Parquet file that can be read: {shown(error)}") from None


def _require_decodable(metadata: Any, path: Path) -> None:
    """A small file must not fill the memory once it is decoded."""
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    needed = sum(group.total_byte_size + 16 * group.num_rows * metadata.num_columns for group in groups)
    limit = max(MAX_DECODED, EXPANSION * path.stat().st_size)
    if needed > limit:
        raise InvalidInput(
            f"{path.name} would need about {needed / 2**30:.1f} GiB decoded, and {limit / 2**30:.1f} GiB is the most "
            "for its size; if it is meant to be that large, write it without compression and dictionaries"
        )


# Arrays and objects


def _by_name(table: Any, what: str) -> Mapping[str, Any]:
    """The columns of a dict, a data frame or an array."""
    if hasattr(table, "collect"):
        raise InvalidInput(f"{what}: a {type(table).__name__} is a plan and holds no cells yet; collect it first")
    if not isinstance(table, Mapping | np.ndarray) and hasattr(table, "columns") and hasattr(table, "__getitem__"):
        # pandas, polars and their like. Column by column: a whole pandas frame would bring its index as a column.
        names = list(getattr(table, "column_names", table.columns))
        if len(set(map(str, names))) != len(names):
            raise InvalidInput(f"{what}: every column must have a name of its own, got {shown(names)}")
        table = {name: table[name] for name in names}
    if isinstance(table, Mapping):
        strange = [name for name in table if not isinstance(name, str)]
        if strange:
            raise InvalidInput(f"{what}: column names must be text, got {shown(repr(strange[0]))}")
        return table
    if isinstance(table, np.ndarray) and table.dtype.names is not None:
        return {name: table[name] for name in table.dtype.names}
    if isinstance(table, np.ndarray) and table.ndim == 2 and what == "edges":
        return {f"column {k}": table[:, k] for k in range(table.shape[1])}
    raise InvalidInput(
        f"{what}: cannot read a {type(table).__name__} without column names; "
        "give a file, a structured array or a dict of columns"
    )


def _from_array(values: Any, what: str, name: str) -> Any:
    """An array or a list as an Arrow array."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        with suppress(pa.ArrowException, TypeError, ValueError):
            return pa.chunked_array(values)
    try:
        array = np.ma.asanyarray(values) if np.ma.isMaskedArray(values) else np.asarray(values)
        if array.dtype.kind == "U" and not isinstance(values, np.ndarray):
            # numpy writes a NaN among texts as the text nan.
            array = np.asarray(values, dtype=object)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"{what}: column {name!r} is no array: {shown(error)}") from None
    numeric = array.dtype.kind in "fiub"
    if array.ndim != 1 and not (numeric and array.ndim == 2 and array.shape[1]):
        raise InvalidInput(f"{what}: column {name!r} must have one dimension, or two for features; got {array.shape}")
    if numeric:
        return _from_numbers(array)
    if array.dtype.kind == "M" and array.ndim == 1:
        return pa.array(array)
    if array.dtype.kind not in "OUST":
        raise InvalidInput(f"{what}: column {name!r} must be numeric or text, got {array.dtype}")
    missing = np.ma.getmaskarray(array)
    cells = (None if gone else cell for cell, gone in zip(array.data if missing.any() else array, missing, strict=True))
    return text_column(cells, f"{what} row", name)


def _from_numbers(array: NDArray[Any]) -> Any:
    """Numbers [rows] or [rows, k] in the machine's own byte order and in a width that Arrow has."""
    kind = np.dtype(np.float64) if array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")
    flat = pa.array(array.astype(kind, copy=False).reshape(-1))
    return flat if array.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, array.shape[1])


def text_column(values: Iterable[Any], where: str, name: str) -> Any:
    """Python objects as text; None, NaN and the missing values of pandas are empty."""
    try:
        return pa.array([_text(value, f"{where} {row}", name) for row, value in enumerate(values)], TEXT)
    except UnicodeError as error:
        raise InvalidInput(f"{where}: {name} holds text that is not Unicode: {error}") from None


def _text(value: Any, where: str, name: str) -> str:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bytes):
        return value.decode().strip()
    if not isinstance(value, str | Number | np.bool_ | UUID | date):
        raise InvalidInput(f"{where}: {name} is a {type(value).__name__}; use a whole number or text")
    try:
        text = str(value).strip()
    except ValueError as error:
        raise InvalidInput(f"{where}: {name} cannot be written as text: {error}") from None
    return "" if isinstance(value, Number) and text.lower() in ("nan", "-nan", "snan") else text


# Columns


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text, or bytes that may be text."""
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in text) or kind in (pa.string_view(), pa.binary_view())


def _is_number(kind: Any) -> bool:
    return any(check(kind) for check in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))


def _is_date(kind: Any) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _written_dates(column: Any) -> Any:
    """A column of dates as their text; any other as it is."""
    if not _is_date(column.type):
        return column
    try:
        plain = column if pa.types.is_date(column.type) else column.cast(pa.timestamp("us"), safe=False)
        return plain.cast(TEXT)
    except pa.ArrowException as error:
        raise InvalidInput(f"dates cannot be read: {shown(error)}") from None


def _require_scalars(kind: Any, where: str) -> None:
    """Numbers or text, one to a row."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (is_text(inner) or _is_number(inner) or pa.types.is_decimal(inner) or pa.types.is_null(inner)):
        raise InvalidInput(f"{where} must be numeric or text, got {kind}; convert it or leave it out")


def _plain(column: Any, where: str) -> Any:
    """One array of numbers, or of text without surrounding blanks and with nulls as the empty text."""
    lists = pa.types.is_fixed_size_list(column.type) and _is_number(column.type.value_type) and not column.null_count
    if not lists:
        _require_scalars(column.type, where)
    try:
        column.validate(full=True)
        if pa.types.is_dictionary(column.type):
            return _plain_codes(_joined(column), where)
        if pa.types.is_decimal(column.type):
            column = column.cast(TEXT if column.type.scale == 0 else pa.float64())
        if is_text(column.type) or pa.types.is_null(column.type):
            return pc.utf8_trim_whitespace(_joined(column.cast(TEXT))).fill_null("")
        return _joined(column)
    except pa.ArrowException as error:
        raise InvalidInput(f"{where} cannot be read: {shown(error)}") from None


def _plain_codes(column: Any, where: str) -> Any:
    """A coded column whose texts are plain and distinct; coded numbers are written out."""
    if not is_text(column.type.value_type):
        return _plain(column.cast(column.type.value_type), where)
    values = pa.concat_arrays([_plain(column.dictionary, where), pa.array([""], TEXT)]).dictionary_encode()
    codes = column.indices.cast(pa.int64()).fill_null(len(column.dictionary))
    return pa.DictionaryArray.from_arrays(values.indices.take(codes), values.dictionary)


def _joined(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def coded(column: Any, what: str) -> tuple[Any, Ids]:
    """The distinct texts of a column, and each row's place among them, int64 [rows]; numbers are written in decimal."""
    kind = column.type
    if not (pa.types.is_dictionary(kind) or pa.types.is_integer(kind) or is_text(kind)):
        raise InvalidInput(f"{what} must be integers or strings, got {kind}; convert whole numbers to integers")
    coded = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
    texts = pa.concat_arrays([coded.dictionary.cast(TEXT), pa.array([""], TEXT)])
    codes = coded.indices.cast(pa.int64()).fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
    used = np.bincount(codes, minlength=len(texts)) > 0
    return texts.filter(pa.array(used)), (np.cumsum(used) - 1)[codes]
