"""The templates: every text is escaped in HTML and SVG; in Markdown by the filters `literal` and `code`."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from graphveil.codec import rounded


def environment(*others: BaseLoader) -> Environment:
    """The folder `templates`, and what other loaders find."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader("graphveil", "templates"), *others]),
        autoescape=select_autoescape(("html", "svg")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"breakable": breakable, "amount": amount, "percent": lambda share: percent(share) or "-"}
    made.filters |= {"literal": _literal, "code": _code}
    return made


def render(name: str, *others: BaseLoader, **values: Any) -> str:
    """A page of the folder `templates`, or of what other loaders find."""
    page: str = environment(*others).get_template(name).render(**values)
    return page


def amount(epsilon: float) -> str:
    """An epsilon in a sentence, rounded up."""
    return rounded(epsilon, infinite="infinite")


def short_epsilon(value: float | None, up: bool = True) -> str:
    """An epsilon in a table, at most three decimals, rounded against us: claims up, lower bounds down."""
    return "" if value is None else rounded(value, up, infinite="∞").rstrip("0").rstrip(".")


def percent(share: float | None, places: int = 1) -> str:
    """A fraction in percent, without the sign."""
    return "" if share is None else f"{100 * share:.{places}f}"


def breakable(text: object) -> Markup:
    """Code that may be broken after a bracket, a comma or a slash, and never within a word."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[(,/\[])", str(text)))


def _literal(text: str) -> str:
    """Markdown that shows the text as it is."""
    return re.sub(r"([\\`*_\[\]<>#|&])", r"\\\1", text)


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
