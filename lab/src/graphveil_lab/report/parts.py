"""What the macros of parts.html draw: tables that a script can sort and narrow, and figures with one legend."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Self, TypeVar

from jinja2 import PackageLoader
from markupsafe import Markup

from graphveil.report.charts import Axis

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
TEMPLATES = PackageLoader("graphveil_lab", "templates")
_WRITTEN = 100
"""Rows written as HTML, which need no script; those beyond are packed, which makes the page smaller by 1.3 MB."""


@dataclass(frozen=True)
class LegendEntry:
    """A line of a legend with its caveat; `highlighted` when the page opens."""

    label: str
    sample: Markup
    caveat: str = ""
    highlighted: bool = False


@dataclass(frozen=True)
class FigureGroup:
    """Figures, as captions and drawings, with one legend; `menus` has the choices for which they are shown."""

    heading: str
    source: str
    menus: dict[str, str]
    figures: tuple[tuple[str, Markup], ...]
    legend: tuple[LegendEntry, ...]


@dataclass(frozen=True)
class TableCell:
    """Text, `more` in small print after it, or a drawing; `bad` is red."""

    text: str = ""
    more: str = ""
    bad: bool = False
    drawn: Markup | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is shown."""
        return not (self.text or self.more or self.drawn)

    @property
    def number(self) -> bool:
        """Whether the text is a number or empty."""
        try:
            return self.text in ("", "∞") or bool(float(self.text) or True)
        except ValueError:
            return False


@dataclass(frozen=True)
class Table:
    """Named columns and rows of cells; the first cell of a row is its heading."""

    id: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    drawings: Mapping[str, Markup] = field(default_factory=dict)
    """Of column heads; a column with one is not sorted by."""

    @classmethod
    def of(
        cls, id: str, caption: str, rows: Sequence[Mapping[str, str | TableCell]], drawings: Mapping[str, Markup] = {}
    ) -> Self:
        """Rows by the names of columns, without the columns that are empty."""
        cells = [{name: TableCell(it) if isinstance(it, str) else it for name, it in row.items()} for row in rows]
        columns = tuple(name for name in (cells[0] if cells else ()) if not all(row[name].empty for row in cells))
        return cls(id, caption, columns, tuple(tuple(row[name] for name in columns) for row in cells), drawings)

    @cached_property
    def numbers(self) -> list[int]:
        """The places of columns of numbers, from 1."""
        columns = enumerate(zip(*self.rows, strict=True), 1)
        return [place for place, cells in columns if any(c.text for c in cells) and all(c.number for c in cells)]

    @property
    def written(self) -> tuple[tuple[TableCell, ...], ...]:
        """The rows that are HTML."""
        return self.rows[:_WRITTEN] if self.packed else self.rows

    @cached_property
    def packed(self) -> Markup | None:
        """The other rows as JSON; drawings are not packed.

        Of each column the different cells (text, small print, "bad") and which of them each row has, in runs: "5" is
        one row with cell 5, "5x3" three rows.
        """
        rest = self.rows[_WRITTEN:]
        if not rest or any(cell.drawn for row in rest for cell in row):
            return None
        columns = []
        for cells in zip(*rest, strict=True):
            words = [(cell.text, cell.more, "bad" if cell.bad and cell.text else "") for cell in cells]
            place = {each: index for index, each in enumerate(dict.fromkeys(words))}
            runs = [(place[each], len(list(equal))) for each, equal in groupby(words)]
            used = " ".join(f"{index}x{times}" if times > 1 else f"{index}" for index, times in runs)
            columns.append({"words": [_trimmed(each) for each in place], "used": used})
        # No text of a cell can end the script.
        return Markup(json.dumps(columns, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def _trimmed(words: tuple[str, ...]) -> list[str]:
    """Without the empty texts at the end."""
    last = max((place for place, word in enumerate(words, 1) if word), default=1)
    return list(words[:last])


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by a key, in the order in which they come."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def strip(lower: float, claimed: float, axis: Axis, refuted: bool) -> Markup:
    """A bracket in a cell: the dot is the certified lower bound, the bar is the claim."""
    low, bar = axis(lower), axis(claimed)
    return Markup(
        f'<svg class="strip{" bad" * refuted}" viewBox="0 0 200 16" aria-hidden="true">'
        f'<path class="rule" d="M{axis.start} 8H{axis.end}"/><path class="whisker" d="M{low} 8H{bar}"/>'
        f'<path class="bar" d="M{bar} 2V14"/><circle cx="{low}" cy="8" r="4"/></svg>'
    )


def strip_axis(axis: Axis) -> Markup:
    """The axis above the strips of a column."""
    ticks = "".join(
        f'<text class="under" x="{axis(at)}" y="12">{label}</text><path class="grid" d="M{axis(at)} 14V20"/>'
        for at, label in axis.ticks
    )
    return Markup(f'<svg class="strip" viewBox="0 0 200 20" aria-hidden="true">{ticks}</svg>')
