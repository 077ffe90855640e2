"""Finds parts of a kind, so that there is no registry to edit.

Ours lie in their folders. Others' are found where an installed distribution registers an entry point, where somebody
has imported them, or where a user names them (`named`). A saved file imports nothing merely because it names it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar, cast

from graphveil.errors import InvalidInput


class Named(Protocol):
    """A class that has a name on the command line."""

    @classmethod
    def name(cls) -> str:
        """The name, in small letters."""
        ...


T = TypeVar("T")
N = TypeVar("N", bound=Named)


def modules(package: str) -> list[ModuleType]:
    """Every module below a package, such as `graphveil.mechanisms`, in alphabetical order."""
    home = importlib.import_module(package)
    found = sorted(item.name for item in pkgutil.walk_packages(home.__path__, f"{package}."))
    return [importlib.import_module(name) for name in found]


def classes(package: str, base: type[T]) -> dict[str, type[T]]:
    """Concrete subclasses of `base` that are defined below the package, by class name."""
    return {name: item for module in modules(package) for name, item in _defined(module, base).items()}


def _defined(module: ModuleType, base: type[T]) -> dict[str, type[T]]:
    """Concrete subclasses of `base` that a module defines, by class name."""
    own = {name: item for name, item in vars(module).items() if getattr(item, "__module__", "") == module.__name__}
    return {name: item for name, item in own.items() if _is_concrete(item, base)}


def _is_concrete(item: object, base: type[T]) -> bool:
    return inspect.isclass(item) and issubclass(item, base) and not inspect.isabstract(item)


def imported(base: type[T]) -> list[type[T]]:
    """Concrete subclasses of `base`, wherever they are defined, that somebody has imported."""
    return [item for kind in base.__subclasses__() for item in (kind, *imported(kind)) if not inspect.isabstract(item)]


@dataclass(frozen=True)
class Parts(Generic[N]):
    """The parts of one kind. Each of ours is the class of that name in a file of its own: pate.py defines `Pate`."""

    base: type[N]
    package: str
    files: str
    """Which files below the package hold one part each, as a pattern."""
    group: str
    """The entry points under which others register theirs."""

    @cached_property
    def modules(self) -> dict[str, str]:
        """The module of every part of ours by the part's name. Nothing is imported."""
        home = Path(importlib.import_module(self.package).__path__[0])
        found = sorted(file.relative_to(home).with_suffix("").parts for file in home.glob(self.files))
        return {words[-1]: ".".join([self.package, *words]) for words in found}

    def ours(self) -> dict[str, type[N]]:
        """Every part of ours by name."""
        return {name: self._own(name) for name in self.modules}

    def by_class(self, word: str) -> type[N] | None:
        """The part of ours whose class has this name, if there is one: no other file is imported."""
        name = next((name for name in self.modules if name.replace("_", "") == word.lower()), None)
        found = None if name is None else self._own(name)
        return found if found is not None and found.__name__ == word else None

    def find(self, name: str) -> type[N]:
        """The part called `name` in any case: one of ours, one that is imported or registered; or a suggestion.

        name: also "package.module:Class", which a user gives (`named`).
        """
        key = name.lower()
        if key in self.modules:
            return self._own(key)
        if ":" in name:
            return self._require_kind(named(name), name)
        if found := {item for item in imported(self.base) if item.name() == key}:
            if len(found) > 1:
                raise InvalidInput(f"two classes are called {key!r}: {', '.join(sorted(map(reference_to, found)))}")
            return found.pop()
        known = self.others()
        one = known.get(key)
        if isinstance(one, InvalidInput):
            raise one
        if one is None:
            close = difflib.get_close_matches(key, [*self.modules, *known], n=3) or sorted([*self.modules, *known])
            raise InvalidInput(f"unknown {self._what} {name!r}; did you mean: {', '.join(close)}?")
        return self._require_kind(one.load(), f"{name} of {one.distribution}", key)

    def written(self, name: str) -> type[N]:
        """As `find`, for a name in a file: no reference is followed."""
        if ":" in name:
            raise InvalidInput(
                f"{name!r}: a file imports nothing. Name the class on the command line, --{self._what} {name}, and "
                f"write its name here, {name.rpartition(':')[2].lower()!r}"
            )
        return self.find(name)

    def others(self) -> dict[str, Registered | InvalidInput]:
        """What is registered for this kind; see `others`."""
        return others(self.group, self.modules)

    @property
    def _what(self) -> str:
        return self.group.rpartition(".")[2].removesuffix("s")

    def _own(self, name: str) -> type[N]:
        (found,) = _defined(importlib.import_module(self.modules[name]), self.base).values()
        return found

    def _require_kind(self, found: object, said: str, key: str = "") -> type[N]:
        """A class of others that can be used: of this kind, called as it was registered, and as none of ours."""
        if not inspect.isclass(found) or not _is_concrete(found, self.base):
            raise InvalidInput(
                f"{said!r} is no {self._what}: it must be a class derived from {self.base.__name__} that can be made"
            )
        kind = cast(type[N], found)
        name = kind.name()
        if name in self.modules and kind is not self._own(name):
            raise InvalidInput(f"{said!r} is called {name!r} as one that is built in; give the class another name")
        if key not in ("", name):
            raise InvalidInput(f"{said!r} is registered as {key!r} and called {name!r}; register it as {name!r}")
        return kind


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


def _lies_here(entry: metadata.EntryPoint) -> bool:
    """Whether its distribution lies in the current folder: unpacked beside a file it is found, and is not installed."""
    return entry.dist is not None and Path(str(entry.dist.locate_file(""))).resolve() == Path.cwd()


def _distribution(entry: metadata.EntryPoint) -> str:
    return "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def others(group: str, ours: Iterable[str]) -> dict[str, Registered | InvalidInput]:
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


def reference_to(kind: type[Any]) -> str:
    """A class as `named` finds it."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_ours(kind: type[Any]) -> bool:
    """Whether a class is part of this library, as it was installed."""
    home, _, _ = kind.__module__.partition(".")
    return home == "graphveil" and getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind


def registered_classes(group: str, base: type[T], words: Iterable[str]) -> dict[str, type[T]]:
    """Those classes called one of `words` that installed distributions register under `group`."""
    found: dict[str, type[T]] = {}
    for one in registered(group):
        word = one.reference.rpartition(":")[2]
        if word in words and word not in found and _is_concrete(made := one.load(), base):
            found[word] = made
    return found
