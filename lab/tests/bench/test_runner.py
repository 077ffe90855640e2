"""Records: nothing is lost by a kill, nothing is computed twice, workers change nothing."""

from __future__ import annotations

import gc
import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import time
import weakref
from collections.abc import Generator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numba
import pytest
import torch
from typer.testing import CliRunner, Result

import graphveil as gv
from graphveil.cli import app
from graphveil.errors import GraphveilError, InvalidInput
from graphveil.runtime.compute import Compute
from graphveil.runtime.engine import Local
from graphveil.tasks.class_scores import judged
from graphveil_lab import kept_files
from graphveil_lab.bench import runner, table
from graphveil_lab.bench.record import Record, quality_of
from graphveil_lab.bench.spec import Spec, load


def make(*methods: dict[str, Any], **changes: Any) -> Spec:
    base = {"title": "t", "datasets": ["chain-s"], "unit": "node", "delta": 1e-5, "epsilons": [2], "seeds": [0, 1]}
    return Spec.model_validate(base | changes | {"method": methods or (DPSGD,)})


DPSGD = {"name": "dpsgd", "params": {"steps": 3}}
TUNED = {**DPSGD, "grid": {"clip": [0.1, 0.2]}, "selection": "charged"}

SLOW = """
title = "slow"
datasets = ["social"]
unit = "node"
delta = 1e-5
epsilons = [2]
seeds = [0, 1, 2, 3, 4, 5]
[[method]]
name = "dpsgd"
params = {steps = 800}
"""


def command(*words: str) -> Result:
    return CliRunner().invoke(app, ["bench", *words])


def stamps(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob("*.json")}


def test_a_record_says_what_ran_and_what_came_out(tmp_path: Path) -> None:
    [record] = runner.run(make(seeds=[5]), out=tmp_path)
    assert record.task.seed == 5
    assert record.result is not None
    assert record.result.epsilon == record.result.sound_epsilon
    assert 1.9 < record.result.epsilon <= 2.0
    assert record.result.noise > 0
    assert 0 <= record.result.val.accuracy <= 1
    assert record.peak_mb > 10
    assert set(record.versions) == {"graphveil", "torch"}
    assert [path.name for path in tmp_path.iterdir()] == [f"{record.task.key()}.json"]


