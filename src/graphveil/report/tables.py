"""Tables as the templates and the script of the page expect them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from markupsafe import Markup

from graphveil.codec import rounded

_WRITTEN = 100
"""Rows that are written out, and are there without a script; those beyond are packed."""


@dataclass(frozen=True)
class Column:
    """A title; whether its cells are numbers; a drawing for a title."""

    title: str
    number: bool = False
    drawn: Markup | None = None


@dataclass(frozen=True)
class TableCell:
    """Text, `more` in small print after it, or a drawing."""

    text: str = ""
    more: str = ""
    bad: bool = False
    drawn: Markup | None = None


@dataclass(frozen=True)
class Table:
    """Columns and rows; the first cell of a row is its heading."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]

    def used(self) -> Table:
        """Without the columns that say nothing."""
        kept = [
            place
            for place in range(len(self.columns))
            if any(row[place].text or row[place].more or row[place].drawn for row in self.rows)
        ]
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        return Table(self.id, self.caption, tuple(self.columns[place] for place in kept), rows)

    @property
    def written(self) -> tuple[tuple[TableCell, ...], ...]:
        """The rows that the page holds as they are."""
        return self.rows[:_WRITTEN] if self.packed else self.rows

    @cached_property
    def packed(self) -> Markup | None:
        """The rows beyond, as JSON for the script: of every column its different cells, and which of them each row has.

        A page of thousands of rows takes half the room. Nothing is packed where cells are drawn.
        """
        rest = self.rows[_WRITTEN:]
        if not rest or any(cell.drawn for row in rest for cell in row):
            return None
        columns = [_dictionary([row[place] for row in rest]) for place in range(len(self.columns))]
        # No text of a cell can end the script.
        return Markup(json.dumps(columns, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def _dictionary(cells: Sequence[TableCell]) -> dict[str, list[list[str]] | str]:
    """Of every different cell its words, and for each run of equal cells which of them.

    words: text, small print and "bad", without what is empty at the end. used: 5 for the sixth of these, 5x3 for three
    cells of it.
    """
    said = [_words(cell) for cell in cells]
    place = {each: index for index, each in enumerate(dict.fromkeys(said))}
    runs = [(place[each], len(list(equal))) for each, equal in groupby(said)]
    used = " ".join(f"{index}x{times}" if times > 1 else f"{index}" for index, times in runs)
    return {"words": [list(each) for each in place], "used": used}


def _words(cell: TableCell) -> tuple[str, ...]:
    if cell.bad and cell.text:
        return cell.text, cell.more, "bad"
    return (cell.text, cell.more) if cell.more else (cell.text,)


def percent(share: float | None, places: int = 1) -> str:
    """A fraction in percent, without the sign."""
    return "" if share is None else f"{100 * share:.{places}f}"


def epsilon(value: float | None, up: bool = True) -> str:
    """At most three decimals, rounded against us: claims up, lower bounds down."""
    return "" if value is None else rounded(value, up, infinite="∞").rstrip("0").rstrip(".")


def digits(text: str) -> bool:
    """Whether this reads as a number, or as nothing."""
    try:
        return text == "" or bool(float(text) or True)
    except ValueError:
        return False
