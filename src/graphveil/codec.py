"""Dataclasses as plain values for JSON, and numbers as text."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    pass


def rounded(epsilon: float, up: bool = True, places: int = 3, infinite: str = "inf") -> str:
    """Epsilon for people, rounded against us: an upper bound up, a lower bound down.

    A billionth of the last place above a round number is dust of doubles, and does not move an upper bound.
    """
    if epsilon == math.inf:
        return infinite
    scaled = epsilon * 10**places
    moved = math.ceil(scaled - 1e-9) if up else math.floor(scaled)
    return f"{moved / 10**places:.{places}f}"


OMIT_DEFAULT: Final = MappingProxyType({"later": True})
"""Metadata of a field that files of earlier versions have not: `field(default=..., metadata=OMIT_DEFAULT)`.

It is left out of a description while it has its default, so that whatever is named by its settings keeps its name.
"""


def always_described(kind: Any) -> set[str]:
    """The fields of a dataclass that every description of it has."""
    return {item.name for item in fields(kind) if not item.metadata.get("later")}


class Serializable(ABC):
    """A frozen dataclass of plain values (or other described parts) that JSON can carry."""

    def describe(self) -> dict[str, Any]:
        """`{"kind": word, field: value, ...}`; infinity becomes the string "inf"."""
        return {"kind": self.kind(), **{name: plain(value) for name, value in self._described()}}

    def _described(self) -> list[tuple[str, Any]]:
        """The fields that a description has, with their values."""
        always = always_described(self)
        told = [(item, getattr(self, item.name)) for item in fields(cast(Any, self))]
        return [(item.name, value) for item, value in told if item.name in always or value != item.default]

    @classmethod
    def kind(cls) -> str:
        """The word for it in files and on cards."""
        return cls.__name__

    def __str__(self) -> str:
        """For people: numbers to six digits."""
        shown = (f"{name}={_brief(value)}" for name, value in self._described())
        return f"{self.kind()}({', '.join(shown)})"


def _brief(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plain(value: Any) -> Any:
    """As JSON can carry it, parts included: it has no infinity, which becomes the string "inf"."""
    if isinstance(value, Serializable):
        return value.describe()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return "inf" if value == math.inf else value
