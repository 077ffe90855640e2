"""Which revision of a method made a result: a method that changes its mathematics raises `revision` in its own file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphveil.methods.method import METHODS


def made_by(name: str, params: Mapping[str, Any] | None = None) -> str:
    """The method and its revision, as in "hearsay 1", and those of methods among its settings."""
    ours = METHODS.ours()
    names = {kind.__name__: method for method, kind in ours.items()}
    inner = {names[kind] for kind in _kinds(params or {}) if kind in names}
    return ", ".join(f"{part} {METHODS.written(part).revision}" for part in (name, *sorted(inner - {name})))


def stale(made: str) -> bool:
    """Whether a method of this library has another revision today than the one that made a result, or none was noted.

    Of methods of others nothing is known here: nothing is imported because a file names it.
    """
    ours = METHODS.ours()
    parts = [part.partition(" ") for part in made.split(", ")]
    return not made or any(name in ours and said != str(ours[name].revision) for name, _, said in parts)


def _kinds(held: Any) -> Iterator[str]:
    """The methods that a described setting holds, such as the candidates of a choice."""
    if isinstance(held, Mapping):
        if isinstance(kind := held.get("kind"), str):
            yield kind
        held = list(held.values())
    if isinstance(held, list | tuple):
        for item in held:
            yield from _kinds(item)
