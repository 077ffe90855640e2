"""The page of many results, and that of one court: which figures and tables there are, in the order of reading."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from graphveil.report import charts
from graphveil.report.templates import render, short_epsilon
from graphveil_lab.court.court import Court, Ruling
from graphveil_lab.report import attacked, measured
from graphveil_lab.report.cards import cards
from graphveil_lab.report.parts import TEMPLATES, Table, TableCell, grouped, strip, strip_axis
from graphveil_lab.report.records import Records


def report(records: Records) -> str:
    """One self-contained page. The same records give the same bytes."""
    lines = [line for table in records.tables.values() for line in table]
    rulings = [ruling for court in records.courts.values() for ruling in court.rulings]
    labels = [item.method for rows in records.attacks.values() for item in rows]
    refuted = (ruling for ruling in rulings if ruling.finding.verdict == "refuted")
    return render(
        "report.html",
        TEMPLATES,
        version=version("graphveil"),
        definitions=charts.definitions(),
        facts=_facts(records),
        experiments=[measured.Experiment.of(index, *item) for index, item in enumerate(records.tables.items())],
        largest=max(records.tables, key=lambda title: len(records.tables[title]), default=""),
        rows=measured.rows(records.tables),
        courts=[(title, court, _court(index, court)) for index, (title, court) in enumerate(records.courts.items())],
        attack_figures=[group for title, rows in records.attacks.items() for group in attacked.figures(title, rows)],
        attack_rows=attacked.rows(records.attacks),
        plain=[Table.of(f"plain-{index}", *item) for index, item in enumerate(records.plain.items())],
        cards=cards(lines, [*labels, *map(_subject, rulings)]),
        refuted=grouped(refuted, _subject),
    )


def court_page(court: Court) -> str:
    """A self-contained HTML page: no scripts, no remote files."""
    return render("court.html", TEMPLATES, court=court, version=version("graphveil"))


def _facts(records: Records) -> str:
    """How much there is, in words."""
    lines = [line for table in records.tables.values() for line in table]
    counts = (
        (len(lines), "lines of results"),
        (len({line.dataset for line in lines}), "datasets"),
        (len({line.method for line in lines}), "methods and variants"),
        (sum(len(court.rulings) for court in records.courts.values()), "cases of the soundness court"),
        (sum(map(len, records.attacks.values())), "attack measurements"),
    )
    listed = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    files = len(records.titles())
    return f"{listed or 'Other measurements'}; from {files} file{'s' if files > 1 else ''}."


def _subject(ruling: Ruling) -> str:
    """The method that a case's name begins with."""
    return ruling.name.split("-")[0]


def _court(index: int, court: Court) -> Table:
    """The court's brackets: the certified lower bound beside the claim."""
    found = [ruling.finding for ruling in court.rulings]
    axis = charts.amounts("", [value for one in found for value in (one.claimed, one.lower)], 8, 192)
    rows = [_case(ruling, axis) for ruling in court.rulings]
    caption = "Cases of the soundness court; the headings sort"
    return Table.of(f"court-{index}", caption, rows, {"bracket": strip_axis(axis)})


def _case(ruling: Ruling, axis: charts.Axis) -> Mapping[str, str | TableCell]:
    found = ruling.finding
    refuted = found.verdict == "refuted"
    verdict = found.verdict if ruling.as_expected else f"{found.verdict}, NOT {ruling.expected}"
    return {
        "case": ruling.name,
        "verdict": TableCell(verdict, bad=refuted),
        "bracket": TableCell(drawn=strip(found.lower, found.claimed, axis, refuted)),
        "certified ε above": short_epsilon(found.lower, up=False),
        "claimed ε": short_epsilon(found.claimed),
        "δ": f"{found.delta:g}",
        "runs": f"{found.runs}",
        "claim": ruling.claim,
        "source": ruling.source,
    }
