"""The map of the papers' tables names every experiment, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphveil.vocabulary import Reading
from graphveil_lab.bench import spec

REPOSITORY = Path(__file__).parents[3]
MAP = (REPOSITORY / "docs" / "tables.md").read_text(encoding="utf-8")
OURS = {"choices", "smoke", "leaderboard", "floor", "selection"}
"""Experiments that stand for no table or figure of a paper."""


def test_every_experiment_is_on_the_map() -> None:
    named = set(re.findall(r"bench run ([a-z0-9-]+)", MAP))
    assert named - set(spec.names()) == set()
    assert set(spec.names()) - OURS - named == set()


def test_every_result_and_script_on_the_map_is_there() -> None:
    results = {REPOSITORY / "lab" / "results" / name for name in re.findall(r"`([a-z0-9-]+\.json)`", MAP)}
    scripts = {REPOSITORY / "lab" / "benchmarks" / name for name in re.findall(r"`([a-z_]+\.py)", MAP)}
    assert [path.name for path in sorted(results | scripts) if not path.exists()] == []


@pytest.mark.parametrize("name", sorted(set(spec.names()) - OURS))
def test_published_figures_say_where_they_are_printed(name: str) -> None:
    figures = spec.load(name).published
    assert all(re.search(r"Table \d+|section \d|expected results", figure.source) for figure in figures)
    assert len({figure.place for figure in figures}) == len(figures)


def test_what_has_no_sound_claim_is_compared_as_published() -> None:
    """CARIBOU at node level: every line of the method is the paper's reading, beside a floor with a proof."""
    made = spec.load("caribou-table10")
    readings = {cell.entry.name: cell.reading for cell in made.cells()}
    assert readings == {"caribou": Reading.PUBLISHED, "dpsgd": Reading.SOUND}
