"""A package that `graphveil new method` writes runs as it stands, from every command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphveil.cli.new import rendered

COMMANDS = """
import json, sys, graphveil.cli
for words in json.loads(sys.argv[1]):
    sys.argv = ["graphveil", *words]
    print("$", *words, flush=True)
    try:
        graphveil.cli.main()
    except SystemExit as done:
        print("exit", done.code or 0, flush=True)
"""

SPEC = """
title = "Mine"
datasets = ["chain-s", "mine"]
unit = "edge"
delta = 1e-5
epsilons = [1]
seeds = [0]
[tables.mine]
edges = "edges.csv"
nodes = "nodes.csv"
[[method]]
name = "toysums"
"""


def run(*commands: str, folder: Path, path: Path | None = None) -> str:
    """What the command line says to some commands, one after the other, in a process of its own."""
    found = [*([str(path)] if path else []), *(each for each in sys.path if each and "pytest" not in each)]
    done = subprocess.run(
        [sys.executable, "-P", "-c", COMMANDS, json.dumps([command.split() for command in commands])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(found), "COLUMNS": "200"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a new method, and what is said to it and to mistakes."""
    folder = tmp_path_factory.mktemp("plugin")
    said = run(
        "new method toysums",
        "train nowhere_at_all:X social --unit edge --epsilon 1",
        "train --method graphveil.vocabulary:Unit social --unit edge --epsilon 1",
        "train --method social --unit edge",
        "train --method",
        "train --method a:B --method c:D social --unit edge --epsilon 1",
        "new method gap",
        "new method Big-Name",
        "new method class",
        "new method toysums --out .",
        folder=folder,
    )
    assert "pip install -e graphveil-toysums" in said
    return folder / "graphveil-toysums", said


@pytest.fixture(scope="module")
def package(written: tuple[Path, str]) -> Path:
    home = written[0]
    (home / "nodes.csv").write_text(
        "id,label,a,b\n" + "".join(f"n{i},{'xy'[i % 2]},{i % 2 + i % 5 / 9},{i % 7}\n" for i in range(60))
    )
    (home / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 2) % 60}\n" for i in range(60)))
    (home / "s.toml").write_text(SPEC)
    return home


@pytest.fixture(scope="module")
def installed(package: Path) -> Path:
    """What pip would write, without pip: the entry points that the template declares."""
    import tomllib

    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    told = package / "src" / "graphveil_toysums-0.1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (told / "entry_points.txt").write_text("\n".join(lines))
    return package / "src"


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_command_takes_an_installed_method(package: Path, installed: Path, jobs: int) -> None:
    model, records = f"model{jobs}", f"records{jobs}"
    said = run(
        "methods",
        "methods toysums",
        "account toysums --unit edge --epsilon 1 --delta 1e-5 --ridge 2",
        f"train toysums social --unit edge --epsilon 2 --delta 1e-5 --ridge 0.5 --out {model} -q",
        f"infer {model}",
        f"verify {model} social",
        f"card {model}",
        "audit toysums chain-s --unit edge --epsilon 1 --delta 1e-5 --runs 20 --jobs 1 -q",
        f"audit {model} social --runs 20 --jobs 1 -q",
        f"export {model} --to torch --out {model}.pt2",
        f"bench run s.toml --out {records} --jobs {jobs} -q",
        f"bench audit s.toml --out {records} --runs 20 -q",
        f"bench show s.toml --out {records}",
        "advise --unit edge --num-nodes 200 --num-features 4 --num-classes 2 --method toysums --epsilons 1 -q",
        folder=package,
        path=installed,
    )
    assert said.count("exit 0") == 14, said
    assert "[from graphveil_toysums.method:Toysums of graphveil-toysums 0.1.0]" in said
    assert "--ridge  1.0      Weight of the squared coefficients, above 0." in said
    assert "code        graphveil_toysums.method:Toysums of graphveil-toysums 0.1.0" in said
    assert "verified: hashes, card, arithmetic and plan agree" in said
    assert "mine     toysums" in said


def test_without_being_installed_it_is_named(package: Path, tmp_path: Path) -> None:
    """By package.module:Class, from PYTHONPATH or from this folder; a file alone imports nothing."""
    (tmp_path / "alone.py").write_text((package / "src/graphveil_toysums/method.py").read_text())
    for name in ("edges.csv", "nodes.csv", "s.toml"):
        (tmp_path / name).write_text((package / name).read_text())
    said = run(
        "methods alone:Toysums",
        "account alone:Toysums --unit edge --epsilon 1 --delta 1e-5 --ridge 2",
        "train --method alone:Toysums social --unit edge --epsilon 2 --delta 1e-5 --ridge 0.5 --out model -q",
        "audit --method=alone:Toysums chain-s --unit edge --epsilon 1 --delta 1e-5 --runs 20 --jobs 1 -q",
        "bench run s.toml --out records -q --method alone:Toysums",
        folder=tmp_path,
    )
    assert said.count("exit 0") == 5, said
    assert "code        alone:Toysums" in said
    # In another process, where the file is unknown until it is named.
    said = run(
        "infer model",
        "verify model",
        "bench run s.toml",
        "audit model social --runs 20",
        "infer model --method alone:Toysums",
        "verify model social --method alone:Toysums",
        "card model --method alone:Toysums",
        "audit model social --runs 20 --jobs 1 -q --method alone:Toysums",
        folder=tmp_path,
    )
    assert re.findall(r"exit (\d)", said) == [*"22220000"], said
    assert "unknown method 'Toysums' in a saved plan" in said
    assert "unknown method 'toysums'" in said


def test_mistakes_are_one_sentence(written: tuple[Path, str]) -> None:
    expected = (
        "no module 'nowhere_at_all'",
        "'graphveil.vocabulary:Unit' is no method",
        "unknown method 'social'",
        "--method takes a value",
        "--method is given twice",
        "there is a method 'gap' already",
        "small letters and digits",
        "small letters and digits",
        "is there already",
    )
    lines = [line for line in written[1].splitlines() if line.startswith("error")]
    assert len(lines) == len(expected), lines
    assert all(said in line for said, line in zip(expected, lines, strict=True))


def test_its_own_tests_pass(package: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=package,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_page_shows_the_method_of_the_template() -> None:
    page = (Path(__file__).parents[2] / "docs" / "extend.md").read_text()
    assert rendered("mymethod")["src/graphveil_mymethod/method.py"] in page
