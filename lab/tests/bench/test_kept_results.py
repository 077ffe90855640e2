"""What is kept in results/ was made by the code that ships, from the data that are here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from graphveil.codec import plain, rounded
from graphveil.release.audit_result import MAY_COUNT
from graphveil.vocabulary import Unit
from graphveil_lab import kept_files
from graphveil_lab.bench import audits, kept, revisions, runner, spec
from graphveil_lab.bench.kept import REFUTED
from graphveil_lab.bench.spec import BenchTask
from graphveil_lab.bench.table import Row
from graphveil_lab.court import sound_cases

RESULTS = Path(__file__).parents[2] / "results"
TABLES = [name for name in spec.names() if (RESULTS / f"{name}.json").exists()]
ROWS = TypeAdapter(list[Row])
TINY = 1e-9
HOURS = ("drw", "ndp")
"""Methods whose audits of 400 runs take hours of a core a table: fewer are made, and docs/leaderboard.md says so."""
COUNTING = "|".join(sorted({bound for bounds in MAY_COUNT.values() for bound in bounds}))


@cache
def lines(name: str) -> list[Row]:
    return ROWS.validate_python(kept_files.read(RESULTS / f"{name}.json").content)


@cache
def attacks(unit: str) -> str:
    """What audits may name as what they attacked, as a pattern."""
    return "|".join(re.escape(pair.what) for pair in sound_cases.pairs(Unit(unit)))


def wrong(line: Row, seeds: tuple[int, ...]) -> Iterator[str]:
    """The fields of a line that do not follow from its others."""
    yield from wrong_spread(line, seeds)
    if line.difference != (None if line.published is None or line.test is None else line.test - line.published):
        yield "difference"
    if bool(line.failed) != bool(line.failure):
        yield "failed"
    if line.seeds:
        yield from wrong_epsilons(line)
    if (line.audited is None) == bool(line.audit):
        yield "audited"
    if line.audited is not None:
        runs = rf"4|10|{audits.RUNS}" if line.made_by.startswith(HOURS) else audits.RUNS
        how = rf"({COUNTING}), ({runs}) runs, {audits.CONFIDENCE:.0%} confidence"
        said = rf"({REFUTED}: )?({attacks(line.unit)}) \({how}\)"
        if not re.fullmatch(said, line.audit) or line.audit.startswith(REFUTED) != (line.audited > line.epsilon):
            yield "audit"


def wrong_spread(line: Row, seeds: tuple[int, ...]) -> Iterator[str]:
    """Of n scores with deviation s the best is above the mean by s / sqrt(n (n - 1)) to (n - 1) s / sqrt(n)."""
    known = [value is not None for value in (line.validation, line.test, line.best, line.best_seed)]
    if not all(known) if line.seeds else any(known):
        yield "seeds"
    if line.best_seed not in (seeds if line.seeds else (None,)):
        yield "best_seed"
    if (line.std is None, line.stderr is None, line.interval is None) != (line.seeds < 2,) * 3:
        yield "std"
    if line.std is not None and line.stderr is not None and line.interval is not None:
        root, over = math.sqrt(line.seeds), (line.best or 0.0) - (line.test or 0.0)
        if not math.isclose(line.stderr, line.std / root):
            yield "stderr"
        if not math.isclose(line.interval, kept.half_width(line.std, line.seeds) or 0.0):
            yield "interval"
        least = line.std / root / math.sqrt(line.seeds - 1)
        if not least - TINY <= over <= line.std * (line.seeds - 1) / root + TINY:
            yield "best"
    elif line.best != line.test:
        yield "best"


def wrong_epsilons(line: Row) -> Iterator[str]:
    """What is charged is no more than what was asked for, and for a sound reading it is what is provable."""
    charged, provable = line.certificate_epsilon, line.sound_epsilon
    if charged is None or provable is None or charged > line.epsilon:
        yield "certificate_epsilon"
    elif line.reading == "sound" and provable != charged:
        yield "sound_epsilon"
    elif line.soundness != ("proven" if provable <= charged else f"not proven; provable: {rounded(provable)}"):
        yield "soundness"


@pytest.mark.parametrize("name", TABLES)
def test_what_lines_say_follows_from_their_other_fields(name: str) -> None:
    seeds = spec.load(name).seeds
    assert not {line.place: fields for line in lines(name) if (fields := list(wrong(line, seeds)))}


@pytest.mark.parametrize(
    "edited",
    [
        {"test": 0.9},
        {"std": 0.001},
        {"stderr": 0.001},
        {"interval": 0.001},
        {"best": 0.5},
        {"best_seed": 17},
        {"seeds": 4},
        {"sound_epsilon": 0.5},
        {"certificate_epsilon": 1.01},
        {"certificate_epsilon": 0.5, "sound_epsilon": 0.75},
        {"soundness": ""},
        {"published": 0.9},
        {"audited": 1.5},
        {"audited": None},
        {"audit": ""},
        {"audit": "nothing (rank_test, 400 runs, 99% confidence)"},
        {"audit": "the only edge of two nodes (rank_test, 400 runs, 99.9% confidence)"},
        {"failed": 1},
    ],
    ids=str,
)
def test_a_line_that_was_edited_by_hand_is_noticed(edited: dict[str, Any]) -> None:
    line = next(each for each in lines("edge") if each.audited is not None and each.std and each.epsilon == 1)
    assert not list(wrong(line, (0, 1, 2, 3, 4)))
    assert list(wrong(line.model_copy(update=edited), (0, 1, 2, 3, 4)))


@pytest.mark.parametrize("name", TABLES)
def test_the_code_that_ships_made_every_line(name: str) -> None:
    old = sorted({f"{line.method}: {line.made_by or 'unknown'}" for line in lines(name) if line.stale})
    assert not old, f"stale lines; graphveil bench run {name} --results results/{name}.json"
    assert [line.test for line in lines(name)] == [line.test for line in kept.load(RESULTS / f"{name}.json")]


def test_every_line_is_of_the_data_that_are_here() -> None:
    """By all graphs that its runs read, as they are split; those of one table are tested on the same others."""
    told: dict[tuple[str, ...], set[str]] = {}
    tasks: dict[tuple[str, ...], BenchTask] = {}
    for name in TABLES:
        made = spec.load(name)
        for line in lines(name):
            told.setdefault((line.split, line.dataset.partition(" -> ")[0], *made.test_on), set()).add(line.data)
        for cell in made.cells():
            if (graphs := (made.split_of(cell), cell.dataset, *made.test_on)) not in tasks:
                tasks[graphs] = made.task(cell, cell.points()[0], made.seeds[0])
    assert not [graphs for graphs, data in told.items() if len(data) > 1], "the same graphs, two contents"
    for graphs, [data] in told.items():
        assert data
        assert runner.fingerprint(tasks[graphs]) in ("", data), graphs


@pytest.mark.parametrize("name", TABLES)
def test_every_line_is_still_asked_for(name: str) -> None:
    """By an experiment that has other settings now the same line would be another one."""
    made = spec.load(name)
    cells, figures = {cell.place: cell for cell in made.cells()}, {figure.place: figure for figure in made.published}
    for line in lines(name):
        assert line.place in cells, line.place
        cell, figure = cells[line.place], figures.get(line.place)
        asked = made.split_of(cell), cell.unit.value, made.delta_on(cell.dataset), made.metric
        assert (line.split, line.unit, line.delta, line.metric) == asked, line.place
        printed = (None, "") if figure is None else (figure.score, figure.source)
        assert (line.published, line.source) == printed, line.place
        points = cell.points()
        settings = [plain(point.describe()) for point in points]
        assert {"kind": settings[0]["kind"], **plain(line.params)} in settings, line.place
        assert line.made_by == revisions.made_by(points[0].name(), line.params), line.place
        searched = {key: list(values) if cell.charged else line.params[key] for key, values in cell.entry.grid.items()}
        assert plain(line.tuned) == plain(searched), line.place
        assert (line.selection == "fixed") == (len(points) == 1 and not cell.charged), line.place
        assert (line.selection == "charged") == cell.charged, line.place


def test_flagships_are_attacked_everywhere() -> None:
    flagships = {"hearsay", "hearsay sums", "whisper", "probe (features)", "probe (label)", "dpsgd", "census"}
    bare = [line.place for line in lines("leaderboard") if line.method in flagships and line.audited is None]
    assert not bare


@pytest.mark.parametrize("name", TABLES)
def test_every_line_has_the_seeds_of_its_experiment(name: str) -> None:
    """A mean over fewer seeds stands beside the others as if it were as good."""
    asked = len(spec.load(name).seeds)
    wrong = [line.place for line in lines(name) if line.seeds != asked]
    assert not wrong, f"run them with {asked} seeds"
