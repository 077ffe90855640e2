"""The command that writes a package to begin with."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

from typer import Argument, Option

from graphveil.cli import options
from graphveil.cli.output import echo
from graphveil.errors import InvalidInput

app = options.App(no_args_is_help=True, help="Write a package to begin with: a method of your own.")


@app.command("method")
def new_method(
    name: Annotated[str, Argument(metavar="NAME", help="Its name on the command line: small letters and digits.")],
    out: Annotated[Path | None, Option(help="The new folder; default: graphveil-NAME.")] = None,
) -> None:
    """Write a package with a method that runs: the method, its page, its test and the entry point that registers it."""
    from graphveil.runtime.folders import write_file

    _require_free(name)
    folder = Path(f"graphveil-{name}") if out is None else out
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} is there already; name another folder with --out")
    for place, text in rendered(name).items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / place, text.encode())
    echo(f"{folder}: pip install -e {folder}, then graphveil train {name} social --unit edge --epsilon 2 --delta 1e-5")


def rendered(name: str) -> dict[str, str]:
    """The files of the template by place, for a method of this name."""
    words = {"name": name, "kind": name.capitalize()}
    home = Path(str(files("graphveil.cli"))) / "templates" / "method"
    texts = {
        str(file.relative_to(home).with_suffix("")): file.read_text(encoding="utf-8") for file in home.rglob("*.txt")
    }
    return {Template(place).substitute(words): Template(text).substitute(words) for place, text in texts.items()}


def _require_free(name: str) -> None:
    """A word that can be a package and a class, and that no method has."""
    from graphveil.methods.method import METHODS

    if not re.fullmatch("[a-z][a-z0-9]*", name) or keyword.iskeyword(name):
        raise InvalidInput(f"a method's name is of small letters and digits, and begins with a letter; got {name!r}")
    if name in METHODS.modules or METHODS.by_class(name.capitalize()) is not None:
        raise InvalidInput(f"there is a method {name!r} already; choose another name")
    if name in METHODS.others():
        raise InvalidInput(f"a method {name!r} is installed already; choose another name")
