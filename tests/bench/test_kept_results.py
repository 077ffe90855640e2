"""What is kept in results/ was made by the code that ships, from the data that are here."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphveil.bench import kept, runner, spec
from graphveil.bench.kept import LINES, KeptLine

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
    told = {(line.dataset.partition(" -> ")[0], line.data) for name in TABLES for line in lines(name)}
    assert all(data for _, data in told)
    names = [dataset for dataset, _ in told]
    assert len(names) == len(set(names)), "one dataset, two contents"
    for dataset, data in sorted(told):
        assert runner.fingerprint_of(dataset) in ("", data), dataset


@pytest.mark.parametrize("name", TABLES)
def test_every_line_is_still_asked_for(name: str) -> None:
    """A line whose place the experiment no longer has would never be made again."""
    places = {cell.place for cell in spec.load(name).cells()}
    assert {line.place for line in lines(name)} <= places
