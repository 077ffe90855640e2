"""Commands that list what there is."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphveil.cli.hyperparameters import import_method
from graphveil.cli.options import App, AsJson
from graphveil.cli.output import print_json, print_rows, print_table, say

if TYPE_CHECKING:
    from graphveil.methods.method import Method

app = App()


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[METHOD]", help="Show one method in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or the hyper-parameters of one and what they mean."""
    from graphveil.methods.method import METHODS
    from graphveil.methods.settings import settings

    kinds = [import_method(name)] if name else list(METHODS.ours().values())
    rows = [_method_row(kind) for kind in kinds] + ([] if name else _others())
    if as_json:
        print_json(rows[0] if name else rows)
    elif name:
        say(f"{rows[0]['name']}: {rows[0]['about']}\nprotects: {', '.join(rows[0]['units'])}")
        say(f"from: {rows[0]['from']}, not part of graphveil\n" if "from" in rows[0] else "")
        print_table(
            [
                {
                    "flag": f"--{one.name.replace('_', '-')}",
                    "default": one.default,
                    "meaning": one.meaning + (f" Choices: {', '.join(one.choices)}." if one.choices else ""),
                }
                for one in settings(kinds[0])
                if one.name in rows[0]["parameters"]
            ]
        )
    else:
        print_table([_line(row) for row in rows])


@app.command()
def datasets(as_json: AsJson = False) -> None:
    """List the datasets and whether their files are here."""
    from graphveil.data.datasets import describe

    print_rows(describe(), as_json)


def _method_row(kind: type[Method]) -> dict[str, Any]:
    from graphveil.methods.described import source_of
    from graphveil.plugins import is_ours

    module = sys.modules[kind.__module__]
    parameters = {item.name: item.default for item in fields(kind) if item.default is not MISSING}
    about = (module.__doc__ or "").strip().partition("\n")[0]
    row = {"name": kind.name(), "about": about, "units": sorted(kind.units), "parameters": parameters}
    return row if is_ours(kind) else {**row, "from": source_of(kind)}


def _others() -> list[dict[str, Any]]:
    """A row for every method that is registered by an entry point; one that does not load says why."""
    from graphveil.errors import GraphveilError
    from graphveil.methods.method import METHODS

    rows = []
    for name, found in METHODS.others().items():
        try:
            if isinstance(found, GraphveilError):
                raise found
            rows.append(_method_row(METHODS.find(name)))
        except GraphveilError as error:
            rows.append({"name": name, "about": "", "units": [], "parameters": {}, "error": str(error)})
    return rows


def _line(row: dict[str, Any]) -> dict[str, str]:
    """A method for people."""
    about = f"DOES NOT LOAD: {row['error']}" if "error" in row else row["about"]
    beside = f" [from {row['from']}]" if "from" in row else ""
    return {"method": row["name"], "protects": ", ".join(row["units"]), "about": f"{about}{beside}"}
