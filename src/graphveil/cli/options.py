"""Options that several commands share: single ones as types, those that belong together as groups.

A group is a frozen dataclass. A command marked `grouped` takes it as one parameter; users see its fields as options.
`Annotated[Group, {"seed"}]` is the group without the option --seed: that field keeps its default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer.core
from typer import Argument, Option

import graphveil as gv
from graphveil.errors import InvalidInput

C = TypeVar("C", bound=Callable[..., Any])


def known_methods() -> list[str]:
    """The methods of this package, from the names of their files: a shell that completes a word must not wait."""
    return [file.stem for file in Path(__file__).parents[1].glob("methods/*/[a-z]*.py")]


def completed(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Offers a shell the known words with a given beginning."""
    return lambda incomplete: sorted(name for name in known() if name.startswith(incomplete.lower()))


_METHOD, _UNIT = completed(known_methods), completed(lambda: ["edge", "node", "features", "label"])
MethodName = Annotated[
    str, Argument(metavar="METHOD", help="Name of a method; `graphveil methods` lists them.", autocompletion=_METHOD)
]
ReleaseFolder = Annotated[Path, Argument(help="Folder, as written by `train --out` or `release-graph --out`.")]
Directed = Annotated[bool, Option("--directed", help="Edges have a direction.")]
Unit = Annotated[str, Option(help="What is protected: edge, node, features or label.", autocompletion=_UNIT)]
Reading = Annotated[str, Option(help="Whose proof is charged: sound or published.")]
Threshold = Annotated[str | None, Option(metavar="CLASS=CHANCE", help="Predict a class from this chance on.")]
KeepIds = Annotated[bool, Option("--keep-ids", help="Keep the ids in the release: everybody who gets it sees them.")]
Force = Annotated[bool, Option("--force", help="Replace the release that is in the folder.")]
AsJson = Annotated[bool, Option("--json", help="Print data as JSON.")]
OwnMethods = Annotated[list[str] | None, Option("--method", metavar="PACKAGE.MODULE:CLASS", help="Import your own.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress bars.")]


class OnceCommand(typer.core.TyperCommand):
    """A command that refuses an option given twice, where typer would silently take the last value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; options with a list of values may be repeated."""
        if not ctx.resilient_parsing:  # a shell that completes words asks about unfinished lines
            _, _, order = self.make_parser(ctx).parse_args([*args])
            once = [one for one in order if one.param_type_name == "option" and not getattr(one, "multiple", False)]
            if twice := [one.opts[0] for place, one in enumerate(once) if one in once[:place]]:
                raise InvalidInput(f"{twice[0]} is given twice; give it once")
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """A family of commands that take each option once."""

    def command(
        self, name: str | None = None, *, cls: type[typer.core.TyperCommand] | None = None, **more: Any
    ) -> Callable[[C], C]:
        return super().command(name, cls=cls or OnceCommand, **more)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups in the place of each parameter that is a group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    flat: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        kind, *hidden = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
        if not is_dataclass(kind):
            flat.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        types, left_out = get_type_hints(kind, include_extras=True), set().union(*hidden)
        shown = [item for item in fields(kind) if item.name not in left_out]
        flat += [Parameter(o.name, Parameter.KEYWORD_ONLY, default=o.default, annotation=types[o.name]) for o in shown]
        groups[name] = kind, [item.name for item in shown]

    @wraps(command)
    def taking_options(**given: Any) -> None:
        made = {name: kind(**{key: given.pop(key) for key in keys}) for name, (kind, keys) in groups.items()}
        command(**given, **made)

    taking_options.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    taking_options.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return taking_options


def parse_epsilons(text: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InvalidInput(f"--epsilons takes numbers with commas, such as 0.5,1,2; got {text!r}") from None


def parse_threshold(text: str | None) -> tuple[str, float] | None:
    """A class and a probability, from fraud=0.2."""
    if text is None:
        return None
    label, _, chance = text.rpartition("=")
    with suppress(ValueError):
        if label and 0 < float(chance) <= 1:
            return label, float(chance)
    raise InvalidInput(f"--threshold takes a class and a chance above 0 and at most 1: fraud=0.2; got {text!r}")


@dataclass(frozen=True)
class Budget:
    """How much may be spent: an epsilon or a noise."""

    epsilon: Annotated[float | None, Option(help="Target epsilon; the noise is calibrated to it.")] = None
    noise: Annotated[float | None, Option(help="Noise multiplier instead of a target epsilon.")] = None
    delta: Annotated[float | None, Option(help="Delta; default: a power of ten below 1/(10 nodes).")] = None


@dataclass(frozen=True)
class SpendingOptions:
    """The source of a run's noise, and the ledger that counts it."""

    seed: Annotated[int | None, Option(help="Fixes everything, noise included: not for release.")] = None
    secure: Annotated[bool, Option("--secure", help="With --seed: keep the noise cryptographic.")] = False
    ledger: Annotated[Path | None, Option(help="Ledger file that counts this spending.")] = None

    def arguments(self, compute: gv.Compute) -> dict[str, Any]:
        """As arguments of the library, with its means; of several processes the first enters the run in the ledger."""
        book = gv.Ledger(self.ledger) if self.ledger is not None and compute.workers.first else None
        return {"seed": self.seed, "secure": self.secure or None, "ledger": book, "compute": compute}


@dataclass(frozen=True)
class Resources:
    """Where and how work runs."""

    engine: Annotated[str, Option(help="local, ray (started here), or ray=ADDRESS of a cluster.")] = "local"
    jobs: Annotated[int | None, Option(help="Worker processes; default: 1, for an audit all cores.", min=1)] = None
    device: Annotated[str | None, Option(help="cpu (default), cuda, or auto: a GPU if the method gains by it.")] = None
    block: Annotated[int | None, Option(help="Rows at a time; fewer take less memory.", min=1)] = None

    def compute(self, quiet: bool, jobs: int = 1) -> gv.Compute:
        """As an argument of the library; jobs: the number of worker processes where none is given."""
        jobs = self.jobs or jobs
        return gv.Compute(device=self.device, block=self.block, jobs=jobs, engine=self.engine, quiet=quiet)

    @property
    def in_parts(self) -> bool:
        """Whether edges in many files stay there, for the workers of a cluster to read."""
        return self.engine != "local"


Jobs = Annotated[Resources, {"device", "block"}]
