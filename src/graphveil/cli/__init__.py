"""The command line. Heavy imports wait until a command runs, so that `--help` answers at once."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points, version
from typing import Annotated, NoReturn

import typer

from graphveil.cli import advise, check, data, evidence, export, ledger, new, pages, show, train

app = typer.Typer(
    no_args_is_help=True,
    # What an error leaves in local variables may be private data.
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


for family in (show, check, advise, train, evidence, export, pages):
    app.add_typer(family.app)
app.add_typer(data.app, name="data")
app.add_typer(ledger.app, name="ledger")
app.add_typer(new.app, name="new")


def _add_laboratory() -> None:
    """The commands of graphveil-lab, or in their place how to get them."""
    found = {entry.name: entry for entry in entry_points(group="graphveil.commands")}
    for name in ("bench", "court", "report"):
        if name in found:
            family = found[name].load()
            app.add_typer(family, name=name if len(family.registered_commands) > 1 else None)
        else:
            app.command(name, help="Part of graphveil-lab, which is not installed.", context_settings=_ANY)(_absent)


_ANY = {"allow_extra_args": True, "ignore_unknown_options": True}


def _absent(context: typer.Context) -> None:
    from graphveil.errors import MissingExtra

    raise MissingExtra(
        f"`graphveil {context.info_name}` is part of graphveil-lab; run `pip install ./lab` in a checkout of graphveil"
    )


_add_laboratory()


def main() -> None:
    """Run the command line; errors of ours are one sentence on stderr and exit code 2."""
    from graphveil.checks import escaped
    from graphveil.errors import GraphveilError
    from graphveil.release.interrupted import notes

    try:
        app(standalone_mode=True)
    except (GraphveilError, MemoryError) as error:
        # Under torchrun several processes speak.
        rank = f" (rank {os.environ['RANK']})" if _under_torchrun() else ""
        said = "; ".join(filter(None, (str(error) or "out of memory", notes(error))))
        typer.secho(escaped(f"error{rank}: {said}"), err=True, fg="red")
        _leave(2)
    except SystemExit as done:
        _leave(done.code)


def _leave(code: int | str | None) -> NoReturn:
    """End the process; under torchrun at once, without winding up the interpreter.

    Threads of PyTorch now and then abort one that winds up, and torchrun would then end the other processes, of which
    the first may still be scoring.
    """
    if _under_torchrun() and not isinstance(code, str):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


def _under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ
