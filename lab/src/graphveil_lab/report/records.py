"""What a report is made of: files are read, recognised by what they hold, and checked before a page is begun."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphveil.errors import InvalidInput
from graphveil_lab import kept_files
from graphveil_lab.bench import kept
from graphveil_lab.bench.kept import KeptLine, half_width
from graphveil_lab.court.court import Court
from graphveil_lab.report.parts import grouped

FLOORS = ("features alone", "confidence threshold", "model of others")
"""Attackers that need no private model: what their AUC reaches, the model did not give away."""


@dataclass(frozen=True)
class Attacked:
    """One attack on the models of one method at one epsilon. Rates are fractions; `None` is unknown."""

    part: str
    dataset: str
    method: str
    epsilon: float | None
    sound_epsilon: float | None
    attack: str
    seeds: int
    auc: float
    half_width: float | None
    tpr: float | None
    """At a false-positive rate of 1 %."""
    accuracy: float | None

    def __post_init__(self) -> None:
        for rate in (self.auc, self.tpr, self.accuracy):
            if rate is not None and not 0 <= rate <= 1:
                raise ValueError(f"a rate of {self.attack} is no fraction between 0 and 1: {rate}")

    @property
    def floor(self) -> bool:
        """Whether this attacker had no use of the private model."""
        return self.attack.endswith(FLOORS)


@dataclass
class Records:
    """All that was read, by the title of its file, in the order given."""

    tables: dict[str, list[KeptLine]] = field(default_factory=dict)
    attacks: dict[str, list[Attacked]] = field(default_factory=dict)
    courts: dict[str, Court] = field(default_factory=dict)
    plain: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """Measurements of another shape: cells by the names of columns."""

    def titles(self) -> list[str]:
        """Of everything held."""
        return [*self.tables, *self.attacks, *self.courts, *self.plain]


def read(paths: Sequence[Path], spec: str | None = None) -> Records:
    """Read files, folders of files and, with `spec`, folders of records of `bench run`."""
    found, seen = Records(), set[Path]()
    if spec is not None and not any(path.is_dir() for path in paths):
        raise InvalidInput("--spec tells how to read a folder of records; name that folder, .bench for instance")
    for path in paths:
        if spec is not None and path.is_dir():
            _require_new(path, seen)
            _add_runs(found, path, spec)
            continue
        for file in _files(path):
            _require_new(file, seen)
            _add(found, _title(found, file), file)
    if not found.titles():
        raise InvalidInput("name at least one file or folder of results")
    return found


def _require_new(path: Path, seen: set[Path]) -> None:
    """What is named twice would be shown twice, under two titles."""
    if path.resolve() in seen:
        raise InvalidInput(f"{path} is named twice")
    seen.add(path.resolve())


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.json"))
    if not files:
        raise InvalidInput(f"{path} holds no .json file; records of `bench run` need --spec NAME")
    return files


def _title(found: Records, file: Path) -> str:
    """The file's name, or all of its path where another file is called the same."""
    return file.stem if file.stem not in found.titles() else str(file)


def _add_runs(found: Records, folder: Path, name: str) -> None:
    """The table of an experiment, from the records of its runs."""
    from graphveil_lab.bench import table

    spec, rows = table.recorded(name, folder)
    title = spec.title if spec.title not in found.titles() else f"{spec.title}, {folder}"
    found.tables[title] = list(rows)


def _add(found: Records, title: str, file: Path) -> None:
    """Recognise a file by what it holds: kept ones by their kind, anything else is a list of named values."""
    held = kept_files.read_json(file)
    if isinstance(held, dict) and {"task", "schema_version"} <= held.keys():
        raise InvalidInput(f"{file} is one record of `bench run`; give its folder, and --spec NAME")
    if isinstance(held, dict) and ({"method", "certificate"} <= held.keys() or "sha256" in held):
        raise InvalidInput(
            f"{file} is part of a release, and a report is of results; `graphveil card` tells of a release"
        )
    recognised = kept_files.recognised(held)
    content = held if recognised is None else recognised.content
    if recognised is not None and recognised.kind == "lines":
        found.tables[title] = kept.lines_of(file, content)
        return
    try:
        if recognised is None:
            found.plain[title] = _plain(content)
        elif isinstance(content, dict) and "rulings" in content:
            found.courts[title] = Court.rebuild(content)
        elif _each_has(content, "attacks"):
            found.attacks[title] = _attacked(content)
        else:
            found.plain[title] = _plain(content)
    except KeyError as error:
        raise InvalidInput(f"{file} is damaged: an entry lacks {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{file} is damaged or of an unknown kind: {error}") from None


