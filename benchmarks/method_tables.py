"""Fill the measured tables of README and docs from the kept results: `python benchmarks/method_tables.py`.

A page says what it wants: `<!-- results/edge.json: gap + mlp -->` asks for all lines of `gap` (labels that begin with
that word), with the line labelled exactly `mlp` beside them; `<!-- results/leaderboard.json: epsilon 4 -->` for all
methods against all datasets at one epsilon. What lies between such a mark and `<!-- /results -->` is written anew.
Marks whose file does not exist stay as they are, so that they can wait for their experiment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from graphveil.bench.table import board

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"(<!-- results/(?P<name>[\w-]+)\.json: (?P<wanted>[^\n]+?) -->\n)(.*?)(<!-- /results -->)", re.S)

Row = dict[str, Any]
"""One line of a kept table; see `graphveil.bench.table.Row`."""


def filled(text: str, results: Path) -> str:
    """The page `text` with every block rewritten from the tables in the folder `results`."""

    def fill(block: re.Match[str]) -> str:
        table = results / f"{block['name']}.json"
        if not table.exists():
            return block[0]
        if board_at := re.fullmatch(r"epsilon ([\d.]+)", block["wanted"]):
            return f"{block[1]}\n{board([table], float(board_at[1]))}\n\n{block[5]}"
        rows = wanted_rows(json.loads(table.read_text(encoding="utf-8")), block["wanted"])
        return f"{block[1]}\n{caption(rows, block['name'])}\n\n{markdown(rows)}\n\n{block[5]}"

    return _BLOCK.sub(fill, text)


def wanted_rows(rows: list[Row], wanted: str) -> list[Row]:
    """The rows of the method before the `+`, and those that carry exactly one of the labels after it."""
    own, *beside = wanted.split(" + ")
    found = [row for row in rows if re.match(rf"{own}(?!\w)", row["method"]) or row["method"] in beside]
    if not found:
        raise SystemExit(f"no line of the results answers to {wanted!r}")
    return found


def caption(rows: list[Row], name: str) -> str:
    """What the numbers are, and the command that makes them."""
    seeds = " to ".join(str(count) for count in sorted({row["seeds"] for row in rows}))
    deltas = [f"{value:.2g}".replace("e-0", "e-") for value in sorted({row["delta"] for row in rows})]
    delta = deltas[0] if len(deltas) == 1 else f"{deltas[0]} to {deltas[-1]} by size"
    ways = {"not charged" in row["selection"] for row in rows}
    searched = {
        frozenset({True}): "Settings were tuned on validation, cost not charged.",
        frozenset({False}): "Nothing that costs privacy was searched.",
    }.get(frozenset(ways), "Some lines were tuned on validation, cost not charged.")
    metric = rows[0].get("metric", "accuracy")
    return (
        f"Test {metric} in per cent, delta {delta}; mean and half of the 95 % interval (Student's t), {seeds} seeds.\n"
        f"{searched} `graphveil bench run {name} --results results/{name}.json` makes these numbers."
    )


def markdown(rows: list[Row]) -> str:
    """A line per dataset and method, a column per epsilon; columns that always say the same are left out."""
    epsilons = sorted({float(row["epsilon"]) for row in rows})
    shown = ["dataset", *(key for key in ("method", "unit") if len({row[key] for row in rows}) > 1)]
    if {row["reading"] for row in rows} != {"sound"}:
        shown.append("reading")
    lines: dict[tuple[str, ...], dict[float, str]] = {}
    for row in rows:
        lines.setdefault(tuple(row[key] for key in shown), {})[float(row["epsilon"])] = score(row)
    head = [*shown, *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    body = [[*place, *(cells.get(epsilon, "") for epsilon in epsilons)] for place, cells in lines.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


def score(row: Row) -> str:
    """Mean and half-width of the interval, in per cent; empty where every run failed."""
    if row["test"] is None:
        return ""
    if row["stderr"] is None:
        return f"{100 * row['test']:.1f}"
    half = student.ppf(0.975, row["seeds"] - 1) * row["stderr"]
    return f"{100 * row['test']:.1f} ± {100 * half:.1f}"


def pages() -> Iterator[Path]:
    """The pages that hold marks."""
    return (page for page in PAGES if _BLOCK.search(page.read_text(encoding="utf-8")))


def main() -> None:
    """Rewrite the pages whose tables have changed."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (made := filled(text, REPOSITORY / "results")) != text:
            page.write_text(made, encoding="utf-8")
            print(page.relative_to(REPOSITORY))


if __name__ == "__main__":
    main()
