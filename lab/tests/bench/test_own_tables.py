"""Graphs of one's own in a spec: found beside it, told apart by what is in them, split like datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphveil.errors import InvalidInput
from graphveil_lab.bench import runner, spec
from graphveil_lab.bench.own_tables import OwnTables, whole

SPEC = """
title = "t"
datasets = ["mine"]
unit = "edge"
delta = "n^-1.1"
epsilons = [4]
seeds = [0]
[tables.mine]
edges = "edges.csv"
nodes = "nodes.csv"
[[method]]
name = "mlp"
params = {epochs = 2}
"""


def write(folder: Path, text: str = SPEC, nodes: int = 40, split: bool = False) -> spec.Spec:
    """A spec beside its tables, read."""
    folder.mkdir(exist_ok=True)
    parts = ["train", "val", "test", "train"]
    rows = (f"n{i},{'xy'[i % 2]},{i % 2},{i % 3}{',' + parts[i % 4] if split else ''}\n" for i in range(nodes))
    (folder / "nodes.csv").write_text(f"id,label,a,b{',split' if split else ''}\n" + "".join(rows))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 2) % nodes}\n" for i in range(nodes)))
    (folder / "s.toml").write_text(text)
    return spec.load(folder / "s.toml")


def test_own_tables_are_a_dataset(tmp_path: Path) -> None:
    made = write(tmp_path / "a")
    assert made.num_nodes("mine") == 40
    assert made.delta_on("mine") == pytest.approx(40**-1.1)
    [record] = runner.run(made, out=tmp_path / "records")
    assert record.result is not None
    assert record.task.dataset == "mine"
    assert runner.finished(made, out=tmp_path / "records") == [record]


def test_the_name_of_a_run_follows_the_tables_and_not_their_place(tmp_path: Path) -> None:
    [here], [there], [other] = (
        write(tmp_path / place, nodes=nodes).tasks() for place, nodes in (("a", 40), ("b", 40), ("c", 42))
    )
    assert here.key() == there.key() != other.key()
    assert here.tables["mine"].edges != there.tables["mine"].edges


def test_tasks_without_own_tables_keep_their_names(tmp_path: Path) -> None:
    """The field came later: whoever has no tables of their own sees nothing of it."""
    made = write(tmp_path, SPEC.replace('["mine"]', '["chain-s"]'))
    [task] = made.tasks()
    assert task.tables == {}
    assert "tables" not in task.model_dump(exclude_defaults=True)


def test_splits(tmp_path: Path) -> None:
    own = write(tmp_path, split=True).tables["mine"]
    given, drawn = own.load("mine", "public", 0), own.load("mine", "random", 3)
    assert given.split == "given"
    assert drawn.split.startswith("random(")
    assert drawn.split_hash() != own.load("mine", "random", 4).split_hash()
    assert own.load("mine", "two_graphs", 0).public_graph is not None


def test_a_graph_to_test_on_may_be_one_s_own(tmp_path: Path) -> None:
    text = SPEC.replace('["mine"]', '["mine"]\ntest_on = ["also"]').replace('"n^-1.1"', "1e-5")
    (tmp_path / "also").mkdir()
    write(tmp_path / "also")
    made = write(tmp_path, text + '[tables.also]\nedges = "also/edges.csv"\nnodes = "also/nodes.csv"\n')
    [record] = runner.run(made, out=tmp_path / "records")
    assert record.result is not None, record.failure
    assert set(record.result.elsewhere) == {"also"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[tables.mine]", "[tables.social]", "there is a dataset 'social' already"),
        ('"edges.csv"', '"gone.csv"', "gone.csv cannot be read: No such file"),
        ("edges =", "arcs =", "mine.arcs: unknown key"),
        ('datasets = ["mine"]', 'datasets = ["yours"]', "unknown dataset 'yours'; known: .*mine"),
        ("seeds", 'split = "public"\nseeds', "the tables of 'mine' have no split 'public'"),
        ('"nodes.csv"', '"nodes.csv"\nlabel = "nothing"', "no column 'nothing'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        write(tmp_path, SPEC.replace(old, new, 1))


def test_a_graph_is_read_once(tmp_path: Path) -> None:
    own: OwnTables = write(tmp_path).tables["mine"]
    assert whole(own, "mine") is whole(own, "mine")
