"""Kept lines are trained again: the same scores come out, and what moved is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphveil_lab import kept_files, records
from graphveil_lab.bench import runner, table
from graphveil_lab.bench.spec import load


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The table of the smallest experiment."""
    spec = load("smoke")
    rows = table.summarise(spec, runner.run(spec, out=tmp_path_factory.mktemp("records"), progress=False))
    return [row.model_dump() for row in rows]


def told(folder: Path, lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    kept_files.write(folder / "smoke.json", lines, "lines")
    capsys.readouterr()
    return records.main(["--results", str(folder), *words]), capsys.readouterr().out


def test_the_same_code_gives_the_same_scores(
    tmp_path: Path, lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = told(tmp_path, lines, capsys)
    assert code == 0, said
    assert said.count(" same ") == len(lines) == 2
    assert "+0.00" in said
    assert "0 of 2 lines moved; 0 of 2 are stale" in said


def test_what_moved_is_named_and_stale_lines_wait(
    tmp_path: Path, lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = lines
    code, said = told(tmp_path, [{**one, "best": 0.01, "interval": 0.02}, {**other, "made_by": "mlp 0"}], capsys)
    assert code == 1
    assert " moved " in said
    assert "1 of 1 lines moved; 1 of 2 are stale\n  stale: smoke: social, mlp" in said


def test_every_line_of_one_method(
    tmp_path: Path, lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = told(tmp_path, lines, capsys, "--all", "mlp")
    assert (code, said.count(" same "), said.count("dpsgd")) == (0, 1, 0)
    code, said = told(tmp_path, lines, capsys, "--count", "1")
    assert (code, said.count(" same ")) == (0, 1)


def test_lines_of_other_data_or_settings_are_told_apart(
    tmp_path: Path, lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = lines
    code, said = told(tmp_path, [{**one, "data": "0" * 64}, {**other, "params": {}}], capsys)
    assert code == 1
    assert "other data" in said
    assert "no longer has its settings" in said
