"""The hyper-parameters of a method, or an attacker's settings, as flags."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from graphveil.cli.options import OnceCommand

if TYPE_CHECKING:
    from graphveil.methods.method import Method
    from graphveil.nn.own_network import OwnNetwork

HYPER = (
    "Hyper-parameters are flags too: --hops 2 --learning-rate 0.1. `graphveil methods METHOD` lists them. A method of "
    "your own is package.module:Class, in place of METHOD or as --method; it is imported from what is installed, from "
    "PYTHONPATH or from this folder."
)


class MethodCommand(OnceCommand):
    """A command whose first argument is a method; that method's hyper-parameters are flags of the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--flag value` and `--flag=value` of the method out before the ordinary options are read."""
        if not (ctx.resilient_parsing or {"--help"} & set(args)):
            options = {name: not getattr(param, "is_flag", False) for param in self.params for name in param.opts}
            args, ctx.obj = _split_flags(self.method_first(args), options)
        return super().parse_args(ctx, args)

    def method_first(self, args: list[str]) -> list[str]:
        """The arguments with what `--method` names in the place of the method."""
        rest, given = taken(args, "--method")
        import_methods(given)
        return [*given, *rest]


class SubjectCommand(MethodCommand):
    """The same, but its first argument may be a release folder: then `--method` gives the class of its method."""

    def method_first(self, args: list[str]) -> list[str]:
        from graphveil.runtime.folders import settled

        rest, given = taken(args, "--method")
        import_methods(given)
        return rest if given and rest and settled(Path(rest[0])).is_dir() else [*given, *rest]


class UnitCommand(MethodCommand):
    """The same, but without a method it takes the flagship of the unit."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the flagship's name first where no name is given."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        from graphveil import checks, vocabulary
        from graphveil.data import datasets
        from graphveil.methods import FLAGSHIPS

        args = args if "--help" in args else self.method_first(args)
        unit = re.search(r"(?:^|\0)--unit[=\0]([^\0]*)", "\0".join(args))
        nameless = bool(args) and (args[0].startswith("-") or args[0] in datasets.names())
        if unit is not None and nameless and "--help" not in args:
            args = [FLAGSHIPS[checks.parse(vocabulary.Unit, unit[1], "unit")], *args]
        return super().parse_args(ctx, args)


def taken(args: list[str], option: str) -> tuple[list[str], list[str]]:
    """The other arguments, and what `option` was given, which is once at most."""
    from graphveil.errors import InvalidInput

    words, rest, given = iter(args), [], []
    for word in words:
        flag, _, value = word.partition("=")
        if flag != option:
            rest.append(word)
        elif found := value or next(words, ""):
            given.append(found)
        else:
            raise InvalidInput(f"{option} takes a value")
    if len(given) > 1:
        raise InvalidInput(f"{option} is given twice; give it once")
    return rest, given


def import_method(name: str) -> type[Method]:
    """The method that the user names, also by package.module:Class; modules of this folder come last."""

    from graphveil.methods.method import METHODS

    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return METHODS.find(name)


def import_methods(names: list[str] | None) -> None:
    """Import the classes of a release or of a spec, as the user names them."""
    for name in names or ():
        import_method(name)


def is_method(word: str) -> bool:
    """Whether a word is the name of a method, ours or registered, or a reference to a class."""
    from graphveil import plugins
    from graphveil.methods.method import METHODS

    if word.lower() in METHODS.modules or re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", word):
        return True
    return any(one.name == word.lower() for one in plugins.registered(METHODS.group))


def _split_flags(args: list[str], options: dict[str, bool]) -> tuple[list[str], dict[str, str]]:
    """Arguments without the hyper-parameters of the method they name, and those hyper-parameters.

    options: those of the command, and whether they take a value.
    """
    from graphveil import errors

    # What follows an option that takes a value is that value.
    words = [word for before, word in zip(["", *args], args, strict=False) if not options.get(before)]
    name = next((word for word in words if not word.startswith("-") and is_method(word)), None)
    kind = None if name is None else import_method(name)
    known = {} if kind is None else {f"--{f.name.replace('_', '-')}": f.name for f in fields(kind)}
    rest: list[str] = []
    given: dict[str, str] = {}
    left = iter(args)
    for word in left:
        flag, _, value = word.partition("=")
        if flag not in known or flag in options:
            if flag.startswith("--") and flag not in options and name is not None:
                raise errors.InvalidInput(_unknown(flag, name, known, options))
            rest.append(word)
        elif known[flag] in given:
            raise errors.InvalidInput(f"{flag} is given twice; give it once")
        else:
            given[known[flag]] = value or next(left, "")
    return rest, given


def _unknown(flag: str, name: str, known: Iterable[str], options: Iterable[str]) -> str:
    """What to say of an option that neither the command nor the method has."""
    if flag == "--class-weight":
        return (
            f"{name} has no class weights: it learns from private labels through noise alone, and counting classes "
            "would read them once more; name a class earlier with --threshold CLASS=CHANCE, which costs nothing (of "
            "two classes, a chance equal to the class's share makes both count alike)"
        )
    close = difflib.get_close_matches(flag, [*known, *options])
    cure = f"; did you mean {', '.join(close)}?" if close else ""
    return f"no option {flag}{cure or ';'} hyper-parameters of {name}: {', '.join(known)}"


def build_method(name: str, given: dict[str, str]) -> Method:
    """The method with the hyper-parameters that were given as flags."""
    kind = import_method(name)
    defaults = {item.name: item.default for item in fields(kind)}
    own = {"network": own_network(given["network"])} if ":" in given.get("network", "") else {}
    rest = {key: converted(text, type(defaults[key]), key) for key, text in given.items() if key not in own}
    made: Method = kind(**rest, **own)
    return made


def own_network(reference: str) -> OwnNetwork:
    """The module of their own that a user names, "package.module:Net"."""
    from graphveil import plugins
    from graphveil.nn.own_network import OwnNetwork

    return OwnNetwork.of(plugins.named(reference))  # type: ignore[arg-type]  # `of` refuses what makes no module


def converted(text: str, wanted: type, key: str) -> Any:
    from graphveil.errors import InvalidInput

    try:
        if wanted is bool:
            return {"true": True, "false": False}[text.lower()]
        return wanted(text)
    except (KeyError, ValueError, TypeError):
        words = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "package.module:Net"}
        kind = words.get(wanted, wanted.__name__)
        raise InvalidInput(f"--{key.replace('_', '-')} takes {kind}, got {text!r}") from None
