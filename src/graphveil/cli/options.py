"""Options that several commands share, each stated once: single ones as types, those that go together as groups.

A group is a frozen dataclass. A command marked `grouped` takes it whole; users see its fields where it stands.
A field that is not `Annotated` is no option: a narrower group fixes what its command does not ask for.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_origin, get_type_hints

import typer
import typer.core

if TYPE_CHECKING:
    from graphveil.runtime.compute import Compute

C = TypeVar("C", bound=Callable[..., Any])


def known_methods() -> list[str]:
    """For a shell that completes words: read off the folder, since nobody waits for torch while typing."""
    from pathlib import Path

    return [file.stem for file in Path(__file__).parents[1].glob("methods/*/[a-z]*.py")]


def completed(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell offers for the beginning of a word."""
    return lambda incomplete: sorted(name for name in known() if name.startswith(incomplete.lower()))


def _units() -> list[str]:
    return ["edge", "node", "features", "label"]


FlagshipName = Annotated[
    str,
    typer.Argument(
        metavar="[METHOD]",
        help="Name of a method; without it, the flagship of the unit.",
        autocompletion=completed(known_methods),
    ),
]
MethodName = Annotated[
    str,
    typer.Argument(
        metavar="METHOD",
        help="Name of a method; `graphveil methods` lists them.",
        autocompletion=completed(known_methods),
    ),
]
Directed = Annotated[bool, typer.Option("--directed", help="Edges have a direction.")]
Unit = Annotated[
    str,
    typer.Option(help="Who is protected: edge, node, features or label.", autocompletion=completed(_units)),
]
Reading = Annotated[str, typer.Option(help="Whose proof is charged: sound or published.")]
Threshold = Annotated[
    str | None, typer.Option(metavar="CLASS=CHANCE", help="Name a class from this chance on: fraud=0.2.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the release that is in the folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]
OwnMethods = Annotated[
    list[str] | None,
    typer.Option(
        "--method", metavar="PACKAGE.MODULE:CLASS", help="Your own method that is named there; imported. Repeatable."
    ),
]
Epsilons = Annotated[str, typer.Option(metavar="NUMBERS", help="Several epsilons at once, with commas: 0.5,1,2.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]


class OnceCommand(typer.core.TyperCommand):
    """A command that refuses an option that is given twice, of which one would be forgotten without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual; an option that may be repeated says so."""
        # A shell that completes words asks about a line that is half typed.
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        from graphveil.errors import InvalidInput

        _, _, order = self.make_parser(ctx).parse_args([*args])
        single = [
            param for param in order if param.param_type_name == "option" and not getattr(param, "multiple", False)
        ]
        twice = [param.opts[0] for place, param in enumerate(single) if param in single[:place]]
        if twice:
            raise InvalidInput(f"{twice[0]} is given twice; give it once")
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """A family of commands, each of which takes an option once."""

    def command(
        self, name: str | None = None, *, cls: type[typer.core.TyperCommand] | None = None, **more: Any
    ) -> Callable[[C], C]:
        return super().command(name, cls=cls or OnceCommand, **more)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a group replaced by the group's options, as typer reads a signature."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options = {name: _options(group) for name, group in groups.items()}
    shown: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        shown += options.get(name, [parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])])

    @wraps(command)
    def flat(**given: Any) -> None:
        made = {name: kind(**{one.name: given.pop(one.name) for one in options[name]}) for name, kind in groups.items()}
        command(**given, **made)

    flat.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return flat


def _options(group: Any) -> list[Parameter]:
    """A parameter for every field of the group that is an option."""
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(item.name, Parameter.KEYWORD_ONLY, default=item.default, annotation=hints[item.name])
        for item in fields(group)
        if get_origin(hints[item.name]) is Annotated
    ]


def parse_epsilons(text: str) -> list[float]:
    """Numbers with commas between them."""
    from graphveil.errors import InvalidInput

    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"--epsilons takes numbers with commas between them, such as 0.5,1,2; got {text!r}"
        ) from None


@dataclass(frozen=True)
class BudgetOptions:
    """How much may be spent: an epsilon or a noise."""

    epsilon: Annotated[float | None, typer.Option(help="Target epsilon; the noise is calibrated to it.")] = None
    noise: Annotated[float | None, typer.Option(help="Noise multiplier instead of a target epsilon.")] = None
    delta: Annotated[float | None, typer.Option(help="Delta; default: a power of ten below 1/(10 nodes).")] = None


@dataclass(frozen=True)
class InferBudgetOptions(BudgetOptions):
    """What predictions may spend."""

    epsilon: Annotated[float | None, typer.Option(help="Spend this on the given graph's own edges or nodes.")] = None


@dataclass(frozen=True)
class SpendingOptions:
    """Where the noise of a run comes from, and who counts it."""

    seed: Annotated[int | None, typer.Option(help="Fixes everything, noise included: not for release.")] = None
    secure: Annotated[bool, typer.Option("--secure", help="With --seed: keep the noise cryptographic.")] = False
    ledger: Annotated[Path | None, typer.Option(help="Ledger file that counts this spending.")] = None

    def arguments(self, counted: bool = True) -> dict[str, Any]:
        """As the library takes them; of several processes one counts."""
        import graphveil as gv

        book = gv.Ledger(self.ledger) if self.ledger is not None and counted else None
        return {"seed": self.seed, "secure": self.secure or None, "ledger": book}


