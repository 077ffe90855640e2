"""The command that looks at tables before anything is spent."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

import graphveil as gv
from graphveil.cli import options
from graphveil.cli.graphs import CheckGraph
from graphveil.cli.hyperparameters import import_methods
from graphveil.cli.output import echo, print_json

if TYPE_CHECKING:
    from graphveil.data.checking import Findings

app = options.App()


@app.command()
@options.grouped
def check(
    source: CheckGraph,
    unit: Annotated[str, Option(help="What is to be protected: edge, node, features or label.")] = "edge",
    like: Annotated[Path | None, Option(help="Release that is to predict for these tables.")] = None,
    own: options.OwnMethods = None,
    as_json: options.AsJson = False,
) -> None:
    """List every problem of your tables at once, what is ignored, and the next command. Free: nothing is trained.

    Exit code 2 if a training would be refused. What is printed counts records: it is for the data holder's eyes.
    """
    if source.nodes is None:
        raise gv.InvalidInput("give your tables: --edges and --nodes, or --nodes alone")
    import_methods(own)
    schema = None if like is None else gv.load(like).schema
    found = gv.check(source.edges, source.nodes, unit=unit, schema=schema, **source.tables())
    following = _next(source, unit, like, found)
    if as_json:
        print_json({**found.describe(), "next": following})
    else:
        echo(f"{found}\nnext: {following}")
    if not found.ready:
        raise Exit(2)


def _next(source: CheckGraph, unit: str, like: Path | None, found: Findings) -> str:
    """The command to type next: this one with what would help, a training, or predictions."""
    from graphveil import checks, vocabulary
    from graphveil.methods import FLAGSHIPS

    given = " ".join([*source.typed(), *found.options])
    if not found.ready:
        return f"graphveil check {given} --unit {unit}" if found.options else "correct the tables, and check again"
    if like is not None:
        return f"graphveil infer {shlex.quote(str(like))} {given} --epsilon 1 --out predictions.csv"
    method = FLAGSHIPS[checks.parse(vocabulary.Unit, unit, "unit")]
    return f"graphveil train {method} {given} --unit {unit} --epsilon 2 --out model"
