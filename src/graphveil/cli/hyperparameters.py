"""The hyper-parameters of a method, or an attacker's settings, as flags."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any

from graphveil.cli.options import OnceCommand

if TYPE_CHECKING:
    from graphveil.methods.bases.method import Method
    from graphveil.nn.own_network import OwnNetwork

HYPER = "Hyper-parameters are flags too: --hops 2 --learning-rate 0.1. `graphveil methods METHOD` lists them."


class MethodCommand(OnceCommand):
    """A command whose first argument is a method; that method's hyper-parameters are flags of the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--flag value` and `--flag=value` of the method out before the ordinary options are read."""
        if not (ctx.resilient_parsing or {"--help"} & set(args)):
            args, ctx.obj = _split_flags(args, {name for param in self.params for name in param.opts})
        return super().parse_args(ctx, args)


class UnitCommand(MethodCommand):
    """The same, but without a method it takes the flagship of the unit."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the flagship's name first where no name is given."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        from graphveil import core, datasets, discover

        unit = re.search(r"(?:^|\0)--unit[=\0]([^\0]*)", "\0".join(args))
        nameless = bool(args) and (args[0].startswith("-") or args[0] in datasets.names())
        if unit is not None and nameless and "--help" not in args:
            args = [discover.flagship(core.parse(core.Unit, unit[1], "unit")).name(), *args]
        return super().parse_args(ctx, args)


def _split_flags(args: list[str], options: set[str]) -> tuple[list[str], dict[str, str]]:
    """Arguments without the hyper-parameters of the method they name, and those hyper-parameters."""
    from graphveil import core, discover

    name = next((word for word in args if word.lower() in discover.methods()), None)
    known = {} if name is None else {f"--{f.name.replace('_', '-')}": f.name for f in fields(discover.method(name))}
    rest: list[str] = []
    given: dict[str, str] = {}
    words = iter(args)
    for word in words:
        flag, _, value = word.partition("=")
        if flag not in known or flag in options:
            if flag.startswith("--") and flag not in options and name is not None:
                raise core.InvalidInput(_unknown(flag, name, known, options))
            rest.append(word)
        elif known[flag] in given:
            raise core.InvalidInput(f"{flag} is given twice; give it once")
        else:
            given[known[flag]] = value or next(words, "")
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
    from graphveil import discover

    kind = discover.method(name)
    defaults = {item.name: item.default for item in fields(kind)}
    own = {"network": own_network(given["network"])} if ":" in given.get("network", "") else {}
    rest = {key: converted(text, type(defaults[key]), key) for key, text in given.items() if key not in own}
    made: Method = kind(**rest, **own)
    return made


def own_network(reference: str) -> OwnNetwork:
    """The module of their own that a user names, "package.module:Net"."""
    from graphveil import discover
    from graphveil.nn.own_network import OwnNetwork

    return OwnNetwork.of(discover.named(reference))  # type: ignore[arg-type]  # `of` refuses what makes no module


def converted(text: str, wanted: type, key: str) -> Any:
    from graphveil.core import InvalidInput

    try:
        if wanted is bool:
            return {"true": True, "false": False}[text.lower()]
        return wanted(text)
    except (KeyError, ValueError, TypeError):
        words = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "package.module:Net"}
        kind = words.get(wanted, wanted.__name__)
        raise InvalidInput(f"--{key.replace('_', '-')} takes {kind}, got {text!r}") from None
