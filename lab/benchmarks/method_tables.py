"""Fill the measured tables of README and docs from the kept results: `python lab/benchmarks/method_tables.py`.

A page says what it wants: `<!-- lab/results/edge.json: gap + mlp -->` asks for all lines of `gap` (labels that begin with
that word), with the line labelled exactly `mlp` beside them; `<!-- lab/results/leaderboard.json: epsilon 4 -->` for all
methods against all datasets at one epsilon; `<!-- lab/results/leaderboard.json: best 3 at epsilon 4 on cora, pubmed -->`
for the three methods of every unit that are best on these graphs, on average, and `dpsgd`; `all at epsilon 4 on cora,
facebook` for all lines, a graph a column; the words `best proven` for the best proven line of every graph and epsilon,
with its gaps; `every line` for a whole table with standard deviations; `rulings` for a court and its other seeds; `power` for what it notices of half of the noise; `floors` for
what `dpsgd` has beside the largest class; `<!-- lab/results/NAME.json: columns features -->` for entries of what is no
table of scores.
What lies between a mark and
`<!-- /results -->` is written anew.
Marks whose file does not exist stay as they are, so that they can wait for their experiment.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import floors
from court_power import by_plan
from graphveil.codec import rounded
from graphveil_lab import kept_files
from graphveil_lab.bench import kept
from graphveil_lab.bench.best_proven import LARGEST, best_proven
from graphveil_lab.bench.kept import KeptLine
from graphveil_lab.bench.table import board, by_epsilon, in_percent, lined
from graphveil_lab.bench.table import markdown as every_line
from graphveil_lab.court.court import Court, Ruling

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
_PLAIN = "dpsgd"
"""Begins the labels of what reads no edge where nodes, features or labels are protected."""
BLOCK = re.compile(
    r"(<!-- lab/results/(?P<name>[\w/-]+)\.json: (?P<wanted>[^\n]+?) -->\n)(.*?)(<!-- /results -->)", re.S
)


def filled(text: str, results: Path) -> str:
    """The page `text` with every block rewritten from the tables in the folder `results`."""

    def fill(block: re.Match[str]) -> str:
        table = results / f"{block['name']}.json"
        return f"{block[1]}\n{content(table, block['wanted'])}\n\n{block[5]}" if table.exists() else block[0]

    return BLOCK.sub(fill, text)


def content(table: Path, wanted: str) -> str:
    """What a mark asks of a table."""
    if board_at := re.fullmatch(r"epsilon ([\d.]+)", wanted):
        return board([table], float(board_at[1]))
    if wanted == "every line":
        return every_line([table])
    if wanted == "best proven":
        return best_proven([table])
    if wanted == "rulings":
        return rulings([table, *sorted(table.parent.glob("court-[0-9].json"))])
    if wanted == "power":
        return power(kept_files.read(table).content["cases"])
    if wanted == "floors":
        return floors.table(kept_files.read(table).content)
    if best_of := re.fullmatch(r"best (\d+) at epsilon ([\d.]+) on (.+)", wanted):
        return best(kept.load(table), int(best_of[1]), float(best_of[2]), best_of[3].split(", "))
    if all_at := re.fullmatch(r"all at epsilon ([\d.]+) on (.+)", wanted):
        return beside(kept.load(table), float(all_at[1]), all_at[2].split(", "))
    if columns := re.fullmatch(r"columns (.+)", wanted):
        return measured(table, columns[1].split(", "))
    lines = wanted_lines(kept.load(table), wanted)
    return f"{caption(lines, table.stem)}\n\n{markdown(lines)}"


def wanted_lines(lines: list[KeptLine], wanted: str) -> list[KeptLine]:
    """The lines of the method before the `+`, and those that carry exactly one of the labels after it."""
    own, *beside = wanted.split(" + ")
    found = [line for line in lines if re.match(rf"{own}(?!\w)", line.method) or line.method in beside]
    if not found:
        raise SystemExit(f"no line of the results answers to {wanted!r}")
    return found


def caption(lines: list[KeptLine], name: str) -> str:
    """What the numbers are, and the command that makes them."""
    least, most = min(line.seeds for line in lines), max(line.seeds for line in lines)
    seeds = f"{most}" if least == most else f"{least} to {most}"
    deltas = [f"{value:.2g}".replace("e-0", "e-") for value in sorted({line.delta for line in lines})]
    delta = deltas[0] if len(deltas) == 1 else f"{deltas[0]} to {deltas[-1]} by size"
    searched = {
        frozenset({True}): "Settings were tuned on validation, cost not charged.",
        frozenset({False}): "Nothing that costs privacy was searched.",
    }.get(frozenset(line.uncharged for line in lines), "Some lines were tuned on validation, cost not charged.")
    return (
        f"Test {lines[0].metric} in per cent, delta {delta}; mean and half of the 95 % interval (Student's t), {seeds} "
        f"seeds.\n{searched} `graphveil bench run {name} --results lab/results/{name}.json` makes these numbers."
    )


def markdown(lines: list[KeptLine]) -> str:
    """A row per dataset and method; columns that always say the same are left out."""
    shown = ["dataset", *(key for key in ("method", "unit") if len({getattr(line, key) for line in lines}) > 1)]
    if {line.reading for line in lines} != {"sound"}:
        shown.append("reading")
    return by_epsilon(lines, shown, "half_width")


def best(lines: list[KeptLine], count: int, epsilon: float, graphs: Sequence[str]) -> str:
    """Rows of the `count` best methods of every unit and split by mean score, then of what reads no edge or is free.

    Of a method with several lines (labels that begin with the same word) the best one counts. Claims that are only
    published, and lines that lack a graph, are left out, and so is what is not private beside a public graph: three
    lines of the leaderboard, where a front page has room for none.
    """
    groups: dict[str, dict[str, dict[str, KeptLine]]] = {}
    for line in lines:
        free = line.free and line.split == "random"
        if line.dataset in graphs and (free or (line.epsilon == epsilon and line.reading == "sound")):
            group = line.unit if line.split == "random" else f"{line.unit}, {line.split}"
            groups.setdefault(group, {}).setdefault(line.full_label, {})[line.dataset] = line
    body = [
        [group, label, *(in_percent(rows[label][graph], rows[label][graph].half_width) for graph in graphs)]
        for group, rows in groups.items()
        for label in _first(rows, count, len(graphs))
    ]
    return lined(["unit", "method", *graphs], body)


def beside(lines: list[KeptLine], epsilon: float, graphs: Sequence[str]) -> str:
    """A row for every unit and method at one epsilon, in the order of the file."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for line in lines:
        if line.epsilon == epsilon:
            rows.setdefault((line.unit, line.method), {})[line.dataset] = in_percent(line, line.half_width)
    body = [[*place, *(cells.get(graph, "") for graph in graphs)] for place, cells in rows.items()]
    return lined(["unit", "method", *graphs], body)


