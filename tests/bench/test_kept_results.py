"""What is kept in results/ was made by the code that ships, from the data that are here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import making
from graphveil.bench import kept, runner, spec
from graphveil.bench.kept import LINES, KeptLine
from graphveil.bench.spec import BenchTask
from graphveil.core import plain
from graphveil.evidence import court
from graphveil.evidence.sound_cases import Upheld

RESULTS = Path(__file__).parents[2] / "results"
TABLES = [name for name in spec.names() if (RESULTS / f"{name}.json").exists()]


def lines(name: str) -> list[KeptLine]:
    return LINES.validate_json((RESULTS / f"{name}.json").read_bytes())


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
        settings = [plain(point.describe()) for point in cell.points()]
        assert {"kind": settings[0]["kind"], **plain(line.params)} in settings, line.place


@pytest.mark.parametrize("name", TABLES)
def test_the_code_that_ships_attacked_every_claim_that_says_so(name: str) -> None:
    old = sorted({f"{line.method}: {line.epsilon:g}" for line in lines(name) if line.unheard})
    assert not old, f"graphveil bench audit {name} --jobs 2 --results results/{name}.json"


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


@pytest.mark.parametrize("name", making.MADE)
def test_the_code_that_ships_made_every_other_file(name: str) -> None:
    assert not making.stale(name), f"run again: {making.MADE[name].command}"


def test_of_every_kept_file_it_is_known_what_made_it() -> None:
    kept_files = {path.stem for path in RESULTS.glob("*.json")}
    assert kept_files == {*TABLES, *making.MADE}


def test_kept_courts_are_whole_and_their_seeds_apart() -> None:
    known = {case.name for case in court.cases()}
    for seed, name in enumerate(("court", "court-1", "court-2")):
        held = json.loads((RESULTS / f"{name}.json").read_bytes())
        assert (held["seed"], held["quick"], held["as_expected"]) == (seed, False, True)
        assert {ruling["name"] for ruling in held["rulings"]} == known


def test_what_a_court_notices_of_half_of_the_noise_is_of_every_sound_plan() -> None:
    held = json.loads((RESULTS / "court-power.json").read_bytes())
    assert (held["seed"], held["share"]) == (21, 0.5)
    assert {row["case"] for row in held["cases"]} == {case.name for case in court.cases() if isinstance(case, Upheld)}
