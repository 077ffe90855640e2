"""`Schema`: the names of classes and feature columns, and how cells become numbers.

A graph from tables has one, a release keeps that of its training, and graphs are matched to the release by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphveil.checks import parse, require_printable
from graphveil.errors import InvalidInput, Tampered
from graphveil.runtime.safe_json import plain_json, require_agreement

_SHOWN = 8
"""Names that an error lists before it is cut."""


class Kind(StrEnum):
    """What the cells of a feature column are."""

    NUMBER = "number"
    TRUTH = "truth"
    CATEGORY = "category"
    DATE = "date"


@dataclass(frozen=True)
class FeatureColumn:
    """A feature column and the numbers that each of its cells becomes.

    number, truth: itself, 0 or 1. category: one number for each of `categories`, of which one is 1; none where the cell
    is empty. date: years since 2000. `blanks`: cells may be empty; one more number is 1 where they are not.
    """

    name: str
    kind: Kind = Kind.NUMBER
    size: int = 1
    """Numbers in a cell: more than one in a two-dimensional array."""
    categories: tuple[str, ...] = ()
    blanks: bool = False
    fitted: bool = field(default=False, compare=False)
    """Whether kind, categories or blanks were inferred from the cells, and so reveal something about them."""

    def __post_init__(self) -> None:
        require_printable(self.name, "the name of a column")
        for name in self.categories:
            require_printable(name, f"a category of {self.name!r}")
        if len(set(self.categories)) != len(self.categories) or "" in self.categories:
            raise InvalidInput(f"the categories of {self.name!r} must be distinct, and none of them empty")
        if (self.kind is Kind.CATEGORY) != bool(self.categories):
            raise InvalidInput(f"column {self.name!r}: a category column, and no other, has categories")
        if self.size < 1 or (self.size > 1 and (self.kind is not Kind.NUMBER or self.blanks)):
            raise InvalidInput(f"column {self.name!r}: cells of several numbers hold plain numbers")
        if self.blanks and self.kind is Kind.CATEGORY:
            raise InvalidInput(f"column {self.name!r}: an empty category is none, and needs no number of its own")

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        return len(self.categories) if self.kind is Kind.CATEGORY else self.size + self.blanks


@dataclass(frozen=True)
class Schema:
    """Names of the classes, in the order of their ids, and of the feature columns, in the order of x."""

    classes: tuple[str, ...]
    columns: tuple[FeatureColumn, ...]
    id: str = "id"
    label: str = "label"

    def __post_init__(self) -> None:
        for name in (*self.classes, self.id, self.label):
            require_printable(name, "the name of a class or a column")
        for what, names in (("classes", self.classes), ("columns", self.names)):
            if len(set(names)) != len(names):
                raise InvalidInput(f"the names of {what} must be distinct, got {listed(names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the feature columns."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """How many numbers a node has."""
        return sum(column.width for column in self.columns)

    @property
    def fitted(self) -> tuple[str, ...]:
        """Columns whose encoding was inferred from the cells."""
        return tuple(column.name for column in self.columns if column.fitted)

    def require_columns(self, names: Sequence[str], where: str) -> None:
        """These are the feature columns, in any order."""
        missing = [name for name in self.names if name not in set(names)]
        extra = [name for name in names if name not in set(self.names)]
        if missing:
            more = f", and has others: {listed(extra)}" if extra else ""
            raise InvalidInput(f"{where} has no column {listed(missing)}{more}; columns go by name: add it")
        if extra:
            raise InvalidInput(
                f"{where} has columns that the model was not trained with: {listed(extra)}; drop them (--drop, drop=)"
            )

    def order_of(self, other: Schema, where: str) -> NDArray[np.int64]:
        """The places in x of `other` where the numbers of our columns stand, int64 [width]."""
        self.require_columns(other.names, where)
        theirs = {column.name: column for column in other.columns}
        unlike = [column.name for column in self.columns if theirs[column.name] != column]
        if unlike:
            raise InvalidInput(
                f"{where} encodes {listed(unlike)} otherwise than the model's training did: read its tables with the "
                "schema of the release, Graph.from_edges(..., schema=release.schema)"
            )
        starts = np.cumsum([0, *(column.width for column in other.columns)])
        first = dict(zip(other.names, starts[:-1].tolist(), strict=True))
        places = [np.arange(first[column.name], first[column.name] + column.width) for column in self.columns]
        return np.concatenate(places).astype(np.int64)

    def classes_of(self, other: Schema, where: str) -> NDArray[np.int64]:
        """Our class id of each class of `other`, int64 [c]."""
        unknown = [name for name in other.classes if name not in set(self.classes)]
        if unknown:
            raise InvalidInput(
                f"{where} has the classes {listed(unknown)}, which the model does not know; it knows "
                f"{listed(self.classes)}. Name them alike, or leave the labels out"
            )
        return np.array([self.classes.index(name) for name in other.classes], dtype=np.int64)

    def to_text(self) -> str:
        """As JSON, the same text for the same names; `from_text` inverts it."""
        return json.dumps(self.describe(), sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON; what a column does not use is left out."""
        columns = [_described(column) for column in self.columns]
        return {"classes": list(self.classes), "columns": columns, "id": self.id, "label": self.label}

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """Inverse of `to_text`; raises `Tampered`."""
        try:
            stored = plain_json(text)
            columns = tuple(_column(each) for each in stored["columns"])
            made = cls(tuple(stored["classes"]), columns, stored["id"], stored["label"])
        except Tampered:
            raise
        # Whatever breaks, the file did it.
        except Exception as error:
            raise Tampered(f"the names of columns and classes were altered: {error!r}") from error
        require_agreement(stored, json.loads(made.to_text()), "the list of columns and classes")
        return made


def _described(column: FeatureColumn) -> dict[str, Any]:
    usual = asdict(FeatureColumn("?"))
    fields = {name: value for name, value in asdict(column).items() if name == "name" or value != usual[name]}
    return fields | ({"categories": list(column.categories)} if column.categories else {})


def _column(stored: Mapping[str, Any]) -> FeatureColumn:
    kinds = {"name": str, "size": int, "blanks": bool, "fitted": bool, "kind": str, "categories": list}
    for name, value in stored.items():
        if type(value) is not kinds[name]:
            raise TypeError(f"{name} is {value!r}")
    kind = parse(Kind, stored.get("kind", Kind.NUMBER), "kind of column")
    return FeatureColumn(**{**stored, "kind": kind, "categories": tuple(stored.get("categories", ()))})


def listed(names: Sequence[str]) -> str:
    """Names in the words of an error."""
    few = ", ".join(map(repr, names[:_SHOWN]))
    return few if len(names) <= _SHOWN else f"{few} and {len(names) - _SHOWN} more"
