"""Files of strangers: nothing is followed or waited for, nothing is read without a bound, and JSON holds plain values.

Whatever is wrong with such a file is `Tampered`, found in bounded time and memory.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from graphveil.checks import require_printable
from graphveil.errors import InvalidInput, Tampered

MAX_TEXT = 4 << 20
"""Bytes of a JSON file or a card at most. Those of the largest plan we know take a fortieth."""

_DEEPEST = 64
"""Objects and lists inside one another at most: certificates carry those they descend from."""

_MAX_DIGITS = 20
"""Digits of a whole number at most: those of 64 bits, with a sign."""


def most_bytes() -> int:
    """Bytes of weights or edges at most: a quarter of this machine's memory, as reading takes twice the file."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


def require_fits(size: int, what: str) -> None:
    """So many bytes fit into what one file may take of this machine's memory."""
    if not 0 <= size <= most_bytes():
        raise Tampered(f"{what} would take {size:,} bytes; at most {most_bytes():,} are read on this machine")


@contextmanager
def opened(path: str | Path, folder: int | None = None) -> Iterator[BinaryIO]:
    """An ordinary file, open for reading; links are not followed, and pipes and devices are not opened.

    With `folder`, the descriptor of an open folder, `path` is a name in it.
    """
    try:
        _require_ordinary(os.stat(path, dir_fd=folder, follow_symlinks=False), path)
        # Non-blocking: what became a pipe meanwhile must not make us wait for a writer.
        found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise Tampered(f"{path} is missing or unreadable ({error.strerror or error})") from error
    with open(found, "rb") as file:
        _require_ordinary(os.fstat(found), path)
        yield file


def _require_ordinary(found: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Tampered(f"{path} is a link, a folder, a pipe or a device; only ordinary files are read")


def read_plain(path: str | Path, most: int, folder: int | None = None) -> bytes:
    """The bytes of an ordinary file, at most so many; see `opened`."""
    with opened(path, folder) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise Tampered(f"{path} has {size:,} bytes; at most {most:,} are read")
        try:
            body = file.read(size + 1)
        except OSError as error:
            raise Tampered(f"{path} cannot be read: {error.strerror or error}") from error
    if len(body) != size:
        raise Tampered(f"{path} changed while it was read")
    return body


def parse_json(body: bytes | str, schema: int) -> dict[str, Any]:
    """A JSON object of this schema version; see `plain_json`."""
    return require_schema(plain_json(body), schema)


def require_schema(described: Any, schema: int) -> dict[str, Any]:
    """`described`, if it is an object that states this schema version."""
    found = described.get("schema") if isinstance(described, dict) else None
    if type(found) is not int or found != schema:
        raise Tampered(f"unknown schema version {found!r}; this graphveil reads version {schema}")
    return dict(described)


def plain_json(body: bytes | str) -> Any:
    """JSON without what other readers might take for something else: repeated keys, NaN, numbers that overflow.

    Nesting, digits and length are bounded, and every string is one line of printable characters.
    """
    if len(body) > MAX_TEXT:
        raise Tampered(f"{len(body):,} bytes of JSON; at most {MAX_TEXT:,} are read")
    try:
        text = body if isinstance(body, str) else body.decode()
        found = json.loads(
            text, parse_int=_whole, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_keyed_once
        )
        require_plain(found)
    except RecursionError:
        raise Tampered("not valid JSON: nested too deeply") from None
    except ValueError as error:
        raise Tampered(f"not valid JSON: {error}") from error
    return found


def require_plain(value: Any) -> None:
    """Nesting is bounded, and every string is one line of printable characters."""
    left = [(value, 0)]
    while left:
        one, depth = left.pop()
        if depth > _DEEPEST:
            raise InvalidInput(f"values are nested more than {_DEEPEST} deep")
        if isinstance(one, str):
            require_printable(one, "a string")
        elif isinstance(one, dict):
            left += [(item, depth + 1) for pair in one.items() for item in pair]
        elif isinstance(one, list):
            left += [(item, depth + 1) for item in one]


def require_agreement(stated: Any, made: Any, what: str) -> None:
    """What was read from JSON describes itself with the very words of the file: nothing was overlooked or bent."""
    if not _agrees(stated, json.loads(json.dumps(made))):
        raise Tampered(f"{what} says other things than graphveil would write there: it was altered")


def _agrees(stated: Any, made: Any) -> bool:
    """The same types, keys, order and values, computed numbers to a millionth; in Python 1, 1.0 and True are equal."""
    if type(stated) is not type(made):
        return False
    if isinstance(stated, dict):
        return list(stated) == list(made) and all(_agrees(stated[key], made[key]) for key in made)
    if isinstance(stated, list):
        return len(stated) == len(made) and all(map(_agrees, stated, made))
    return math.isclose(stated, made, rel_tol=1e-6) if isinstance(stated, float) else bool(stated == made)


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a whole number of {len(digits):,} digits")
    return int(digits)


def _finite(digits: str) -> float:
    found = float(digits)
    if not math.isfinite(found):
        raise ValueError(f"the number {digits[:40]} is not finite")
    return found


def _keyed_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found
