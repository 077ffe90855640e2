"""The benchmark of edge attacks: every run has a file of its own, and seeds are summed up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import edge_attacks
from edge_attacks import Cell, cells, show, summary


def test_every_run_has_a_file_of_its_own() -> None:
    wanted = cells([*edge_attacks.TABLE_4, *edge_attacks.FIGURE_7], [0, 1], quick=False)
    files = {cell.file for cell in wanted}
    assert len(files) == len(wanted)
    assert not any(set(file) & set(" ,/") for file in files)


def test_what_is_there_is_not_run_again_and_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    auc = {"auc": 0.7, "auc low": 0.6, "auc high": 0.8, "tpr at 0.1 %": 0.0, "tpr at 1 %": 0.1}
    attacks = {"features alone": auc, "lpa": auc, "linkteller rerun": auc}
    found = []
    for seed, accuracy in ((0, 0.5), (1, 0.7)):
        cell = Cell("figure 7", "cora", "mlp", edge_attacks.gv.methods.Mlp(), math.inf, seed)
        result = {"part": cell.part, "dataset": "cora", "method": "mlp", "epsilon": "inf", "sound epsilon": 0.0}
        edge_attacks.write_whole(
            tmp_path / cell.file, {**result, "seed": seed, "accuracy": accuracy, "attacks": attacks}
        )
        found.append(edge_attacks.measure(tmp_path, cell))
    (row,) = summary(found)
    assert row["accuracy"] == {"mean": 0.6, "std": 0.1}
    assert row["seeds"] == 2
    show([row])
    assert "| cora | 0.700 ± 0.000 | 0.821 | 0.700 ± 0.000 |" in capsys.readouterr().out
