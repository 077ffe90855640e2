"""One page from many results."""

from jinja2 import PackageLoader

PAGES = PackageLoader("graphveil_lab", "templates")
"""Templates of the laboratory."""
