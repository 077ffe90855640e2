"""The README is a promise: its examples run, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphveil.cli import app

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    assert len(blocks("python")) >= 2
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)


def test_console_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line.removeprefix("$ graphveil ") for block in blocks("console") for line in block.splitlines()]
    assert len(lines) >= 6
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line))
        assert result.exit_code == 0, f"{line}: {result.output}{result.exception!r}"


def test_links_lead_somewhere() -> None:
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+?)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_the_gate_runs_the_command_that_it_names() -> None:
    assert "\nmake test " in README
    assert (REPOSITORY / ".ci" / "run").read_text().splitlines()[-1] == "make test"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_targets_that_are_named_exist(page: str) -> None:
    named = set(re.findall(r"(?:^|`| {4})make ([a-z-]+)", (REPOSITORY / page).read_text(), flags=re.MULTILINE))
    known = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE))
    waiting = {"quick"}  # named before it is there
    assert {"demo", "test"} <= named <= known | waiting
