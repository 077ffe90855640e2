"""Finds methods, attacks, mechanisms, curves and datasets in their folders, so that there is no registry to edit."""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import pkgutil
from dataclasses import fields
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeVar, cast

from graphveil.core import Curve, Described, InvalidInput, Mechanism, Tampered, Unsupported

T = TypeVar("T")
D = TypeVar("D", bound=Described)


def modules(package: str) -> list[ModuleType]:
    """Every module of the folder `graphveil.<package>`, in alphabetical order."""
    home = importlib.import_module(f"graphveil.{package}")
    found = sorted(item.name for item in pkgutil.iter_modules(home.__path__))
    return [importlib.import_module(f"graphveil.{package}.{name}") for name in found]


def classes(package: str, base: type[T]) -> dict[str, type[T]]:
    """Concrete subclasses of `base` that are defined in the folder, by class name."""
    found: dict[str, type[T]] = {}
    for module in modules(package):
        for name, item in vars(module).items():
            own = inspect.isclass(item) and item.__module__ == module.__name__
            if own and issubclass(item, base) and not inspect.isabstract(item):
                found[name] = item
    return found


@lru_cache
def mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism by class name."""
    return classes("mechanisms", Mechanism)


@lru_cache
def curves() -> dict[str, type[Curve]]:
    """Every curve by class name."""
    return classes("mechanisms", Curve)


@lru_cache
def methods() -> dict[str, type[Any]]:
    """Every method by its lower-case name, the name the command line uses."""
    from graphveil.method import Method

    return {item.name(): item for item in classes("methods", Method).values()}


def method(name: str) -> type[Any]:
    """The method called `name` in any case, or an error that suggests one."""
    return _named(name, methods(), "method")


def _named(name: str, known: dict[str, type[Any]], what: str) -> type[Any]:
    if name.lower() not in known:
        close = difflib.get_close_matches(name.lower(), known, n=3) or sorted(known)
        raise InvalidInput(f"unknown {what} {name!r}; did you mean: {', '.join(close)}?")
    return known[name.lower()]


@lru_cache
def attacks() -> dict[str, type[Any]]:
    """Every attack by the name of its file."""
    from graphveil.attack import Attack

    return {item.name(): item for item in classes("attacks", Attack).values()}


def attack(name: str) -> type[Any]:
    """The attack called `name` in any case, or an error that suggests one."""
    return _named(name, attacks(), "attack")


def rebuild_curve(described: Any) -> Curve:
    """A curve from its JSON description."""
    return _rebuild(described, curves(), {**curves(), **mechanisms()})


def rebuild_mechanism(described: Any) -> Mechanism:
    """A mechanism from its JSON description."""
    return _rebuild(described, mechanisms(), {**curves(), **mechanisms()})


def rebuild_method(described: Any) -> Any:
    """A method from its JSON description: one of ours, or one that the caller has imported from elsewhere."""
    from graphveil.method import Method

    known = {item.__name__: item for item in (*_imported(Method), *methods().values())}
    if isinstance(described, dict) and isinstance(kind := described.get("kind"), str) and kind not in known:
        raise Tampered(f"unknown method {kind!r} in a saved plan; if it is your own, import the module that defines it")
    return _rebuild(described, known, known)


def _imported(base: type[T]) -> list[type[T]]:
    """Concrete subclasses of `base`, wherever they are defined, that somebody has imported."""
    return [item for kind in base.__subclasses__() for item in (kind, *_imported(kind)) if not inspect.isabstract(item)]


def _rebuild(described: Any, known: dict[str, type[D]], parts: dict[str, type[Any]]) -> D:
    """Inverse of `Described.describe`: only classes of ours, only their own fields, plain values or `parts`."""
    if not isinstance(described, dict) or described.get("kind") not in known:
        raise Tampered(f"unknown part in a saved plan: {described!r}")
    kind = known[described["kind"]]
    wanted = {item.name for item in fields(cast(Any, kind))}
    if wanted != set(described) - {"kind"}:
        raise Tampered(f"{described['kind']} has the fields {sorted(wanted)}, the file says {described!r}")
    try:
        return kind(**{name: _value(described[name], parts) for name in wanted})
    except (InvalidInput, Unsupported, TypeError, ValueError) as error:
        raise Tampered(f"the file describes an impossible {described['kind']}: {error}") from error


def _value(value: Any, parts: dict[str, type[Any]]) -> Any:
    if isinstance(value, dict):
        return _rebuild(value, parts, parts)
    if isinstance(value, list):
        return tuple(_value(item, parts) for item in value)
    return math.inf if value == "inf" else value
