"""The benchmark of edge attacks: every run has a file of its own, and seeds are summed up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import edge_attacks
import graphveil as gv
from communities import communities
from edge_attacks import Cell, cells, fill, summary, tables
from graphveil.auditing.attacks.linkteller import LinkTeller
from graphveil.auditing.attacks.lpa import Lpa
from graphveil.auditing.game import Target
from graphveil.methods.method import Method
from graphveil.vocabulary import Unit


def test_every_run_has_a_file_of_its_own() -> None:
    wanted = cells([*edge_attacks.TABLE_4, *edge_attacks.FIGURE_7, "twitch-es"], [0, 1], quick=False)
    files = {cell.file for cell in wanted}
    assert len(files) == len(wanted)
    assert not any(set(file) & set(" ,/>") for file in files)
    assert {cell.part for cell in wanted} == set(edge_attacks.PARTS)


def test_what_is_there_is_not_run_again_and_is_shown(tmp_path: Path) -> None:
    auc = {"auc": 0.7, "auc low": 0.6, "auc high": 0.8, "tpr at 0.1 %": 0.0, "tpr at 1 %": 0.1}
    attacks = {"features alone": auc, "lpa": auc, "linkteller rerun": auc}
    found = []
    for seed, accuracy in ((0, 0.5), (1, 0.7)):
        cell = Cell("figure 7", "cora", "mlp", gv.methods.Mlp(), math.inf, seed)
        result = {"part": cell.part, "dataset": "cora", "method": "mlp", "epsilon": "inf", "sound epsilon": 0.0}
        edge_attacks.write_whole(
            tmp_path / cell.file, {**result, "seed": seed, "accuracy": accuracy, "attacks": attacks}
        )
        found.append(edge_attacks.measure(tmp_path, cell))
    (row,) = summary(found)
    assert row["accuracy"] == {"mean": 0.6, "std": 0.1414}
    assert row["seeds"] == 2
    made = tables([row])
    assert "| cora | 0.700 ± 0.000 | 0.821 | 0.700 ± 0.000 |" in made["floors"]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- edge-attacks: floors -->\nold\n<!-- /edge-attacks -->\nafter\n")
    fill(page, "edge-attacks", made)
    assert page.read_text().split("\n\n")[1] == made["floors"]
    assert "old" not in page.read_text()


def test_kept_runs_are_not_run_again(tmp_path: Path) -> None:
    cell = Cell("figure 10", "twitch-es", "mlp", gv.methods.Mlp(), math.inf, 0, there="twitch-de")
    run = {"part": "figure 10", "dataset": "twitch-es -> twitch-de", "method": "mlp", "epsilon": "inf", "seed": 0}
    edge_attacks.unpack([run], tmp_path / "runs")
    assert cell.key == edge_attacks.key_of(run)
    assert edge_attacks.measure(tmp_path / "runs", cell) == run
    edge_attacks.unpack([], tmp_path / "none")
    assert not list((tmp_path / "none").iterdir())


def test_shares_are_all_of_it() -> None:
    wanted = cells(["cora"], [0], quick=False)
    shares = [edge_attacks.share_of(wanted, f"{part}/3") for part in (1, 2, 3)]
    assert sorted(cell.file for share in shares for cell in share) == sorted(cell.file for cell in wanted)


@pytest.mark.parametrize("method", [gv.methods.Mlp(epochs=2), gv.methods.EdgeRand(epochs=2)], ids=["mlp", "edgerand"])
def test_another_graph_is_attacked_through_what_is_released_of_it(method: Method) -> None:
    here, there = communities(40, 0), communities(50, 1)
    target = Target(here, method, Unit.EDGE, 1.0, None, 1e-5)
    moved, release = edge_attacks.elsewhere(target, target.release(), there)
    assert moved.graph is there
    assert moved.seed != target.seed
    assert len(release.predict_proba()) == there.num_nodes
    for attack in (Lpa(10, natural=True, distance="euclidean"), LinkTeller(10, natural=True)):
        assert 0.0 <= attack.judged(moved, release, 0).auc() <= 1.0
    assert set(edge_attacks.rare(release, there)) == {"accuracy", "rare f1"}
