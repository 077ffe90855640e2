"""The templates, with everything escaped that is not drawn by us."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(name: str, **values: Any) -> str:
    """A page of the folder `templates`."""
    environment = Environment(
        loader=PackageLoader("graphveil", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page: str = environment.get_template(name).render(**values)
    return page
