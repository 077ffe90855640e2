"""The table: tuned on validation, reported on test, beside the published figure."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from graphveil.errors import InvalidInput
from graphveil_lab import kept_files
from graphveil_lab.bench import runner, spec, table
from graphveil_lab.bench.record import Elsewhere, Quality, Record, Result
from graphveil_lab.bench.revisions import made_by
from graphveil_lab.bench.spec import Spec
from reported import row, write

CLIPS = (0.1, 0.2, 0.4)


def make(**changes: Any) -> Spec:
    base = {
        "title": "t",
        "datasets": ["social"],
        "unit": "node",
        "delta": 1e-5,
        "epsilons": [2],
        "seeds": [0, 1],
        "method": [{"name": "dpsgd", "label": "ours", "grid": {"clip": list(CLIPS)}}],
    }
    return Spec.model_validate(base | changes)


def record(made: Spec, point: int, seed: int, val: float, test: float, spent: float = 1.5) -> Record:
    cell = made.cells()[0]
    return Record(
        schema_version=spec.SCHEMA,
        task=made.task(cell, cell.entry.points()[point], seed),
        result=Result(
            epsilon=spent,
            sound_epsilon=spent + 1,
            delta=1e-5,
            noise=1.0,
            val=Quality(accuracy=val, f1=0.0),
            test=Quality(accuracy=test, f1=0.0),
        ),
        seconds=1.0,
        peak_mb=1.0,
        made_by=made_by("dpsgd"),
        versions={},
    )


def failed(made: Spec, point: int, seed: int) -> Record:
    return record(made, point, seed, 0, 0).model_copy(update={"result": None, "failure": "Unsupported: no"})


def grid(made: Spec, scores: list[list[tuple[float, float]]]) -> list[Record]:
    """Records from scores[point][seed] = (validation, test)."""
    return [record(made, point, seed, *pair) for point, pairs in enumerate(scores) for seed, pair in enumerate(pairs)]


def test_validation_chooses_even_where_test_disagrees() -> None:
    made = make()
    records = grid(made, [[(0.6, 0.9), (0.6, 0.9)], [(0.8, 0.2), (0.6, 0.4)], [(0.9, 0.95), (0.4, 0.95)]])
    [row] = table.summarise(made, records)
    assert row.tuned == {"clip": 0.2}
    assert row.params["clip"] == 0.2
    assert row.params["steps"] == 100
    assert row.validation == pytest.approx(0.7)
    assert row.test == pytest.approx(0.3)


def test_test_scores_cannot_change_the_choice() -> None:
    made = make()
    scores = [[(0.6, t), (0.6, t)] for t in (0.1, 0.9, 0.5)]
    assert {table.summarise(made, grid(made, scores[k:] + scores[:k]))[0].tuned["clip"] for k in range(3)} == {0.1}


def test_spread_over_the_seeds() -> None:
    made = make(seeds=[0, 1, 2], method=[{"name": "dpsgd"}])
    [row] = table.summarise(made, grid(made, [[(0.5, 0.5), (0.5, 0.8), (0.5, 0.2)]]))
    assert row.seeds == 3
    assert row.test == pytest.approx(0.5)
    assert row.std == pytest.approx(0.3)
    assert row.stderr == pytest.approx(0.3 / math.sqrt(3))
    assert row.interval == pytest.approx(4.302653 * 0.3 / math.sqrt(3)), "Student's t with two degrees of freedom"
    assert (row.best, row.best_seed) == (0.8, 1)
    assert row.selection == "fixed"


def test_one_seed_has_no_spread() -> None:
    made = make(seeds=[7], method=[{"name": "dpsgd"}])
    [row] = table.summarise(made, [record(made, 0, 7, 0.5, 0.6)])
    assert (row.seeds, row.test, row.std, row.stderr, row.best_seed) == (1, 0.6, None, None, 7)


def test_the_certificate_is_the_worst_over_the_seeds() -> None:
    made = make()
    [row] = table.summarise(made, [record(made, 0, 0, 0.5, 0.5, 1.5), record(made, 0, 1, 0.5, 0.5, 1.75)])
    assert (row.certificate_epsilon, row.sound_epsilon) == (1.75, 2.75)


def test_time_and_memory_are_the_least_over_the_seeds() -> None:
    made = make(seeds=[0, 1, 2], method=[{"name": "dpsgd"}])
    runs = [
        record(made, 0, seed, 0.5, 0.5).model_copy(update={"seconds": seconds, "peak_mb": peak})
        for seed, (seconds, peak) in enumerate([(1.0, 900.0), (7.0, 700.0), (2.0, 800.0)])
    ]
    [row] = table.summarise(made, runs)
    assert (row.seconds, row.peak_mb) == (1.0, 700.0)


def test_soundness_is_stated_for_both_readings() -> None:
    made = make(readings=["published"], method=[{"name": "dpsgd"}])
    assert table.summarise(made, [record(made, 0, 0, 0.5, 0.5)])[0].soundness == "not proven; provable: 2.500"
    sound = make(method=[{"name": "dpsgd"}])
    assert table.summarise(sound, [record(sound, 0, 0, 0.5, 0.5)])[0].soundness == "proven"


def test_a_half_run_point_does_not_compete() -> None:
    made = make()
    full = [record(made, 0, 0, 0.5, 0.5), record(made, 0, 1, 0.5, 0.5)]
    [row] = table.summarise(made, [*full, record(made, 1, 0, 0.9, 0.9), failed(made, 1, 1)])
    assert row.tuned == {"clip": 0.1}
    assert (row.seeds, row.failed, row.failure) == (2, 1, "Unsupported: no")


def test_a_line_without_a_result_is_not_hidden() -> None:
    made = make()
    [row] = table.summarise(made, [failed(made, point, 0) for point in range(3)])
    assert (row.seeds, row.failed, row.test, row.certificate_epsilon) == (0, 3, None, None)
    assert "3: Unsupported: no" in table.show([row])
    assert table.summarise(made, []) == []
    assert table.show([]) == "no records"


@pytest.mark.parametrize(
    ("grid", "spent", "said"),
    [
        ([4, 8], 1.0, "tuned on validation, cost not charged"),
        ([4, 8], float("inf"), "tuned on validation, cost not charged"),
        ([4, 8], 0.0, "tuned on validation (free)"),
        ([4], 1.0, "fixed"),
    ],
)
def test_rows_state_how_they_were_tuned(grid: list[int], spent: float, said: str) -> None:
    """Also at edge level, where labels are public: each grid point that spends is a release of its own."""
    made = make(unit="edge", method=[{"name": "mlp", "grid": {"hidden": grid}}])
    [row] = table.summarise(made, [record(made, 0, 0, 0.5, 0.5, spent)])
    assert row.selection == said


def test_the_published_figure_stands_beside_ours(tmp_path: Path) -> None:
    place = {"dataset": "social", "method": "ours", "epsilon": 2, "reading": "sound"}
    figure = place | {"accuracy": 0.75, "source": "X, Table 2"}
    made = make(epsilons=[1, 2], published=[figure])
    near = make(epsilons=[2])
    rows = table.summarise(made, [*grid(made, [[(0.5, 0.6)]]), *grid(near, [[(0.5, 0.7)]])])
    assert [(row.epsilon, row.published, row.source) for row in rows] == [(1.0, None, ""), (2.0, 0.75, "X, Table 2")]
    assert rows[0].difference is None
    assert rows[1].difference == pytest.approx(-0.05)
    text = table.show(rows)
    assert in_order(text.splitlines()[3], "75.00", "-5.00", "X, Table 2")
    table.write(rows, tmp_path / "deep" / "t.json")
    assert kept_files.read(tmp_path / "deep" / "t.json").content == json.loads(table.show(rows, json=True))


def in_order(line: str, *parts: str) -> bool:
    """Whether the parts stand in the line, in this order."""
    places = [line.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_text_is_aligned_and_json_is_sorted() -> None:
    made = make(epsilons=["inf"])
    rows = table.summarise(made, [record(made, 0, seed, 0.5, 0.5 + seed / 10, math.inf) for seed in (0, 1)])
    head, rule, line = table.show(rows).splitlines()
    assert line.index("55.00") == head.index(" test") + 1
    assert "published" not in head
    assert set(rule) == {"-", " "}
    [plain] = json.loads(table.show(rows, json=True))
    assert list(plain) == sorted(plain)
    assert plain["epsilon"] == plain["certificate_epsilon"] == "inf"


def test_epsilon_is_never_rounded_down() -> None:
    made = make()
    assert "1.501" in table.show(table.summarise(made, [record(made, 0, 0, 0.5, 0.5, 1.5001)]))


def test_smoke_from_file_to_table(tmp_path: Path) -> None:
    made = spec.load("smoke")
    rows = table.summarise(made, runner.run(made, out=tmp_path, progress=False))
    assert [(row.method, row.epsilon, row.seeds) for row in rows] == [("dpsgd", 2.0, 2), ("mlp", math.inf, 2)]


def test_another_graph_has_a_line_in_the_metric_of_the_table() -> None:
    figure = {"dataset": "social", "test_on": "chain-s", "method": "ours", "epsilon": 2, "reading": "sound"}
    made = make(seeds=[0], metric="rare_f1", test_on=["chain-s"], published=[figure | {"rare_f1": 0.75, "source": "X"}])
    accurate, rare = elsewhere(made, 0, 0.9, 0.4), elsewhere(made, 1, 0.5, 0.6)
    home, away = table.summarise(made, [accurate, rare])
    assert home.tuned == away.tuned == {"clip": 0.2}, "chosen by the metric of the table"
    assert (home.dataset, home.metric, home.validation, home.test) == ("social", "rare_f1", 0.6, 0.25)
    assert (home.certificate_epsilon, home.published) == (1.5, None)
    assert (away.dataset, away.validation, away.test) == ("social -> chain-s", 0.6, 0.7)
    assert (away.certificate_epsilon, away.sound_epsilon) == (1.25, 1.75)
    assert (away.published, away.difference) == (0.75, pytest.approx(-0.05))
    assert in_order(table.show([home, away]).splitlines()[3], "social -> chain-s", "rare_f1", "70.00", "75.00")


def elsewhere(made: Spec, point: int, accuracy: float, rare_f1: float) -> Record:
    """A record with these validation scores, tested on chain-s too."""
    known = record(made, point, 0, accuracy, 0.0)
    assert known.result is not None
    val, test, there = (Quality(accuracy=accuracy, f1=0.0, rare_f1=share) for share in (rare_f1, 0.25, 0.7))
    away = {"chain-s": Elsewhere(epsilon=1.25, sound_epsilon=1.75, scores=there)}
    result = known.result.model_copy(update={"val": val, "test": test, "elsewhere": away})
    return known.model_copy(update={"result": result})


def test_the_board_sets_methods_against_datasets(tmp_path: Path) -> None:
    made = make(datasets=["social", "chain-s"], epsilons=[2, 4], method=[{"name": "dpsgd"}])
    cells = {(cell.dataset, cell.epsilon): cell for cell in made.cells()}
    records = [
        record(made, 0, seed, 0.5, test).model_copy(
            update={"task": made.task(cells[place], cells[place].entry.points()[0], seed)}
        )
        for place, tests in {("social", 4.0): (0.7, 0.9), ("chain-s", 4.0): (0.5, 0.5), ("social", 2.0): (0.1,)}.items()
        for seed, test in enumerate(tests)
    ]
    table.write(table.summarise(made, records), tmp_path / "t.json")
    title, _, head, _, line = table.board([tmp_path / "t.json"], 4.0).splitlines()
    assert title == "**node level, split random, ε = 4**"
    assert head == "| method | audited ε | social | chain-s |"
    assert line == "| dpsgd |  | 80.0 ± 127.1 | 50.0 ± 0.0 |"


def kept(**changes: Any) -> dict[str, Any]:
    """A line of an older file at epsilon 4."""
    return row(**{"epsilon": 4.0, "certificate_epsilon": 4.0, "sound_epsilon": 4.0, **changes})


def test_the_board_tells_claims_and_costs_apart(tmp_path: Path) -> None:
    lines = [
        kept(method="gap", test=0.5, std=None),
        kept(method="gap", test=0.9, std=None, reading="published", audited=5.0, audit="REFUTED: canary_edge"),
        kept(method="progap", test=None, std=None, seeds=0),
        row(method="gcn", test=0.8, std=None, epsilon="inf", certificate_epsilon="inf", sound_epsilon="inf"),
        row(method="hearsay", test=0.7, std=None, epsilon=8.0),
    ]
    said = table.board([write(tmp_path / "t.json", lines)], 4.0)
    for line in ("| gap |  | 50.0 |", "| gap, published claim | > 5.000 REFUTED | 90.0 |", "| gcn, ε = ∞ |  | 80.0 |",
                 "| progap |  | failed |"):  # fmt: skip
        assert line in said
    assert "hearsay" not in said, "it was run at another epsilon"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("[]", "no kept file"),
        ('{"made": {}, "lines": [], "runs": []}', "no kept file"),
        ('{"made": {}, "runs": [{"x": 1}]}', "holds no table"),
        ('{"made": {}, "lines": []}', "holds no table"),
        ('{"made": {}, "lines": [{"method": "gap"}]}', "damaged at 0."),
    ],
    ids=["nothing", "bare", "both", "runs", "empty", "cut"],
)
def test_damaged_results_are_named(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    for shown in (lambda: table.markdown([path]), lambda: table.board([path], 4.0)):
        with pytest.raises(InvalidInput, match=said) as error:
            shown()
        assert "t.json" in str(error.value)
    write(path, [row()])
    with pytest.raises(InvalidInput, match="no result at epsilon 77; there are results at: 1"):
        table.board([path], 77.0)
