"""Self-contained HTML: the one-page summary of one run, its card and its filings. Opens offline.

Charts are drawn by a few functions of our own (`charts`) and no plotting library: a chart takes a third of the space, a
page holds hundreds, colours follow the page's style (print, dark screens), and every mark can be asked what it is.
"""

from __future__ import annotations

from graphveil.report.advised import advice_picture
from graphveil.report.run import Bar, card_page, demonstrate, summary

__all__ = ["Bar", "advice_picture", "card_page", "demonstrate", "summary"]
