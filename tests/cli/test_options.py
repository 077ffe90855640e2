"""Groups of options: stated once, shown flat, handed over whole."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from graphveil.cli.options import grouped


@dataclass(frozen=True)
class Sizes:
    width: Annotated[int, typer.Option(help="How wide.")] = 2
    tall: Annotated[bool, typer.Option("--tall")] = False


def run(command: object, *words: str) -> str:
    app = typer.Typer()
    app.command()(command)  # type: ignore[type-var]
    result = CliRunner().invoke(app, list(words))
    return result.stdout if result.exit_code == 0 else f"exit {result.exit_code}"


@grouped
def wide(name: str, *, sizes: Sizes, loud: bool = False) -> None:
    typer.echo(f"{name} {sizes} {loud}")


@grouped
def narrow(*, sizes: Annotated[Sizes, {"width"}]) -> None:
    typer.echo(str(sizes))


def test_a_group_is_shown_in_its_place_and_handed_over_whole() -> None:
    assert list(signature(wide).parameters) == ["name", "width", "tall", "loud"]
    assert run(wide, "door") == "door Sizes(width=2, tall=False) False\n"
    assert run(wide, "door", "--width", "3", "--tall", "--loud") == "door Sizes(width=3, tall=True) True\n"


def test_what_is_left_out_of_a_group_is_no_option() -> None:
    assert run(narrow, "--tall") == "Sizes(width=2, tall=True)\n"
    assert run(narrow, "--width", "3") == "exit 2"


def test_an_option_that_is_stated_twice_is_refused() -> None:
    def twice(*, width: int = 0, sizes: Sizes) -> None:
        pass

    with pytest.raises(ValueError, match="duplicate parameter name"):
        grouped(twice)
