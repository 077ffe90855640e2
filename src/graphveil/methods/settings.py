"""The settings of a method as people read them: what every field is called, means and may be."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Annotated, Any, get_origin, get_type_hints

from graphveil.methods.method import Method


@dataclass(frozen=True)
class Setting:
    """One public hyper-parameter."""

    name: str
    default: Any
    meaning: str
    choices: tuple[str, ...]
    """Its values where they can be listed: `Annotated[str, values]` names them, an enum or a tuple."""


def settings(kind: type[Method]) -> tuple[Setting, ...]:
    """Every field of a method, in order. What a class leaves unsaid of a field, its bases say."""
    meanings: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    for owner in reversed(kind.__mro__):
        meanings |= _meanings(owner)
        choices |= _choices(owner)
    return tuple(
        Setting(item.name, item.default, meanings.get(item.name, ""), choices.get(item.name, ()))
        for item in fields(kind)
    )


def _meanings(owner: type[Any]) -> dict[str, str]:
    """The strings under the fields that a class declares, as single lines; Python itself drops them."""
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):
        return {}  # built in, or made at a prompt
    declared = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _choices(owner: type[Any]) -> dict[str, tuple[str, ...]]:
    """The values of every field that lists them, and both of a yes or no."""
    try:
        hints = get_type_hints(owner, include_extras=True)
    except NameError:
        return {}  # somebody's own class, whose annotations name what is imported for type checkers alone
    listed = {
        name: tuple(map(str, hint.__metadata__[0])) for name, hint in hints.items() if get_origin(hint) is Annotated
    }
    return listed | {name: ("true", "false") for name, hint in hints.items() if hint is bool}
