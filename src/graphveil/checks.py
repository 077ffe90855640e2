"""Arguments that are what they should be, or a clear error that names them."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    pass
from graphveil.errors import InvalidInput

E = TypeVar("E", bound=StrEnum)


def parse(kind: type[E], value: E | str, what: str) -> E:
    """Read an enum member from user input, or say which values exist."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidInput(f"unknown {what} {value!r}; use one of: {known}") from None


def is_number(value: object) -> bool:
    """Whether it is a real number, or infinity, and fits a double. NaN is none, and neither are True and False."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def quoted(value: object) -> str:
    """A value for an error message, cut short. Python refuses to write out whole numbers of thousands of digits."""
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return f"a whole number of {value.bit_length()} bits"
    return repr(value)[:80]


def require_printable(text: object, what: str) -> str:
    """One line of printable characters, or a clear error: a name must not move a cursor or hide what stands beside it.

    Refused are control characters, newlines, blanks other than the space, marks that turn the direction of writing or
    have no width, and what is no character at all.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be text, got {type(text).__name__}")
    if not text.isprintable():
        raise InvalidInput(f"{what} must be one line of printable characters, got {text[:80]!r}")
    return text


def escaped(text: str) -> str:
    """For terminals: whatever does not print as Python would write it, so that no text from outside acts on them."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def require_positive(value: float, what: str) -> float:
    """A finite number above zero, or a clear error."""
    if not (is_number(value) and 0 < value < math.inf):
        raise InvalidInput(f"{what} must be a finite number above 0, got {quoted(value)}")
    return float(value)


def require_whole(owner: object, *names: str) -> None:
    """The fields `names` of `owner` are whole numbers, or a clear error."""
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidInput(f"{name} must be a whole number, got {quoted(value)}")


def require_seed(seed: object) -> int:
    """A whole number of at least zero, or a clear error."""
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InvalidInput(f"a seed must be a whole number of at least 0, got {seed!r}")
    return seed


def require_cost(value: float, what: str) -> float:
    """A number of at least zero, infinity included, or a clear error. NaN would be charged as nothing."""
    if not (is_number(value) and value >= 0):
        raise InvalidInput(f"{what} must be a number of at least 0, got {quoted(value)}")
    return float(value)


def require_delta(delta: float) -> float:
    """A delta strictly between 0 and 1, or a clear error."""
    if not (is_number(delta) and 0 < delta < 1):
        raise InvalidInput(f"delta must lie strictly between 0 and 1, got {quoted(delta)}")
    return float(delta)
