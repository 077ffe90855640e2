"""Experiments are read strictly, and hashed so that the same run has the same name for ever."""

from __future__ import annotations

import hashlib
import math
import re
import sys
from pathlib import Path

import pytest

from graphveil.errors import InvalidInput
from graphveil.vocabulary import Reading, Unit
from graphveil_lab.bench import spec

GOOD = """
title = "t"
datasets = ["chain-s"]
unit = "node"
delta = 1e-5
epsilons = [2, "inf"]
seeds = [0, 1]
[[method]]
name = "dpsgd"
params = {steps = 3}
grid = {learning_rate = [16, 32], clip = [0.1, 1]}
[[method]]
name = "mlp"
label = "floor"
epsilons = [inf]
"""


def read(tmp_path: Path, text: str) -> spec.Spec:
    path = tmp_path / "trial.toml"
    path.write_text(text)
    return spec.load(path)


def test_a_file_imports_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a file imports nothing"):
        read(tmp_path, GOOD.replace('name = "dpsgd"', 'name = "lurking:Lurk"'))
    assert "lurking" not in sys.modules


def test_reads_what_is_written(tmp_path: Path) -> None:
    made = read(tmp_path, GOOD)
    assert (made.unit, made.readings, made.epsilons) == (Unit.NODE, (Reading.SOUND,), (2.0, math.inf))
    assert [entry.label for entry in made.methods] == ["dpsgd", "floor"]
    assert [(p.learning_rate, p.clip, p.steps) for p in made.methods[0].points()] == [  # type: ignore[attr-defined]
        (16.0, 0.1, 3), (16.0, 1.0, 3), (32.0, 0.1, 3), (32.0, 1.0, 3)
    ]  # fmt: skip
    assert [cell.place[1:] for cell in made.cells()] == [
        ("dpsgd", "sound", 2.0), ("dpsgd", "sound", math.inf), ("floor", "sound", math.inf)
    ]  # fmt: skip
    assert len(made.tasks()) == 2 * (2 * 4 + 1)
    assert len(made.tasks(quick=True)) == 2 + 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds =", "seed =", "seed: unknown key"),
        ('title = "t"', "", "title: Field required"),
        ("[0, 1]", "[0, 0]", "seeds: list at least one value"),
        ("[0, 1]", "[]", "seeds: list at least one value"),
        ("[0, 1]", "[true]", "seeds.0"),
        ("[0, 1]", "[9223372036854775808]", "seeds.0"),
        ("seeds =", 'split = "per_class"\nseeds =', "'chain-s' has no split 'per_class'; use one of: random, public"),
        ("1e-5", "1.0", "delta"),
        ('[2, "inf"]', "[0]", "epsilons.0"),
        ('[2, "inf"]', "[nan]", "epsilons.0"),
        ('[2, "inf"]', '["2"]', "epsilons.0"),
        ('"chain-s"', '"chain-z"', "datasets.0: unknown dataset 'chain-z'"),
        ('"node"', '"house"', "unit"),
        ('"node"', '"edge"', "dpsgd does not protect the unit 'edge'"),
        ('"dpsgd"', '"dpsdg"', "method.0.name: unknown method 'dpsdg'; did you mean: dpsgd"),
        ("steps = 3", "step = 3", "method.0: dpsgd has no hyper-parameter 'step'"),
        ("steps = 3", "steps = 3.5", "method.0: steps is 3.5"),
        ("steps = 3", 'steps = "3"', "method.0: steps is '3'"),
        ("steps = 3", "steps = 0", "method.0: dpsgd needs"),
        ("steps = 3", "clip = 3.0", "method.0: clip is both fixed"),
        ("[16, 32]", "[]", "method.0.grid.learning_rate"),
        ('name = "mlp"\nlabel = "floor"', 'name = "mlp"\nlabel = "dpsgd"', "two entries share the line"),
        ("[16, 32]", "[16, 32", "not valid TOML"),
        ("seeds =", 'metric = "luck"\nseeds =', "metric"),
        ("seeds =", 'splits = {chain-m = "public"}\nseeds =', "splits: chain-m is no dataset of this experiment"),
        ("seeds =", 'splits = {chain-s = "mine"}\nseeds =', "splits.chain-s"),
        ("seeds =", 'test_on = ["chain-z"]\nseeds =', "test_on.0: unknown dataset 'chain-z'"),
        ("seeds =", 'test_on = ["chain-s"]\nseeds =', "none that a model is trained on"),
        (
            "seeds =",
            'test_on = ["chain-m", "chain-m"]\nseeds =',
            "test_on: list at least one value",
        ),
        ("delta = 1e-5", 'delta = "n^-1.1"\ntest_on = ["chain-m"]', "give delta as a number"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidInput, match=re.escape(said)) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert "trial.toml" in str(caught.value)


