"""The method that a user names, and its hyper-parameters, which are flags: --hops 2 --learning-rate 0.1."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import Field, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import graphveil as gv
from graphveil.cli.options import OnceCommand
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from typer import Context

    from graphveil.methods.method import Method

FLAGSHIP = (
    "Without METHOD the flagship of the unit is taken: hearsay (noisy counts of neighbours' classes) for edge, whisper "
    "(noisy gradients over neighbours outside the training set) for node, probe (noisy class sums, then randomised "
    "response of labels) for features and label. "
)
HYPER = (
    "Hyper-parameters are flags too: --hops 2 --learning-rate 0.1. `graphveil methods METHOD` lists them. A method of "
    "your own is package.module:Class, in place of METHOD or as --method; it is imported from what is installed, from "
    "PYTHONPATH or from this folder."
)


class MethodCommand(OnceCommand):
    """A command on a method: each flag that is no option of the command is a hyper-parameter, found in `ctx.obj`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the hyper-parameters out, and put the method first that --method names, or an empty word for none."""
        if ctx.resilient_parsing or "--help" in args:
            return super().parse_args(ctx, args)
        takes_value = {name: not getattr(param, "is_flag", False) for param in self.params for name in param.opts}
        args, ctx.obj = _split(args, takes_value)
        subject, named = self.params[0], ctx.obj.pop("--method", None)
        if named is not None:
            import_method(named)
            if subject.name != "subject" or not args or not _is_folder(args[0]):
                args.insert(subject.name == "name", named)  # `attack` has the name of the attack first
        elif not subject.required and (not args or args[0].startswith("-") or args[0] in gv.datasets.names()):
            args = ["", *args]
        return super().parse_args(ctx, args)


def _split(args: list[str], options: Mapping[str, bool]) -> tuple[list[str], dict[str, str]]:
    """The arguments of the command, and every other flag with its value; options: whether each takes a value."""
    words, rest, flags = [*args], [], {}
    while words:
        flag, equals, value = (word := words.pop(0)).partition("=")
        if flag in options or not flag.startswith("--") or flag == "--":
            rest += [word, *(words.pop(0) for _ in words[:1] if options.get(word))]
            continue
        if flag in flags:
            raise InvalidInput(f"{flag} is given twice; give it once")
        flags[flag] = value if equals or not words or words[0].startswith("--") else words.pop(0)
        if flag == "--method" and not flags[flag]:
            raise InvalidInput("--method takes a value")
    return rest, flags


def is_release(subject: str) -> bool:
    """Whether a subject is a release folder, and not the name of a method, ours or registered, or a reference."""
    from graphveil import plugins
    from graphveil.methods.method import METHODS

    known = {*METHODS.modules, *(one.name for one in plugins.registered(METHODS.group))}
    if subject.lower() in known or re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", subject):
        return False
    if not _is_folder(subject):
        raise InvalidInput(f"{subject!r} is neither a release folder nor a method; `graphveil methods` lists those")
    return True


def _is_folder(word: str) -> bool:
    from graphveil.runtime.folders import settled

    return settled(Path(word)).is_dir()


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


def build_method(context: Context, name: str, unit: str = "") -> Method:
    """The method called `name`, or the flagship of the unit, with the hyper-parameters that are given as flags."""
    from graphveil import checks, vocabulary
    from graphveil.methods import FLAGSHIPS

    kind = import_method(name or FLAGSHIPS[checks.parse(vocabulary.Unit, unit, "unit")])
    known = {f"--{item.name.replace('_', '-')}": item for item in fields(kind)}
    if unknown := next((flag for flag in context.obj if flag not in known), None):
        options = [word for param in context.command.params for word in param.opts]
        raise InvalidInput(_unknown(unknown, kind.name(), [*known], options))
    method: Method = kind(**{known[flag].name: _value(flag, text, known[flag]) for flag, text in context.obj.items()})
    return method


def _unknown(flag: str, name: str, known: list[str], options: list[str]) -> str:
    """The message about an option that neither the command nor the method has."""
    if flag == "--class-weight":
        return (
            f"{name} has no class weights: it learns from private labels through noise alone, and counting classes "
            "would read them once more; name a class earlier with --threshold CLASS=CHANCE, which costs nothing (of "
            "two classes, a chance equal to the class's share makes both count alike)"
        )
    close = difflib.get_close_matches(flag, [*known, *options])
    cure = f"; did you mean {', '.join(close)}?" if close else ";"
    return f"no option {flag}{cure} hyper-parameters of {name}: {', '.join(known)}"


def _value(flag: str, text: str, field: Field[Any]) -> Any:
    """A hyper-parameter from the text of its flag; a network may be a class of the user's, package.module:Net."""
    from graphveil import plugins
    from graphveil.nn.own_network import OwnNetwork

    if field.name == "network" and ":" in text:
        return OwnNetwork.of(plugins.named(text))  # type: ignore[arg-type]  # `of` refuses what makes no module
    return converted(text, type(field.default), flag)


def converted(text: str, wanted: type, flag: str) -> Any:
    """The text of a flag as a value of the wanted type."""
    try:
        if wanted is bool:
            return {"true": True, "false": False}[text.lower()]
        return wanted(text)
    except (KeyError, ValueError, TypeError):
        words = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "package.module:Net"}
        raise InvalidInput(f"{flag} takes {words.get(wanted, wanted.__name__)}, got {text!r}") from None
