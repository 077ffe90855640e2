"""A check lists every problem at once, says what is ignored and what would help, and spends nothing."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import graphveil as gv
from bank import accounts, payments, written
from graphveil.cli import app
from graphveil.errors import InvalidInput


def messy() -> tuple[dict[str, Any], dict[str, Any]]:
    """Payments with a loop, a repeat, a stranger and amounts; accounts with a branch, a remark and a blank."""
    pays, table = payments(), accounts()
    pays = {side: np.append(ends, ["acc0-3", "acc0-0", "acc0-9"]) for side, ends in pays.items()}
    pays["target"][-3:] = ["acc0-3", "acc0-1", "nobody"]
    pays["amount"] = np.arange(len(pays["source"]))
    rng = np.random.default_rng(0)
    table["branch"] = rng.choice(["Basel", "Bern"], 60)
    table["remark"] = np.array([f"remark {k % 59}" for k in range(60)])
    table["income"] = np.array(["", *map(str, range(59))])
    return pays, table


def test_every_problem_is_listed_at_once() -> None:
    found = gv.check(*messy())
    assert not found.ready
    said = "\n".join(found.problems)
    for words in (
        "feature 'branch' is Bern, not a number",
        "feature 'remark' is remark 0, not a number",
        "feature 'income' is empty, not a number",
        "1 rows have a target that is not in the node table, first in row",
        "1 self-loops and 1 repeated edges of",
    ):
        assert words in said
    assert len(found.problems) == 5
    assert found.options == ["--encode auto", "--drop remark", "--clean"]
    remarks = "\n".join(found.remarks)
    assert "classes: fraud" in remarks
    assert "without a label: 12" in remarks
    assert "columns of the edge table that are not read: 'amount'" in remarks


def test_unequal_classes_are_told_of() -> None:
    told = "one class has 95 % of the labels"
    table = accounts()
    assert told not in str(gv.check(payments(), table))
    table["label"] = np.array(["fraud"] * 3 + ["ok"] * 57)
    found = gv.check(payments(), table)
    assert told in str(found)
    assert "--class-weight balanced" in str(found)
    table["age"] = np.array(["old"] * 60)
    assert str(gv.check(payments(), table)).endswith("1 problem")


def test_what_would_help_helps() -> None:
    pays, table = messy()
    pays["target"][-1] = "acc0-7"
    found = gv.check(pays, table, encode="auto", clean=True, drop=["remark"])
    assert found.ready, str(found)
    remarks = "\n".join(found.remarks)
    assert "dropped columns of the node table: 'remark'" in remarks
    assert "column 'branch' is read as category: 'Basel', 'Bern'" in remarks
    assert "column 'income' is read as number; one more number says where it is known" in remarks
    assert "--clean drops 1 self-loops and 1 repeated edges" in remarks


def test_at_node_level_columns_are_declared() -> None:
    pays, table = messy()
    pays["target"][-1] = "acc0-7"
    found = gv.check(pays, table, unit="node", encode="auto", clean=True, drop=["remark"])
    assert "column 'branch' would be encoded by features that this unit protects: declare" in found.problems[0]
    assert found.options == ["--categories FILE"]
    declared = {"branch": ["Basel", "Bern"], "income": "number?"}
    assert gv.check(pays, table, unit="node", categories=declared, clean=True, drop=["remark"]).ready


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": None}, "no column 'id' with the ids"),
        ({"label": None}, "no column 'label' with the labels"),
        ({"label": ["ok"] * 60}, "all labels are 'ok': there is nothing to tell apart"),
        ({"label": ["ok", "NULL"] * 30}, "NULL may mean that there is none"),
        ({"id": ["a"] * 60}, "id a occurs before"),
        ({"split": ["train", "dev"] * 30}, "split is dev"),
        ({"balance": None, "age": None}, "no feature columns are left"),
        ({"note": [f"text {k}" for k in range(60)]}, "feature 'note' is text 0"),
    ],
)
def test_problems_of_node_tables(changes: dict[str, Any], words: str) -> None:
    table = {name: column for name, column in (accounts() | changes).items() if column is not None}
    found = gv.check(payments(), table)
    assert words in "\n".join(found.problems)


def test_tables_of_a_release_are_checked_by_its_names() -> None:
    schema = gv.Graph.from_edges(payments(), accounts()).schema
    table = accounts(1)
    del table["label"]
    found = gv.check(payments(1), table, schema=schema)
    assert found.ready
    assert "no labels: predicted ones are used instead" in found.remarks
    table["extra"] = table.pop("age")
    assert "no column 'age', and has others: 'extra'" in gv.check(None, table, schema=schema).problems[0]


class TestCommandLine:
    @pytest.fixture
    def mine(self, tmp_path: Path) -> list[str]:
        pays, table = messy()
        pays["target"][-1] = "acc0-7"
        (tmp_path / "pays.csv").write_text(written(pays))
        (tmp_path / "accounts.csv").write_text(written(table))
        return ["--edges", str(tmp_path / "pays.csv"), "--nodes", str(tmp_path / "accounts.csv")]

    def test_one_follows_its_advice_to_a_model(self, mine: list[str], tmp_path: Path) -> None:
        """Typed as told, until there is a certificate."""
        first = CliRunner().invoke(app, ["check", *mine])
        assert first.exit_code == 2
        assert "problem  edges: 1 self-loops" in first.stdout
        following = shlex.split(first.stdout.rpartition("next: ")[2])
        assert following[0] == "graphveil"
        second = CliRunner().invoke(app, [*following[1:], "--json"])
        assert second.exit_code == 0, second.output
        told = json.loads(second.stdout)
        assert told["ready"]
        command = shlex.split(told["next"].replace("--out model", f"--out {tmp_path / 'model'} --seed 0"))
        assert command[:3] == ["graphveil", "train", "hearsay"]
        trained = CliRunner().invoke(app, command[1:])
        assert trained.exit_code == 0, trained.output
        after = CliRunner().invoke(
            app, ["check", *mine, "--drop", "remark", "--clean", "--like", str(tmp_path / "model")]
        )
        assert after.exit_code == 0, after.output
        assert "next: graphveil infer" in after.stdout

    def test_nothing_to_look_at(self) -> None:
        assert isinstance(CliRunner().invoke(app, ["check"]).exception, InvalidInput)