@pytest.mark.parametrize(("old", "new"), [("steps = 3", "steps = 0"), ('"dpsgd"', '"dpsdg"'), ("[16, 32]", "[]")])
def test_one_mistake_is_one_line(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, GOOD.replace(old, new, 1).split('[[method]]\nname = "mlp"')[0])
    assert len(str(caught.value).splitlines()) == 1


def test_a_published_figure_needs_a_line_to_stand_on(tmp_path: Path) -> None:
    figure = '[[published]]\ndataset = "chain-s"\nmethod = "floor"\nreading = "sound"\nsource = "s"\n'
    assert read(tmp_path, f'{GOOD}{figure}epsilon = "inf"\naccuracy = 0.5').published[0].score == 0.5
    with pytest.raises(InvalidInput, match="no line of this table"):
        read(tmp_path, f"{GOOD}{figure}epsilon = 2\naccuracy = 0.5")
    with pytest.raises(InvalidInput, match="has two figures; keep one"):
        read(tmp_path, f'{GOOD}{figure}epsilon = "inf"\naccuracy = 0.5\n' + f"{figure}epsilon = inf\naccuracy = 0.6")
    with pytest.raises(InvalidInput, match=r"published\.0\.accuracy"):
        read(tmp_path, f'{GOOD}{figure}epsilon = "inf"\naccuracy = 50.0')


BLOCK = '[[published]]\nmethod = "dpsgd"\nreading = "sound"\n'


def test_published_figures_may_stand_side_by_side(tmp_path: Path) -> None:
    """One block with lists says what a block per figure says: over epsilons, or over datasets."""
    text = GOOD.replace('["chain-s"]', '["chain-s", "chain-m"]')
    one = 'dataset = "chain-s"\nepsilon = [2, "inf"]\naccuracy = [0.5, 0.75]\nsource = ["Table 1", "Table 2"]\n'
    other = 'dataset = ["chain-m", "chain-s"]\nepsilon = 2\naccuracy = [0.25, 0.5]\nsource = "Table 1"\n'
    assert read(tmp_path, f"{text}{BLOCK}{one}").published == [
        spec.Published(("chain-s", "dpsgd", "sound", 2.0), 0.5, "Table 1"),
        spec.Published(("chain-s", "dpsgd", "sound", math.inf), 0.75, "Table 2"),
    ]
    assert read(tmp_path, f"{text}{BLOCK}{other}").published == [
        spec.Published(("chain-m", "dpsgd", "sound", 2.0), 0.25, "Table 1"),
        spec.Published(("chain-s", "dpsgd", "sound", 2.0), 0.5, "Table 1"),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('epsilon = [2, "inf"]\naccuracy = [0.5]\nsource = "s"', "published.0: accuracy lists 1, but"),
        ('epsilon = [2, "inf"]\naccuracy = [0.5, 0.6, 0.7]\nsource = "s"', "published.0: accuracy lists 3, but"),
        ('epsilon = [2, "inf"]\naccuracy = 0.5\nsource = "s"', "published.0: accuracy lists 1, but"),
        ('epsilon = 2\naccuracy = [0.5, 0.6]\nsource = "s"', "epsilon and dataset name 1; list them side by side"),
        ('epsilon = [2, 2]\naccuracy = [0.5, 0.6]\nsource = "s"', "published.0.epsilon: list at least one value"),
        ('epsilon = []\naccuracy = []\nsource = "s"', "published.0.epsilon: list at least one value"),
        ('epsilon = 2\naccuracy = []\nsource = "s"', "needs the figure that this table shows, accuracy"),
        ("epsilon = 2\naccuracy = 0.5\nsource = []", "source lists 0 for 1 figures"),
        (
            'epsilon = [2, "inf"]\naccuracy = [0.5, 0.6]\nsource = ["s", "t", "u"]',
            "source lists 3 for 2 figures; give one for all or one for each",
        ),
        ('epsilon = [2, "inf"]\nacuracy = [0.5, 0.6]\nsource = "s"', "published.0.acuracy: unknown key"),
        ('epsilon = [2, "inf"]\naccuracy = [0.5, 60.0]\nsource = "s"', "published.0.accuracy.1"),
        ('epsilon = [2, 3]\naccuracy = [0.5, 0.6]\nsource = "s"', "'dpsgd', 'sound', 3.0) is no line of this table"),
        (
            'test_on = "chain-m"\nepsilon = [2, "inf"]\naccuracy = [[0.5], 0.6]\nsource = "s"',
            "published.0.accuracy.0",
        ),
    ],
)
def test_lists_of_figures_that_do_not_match_are_refused(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)) as caught:
        read(tmp_path, f'{GOOD}{BLOCK}dataset = "chain-s"\n{lines}\n')
    assert len(str(caught.value).splitlines()) == 1


