"""From the cells of feature columns to numbers: numbers as they are, truth values, categories, dates and blanks.

What a column holds is declared, or, with "auto", inferred from its cells. Then `FeatureColumn.fitted` is set, and a run
under a unit that protects features refuses it: a list of categories reveals what the cells hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.checks import parse
from graphveil.data.arcs import Ids
from graphveil.data.schema import FeatureColumn, Kind
from graphveil.data.tables import MISSING, TEXT, Table, coded, is_text, shown
from graphveil.errors import InvalidInput, Tampered
from graphveil.runtime.safe_json import MAX_TEXT, plain_json, read_plain

MAX_CATEGORIES = 256
"""Distinct texts up to which a column is taken for categories; more look like an id or free text."""

FEW_CATEGORIES = 20
"""Distinct texts that may be categories in a table of any size; more must occur twice on average."""

_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
_YEAR = 365.2425 * 86400e6
"""Microseconds."""
_Y2K = 946684800 * 10**6
_DECIMAL_COMMA = r"^[-+]?[0-9]+,[0-9]+$"
_BLANK = pa.array(MISSING, TEXT)

Declared = Mapping[str, str | Sequence[str]]
"""What columns hold: a list of categories, or number, truth or date, with a question mark where cells may be empty."""


# What a column holds


def plain_columns(table: Table) -> tuple[FeatureColumn, ...]:
    """Every column as numbers."""
    return tuple(_plain_column(name, column) for name, column in table.items())


def _plain_column(name: str, column: Any) -> FeatureColumn:
    return FeatureColumn(name, size=column.type.list_size if pa.types.is_fixed_size_list(column.type) else 1)


def encoded_columns(table: Table, declared: Declared, auto: bool) -> tuple[FeatureColumn, ...]:
    """Columns as declared; the others as plain numbers or, if `auto`, as their cells suggest."""
    missing = [name for name in declared if name not in table]
    if missing:
        raise InvalidInput(f"a category file declares {missing[0]!r}, and the node table has no such feature column")
    return tuple(
        declared_column(name, declared[name])
        if name in declared
        else (suggested_column(name, column) if auto else _plain_column(name, column))
        for name, column in table.items()
    )


def read_declared(path: str | Path) -> dict[str, str | list[str]]:
    """What a JSON file declares of columns, such as {"branch": ["Basel", "Bern"], "opened": "date?"}."""
    try:
        found = plain_json(read_plain(Path(path), MAX_TEXT))
    except Tampered as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} must hold a JSON object with a name and what it holds for every column")
    return found


def declared_column(name: str, content: str | Sequence[str]) -> FeatureColumn:
    """The column that a declaration describes."""
    if isinstance(content, str):
        kind = parse(Kind, content.removesuffix("?"), f"kind of column {name!r}")
        if kind is Kind.CATEGORY:
            raise InvalidInput(f"column {name!r}: declare its categories as a list")
        return FeatureColumn(name, kind, blanks=content.endswith("?"))
    if not isinstance(content, list | tuple) or not content or not all(isinstance(each, str) for each in content):
        raise InvalidInput(f"column {name!r}: declare a list of texts, or one of number, truth, date, number?, ...")
    return FeatureColumn(name, Kind.CATEGORY, categories=tuple(each.strip() for each in content))


def suggested_column(name: str, column: Any) -> FeatureColumn:
    """What the cells look like; `fitted` unless that follows from the type of the column."""
    if pa.types.is_fixed_size_list(column.type):
        return _plain_column(name, column)
    if not (is_text(column.type) or pa.types.is_dictionary(column.type)):
        blank = bool(np.isnan(_doubles(column)).any())
        kind = Kind.TRUTH if pa.types.is_boolean(column.type) else Kind.NUMBER
        return FeatureColumn(name, kind, blanks=blank, fitted=blank)
    texts, _ = coded(column, name)
    cells = texts.filter(pa.array(_known(texts)))
    blank = len(cells) < len(texts)
    if not len(cells):
        raise InvalidInput(f"column {name!r} is empty; drop it (--drop {name})")
    if _are_numbers(cells):
        return FeatureColumn(name, blanks=blank, fitted=blank)
    if pc.all(pc.match_substring_regex(cells, _DECIMAL_COMMA)).as_py():
        raise InvalidInput(f"column {name!r} holds numbers with decimal commas, such as {cells[0]}; write points")
    if pc.all(pc.is_in(pc.utf8_lower(cells), value_set=pa.array(["true", "false"], TEXT))).as_py():
        return FeatureColumn(name, Kind.TRUTH, blanks=blank, fitted=True)
    if _microseconds(cells) is not None:
        return FeatureColumn(name, Kind.DATE, blanks=blank, fitted=True)
    if len(cells) > min(MAX_CATEGORIES, max(FEW_CATEGORIES, len(column) // 2)):
        raise InvalidInput(
            f"column {name!r} holds {len(cells):,} different texts, such as {shown(cells[0])!r}: an id or free text? "
            f"Drop it (--drop {name}), or declare its categories (--categories)"
        )
    return FeatureColumn(name, Kind.CATEGORY, categories=tuple(sorted(cells.to_pylist())), fitted=True)


def _are_numbers(cells: Any) -> bool:
    try:
        return bool(np.isfinite(cells.cast(pa.float64()).to_numpy()).all())
    except pa.ArrowInvalid:
        return False


# Numbers


def feature_columns(table: Table, rows: int, columns: Sequence[FeatureColumn] | None = None) -> Tensor:
    """The columns side by side in the order of `columns`, float32 [rows, d]; without them, all as plain numbers."""
    wanted = plain_columns(table) if columns is None else columns
    x = np.empty((rows, sum(column.width for column in wanted)), dtype=np.float32)
    start = 0
    for column in wanted:
        x[:, start : start + column.width] = _encoded(column, table[column.name]).reshape(rows, column.width)
        start += column.width
    return torch.from_numpy(x)


def _encoded(column: FeatureColumn, cells: Any) -> NDArray[Any]:
    """Finite numbers, or truth values, [rows * width], or an error that names the cell."""
    if column.kind is Kind.CATEGORY:
        return _one_hot(column, cells)
    size = cells.type.list_size if pa.types.is_fixed_size_list(cells.type) else 1
    if size != column.size:
        raise InvalidInput(f"feature {column.name!r} has {size} numbers in a cell; {column.size} are needed")
    if column.kind is Kind.NUMBER and not column.blanks:
        return _number_column(cells, column.name)
    read = {Kind.NUMBER: _loose_numbers, Kind.TRUTH: _truths, Kind.DATE: _years}[column.kind]
    values = read(cells, column.name)
    blank = np.isnan(values)
    if not column.blanks:
        if blank.any():
            raise InvalidInput(
                f"nodes row {int(np.argmax(blank))}: feature {column.name!r} is empty; fill it, or declare "
                f"{column.kind.value}? (--categories) so that cells may be empty"
            )
        return values
    # Zeros for what is empty: an id without a record is then a row of zeros, as the blank ids of unit NODE are.
    return np.stack([np.where(blank, 0.0, values), ~blank], axis=1)


def _one_hot(column: FeatureColumn, cells: Any) -> NDArray[np.bool_]:
    """Whether each cell is each category [rows, k]; none where it is empty."""
    plain = cells.cast(TEXT) if pa.types.is_boolean(cells.type) else cells
    texts, codes = coded(plain, f"nodes: feature {column.name!r}: categories")
    places = pc.index_in(texts, value_set=pa.array(column.categories, TEXT)).fill_null(-1).to_numpy()
    strange = np.flatnonzero((places < 0) & _known(texts))
    if strange.size:
        raise InvalidInput(
            f"{_cell(column.name, texts, codes, strange[0])}, which is none of its categories: "
            f"{shown(', '.join(column.categories))}; correct it, or leave it empty if unknown"
        )
    found: NDArray[np.bool_] = places[codes][:, None] == np.arange(len(column.categories))
    return found


def _known(texts: Any) -> NDArray[np.bool_]:
    """Which texts are not empty and mean no missing value."""
    missing: NDArray[np.bool_] = pc.is_in(texts, value_set=_BLANK).to_numpy(zero_copy_only=False)
    return ~missing


def _by_text(cells: Any, name: str) -> tuple[Any, Ids] | None:
    """The distinct texts of a column of text, and each row's place among them; None for numbers."""
    return coded(cells, name) if is_text(cells.type) or pa.types.is_dictionary(cells.type) else None


