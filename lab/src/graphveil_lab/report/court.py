"""The page of a court: what was claimed, what was certified, and whether that was expected."""

from __future__ import annotations

from importlib.metadata import version

from graphveil.report.templates import render
from graphveil_lab.court.court import Court
from graphveil_lab.report import PAGES


def court_page(court: Court) -> str:
    """A self-contained HTML page: no scripts, no remote files."""
    return render("court.html", PAGES, court=court, version=version("graphveil"))