def test_figures_run_over_epsilons_or_datasets(tmp_path: Path) -> None:
    text = GOOD.replace('["chain-s"]', '["chain-s", "chain-m"]')
    both = 'dataset = ["chain-s", "chain-m"]\nepsilon = [2, "inf"]\naccuracy = [0.5, 0.6]\nsource = "s"\n'
    with pytest.raises(InvalidInput, match="list several epsilons or several datasets, not both"):
        read(tmp_path, f"{text}{BLOCK}{both}")


def test_missing_files_and_unknown_names() -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.toml cannot be read"):
        spec.load("nowhere.toml")
    with pytest.raises(InvalidInput, match="unknown experiment 'flor'; did you mean floor"):
        spec.load("flor")
    with pytest.raises(InvalidInput, match=r"give a \.toml file, or a name from `graphveil bench list`"):
        spec.load("zzz")


@pytest.mark.parametrize("name", spec.names())
def test_packaged_experiments_are_valid(name: str) -> None:
    assert spec.load(name).tasks()


def test_the_name_of_a_task_never_changes() -> None:
    task = spec.BenchTask(
        dataset="social",
        split="random",
        seed=3,
        method="dpsgd",
        params={"steps": 3, "clip": 0.1},
        unit=Unit.NODE,
        reading=Reading.SOUND,
        epsilon=math.inf,
        delta=1e-5,
    )
    text = (
        '{"schema":1,"task":{"dataset":"social","delta":1e-05,"epsilon":"inf","method":"dpsgd",'
        '"params":{"clip":0.1,"steps":3},"reading":"sound","seed":3,"split":"random","unit":"node"}}'
    )
    assert task.key() == hashlib.sha256(text.encode()).hexdigest()
    assert task.model_copy(update={"params": {"clip": 0.1, "steps": 3}}).key() == task.key()
    assert task.model_copy(update={"seed": 4}).key() != task.key()
    assert spec.BenchTask.model_validate_json(task.model_dump_json()) == task


def test_whole_and_decimal_numbers_are_one_task(tmp_path: Path) -> None:
    one, other = read(tmp_path, GOOD), read(tmp_path, GOOD.replace("[16, 32]", "[16.0, 32.0]").replace("[2,", "[2.0,"))
    assert [task.key() for task in one.tasks()] == [task.key() for task in other.tasks()]


def test_a_default_belongs_to_the_task(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).tasks()[0].params["momentum"] == 0.0


def test_one_dataset_may_have_another_split(tmp_path: Path) -> None:
    text = GOOD.replace('["chain-s"]', '["chain-s", "chain-m"]').replace(
        "seeds =", 'splits = {chain-m = "random_80_20"}\nseeds ='
    )
    assert {(task.dataset, task.split) for task in read(tmp_path, text).tasks()} == {
        ("chain-s", "random"), ("chain-m", "random_80_20")
    }  # fmt: skip


def test_an_entry_may_have_another_split(tmp_path: Path) -> None:
    text = GOOD.replace("seeds =", 'splits = {chain-s = "random_80_20"}\nseeds =')
    own = f'{text}[[method]]\nname = "dpsgd"\nlabel = "public"\nsplit = "two_graphs"\n'
    assert {task.split for task in read(tmp_path, own).tasks()} == {"random_80_20", "two_graphs"}
    made = read(tmp_path, own)
    assert {(cell.entry.label, made.split_of(cell)) for cell in made.cells()} == {
        ("dpsgd", "random_80_20"), ("floor", "random_80_20"), ("public", "two_graphs")
    }  # fmt: skip
    needy = f'{text}[[method]]\nname = "census"\n'
    with pytest.raises(InvalidInput, match="census needs a public graph; use split = 'two_graphs'"):
        read(tmp_path, needy)
    assert read(tmp_path, f'{needy}split = "two_graphs"\n').tasks()


def test_a_grid_may_be_charged_as_one_run(tmp_path: Path) -> None:
    """For the whole experiment or one entry; what has no grid stays as it is."""
    free, charged = read(tmp_path, GOOD), read(tmp_path, GOOD.replace("seeds =", 'selection = "charged"\nseeds ='))
    assert len(free.tasks()) == 2 * (2 * 4 + 1)
    assert [(cell.entry.label, cell.charged, len(cell.points())) for cell in charged.cells()] == [
        ("dpsgd", True, 1), ("dpsgd", True, 1), ("floor", False, 1)
    ]  # fmt: skip
    assert {task.method for task in charged.tasks()} == {"best", "mlp"}
    assert len(charged.tasks()) == 2 * (2 + 1)
    one = read(tmp_path, GOOD.replace("params = {steps = 3}", 'params = {steps = 3}\nselection = "charged"'))
    assert [task.key() for task in one.tasks()] == [task.key() for task in charged.tasks()]
    best = next(task for task in one.tasks() if task.method == "best")
    assert [(p["learning_rate"], p["clip"]) for p in best.params["candidates"]] == [
        (16.0, 0.1), (16.0, 1.0), (32.0, 0.1), (32.0, 1.0)
    ]  # fmt: skip
    assert spec.BenchTask.model_validate_json(best.model_dump_json()) == best