def _each_has(held: Any, *keys: str) -> bool:
    """Whether this is a list whose entries have these keys; if only some do, the file is damaged."""
    if not isinstance(held, list) or not held:
        return False
    have = [isinstance(item, dict) and set(keys) <= item.keys() for item in held]
    if any(have) and not all(have):
        raise ValueError(f"entry {have.index(False)} lacks {' or '.join(keys)}, others have it")
    return all(have)


def _attacked(entries: Sequence[Mapping[str, Any]]) -> list[Attacked]:
    """Means over entries that differ in their seed only."""
    runs = [(entry, name) for entry in entries for name in entry["attacks"]]
    groups = grouped(
        runs, lambda run: (*(run[0][key] for key in ("part", "dataset", "epsilon")), _subject(run[0]), run[1])
    )
    return [_mean_over_seeds([entry for entry, _ in mine], mine[0][1]) for mine in groups.values()]


def _subject(entry: Mapping[str, Any]) -> str:
    """What was attacked: a row of a table of attacks on nodes, or a method."""
    return str(entry["row"] if "row" in entry else entry["method"])


def _mean_over_seeds(entries: Sequence[Mapping[str, Any]], attack: str) -> Attacked:
    first = entries[0]
    scores = [entry["attacks"][attack] for entry in entries]
    aucs = [float(score["auc"]) for score in scores]
    # Where no epsilon was asked for, the entry says what was charged.
    asked = _number(first["epsilon"])
    return Attacked(
        part=str(first["part"]),
        dataset=str(first["dataset"]),
        method=_subject(first),
        epsilon=asked if asked is not None else _largest(entry.get("charged") for entry in entries),
        sound_epsilon=_largest(entry.get("sound", entry.get("sound epsilon")) for entry in entries),
        attack=str(attack),
        seeds=len(entries),
        auc=statistics.fmean(aucs),
        half_width=half_width(statistics.stdev(aucs) if len(aucs) > 1 else None, len(aucs)),
        tpr=_mean(score.get("tpr_1%", score.get("tpr at 1 %")) for score in scores),
        accuracy=_mean(entry.get("accuracy") for entry in entries),
    )


def _mean(values: Iterable[Any]) -> float | None:
    """The mean of values that are all known."""
    known = [_number(value) for value in values]
    return None if None in known else statistics.fmean(value for value in known if value is not None)


def _largest(values: Iterable[Any]) -> float | None:
    """The largest of the values that are known."""
    return max((value for value in map(_number, values) if value is not None), default=None)


def _number(value: Any) -> float | None:
    """A number that may be written as text; `None` for what is unknown."""
    number = math.nan if value is None else float(value)
    return None if math.isnan(number) else number


def _plain(held: Any) -> list[dict[str, str]]:
    """Entries of any other shape, one row each; what they nest becomes columns."""
    entries = held
    if isinstance(held, dict):
        lists = [value for value in held.values() if _nests(value)]
        entries = lists[0] if len(lists) == 1 else [held]
    if not isinstance(entries, list) or not entries or not all(isinstance(item, dict) and item for item in entries):
        raise ValueError("a file must hold a list of entries with names, or a table of graphveil")
    flat = [_flat(item) for item in entries]
    blank = dict.fromkeys((key for item in flat for key in item), "")
    return [blank | item for item in flat]


def _nests(value: Any) -> bool:
    """Whether it is a list of entries, which no cell can show."""
    return isinstance(value, list) and any(isinstance(each, dict | list) for each in value)


def _flat(item: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    cells: dict[str, str] = {}
    for key, value in item.items():
        if isinstance(value, dict):
            cells |= _flat(value, f"{prefix}{key} ")
        elif not _nests(value):
            cells[f"{prefix}{key}"] = f"{value:.5g}" if isinstance(value, float) else str(value)
    return cells