@dataclass(frozen=True)
class InferSpendingOptions(SpendingOptions):
    """Of predictions."""

    secure: Literal[False] = False


@dataclass(frozen=True)
class ComputeOptions:
    """Where and how work runs; without a number of jobs, on all cores."""

    engine: Annotated[str, typer.Option(help="local, ray (started here), or ray=ADDRESS of a cluster.")] = "local"
    jobs: Annotated[int | None, typer.Option(help="Worker processes; default: all cores.", min=1)] = None

    def compute(self, quiet: bool = False) -> Compute:
        """As the library takes it."""
        from graphveil.runtime.compute import Compute

        return Compute(engine=self.engine, jobs=self.jobs or os.cpu_count() or 1, quiet=quiet)

    @property
    def in_parts(self) -> bool:
        """Whether edges in many files stay there, for workers of a cluster to read."""
        return self.engine != "local"


@dataclass(frozen=True)
class OneJobOptions(ComputeOptions):
    """In this process, unless more are asked for."""

    jobs: Annotated[int, typer.Option(help="Worker processes of the local engine.", min=1)] = 1


@dataclass(frozen=True)
class DeviceOptions(OneJobOptions):
    """On this device."""

    device: Annotated[
        str, typer.Option(help="cpu; cuda; auto: a CUDA GPU where there is one and the method gains by it.")
    ] = "cpu"
    block: Annotated[int | None, typer.Option(help="Rows at a time; fewer take less memory.", min=1)] = None

    def compute(self, quiet: bool = False) -> Compute:
        return replace(super().compute(quiet), device=self.device, block=self.block)


@dataclass(frozen=True)
class GraphOptions:
    """Which graph: a dataset or one's own, from tables or packed; a public one beside it; what is stated of it."""

    dataset: Annotated[
        str | None,
        typer.Argument(metavar="[DATASET]", help="Name of a dataset, unless --edges or --packed is given."),
    ] = None
    edges: Annotated[
        Path | None,
        typer.Option(
            help="Your own graph: edge table (.csv, .parquet), source and target; 'parts/*.parquet' for many files, "
            "which with --engine ray stay where they are."
        ),
    ] = None
    nodes: Annotated[
        Path | None,
        typer.Option(help="Your own graph: node table with id, label, features, maybe split; 'parts/*.parquet' too."),
    ] = None
    packed: Annotated[Path | None, typer.Option(help="Your own graph: folder written by `graphveil data pack`.")] = None
    public_edges: Annotated[Path | None, typer.Option(help="Edge table of a public graph: not protected.")] = None
    public_nodes: Annotated[
        Path | None, typer.Option(help="Node table of the public graph; labels may be missing.")
    ] = None
    id: Annotated[str | None, typer.Option(help="Column of the node table with the ids; default: id.")] = None
    label: Annotated[str | None, typer.Option(help="Column of the node table with the labels; default: label.")] = None
    source: Annotated[str | None, typer.Option(help="Column of the edge table with the sources.")] = None
    target: Annotated[str | None, typer.Option(help="Column of the edge table with the targets.")] = None
    weight: Annotated[
        str | None, typer.Option(help="Column of the edge table with weights: 0 is no edge, others need --clean.")
    ] = None
    drop: Annotated[list[str] | None, typer.Option(help="Column of the node table that is no feature. Repeatable.")] = (
        None
    )
    encode: Annotated[
        str | None,
        typer.Option(help="auto: categories, truth values, dates and blanks become numbers; for public features."),
    ] = None
    categories: Annotated[
        Path | None,
        typer.Option(help='JSON file that declares columns: {"branch": ["Basel", "Bern"], "opened": "date?"}.'),
    ] = None
    encoding: Annotated[str, typer.Option(help="Of CSV files: utf-8, latin-1, cp1252, ...")] = "utf-8"
    directed: Directed = False
    clean: Annotated[
        bool,
        typer.Option("--clean", help="Drop self-loops and duplicates instead of refusing them."),
    ] = False
    split: Annotated[
        str | None,
        typer.Option(
            help="random (75/10/15), public, per_class or, for a private graph beside a public one, two_graphs; your "
            "own graph's split comes first. Default: random; all nodes train where --public-nodes is given."
        ),
    ] = None
    split_seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0
    split_reads_labels: Annotated[
        bool, typer.Option("--split-reads-labels", help="Your graph's own split was drawn by looking at labels.")
    ] = False
    every_id_present: Annotated[
        bool, typer.Option("--every-id-present", help="You state that no id is blank: then its degrees may be counted.")
    ] = False
    population_degrees: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|TABLE",
            help="You state how many training ids each id points to at most, whoever is present: one number for all, "
            "or a table with the columns id and degree (a packed graph's or a dataset's ids are 0, 1, ...).",
        ),
    ] = None

    def columns(self) -> dict[str, Any]:
        """Which column is what, as `Graph.from_edges` takes it."""
        return {**self.names(), "encode": self.encode, "categories": self.categories}

    def names(self) -> dict[str, Any]:
        """The part of `columns` that is said of tables whose encoding is known."""
        ends = {"source": self.source, "target": self.target, "weight": self.weight}
        return {"id": self.id, "label": self.label, "drop": tuple(self.drop or ()), "encoding": self.encoding, **ends}

    def typed(self) -> list[str]:
        """The options as they were given."""
        words = [] if self.dataset is None else [shlex.quote(self.dataset)]
        for item in fields(self):
            value, flag = getattr(self, item.name), f"--{item.name.replace('_', '-')}"
            if item.name == "dataset" or value is None or value == item.default:
                continue
            many = value if isinstance(value, list) else [value]
            words += [flag] if value is True else [f"{flag} {shlex.quote(str(each))}" for each in many]
        return words

    @property
    def reads_tables(self) -> bool:
        """Whether something is said of the columns of tables."""
        return self.encoding != "utf-8" or any(value for key, value in self.columns().items() if key != "encoding")

    @property
    def names_private(self) -> bool:
        """Whether a private graph is named, be it in part."""
        return any(each is not None for each in (self.dataset, self.edges, self.nodes, self.packed))

    @property
    def names_public(self) -> bool:
        """Whether a public graph is given, be it in part."""
        return self.public_edges is not None or self.public_nodes is not None


