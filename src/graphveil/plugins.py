"""Finds methods, attacks, mechanisms, curves and datasets, so that there is no registry to edit.

Ours lie in their folders. Others' are found where an installed distribution registers an entry point, where somebody
has imported them, or where a user names them (`named`). A saved file imports nothing merely because it names it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import pkgutil
import reprlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from graphveil.codec import Serializable, always_described
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.runtime.safe_json import require_plain
from graphveil.vocabulary import Adjacency, Curve, Mechanism, Plan, Reading, Relation, Step, Unit

T = TypeVar("T")
D = TypeVar("D", bound=Serializable)


def modules(package: str) -> list[ModuleType]:
    """Every module below a package, such as `graphveil.methods`, in alphabetical order."""
    home = importlib.import_module(package)
    found = sorted(item.name for item in pkgutil.walk_packages(home.__path__, f"{package}."))
    return [importlib.import_module(name) for name in found]


def classes(package: str, base: type[T]) -> dict[str, type[T]]:
    """Concrete subclasses of `base` that are defined below the package, by class name."""
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
    return {item.kind(): item for item in classes("graphveil.mechanisms", Mechanism).values()}


@lru_cache
def curves() -> dict[str, type[Curve]]:
    """Every curve by its word in files."""
    return {item.kind(): item for item in classes("graphveil.mechanisms", Curve).values()}


@lru_cache
def methods() -> dict[str, type[Any]]:
    """Every method by its lower-case name, the name the command line uses."""
    from graphveil.methods.method import Method

    return {item.name(): item for item in classes("graphveil.methods", Method).values()}


def method(name: str) -> type[Any]:
    """The method called `name` in any case: one of ours, one that is imported or registered; or a suggestion.

    name: also "package.module:Class", which a user gives (`named`).
    """
    from graphveil.methods.method import Method

    return _found(name, methods(), METHODS, Method)


def written_method(name: str) -> type[Any]:
    """As `method`, for a name in a file: no reference is followed."""
    if ":" in name:
        raise InvalidInput(
            f"{name!r}: a file imports nothing. Name the class on the command line, --method {name}, and write its "
            f"name here, {name.rpartition(':')[2].lower()!r}"
        )
    return method(name)


def flagship(unit: Unit) -> type[Any]:
    """The method that is taken where a unit is named and no method."""
    return next(kind for kind in methods().values() if unit in kind.leads)


@lru_cache
def attacks() -> dict[str, type[Any]]:
    """Every attack by the name of its file."""
    from graphveil.auditing.game import Attack

    return {item.name(): item for item in classes("graphveil.auditing.attacks", Attack).values()}


def attack(name: str) -> type[Any]:
    """The attack called `name`, as in `method`."""
    from graphveil.auditing.game import Attack

    return _found(name, attacks(), ATTACKS, Attack)


METHODS, MECHANISMS, DATASETS, ATTACKS, NETWORKS = (
    f"graphveil.{each}" for each in ("methods", "mechanisms", "datasets", "attacks", "networks")
)
"""Groups of entry points under which others register their parts."""


def named(reference: str) -> object:
    """What the USER means by "package.module:Name": the module is imported. What a file says must not come here."""
    module, _, path = reference.partition(":")
    if not all(word.isidentifier() for word in (*module.split("."), *path.split("."))):
        raise InvalidInput(f"{reference!r} names nothing to import; write package.module:Name")
    try:
        found: Any = importlib.import_module(module)
    # Whatever a stranger's module does while it is imported.
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise InvalidInput(
                f"{reference!r}: there is no module {error.name!r}; install it here, or add its folder to PYTHONPATH"
            ) from None
        raise InvalidInput(f"{reference!r} does not load: {type(error).__name__}: {error}") from error
    for word in path.split("."):
        if not hasattr(found, word):
            close = difflib.get_close_matches(word, dir(found), n=3)
            cure = f"; did you mean {', '.join(close)}?" if close else ""
            raise InvalidInput(f"{reference!r}: {module} has no {path!r}{cure}")
        found = getattr(found, word)
    return found


@dataclass(frozen=True)
class Registered:
    """A part that an installed distribution registers by an entry point. It is imported by `load`, not before."""

    name: str
    reference: str
    distribution: str
    """The name and version of what was installed."""

    def load(self) -> Any:
        """The part, or an error that names it and what is wrong with it."""
        try:
            return named(self.reference)
        except InvalidInput as error:
            raise InvalidInput(f"{self.name!r} of {self.distribution}: {error}") from error


def registered(group: str) -> list[Registered]:
    """What is registered under `group`, by name. Nothing is imported."""
    return _registered(group, tuple(sys.path))


@lru_cache
def _registered(group: str, _: tuple[str, ...]) -> list[Registered]:
    """Looked up once for a search path: it takes a hundredth of a second."""
    found = [
        # A value may end in extras, [..].
        Registered(one.name.lower(), one.value.partition("[")[0].replace(" ", ""), _distribution(one))
        for one in metadata.entry_points(group=group)
        if not _lies_here(one)
    ]
    return sorted(dict.fromkeys(found), key=lambda one: (one.name, one.distribution))


def registered_network(reference: str) -> Any | None:
    """The network that a file calls "package.module:Name", if an installed distribution registers that very name."""
    return next((one.load() for one in registered(NETWORKS) if one.reference == reference), None)


def _lies_here(entry: metadata.EntryPoint) -> bool:
    """Whether its distribution lies in the current folder: unpacked beside a file it is found, and is not installed."""
    return entry.dist is not None and Path(str(entry.dist.locate_file(""))).resolve() == Path.cwd()


def _distribution(entry: metadata.EntryPoint) -> str:
    return "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def others(group: str, ours: Mapping[str, object]) -> dict[str, Registered | InvalidInput]:
    """What is registered, by name; an error in place of what nobody can mean: a name that is taken, or taken twice."""
    found: dict[str, Registered | InvalidInput] = {}
    for one in registered(group):
        before = found.get(one.name)
        if one.name in ours:
            found[one.name] = InvalidInput(
                f"{one.name!r} of {one.distribution} has the name of one that is built in, and is not used; rename it"
            )
        elif before is None:
            found[one.name] = one
        else:
            said = before.distribution if isinstance(before, Registered) else "others"
            found[one.name] = InvalidInput(
                f"{one.name!r} is registered by {said} and by {one.distribution}; uninstall one of them"
            )
    return found


def _found(name: str, ours: Mapping[str, type[Any]], group: str, base: type[Any]) -> type[Any]:
    """A part of ours, by a user's reference, imported or registered, if it is a class of the kind that is wanted."""
    key = name.lower()
    if key in ours:
        return ours[key]
    what = group.removeprefix("graphveil.").removesuffix("s")
    if ":" in name:
        return _require_kind(named(name), ours, base, name, what)
    if imported := {item for item in _imported(base) if item.name() == key}:
        if len(imported) > 1:
            raise InvalidInput(f"two classes are called {key!r}: {', '.join(sorted(map(reference_to, imported)))}")
        return imported.pop()
    known = others(group, ours)
    one = known.get(key)
    if isinstance(one, InvalidInput):
        raise one
    if one is None:
        close = difflib.get_close_matches(key, [*ours, *known], n=3) or sorted([*ours, *known])
        raise InvalidInput(f"unknown {what} {name!r}; did you mean: {', '.join(close)}?")
    return _require_kind(one.load(), ours, base, f"{name} of {one.distribution}", what, key)