def _loose_numbers(cells: Any, name: str) -> NDArray[np.float64]:
    """Finite numbers [rows], NaN where a cell is empty."""
    found = _by_text(cells, name)
    if found is None:
        values = _doubles(cells)
        _require_finite(np.where(np.isnan(values), 0.0, values), name, 1)
        return values
    texts, codes = found
    known = _known(texts)
    values = _numbers(pc.if_else(pa.array(known), texts, pa.scalar("0", TEXT)), name, codes)
    _require_finite(values[codes], name, 1)
    return np.where(known, values, np.nan)[codes]


def _truths(cells: Any, name: str) -> NDArray[np.float64]:
    """0 or 1 [rows], NaN where a cell is empty."""
    found = _by_text(cells, name)
    if found is None:
        values = _doubles(cells)
        wrong = np.flatnonzero(~(np.isnan(values) | (values == 0) | (values == 1)))
        if wrong.size:
            raise InvalidInput(f"nodes row {wrong[0]}: feature {name!r} is {values[wrong[0]]}, not true or false")
        return values
    texts, codes = found
    meant = [np.nan if text in MISSING else _TRUTH.get(text.lower()) for text in texts.to_pylist()]
    if None in meant:
        raise InvalidInput(f"{_cell(name, texts, codes, meant.index(None))}, not true or false")
    return np.array(meant, dtype=np.float64)[codes]


