"""What an experiment is: a TOML file, read strictly, that expands into independent tasks."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from graphveil.data import datasets
from graphveil.data.datasets.source import TWO_GRAPHS, SplitName
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods.baseline.best import Best
from graphveil.methods.method import METHODS, Method
from graphveil.vocabulary import Reading, Unit
from graphveil_lab.bench.own_tables import OwnTables, whole

SCHEMA = 1
"""Version of tasks and records. Raise it when old records must not be mistaken for new ones."""

QUICK_POINTS = 2
"""Grid points that a quick run tries."""

QUICK_DATASETS = 6
"""Of the experiment's datasets a quick run takes so many, the smallest."""

T = TypeVar("T")


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """A repeated entry would count twice without a word."""
    if not values or len(set(values)) != len(values):
        raise ValueError("list at least one value, and each only once")
    return values


def _listed(value: Any) -> Any:
    """One value is a list of one."""
    return value if isinstance(value, list | tuple) else [value]


def _known_dataset(name: str, info: ValidationInfo) -> str:
    known = [*datasets.names(), *((info.context or {}).get("tables") or ())]
    if name not in known:
        raise ValueError(f"unknown dataset {name!r}; known: {', '.join(sorted(known))}")
    return name


# JSON has no infinity, so it is spelled "inf" there, in TOML and in the hashed text alike.
Number = Annotated[
    float,
    Field(strict=True),
    BeforeValidator(lambda value: math.inf if value == "inf" else value),
    PlainSerializer(lambda value: "inf" if value == math.inf else value, when_used="json"),
]
Epsilon = Annotated[Number, Field(gt=0)]
Delta = Annotated[float, Field(strict=True, gt=0, lt=1)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Dataset = Annotated[str, AfterValidator(_known_dataset)]
Datasets = Annotated[tuple[Dataset, ...], AfterValidator(_distinct)]
Epsilons = Annotated[tuple[Epsilon, ...], AfterValidator(_distinct)]
Readings = Annotated[tuple[Reading, ...], AfterValidator(_distinct)]
Seeds = Annotated[tuple[Seed, ...], AfterValidator(_distinct)]
Metric = Literal["accuracy", "f1", "rare_f1", "precision", "balanced_accuracy", "auc", "average_precision"]
Selection = Literal["free", "charged"]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Shares = Annotated[tuple[Share, ...], BeforeValidator(_listed)]


class Model(BaseModel):
    """Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def digest(content: Any) -> str:
    """SHA-256 of canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Claimed(Model):
    """What is claimed of a training, on whatever graph."""

    method: str
    params: dict[str, Any]
    """Every hyper-parameter, defaults included, so that a changed default is another task."""
    unit: Unit
    reading: Reading
    epsilon: Epsilon
    delta: Delta


class BenchTask(Claimed):
    """One training run, fully described: two equal tasks give the same result."""

    dataset: str
    split: SplitName
    seed: Seed
    test_on: tuple[str, ...] = ()
    """Other graphs on which the trained model predicts, each with a budget of its own at the same epsilon and delta."""
    tables: dict[str, OwnTables] = {}
    """Those of the graphs that come from the user's own tables."""

    def key(self) -> str:
        """SHA-256 of the task's canonical JSON and the schema version.

        A field with a default came later; as long as it is not used the task keeps the name that it had before. Where
        tables lie does not matter, what is in them does.
        """
        said = self.model_dump(mode="json", exclude_defaults=True)
        for tables in said.get("tables", {}).values():
            for place in ("edges", "nodes", "categories"):
                tables.pop(place, None)
        return digest({"schema": SCHEMA, "task": said})


class Entry(Model):
    """A method with its fixed hyper-parameters, its grid, and what it overrides of the experiment."""

    name: str
    label: str = Field(default_factory=lambda data: data.get("name", ""))
    params: dict[str, Any] = {}
    grid: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    datasets: Datasets | None = None
    split: SplitName | None = None
    unit: Unit | None = None
    readings: Readings | None = None
    epsilons: Epsilons | None = None
    selection: Selection | None = None

    @field_validator("name")
    @classmethod
    def _known_method(cls, name: str) -> str:
        return str(METHODS.written(name).name())

    @model_validator(mode="after")
    def _possible(self) -> Self:
        both = self.params.keys() & self.grid.keys()
        if both:
            raise ValueError(f"{min(both)} is both fixed in params and searched in grid; keep one")
        self.points()
        return self

    def points(self) -> tuple[Method, ...]:
        """The method at every combination of the grid's values, the last key varying fastest."""
        kind = METHODS.written(self.name)
        combinations = (dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values()))
        return tuple(kind(**_typed(kind, self.params | chosen)) for chosen in combinations)


