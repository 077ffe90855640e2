"""What notebooks show of an object: a heading and a table of facts, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def facts(heading: str, rows: Iterable[tuple[str, object]], note: str = "") -> str:
    """A heading, a sentence, and one row for every named fact."""
    said = f"<p>{escape(note)}</p>" if note else ""
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<div><strong>{escape(heading)}</strong>{said}<table>{cells}</table></div>"


def listing(heading: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A heading and a table with named columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div><strong>{escape(heading)}</strong><table><tr>{head}</tr>{body}</table></div>"
