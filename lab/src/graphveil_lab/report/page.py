"""From records to the page: which figures and tables there are, in the order of reading."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from graphveil.report import charts
from graphveil.report.tables import Column, Table, TableCell, digits, epsilon
from graphveil.report.templates import render
from graphveil_lab.court.court import Court
from graphveil_lab.report import PAGES, attacked, measured
from graphveil_lab.report.cards import cards
from graphveil_lab.report.records import Measurements, Records


def report(records: Records) -> str:
    """One self-contained page. The same records give the same bytes."""
    lines = [line for table in records.tables.values() for line in table]
    labels = [item.method for rows in records.attacks.values() for item in rows]
    labels += [ruling.name.split("-")[0] for court in records.courts.values() for ruling in court.rulings]
    known = cards(lines, labels)
    page = render(
        "report.html",
        PAGES,
        version=version("graphveil"),
        definitions=charts.definitions(),
        facts=_facts(records),
        experiments=[measured.Experiment.of(index, *item) for index, item in enumerate(records.tables.items())],
        largest=max(records.tables, key=lambda title: len(records.tables[title]), default=""),
        rows=measured.rows(records.tables),
        courts=[(title, court, _court(index, court)) for index, (title, court) in enumerate(records.courts.items())],
        attack_places=[place for title, rows in records.attacks.items() for place in attacked.places(title, rows)],
        attack_rows=attacked.rows(records.attacks),
        plain=[_plain(index, title, item) for index, (title, item) in enumerate(records.plain.items())],
        cards=known,
        hosts=_refuting(records.courts.values()),
    )
    return charts.shared(page)


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
    said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    files = len(records.titles())
    return f"{said or 'Other measurements'}; from {files} file{'s' if files > 1 else ''}."


def _court(index: int, court: Court) -> Table:
    """The court's brackets: the certified lower bound beside the claim."""
    found = [ruling.finding for ruling in court.rulings]
    axis = charts.amounts([value for item in found for value in (item.claimed, item.lower)], 8.0, 192.0)
    columns = (
        Column("case"),
        Column("verdict"),
        Column("bracket", drawn=charts.strip_axis(axis)),
        Column("certified ε above", number=True),
        Column("claimed ε", number=True),
        Column("δ", number=True),
        Column("runs", number=True),
        Column("claim"),
        Column("source"),
    )
    rows = []
    for ruling in court.rulings:
        item = ruling.finding
        refuted = item.verdict == "refuted"
        verdict = item.verdict if item.verdict == ruling.expected else f"{item.verdict}, NOT {ruling.expected}"
        cells = (
            TableCell(ruling.name),
            TableCell(verdict, bad=refuted),
            TableCell(drawn=charts.strip(item.lower, item.claimed, axis, refuted)),
            TableCell(epsilon(item.lower, up=False)),
            TableCell(epsilon(item.claimed)),
            TableCell(f"{item.delta:g}"),
            TableCell(f"{item.runs}"),
            TableCell(ruling.claim),
            TableCell(ruling.source),
        )
        rows.append(cells)
    return Table(f"court-{index}", "Cases of the soundness court; the headings sort", columns, tuple(rows))


def _plain(index: int, title: str, item: Measurements) -> Table:
    numbers = [all(digits(row[place]) for row in item.rows) for place in range(len(item.columns))]
    columns = tuple(Column(name, number=number) for name, number in zip(item.columns, numbers, strict=True))
    return Table(f"plain-{index}", title, columns, tuple(tuple(map(TableCell, row)) for row in item.rows))


def _refuting(courts: Iterable[Court]) -> dict[str, list[str]]:
    """The refuted cases of the court by the method they begin with."""
    found: dict[str, list[str]] = {}
    for court in courts:
        for ruling in court.rulings:
            if ruling.finding.verdict == "refuted":
                found.setdefault(ruling.name.split("-")[0], []).append(f"{ruling.name}: {ruling.claim}")
    return found
