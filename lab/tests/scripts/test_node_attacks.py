"""The script of node attacks: its cells are told apart, kept, and read again instead of being run again."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

from graphveil.auditing.bounds import Scores
from node_attacks import CONTROLS, EPSILONS, FOUR, PRINTED, ROWS, Cell, cells, measure, tables, told, unpack


def _given(**changed: object) -> argparse.Namespace:
    usual = {"part": "all", "datasets": ["cora", "credit"], "seeds": [0, 1], "lira": ["cora"], "teachers": False}
    return argparse.Namespace(**{**usual, "epsilons": EPSILONS, **changed})


def test_every_cell_has_a_file_of_its_own() -> None:
    found = cells(_given())
    places = {cell.place(Path()) for cell in found}
    assert len(places) == len(found) == 2 * (sum(map(len, ROWS.values())) + len(FOUR) + len(CONTROLS))


def test_the_first_seed_comes_first_and_epsilons_can_be_chosen() -> None:
    assert [cell.seed for cell in cells(_given())] == sorted(cell.seed for cell in cells(_given()))
    assert {cell.epsilon for cell in cells(_given(part="table4", epsilons=[math.inf, 1.0]))} == {math.inf, 1.0}


def test_every_epsilon_of_caribou_has_a_printed_figure() -> None:
    assert all(len(row) == len(EPSILONS) for row in PRINTED.values())
    assert set(ROWS["caribou, nodes"]) <= set(EPSILONS)


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    cell = Cell("table4", "cora", "caribou, edges", 1.0, 0)
    scores = Scores(np.arange(1.0, 5), np.arange(4.0), np.arange(4), np.arange(4))
    kept = {"part": "table4", "dataset": "cora", "row": cell.row, "epsilon": "1.0", "attacks": {"gmia": told(scores)}}
    cell.place(tmp_path).write_text(json.dumps(kept))
    assert measure(tmp_path, cell) == kept
    assert "| cora | caribou, edges | 1 | 0.500 | 1 | 0.719 |" in tables([measure(tmp_path, cell)])["table 4"]


def test_kept_runs_are_not_run_again(tmp_path: Path) -> None:
    cell = Cell("table4", "cora", "gcn", math.inf, 1, lira=True)
    run = {"part": "table4", "dataset": "cora", "row": "gcn", "epsilon": "inf", "seed": 1, "lira": True, "attacks": {}}
    unpack([run], tmp_path / "runs")
    assert measure(tmp_path / "runs", cell) == run
