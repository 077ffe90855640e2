"""What the columns of a node and an edge table mean: ids, arcs, classes and splits; features: `encoding`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.data.arcs import Arcs, Ids
from graphveil.data.tables import MISSING, TEXT, Pick, Table, coded, read_table, shown
from graphveil.errors import InvalidInput
from graphveil.vocabulary import ROLES, UNLABELLED

_NONE = (*MISSING, str(UNLABELLED))
_PERHAPS_NONE = ("None", "NONE", "NULL", "Null", "null", "NA", "N/A", "#N/A", "n/a")
"""A class of that name, or a missing label as some program writes it."""
_WHOLE_FLOAT = re.compile(r"(-?[0-9]+)\.0+")
# As long as 64-bit numbers get.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,19}")


def node_ids(column: Any) -> Any:
    """The ids as text [n]: there are some, all of them present and distinct."""
    if not len(column):
        raise InvalidInput("nodes: the table has no rows; give at least one node")
    texts, codes = coded(column, "nodes: ids")
    empty = np.flatnonzero(codes == pc.index(texts, pa.scalar("", TEXT)).as_py())
    if empty.size:
        raise InvalidInput(f"nodes row {empty[0]}: the id is empty; give every node one")
    if len(texts) != len(codes):
        first = np.unique(codes, return_index=True)[1]
        row = int(np.setdiff1d(np.arange(len(codes)), first)[0])
        raise InvalidInput(f"nodes row {row}: id {shown(texts[codes[row]])} occurs before; ids must be unique")
    return texts.take(pa.array(codes))


def kept_columns(drop: Sequence[str], what: str) -> Pick:
    """All columns but those in `drop`, each of which there is."""

    def kept(names: list[str]) -> Sequence[str]:
        missing = [name for name in drop if name not in names]
        if missing:
            raise InvalidInput(f"{what}: no column {missing[0]!r} to drop; the columns are {shown(', '.join(names))}")
        return [name for name in names if name not in drop]

    return kept


def no_column(name: str, holds: str, names: Sequence[str]) -> str:
    """The error where the node table lacks a column, with a hint if its columns are those of an edge table."""
    error = f"nodes: no column {name!r} with the {holds}s; the columns are {shown(', '.join(names))} (--{holds})"
    return f"{error}; it looks like the edge table: are the two swapped?" if {"source", "target"} <= {*names} else error


def read_edges(
    edges: str | Path | NDArray[Any] | Table,
    ids: Any,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    *,
    clean: bool = False,
    encoding: str = "utf-8",
) -> Arcs:
    """The columns `source` and `target`, or the only two there are, ids replaced by positions in the node table.

    weight: a column of which 0 means that there is no edge; other weights than 1 are refused unless cleaned away.
    """
    columns = dict(read_table(edges, "edges", edge_columns(edges, ids, source, target, weight), encoding))
    is_edge = None if weight is None else _weighted(columns.pop(weight), weight, clean)
    sources, targets = (_positions(column, ids, name) for name, column in columns.items())
    arcs = Arcs(sources, targets, len(ids), "edges row", ids)
    return arcs if is_edge is None else arcs.select(is_edge)


def edge_columns(edges: Any, ids: Any, source: str | None, target: str | None, weight: str | None) -> Pick:
    """The columns of an edge table that are read: both ends, and the weights if they are named."""
    lines = isinstance(edges, str | Path) and Path(edges).suffix.lower() in (".csv", ".tsv")
    wanted = (source or "source", target or "target")
    if wanted[0] == wanted[1]:
        raise InvalidInput(f"edges: source and target are two columns, got {wanted[0]!r} for both")

    def ends(names: list[str]) -> Sequence[str]:
        if lines:
            _require_header(names, ids)
        if weight is not None and weight not in names:
            raise InvalidInput(f"edges: no column {weight!r} with weights; got {shown(', '.join(names))}")
        if set(wanted) <= set(names):
            return wanted if weight is None else (*wanted, weight)
        if len(names) != 2 or source is not None or target is not None:
            raise InvalidInput(
                f"edges: the columns {wanted[0]} and {wanted[1]} are needed; got {shown(', '.join(names))}"
            )
        return names

    return ends


def _weighted(column: Any, name: str, clean: bool) -> NDArray[np.bool_]:
    """Which rows are edges, bool [m]."""
    try:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise InvalidInput(f"edges: column {name!r} must hold weights, which are numbers: {shown(error)}") from None
    unknown = np.flatnonzero(np.isnan(values))
    if unknown.size:
        raise InvalidInput(f"edges row {unknown[0]}: the weight is missing: an edge or none? Give 1 or 0")
    other = np.flatnonzero((values != 0) & (values != 1))
    if other.size and not clean:
        raise InvalidInput(
            f"edges row {other[0]}: the weight {values[other[0]]:g}; edges carry no weights here: leave the column out "
            "so that every row is an edge, or clean the table (--clean, clean=True), which drops weights"
        )
    is_edge: NDArray[np.bool_] = values != 0
    return is_edge


def _require_header(names: list[str], ids: Any) -> None:
    """A text file without a header would silently lose its first edge."""
    first = names[:2]
    if pc.all(pc.is_in(pa.array(first, TEXT), value_set=ids)).as_py():
        raise InvalidInput(
            f"edges: the first line {shown(','.join(first))} is an edge, not a header; add the line source,target"
        )


def _positions(ends: Any, ids: Any, column: str) -> Ids:
    """Where each id stands in the node table, int64 [m]."""
    found = places(ends, ids, column)
    unknown = np.flatnonzero(found < 0)
    if unknown.size:
        row = int(unknown[0])
        name = shown(ends[row]) if ends[row].is_valid else ""
        raise InvalidInput(
            f"edges row {row}: {column} {name} is not in the node table; add the node"
            if name
            else f"edges row {row}: {column} is empty; every edge has two ends"
        )
    return found


def places(ends: Any, ids: Any, column: str) -> Ids:
    """Where each id stands in the node table, int64 [m]; -1 where it does not."""
    texts, codes = coded(ends, f"edges: column {column!r}: ids")
    known = pc.index_in(texts, value_set=ids).fill_null(-1).to_numpy().astype(np.int64)
    found: Ids = known[codes]
    return found


# Labels and splits


def classes_of(column: Any, where: str, classes: Sequence[int] | Sequence[str] | NDArray[Any] | None = None) -> Tensor:
    """Class ids [n] of integer or text labels: places among `classes`, else in sorted order; "" and -1 are none."""
    texts, codes = _labels(column, where)
    names = [str(name) for name in (_names(texts, codes, where) if classes is None else classes)]
    if classes is None and not names:
        raise InvalidInput(f"{where.removesuffix(' row')}: no label at all; at least one node must have one")
    if len(set(names) - set(_NONE)) != len(names):
        raise InvalidInput(f"classes must be distinct, and neither empty nor -1; got {shown(', '.join(names))}")
    places = {name: place for place, name in enumerate(names)} | dict.fromkeys(_NONE, UNLABELLED)
    for code, text in enumerate(texts):
        if text not in places:
            row = int(np.argmax(codes == code))
            raise InvalidInput(
                f"{where} {row}: the label {shown(text)} is not among the classes: {shown(', '.join(names))}"
            )
    return torch.from_numpy(np.array([places[text] for text in texts], dtype=np.int64)[codes])


def class_names(column: Any) -> list[int] | list[str]:
    """The labels in the order of the class ids that `classes_of` gives them."""
    return _names(*_labels(column, "nodes row"), "nodes row")


def _labels(column: Any, where: str) -> tuple[list[str], Ids]:
    """The distinct labels as text, and each row's place among them, int64 [n].

    pandas makes floats of whole numbers beside missing ones, also in files: 1.0 is the label 1 if all are written so.
    """
    column = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else _whole_numbers(column, where)
    texts, codes = coded(column, f"{where}: labels")
    named: list[str] = texts.to_pylist()
    floats = [_WHOLE_FLOAT.fullmatch(text) for text in named if text not in MISSING]
    if floats and all(floats):
        named = [text if (whole := _WHOLE_FLOAT.fullmatch(text)) is None else whole[1] for text in named]
    if {_number(text) for text in named if text not in MISSING} == {Decimal(-1), Decimal(1)}:
        raise InvalidInput(f"{where}: the labels are -1 and 1, and -1 means no label; name the classes 0 and 1")
    return named, codes


def _whole_numbers(column: Any, where: str) -> Any:
    """Floats as whole numbers, which NaN leaves without a label; any other column as it is."""
    if not pa.types.is_floating(column.type):
        return column
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    known = ~np.isnan(values)
    broken = np.flatnonzero(known & ~((np.abs(values) < 2**53) & (values == np.floor(values))))
    if broken.size:
        raise InvalidInput(
            f"{where} {broken[0]}: the label {values[broken[0]]} is no whole number; labels name classes: use whole "
            "numbers or text"
        )
    return pa.array(np.where(known, values, 0).astype(np.int64), mask=~known)


def _names(texts: list[str], codes: Ids, where: str) -> list[int] | list[str]:
    """Sorted class names: numbers where every label is one in its usual form, so that 10 follows 9; else words."""
    known = [text for text in texts if text not in _NONE]
    for text in known:
        if text in _PERHAPS_NONE:
            row = int(np.argmax(codes == texts.index(text)))
            raise InvalidInput(
                f"{where} {row}: the label {text} may mean that there is none; leave the cell empty, or call the class "
                "otherwise"
            )
    if all(_WHOLE.fullmatch(text) for text in known):
        numbers = sorted(int(text) for text in known)
        if numbers and numbers[0] < 0:
            row = int(np.argmax(codes == texts.index(str(numbers[0]))))
            raise InvalidInput(
                f"{where} {row}: the label {numbers[0]}; whole numbers start at 0, and -1 means no label"
            )
        return numbers
    spelling: dict[Decimal, str] = {Decimal(-1): "-1"}
    for text in known:
        number = _number(text)
        if number is not None and spelling.setdefault(number, text) != text:
            raise InvalidInput(
                f"{where}: the labels {shown(spelling[number])} and {shown(text)} are one number in two spellings; "
                "use one"
            )
    return sorted(known)


def _number(text: str) -> Decimal | None:
    """The finite number that a text may stand for, in any spelling: 1, 01, +1, 1.0, 1_0 and other digits."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def masks_of(column: Any, where: str) -> dict[str, Tensor]:
    """The split column as one mask [n] per role."""
    texts, codes = coded(column, f"{where}: splits")
    names: list[str] = texts.to_pylist()
    for code, name in enumerate(names):
        if name not in (*ROLES, *MISSING):
            row = int(np.argmax(codes == code))
            raise InvalidInput(f"{where} {row}: split is {shown(name)}; use train, val, test or leave it empty")
    named = np.array(names, dtype=object)[codes]
    return {role: torch.from_numpy(named == role) for role in ROLES}
