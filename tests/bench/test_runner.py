"""Records: nothing is lost by a kill, nothing is computed twice, workers change nothing."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import pytest
import torch

import graphveil as gv
from graphveil.bench import runner
from graphveil.bench.spec import Spec, load
from graphveil.core import InvalidInput
from graphveil.engine import Local, Ray


def make(*methods: dict[str, Any], **changes: Any) -> Spec:
    base = {"title": "t", "datasets": ["chain-s"], "unit": "node", "delta": 1e-5, "epsilons": [2], "seeds": [0, 1]}
    return Spec.model_validate(base | changes | {"method": methods or (DPSGD,)})


DPSGD = {"name": "dpsgd", "params": {"steps": 3}}

SLOW = """
import sys
from pathlib import Path
from graphveil.bench import runner, spec
runner.run(spec.load(sys.argv[1]), out=Path(sys.argv[2]))
"""


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


def test_killed_and_started_again(tmp_path: Path) -> None:
    out, path = tmp_path / "out", tmp_path / "slow.toml"
    path.write_text(
        'title = "slow"\ndatasets = ["social"]\nunit = "node"\ndelta = 1e-5\nepsilons = [2]\n'
        f"seeds = {list(range(6))}\n"
        '[[method]]\nname = "dpsgd"\nparams = {steps = 800}\n'
    )
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(path), str(out)])
    deadline = time.monotonic() + 60
    while not stamps(out) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = stamps(out)
    assert 1 <= len(before) < 6
    spec = load(path)
    records = runner.run(spec, out=out)
    after = stamps(out)
    assert len(records) == len(after) == 6
    assert {name: after[name] for name in before} == before


def timeless(record: runner.Record) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude={"seconds", "peak_mb"})


def test_two_workers_give_the_records_of_one(tmp_path: Path) -> None:
    methods = (
        {"name": "dpsgd", "params": {"steps": 10}},
        {"name": "mlp", "params": {"epochs": 10, "hidden": 8}, "epsilons": ["inf"]},
        {"name": "gcn", "params": {"epochs": 5, "hidden": 8}, "epsilons": ["inf"]},
    )
    spec = make(*methods, datasets=["social"])
    alone = runner.run(spec, out=tmp_path / "1")
    together = runner.run(spec, out=tmp_path / "2", engine=Local(2))
    assert [timeless(record) for record in alone] == [timeless(record) for record in together]
    assert stamps(tmp_path / "1").keys() == stamps(tmp_path / "2").keys()


@pytest.mark.xdist_group("ray")
def test_ray_gives_the_records_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs graphveil[ray]")
    spec = make({"name": "dpsgd", "params": {"steps": 5}}, seeds=[0, 1])
    alone = runner.run(spec, out=tmp_path / "1")
    cluster = runner.run(spec, out=tmp_path / "2", engine=Ray())
    assert [timeless(record) for record in alone] == [timeless(record) for record in cluster]


def threads() -> tuple[int, int]:
    return torch.get_num_threads(), numba.get_num_threads()


def test_threads_are_taken_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(task: Any) -> tuple[None, str, float]:  # noqa: ARG001
        seen.append(threads())
        return None, "only looking", 0.0

    monkeypatch.setattr(runner, "_attempt", look)
    before = threads()
    torch.set_num_threads(2)
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    try:
        runner.run(make(), out=tmp_path)
        assert threads() == (2, numba.config.NUMBA_NUM_THREADS)
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


def test_any_other_error_stops_the_run_but_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = runner._train

    def breaks(graph: Any, task: Any) -> Any:
        if task.seed == 1:
            raise ZeroDivisionError("a bug")
        return train(graph, task)

    monkeypatch.setattr(runner, "_train", breaks)
    with pytest.raises(ZeroDivisionError):
        runner.run(make(seeds=[0, 1, 2]), out=tmp_path)
    assert len(stamps(tmp_path)) == 1
    assert len(list(tmp_path.iterdir())) == 1


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
            trained = runner._train(gv.datasets.load("chain-s", seed=0), record.task)
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
    perfect = runner._scores(graph.y, graph, graph.test)
    assert (perfect.accuracy, perfect.rare_f1) == (1.0, 1.0)
    never = torch.where(graph.y == rarest, other, graph.y)
    assert runner._scores(never, graph, graph.test).rare_f1 == 0.0
    always = torch.full_like(graph.y, rarest)
    share = float((graph.y == rarest).double().mean())
    assert runner._scores(always, graph, graph.y >= 0).rare_f1 == pytest.approx(2 * share / (1 + share))
    with pytest.raises(InvalidInput, match="no nodes to score"):
        runner._scores(always, graph, torch.zeros_like(graph.test))


def test_records_from_before_a_metric_are_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    spec = make(seeds=[0])
    [record] = runner.run(spec, out=tmp_path)
    path = tmp_path / f"{record.task.key()}.json"
    old = json.loads(path.read_text())
    del old["task"]["test_on"], old["result"]["elsewhere"]
    del old["result"]["val"]["rare_f1"], old["result"]["test"]["rare_f1"]
    path.write_text(json.dumps(old))
    before = stamps(tmp_path)
    runner.run(spec, out=tmp_path)
    assert stamps(tmp_path) == before
    rare = make(seeds=[0], metric="rare_f1")
    assert runner.finished(rare, out=tmp_path) == []
    assert [timeless(again) for again in runner.run(rare, out=tmp_path)] == [timeless(record)]
    assert stamps(tmp_path) != before