def _require_kind(
    found: object, ours: Mapping[str, type[Any]], base: type[T], said: str, what: str, key: str = ""
) -> type[T]:
    """A class of others that can be used: of the right kind, and called as it was registered and as none of ours."""
    if not inspect.isclass(found) or not issubclass(found, base) or inspect.isabstract(found):
        raise InvalidInput(f"{said!r} is no {what}: it must be a class derived from {base.__name__} that can be made")
    name: str = found.name()  # type: ignore[attr-defined]  # methods and attacks have names
    if found not in ours.values() and name in ours:
        raise InvalidInput(f"{said!r} is called {name!r} as one that is built in; give the class another name")
    if key not in ("", name):
        raise InvalidInput(f"{said!r} is registered as {key!r} and called {name!r}; register it as {name!r}")
    return found


def reference_to(kind: type[Any]) -> str:
    """A class as `named` finds it."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_ours(kind: type[Any]) -> bool:
    """Whether a class is part of this library, as it was installed."""
    home, _, _ = kind.__module__.partition(".")
    inside = home == "graphveil" and getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
    return inside or kind in methods().values()


def foreign(parts: Iterable[Serializable]) -> list[type[Serializable]]:
    """The classes of these parts, and of all that they are made of, that are not ours, each once.

    Refuses one that would pass for ours in a file: with the word of another class it would be read as that one.
    """
    waiting = list(parts)
    found: dict[type[Serializable], None] = {}
    while waiting:
        part = waiting.pop()
        waiting += [each for field in fields(part) for each in _described_in(getattr(part, field.name))]  # type: ignore[arg-type]  # all are dataclasses
        if is_ours(kind := type(part)):
            continue
        said = {kind.kind(), part.describe().get("kind")}
        if len(said) > 1 or kind.kind() in _our_words():
            raise InvalidInput(
                f"{reference_to(kind)} calls itself {min(map(str, said))!r}, as one that is built in; rename it"
            )
        found[kind] = None
    return list(found)


def foreign_words(described: Any) -> set[str]:
    """The words of a description that stand for no class of ours."""
    return _words(described) - _our_words()


def _our_words() -> set[str]:
    """The words of all methods, mechanisms and curves of ours in files, and of what methods are made of."""
    known = {each.kind() for each in methods().values()} | mechanisms().keys() | curves().keys()
    return known | {each.kind() for each in _imported(Serializable) if is_ours(each)}


def _described_in(value: object) -> list[Serializable]:
    if isinstance(value, tuple | list):
        return [each for item in value for each in _described_in(item)]
    return [value] if isinstance(value, Serializable) else []


def source_of(kind: type[Any]) -> str:
    """Where a class of others comes from: its reference, and what was installed if that registers it."""
    reference = reference_to(kind)
    known = {one.reference: one.distribution for group in (METHODS, MECHANISMS) for one in registered(group)}
    return f"{reference} of {known[reference]}" if reference in known else reference


def rebuild_curve(described: Any) -> Curve:
    """A curve from its JSON description."""
    return _rebuild(described, _readable(Curve, curves(), MECHANISMS, described), _parts(described))


def rebuild_mechanism(described: Any) -> Mechanism:
    """A mechanism from its JSON description."""
    return _rebuild(described, _readable(Mechanism, mechanisms(), MECHANISMS, described), _parts(described))


def _parts(described: Any) -> dict[str, type[Any]]:
    """What a mechanism or a curve may be made of."""
    known: dict[str, type[Any]] = {**curves(), **mechanisms()}
    return _readable(Curve, known, MECHANISMS, described) | _readable(Mechanism, known, MECHANISMS, described)


def _readable(base: type[D], ours: Mapping[str, type[D]], group: str, described: Any) -> dict[str, type[D]]:
    """Classes by the word that a FILE may use for them. Only what an installed distribution registers is imported.

    Ours come first: no other class can take their place.
    """
    unknown = _words(described) - ours.keys()
    if not unknown:
        return dict(ours)
    # A ledger must be readable for whoever opens it: what a cost is made of is registered, or ours.
    found = {item.kind(): item for item in _imported(base)} if group == METHODS else {}
    for one in registered(group):
        word = one.reference.rpartition(":")[2]
        if word in unknown - found.keys():
            made = one.load()
            if inspect.isclass(made) and issubclass(made, base) and not inspect.isabstract(made):
                found[word] = made
    return {**found, **ours}


def _words(described: Any, depth: int = 0) -> set[str]:
    """The kinds that a description names, its parts' included."""
    if depth > _DEEPEST or not isinstance(described, dict):
        return set()
    kind, inner = described.get("kind"), [one for one in described.values() if isinstance(one, dict)]
    lists = [one for value in described.values() if isinstance(value, list) for one in value[:_LONGEST]]
    found = {kind} if isinstance(kind, str) else set()
    return found.union(*(_words(one, depth + 1) for one in (*inner, *lists)))