def test_a_search_that_cannot_be_charged_is_refused(tmp_path: Path) -> None:
    text = f'{GOOD}[[method]]\nname = "heterpoisson"\nselection = "charged"\ngrid = {{clip = [0.1, 1.0]}}\n'
    with pytest.raises(InvalidInput, match="selection is charged, but best cannot choose for heterpoisson"):
        read(tmp_path, text)


def test_a_part_of_an_experiment_has_the_same_tasks(tmp_path: Path) -> None:
    text = GOOD.replace('["chain-s"]', '["chain-s", "chain-m"]').replace("epsilons = [inf]", 'datasets = ["chain-l"]')
    made = read(tmp_path, text)
    for wanted, labels in (({"chain-s"}, {"dpsgd"}), ({"chain-l", "chain-m"}, {"dpsgd", "floor"})):
        part = made.only(wanted)
        assert part is not None
        assert {entry.label for entry in part.methods} == labels
        assert [task.key() for task in part.tasks()] == [
            task.key() for task in made.tasks() if task.dataset in wanted
        ]  # fmt: skip
    assert made.only({"cora"}) is None


def test_quick_takes_the_smallest_datasets() -> None:
    made = spec.load("leaderboard")
    quick = {task.dataset for task in made.tasks(quick=True)}
    assert quick == {"chain-s", "chain-m", "chain-l", "chain-x", "chameleon-undirected", "cora"}
    assert {task.key() for task in made.tasks(quick=True)} <= {task.key() for task in made.tasks()}


def test_several_experiments_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    (tmp_path / "smoke.toml").write_text(GOOD)
    path = str(tmp_path / "mine.toml")
    assert list(spec.load_many(["smoke", path, "smoke"])) == ["smoke", "mine"]
    assert list(spec.load_many(["all"])) == spec.names()
    with pytest.raises(InvalidInput, match="two experiments are called 'smoke'"):
        spec.load_many(["smoke", str(tmp_path / "smoke.toml")])
    assert list(spec.load_many(["floor", path], ["chain-s"])) == ["mine"]
    with pytest.raises(InvalidInput, match=r"no dataset 'chain-m' there; the datasets are: chain-s"):
        spec.load_many([path], ["chain-s", "chain-m"])


def test_other_graphs_are_lines_of_their_own_but_no_runs(tmp_path: Path) -> None:
    plain = read(tmp_path, GOOD)
    made = read(tmp_path, GOOD.replace("seeds =", 'test_on = ["chain-m", "chain-l"]\nseeds ='))
    assert len(made.cells()) == 3 * len(plain.cells())
    assert len(made.tasks()) == len(plain.tasks())
    assert dict.fromkeys(cell.graphs for cell in made.cells()).keys() == {
        "chain-s", "chain-s -> chain-m", "chain-s -> chain-l"
    }  # fmt: skip
    assert not {task.key() for task in made.tasks()} & {task.key() for task in plain.tasks()}
    assert {task.test_on for task in made.tasks()} == {("chain-m", "chain-l")}


def test_a_method_for_nodes_outside_training_has_no_whole_graph(tmp_path: Path) -> None:
    text = GOOD.replace("seeds =", 'test_on = ["chain-m"]\nseeds =')
    with pytest.raises(InvalidInput, match="heterpoisson predicts for nodes outside training"):
        read(tmp_path, f'{text}[[method]]\nname = "heterpoisson"\n')


def test_a_published_figure_is_in_the_metric_of_the_table(tmp_path: Path) -> None:
    text = GOOD.replace("seeds =", 'metric = "rare_f1"\ntest_on = ["chain-m"]\nseeds =')
    figure = '[[published]]\ndataset = "chain-s"\nmethod = "floor"\nreading = "sound"\nsource = "s"\nepsilon = "inf"\n'
    made = read(tmp_path, f'{text}{figure}test_on = "chain-m"\nrare_f1 = 0.5')
    assert made.published[0].place == ("chain-s -> chain-m", "floor", "sound", math.inf)
    with pytest.raises(InvalidInput, match="needs the figure that this table shows, rare_f1"):
        read(tmp_path, f"{text}{figure}accuracy = 0.5")
    with pytest.raises(InvalidInput, match="no line of this table"):
        read(tmp_path, f'{text}{figure}test_on = "chain-l"\nrare_f1 = 0.5')