def measured(table: Path, columns: Sequence[str]) -> str:
    """Some entries of every measurement, to three digits."""
    return lined(columns, [[f"{row[name]:.3g}" for name in columns] for row in kept_files.read(table).content])


def rulings(files: Sequence[Path]) -> str:
    """The first court, and those of the others that heard the same cases: false claims, then sound ones by method."""
    held = [Court.rebuild(kept_files.read(file).content) for file in files]
    heard = [[(ruling.name, ruling.expected, ruling.finding.runs) for ruling in court.rulings] for court in held]
    courts = [court for court, cases in zip(held, heard, strict=True) if cases == heard[0]]
    cases = list(zip(*(court.rulings for court in courts), strict=True))
    false = [case for case in cases if case[0].expected == "refuted"]
    sound: dict[str, list[tuple[Ruling, ...]]] = {}
    for case in cases:
        if case[0].expected != "refuted":
            sound.setdefault(re.sub(r"-\d+$", "", case[0].name), []).append(case)
    seeds = [f"certified: seed {court.seed}" for court in courts]
    told = [[f"`{case[0].name}`", *_told(case[0]), *_bounds([case])] for case in false]
    upheld = [[f"`{name}`", str(len(mine)), _claims(mine), *_bounds(mine)] for name, mine in sound.items()]
    return "\n\n".join(
        [
            lined(["false claim", "claimed", "delta", "runs", *seeds], told),
            lined(["sound claims", "cases", "claimed", *seeds], upheld),
            "\n".join(court.footer() for court in courts),
        ]
    )