def _years(cells: Any, name: str) -> NDArray[np.float64]:
    """Years since 2000 [rows], NaN where a cell is empty."""
    found = _by_text(cells, name)
    if found is None:
        raise InvalidInput(f"nodes: feature {name!r} holds numbers, not dates such as 2024-03-31")
    texts, codes = found
    values, known = np.full(len(texts), np.nan), np.flatnonzero(_known(texts))
    moments = _microseconds(texts.take(pa.array(known)))
    if moments is not None:
        values[known] = (moments - _Y2K) / _YEAR
        return values[codes]
    # One by one: some may have a zone and others none.
    for code in known.tolist():
        moment = _microseconds(texts[code : code + 1])
        if moment is None:
            raise InvalidInput(f"{_cell(name, texts, codes, code)}, not a date such as 2024-03-31")
        values[code] = (moment[0] - _Y2K) / _YEAR
    return values[codes]


def _cell(name: str, texts: Any, codes: Ids, code: int) -> str:
    """Words for the first cell with a text."""
    return f"nodes row {int(np.argmax(codes == code))}: feature {name!r} is {shown(texts[code])!r}"


def _microseconds(texts: Any) -> NDArray[np.int64] | None:
    """ISO dates, with or without a time and a zone, as microseconds since 1970; None if one is no date."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            found: NDArray[np.int64] = texts.cast(kind).cast(pa.int64()).to_numpy()
            return found
        except pa.ArrowInvalid:
            continue
    return None


def _number_column(column: Any, name: str) -> NDArray[np.float64]:
    """Finite numbers [rows] or [rows * k], or an error that names the cell."""
    if pa.types.is_fixed_size_list(column.type):
        width, values = column.type.list_size, _doubles(column.flatten())
    elif pa.types.is_dictionary(column.type):
        texts, codes = coded(column, name)
        width, values = 1, _numbers(texts, name, codes)[codes]
    elif is_text(column.type):
        width, values = 1, _numbers(column, name)
    else:
        width, values = 1, _doubles(column)
    _require_finite(values, name, width)
    return values


def _require_finite(values: NDArray[np.float64], name: str, width: int) -> None:
    bad = np.flatnonzero(~(np.abs(values) <= np.finfo(np.float32).max))
    if bad.size:
        raise InvalidInput(
            f"nodes row {bad[0] // width}: feature {name!r} is {values[bad[0]]}; features must be finite"
        )


def _doubles(column: Any) -> NDArray[np.float64]:
    """Numbers or truth values as doubles, NaN where there is none."""
    numbers = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
    values: NDArray[Any] = numbers.to_numpy(zero_copy_only=False)
    return values.astype(np.float64)


def _numbers(column: Any, name: str, codes: Ids | None = None) -> NDArray[np.float64]:
    """Text that is a decimal number as doubles; `codes`: where the texts stand in the table."""
    try:
        doubles: NDArray[np.float64] = column.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        place = _first_word(column)
        row = place if codes is None else int(np.argmax(codes == place))
        cell = shown(column[place]) or "empty"
        raise InvalidInput(
            f"nodes row {row}: feature {name!r} is {cell}, not a number; encode or drop the column "
            "(--encode auto, --drop)"
        ) from None
    return doubles


def _first_word(column: Any) -> int:
    """The first place whose text is no number, in a column that has one; by bisection."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column[low:middle].cast(pa.float64())
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
