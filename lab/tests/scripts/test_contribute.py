"""Adding a method is one file and one page: all else is rewritten by one command."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import contribute

REPOSITORY = Path(__file__).parents[3]
METHOD = '''
"""A method that somebody adds."""

from dataclasses import dataclass

from graphveil.methods.edge.gap import Gap


@dataclass(frozen=True)
class Newcomer(Gap):
    """As GAP."""
'''
PAGE = """# newcomer

As [gap](gap.md).

| in short | |
|---|---|
| family | Edge level |
| unit | edge |
| what it is | noisy neighbour sums |
| needs | nothing |
| claim | Gaussian, sqrt(2) a hop |
| published proof | none, our own |

## Claim and proof

That of gap.

## Deviations

None.

## Measured

Nothing yet.
"""
CARD = contribute.card("newcomer", PAGE)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files of this checkout that the command and the checks read."""
    for name in ("src", "docs", "lab", "tests"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in REPOSITORY.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, tmp_path / path.name)
    return tmp_path


def digests(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def ran(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A Python process that finds the copy's package first."""
    found = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root / "lab" / "src"))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run([sys.executable, *words], cwd=root, env=found, capture_output=True, text=True, check=False)


def test_a_method_is_one_file_and_one_page(copy: Path) -> None:
    before = digests(copy)
    (copy / "src/graphveil/methods/edge/newcomer.py").write_text(METHOD)
    (copy / "docs/methods/newcomer.md").write_text(PAGE)
    by_hand = digests(copy)
    assert len(by_hand.keys() - before.keys()) == 2

    done = ran(copy, "lab/benchmarks/contribute.py")
    assert done.returncode == 0, done.stdout + done.stderr
    after = digests(copy)
    assert {name for name in after if after[name] != by_hand.get(name)} == {"docs/methods/index.md", "mkdocs.yml"}

    checks = "navigation or units or links or named or has_a_page or measured_tables"
    tested = ran(copy, "-m", "pytest", "tests/test_docs.py", "-p", "no:cacheprovider", "-k", checks)
    assert tested.returncode == 0, tested.stdout
    assert digests(copy) == after


@pytest.mark.parametrize("lost", ["family", "claim"])
def test_a_page_that_does_not_say_it_in_short_is_told_how(lost: str) -> None:
    page = "\n".join(line for line in PAGE.splitlines() if not line.startswith(f"| {lost} |")) + "\n"
    with pytest.raises(SystemExit, match=rf"docs/methods/newcomer.md needs this table[^§]*\| {lost} \|"):
        contribute.card("newcomer", page)


def test_an_unknown_family_is_answered_with_the_known_ones() -> None:
    index = "<!-- methods: Edge level -->\n<!-- /methods -->\n"
    with pytest.raises(SystemExit, match="no family 'Edgy'; there are: Edge level"):
        contribute.families(index, {"newcomer": {**CARD, "family": "Edgy"}})


def test_a_method_without_a_page_is_told_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"write docs/methods/\w+.md"):
        contribute.cards(tmp_path)
