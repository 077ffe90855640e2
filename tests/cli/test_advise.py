"""`graphveil advise` and `account --epsilons`, as they are typed."""

from __future__ import annotations

import inspect
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import graphveil as gv
from bank import accounts, payments, written
from graphveil.cli import advise, app
from graphveil.cli.options import parse_epsilons
from graphveil.errors import GraphveilError

QUICK = "--method gap --epsilons 1 --seeds 1 --limit 60 --quiet"


def run(line: str) -> Any:
    return CliRunner().invoke(app, shlex.split(line))


def refused(line: str) -> str:
    done = run(line)
    assert done.exit_code
    assert done.exception is None or isinstance(done.exception, GraphveilError | SystemExit), done.exception
    return f"{done.output}{done.exception}"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text(written(accounts()))
    Path("edges.csv").write_text(written(payments()))


@pytest.mark.usefixtures("tables")
def test_private_edges_are_not_opened_and_the_next_command_is_told() -> None:
    typed = f"advise --edges edges.csv --nodes nodes.csv --unit edge --mean-degree 4 {QUICK} --plot advice.svg"
    first = run(f"{typed} --json")
    assert first.exit_code == 0, first.output
    Path("edges.csv").write_bytes(b"\x00 no table at all")
    second = run(typed)
    assert second.exit_code == 0, f"{second.output}{second.exception!r}"
    told = json.loads(first.stdout)
    assert [point["epsilon"] for point in told["methods"][0]["expected"]] == [1]
    for words in ("even odds become", "74 : 26", "mlp (no budget)", "gcn (not private)", "largest class", "what if"):
        assert words in second.stdout
    assert "yours were not counted: 4 a node (as stated)" in second.stdout
    if told["recommended"]:
        assert told["next"].startswith("graphveil train gap --edges edges.csv --nodes nodes.csv --unit edge --epsilon ")
        assert told["next"] in second.stdout
    assert Path("advice.svg").read_text().startswith("<svg")


def test_sizes_are_enough() -> None:
    line = "advise --unit label --num-nodes 500 --num-features 4 --num-classes 2 --method probe --epsilons 2 --seeds 1"
    done = run(f"{line} --limit 60 --quiet")
    assert done.exit_code == 0, done.output
    assert "next: graphveil train probe --edges edges.csv --nodes nodes.csv --unit label --epsilon 2" in done.stdout


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("line", "needle"),
    [
        ("--nodes nodes.csv", "Missing option '--unit'"),
        ("--unit edge", "name one dataset"),
        ("--unit edge --num-nodes 5", "give all of --num-nodes, --num-features and --num-classes"),
        ("--unit edge --num-nodes 5 --num-features 2 --num-classes 2 --nodes nodes.csv", "not both"),
        ("--unit edge --num-nodes 0 --num-features 2 --num-classes 2", "number of nodes must lie in"),
        ("--unit edge --nodes nodes.csv --edges edge.csv", "there is no file edge.csv"),
        ("--unit label --nodes nodes.csv", "name one dataset, or give your own graph"),
        ("--unit edge --nodes nodes.csv --epsilons 1,two", "numbers with commas"),
        ("--unit edge --nodes nodes.csv --epsilons 1,1", "different numbers"),
        ("--unit edge --nodes nodes.csv --plot advice.png", "must end in .svg"),
        ("--unit edge --nodes nodes.csv --method hearsy", "did you mean: hearsay"),
        ("--unit edge --nodes nodes.csv --homophily 2", "homophily must lie in 0..1"),
        ("--unit edge --nodes nodes.csv --largest-class 0.9", "labels are public here"),
        ("--unit node --nodes nodes.csv --split per_class", "labelled nodes"),
        ("--unit edge --nodes nodes.csv --label verdict", "no column 'verdict'"),
    ],
)
def test_mistakes_are_told_before_anything_is_tried(line: str, needle: str) -> None:
    assert needle in refused(f"advise {line}")


def test_account_takes_several_epsilons() -> None:
    told = json.loads(run("account gap --unit edge --epsilons 1,2 --delta 1e-5 --json").stdout)
    alone = json.loads(run("account gap --unit edge --epsilon 2 --delta 1e-5 --json").stdout)
    assert [one["noise"] > 0 for one in told] == [True, True]
    assert told[1] == alone
    assert alone["even_odds"] == "89 : 11"
    shown = run("account gap --unit edge --epsilons 1,2 --delta 1e-5").stdout
    assert "even odds become" in shown
    assert "89 : 11" in shown


def test_the_odds_of_a_false_proof_are_those_that_can_be_proven() -> None:
    told = json.loads(run("account gap --unit edge --epsilons 1 --delta 1e-5 --reading published --json").stdout)
    assert told[0]["even_odds"] == "82 : 18"


@pytest.mark.parametrize("more", ["--epsilon 1", "--noise 2"])
def test_account_takes_one_way_of_saying_the_budget(more: str) -> None:
    assert "give one of --epsilon, --epsilons and --noise" in refused(f"account gap --unit edge --epsilons 1,2 {more}")


def test_defaults_are_those_of_the_library() -> None:
    ours, theirs = (inspect.signature(one).parameters for one in (advise.advise, gv.advise))
    for name in ("delta", "homophily", "mean_degree", "largest_class", "spread", "limit", "seeds", "metric"):
        assert ours[name].default == theirs[name].default, name
    assert tuple(parse_epsilons(ours["epsilons"].default)) == theirs["epsilons"].default


def test_help_says_what_is_assumed_and_that_it_is_free() -> None:
    shown = " ".join(run("advise --help").stdout.split())
    for words in ("nothing private is read", "--homophily", "--mean-degree", "Never counted", "--plot"):
        assert words in shown