def test_records_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Scores tell of private labels, and what went wrong may tell more."""
    runner.run(make(seeds=[5]), out=tmp_path / "kept")
    folder, record = tmp_path / "kept", next((tmp_path / "kept").iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, record)] == [0o700, 0o600]


def test_infinity_survives_the_file(tmp_path: Path) -> None:
    spec = make({"name": "mlp", "params": {"epochs": 2}}, epsilons=["inf"], seeds=[0])
    [first] = runner.run(spec, out=tmp_path)
    [again] = runner.run(spec, out=tmp_path)
    assert first == again
    assert again.result is not None
    assert again.result.epsilon == again.task.epsilon == math.inf


def test_finished_records_are_kept_and_damaged_ones_made_again(tmp_path: Path) -> None:
    spec = make(seeds=[0, 1, 2, 3])
    records = runner.run(spec, out=tmp_path)
    cut, strange, foreign, kept = (tmp_path / f"{record.task.key()}.json" for record in records)
    cut.write_bytes(cut.read_bytes()[:100])
    strange.write_text('{"schema_version": 1}')
    foreign.write_bytes(kept.read_bytes())
    before = stamps(tmp_path)
    again = runner.run(spec, out=tmp_path)
    changed = {name for name, stamp in stamps(tmp_path).items() if stamp != before[name]}
    assert changed == {cut.name, strange.name, foreign.name}
    assert [timeless(record) for record in again] == [timeless(record) for record in records]


def test_records_of_another_schema_do_not_count(tmp_path: Path) -> None:
    [record] = runner.run(make(seeds=[0]), out=tmp_path)
    path = tmp_path / f"{record.task.key()}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 0}))
    assert runner.finished(make(seeds=[0]), out=tmp_path) == []


def interrupted(tmp_path: Path, jobs: int, how: signal.Signals) -> tuple[Path, Path, int, str]:
    """Six slow tasks, stopped, workers and all, when the first is done: the spec, the records, exit code and stderr."""
    out, path = tmp_path / "out", tmp_path / "slow.toml"
    path.write_text(SLOW)
    words = ["bench", "run", str(path), "--out", str(out), "--jobs", str(jobs)]
    process = subprocess.Popen(
        [sys.executable, "-m", "graphveil", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A background job of a shell ignores interrupts, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 180
    while not stamps(out) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, how)
    _, said = process.communicate()
    return path, out, process.returncode, said


@pytest.mark.slow  # what is interrupted goes on, below
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_and_started_again(tmp_path: Path, jobs: int) -> None:
    path, out, _, _ = interrupted(tmp_path, jobs, signal.SIGKILL)
    before = stamps(out)
    assert 1 <= len(before) < 6
    records = runner.run(load(path), out=out)
    after = stamps(out)
    assert len(records) == len(after) == 6
    assert {name: after[name] for name in before} == before


def test_an_interrupt_ends_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    _, out, code, said = interrupted(tmp_path, 1, signal.SIGINT)
    assert code == 130
    assert f"stopped; what is finished is kept in {out}: the same command goes on from there" in said
    assert "Traceback" not in said
    assert 1 <= len(list(out.iterdir())) < 6


def timeless(record: Record) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude={"seconds", "peak_mb"})


def test_two_workers_give_the_records_of_one(tmp_path: Path) -> None:
    methods = (
        {"name": "dpsgd", "params": {"steps": 10}},
        {"name": "mlp", "params": {"epochs": 10, "hidden": 8}, "epsilons": ["inf"]},
        {"name": "gcn", "params": {"epochs": 5, "hidden": 8}, "epsilons": ["inf"]},
        {"label": "tuned", **TUNED},
    )
    spec = make(*methods, datasets=["social"])
    alone = runner.run(spec, out=tmp_path / "1")
    together = runner.run(spec, out=tmp_path / "2", compute=Compute(jobs=2))
    assert [timeless(record) for record in alone] == [timeless(record) for record in together]
    assert stamps(tmp_path / "1").keys() == stamps(tmp_path / "2").keys()


@pytest.mark.slow  # the engine itself is tried on Ray in runtime/test_engine.py
def test_ray_gives_the_records_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs graphveil[ray]")
    spec = make({"name": "dpsgd", "params": {"steps": 5}}, {"label": "tuned", **TUNED}, seeds=[0, 1])
    alone = runner.run(spec, out=tmp_path / "1")
    cluster = runner.run(spec, out=tmp_path / "2", compute=Compute(engine="ray"))
    assert [timeless(record) for record in alone] == [timeless(record) for record in cluster]


def threads() -> tuple[int, int]:
    return torch.get_num_threads(), numba.get_num_threads()


def test_threads_are_taken_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(task: Any, compute: Any) -> tuple[None, str, float]:  # noqa: ARG001
        seen.append(threads())
        return None, "only looking", 0.0

    monkeypatch.setattr(runner, "attempt", look)
    before = threads()
    torch.set_num_threads(2)
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    try:
        runner.run(make(), out=tmp_path)
        assert threads() == (2, numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
    assert seen == [(1, 1)] * 2


def test_a_refused_task_is_recorded_and_tried_again(tmp_path: Path) -> None:
    spec = make(DPSGD, {"name": "gcn"}, seeds=[0])
    private, refused = runner.run(spec, out=tmp_path)
    assert private.result is not None
    assert refused.result is None
    assert refused.failure.startswith("Unsupported: no amount of noise")
    assert runner.finished(spec, out=tmp_path) == [private, refused]
    before = stamps(tmp_path)
    runner.run(spec, out=tmp_path)
    changed = [name for name, stamp in stamps(tmp_path).items() if stamp != before[name]]
    assert changed == [f"{refused.task.key()}.json"]


def test_a_failed_task_is_told_by_the_exit_code_and_one_line(tmp_path: Path) -> None:
    text = SLOW.replace("[0, 1, 2, 3, 4, 5]", "[0]").replace("social", "chain-s").replace("800", "3")
    (tmp_path / "half.toml").write_text(f'{text}\n[[method]]\nname = "gcn"\n')
    done = command("run", str(tmp_path / "half.toml"), "--out", str(tmp_path / "records"), "--quiet")
    assert done.exit_code == 1
    assert "1 of the tasks failed, the first with: Unsupported: no amount of noise" in done.stderr
    assert "gcn" in done.stdout


def test_any_other_error_is_recorded_too_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, spec = runner._train, make(seeds=[0, 1, 2])

    def breaks(graph: Any, task: Any, compute: Any) -> Any:
        if task.seed == 1:
            raise ZeroDivisionError("a bug")
        return train(graph, task, compute)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_train", breaks)
        first, broken, last = runner.run(spec, out=tmp_path)
    assert re.fullmatch(r"ZeroDivisionError: a bug \(test_runner\.py, line \d+\)", broken.failure)
    assert first.result is not None
    assert last.result is not None
    assert all(record.result for record in runner.run(spec, out=tmp_path))


def test_a_lost_worker_is_said_in_a_sentence(tmp_path: Path) -> None:
    class Broken(Local):
        def stream(self, work: Any, shared: Any, items: Any) -> Generator[Any]:  # noqa: ARG002
            yield from ()
            raise BrokenProcessPool("killed")

    with pytest.raises(GraphveilError, match="fewer --jobs"):
        runner.run(make(), out=tmp_path, compute=Compute(engine=Broken()))


def test_what_experiments_share_is_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = make(seeds=[0, 1]), make(DPSGD, MLP, seeds=[1, 2], epsilons=[2], unit="node", metric="f1")
    found = runner.run_many([one, other], out=tmp_path)
    assert [[record.task.seed for record in records] for records in found] == [[0, 1], [1, 1, 2, 2]]
    assert len(stamps(tmp_path)) == 5
    assert "2 experiments: 5 tasks, 0 done before, 5 to run" in capsys.readouterr().err
    # Two of them failed: mlp has no finite epsilon at node level.
    assert runner.run(one, out=tmp_path, progress=False) == found[0]
    assert capsys.readouterr().err == ""
    runner.run(other, out=tmp_path)
    assert "t: 4 tasks, 2 done before, 2 to run" in capsys.readouterr().err
    assert runner.progress_of(other, out=tmp_path) == {"title": "t", "tasks": 4, "done": 2, "failed": 2, "hours": 0.0}


def test_a_charged_choice_is_one_run_that_costs_what_was_asked(tmp_path: Path) -> None:
    [record] = runner.run(make(TUNED, seeds=[0]), out=tmp_path)
    assert record.task.method == "best"
    assert [one["clip"] for one in record.task.params["candidates"]] == [0.1, 0.2]
    assert record.result is not None
    assert 1.9 < record.result.epsilon <= 2.0
    assert record.result.chosen in record.task.params["candidates"]
    assert runner.finished(make(TUNED, seeds=[0]), out=tmp_path) == [record]
    [free, _] = runner.run(make({**TUNED, "selection": "free"}, seeds=[0]), out=tmp_path)
    assert free.result is not None
    assert free.result.noise < record.result.noise
    assert free.result.chosen == {}


def test_the_table_says_who_paid_for_the_search(tmp_path: Path) -> None:
    spec = make(DPSGD, {**TUNED, "label": "paid"}, {**TUNED, "label": "free", "selection": "free"}, seeds=[0])
    rows = table.summarise(spec, runner.run(spec, out=tmp_path))
    assert [(row.method, row.selection, row.tuned.get("clip")) for row in rows[:2]] == [
        ("dpsgd", "fixed", None), ("paid", "charged", [0.1, 0.2])
    ]  # fmt: skip
    assert (rows[2].selection, rows[2].tuned["clip"] in (0.1, 0.2)) == ("tuned on validation, cost not charged", True)


def test_a_charged_choice_is_tested_elsewhere_by_its_winner(tmp_path: Path) -> None:
    grid = {**GAP, "grid": {"hops": [1, 2]}}
    [record] = runner.run(make(grid, unit="edge", seeds=[0], test_on=["chain-m"], selection="charged"), out=tmp_path)
    assert record.result is not None
    assert 1.9 < record.result.elsewhere["chain-m"].epsilon <= 2


def test_the_quick_leaderboard_runs_every_method(tmp_path: Path) -> None:
    out, results = tmp_path / "records", tmp_path / "table.json"
    where = ("--out", str(out), "--results", str(results))
    done = command("run", "leaderboard", "--quick", "--datasets", "chain-s", *where)
    assert done.exit_code == 0, done.output
    rows = kept_files.read(results).content
    assert [row["failure"] for row in rows if row["failed"]] == []
    entries = [entry for entry in load("leaderboard").methods if "chain-s" in (entry.datasets or ("chain-s",))]
    assert [row["method"] for row in rows] == [entry.label for entry in entries]
    assert len(stamps(out)) == len(entries)


def test_a_part_does_not_overwrite_the_whole(tmp_path: Path) -> None:
    path, table = tmp_path / "t.toml", tmp_path / "table.json"
    path.write_text(SLOW.replace("steps = 800", "steps = 2").replace('"social"', '"chain-s", "chain-m"'))
    words = ("run", str(path), "--out", str(tmp_path / "records"), "--results", str(table))
    assert command(*words).exit_code == 0
    whole = table.read_text()
    done = command(*words, "--datasets", "chain-s")
    assert done.exit_code != 0
    assert "write to another file" in str(done.exception)
    assert table.read_text() == whole
    assert command(*words).exit_code == 0, "the whole may be written again"
    half = (*words[:-1], str(tmp_path / "half.json"), "--datasets")
    for again in range(2):
        assert command(*half, "chain-s").exit_code == 0, again
    done = command(*half, "chain-m")
    assert "write to another file" in str(done.exception), "as many lines, but others"
    assert command(*half, "chain-m", "--merge").exit_code == 0
    joined, both = (kept_files.read(file).content for file in (tmp_path / "half.json", table))
    untimed = {"seconds": 0, "peak_mb": 0}
    assert [line | untimed for line in joined] == [line | untimed for line in both]


def test_a_quick_run_does_not_overwrite_the_whole(tmp_path: Path) -> None:
    path, table = tmp_path / "t.toml", tmp_path / "table.json"
    path.write_text(SLOW.replace("steps = 800", "steps = 2").replace('"social"', '"chain-s"'))
    words = ("run", str(path), "--out", str(tmp_path / "records"), "--results")
    assert command(*words, str(table)).exit_code == 0
    whole = table.read_text()
    done = command(*words, str(table), "--quick")
    assert done.exit_code != 0, "one line as well, but of one seed"
    assert "more lines or seeds than this part of the experiment; write to another file" in str(done.exception)
    assert table.read_text() == whole
    for again in range(2):
        assert command(*words, str(tmp_path / "quick.json"), "--quick").exit_code == 0, again
    assert command(*words, str(tmp_path / "quick.json")).exit_code == 0, "the whole may replace a part"
    assert kept_files.read(tmp_path / "quick.json").content == json.loads(whole)["lines"]


def test_several_experiments_in_one_command(tmp_path: Path) -> None:
    text = SLOW.replace("steps = 800", "steps = 2").replace('"social"', '"chain-s", "chain-m"')
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(text.replace("slow", name))
    given = (str(tmp_path / "one.toml"), str(tmp_path / "two.toml"))
    where = ("--out", str(tmp_path / "records"), "--results", str(tmp_path / "tables"), "--datasets", "chain-s")
    done = command("run", *given, *where)
    assert done.exit_code == 0, done.output
    assert "2 experiments: 6 tasks" in done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(("one", "two"))] == ["one: one", "two: two"]
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {"one.json", "two.json"}
    (tmp_path / "two.toml").write_text(text.replace("slow", "two").replace('"chain-s", ', ""))
    (tmp_path / "tables" / "one.json").unlink()
    left = command("run", *given, *where)
    assert left.stdout.startswith("one: one\n"), "what is left of several is shown and kept as one of several"
    assert (tmp_path / "tables" / "one.json").exists()
    (tmp_path / "two.toml").write_text(text.replace("slow", "two"))
    both = json.loads(command("run", *given, *where, "--json", "--quiet").stdout)
    assert [(name, [row["dataset"] for row in rows]) for name, rows in both.items()] == [
        ("one", ["chain-s"]), ("two", ["chain-s"])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("smoke", "smok"), "unknown experiment 'smok'"),
        (("smoke", "--datasets", "social,corra"), "no dataset 'corra' there; the datasets are: "),
        (("smoke", "--results", "."), "is a folder"),
        (("smoke", "floor", "--results", __file__), "cannot be written"),
    ],
    ids=["name", "dataset", "one-file", "one-folder"],
)
def test_mistakes_are_found_before_anything_runs(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = command("run", *words, "--out", str(tmp_path / "records"))
    assert isinstance(done.exception, InvalidInput)
    assert said in str(done.exception)
    assert not (tmp_path / "records").exists()


@pytest.mark.parametrize("name", ["run", "audit"])
def test_an_unwritable_folder_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command(name, "smoke", "--out", str(tmp_path / "file"))
    assert isinstance(done.exception, InvalidInput)
    assert "cannot be written" in str(done.exception)


def test_nothing_to_show_says_what_to_do(tmp_path: Path) -> None:
    done = command("show", "smoke", "--out", str(tmp_path))
    assert isinstance(done.exception, InvalidInput)
    assert "graphveil bench run smoke" in str(done.exception)


def test_the_list_says_how_much_is_done(tmp_path: Path) -> None:
    smoke = load("smoke")
    runner.run(smoke, out=tmp_path, quick=True, progress=False)
    rows = {row["name"]: row for row in json.loads(command("list", "--out", str(tmp_path), "--json").stdout)}
    assert {"leaderboard", "smoke", "edge"} <= rows.keys()
    assert rows["smoke"]["title"] == smoke.title
    assert (rows["smoke"]["tasks"], rows["smoke"]["done"]) == (len(smoke.tasks()), len(smoke.tasks(quick=True)))
    assert (rows["edge"]["done"], rows["edge"]["failed"]) == (0, 0)


def test_quick_runs_are_part_of_the_full_run(tmp_path: Path) -> None:
    spec = make({**DPSGD, "grid": {"clip": [0.1, 0.2, 0.4]}}, epsilons=[2, 4])
    quick = runner.run(spec, out=tmp_path, quick=True)
    assert [(r.task.seed, r.task.epsilon, r.task.params["clip"]) for r in quick] == [(0, 2.0, 0.1), (0, 2.0, 0.2)]
    assert {record.task.key() for record in quick} <= {task.key() for task in spec.tasks()}


def test_configurations_of_one_graph_run_together() -> None:
    tasks = make({**DPSGD, "grid": {"clip": [0.1, 0.2]}}, datasets=["social", "chain-s"]).tasks()
    order = [(task.dataset, task.seed) for task in tasks]
    assert order == sorted(order)


GAP = {"name": "gap", "params": {"epochs": 2, "hidden": 4, "head": 4}}
MLP = {"name": "mlp", "params": {"epochs": 2}}


def test_a_model_is_tested_on_other_graphs_with_their_own_budget(tmp_path: Path) -> None:
    spec = make(GAP, MLP, unit="edge", seeds=[0], test_on=["chain-m", "chain-l"])
    for record in runner.run(spec, out=tmp_path):
        assert record.result is not None
        assert list(record.result.elsewhere) == ["chain-m", "chain-l"]
        for name, there in record.result.elsewhere.items():
            graph = gv.datasets.load(name)
            trained = runner._train(gv.datasets.load("chain-s", seed=0), record.task, Compute())
            if record.task.method == "mlp":
                assert (there.epsilon, there.sound_epsilon) == (0, 0)
                predicted = trained.predict(graph)
            else:
                assert 1.9 < there.epsilon <= 2
                seed = runner.seed_for(graph, record.task)
                assert seed != record.task.seed
                predicted = gv.infer(trained, graph, epsilon=2.0, delta=1e-5, seed=seed).predict()
            assert there.scores.accuracy == float((predicted == graph.y).double().mean())
    assert runner.finished(spec, out=tmp_path) == runner.run(spec, out=tmp_path)


def test_the_fingerprint_is_of_all_graphs_that_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, both = make(seeds=[0]), make(seeds=[0], test_on=["chain-m"])
    [first], [second] = (runner.run(spec, out=tmp_path) for spec in (alone, both))
    assert first.data == runner.split_of("chain-s", None, "random")
    assert len(second.data) == 64
    assert second.data != first.data
    held = {name: runner.fingerprint_of(name) for name in ("chain-s", "chain-m")}
    monkeypatch.setattr(runner, "fingerprint_of", lambda name, _=None: (held | {"chain-m": "f" * 64})[name])
    assert runner.finished(alone, out=tmp_path) == [first]
    assert runner.finished(both, out=tmp_path) == [], "chain-m is another graph now"
    monkeypatch.setattr(runner, "fingerprint_of", lambda name, _=None: (held | {"chain-m": ""})[name])
    assert runner.finished(both, out=tmp_path) == [second], "chain-m is not here, so nobody knows better"


def test_another_split_is_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of a dataset may be as before while others train."""
    spec = make(seeds=[0])
    [first] = runner.run(spec, out=tmp_path)
    load = runner._loaded
    monkeypatch.setattr(runner, "_loaded", lambda *given: load(*given).random_split(0.5, 0.25, 0.25, seed=7))
    runner.split_of.cache_clear()
    assert runner.finished(spec, out=tmp_path) == []
    monkeypatch.undo()
    runner.split_of.cache_clear()
    assert runner.finished(spec, out=tmp_path) == [first]


