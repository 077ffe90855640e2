"""Every public field of every method says what it means and what it may be."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated

import pytest

from graphveil.errors import InvalidInput
from graphveil.methods.method import METHODS, Method
from graphveil.methods.settings import Setting, settings


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Base(Method):
    """A base."""

    colour: Annotated[str, Colour] = "red"
    """What it
    looks like."""
    depth: int = 1
    """How deep."""
    silent: float = 0.5


@dataclass(frozen=True)
class Child(Base):
    """A method."""

    colour: str = "blue"
    depth: int = 2
    """How deep, at least 2."""
    loud: bool = False
    """Whether it shouts."""


def test_settings_are_read_from_the_fields_and_inherited() -> None:
    assert settings(Child) == (
        Setting("colour", "blue", "What it looks like.", ("red", "blue")),
        Setting("depth", 2, "How deep, at least 2.", ()),
        Setting("silent", 0.5, "", ()),
        Setting("loud", False, "Whether it shouts.", ("true", "false")),
    )


KINDS = [pytest.param(kind, id=name) for name, kind in METHODS.ours().items()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_means(kind: type[Method]) -> None:
    said = settings(kind)
    assert [one.name for one in said] == [item.name for item in fields(kind)]
    assert not [one.name for one in said if not one.meaning.endswith(".")]
    words = [one for one in said if isinstance(one.default, str)]
    assert not [one.name for one in words if one.default not in one.choices]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_listed_is_refused(kind: type[Method]) -> None:
    for one in settings(kind):
        if isinstance(one.default, str):
            with pytest.raises(InvalidInput):
                kind(**{one.name: "no such thing"})