Place = tuple[str, str, str, float]
"""What tells a line of the table from the others: graphs, label, reading, epsilon."""


@dataclass(frozen=True)
class Published:
    """A figure that somebody printed for one line of the table, in the table's metric."""

    place: Place
    score: float
    source: str


class Figures(Model):
    """Published figures as a file writes them: epsilon = [1, 2], accuracy = [0.7, 0.8], read side by side.

    The list may run over `dataset` instead. What is given once holds for all; a source may be given for each.
    """

    dataset: Annotated[Datasets, BeforeValidator(_listed)]
    test_on: Dataset | None = None
    method: str
    epsilon: Annotated[Epsilons, BeforeValidator(_listed)]
    reading: Reading
    accuracy: Shares = ()
    f1: Shares = ()
    rare_f1: Shares = ()
    precision: Shares = ()
    balanced_accuracy: Shares = ()
    auc: Shares = ()
    average_precision: Shares = ()
    source: Annotated[tuple[str, ...], BeforeValidator(_listed)]

    @model_validator(mode="after")
    def _side_by_side(self) -> Self:
        """No figure without a line of its own, and no line without a figure."""
        lines = len(self.places)
        if lines > len(self.dataset) and lines > len(self.epsilon):
            raise ValueError("list several epsilons or several datasets, not both")
        for key in get_args(Metric):
            given = len(getattr(self, key))
            if given not in (0, lines):
                raise ValueError(f"{key} lists {given}, but epsilon and dataset name {lines}; list them side by side")
        if len(self.source) not in (1, lines):
            raise ValueError(f"source lists {len(self.source)} for {lines} figures; give one for all or one for each")
        return self

    @property
    def places(self) -> list[Place]:
        """The lines of the table where they stand."""
        return [
            (_graphs(dataset, self.test_on), self.method, self.reading.value, epsilon)
            for dataset in self.dataset
            for epsilon in self.epsilon
        ]

    def published(self, metric: Metric) -> list[Published]:
        """Every figure by itself."""
        places, scores = self.places, getattr(self, metric)
        if not scores:
            raise ValueError(f"published: {places[0]} needs the figure that this table shows, {metric}")
        sources = self.source if len(self.source) > 1 else self.source * len(places)
        return [Published(*figure) for figure in zip(places, scores, sources, strict=True)]


def _graphs(trained: str, tested: str | None) -> str:
    """The graph of the training, and the other one on which the model is tested, if any."""
    return trained if tested is None else f"{trained} -> {tested}"


@dataclass(frozen=True)
class Cell:
    """One line of the table: an entry on one dataset at one epsilon under one reading.

    `test_on` is the other graph where it is tested; `None` stands for the test nodes of `dataset`.
    """

    dataset: str
    test_on: str | None
    entry: Entry
    unit: Unit
    reading: Reading
    epsilon: float
    charged: bool
    """Whether searching the grid is paid for from the same epsilon."""

    def points(self) -> tuple[Method, ...]:
        """What is run: the entry's grid points, or, charged, one choice among all of them."""
        grid = self.entry.points()
        return (Best(grid),) if self.charged else grid

    @property
    def place(self) -> Place:
        """What tells this line from the others."""
        return self.graphs, self.entry.label, self.reading.value, self.epsilon

    @property
    def graphs(self) -> str:
        """Where the model is trained and tested."""
        return _graphs(self.dataset, self.test_on)