@dataclass(frozen=True)
class EvidenceGraphOptions(GraphOptions):
    """The graph that a model is checked or attacked on."""

    split_reads_labels: Literal[False] = False


@dataclass(frozen=True)
class InferGraphOptions(GraphOptions):
    """The graph to predict on: nothing is stated of it."""

    split: Annotated[
        str,
        typer.Option(
            help="As in training; none: your own graph, on which the model was not trained. Your graph's split comes "
            "first."
        ),
    ] = "random"
    split_reads_labels: Literal[False] = False
    every_id_present: Literal[False] = False
    population_degrees: None = None


@dataclass(frozen=True)
class PrivateGraphOptions(GraphOptions):
    """A private graph alone."""

    public_edges: None = None
    public_nodes: None = None
    split: Annotated[
        str, typer.Option(help="random (75/10/15), public or per_class; your own graph's split comes first.")
    ] = "random"


@dataclass(frozen=True)
class EdgesGraphOptions(PrivateGraphOptions):
    """The graph whose edges are released: nothing is stated of it."""

    split_reads_labels: Literal[False] = False
    every_id_present: Literal[False] = False
    population_degrees: None = None


@dataclass(frozen=True)
class PackGraphOptions(PrivateGraphOptions):
    """The graph to pack: none that is packed."""

    dataset: Annotated[
        str | None, typer.Argument(metavar="[DATASET]", help="Name of a dataset, unless --edges is given.")
    ] = None
    packed: None = None


@dataclass(frozen=True)
class LedgerGraphOptions(GraphOptions):
    """The graph that gets a budget, whatever its split."""

    public_edges: None = None
    public_nodes: None = None
    split: None = None
    split_seed: Literal[0] = 0
    split_reads_labels: Literal[False] = False
    every_id_present: Literal[False] = False
    population_degrees: None = None


@dataclass(frozen=True)
class AdviseGraphOptions(PrivateGraphOptions):
    """The graph that advice is for: what the unit protects is not read."""

    edges: Annotated[
        Path | None, typer.Option(help="Edge table, as for train; opened only under units that leave edges public.")
    ] = None
    split_reads_labels: Literal[False] = False


@dataclass(frozen=True)
class SizeOptions:
    """Sizes instead of a graph."""

    num_nodes: Annotated[int | None, typer.Option(help="Without data: the number of nodes.")] = None
    num_features: Annotated[int | None, typer.Option(help="Without data: the number of features.")] = None
    num_classes: Annotated[int | None, typer.Option(help="Without data: the number of classes.")] = None
    num_train: Annotated[int | None, typer.Option(help="Without data: training nodes; default 75 %.")] = None

    @property
    def given(self) -> bool:
        """Whether one of them is."""
        return any(value is not None for value in vars(self).values())


@dataclass(frozen=True)
class AssumedOptions:
    """What is made up of private parts."""

    homophily: Annotated[
        float, typer.Option(help="Assumed: how much edges prefer their own class. 0: as chance has it; 1: always.")
    ] = 0.5
    mean_degree: Annotated[
        float | None, typer.Option(help="Assumed: edges of a node, where they are private; default 10. Never counted.")
    ] = None
    largest_class: Annotated[
        float | None,
        typer.Option(help="Assumed: share of the largest class, where labels are private; default: equal."),
    ] = None
    spread: Annotated[
        float | None,
        typer.Option(help="Assumed: spread of private features around their class; less tells more. Default 0.66."),
    ] = None


@dataclass(frozen=True)
class CheckGraphOptions(LedgerGraphOptions):
    """The tables to look at."""

    dataset: None = None
    packed: None = None
