"""Dataclasses as plain values for JSON, and numbers as text."""

from __future__ import annotations

import inspect
import math
import reprlib
from abc import ABC
from dataclasses import fields
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from graphveil.errors import InvalidInput, Tampered, Unsupported


def rounded(epsilon: float, up: bool = True, places: int = 3, infinite: str = "inf") -> str:
    """Epsilon for people, rounded against us: an upper bound up, a lower bound down.

    A billionth of the last place above a round number is dust of doubles, and does not move an upper bound.
    """
    if epsilon == math.inf:
        return infinite
    scaled = epsilon * 10**places
    moved = math.ceil(scaled - 1e-9) if up else math.floor(scaled)
    return f"{moved / 10**places:.{places}f}"


OMIT_DEFAULT: Final = MappingProxyType({"omit_default": True})
"""Metadata of a field that a description leaves out at its default: `field(default=..., metadata=OMIT_DEFAULT)`.

For a field that is added to a method with kept results: they are found by their settings, which stay what they were.
"""


def always_described(kind: Any) -> set[str]:
    """The fields of a dataclass that every description of it has."""
    return {item.name for item in fields(kind) if not item.metadata.get("omit_default")}


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


D = TypeVar("D", bound=Serializable)

_MAX_DEPTH = 3
"""Parts inside one another at most: a published accountant of a sampled mechanism. Deeper ones could not be charged."""

_MAX_ENTRIES = 4096
"""Entries of a tuple at most."""

_MAX_NUMBER = 10**12
"""Whole numbers at most: no population is larger."""


def kinds_in(described: Any, depth: int = 0) -> set[str]:
    """The kinds that a description names, its parts' included."""
    if depth > _MAX_DEPTH or not isinstance(described, dict):
        return set()
    kind, inner = described.get("kind"), [one for one in described.values() if isinstance(one, dict)]
    lists = [one for value in described.values() if isinstance(value, list) for one in value[:_MAX_ENTRIES]]
    found = {kind} if isinstance(kind, str) else set()
    return found.union(*(kinds_in(one, depth + 1) for one in (*inner, *lists)))


def rebuild(described: Any, known: dict[str, type[D]], parts: dict[str, type[Any]], depth: int = 1) -> D:
    """Inverse of `Serializable.describe`: only classes of ours, only their own fields, plain values or `parts`."""
    kind = described.get("kind") if isinstance(described, dict) else None
    if not isinstance(kind, str) or kind not in known:
        raise Tampered(f"unknown part in a saved plan: {reprlib.repr(described)}")
    if depth > _MAX_DEPTH:
        raise Tampered(f"parts of a saved plan are nested more than {_MAX_DEPTH} deep")
    given = {name: _value(value, parts, depth) for name, value in described.items() if name != "kind"}
    try:
        return known[kind](**require_fields(known[kind], given))
    except (InvalidInput, Unsupported, TypeError, ValueError, ArithmeticError) as error:
        raise Tampered(f"the file describes an impossible {kind}: {error}") from error


def _value(value: Any, parts: dict[str, type[Any]], depth: int) -> Any:
    if isinstance(value, dict):
        return rebuild(value, parts, parts, depth + 1)
    if isinstance(value, list):
        if len(value) > _MAX_ENTRIES:
            raise Tampered(f"a list of {len(value):,} in a saved plan; at most {_MAX_ENTRIES:,} are read")
        return tuple(_value(item, parts, depth) for item in value)
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        raise Tampered(f"the number {value:,} in a saved plan; at most {_MAX_NUMBER:,} are charged")
    return math.inf if value == "inf" else value


def require_fields(kind: type[Any], given: Any) -> dict[str, Any]:
    """`given`, if it has the fields of the dataclass `kind` and no others, with values of the types it declares."""
    wanted = [item.name for item in fields(kind)]
    if not isinstance(given, dict) or not always_described(kind) <= set(given) <= set(wanted):
        raise Tampered(f"{kind.__name__} has the fields {sorted(wanted)}, the file says {reprlib.repr(given)}")
    types = _types(kind)
    for name, value in given.items():
        if name in types and not _fits(value, types[name]):
            raise Tampered(f"{name} of {kind.__name__} cannot be {reprlib.repr(value)}")
    return given


def _types(kind: type[Any]) -> dict[str, Any]:
    """Declared types by field; of somebody's own class they may not be known, and it must check by itself."""
    try:
        return get_type_hints(kind)
    except NameError:
        return {}


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is of a declared type. A whole number will do for a float; True and False are no numbers."""
    if get_origin(wanted) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(wanted))
    if get_origin(wanted) is tuple and get_args(wanted)[1:] == (...,):
        return isinstance(value, tuple) and all(_fits(item, get_args(wanted)[0]) for item in value)
    if wanted in (int, float):
        return isinstance(value, int | wanted) and not isinstance(value, bool)
    strict = wanted in (bool, str, NoneType) or (inspect.isclass(wanted) and issubclass(wanted, Serializable))
    return not strict or isinstance(value, wanted)