class Spec(Model):
    """An experiment: every method on every dataset at every epsilon, over the same seeds."""

    title: str
    datasets: Datasets
    split: SplitName = "random"
    splits: dict[Dataset, SplitName] = {}
    """Datasets whose split is another one than `split`."""
    tables: dict[str, OwnTables] = {}
    """Graphs of the user's own, by the names that `datasets` has for them."""
    test_on: Datasets = ()
    """Other graphs: every model predicts all their labelled nodes too, which gives them lines of their own."""
    metric: Metric = "accuracy"
    """Of the table, validation included: accuracy, f1 (macro), rare_f1 (of the graph's rarest class), precision
    (of the classes, weighted by their shares), balanced_accuracy (mean recall), auc or average_precision (means over
    the classes, each against the rest)."""
    unit: Unit
    delta: Delta | Literal["n^-1.1"]
    """A number, or n^-1.1 with the number of nodes of each dataset."""
    epsilons: Epsilons
    seeds: Seeds
    readings: Readings = (Reading.SOUND,)
    selection: Selection = "free"
    """Grids are searched for free (each point has the whole epsilon, and the table says so) or charged (`Best`)."""
    methods: tuple[Entry, ...] = Field(alias="method", min_length=1)
    figures: tuple[Figures, ...] = Field(default=(), alias="published")

    @property
    def published(self) -> list[Published]:
        """Every published figure by itself."""
        return [figure for block in self.figures for figure in block.published(self.metric)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        cells = self.cells()
        lines = Counter(cell.place for cell in cells)
        twice = [place for place, times in lines.items() if times > 1]
        if twice:
            raise ValueError(f"method: two entries share the line {min(twice)}; give them different labels")
        for cell in cells:
            if cell.unit not in METHODS.written(cell.entry.name).units:
                raise ValueError(f"method: {cell.entry.name} does not protect the unit {cell.unit.value!r}")
            self._require_labels_for_test(cell)
            if cell.charged:
                self._require_choice(cell)
        for dataset, split in sorted({(cell.dataset, self.split_of(cell)) for cell in cells}):
            if dataset in self.tables:
                self.tables[dataset].require_split(dataset, split)
            else:
                datasets.require_split(dataset, split)
        self._require_lines_for_figures(lines)
        trained = {cell.dataset for cell in cells}
        unused = self.splits.keys() - trained
        if unused:
            raise ValueError(f"splits: {min(unused)} is no dataset of this experiment")
        if self.test_on:
            self._possible_elsewhere(trained)
        return self

    def _require_lines_for_figures(self, lines: Collection[Place]) -> None:
        """A published figure has a line to stand on, alone, and is in the metric of the table."""
        for place, times in Counter(figure.place for figure in self.published).items():
            if place not in lines:
                raise ValueError(f"published: {place} is no line of this table, so nobody would see it")
            if times > 1:
                raise ValueError(f"published: {place} has two figures; keep one")

    def _require_labels_for_test(self, cell: Cell) -> None:
        """Two graphs are scored on the public one, so the method must be able to label it."""
        kind, two = METHODS.written(cell.entry.name), self.split_of(cell) in TWO_GRAPHS
        if two and kind.reads.stored:
            raise ValueError(f"method: {kind.name()} labels the private graph alone, not the public one of two_graphs")
        if not two and kind.needs_public:
            raise ValueError(f"method: {kind.name()} needs a public graph; use split = 'two_graphs'")

    def _require_choice(self, cell: Cell) -> None:
        """A charged search must be one that can be paid for."""
        try:
            cell.points()
        except Unsupported as error:
            raise ValueError(f"method: selection is charged, but {error}") from None

    def _possible_elsewhere(self, trained: set[str]) -> None:
        """Other graphs are others, they share one delta, and no training node hides parts of them."""
        if trained & set(self.test_on):
            raise ValueError("test_on: list other graphs, none that a model is trained on")
        if self.delta == "n^-1.1":
            raise ValueError("test_on: all graphs share one delta; give delta as a number")
        for entry in self.methods:
            if METHODS.written(entry.name).reads.outside_training:
                raise ValueError(f"test_on: {entry.name} predicts for nodes outside training, not for a whole graph")

    def cells(self, quick: bool = False) -> list[Cell]:
        """The lines of the table, dataset by dataset; a quick run has small datasets and each entry's first epsilon."""
        names = dict.fromkeys([*self.datasets, *(name for entry in self.methods for name in entry.datasets or ())])
        small = sorted(names, key=self.num_nodes)[: QUICK_DATASETS if quick else None]
        return [
            Cell(dataset, tested, entry, entry.unit or self.unit, reading, epsilon, self._charges(entry))
            for dataset in names
            if dataset in small
            for tested in (None, *self.test_on)
            for entry in self.methods
            if dataset in (entry.datasets or self.datasets)
            for reading in entry.readings or self.readings
            for epsilon in (entry.epsilons or self.epsilons)[: 1 if quick else None]
        ]

    def _charges(self, entry: Entry) -> bool:
        return (entry.selection or self.selection) == "charged" and math.prod(map(len, entry.grid.values())) > 1

    def only(self, wanted: Collection[str]) -> Self | None:
        """The part of this experiment on the `wanted` datasets; None if it has none of them."""
        entries = []
        for entry in self.methods:
            kept = tuple(name for name in entry.datasets or self.datasets if name in wanted)
            entries += [entry.model_copy(update={"datasets": kept})] if kept else []
        names = tuple(dict.fromkeys(name for entry in entries for name in entry.datasets or ()))
        return self.model_copy(update={"datasets": names, "methods": tuple(entries)}) if names else None

    def task(self, cell: Cell, point: Method, seed: int) -> BenchTask:
        """The run of one grid point of `cell` under one seed."""
        described = point.describe()
        described.pop("kind")
        return BenchTask(
            dataset=cell.dataset,
            split=self.split_of(cell),
            seed=seed,
            method=point.name(),
            params=described,
            unit=cell.unit,
            reading=cell.reading,
            epsilon=cell.epsilon,
            delta=self.delta_on(cell.dataset),
            test_on=self.test_on,
            tables={name: self.tables[name] for name in (cell.dataset, *self.test_on) if name in self.tables},
        )

    def split_of(self, cell: Cell) -> SplitName:
        """The entry's own split, else that of the dataset, else that of the experiment."""
        return cell.entry.split or self.splits.get(cell.dataset, self.split)

    def num_nodes(self, dataset: str) -> int:
        """How many nodes a dataset has."""
        return whole(self.tables[dataset], dataset).num_nodes if dataset in self.tables else datasets.num_nodes(dataset)

    def delta_on(self, dataset: str) -> float:
        """Delta for one dataset."""
        return self.num_nodes(dataset) ** -1.1 if self.delta == "n^-1.1" else float(self.delta)

    def tasks(self, quick: bool = False) -> list[BenchTask]:
        """Every run, each once, those on the same graph together so that it is loaded once."""
        found = [
            self.task(cell, point, seed)
            for cell in self.cells(quick)
            for point in cell.points()[: QUICK_POINTS if quick else None]
            for seed in self.seeds[: 1 if quick else None]
        ]
        once = {task.key(): task for task in found}
        return sorted(once.values(), key=lambda task: (task.dataset, task.seed))


def load(path_or_name: str | Path) -> Spec:
    """Read the TOML file at this path, or the packaged experiment of this name."""
    path = _locate(path_or_name)
    try:
        return _checked(tomllib.loads(path.read_text(encoding="utf-8")), path.parent)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from None
    except ValidationError as error:
        raise InvalidInput("\n".join(f"{path}: {line}" for line in _complaints(error))) from None


def _checked(said: dict[str, Any], folder: Path) -> Spec:
    """The experiment that a file describes; its tables lie where they lie as seen from `folder`."""
    named = said.get("tables", {})
    own = TypeAdapter(dict[str, OwnTables]).validate_python(named) if named else {}
    for name in own.keys() & set(datasets.names()):
        raise InvalidInput(f"tables: there is a dataset {name!r} already; give yours another name")
    found = {name: tables.found(folder) for name, tables in own.items()}
    return Spec.model_validate({**said, "tables": found} if own else said, context={"tables": tuple(own)})


def load_many(wanted: Sequence[str], datasets: Collection[str] | None = None) -> dict[str, Spec]:
    """Experiments by name; "all" stands for every packaged one. With `datasets`, those parts of them that use these."""
    listed = dict.fromkeys(one for given in wanted for one in (names() if given == "all" else [given]))
    specs: dict[str, Spec] = {}
    for given in listed:
        name = Path(given).stem if given.endswith(".toml") else given
        if name in specs:
            raise InvalidInput(f"two experiments are called {name!r}; run them one by one")
        specs[name] = load(given)
    if datasets is None:
        return specs
    known = {cell.dataset for spec in specs.values() for cell in spec.cells()}
    for unknown in sorted(set(datasets) - known):
        raise InvalidInput(f"no dataset {unknown!r} there; the datasets are: {', '.join(sorted(known))}")
    parts = {name: spec.only(datasets) for name, spec in specs.items()}
    return {name: part for name, part in parts.items() if part is not None}


def names() -> list[str]:
    """The experiments that come with the package, sorted."""
    return sorted(path.stem for path in _home().glob("*.toml"))


def _home() -> Path:
    return Path(str(files("graphveil_lab.bench"))) / "specs"


def _locate(path_or_name: str | Path) -> Path:
    name = str(path_or_name)
    if name.endswith(".toml"):
        return Path(name)
    if name not in names():
        close = difflib.get_close_matches(name, names())
        cure = (
            f"did you mean {', '.join(close)}?" if close else "give a .toml file, or a name from `graphveil bench list`"
        )
        raise InvalidInput(f"unknown experiment {name!r}; {cure}")
    return _home() / f"{name}.toml"


def _complaints(error: ValidationError) -> list[str]:
    """One line per problem, the key first."""
    lines, found = [], error.errors()
    around = {item["loc"][:depth] for item in found for depth in range(len(item["loc"]))}
    for item in found:
        # What is wrong inside of a list makes the list too short, and an unknown method has no label: no news.
        if item["type"] == "default_factory_not_called" or (item["type"] == "too_short" and item["loc"] in around):
            continue
        key = ".".join(str(part) for part in item["loc"])
        said = "unknown key" if item["type"] == "extra_forbidden" else item["msg"].removeprefix("Value error, ")
        lines.append(f"{key}: {said}" if key else said)
    return lines


@lru_cache
def _hints(kind: type[Method]) -> dict[str, Any]:
    return get_type_hints(kind)


def _typed(kind: type[Method], values: Mapping[str, Any]) -> dict[str, Any]:
    """Hyper-parameters in their declared types: 16 and 16.0 must be one task, and "16" an error."""
    hints, known = _hints(kind), [item.name for item in fields(kind)]
    typed = {}
    for key, value in values.items():
        if key not in known:
            raise InvalidInput(f"{kind.name()} has no hyper-parameter {key!r}; it has: {', '.join(known)}")
        plain = tuple(value) if isinstance(value, list) else value
        try:
            typed[key] = TypeAdapter(hints[key]).validate_python(plain, strict=True)
        except ValidationError as error:
            raise InvalidInput(f"{key} is {value!r}: {error.errors()[0]['msg']}") from None
    return typed