def rebuild_plan(described: Any) -> Plan:
    """Inverse of `Plan.describe`; runs no code from the file. What no method would plan is `Tampered`."""
    try:
        require_plain(described)
        near = described["adjacency"]
        kinds = {"unit": Unit(near["unit"]), "relation": Relation(near["relation"])}
        adjacency = Adjacency(**require_fields(Adjacency, {**near, **kinds}))
        if len(described["steps"]) > _MAX_STEPS:
            raise Tampered(f"a saved plan of {len(described['steps']):,} steps; at most {_MAX_STEPS:,} are charged")
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
    if made.times > _MAX_TIMES:
        raise Tampered(f"a saved step runs {made.times:,} times; at most {_MAX_TIMES:,} are charged")
    return made


def rebuild_method(described: Any) -> Any:
    """A method from its JSON description: one of ours, or one that the caller has imported from elsewhere."""
    from graphveil.methods.method import Method, from_file
    from graphveil.nn.own_network import OwnNetwork

    described = current_method(described)
    known = _readable(Method, {item.kind(): item for item in methods().values()}, METHODS, described)
    if isinstance(described, dict) and isinstance(kind := described.get("kind"), str) and kind not in known:
        raise Tampered(
            f"unknown method {kind!r} in a saved plan; if it is your own, import the module that defines it, name it "
            "(--method package.module:Class), or install what registers it"
        )
    with from_file():
        return _rebuild(described, known, {**known, OwnNetwork.kind(): OwnNetwork})


def current_method(described: Any) -> Any:
    """A method's description as this version writes it: earlier ones had other names for some."""
    if isinstance(described, dict):
        for kind in methods().values():
            described = kind.upgraded(described)
    return described


def _imported(base: type[T]) -> list[type[T]]:
    """Concrete subclasses of `base`, wherever they are defined, that somebody has imported."""
    return [item for kind in base.__subclasses__() for item in (kind, *_imported(kind)) if not inspect.isabstract(item)]


_MAX_STEPS = 1000
_MAX_TIMES = 10**6
"""Steps of a plan, and uses of a step, at most, when it comes from a file: charging more could take for ever."""

_DEEPEST = 3
"""Parts inside one another at most: a published accountant of a sampled mechanism. Deeper ones could not be charged."""

_LONGEST = 4096
"""Entries of a tuple at most."""

_LARGEST = 10**12
"""Whole numbers at most: no population is larger."""


def _rebuild(described: Any, known: dict[str, type[D]], parts: dict[str, type[Any]], depth: int = 1) -> D:
    """Inverse of `Serializable.describe`: only classes of ours, only their own fields, plain values or `parts`."""
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
    strict = wanted in (bool, str, NoneType) or (inspect.isclass(wanted) and issubclass(wanted, Serializable))
    return not strict or isinstance(value, wanted)
