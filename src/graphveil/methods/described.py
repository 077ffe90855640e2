"""Methods as files describe them, and which of their parts are not this library's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from graphveil.codec import Serializable, kinds_in, rebuild
from graphveil.errors import InvalidInput, Tampered
from graphveil.mechanisms import described as mechanisms
from graphveil.methods.method import METHODS, Method
from graphveil.nn.own_network import OwnNetwork
from graphveil.plugins import imported, is_ours, reference_to, registered, registered_classes


def rebuild_method(described: Any) -> Method:
    """A method from its JSON description: one of ours, or one that the caller has imported or installed."""
    known = _readable(described)
    if isinstance(described, dict) and isinstance(kind := described.get("kind"), str) and kind not in known:
        raise Tampered(
            f"unknown method {kind!r} in a saved plan; if it is your own, import the module that defines it, name it "
            "(--method package.module:Class), or install what registers it"
        )
    return rebuild(described, known, {**known, OwnNetwork.kind(): OwnNetwork})


def _readable(described: Any) -> dict[str, type[Method]]:
    """Classes by the word that a file may use for them; only what is registered is imported for it."""
    words = kinds_in(described)
    ours = {word: kind for word in words if (kind := METHODS.by_class(word)) is not None}
    others = {kind.kind(): kind for kind in imported(Method)}
    return {**registered_classes(METHODS.group, Method, words - ours.keys() - others.keys()), **others, **ours}


def foreign(parts: Iterable[Serializable]) -> list[type[Serializable]]:
    """The classes of these parts, and of all that they are made of, that are not ours, each once.

    Refuses one that would pass for ours in a file: with the word of another class it would be read as that one.
    """
    waiting = list(parts)
    found: dict[type[Serializable], None] = {}
    while waiting:
        part = waiting.pop()
        waiting += [each for field in fields(part) for each in _serializable_in(getattr(part, field.name))]  # type: ignore[arg-type]  # all are dataclasses
        if is_ours(kind := type(part)):
            continue
        words = {kind.kind(), part.describe().get("kind")}
        if len(words) > 1 or not foreign_words({"kind": kind.kind()}):
            raise InvalidInput(
                f"{reference_to(kind)} calls itself {min(map(str, words))!r}, as one that is built in; rename it"
            )
        found[kind] = None
    return list(found)


def foreign_words(described: Any) -> set[str]:
    """The words of a description that stand for no class of ours: no method, mechanism, curve or part of such."""
    words = {word for word in kinds_in(described) if METHODS.by_class(word) is None}
    parts = {kind.kind() for kind in imported(Serializable) if is_ours(kind)}
    return words - mechanisms.mechanisms().keys() - mechanisms.curves().keys() - parts


def _serializable_in(value: object) -> list[Serializable]:
    if isinstance(value, tuple | list):
        return [each for item in value for each in _serializable_in(item)]
    return [value] if isinstance(value, Serializable) else []


def source_of(kind: type[Any]) -> str:
    """Where a class of others comes from: its reference, and what was installed if that registers it."""
    reference = reference_to(kind)
    known = {
        one.reference: one.distribution for group in (METHODS.group, mechanisms.GROUP) for one in registered(group)
    }
    return f"{reference} of {known[reference]}" if reference in known else reference
