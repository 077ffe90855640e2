"""Commands that list methods and datasets."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from graphveil.cli import options
from graphveil.cli.hyperparameters import import_method
from graphveil.cli.output import echo, print_json, print_rows, print_table
from graphveil.errors import GraphveilError

if TYPE_CHECKING:
    from graphveil.methods.method import Method

app = options.App()


@app.command()
def methods(
    name: Annotated[str | None, Argument(metavar="METHOD", help="Show one method in full.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the methods, or the hyper-parameters of one and what they mean."""
    found = {name: import_method(name)} if name else _all_methods()
    rows = [_row(key, kind) for key, kind in found.items()]
    if as_json:
        print_json(rows[0] if name else rows)
    elif name:
        _print_method(import_method(name), rows[0])
    else:
        print_table([_line(row, kind) for row, kind in zip(rows, found.values(), strict=True)])


def _line(row: dict[str, Any], kind: type[Method] | GraphveilError) -> dict[str, Any]:
    """A method in the list for people."""
    about = f"DOES NOT LOAD: {kind}" if isinstance(kind, GraphveilError) else kind.subtitle or row["about"]
    origin = f" [from {row['from']}]" if "from" in row else ""
    return {"method": row["name"], "protects": row["units"], "about": f"{about}{origin}"}


def _print_method(kind: type[Method], row: dict[str, Any]) -> None:
    """Print one method and its hyper-parameters."""
    from graphveil.methods.settings import settings

    echo(f"{kind.title()}\n{row['about']}\nprotects: {', '.join(row['units'])}")
    echo(f"from: {row['from']}, not part of graphveil\n" if "from" in row else "")
    lines = []
    for one in settings(kind):
        if one.name in row["parameters"]:
            meaning = one.meaning + (f" Choices: {', '.join(one.choices)}." if one.choices else "")
            lines.append({"flag": f"--{one.name.replace('_', '-')}", "default": one.default, "meaning": meaning})
    print_table(lines)


@app.command()
def datasets(as_json: options.AsJson = False) -> None:
    """List the datasets and whether their files are here."""
    from graphveil.data.datasets import describe

    print_rows(describe(), as_json)


def _all_methods() -> dict[str, type[Method] | GraphveilError]:
    """Our methods and those that entry points register; for one that does not load, the error."""
    from graphveil.methods.method import METHODS

    found: dict[str, type[Method] | GraphveilError] = dict(METHODS.ours())
    for name, other in METHODS.others().items():
        try:
            found[name] = other if isinstance(other, GraphveilError) else METHODS.find(name)
        except GraphveilError as error:
            found[name] = error
    return found


def _row(name: str, kind: type[Method] | GraphveilError) -> dict[str, Any]:
    """A method as data."""
    from graphveil.methods.described import source_of
    from graphveil.plugins import is_ours

    if isinstance(kind, GraphveilError):
        return {"name": name, "about": "", "units": [], "parameters": {}, "error": str(kind)}
    parameters = {item.name: item.default for item in fields(kind) if item.default is not MISSING}
    about = (sys.modules[kind.__module__].__doc__ or "").strip().partition("\n")[0]
    row = {"name": kind.name(), "about": about, "units": sorted(kind.units), "parameters": parameters}
    return row if is_ours(kind) else {**row, "from": source_of(kind)}