def power(rows: Sequence[dict[str, Any]]) -> str:
    """How many plans of every method and unit are caught with half of their noise, and what is certified of others."""
    plans = by_plan(rows)
    groups: dict[str, list[list[dict[str, Any]]]] = {}
    for name, same in plans.items():
        groups.setdefault(re.sub(r"-\d+$", "", name), []).append(same)
    caught = {name: [same for same in mine if any(row["caught"] for row in same)] for name, mine in groups.items()}
    missed = {name: [same for same in mine if same not in caught[name]] for name, mine in groups.items()}
    body = [[f"`{name}`", f"{len(caught[name])} of {len(groups[name])}", _missed(missed[name])] for name in groups]
    total = sum(map(len, caught.values()))
    return f"{total} of {len(plans)} plans are caught.\n\n" + lined(["plans", "caught", "not caught"], body)


def _missed(plans: Sequence[Sequence[dict[str, Any]]]) -> str:
    """The pair of every plan that comes nearest to its claim."""
    nearest = [max(same, key=lambda row: row["certified"] - row["claimed"]) for same in plans]
    return "; ".join(
        f"`{row['case']}`: {rounded(row['certified'], up=False)} of {rounded(row['claimed'])}, AUC {row['auc']:.2f}"
        for row in nearest
    )


def _told(ruling: Ruling) -> list[str]:
    row = ruling.row()
    return [row[name] for name in ("claimed", "delta", "runs")]


def _bounds(cases: Sequence[tuple[Ruling, ...]]) -> list[str]:
    """The largest certified bound under every seed."""
    return [rounded(max(ruling.finding.lower for ruling in heard), up=False) for heard in zip(*cases, strict=True)]


def _claims(cases: Sequence[tuple[Ruling, ...]]) -> str:
    """The claims of some cases, from the least to the largest."""
    told = [rounded(case[0].finding.claimed) for case in sorted(cases, key=lambda case: case[0].finding.claimed)]
    return told[0] if told[0] == told[-1] else f"{told[0]} to {told[-1]}"


def _first(rows: dict[str, dict[str, KeptLine]], count: int, graphs: int) -> list[str]:
    """The labels of the `count` best methods, then `dpsgd`, then those that stand for all epsilons."""
    score = {label: statistics.fmean(line.test or 0.0 for line in row.values()) for label, row in rows.items()}
    ranked = sorted((label for label, row in rows.items() if len(row) == graphs), key=lambda label: -score[label])
    free = [label for label in ranked if all(line.free for line in rows[label].values())]
    ranked = [label for label in ranked if not label.startswith(LARGEST)]
    of_method: dict[str, str] = {}
    for label in ranked:
        if label not in free:
            of_method.setdefault(re.split(r"\W", label)[0], label)
    best, others = list(of_method.values())[:count], list(of_method.values())[count:]
    plain = [label for label in others if label.startswith(_PLAIN)]
    return [*best, *plain, *(label for label in free if label in ranked)]


def pages() -> Iterator[Path]:
    """The pages that hold marks."""
    return (page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8")))


def main() -> None:
    """Rewrite the pages whose tables have changed."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (made := filled(text, REPOSITORY / "lab" / "results")) != text:
            page.write_text(made, encoding="utf-8")
            print(page.relative_to(REPOSITORY))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
