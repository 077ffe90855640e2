"""Tables as the templates and the script of the page expect them."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from graphveil.core import rounded


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
