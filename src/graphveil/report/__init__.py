"""Self-contained HTML: the one-page summary of one run, its card and its filings. Opens offline."""

from __future__ import annotations

from graphveil.report.advised import advice_picture
from graphveil.report.run import Bar, card_page, demonstrate, run_page, summary

__all__ = ["Bar", "advice_picture", "card_page", "demonstrate", "run_page", "summary"]