def test_a_public_graph_beside_is_data_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told = runner.split_of("chain-l", None, "two_graphs")
    load = runner._loaded
    monkeypatch.setattr(runner, "_loaded", lambda *given: load("chain-l", None, "two_graphs_exchanged", given[3]))
    runner.split_of.cache_clear()
    assert runner.split_of("chain-l", None, "two_graphs") not in ("", told)
    runner.split_of.cache_clear()


def test_no_second_copy_of_a_graph_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the fingerprint would be in the memory of every run."""
    load, loaded = runner._loaded, []
    monkeypatch.setattr(runner, "_loaded", lambda *given: (loaded.append(weakref.ref(made := load(*given))), made)[1])
    for held in (runner._graph, runner._other_graph, runner.split_of):
        held.cache_clear()
    runner.run(make(seeds=[0]), out=tmp_path)
    gc.collect()
    assert len(loaded) == 3
    assert sum(graph() is not None for graph in loaded) == 1


def test_predictions_from_private_features_protect_nobody_elsewhere(tmp_path: Path) -> None:
    [record] = runner.run(make(seeds=[0], test_on=["chain-m"]), out=tmp_path)
    assert record.result is not None
    assert record.result.elsewhere["chain-m"].epsilon == math.inf


def test_a_graph_of_another_shape_is_a_failure(tmp_path: Path) -> None:
    [record] = runner.run(make(GAP, unit="edge", seeds=[0], test_on=["social"]), out=tmp_path)
    assert "features" in record.failure


def test_rare_f1_is_that_of_the_graphs_rarest_class() -> None:
    graph = gv.datasets.load("social")
    rarest = int(torch.bincount(graph.y).argmin())
    other = (rarest + 1) % graph.num_classes
    perfect = quality_of(graph.y, graph, graph.test)
    assert (perfect.accuracy, perfect.rare_f1) == (1.0, 1.0)
    never = torch.where(graph.y == rarest, other, graph.y)
    assert quality_of(never, graph, graph.test).rare_f1 == 0.0
    always = torch.full_like(graph.y, rarest)
    share = float((graph.y == rarest).double().mean())
    assert quality_of(always, graph, graph.y >= 0).rare_f1 == pytest.approx(2 * share / (1 + share))
    with pytest.raises(InvalidInput, match="no nodes to score"):
        quality_of(always, graph, torch.zeros_like(graph.test))


def test_precision_is_weighted_by_how_many_have_the_class() -> None:
    graph = gv.datasets.load("social")
    shares = torch.bincount(graph.y).double() / graph.num_nodes
    everyone = graph.y >= 0
    assert quality_of(graph.y, graph, everyone).precision == 1.0
    # Said of all, a class is right for its share of them; said of none, it counts as 0.
    always = torch.zeros_like(graph.y)
    assert quality_of(always, graph, everyone).precision == pytest.approx(float(shares[0] ** 2))
    merged = torch.where(graph.y == 1, 0, graph.y)
    expected = float(shares[0] * shares[0] / (shares[0] + shares[1]) + shares[2:].sum())
    assert quality_of(merged, graph, everyone).precision == pytest.approx(expected)
    # A class that nobody of those has weighs nothing.
    assert quality_of(graph.y, graph, graph.y == 2).precision == 1.0


def test_a_constant_guess_has_the_precision_that_heterpoisson_prints_for_it() -> None:
    """Table 3, PubMed, naive DP-SGD at epsilon 2: 15.4, which is all nodes called by its second class."""
    truth = torch.repeat_interleave(torch.arange(3), torch.tensor([4103, 7739, 7875]))
    assert judged(torch.ones_like(truth), truth, 3)["weighted_precision"] == pytest.approx(0.154, abs=5e-4)


@pytest.mark.parametrize("metric", ["rare_f1", "precision"])
def test_records_from_before_a_metric_are_kept_unless_it_is_asked_for(tmp_path: Path, metric: str) -> None:
    spec = make(seeds=[0])
    [record] = runner.run(spec, out=tmp_path)
    path = tmp_path / f"{record.task.key()}.json"
    old = json.loads(path.read_text())
    del old["task"]["test_on"], old["result"]["elsewhere"]
    del old["result"]["val"][metric], old["result"]["test"][metric]
    path.write_text(json.dumps(old))
    before = stamps(tmp_path)
    runner.run(spec, out=tmp_path)
    assert stamps(tmp_path) == before
    asking = make(seeds=[0], metric=metric)
    assert runner.finished(asking, out=tmp_path) == []
    assert runner.progress_of(asking, out=tmp_path)["done"] == 0
    assert [timeless(again) for again in runner.run(asking, out=tmp_path)] == [timeless(record)]
    assert stamps(tmp_path) != before
    [row] = table.summarise(asking, runner.finished(asking, out=tmp_path))
    assert record.result is not None
    assert (row.metric, row.test) == (metric, getattr(record.result.test, metric))


def test_a_failure_does_not_replace_a_result_that_lacks_a_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [record] = runner.run(make(seeds=[0]), out=tmp_path)
    path = tmp_path / f"{record.task.key()}.json"
    old = json.loads(path.read_text())
    del old["result"]["test"]["precision"]
    path.write_text(json.dumps(old))
    monkeypatch.setattr(runner, "_train", lambda *_: 1 / 0)
    [again] = runner.run(make(seeds=[0], metric="precision"), out=tmp_path)
    assert again.failure.startswith("ZeroDivisionError")
    assert json.loads(path.read_text()) == old


def test_a_record_of_another_machine_replaces_an_older_one(tmp_path: Path) -> None:
    class Away(Local):
        """Writes its records where nobody here reads them."""

        def stream(self, work: Any, shared: Any, items: Any) -> Generator[Any]:
            yield from super().stream(work, (tmp_path / "there", *shared[1:]), items)

    here = tmp_path / "here"
    [record] = runner.run(make(seeds=[0]), out=here)
    path = here / f"{record.task.key()}.json"
    old = json.loads(path.read_text())
    del old["result"]["val"]["precision"], old["result"]["test"]["precision"]
    path.write_text(json.dumps(old))
    asking = make(seeds=[0], metric="precision")
    found = runner.run(asking, out=here, compute=Compute(engine=Away()))
    assert found == runner.finished(asking, out=here)


@pytest.mark.parametrize("metric", ["balanced_accuracy", "auc", "average_precision"])
def test_a_table_may_show_scores_for_unequal_classes(tmp_path: Path, metric: str) -> None:
    spec = make({"name": "mlp", "params": {"epochs": 2}}, unit="edge", metric=metric, seeds=[0])
    (record,) = runner.run(spec, out=tmp_path, progress=False)
    assert record.result is not None
    (row,) = table.summarise(spec, [record])
    assert (row.metric, row.test) == (metric, getattr(record.result.test, metric))
    assert 0 <= row.test <= 1
