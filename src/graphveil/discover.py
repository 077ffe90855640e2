"""Finds methods, attacks, mechanisms, curves and datasets in their folders, so that there is no registry to edit."""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import pkgutil
import reprlib
from dataclasses import fields
from functools import lru_cache
from types import ModuleType, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from graphveil.core import (
    Adjacency,
    Curve,
    Described,
    InvalidInput,
    Mechanism,
    Plan,
    Reading,
    Relation,
    Step,
    Tampered,
    Unit,
    Unsupported,
    always_described,
)
from graphveil.runtime.untrusted import require_plain

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
    """Every mechanism by its word in files."""
    return {item.kind(): item for item in classes("mechanisms", Mechanism).values()}


@lru_cache
def curves() -> dict[str, type[Curve]]:
    """Every curve by its word in files."""
    return {item.kind(): item for item in classes("mechanisms", Curve).values()}


@lru_cache
def methods() -> dict[str, type[Any]]:
    """Every method by its lower-case name, the name the command line uses."""
    from graphveil.methods.bases.method import Method

    return {item.name(): item for item in classes("methods", Method).values()}


def method(name: str) -> type[Any]:
    """The method called `name` in any case, or an error that suggests one."""
    return _named(name, methods(), "method")


def flagship(unit: Unit) -> type[Any]:
    """The method that is taken where a unit is named and no method."""
    return next(kind for kind in methods().values() if unit in kind.leads)


def _named(name: str, known: dict[str, type[Any]], what: str) -> type[Any]:
    if name.lower() not in known:
        close = difflib.get_close_matches(name.lower(), known, n=3) or sorted(known)
        raise InvalidInput(f"unknown {what} {name!r}; did you mean: {', '.join(close)}?")
    return known[name.lower()]


@lru_cache
def attacks() -> dict[str, type[Any]]:
    """Every attack by the name of its file."""
    from graphveil.evidence.game import Attack

    return {item.name(): item for item in classes("evidence.attacks", Attack).values()}


def attack(name: str) -> type[Any]:
    """The attack called `name` in any case, or an error that suggests one."""
    return _named(name, attacks(), "attack")


def rebuild_curve(described: Any) -> Curve:
    """A curve from its JSON description."""
    return _rebuild(described, curves(), {**curves(), **mechanisms()})


def rebuild_mechanism(described: Any) -> Mechanism:
    """A mechanism from its JSON description."""
    return _rebuild(described, mechanisms(), {**curves(), **mechanisms()})


def rebuild_plan(described: Any) -> Plan:
    """Inverse of `Plan.describe`; runs no code from the file. What no method would plan is `Tampered`."""
    try:
        require_plain(described)
        near = described["adjacency"]
        kinds = {"unit": Unit(near["unit"]), "relation": Relation(near["relation"])}
        adjacency = Adjacency(**require_fields(Adjacency, {**near, **kinds}))
        if len(described["steps"]) > _MOST_STEPS:
            raise Tampered(f"a saved plan of {len(described['steps']):,} steps; at most {_MOST_STEPS:,} are charged")
        return Plan(adjacency, Reading(described["reading"]), tuple(map(_rebuild_step, described["steps"])))
    except (KeyError, TypeError, ValueError) as error:
        raise Tampered(f"a saved plan is incomplete or altered: {error!r}") from error


def _rebuild_step(described: dict[str, Any]) -> Step:
    parts = {
        "act": rebuild_mechanism(described["act"]),
        "claim": rebuild_curve(described["claim"]),
        "assumes": tuple(described["assumes"]),
    }
    made = Step(**require_fields(Step, {**described, **parts}))
    if made.times > _MOST_TIMES:
        raise Tampered(f"a saved step runs {made.times:,} times; at most {_MOST_TIMES:,} are charged")
    return made


def rebuild_method(described: Any) -> Any:
    """A method from its JSON description: one of ours, or one that the caller has imported from elsewhere."""
    from graphveil.methods.bases.method import Method, from_file

    known = {item.__name__: item for item in (*_imported(Method), *methods().values())}
    described = current_method(described)
    if isinstance(described, dict) and isinstance(kind := described.get("kind"), str) and kind not in known:
        raise Tampered(f"unknown method {kind!r} in a saved plan; if it is your own, import the module that defines it")
    with from_file():
        return _rebuild(described, known, known)


def current_method(described: Any) -> Any:
    """A method's description as this version writes it: earlier ones had other names for some."""
    if isinstance(described, dict):
        for kind in methods().values():
            described = kind.upgraded(described)
    return described


def _imported(base: type[T]) -> list[type[T]]:
    """Concrete subclasses of `base`, wherever they are defined, that somebody has imported."""
    return [item for kind in base.__subclasses__() for item in (kind, *_imported(kind)) if not inspect.isabstract(item)]


_MOST_STEPS = 1000
_MOST_TIMES = 10**6
"""Steps of a plan, and uses of a step, at most, when it comes from a file: charging more could take for ever."""

_DEEPEST = 3
"""Parts inside one another at most: a published accountant of a sampled mechanism. Deeper ones could not be charged."""

_LONGEST = 4096
"""Entries of a tuple at most."""

_LARGEST = 10**12
"""Whole numbers at most: no population is larger."""


def _rebuild(described: Any, known: dict[str, type[D]], parts: dict[str, type[Any]], depth: int = 1) -> D:
    """Inverse of `Described.describe`: only classes of ours, only their own fields, plain values or `parts`."""
    kind = described.get("kind") if isinstance(described, dict) else None
    if not isinstance(kind, str) or kind not in known:
        raise Tampered(f"unknown part in a saved plan: {reprlib.repr(described)}")
    if depth > _DEEPEST:
        raise Tampered(f"parts of a saved plan are nested more than {_DEEPEST} deep")
    given = {name: _value(value, parts, depth) for name, value in described.items() if name != "kind"}
    try:
        return known[kind](**require_fields(known[kind], given))
    except (InvalidInput, Unsupported, TypeError, ValueError, ArithmeticError) as error:
        raise Tampered(f"the file describes an impossible {kind}: {error}") from error


def _value(value: Any, parts: dict[str, type[Any]], depth: int) -> Any:
    if isinstance(value, dict):
        return _rebuild(value, parts, parts, depth + 1)
    if isinstance(value, list):
        if len(value) > _LONGEST:
            raise Tampered(f"a list of {len(value):,} in a saved plan; at most {_LONGEST:,} are read")
        return tuple(_value(item, parts, depth) for item in value)
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise Tampered(f"the number {value:,} in a saved plan; at most {_LARGEST:,} are charged")
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
    strict = wanted in (bool, str, NoneType) or (inspect.isclass(wanted) and issubclass(wanted, Described))
    return not strict or isinstance(value, wanted)
