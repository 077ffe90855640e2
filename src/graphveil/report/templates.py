"""The templates, with everything escaped that is not drawn by us."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from graphveil.codec import rounded
from graphveil.report.tables import percent


def render(name: str, *others: BaseLoader, **values: Any) -> str:
    """A page of the folder `templates`, or of what other loaders find."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("graphveil", "templates"), *others]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": breakable, "amount": amount, "percent": lambda share: percent(share) or "-"}
    page: str = environment.get_template(name).render(**values)
    return page


def amount(epsilon: float) -> str:
    """An epsilon in a sentence, rounded up."""
    return rounded(epsilon, infinite="infinite")


def breakable(text: object) -> Markup:
    """Code that may be broken after a bracket, a comma or a slash, and never within a word."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[(,/\[])", str(text)))
