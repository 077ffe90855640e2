"""Commands on ledgers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.graphs import LedgerGraph, private_graph
from graphveil.cli.output import echo, print_json, print_rows, require_files

app = options.App(no_args_is_help=True, help="Budgets per dataset: open one, see what is spent.")


@app.command("open")
@options.grouped
def ledger_open(
    path: Annotated[Path, Argument(help="Ledger file; created if needed.")],
    unit: options.Unit,
    epsilon: Annotated[float, Option(help="Budget for all releases together.")],
    delta: Annotated[float, Option(help="Delta of the budget.")],
    source: LedgerGraph,
    like: Annotated[Path | None, Option(help="Release that is to predict on this graph, without labels.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Give a dataset its budget, once."""
    require_files(None, path)
    graph = private_graph(source, source.split, None if like is None else gv.load(like).schema)
    gv.Ledger(path).open(graph, unit, epsilon=epsilon, delta=delta)
    if as_json:
        print_json({"ledger": str(path), "dataset": graph.name, "unit": unit, "epsilon": epsilon, "delta": delta})
    else:
        echo(f"{graph.name}: epsilon {epsilon:g} at delta {delta:g}, unit {unit}")


@app.command("show")
def ledger_show(
    path: Annotated[Path, Argument(help="Ledger file; it need not be writable.")],
    entries: Annotated[bool, Option("--entries", help="List every reservation instead of the totals.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show budgets and what is spent of them by all plans together."""
    book = gv.Ledger(path)
    rows = book.entries() if entries else [_account_row(item) for item in book.accounts()]
    print_rows(rows, as_json)


def _account_row(item: Any) -> dict[str, Any]:
    return {
        "dataset": item.dataset,
        "fingerprint": item.fingerprint[:12],
        "protects": str(item.adjacency),
        "budget": item.epsilon,
        "delta": item.delta,
        "spent": math.ceil(item.spent * 1e6) / 1e6 if math.isfinite(item.spent) else math.inf,
        "entries": item.entries,
        "uncommitted": item.open,
    }
