"""The command line. Heavy imports wait until a command runs, so that `--help` answers at once."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points, version
from typing import Annotated, NoReturn

import typer

from graphveil.cli import account, advise, check, data, evidence, infer, ledger, new, pages, show, train
from graphveil.errors import GraphveilError, MissingExtra

app = typer.Typer(
    no_args_is_help=True,
    # Local variables in a traceback may hold private data.
    pretty_exceptions_show_locals=False,
    help="Private graph learning with proofs.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"graphveil {version('graphveil')}")
        raise typer.Exit


@app.callback()
def _options(
    show: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


for family in (show, check, advise, account, train, infer, evidence, pages):
    app.add_typer(family.app)
for name, group in (("data", data), ("ledger", ledger), ("new", new)):
    app.add_typer(group.app, name=name)


def _absent(context: typer.Context) -> None:
    command = f"graphveil {context.info_name}"
    raise MissingExtra(f"`{command}` is part of graphveil-lab; run `pip install ./lab` in a checkout of graphveil")


def _add_laboratory() -> None:
    """Add the commands of graphveil-lab; without it, commands that say how to get it."""
    found = {entry.name: entry for entry in entry_points(group="graphveil.commands")}
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    for name in ("bench", "court", "report"):
        if name in found:
            family = found[name].load()
            app.add_typer(family, name=name if len(family.registered_commands) > 1 else None)
        else:
            app.command(name, help="Part of graphveil-lab, which is not installed.", context_settings=anything)(_absent)


_add_laboratory()


def main() -> None:
    """Run the command line; errors of ours are one sentence on stderr and exit code 2."""
    try:
        app(standalone_mode=True)
    except (GraphveilError, MemoryError) as error:
        from graphveil.checks import escaped
        from graphveil.release.interrupted import notes

        # Under torchrun several processes print.
        rank = f" (rank {os.environ['RANK']})" if _under_torchrun() else ""
        message = "; ".join(filter(None, (str(error) or "out of memory", notes(error))))
        typer.secho(escaped(f"error{rank}: {message}"), err=True, fg="red")
        _leave(2)
    except SystemExit as done:
        _leave(done.code)


def _leave(code: int | str | None) -> NoReturn:
    """End the process; under torchrun at once, without the interpreter's shutdown.

    Threads of PyTorch now and then abort a shutdown, and torchrun would then end the other processes, of which the
    first may still be scoring.
    """
    if _under_torchrun() and not isinstance(code, str):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


def _under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ
